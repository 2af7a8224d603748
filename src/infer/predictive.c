/* predictive.c: the objective: theta = T_phi(u), global values, tiles with their scores, and all
 * the way back. */
#include "infer/exact.h"
#include "infer/predictive_int.h"
#include "infer/product_means.h"

#include "num/rng.h"
#include "num/sobol.h"
#include "num/stats.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#ifdef PVI_TORTURE
enum { SLICE_NUMBERS = 256, SLICE_LEAST = 8, NOISE_NUMBERS = 1 << 12 };
#else
enum {
  SLICE_NUMBERS = 1 << 19, /* of theta and of the program, in all draws of a slice; */
  SLICE_LEAST = 128,       /* so many draws it has at least */
  NOISE_NUMBERS = 1 << 25  /* of all slices, that are kept */
};
#endif

struct Predictive {
  Exact *exact;            /* all of it is done there; NULL: by draws, for which the rest is */
  ProductMeans *products;  /* likewise, of the score alone; NULL */
  struct Predictive *rest; /* of what is done there, only the score is: this is the regularizer, by
                              draws */
  struct Predictive **parts; /* it is the sum of these, each at phi + offset; NULL: it is one */
  const double **offset;
  size_t nparts;
  double *moved, *square; /* phi + offset; a Hessian */
  Exact *prior; /* KL(q || prior) without draws, where the observations need them; NULL: with */
  const Observed *o;
  Target target;
  const Q *q;
  ScoreFunction *score;
  ScoreRowsFunction *together; /* the score of a whole tile; NULL: row by row */
  double *linear;              /* elbo: derivative in every log density of a draw */
  Work *work;
  const double *given; /* the draws, [dim x M]; NULL: made from noise */
  QDraws draws;
  size_t M, ld; /* of one slice of the draws: all of them, but where that is too much memory */
  size_t slices;
  uint64_t seed; /* of the noise, */
  bool random;   /* pseudo-random */
  double *slice_gradient, *slice_rows;
  double *noise;       /* of all slices; NULL: that is too much, and made for each anew */
  double *theta, *adj; /* [dim x ld] */
  double *row_score;   /* per observation: its score */
  double *row_mean;    /* per observation: mean log likelihood, for the posterior regularizer */
  double scale;        /* of the observations' sum: all / those in the mini-batch */
  double posterior;    /* the weight of KL(q || posterior) */
  unsigned needs;      /* flags of the score */
  double *scratch;     /* per worker: for the score */
  size_t scratch_size;
  double *vectors; /* per worker: simulated vectors, simulation by simulation, and their adjoints */
  size_t vector_size;
  double *adj_w;     /* [chunks + 1 x ld]: derivative in the draws' weights, last row the sum; NULL:
                        equal weights */
  double *adj_row;   /* per worker: one row of it */
  double *gradient;  /* for those who do not ask for it */
  const double *phi; /* during an evaluation: where, */
  double *grad;      /* and its gradient */
  PredictiveValue last;
  const double *unit; /* of every parameter, for the optimizer; NULL: unknown */
  const double *vi;   /* phi of VI, likewise */
  double *room;       /* for that */
  bool curved;        /* the optimizer is told the curvature, */
  Objective probe;    /* or has this to find it; no dim: it has not */
  Objective few;      /* or this, where that is no use; likewise */
  double few_price;
  bool few_close;
  Stages *stages; /* NULL: nobody asks */
  VmTimes *times; /* per worker */
};

bool target_counts(const Target *t, const Observed *o) {
  bool any = false;
  for (int b = 0; b < o->model->nblocks; b++) any |= kind_is_count(o->kinds[b]);
  return any && target_needs(t) & NEEDS_KIND;
}

unsigned target_needs(const Target *t) { return score_flags(t->score, &t->score_options); }

double target_posterior(const Target *t) {
  return t->regularizer == REG_PRIOR       ? 0
         : t->regularizer == REG_POSTERIOR ? t->lambda
                                           : t->lambda * t->share;
}

size_t target_scratch(const Target *t, const Observed *o, size_t M, size_t ld) {
  bool simulated = o->wants & WANT_SIM;
  size_t room = score_scratch(M, simulated ? M : 0, target_counts(t, o)), rows = 1, width = 1;
  if (t->score != SCORE_sum) return room;
  for (int b = 0; b < o->model->nblocks; b++) {
    const ObsBlock *k = &o->model->blocks[b];
    if (o->kinds[b] == KIND_CATEGORICAL && (size_t)k->width > rows) rows = (size_t)k->width;
    if ((size_t)k->sim_width > width) width = (size_t)k->sim_width;
  }
  return room + score_sum_scratch(ld, rows, simulated ? M * width : 0);
}

