/* exact.c: quadrature over an observation's affine functions: when it applies, making it, and one
 * evaluation.
 *
 * One evaluation: the law of every function f_r(theta) under q (mean, variance, covariance with the
 * other function; laws.c); from it the coefficients of the leaves, f = m + s x on the nodes x
 * (leaves.c); the tape on these lanes, whose weights are the rule's (tiles.c); and all the way
 * back: adjoints of the coefficients, of the laws, of phi. Every block of observations, and every
 * term of the prior, is an Integral of its own, with its own number of lanes.
 */
#include "infer/exact_int.h"

#include "num/hermite.h"
#include "num/sobol.h"
#include "num/stats.h"

#include <math.h>
#include <string.h>

enum { ENTROPY_DRAWS = 2048 };

/* ---- does it apply --------------------------------------------------------------------------- */

/* Of blocks given their scales: can covariances be conditioned on these? */
static bool all_dense(const Reduction *r) {
  for (int b = 0; r && b < r->nblocks; b++)
    if (r->blocks[b].rows && r->blocks[b].form == FORM_GIVEN && !r->blocks[b].given[1])
      return false;
  return true;
}

/* Given the scales, nodes are not placed for every observation: densities of large counts are
 * narrower than they are dense. */
static bool has_large_counts(const Observed *o, int block) {
  enum { LARGE = 100 };
  const Reduced *r = &o->reduction->blocks[block];
  if (!r->rows || r->form != FORM_GIVEN || !r->given[0]->line || !kind_is_count(o->kinds[block]))
    return false;
  for (size_t k = o->rows.first[block]; k < o->rows.first[block + 1]; k++)
    if (observed_y(o, block, k) > LARGE) return true;
  return false;
}

/* Of mixtures the density is integrated, but not the log density. */
static bool has_no_mean(const Reduction *r) {
  for (int b = 0; b < r->nblocks; b++)
    if (r->blocks[b].rows && r->blocks[b].mean == NO_NODE) return true;
  return false;
}

static const char *cannot(const Observed *o, const Target *t, const Q *q) {
  unsigned needs = target_needs(t);
  if (!q_is_normal(q)) return "q is not normal";
  if (needs & (NEEDS_SIM | NEEDS_VECTOR_SIM)) return "the score simulates outcomes";
  if (!o->reduction) return o->not_reduced ? o->not_reduced : "the observations were not reduced";
  if ((t->score == SCORE_elbo || target_posterior(t) != 0) && has_no_mean(o->reduction))
    return "the mean log density of a mixture has no form of its own";
  if (t->lambda != 0 && !o->prior) return o->prior_not_reduced;
  if (family_of(q->family)->dense &&
      !(all_dense(o->reduction) && all_dense(t->lambda != 0 ? o->prior : NULL)))
    return "q has too many covariances for that";
  for (int b = 0; b < o->reduction->nblocks; b++)
    if (has_large_counts(o, b)) return "counts are large, and their scales unknown";
  for (int b = 0; needs & NEEDS_KIND && b < o->reduction->nblocks; b++)
    if (o->reduction->blocks[b].rows && o->reduction->blocks[b].par[0] == NO_NODE)
      return "the outcome's parameters are not functions of the same predictors";
  return NULL;
}

bool exact_applies(const Observed *o, const Target *t, const Q *q, const char **why) {
  *why = cannot(o, t, q);
  return !*why;
}

static Target only_score(const Target *t) {
  Target only = *t;
  only.regularizer = REG_PRIOR;
  only.lambda = 0;
  return only;
}

bool exact_score_applies(const Observed *o, const Target *t, const Q *q) {
  Target only = only_score(t);
  return t->lambda != 0 && o->reduction && has_no_mean(o->reduction) && !cannot(o, &only, q);
}

Exact *exact_score(Arena *a, const Observed *o, const Target *t, const Q *q, uint64_t seed,
                   Pool *pool) {
  Target only = only_score(t);
  return exact_make(a, o, &only, q, seed, pool);
}

static bool has_plane(const Reduction *r) {
  for (int b = 0; r && b < r->nblocks; b++)
    if (r->blocks[b].rows && (r->blocks[b].form == FORM_PLANE || r->blocks[b].form == FORM_GIVEN))
      return true;
  return false;
}

bool exact_has_plane(const Observed *o) { return has_plane(o->reduction); }

static bool has_grid(const Reduction *r) {
  for (int b = 0; r && b < r->nblocks; b++) {
    const Condition *c = r->blocks[b].rows ? r->blocks[b].given[0] : NULL;
    if (c && c->axes + c->line > 2) return true;
  }
  return false;
}

bool exact_has_grid(const Observed *o) { return has_grid(o->reduction); }

