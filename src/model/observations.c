/* observations.c: which increments of the log density are observations.
 *
 * A run of the program leaves a list of sites, in order: increments with a density of data in them,
 * and increments of loops that have one. Sites of one outermost loop stand together. What one
 * observation is depends on how the statement was run:
 *
 *   - outside of loops, every element of a vectorized statement;
 *   - in a lifted loop, every iteration that adds something;
 *   - in an unrolled loop, every iteration, whatever it adds;
 *   - in either, the parts into which factors.c divides an iteration.
 *
 * A likelihood-free Model has one block instead: a data variable, and the variable of generated
 * quantities that simulates it.
 */
#include "model/model_int.h"

#include <stdlib.h>

/* ---- blocks ---------------------------------------------------------------------------------- */

static void add_block(Eval *E, Observations *o, const Site *s, Node root, const int32_t *obs) {
  ObsBlock b = {.root = root,
                .rows = ir_size(E->graph, root),
                .obs = obs,
                .loc = s->loc,
                .name = s->name,
                .dist = s->dist,
                .npar = s->npar,
                .width = s->width,
                .par = {s->par[0], s->par[1], s->par[2]},
                .y = s->y,
                .size = s->size,
                .sim = s->sim,
                .sim_width = 1,
                .sim_y = s->y};
  PUSH(E->arena, o->blocks, o->nblocks, o->cap, b);
}

/* Numbers for further observations, one after the other. */
static const int32_t *number(Eval *E, Observations *o, int32_t count) {
  int32_t *obs = NEW_ARRAY(E->arena, int32_t, count);
  for (int32_t k = 0; k < count; k++) obs[k] = (int32_t)o->n + k;
  o->n += (size_t)count;
  return obs;
}

/* Observations to which several statements contribute: what is observed is not known, and neither
 * is how to simulate it. */
static Site of_several(const Site *s) {
  Site all = *s;
  all.dist = -1;
  all.sim = NO_NODE;
  all.y = all.size = NULL; /* these were of one of the statements, and as many as it has rows */
  return all;
}

/* ---- unrolled loops -------------------------------------------------------------------------- */

/* The outcomes of single observations as one of `count` rows. */
static void join_outcomes(Eval *E, Site *all, const Site *s, int32_t count) {
  Arena *a = E->arena;
  for (int p = 0; p < all->npar; p++) {
    Pick *picks = NEW_ARRAY(a, Pick, count * all->width);
    for (int32_t k = 0; k < count * all->width; k++)
      picks[k] = (Pick){s[k / all->width].par[p], k % all->width};
    all->par[p] = ir_pack(E->graph, picks, count * all->width);
  }
  double *y = NEW_ARRAY(a, double, count), *size = s->size ? NEW_ARRAY(a, double, count) : NULL;
  for (int32_t k = 0; k < count; k++) {
    y[k] = s[k].y[0];
    if (size) size[k] = s[k].size[0];
  }
  all->y = y;
  all->size = size;
}

/* Does one statement make every observation? */
static bool are_alike(const Site *s, size_t n) {
  for (size_t k = 0; k < n; k++)
    if (s[k].dist != s[0].dist || s[k].npar != s[0].npar || s[k].width != s[0].width ||
        (k && s[k].iteration == s[k - 1].iteration))
      return false;
  return true;
}

/* An unrolled loop: its iterations are the observations, whatever each of them adds. */
static void split_unrolled(Eval *E, Observations *o, const Site *s, size_t n) {
  Pick *picks = NEW_ARRAY(E->arena, Pick, n);
  int32_t count = 0;
  for (size_t k = 0; k < n; k++) {
    if (k && s[k].iteration == s[k - 1].iteration) {
      Pick *p = &picks[count - 1];
      p->node = ir_map(E->graph, IR_ADD, (Node[]){p->node, s[k].node});
    } else {
      picks[count++] = (Pick){s[k].node, 0};
    }
  }
  Site all = of_several(s); /* every one has its own noise: scores by simulation want one node */
  if (are_alike(s, n)) all.dist = s->dist;
  const int32_t *obs = number(E, o, count);
  if (all.dist >= 0) join_outcomes(E, &all, s, count);
  add_block(E, o, &all, ir_pack(E->graph, picks, count), obs);
}