bool target_allows(Ctx *c, const Model *m, const Target *t, const char **why) {
  if (t->score != SCORE_sum) return observed_allows(c, m, t->score, why);
  for (size_t k = 0; k < t->score_options.nparts; k++) {
    ScoreId id = t->score_options.parts[k].id;
    if (id == SCORE_elbo) {
      *why = "elbo is ordinary VI, no score of predictions, and so no part of a sum; to hold q to "
             "Bayes, use " OPTION("regularize") " posterior";
      return false;
    }
    if (!observed_allows(c, m, id, why)) return false;
  }
  return true;
}

unsigned target_wants(const Target *t) {
  unsigned needs = target_needs(t);
  unsigned wants = needs & NEEDS_LL || target_posterior(t) != 0 ? WANT_LL : 0;
  if (needs & NEEDS_KIND) wants |= WANT_PARAMETERS;
  return needs & (NEEDS_SIM | NEEDS_VECTOR_SIM) ? wants | WANT_SIM : wants;
}

/* Are draws made where they are used? */
static bool draws_by_rows(const Predictive *p) { return !p->given && q_by_rows(p->q); }

static void give_row(void *self, size_t k, double *theta) {
  const Predictive *p = self;
  q_draw_row(p->q, p->phi, &p->draws, k, theta);
}

static void take_row(void *self, size_t k, const double *adj) {
  const Predictive *p = self;
  q_adjoint_row(p->q, p->phi, &p->draws, k, adj, p->grad);
}

/* Room for simulated vectors, simulation by simulation: as wide as the widest outcome. */
static void make_vectors(Arena *a, Predictive *p) {
  size_t width = 1;
  const Model *m = p->o->model;
  for (int b = 0; b < m->nblocks; b++)
    width = (size_t)m->blocks[b].sim_width > width ? (size_t)m->blocks[b].sim_width : width;
  p->vector_size = width * p->ld;
  p->vectors = NEW_ARRAY(a, double, (size_t)vm_workers(p->work) * 2 * p->vector_size);
}

static void make_slices(Arena *a, Predictive *p) {
  if (p->slices == 1) return;
  p->slice_gradient = NEW_ARRAY(a, double, q_size(p->q));
  p->slice_rows = NEW_ARRAY(a, double, p->o->n);
  size_t all = p->slices * q_noise(p->q) * p->ld;
  if (all <= NOISE_NUMBERS) p->noise = NEW_ARRAY(a, double, all);
}

static void make_rooms(Arena *a, Predictive *p) {
  size_t workers = (size_t)vm_workers(p->work);
  bool simulated = p->o->wants & WANT_SIM;
  p->theta = vm_theta(p->work);
  p->adj = vm_theta_adjoint(p->work);
  p->row_score = NEW_ARRAY(a, double, p->o->n);
  p->row_mean = NEW_ARRAY(a, double, p->o->n);
  p->gradient = NEW_ARRAY(a, double, q_size(p->q));
  make_slices(a, p);
  size_t scratch = target_scratch(&p->target, p->o, p->M, p->ld);
  p->scratch_size = (scratch + LANES) / LANES * LANES;
  p->scratch = NEW_ARRAY(a, double, workers * p->scratch_size);
  if (simulated) make_vectors(a, p);
  if (!p->draws.weights) return;
  p->adj_w = NEW_ARRAY(a, double, (vm_chunks(p->work) + 1) * p->ld);
  p->adj_row = NEW_ARRAY(a, double, workers * p->ld);
}

/* The ELBO is a mean over the draws: where q or the program has many numbers it is taken slice by
 * slice, in the memory of one and while it is in cache. Other scores need all draws of an
 * observation at once. */
static size_t slice_of(const Predictive *p, size_t M) {
  size_t n = M, rows = q_noise(p->q) + vm_shape(observed_tape(p->o)).global_elements;
  if (p->target.score != SCORE_elbo || p->given || family_of(p->q->family)->weights) return M;
  while (n % 2 == 0 && n / 2 >= SLICE_LEAST && n * rows > SLICE_NUMBERS) n /= 2;
  return n;
}

