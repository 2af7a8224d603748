/* observations.c: which increments of the log density are observations.
 *
 * A run of the program leaves a list of sites, in order: increments with a density of data in them,
 * and increments of loops that have one. Sites of one outermost loop stand together. What one
 * observation is depends on how the statement was run:
 *
 *   - outside of loops, every element of a vectorized statement;
 *   - in a lifted loop, every iteration that adds something;
 *   - in an unrolled loop, every iteration, whatever it adds.
 *
 * A likelihood-free Model has one block instead: a data variable, and the variable of generated
 * quantities that simulates it.
 */
#include "model/model_int.h"

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
  double *y = NEW_ARRAY(a, double, count), *size = all->size ? NEW_ARRAY(a, double, count) : NULL;
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

static Iterations count_iterations(Eval *E, const Site *s, size_t n) {
  const Axis *root = s->axis;
  while (root->parent) root = root->parent;
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

/* ---- the split ------------------------------------------------------------------------------- */

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
  const Decl *d = model_find_decl(E->program, id, name);
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