/* ---- lifted loops ---------------------------------------------------------------------------- */

/* rank[r]: the number of iteration r among those that add something, -1: it adds nothing. */
typedef struct {
  int32_t *rank, covered;
  bool disjoint; /* one statement each */
} Iterations;

static const Axis *root_of(const Axis *a) {
  while (a->parent) a = a->parent;
  return a;
}

static Iterations count_iterations(Eval *E, const Site *s, size_t n) {
  const Axis *root = root_of(s->axis);
  int32_t *hits = NEW_ARRAY(E->arena, int32_t, root->rows);
  Iterations t = {.rank = NEW_ARRAY(E->arena, int32_t, root->rows), .disjoint = true};
  for (size_t k = 0; k < n; k++)
    for (int32_t r = 0; r < s[k].axis->rows; r++)
      t.disjoint &= ++hits[s[k].axis->iteration[r]] == 1;
  for (int32_t r = 0; r < root->rows; r++) t.rank[r] = hits[r] ? t.covered++ : -1;
  return t;
}

/* A site on all iterations of which any site has one: zero where it has none. */
static Node padded(Eval *E, const Site *s, const Iterations *t) {
  if (s->axis->rows == t->covered) return s->node;
  Pick *picks = NEW_ARRAY(E->arena, Pick, t->covered);
  Node zero = ir_number(E->graph, 0);
  for (int32_t k = 0; k < t->covered; k++) picks[k] = (Pick){zero, 0};
  for (int32_t k = 0; k < s->axis->rows; k++)
    picks[t->rank[s->axis->iteration[k]]] = (Pick){s->node, k};
  return ir_pack(E->graph, picks, t->covered);
}

/* A lifted loop: one observation per iteration that adds something. */
static void split_lifted(Eval *E, Observations *o, const Site *s, size_t n) {
  Iterations t = count_iterations(E, s, n);
  const int32_t *all = number(E, o, t.covered);
  for (size_t k = 0; t.disjoint && k < n; k++) {
    int32_t *obs = NEW_ARRAY(E->arena, int32_t, s[k].axis->rows);
    for (int32_t r = 0; r < s[k].axis->rows; r++) obs[r] = all[t.rank[s[k].axis->iteration[r]]];
    add_block(E, o, &s[k], s[k].node, obs);
  }
  if (t.disjoint) return;
  Node sum = padded(E, &s[0], &t);
  for (size_t k = 1; k < n; k++)
    sum = ir_map(E->graph, IR_ADD, (Node[]){sum, padded(E, &s[k], &t)});
  Site one = of_several(s);
  add_block(E, o, &one, sum, all);
}

/* ---- loops with several observations in an iteration ----------------------------------------- */

/* What adds up to the same observations: the sites of a group in an iteration, or the elements of
 * one site. */
typedef struct {
  Site site; /* its node has one element per observation */
  const Site *first;
  const Axis
      *inner; /* the iterations of a loop that was lifted inside of an unrolled one, or NULL */
  int32_t cells;
  const int32_t *iteration; /* of the outermost loop, for each of them */
  const int32_t *row;       /* of the inner loop, or NULL */
} Unit;

typedef struct {
  Unit *items;
  int n, cap;
} Units;

/* Sites in the order of iterations and groups; those whose elements are observations stand alone.
 */
static int by_group(const void *a, const void *b) {
  const Site *x = *(const Site *const *)a, *y = *(const Site *const *)b;
  if (x->iteration != y->iteration) return x->iteration < y->iteration ? -1 : 1;
  if (x->group != y->group) return x->group < y->group ? -1 : 1;
  return x < y ? -1 : x > y;
}

static bool is_vector(const Site *s) { return s->each > 1; }

/* The rows of a lifted loop, every one `each` times, are iterations; or, where the loop is inside
 * of an unrolled one, all in that one's iteration. */
static Unit place_rows(Eval *E, const Site *s, const int32_t *row, int32_t rows) {
  Unit u = {.site = *s, .cells = rows * s->each};
  int32_t *iteration = NEW_ARRAY(E->arena, int32_t, u.cells + 1),
          *inner = NEW_ARRAY(E->arena, int32_t, u.cells + 1);
  for (int32_t k = 0; k < u.cells; k++) {
    inner[k] = row[k / s->each];
    iteration[k] = s->iteration < 0 ? inner[k] : s->iteration;
  }
  u.iteration = iteration;
  if (s->iteration >= 0 && s->axis) u.inner = root_of(s->axis), u.row = inner;
  return u;
}