/* The tape, on the lanes of the draws, and how its tiles are scored. */
static void make_work(Arena *a, Predictive *p, size_t M, Pool *pool) {
  const Target *t = &p->target;
  p->score = score_of(t->score);
  p->M = slice_of(p, M);
  p->slices = M > p->M ? M / p->M : 1;
  p->work = (t->forward ? vm_work_forward : vm_work)(a, observed_tape(p->o), p->M, pool);
  p->ld = vm_ld(p->work);
  p->posterior = target_posterior(t);
  p->needs = target_needs(t);
  p->draws = q_draws(a, p->q, p->M, p->ld, vm_kernels(p->work));
  if (draws_by_rows(p)) vm_by_rows(p->work, give_row, take_row, p);
  if (p->prior || t->lambda == 0) vm_skip_roots(p->work);
  p->together = p->draws.weights ? NULL : score_rows_of(t->score);
  if (p->together) vm_overwrites(p->work);
  if (p->together && t->score == SCORE_elbo && !p->o->count)
    p->linear = NEW_ARRAY(a, double, p->ld);
}

/* lambda times the regularizer alone, by draws: as an elbo whose observations have the posterior's
 * weight. */
static Predictive *regularizer_by_draws(Arena *a, const Predictive *p, NoiseSet noise, Pool *pool) {
  Target t = p->target;
  t.score_weight = target_posterior(&t);
  t.score = SCORE_elbo;
  t.regularizer = REG_PRIOR;
  t.integrate = INTEGRATE_DRAWS;
  return predictive_make(a, p->o, &t, p->q, noise, pool);
}

Predictive *predictive_make(Arena *a, const Observed *o, const Target *t, const Q *q,
                            NoiseSet noise, Pool *pool) {
  Predictive *p = NEW(a, Predictive);
  const char *why;
  *p = (Predictive){.o = o, .target = *t, .q = q, .scale = 1};
  p->room = NEW_ARRAY(a, double, q_room(q));
  if (t->integrate != INTEGRATE_DRAWS && exact_applies(o, t, q, &why)) {
    p->exact = exact_make(a, o, t, q, noise.seed, pool);
    return p;
  }
  if (t->integrate != INTEGRATE_DRAWS && noise.M && exact_score_applies(o, t, q)) {
    p->exact = exact_score(a, o, t, q, noise.seed, pool);
    p->rest = regularizer_by_draws(a, p, noise, pool);
    p->gradient = NEW_ARRAY(a, double, q_size(q));
    return p;
  }
  if (t->integrate != INTEGRATE_DRAWS && noise.M && product_means_apply(o, t, q)) {
    p->products = product_means_make(a, o, t, q, pool);
    p->rest = regularizer_by_draws(a, p, noise, pool);
    p->gradient = NEW_ARRAY(a, double, q_size(q));
    return p;
  }
  if (exact_prior_applies(o, t, q)) p->prior = exact_prior(a, o, t, q, noise.seed, pool);
  make_work(a, p, noise.M, pool);
  make_rooms(a, p);
  predictive_renew(p, noise.seed, false);
  return p;
}

/* A part's share of lambda times the regularizer: the parts have the prior n times, and each of the
 * observations once. */
static Target target_of_part(const Target *t, size_t n) {
  Target part = *t;
  if (t->lambda == 0) return part;
  part.regularizer = REG_BOTH;
  part.share = target_posterior(t) / t->lambda * (double)n;
  part.lambda = t->lambda / (double)n;
  return part;
}

Predictive *predictive_of_parts(Arena *a, const PredictivePart *parts, size_t n, const Target *t,
                                const Q *q, NoiseSet noise, Pool *pool) {
  Predictive *p = NEW(a, Predictive);
  size_t size = q_size(q);
  Target each = target_of_part(t, n);
  *p = (Predictive){.o = parts->o, .target = *t, .q = q, .scale = 1, .nparts = n};
  p->parts = NEW_ARRAY(a, Predictive *, n);
  p->offset = NEW_ARRAY(a, const double *, n);
  p->room = NEW_ARRAY(a, double, q_room(q));
  p->gradient = NEW_ARRAY(a, double, size);
  p->moved = NEW_ARRAY(a, double, size);
  for (size_t k = 0; k < n; k++) {
    p->parts[k] = predictive_make(a, parts[k].o, &each, q, noise, pool);
    p->offset[k] = parts[k].offset;
  }
  return p;
}

Predictive *predictive_of_draws(Arena *a, const Observed *o, const Target *t, const Q *q,
                                const ModelPoints *draws, Pool *pool) {
  Predictive *p = NEW(a, Predictive);
  *p = (Predictive){.o = o, .target = *t, .q = q, .scale = 1, .given = draws->theta};
  make_work(a, p, draws->n, pool);
  make_rooms(a, p);
  predictive_renew(p, 1, false);
  return p;
}

