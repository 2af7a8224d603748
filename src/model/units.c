/* units.c: what one observation is, where the user takes several outcomes together.
 *
 * The split (observations.c) is the finest that is honest. A coarser unit is a partition of its
 * observations: the iterations of the loop they are made in, or the values of a variable of the
 * data. The observations of a unit share one theta, so the log density of the unit is their sum,
 * and a predictive score averages the product of all its outcomes: it asks how units differ, not
 * how the outcomes within one do.
 */
#include "model/model_int.h"

#include <stdlib.h>
#include <string.h>

/* ---- partitions ------------------------------------------------------------------------------ */

typedef struct {
  double value;
  int32_t obs;
} Labelled;

static int by_label(const void *a, const void *b) {
  const Labelled *x = a, *y = b;
  if (x->value != y->value) return x->value < y->value ? -1 : 1;
  return x->obs < y->obs ? -1 : x->obs > y->obs;
}

static int by_observation(const void *a, const void *b) {
  const Labelled *x = a, *y = b;
  return x->obs < y->obs ? -1 : x->obs > y->obs;
}

/* unit[k] of every observation, numbered in the order in which they begin; how many there are. */
static int32_t partition(Arena *a, const double *label, size_t n, int32_t *unit) {
  Labelled *all = NEW_ARRAY(a, Labelled, n + 1), *first = NEW_ARRAY(a, Labelled, n + 1);
  int32_t *rank = NEW_ARRAY(a, int32_t, n + 1), count = 0;
  for (size_t k = 0; k < n; k++) all[k] = (Labelled){label[k], (int32_t)k};
  qsort(all, n, sizeof *all, by_label);
  for (size_t k = 0; k < n; k++) {
    if (k == 0 || all[k].value != all[k - 1].value) {
      first[count] = (Labelled){(double)count, all[k].obs};
      count++;
    }
    unit[all[k].obs] = count - 1;
  }
  qsort(first, (size_t)count, sizeof *first, by_observation);
  for (int32_t k = 0; k < count; k++) rank[(int32_t)first[k].value] = k;
  for (size_t k = 0; k < n; k++) unit[k] = rank[unit[k]];
  return count;
}

/* ---- which units there could be -------------------------------------------------------------- */

static void offer(Eval *E, UnitList *l, const char *name, const double *label, size_t n) {
  ModelUnit u = {.name = name};
  int32_t *of = NEW_ARRAY(E->arena, int32_t, n + 1);
  u.count = (size_t)partition(E->arena, label, n, of);
  u.of = of;
  if (u.count > 1 && u.count < n) PUSH(E->arena, l->items, l->n, l->cap, u);
}

/* A column of whole numbers that the data have, whether the program declares it or not. */
static void offer_column(Eval *E, UnitList *l, const DataVar *v, size_t n) {
  const Decl *d = model_find_decl(E->program, BLOCK_DATA, v->name);
  if (v->is_int && v->n == n && !(d && stan_is_outcome(E->program, d)))
    offer(E, l, arena_format(E->arena, "group:%s", v->name), v->values, n);
}

UnitList units_possible(Eval *E, const Model *m, const Data *data, const Observations *o) {
  UnitList l = {.n = 0};
  double *label = NEW_ARRAY(E->arena, double, o->n + 1);
  PUSH(E->arena, l.items, l.n, l.cap, ((ModelUnit){.name = "row", .count = o->n}));
  if (!o->n || o->blocks[0].root == NO_NODE) return l;
  for (size_t k = 0; k < o->n; k++) label[k] = o->iteration[k];
  offer(E, &l, "iteration", label, o->n);
  for (size_t k = 0; k < data->vars.count; k++)
    offer_column(E, &l, data->vars.items[k].value, o->n);
  for (int k = 0; k < m->nknown; k++) {
    const Decl *d = m->known[k].decl;
    if (d->block == BLOCK_TRANSFORMED_DATA && d->type->kind == TY_INT &&
        model_known(m, k, label, o->n))
      offer(E, &l, arena_format(E->arena, "group:%s", d->name), label, o->n);
  }
  return l;
}