static Unit unit_of_lifted(Eval *E, Site *s, size_t n) {
  if (n == 1) return place_rows(E, s, s->axis->iteration, s->axis->rows);
  Iterations t = count_iterations(E, s, n);
  int32_t *row = NEW_ARRAY(E->arena, int32_t, t.covered + 1);
  for (int32_t r = 0; r < root_of(s->axis)->rows; r++)
    if (t.rank[r] >= 0) row[t.rank[r]] = r;
  Site all = of_several(s);
  all.node = padded(E, &s[0], &t);
  for (size_t k = 1; k < n; k++)
    all.node = ir_map(E->graph, IR_ADD, (Node[]){all.node, padded(E, &s[k], &t)});
  return place_rows(E, &all, row, t.covered);
}

static Unit unit_of(Eval *E, Site *s, size_t n) {
  if (s->axis) return unit_of_lifted(E, s, n);
  Site all = n > 1 ? of_several(s) : *s;
  for (size_t k = 1; k < n; k++) all.node = ir_map(E->graph, IR_ADD, (Node[]){all.node, s[k].node});
  return place_rows(E, &all, &s->iteration, 1);
}

static int by_first(const void *a, const void *b) {
  const Unit *x = a, *y = b;
  return x->first < y->first ? -1 : x->first > y->first;
}

static void add_unit(Eval *E, Units *u, Site *s, size_t n, const Site *first) {
  Unit v = unit_of(E, s, n);
  v.first = first;
  PUSH(E->arena, u->items, u->n, u->cap, v);
}

static bool same_group(const Site *x, const Site *y) {
  return x->iteration == y->iteration && x->group == y->group;
}

/* Every vector by itself; of the others, those of a group together. */
static Units units_of(Eval *E, const Site *s, size_t n) {
  const Site **order = NEW_ARRAY(E->arena, const Site *, n), *first = NULL;
  Site *same = NEW_ARRAY(E->arena, Site, n);
  Units u = {.n = 0};
  for (size_t k = 0; k < n; k++) order[k] = &s[k];
  qsort(order, n, sizeof *order, by_group);
  for (size_t k = 0, used = 0; k < n; k++) {
    Site one = *order[k];
    if (is_vector(&one)) {
      add_unit(E, &u, &one, 1, order[k]);
    } else {
      if (!used) first = order[k];
      same[used++] = one;
    }
    if ((k + 1 < n && same_group(order[k + 1], order[k])) || !used) continue;
    add_unit(E, &u, same, used, first);
    used = 0;
  }
  qsort(u.items, (size_t)u.n, sizeof *u.items, by_first);
  return u;
}

/* Observations are numbered in the order in which the program, run one by one, would make them:
 * by iteration of the outermost loop, by statement; those of a loop that was lifted further inside
 * by its own iterations, then by statement. */
typedef struct {
  int32_t iteration, place, row, unit, cell;
} Cell;

static int by_cell(const void *a, const void *b) {
  const Cell *x = a, *y = b;
  const int32_t keys[][2] = {{x->iteration, y->iteration},
                             {x->place, y->place},
                             {x->row, y->row},
                             {x->unit, y->unit},
                             {x->cell, y->cell}};
  for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
    if (keys[k][0] != keys[k][1]) return keys[k][0] < keys[k][1] ? -1 : 1;
  return 0;
}

/* Where the unit stands: what belongs to the iteration as a whole before all others, what is in an
 * inner loop with the first one of the same loop. */
static bool is_whole(const Unit *u) { return !u->site.group && !is_vector(&u->site); }

static int32_t place_of(const Units *u, int32_t k) {
  const Unit *x = u->items;
  int32_t place = k;
  if (is_whole(&x[k])) return -1;
  for (int32_t j = k; x[k].inner && j-- > 0;) {
    if (is_whole(&x[j])) continue;
    if (x[j].inner != x[k].inner) break;
    place = j;
  }
  return place;
}