void predictive_set_units(Predictive *p, const double *unit) { p->unit = unit; }
void predictive_set_vi(Predictive *p, const double *phi) { p->vi = phi; }
void predictive_use_curvature(Arena *a, Predictive *p) {
  size_t size = q_size(p->q);
  p->curved = predictive_is_exact(p) && (p->parts || exact_prepare_hessian(a, p->exact));
  for (size_t k = 0; p->curved && k < p->nparts; k++) {
    predictive_use_curvature(a, p->parts[k]);
    p->curved = p->parts[k]->curved;
  }
  if (p->curved && p->parts) p->square = NEW_ARRAY(a, double, size *size);
}
bool predictive_is_curved(const Predictive *p) { return p->curved; }
void predictive_use_probe(Predictive *p, Predictive *cheap) {
  p->probe = predictive_objective(cheap);
}
void predictive_use_few(Predictive *p, Predictive *few, double price) {
  p->few = predictive_objective(few);
  p->few_price = price;
  p->few_close = p->exact;
}
/* Parts of one set of observations are integrated alike. */
bool predictive_is_exact(const Predictive *p) {
  return p->parts ? predictive_is_exact(p->parts[0]) : p->exact && !p->rest;
}
bool predictive_is_split(const Predictive *p) {
  return p->parts ? predictive_is_split(p->parts[0]) : p->rest != NULL;
}
const double *predictive_rows(const Predictive *p) {
  if (p->products) return product_means_rows(p->products);
  return p->exact ? exact_rows(p->exact) : p->row_score;
}
bool predictive_splits(const Observed *o, const Target *t, const Q *q) {
  return exact_score_applies(o, t, q) || product_means_apply(o, t, q);
}
const Q *predictive_q(const Predictive *p) { return p->q; }
const Target *predictive_target(const Predictive *p) { return &p->target; }

static void point_at_slice(Predictive *p, size_t s) {
  if (p->noise) p->draws.noise.u = p->draws.u = p->noise + s * q_noise(p->q) * p->ld;
}

/* The noise of one slice. */
static void fill_slice(Predictive *p, size_t s) {
  size_t rows = p->given ? 0 : q_noise(p->q);
  if (p->random) {
    for (size_t k = 0; k < rows; k++)
      rng_fill_normal(rng_make(p->seed, 0), s * p->M, k, p->draws.u + k * p->ld, p->M);
  } else if (rows) {
    SobolSlice slice = {s * p->M, p->M, p->slices * p->M};
    sobol_normal_slice(p->draws.u, rows, slice, p->ld, p->seed);
  }
}

void predictive_renew(Predictive *p, uint64_t seed, bool random) {
  for (size_t k = 0; k < p->nparts; k++) predictive_renew(p->parts[k], seed, random);
  if (p->rest) predictive_renew(p->rest, seed, random);
  if (p->exact || p->products || p->parts) return;
  p->seed = seed;
  p->random = random;
  for (size_t s = 0; s < p->slices && (s == 0 || p->noise); s++) {
    point_at_slice(p, s);
    fill_slice(p, s);
  }
  vm_set_noise(p->work, rng_mix(seed + 1));
}

void predictive_range(Predictive *p, double lo, double hi) {
  assert(!p->exact && !p->o->count);
  size_t n = vm_set_range(p->work, lo, hi);
  p->scale = n ? (double)p->o->n / (double)n : 1;
}

/* ---- one evaluation -------------------------------------------------------------------------- */

static double mean_of(const Predictive *p, const double *row) {
  const Kernels *k = p->draws.noise.k;
  return p->draws.weights ? k->dot(p->draws.weights, row, p->M) : k->sum(row, p->M) / (double)p->M;
}

/* The posterior regularizer: lambda times the mean log likelihood. */
static void add_posterior(Predictive *p, size_t row, const double *ll, double *adj, double *adj_w) {
  double c = p->posterior * p->scale * observed_count(p->o, row);
  p->row_mean[row] = mean_of(p, ll);
  const double *w = p->draws.weights;
  double each = c / (double)p->M;
  for (size_t j = 0; adj && !w && j < p->M; j++) adj[j] += each;
  for (size_t j = 0; adj && w && j < p->M; j++) adj[j] += c * w[j];
  for (size_t j = 0; adj_w && j < p->M; j++) adj_w[j] += c * ll[j];
}