bool exact_has_scales(const Observed *o) {
  for (int b = 0; o->reduction && b < o->reduction->nblocks; b++) {
    const Reduced *r = &o->reduction->blocks[b];
    bool plane = r->form == FORM_PLANE && r->wide[0] != NO_NODE;
    if (r->rows && (plane || r->form == FORM_GIVEN)) return true;
  }
  return false;
}

bool exact_has_wide(const Observed *o) {
  for (int b = 0; o->reduction && b < o->reduction->nblocks; b++)
    if (o->reduction->blocks[b].rows && o->reduction->blocks[b].wide[0] != NO_NODE) return true;
  return false;
}

bool exact_is_sampled(const Observed *o) {
  for (int b = 0; o->reduction && b < o->reduction->nblocks; b++) {
    const Reduced *r = &o->reduction->blocks[b];
    for (int dense = 0; r->rows && dense < 2; dense++)
      if (r->given[dense] && r->given[dense]->sampled) return true;
  }
  return false;
}

size_t exact_most_nodes(const Observed *o) {
  return has_plane(o->reduction) || has_plane(o->prior) ? 64 : 256;
}

/* ---- making an integral ---------------------------------------------------------------------- */

/* Peaked in its function: counts of many. */
static bool wants_centred(const Exact *e, const Reduced *r, Kind kind) {
  return e->target.score == SCORE_log && r->centred != NO_NODE && kind != KIND_BERNOULLI;
}

/* What a tape of the block computes, and from which inputs. */
typedef struct {
  const Graph *graph;
  size_t dim;
  int32_t rows;
  const int32_t *select; /* NULL: all */
  Node density, mean;
  const Node *par;
} BlockHeads;

static BlockHeads block_heads(const Integral *I, const Graph *g) {
  const Reduced *r = I->r;
  BlockHeads b = {g, 0, r->rows, NULL, I->centred ? r->centred : r->density, r->mean, r->par};
  const Node *wide = r->wide;
  if (I->given) {
    const Condition *c = given_of(r, &I->e->laws);
    size_t inputs = (size_t)condition_inputs(c);
    b = (BlockHeads){c->graph, inputs, c->rows, c->select, c->density, c->mean, c->par};
    wide = c->wide;
  }
  if (I->wide) b.density = wide[0], b.mean = wide[1], b.par = wide + 2;
  return b;
}

bool integral_is_mean(const Integral *I) {
  return I->prior || I->mean || I->e->target.score == SCORE_elbo;
}

/* The mean log density of a student_t costs as much as its density. Where it counts little, fewer
 * points will do. */
static bool has_mean_apart(const Exact *e, const Reduced *r) {
  const double LITTLE = 0.05;
  return e->target.score != SCORE_elbo && r->form == FORM_GIVEN && given_of(r, &e->laws)->tails &&
         e->posterior != 0 && fabs(e->posterior) <= LITTLE * e->target.score_weight;
}

static Tape *make_tape(Arena *a, const Exact *e, const Integral *I, const Graph *g) {
  BlockHeads b = block_heads(I, g);
  int32_t n = I->r->rows, *select = NEW_ARRAY(a, int32_t, n);
  for (int32_t k = 0; k < n; k++) select[k] = b.select ? b.select[k] : k;
  VmBlock v = {.rows = b.rows, .select = select, .nselect = n};
  for (int h = 0; h < VM_HEADS; h++) v.heads[h] = NO_NODE;
  bool mean = integral_is_mean(I);
  unsigned needs = mean ? NEEDS_LL : target_needs(&e->target);
  if (needs & NEEDS_LL) v.heads[HEAD_LL] = mean ? b.mean : b.density;
  for (int k = 0; needs & NEEDS_KIND && k < kind_parameters(I->kind); k++)
    v.heads[HEAD_PAR + k] = b.par[k];
  if (!I->prior && !I->mean && e->posterior != 0 && !has_mean_apart(e, I->r))
    v.heads[HEAD_SIM] = b.mean;
  return vm_plan(a, &(VmPlan){.graph = b.graph, .dim = b.dim, .blocks = &v, .nblocks = 1});
}

static void make_integral(Arena *a, Integral *I, const Graph *g) {
  Exact *e = I->e;
  size_t rows = (size_t)I->r->rows, C = e->laws.count;
  bool given = I->r->form == FORM_GIVEN;
  (given ? given_nodes : leaves_nodes)(a, I);
  I->M = C * I->nodes;
  I->pool = rows * I->M > 40000 ? e->pool : NULL;
  I->work =
      (e->target.forward ? vm_work_forward : vm_work)(a, make_tape(a, e, I, g), I->M, I->pool);
  I->ld = vm_ld(I->work);
  (given ? given_make : leaves_make)(a, I);
  if (!I->prior && !I->mean && target_needs(&e->target) & KEEPS_HINTS)
    I->hint = NEW_ARRAY(a, double, 2 * rows);
  if (C > 1) I->adj_w = NEW_ARRAY(a, double, vm_chunks(I->work) * I->ld);
  if (I->M > e->most_lanes) e->most_lanes = I->M;
  if (I->ld > e->lane_size) e->lane_size = I->ld;
}