static Cell *cells_of(Eval *E, const Units *u, int32_t *count) {
  *count = 0;
  for (int k = 0; k < u->n; k++) *count += u->items[k].cells;
  Cell *cells = NEW_ARRAY(E->arena, Cell, *count + 1);
  for (int32_t k = 0, at = 0; k < u->n; k++) {
    const Unit *x = &u->items[k];
    int32_t place = place_of(u, k);
    for (int32_t c = 0; c < x->cells; c++)
      cells[at++] = (Cell){x->iteration[c], place, x->row ? x->row[c] : 0, k, c};
  }
  qsort(cells, (size_t)*count, sizeof *cells, by_cell);
  return cells;
}

/* The observations of these cells: those of an iteration belong together. */
static const int32_t *number_cells(Eval *E, Observations *o, const Cell *cells, int32_t count) {
  const int32_t *obs = number(E, o, count);
  bool alone = true;
  for (int32_t k = 1; k < count; k++) alone &= cells[k].iteration != cells[k - 1].iteration;
  if (alone) return obs;
  while (o->niteration < o->n) {
    int32_t k = (int32_t)o->niteration - obs[0], own = (int32_t)o->niteration;
    if (k > 0 && cells[k].iteration == cells[k - 1].iteration) own = o->iteration[own - 1];
    PUSH(E->arena, o->iteration, o->niteration, o->cap_iteration, own);
  }
  return obs;
}

static void blocks_of_units(Eval *E, Observations *o, const Units *u, const Cell *cells,
                            int32_t count) {
  int32_t **obs = NEW_ARRAY(E->arena, int32_t *, u->n);
  const int32_t *numbers = number_cells(E, o, cells, count);
  for (int k = 0; k < u->n; k++) obs[k] = NEW_ARRAY(E->arena, int32_t, u->items[k].cells + 1);
  for (int32_t k = 0; k < count; k++) obs[cells[k].unit][cells[k].cell] = numbers[k];
  for (int k = 0; k < u->n; k++) add_block(E, o, &u->items[k].site, u->items[k].site.node, obs[k]);
}

static bool units_are_alike(const Units *u) {
  const Site *s = &u->items[0].site;
  for (int k = 0; k < u->n; k++) {
    const Site *x = &u->items[k].site;
    if (x->dist != s->dist || x->npar != s->npar || x->width != s->width || !x->size != !s->size)
      return false;
  }
  return s->dist >= 0;
}

/* All cells as the rows of one block: where units are many and small. */
static void one_block(Eval *E, Observations *o, const Units *u, const Cell *cells, int32_t count) {
  Arena *a = E->arena;
  Site all = of_several(&u->items[0].site);
  Pick *picks = NEW_ARRAY(a, Pick, count * (u->items[0].site.width + 1));
  for (int32_t k = 0; k < count; k++)
    picks[k] = (Pick){u->items[cells[k].unit].site.node, cells[k].cell};
  Node root = ir_pack(E->graph, picks, count);
  if (units_are_alike(u)) {
    int32_t width = all.width;
    const Site *one = &u->items[0].site;
    double *y = NEW_ARRAY(a, double, count), *size = one->size ? NEW_ARRAY(a, double, count) : NULL;
    all.dist = one->dist;
    for (int p = 0; p < all.npar; p++) {
      for (int32_t k = 0; k < count * width; k++)
        picks[k] = (Pick){u->items[cells[k / width].unit].site.par[p],
                          cells[k / width].cell * width + k % width};
      all.par[p] = ir_pack(E->graph, picks, count * width);
    }
    for (int32_t k = 0; k < count; k++) {
      y[k] = u->items[cells[k].unit].site.y[cells[k].cell];
      if (size) size[k] = u->items[cells[k].unit].site.size[cells[k].cell];
    }
    all.y = y;
    all.size = size;
  }
  add_block(E, o, &all, root, number_cells(E, o, cells, count));
}

/* A block each, evaluated in tiles, unless units are many and small: a block has its price. */
enum { MANY_UNITS = 64, SMALL_UNIT = 16 };