/* What the score sees of row r of the tile, and where its derivatives go. */
static ScoreCase case_of(const Predictive *p, const TileView *t, size_t r, ScoreAdjoint *adj) {
  const Observed *o = p->o;
  Kind kind = o->wants & WANT_PARAMETERS ? o->kinds[t->block] : KIND_NONE;
  size_t ld = t->ld,
         width = kind == KIND_CATEGORICAL ? (size_t)o->model->blocks[t->block].width : 1;
  ScoreCase c = {.q = {.kind = kind, .M = p->M, .ld = ld, .weights = p->draws.weights},
                 .o = p->target.score_options,
                 .k = p->draws.noise.k,
                 .scratch = p->scratch + (size_t)t->worker * p->scratch_size};
  if (t->heads[HEAD_LL]) c.ll = t->heads[HEAD_LL] + r * ld;
  if (t->adj[HEAD_LL] && p->needs & NEEDS_LL) adj->ll = t->adj[HEAD_LL] + r * ld;
  if (kind == KIND_NONE) return c;
  c.y = observed_y(o, t->block, t->row + r);
  c.q.size = observed_size(o, t->block, t->row + r);
  for (int k = 0; k < kind_parameters(kind); k++) {
    c.q.par[k] = t->heads[HEAD_PAR + k] + r * width * ld;
    if (t->adj[HEAD_PAR + k]) adj->par[k] = t->adj[HEAD_PAR + k] + r * width * ld;
  }
  return c;
}

/* Simulated outcomes: a row of draws per element; scores of vectors want them simulation by
 * simulation. */
static void simulate_case(const Predictive *p, const TileView *t, size_t r, ScoreCase *c,
                          ScoreAdjoint *adj) {
  size_t ld = t->ld, width = (size_t)p->o->model->blocks[t->block].sim_width;
  const double *sim = t->heads[HEAD_SIM] + r * width * ld;
  c->yvec = observed_sim_y(p->o, t->block, t->row + r);
  c->y = c->yvec[0];
  c->nsim = p->M;
  c->dim = width;
  if (!(p->needs & NEEDS_VECTOR_SIM)) {
    c->sim = sim;
    if (t->adj[HEAD_SIM]) adj->sim = t->adj[HEAD_SIM] + r * width * ld;
    return;
  }
  double *v = p->vectors + (size_t)t->worker * 2 * p->vector_size;
  for (size_t j = 0; j < p->M; j++)
    for (size_t k = 0; k < width; k++) v[j * width + k] = sim[k * ld + j];
  c->sim = v;
  if (t->adj[HEAD_SIM]) adj->sim = v + p->vector_size;
}

/* The adjoints of simulated vectors back into rows of draws. */
static void return_vectors(const Predictive *p, const TileView *t, size_t r,
                           const ScoreAdjoint *adj, double factor) {
  size_t ld = t->ld, width = (size_t)p->o->model->blocks[t->block].sim_width;
  double *to = t->adj[HEAD_SIM] + r * width * ld;
  bool vectors = p->needs & NEEDS_VECTOR_SIM;
  for (size_t j = 0; j < p->M; j++)
    for (size_t k = 0; k < width; k++)
      to[k * ld + j] = factor * (vectors ? adj->sim[j * width + k] : to[k * ld + j]);
}

/* Scores of log densities under equal weights. */
static void score_together(Predictive *p, const TileView *t) {
  const Kernels *k = p->draws.noise.k;
  size_t ld = t->ld;
  const double *ll = t->heads[HEAD_LL];
  double *adj = t->adj[HEAD_LL], factor = p->scale * p->target.score_weight,
         each = p->scale * p->posterior / (double)p->M;
  for (size_t r = 0; t->totals && r < t->rows; r++)
    p->row_score[t->row + r] = p->row_mean[t->row + r] = t->totals[r] / (double)p->M;
  if (t->totals) return;
  p->together(&(ScoreRows){ll, adj, t->rows, p->M, ld, k, p->row_score + t->row});
  for (size_t r = 0; r < t->rows; r++) {
    double count = observed_count(p->o, t->row + r);
    if (p->posterior != 0) p->row_mean[t->row + r] = k->sum(ll + r * ld, p->M) / (double)p->M;
    if (adj && (factor * count != 1 || each != 0))
      k->rescale(adj + r * ld, factor * count, each * count, p->M);
  }
}

