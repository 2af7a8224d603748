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

/* What is asked about: the names, or one of them with its partition. */
typedef struct {
  Arena *arena, *temp;
  const char *wanted; /* NULL: all names and counts */
  size_t n;
  ModelUnit *items;
  int count, cap;
} UnitSearch;

static void offer(UnitSearch *s, const char *name, const double *label) {
  ArenaMark mark = arena_mark(s->temp);
  bool keep = s->wanted && !strcmp(s->wanted, name);
  int32_t *of = NEW_ARRAY(keep ? s->arena : s->temp, int32_t, s->n + 1);
  ModelUnit u = {.name = name, .count = (size_t)partition(s->temp, label, s->n, of)};
  if (keep) u.of = of;
  arena_reset(s->temp, mark);
  if (u.count > 1 && u.count < s->n) PUSH(s->arena, s->items, s->count, s->cap, u);
}

/* A column of whole numbers that the data have, whether the program declares it or not. */
static void offer_column(UnitSearch *s, const Program *p, const DataVar *v) {
  const Decl *d = stan_find_decl(p, BLOCK_DATA, v->name);
  if (v->is_int && v->n == s->n && !(d && stan_is_outcome(p, d)))
    offer(s, arena_format(s->arena, "group:%s", v->name), v->values);
}

static void offer_transformed(UnitSearch *s, const Model *m, double *label) {
  for (int k = 0; k < m->nknown; k++) {
    const Decl *d = m->known[k].decl;
    if (d->block == BLOCK_TRANSFORMED_DATA && d->type->kind == TY_INT &&
        model_known(m, k, label, s->n))
      offer(s, arena_format(s->arena, "group:%s", d->name), label);
  }
}

/* The rows of m before any are taken together. */
static UnitSearch search(Arena *a, Arena *temp, const Model *m, const Data *data,
                         const char *wanted) {
  UnitSearch s = {.arena = a, .temp = temp, .wanted = wanted, .n = m->n_obs};
  double *label = NEW_ARRAY(temp, double, s.n + 1);
  PUSH(a, s.items, s.count, s.cap, ((ModelUnit){.name = "row", .count = s.n}));
  if (!s.n || !model_has_densities(m)) return s;
  for (size_t k = 0; k < s.n; k++) label[k] = k < m->niteration ? m->iteration[k] : (double)k;
  if (m->niteration) offer(&s, "iteration", label);
  for (size_t k = 0; k < data->vars.count; k++)
    offer_column(&s, m->program, data->vars.items[k].value);
  offer_transformed(&s, m, label);
  return s;
}

const ModelUnit *model_units(Ctx *c, const Model *m, const Data *data, int *count) {
  TempArena *temp = temp_open(c);
  UnitSearch s = search(&c->arena, &temp->arena, m, data, NULL);
  temp_close(temp);
  *count = s.count;
  return s.items;
}

/* NULL: every row is one. */
static const ModelUnit *find(Eval *E, const Model *m, const Data *data, const char *name) {
  TempArena *temp = temp_open(E->ctx);
  UnitSearch s = search(E->arena, &temp->arena, m, data, name);
  temp_close(temp);
  const char **names = NEW_ARRAY(E->arena, const char *, s.count);
  for (int k = 0; k < s.count; k++) {
    names[k] = s.items[k].name;
    if (!strcmp(names[k], name)) return s.items[k].of ? &s.items[k] : NULL;
  }
  if (!strcmp(name, "iteration")) return NULL;
  ctx_unknown(E->ctx, PVI_USAGE, NOWHERE,
              &(UnknownWord){"value of " OPTION("unit"), name, NULL, names, (size_t)s.count});
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

static Observations join(Eval *E, const Observations *o, const ModelUnit *u) {
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

void units_take(Eval *E, Model *m, const Data *data, const char *name, Observations *o) {
  const ModelUnit *u = find(E, m, data, name);
  if (!u) return;
  *o = join(E, o, u);
  m->unit = u->name;
}