static void split_units(Eval *E, Observations *o, const Site *s, size_t n) {
  Units u = units_of(E, s, n);
  int32_t count;
  const Cell *cells = cells_of(E, &u, &count);
  bool small = u.n >= MANY_UNITS && count / u.n < SMALL_UNIT;
  (small ? one_block : blocks_of_units)(E, o, &u, cells, count);
}

/* ---- the split ------------------------------------------------------------------------------- */

/* Is an iteration one observation, whatever it adds? */
static bool one_each(const Site *s, size_t n) {
  for (size_t k = 0; k < n; k++)
    if (s[k].group || is_vector(&s[k]) || (s[k].axis && s[k].iteration >= 0)) return false;
  return true;
}

/* Increments without a density, in a loop without one. */
static bool only_bare(const Site *s, size_t n) {
  for (size_t k = 0; k < n; k++)
    if (!s[k].bare) return false;
  return true;
}

static void add_to_prior(Eval *E, const Site *s, size_t n) {
  for (size_t k = 0; k < n; k++) {
    int32_t size = ir_size(E->graph, s[k].node);
    Value *v =
        value_sum(E, value_of_node(E, value_shape(E, TY_VECTOR, 0, 1, &size), NULL, s[k].node));
    PUSH(E->arena, E->prior, E->nprior, E->cap_prior, v);
  }
}

Observations observations_split(Eval *E) {
  Observations o = {.n = 0};
  for (size_t k = 0, n; k < E->nsites; k += n) {
    const Site *s = &E->sites[k];
    n = 1;
    while (s->loop >= 0 && k + n < E->nsites && s[n].loop == s->loop) n++;
    if (only_bare(s, n)) {
      add_to_prior(E, s, n);
    } else if (s->loop < 0) {
      add_block(E, &o, s, s->node, number(E, &o, ir_size(E->graph, s->node)));
    } else if (!one_each(s, n)) {
      split_units(E, &o, s, n);
    } else if (s->axis) {
      split_lifted(E, &o, s, n);
    } else {
      split_unrolled(E, &o, s, n);
    }
  }
  return o;
}

bool model_has_densities(const Model *m) {
  for (int b = 0; b < m->nblocks; b++)
    if (m->blocks[b].root == NO_NODE) return false;
  return true;
}

/* ---- simulators ------------------------------------------------------------------------------ */

/* The variable of a block that an option names. */
static const Decl *named(Eval *E, BlockId id, const char *option, const char *name) {
  const Decl *d = stan_find_decl(E->program, id, name);
  if (!d)
    ctx_fail(E->ctx, PVI_USAGE, NOWHERE, "%s %s: %s no such variable", option, name,
             id == BLOCK_DATA ? "the data block has" : "generated quantities have");
  return d;
}

static void check_simulated(Eval *E, const Decl *s, const Decl *o) {
  const Value *sim = E->frame[s->slot].value, *y = E->frame[o->slot].value;
  if (sim->n != y->n || !sim->ndims || sim->dims[0] != y->dims[0])
    ctx_fail(E->ctx, PVI_PROGRAM, s->loc,
             "%s has %d elements, %s has %d: they must have the same sizes", s->name, sim->n,
             o->name, y->n);
  if (sim->known)
    ctx_fail(E->ctx, PVI_PROGRAM, s->loc, "%s depends neither on parameters nor on random numbers",
             s->name);
}

Observations observations_simulated(Eval *E, const ModelOptions *given) {
  const Decl *s = named(E, BLOCK_GENERATED, OPTION("simulate"), given->simulate),
             *o = named(E, BLOCK_DATA, OPTION("observed"), given->observed ? given->observed : "y");
  E->simulate = true;
  model_run_block(E, BLOCK_GENERATED, true);
  E->simulate = false;
  check_simulated(E, s, o);
  Value *sim = E->frame[s->slot].value, *y = E->frame[o->slot].value;
  Observations all = {.nblocks = 1};
  int32_t rows = y->dims[0];
  all.blocks = NEW(E->arena, ObsBlock);
  all.blocks[0] = (ObsBlock){.root = NO_NODE,
                             .rows = rows,
                             .obs = number(E, &all, rows),
                             .loc = s->loc,
                             .name = s->name,
                             .dist = -1,
                             .sim = value_node(E, sim),
                             .sim_width = rows ? y->n / rows : 1,
                             .sim_y = y->v};
  return all;
}