/* Every observation of the tile: its score, and what flows back from it. */
static void score_tile(void *self, const TileView *t) {
  Predictive *p = self;
  if (p->together) {
    score_together(p, t);
    return;
  }
  bool back = t->adj[HEAD_LL] || t->adj[HEAD_PAR] || t->adj[HEAD_SIM];
  double *adj_w = p->adj_w && back ? p->adj_row + (size_t)t->worker * p->ld : NULL;
  for (size_t r = 0; r < t->rows; r++) {
    ScoreAdjoint adj = {.weights = adj_w};
    ScoreCase c = case_of(p, t, r, &adj);
    double factor = p->scale * p->target.score_weight * observed_count(p->o, t->row + r);
    if (t->heads[HEAD_SIM]) simulate_case(p, t, r, &c, &adj);
    p->row_score[t->row + r] = p->score(&c, &adj);
    if (adj.sim) return_vectors(p, t, r, &adj, factor);
    times(adj.ll, factor, p->M);
    times(adj_w, factor, p->M);
    for (int k = 0; k < KIND_PARAMETERS; k++)
      times(adj.par[k], factor, p->ld * (c.q.kind == KIND_CATEGORICAL ? c.q.size : 1));
    if (p->posterior != 0)
      add_posterior(p, t->row + r, c.ll, t->adj[HEAD_LL] ? t->adj[HEAD_LL] + r * p->ld : NULL,
                    adj_w);
    if (adj_w) p->draws.noise.k->add(p->adj_w + t->chunk * p->ld, adj_w, p->ld);
  }
}

/* Derivative in the weights: of all chunks, and of the prior's mean. */
static const double *sum_adj_w(Predictive *p) {
  if (!p->adj_w) return NULL;
  size_t chunks = vm_chunks(p->work);
  double *sum = p->adj_w + chunks * p->ld;
  double lambda = p->prior ? 0 : p->target.lambda;
  memset(sum, 0, p->ld * sizeof *sum);
  if (lambda != 0) {
    const double *prior = vm_value(p->work, ROOT_PRIOR, 0),
                 *jacobian = vm_value(p->work, ROOT_JACOBIAN, 0);
    for (size_t j = 0; j < p->M; j++) sum[j] = lambda * (prior[j] + jacobian[j]);
  }
  for (size_t c = 0; c < chunks; c++) p->draws.noise.k->add(sum, p->adj_w + c * p->ld, p->ld);
  return sum;
}

static void pull_back(Predictive *p, const double *phi, double *grad) {
  double each = p->prior ? 0 : p->target.lambda / (p->draws.weights ? 1 : (double)p->M);
  const double seeds[] = {each, each};
  vm_backward(p->work, seeds, p->draws.weights, p->adj);
  if (!draws_by_rows(p)) q_adjoint(p->q, phi, &p->draws, p->adj, sum_adj_w(p), grad);
}

/* The regularizer's gradient is added. */
static bool add_rest(Predictive *p, const double *phi, PredictiveValue *v, double *grad) {
  PredictiveValue rest;
  double lambda = p->target.lambda;
  if (!predictive_eval(p->rest, phi, &rest, grad ? p->gradient : NULL)) return false;
  v->regularizer = -rest.value / lambda;
  v->value += rest.value;
  for (size_t k = 0; grad && k < q_size(p->q); k++) grad[k] += p->gradient[k];
  return true;
}

static bool eval_exact(Predictive *p, const double *phi, PredictiveValue *v, double *grad) {
  if (p->products ? !product_means_eval(p->products, phi, v, grad)
                  : !exact_eval(p->exact, phi, v, grad))
    return false;
  if (p->rest && !add_rest(p, phi, v, grad)) return false;
  p->last = *v;
  return true;
}

void predictive_time(Arena *a, Predictive *p, Stages *stages) {
  if (p->products) { /* of the draws alone */
    predictive_time(a, p->rest, stages);
    return;
  }
  if (p->exact) {
    exact_time(a, p->exact, stages);
    return;
  }
  p->stages = stages;
  p->times = stages ? NEW_ARRAY(a, VmTimes, vm_workers(p->work)) : NULL;
  vm_set_times(p->work, p->times);
}

const Work *predictive_work(const Predictive *p) {
  if (p->parts) return predictive_work(p->parts[0]);
  if (p->products) return predictive_work(p->rest);
  return p->exact ? exact_work(p->exact) : p->work;
}
size_t predictive_lanes(const Predictive *p) {
  if (p->parts) return predictive_lanes(p->parts[0]);
  return p->rest ? predictive_lanes(p->rest) : p->exact ? exact_lanes(p->exact) : p->M * p->slices;
}

bool predictive_grid_fits(const Predictive *p, size_t nodes, size_t rows) {
  return exact_grid_fits(p->exact, nodes, rows);
}