static bool has_wide(const Exact *e, const Reduced *r) {
  return (r->form == FORM_GIVEN ? given_of(r, &e->laws)->wide : r->wide)[0] != NO_NODE;
}

static void add_mean(Arena *a, Exact *e, const Integral *density, const Graph *g) {
  Integral *I = &e->integrals[e->count++];
  *I = (Integral){.e = e,
                  .r = density->r,
                  .mean = true,
                  .block = density->block,
                  .first = density->first,
                  .kind = density->kind,
                  .moved = -1};
  make_integral(a, I, g);
}

static void add_blocks(Arena *a, Exact *e, const Reduction *r, bool prior) {
  size_t first = 0;
  for (int b = 0; b < r->nblocks; b++) {
    const Reduced *k = &r->blocks[b];
    if (!k->rows) continue;
    Integral *I = &e->integrals[e->count++];
    *I = (Integral){.e = e, .r = k, .prior = prior, .block = b, .first = first, .moved = -1};
    if (!prior) {
      I->kind = e->o->kinds[b];
      I->centred = wants_centred(e, k, I->kind);
      I->wide = (k->form != FORM_LINE || e->target.nodes > EXACT_NODES) && has_wide(e, k);
    }
    make_integral(a, I, r->graph);
    if (!prior && has_mean_apart(e, k)) add_mean(a, e, I, r->graph);
    first += (size_t)k->rows;
  }
}

/* ---- making all of them ---------------------------------------------------------------------- */

static size_t widest(const Reduction *r) {
  size_t most = 0;
  for (int b = 0; r && b < r->nblocks; b++)
    most = (size_t)r->blocks[b].rows > most ? (size_t)r->blocks[b].rows : most;
  return most;
}

static Exact *begin(Arena *a, const Observed *o, const Target *t, const Q *q, Pool *pool) {
  Exact *e = NEW(a, Exact);
  *e = (Exact){
      .o = o, .target = *t, .q = q, .score = score_of(t->score), .k = kernels_best(), .pool = pool};
  if (!e->target.nodes) e->target.nodes = EXACT_NODES;
  e->workers = pool ? pool_threads(pool) : 1;
  e->posterior = target_posterior(t);
  e->laws = q_laws(a, q);
  return e;
}

static void make_rules(Arena *a, Exact *e, const Reduction *seen, const Reduction *prior) {
  for (int plane = 0; plane < 1 + (has_plane(seen) || has_plane(prior)); plane++) {
    size_t K = leaves_side(plane ? FORM_PLANE : FORM_LINE, e->target.nodes);
    e->rule[plane] = NEW_ARRAY(a, double, 2 * K);
    normal_rule(K, e->target.reach, e->rule[plane], e->rule[plane] + K);
  }
}

/* Draws of q for its entropy; of normal families only that of mixtures has no formula. */
static void make_draws(Arena *a, Exact *e, uint64_t seed) {
  bool sampled = family_of(e->q->family)->weights && e->target.lambda != 0;
  size_t M = sampled ? ENTROPY_DRAWS : LANES;
  e->draws = q_draws(a, e->q, M, M, e->k);
  sobol_normal(e->draws.u, q_noise(e->q), M, M, seed, false);
}

static void make_rooms(Arena *a, Exact *e) {
  size_t workers = (size_t)e->workers;
  e->row_score = NEW_ARRAY(a, double, e->o->n);
  e->row_mean = NEW_ARRAY(a, double, e->o->n);
  e->row_prior = NEW_ARRAY(a, double, e->nprior + 1);
  e->scratch_size =
      (target_scratch(&e->target, e->o, e->most_lanes, e->lane_size) + LANES) / LANES * LANES;
  e->scratch = NEW_ARRAY(a, double, workers * e->scratch_size);
  e->lane_row = NEW_ARRAY(a, double, 3 * workers * e->lane_size);
  e->unsettled = NEW_ARRAY(a, bool, workers);
  e->gradient = NEW_ARRAY(a, double, q_size(e->q));
}