int units_find(Eval *E, const UnitList *l, const char *name) {
  const char **names = NEW_ARRAY(E->arena, const char *, l->n);
  for (int k = 0; k < l->n; k++) {
    names[k] = l->items[k].name;
    if (!strcmp(names[k], name)) return k;
  }
  if (!strcmp(name, "iteration")) return 0;
  ctx_unknown(E->ctx, PVI_USAGE, NOWHERE,
              &(UnknownWord){"value of " OPTION("unit"), name, NULL, names, (size_t)l->n});
}

/* ---- observations of a unit ------------------------------------------------------------------ */

/* The observations, sorted by their units: those of unit u are member[first[u]] .. */
typedef struct {
  const ModelUnit *unit;
  int32_t *first;
  Pick *member; /* where each of them has its log density */
} Members;

static Members members_of(Eval *E, const Observations *o, const ModelUnit *u) {
  Members m = {u, NEW_ARRAY(E->arena, int32_t, u->count + 1), NEW_ARRAY(E->arena, Pick, o->n + 1)};
  int32_t *next = NEW_ARRAY(E->arena, int32_t, u->count + 1);
  Pick *place = NEW_ARRAY(E->arena, Pick, o->n + 1);
  for (int b = 0; b < o->nblocks; b++)
    for (int32_t r = 0; r < o->blocks[b].rows; r++)
      place[o->blocks[b].obs[r]] = (Pick){o->blocks[b].root, r};
  for (size_t k = 0; k < o->n; k++) m.first[u->of[k] + 1]++;
  for (size_t k = 0; k < u->count; k++) m.first[k + 1] += m.first[k];
  memcpy(next, m.first, u->count * sizeof *next);
  for (size_t k = 0; k < o->n; k++) m.member[next[u->of[k]]++] = place[k];
  return m;
}

/* Sums of all units with the same number of observations, one after the other. */
static Node sums_of_size(Eval *E, const Members *m, int32_t size, Pick *sums) {
  int32_t count = 0, n = 0;
  for (size_t k = 0; k < m->unit->count; k++) count += m->first[k + 1] - m->first[k] == size;
  if (!count) return NO_NODE;
  Pick *picks = NEW_ARRAY(E->arena, Pick, count * size);
  for (size_t k = 0; k < m->unit->count; k++) {
    if (m->first[k + 1] - m->first[k] != size) continue;
    memcpy(picks + n * size, m->member + m->first[k], (size_t)size * sizeof *picks);
    sums[k].elem = n++;
  }
  Node node = ir_reduce(E->graph, IR_SUM, ir_pack(E->graph, picks, count * size), size);
  for (size_t k = 0; k < m->unit->count; k++)
    if (m->first[k + 1] - m->first[k] == size) sums[k].node = node;
  return node;
}

Observations units_join(Eval *E, const Observations *o, const ModelUnit *u) {
  Members m = members_of(E, o, u);
  Pick *sums = NEW_ARRAY(E->arena, Pick, u->count);
  int32_t *obs = NEW_ARRAY(E->arena, int32_t, u->count), most = 0;
  for (size_t k = 0; k < u->count; k++) {
    int32_t size = m.first[k + 1] - m.first[k];
    obs[k] = (int32_t)k;
    most = size > most ? size : most;
  }
  for (int32_t size = 1; size <= most; size++) sums_of_size(E, &m, size, sums);
  Observations all = {.n = u->count, .nblocks = 1, .blocks = NEW(E->arena, ObsBlock)};
  all.blocks[0] = (ObsBlock){.root = ir_pack(E->graph, sums, (int32_t)u->count),
                             .rows = (int32_t)u->count,
                             .obs = obs,
                             .loc = o->blocks[0].loc,
                             .name = u->name,
                             .dist = -1,
                             .sim = NO_NODE,
                             .sim_width = 1};
  return all;
}