/* The elbo is linear in the log densities: score and regularizer together. */
static void set_linear(Predictive *p) {
  double each = p->scale * (p->target.score_weight + p->posterior) / (double)p->M;
  p->draws.noise.k->fill(p->linear, each, p->M);
  vm_set_linear(p->work, p->linear);
}

/* theta of every draw. Those that are given fill their lanes; the padding repeats the first. */
static void make_draws(Predictive *p, const double *phi) {
  if (draws_by_rows(p)) {
    vm_draw(p->work);
  } else if (!p->given) {
    q_draw(p->q, phi, &p->draws, p->theta);
  } else {
    for (size_t k = 0; k < p->q->dim; k++)
      for (size_t j = 0; j < p->ld; j++)
        p->theta[k * p->ld + j] = p->given[k * p->M + (j < p->M ? j : 0)];
  }
}

static const double *phi_of_part(Predictive *p, const double *phi, size_t part) {
  for (size_t k = 0; k < q_size(p->q); k++) p->moved[k] = phi[k] + p->offset[part][k];
  return p->moved;
}

static bool eval_parts(Predictive *p, const double *phi, PredictiveValue *v, double *grad) {
  PredictiveValue sum = {0, 0, 0}, one;
  size_t size = q_size(p->q);
  if (grad) memset(grad, 0, size * sizeof *grad);
  for (size_t part = 0; part < p->nparts; part++) {
    const double *moved = phi_of_part(p, phi, part);
    if (!predictive_eval(p->parts[part], moved, &one, grad ? p->gradient : NULL)) return false;
    sum.value += one.value;
    sum.score += one.score;
    sum.regularizer += one.regularizer / (double)p->nparts;
    for (size_t k = 0; grad && k < size; k++) grad[k] += p->gradient[k];
  }
  *v = p->last = sum;
  return true;
}

/* The draws of a slice; their gradient is added. kl: where the regularizer is exact, what it is. */
static bool eval_draws(Predictive *p, const double *phi, PredictiveValue kl, PredictiveValue *v,
                       double *grad) {
  double lambda = p->target.lambda, *g = grad ? grad : p->gradient;
  memset(p->row_score, 0, p->o->n * sizeof *p->row_score);
  memset(p->row_mean, 0, p->o->n * sizeof *p->row_mean);
  p->phi = phi;
  p->grad = grad;
  if (p->adj_w) memset(p->adj_w, 0, vm_chunks(p->work) * p->ld * sizeof *p->adj_w);
  double clock = p->stages ? base_seconds() : 0;
  make_draws(p, phi);
  if (p->stages) pass(&clock, &p->stages->draws);
  vm_forward(p->work, p->theta);
  if (p->stages) pass(&clock, &p->stages->globals);
  if (p->linear) set_linear(p);
  vm_tiles(p->work, score_tile, p, grad != NULL);
  if (p->stages) pass_tiles(p->stages, p->times, vm_workers(p->work), &clock);
  if (!p->prior && lambda != 0) {
    double prior = mean_of(p, vm_value(p->work, ROOT_PRIOR, 0)) +
                   mean_of(p, vm_value(p->work, ROOT_JACOBIAN, 0));
    kl.regularizer = -prior - q_entropy(p->q, phi, &p->draws, lambda, g);
  }
  v->score = p->scale * observed_sum(p->o, p->row_score);
  v->regularizer =
      kl.regularizer -
      (p->posterior != 0 ? p->posterior / lambda * p->scale * observed_sum(p->o, p->row_mean) : 0);
  v->value = p->target.score_weight * v->score - (lambda == 0 ? 0 : lambda * v->regularizer);
  if (!isfinite(v->value)) return false;
  if (grad) pull_back(p, phi, grad);
  if (grad && p->stages) pass(&clock, &p->stages->adjoints);
  return true;
}

/* The mean of all slices. */
static bool eval_slices(Predictive *p, const double *phi, PredictiveValue kl, PredictiveValue *v,
                        double *grad) {
  size_t size = q_size(p->q);
  double part = 1.0 / (double)p->slices;
  PredictiveValue one;
  *v = (PredictiveValue){0, 0, 0};
  memset(p->slice_rows, 0, p->o->n * sizeof *p->slice_rows);
  for (size_t s = 0; s < p->slices; s++) {
    memset(p->slice_gradient, 0, size * sizeof *p->slice_gradient);
    point_at_slice(p, s);
    if (!p->noise) fill_slice(p, s);
    if (!eval_draws(p, phi, kl, &one, grad ? p->slice_gradient : NULL)) return false;
    v->value += part * one.value;
    v->score += part * one.score;
    v->regularizer += part * one.regularizer;
    for (size_t k = 0; k < p->o->n; k++) p->slice_rows[k] += part * p->row_score[k];
    for (size_t k = 0; grad && k < size; k++) grad[k] += part * p->slice_gradient[k];
  }
  memcpy(p->row_score, p->slice_rows, p->o->n * sizeof *p->slice_rows);
  return true;
}