/* seen: the observations that are integrated */
static Exact *finish(Arena *a, Exact *e, const Reduction *seen, uint64_t seed) {
  const Reduction *prior = e->target.lambda != 0 ? e->o->prior : NULL;
  size_t rows = widest(seen), prior_rows = widest(prior),
         groups = leaves_groups(rows > prior_rows ? rows : prior_rows);
  make_rules(a, e, seen, prior);
  e->group = NEW_ARRAY(a, QLaws, groups);
  for (size_t g = 0; groups > 1 && g < groups; g++) e->group[g] = q_laws(a, e->q);
  e->integrals = NEW_ARRAY(a, Integral, 2 * seen->nblocks + (prior ? prior->nblocks : 0) + 1);
  add_blocks(a, e, seen, false);
  for (int b = 0; prior && b < prior->nblocks; b++) e->nprior += (size_t)prior->blocks[b].rows;
  if (prior) {
    e->prior_constant = prior->constant;
    add_blocks(a, e, prior, true);
  }
  make_draws(a, e, seed);
  make_rooms(a, e);
  return e;
}

Exact *exact_make(Arena *a, const Observed *o, const Target *t, const Q *q, uint64_t seed,
                  Pool *pool) {
  return finish(a, begin(a, o, t, q, pool), o->reduction, seed);
}

bool exact_prior_applies(const Observed *o, const Target *t, const Q *q) {
  return t->lambda != 0 && o->prior && q_is_normal(q) &&
         (!family_of(q->family)->dense || all_dense(o->prior));
}

Exact *exact_prior(Arena *a, const Observed *o, const Target *t, const Q *q, uint64_t seed,
                   Pool *pool) {
  static const Reduction nothing = {.nblocks = 0};
  Target only = *t;
  only.regularizer = REG_PRIOR;
  only.nodes = EXACT_NODES;
  return finish(a, begin(a, o, &only, q, pool), &nothing, seed);
}

/* ---- what it tells --------------------------------------------------------------------------- */

const double *exact_rows(const Exact *e) { return e->row_score; }
const Work *exact_work(const Exact *e) { return e->integrals[0].work; }
size_t exact_lanes(const Exact *e) { return e->most_lanes; }

bool exact_grid_fits(const Exact *e, size_t nodes, size_t rows) {
  enum { ROOM = 1 << 26, WORK = 1 << 26 }; /* numbers that lanes take, points of all rows */
  for (int b = 0; b < e->count; b++) {
    const Integral *I = &e->integrals[b];
    if (I->prior || I->r->form != FORM_GIVEN) continue;
    const Condition *c = given_of(I->r, &e->laws);
    VmShape s = vm_shape(vm_tape(I->work));
    size_t lanes = given_lanes(c, nodes),
           numbers = (size_t)condition_inputs(c) + s.global_elements + s.tile_width;
    if (lanes > ROOM / numbers || lanes > WORK / (rows + 1)) return false;
  }
  return true;
}

void exact_time(Arena *a, Exact *e, Stages *stages) {
  e->stages = stages;
  e->times = stages ? NEW_ARRAY(a, VmTimes, e->workers) : NULL;
  for (int k = 0; k < e->count; k++) vm_set_times(e->integrals[k].work, e->times);
}

/* Places of centred nodes, and where the ends of intervals were: both begin where the last
 * evaluation left them. */
void exact_state(Exact *e, Archive *a) {
  for (int k = 0; k < e->count; k++) {
    Integral *I = &e->integrals[k];
    size_t rows = (size_t)I->r->rows;
    if (I->centre) archive_doubles(a, I->centre, rows * e->laws.count);
    if (I->width) archive_doubles(a, I->width, rows * e->laws.count);
    if (I->hint) archive_doubles(a, I->hint, 2 * rows);
  }
}

/* ---- one evaluation -------------------------------------------------------------------------- */

bool exact_eval(Exact *e, const double *phi, PredictiveValue *v, double *grad) {
  double lambda = e->target.lambda, *g = grad ? grad : e->gradient;
  memset(g, 0, q_size(e->q) * sizeof *g);
  q_laws_at(e->q, phi, &e->laws);
  for (int k = 0; k < e->count; k++) tiles_integrate(&e->integrals[k], grad != NULL);
  double prior = lambda == 0 ? 0 : e->prior_constant + stat_sum(e->row_prior, e->nprior);
  double entropy = lambda == 0 ? 0 : q_entropy(e->q, phi, &e->draws, lambda, g);
  v->score = observed_sum(e->o, e->row_score);
  v->regularizer = -(prior + entropy);
  if (e->posterior != 0) v->regularizer -= e->posterior / lambda * observed_sum(e->o, e->row_mean);
  v->value = e->target.score_weight * v->score - (lambda == 0 ? 0 : lambda * v->regularizer);
  if (!isfinite(v->value)) return false;
  if (!grad) return true;
  q_laws_adjoint(e->q, phi, &e->laws, grad);
  return all_finite(grad, q_size(e->q));
}