bool predictive_eval(Predictive *p, const double *phi, PredictiveValue *v, double *grad) {
  *v = (PredictiveValue){NAN, NAN, NAN};
  if (p->parts) return eval_parts(p, phi, v, grad);
  if (p->exact || p->products) return eval_exact(p, phi, v, grad);
  PredictiveValue kl = {0, 0, 0};
  memset(grad ? grad : p->gradient, 0, q_size(p->q) * sizeof *grad);
  if (p->prior && !exact_eval(p->prior, phi, &kl, grad)) return false;
  if (!(p->slices > 1 ? eval_slices : eval_draws)(p, phi, kl, v, grad)) return false;
  if (grad && !all_finite(grad, q_size(p->q))) return false;
  p->last = *v;
  return true;
}

PredictiveValue predictive_last(const Predictive *p) { return p->last; }

/* ---- as the optimizers see it ---------------------------------------------------------------- */

static bool objective_eval(void *self, const double *phi, double *value, double *grad) {
  PredictiveValue v;
  bool ok = predictive_eval(self, phi, &v, grad);
  *value = v.value;
  return ok;
}

static void objective_precondition(void *self, const double *phi, double *x) {
  const Predictive *p = self;
  q_precondition(p->q, phi, p->vi ? p->vi : phi, p->unit, p->room, x);
}

/* An ELBO is the expectation of a log density plus an entropy. */
static bool leaps(const Predictive *p) {
  return p->target.score == SCORE_elbo && p->target.lambda > 0 && q_leaps(p->q);
}

static bool objective_leap(void *self, const double *phi, const double *grad, double *to) {
  const Predictive *p = self;
  return q_leap(p->q, phi, p->target.lambda, grad, p->room, to);
}

/* Of all parts; they cost what one of all their observations would. */
static long curvature_of_parts(Predictive *p, const double *phi, double *A) {
  size_t n = q_size(p->q);
  long cost = 0;
  memset(A, 0, n * n * sizeof *A);
  for (size_t part = 0; part < p->nparts; part++) {
    cost = exact_hessian(p->parts[part]->exact, phi_of_part(p, phi, part), p->square);
    for (size_t i = 0; i < n * n; i++) A[i] += p->square[i];
  }
  return cost;
}

static long objective_curvature(void *self, const double *phi, double *A) {
  Predictive *p = self;
  size_t n = q_size(p->q);
  long cost = p->parts ? curvature_of_parts(p, phi, A) : exact_hessian(p->exact, phi, A);
  for (size_t i = 0; i < n * n; i++) A[i] = -A[i];
  return cost;
}

static void objective_unit(void *self, const double *phi, double *d) {
  const Predictive *p = self;
  q_scale(p->q, phi, p->unit, d);
  for (size_t k = 0; k < q_size(p->q); k++) d[k] = sqrt(d[k]);
}

static void objective_reach(void *self, const double *phi, double *d) {
  const Predictive *p = self;
  q_reach(p->q, phi, d);
}

static void objective_state(void *self, Archive *a) {
  Predictive *p = self;
  archive_double(a, &p->last.value);
  archive_double(a, &p->last.score);
  archive_double(a, &p->last.regularizer);
  for (size_t k = 0; k < p->nparts; k++) objective_state(p->parts[k], a);
  if (p->exact) exact_state(p->exact, a);
}

Objective predictive_objective(Predictive *p) {
  return (Objective){.dim = q_size(p->q),
                     .self = p,
                     .eval = objective_eval,
                     .state = objective_state,
                     .precondition = p->q->npoint && !p->unit ? NULL : objective_precondition,
                     .leap = leaps(p) ? objective_leap : NULL,
                     .curvature = p->curved ? objective_curvature : NULL,
                     .probe = p->probe.dim && !p->curved ? &p->probe : NULL,
                     .few = p->few.dim && !p->curved ? &p->few : NULL,
                     .few_price = p->few_price,
                     .few_close = p->few_close,
                     .unit = objective_unit,
                     .reach = objective_reach};
}
