/* scoring.c: scores of observations under a q that is given: what a finished fit reports.
 *
 * Where exact integration applies, the number of nodes is as large as every observation needs: it
 * doubles, for the observations whose score still changes, until two numbers of nodes agree. Those
 * that change much to the last, and everything where integration is by draws, is scored on draws
 * that no fit has seen.
 */
#include "infer/exact.h"
#include "infer/predictive_int.h"
#include "infer/product_means.h"

#include "num/sobol.h"

#include <math.h>
#include <string.h>

static bool nobody_waits(const Scoring *j) {
  return j->cancelled && j->cancelled(j->cancelled_self);
}

/* Scores that were not finished are none. */
static void forget_unfinished(const Scoring *j, double *scores) {
  bool left = nobody_waits(j);
  for (size_t k = 0; left && k < j->o->n; k++) scores[k] = NAN;
}

/* ---- observations that need more ------------------------------------------------------------- */

/* Some of the observations: their places among all. */
typedef struct {
  size_t n, *at;
} Some;

static Some all_of(Arena *a, size_t n) {
  Some u = {n, NEW_ARRAY(a, size_t, n + 1)};
  for (size_t k = 0; k < n; k++) u.at[k] = k;
  return u;
}

static Observed *select_rows(Arena *a, const Observed *o, const Some *u) {
  int nblocks = o->model->nblocks;
  ModelRows rows = {.n = u->n, .first = NEW_ARRAY(a, size_t, nblocks + 1)};
  int32_t *row = NEW_ARRAY(a, int32_t, u->n + 1);
  for (size_t k = 0; k < u->n; k++) row[k] = o->rows.row[u->at[k]];
  size_t k = 0;
  for (int b = 0; b < nblocks; b++) {
    while (k < u->n && u->at[k] < o->rows.first[b + 1]) k++;
    rows.first[b + 1] = k;
  }
  rows.row = row;
  return observed_of(a, o->model, &rows, o->wants);
}

/* ---- log scores by many draws ---------------------------------------------------------------- */

/* What batches of draws have said of an observation so far: their mean densities, as numbers over
 * exp(top). */
typedef struct {
  double top, sum, squares;
} Batches;

static void add_batch(Batches *b, double log_density) {
  if (log_density == -INFINITY) return;
  if (log_density > b->top) {
    double less = exp(b->top - log_density);
    *b = (Batches){log_density, b->sum * less, b->squares * less * less};
  }
  double x = exp(log_density - b->top);
  b->sum += x;
  b->squares += x * x;
}

/* The standard error of the log of their mean, were they independent. They are slices of one
 * quasi-random set, so it is less. */
static double batches_error(const Batches *b, double count) {
  double mean = b->sum / count, square = b->squares / count;
  if (!(mean > 0)) return INFINITY;
  return sqrt(fmax(0, square / (mean * mean) - 1) / (count - 1));
}

typedef struct {
  size_t M, ld;
  const Kernels *k;
  const double *weights;
  double share;     /* log of how many draws these are, in units of a batch */
  Batches *batches; /* of each row */
} Running;

static void add_densities(void *self, const TileView *v) {
  Running *s = self;
  for (size_t r = 0; r < v->rows; r++) {
    ScoreCase c = {.q = {.M = s->M, .ld = s->ld, .weights = s->weights},
                   .ll = v->heads[HEAD_LL] + r * s->ld,
                   .k = s->k};
    add_batch(&s->batches[v->row + r], score_log(&c, &(ScoreAdjoint){0}) + s->share);
  }
}

static Batches *no_batches(Arena *a, size_t n) {
  Batches *b = NEW_ARRAY(a, Batches, n + 1);
  for (size_t k = 0; k < n; k++) b[k] = (Batches){-INFINITY, 0, 0};
  return b;
}

static double batches_score(const Batches *b, double count) { return b->top + log(b->sum / count); }

enum { BATCH = 1024, SLICE = 256 }; /* draws at a time: memory does not grow with their number */

/* By draws that are given. */
static void log_by_given(Arena *a, const Scoring *j, double *scores) {
  size_t M = j->noise.M, n = j->o->n;
  Work *w = vm_work_forward(a, observed_tape(j->o), BATCH, j->pool);
  ModelLanes lanes = {vm_theta(w), BATCH, vm_ld(w)};
  ModelPoints points = {j->theta, M, 1, M};
  Batches *b = no_batches(a, n);
  for (size_t first = 0; first < M && !nobody_waits(j); first += BATCH) {
    size_t m = model_lanes(j->o->model, &points, first, lanes);
    vm_forward(w, lanes.theta);
    Running s = {m, lanes.ld, vm_kernels(w), NULL, log((double)m / BATCH), b};
    vm_tiles(w, add_densities, &s, false);
  }
  for (size_t k = 0; k < n; k++) scores[k] = batches_score(&b[k], (double)M / BATCH);
}

/* Some of j's observations, on slices [from, to) of all `count`. */
typedef struct {
  const Scoring *j;
  Some u;
  Batches *batches;
  size_t count;
} Slices;

static void run_slices(const Slices *s, size_t from, size_t to) {
  const Scoring *j = s->j;
  TempArena *temp = temp_open(j->o->arena->ctx);
  Arena *a = &temp->arena;
  const Observed *o = s->u.n == j->o->n ? j->o : select_rows(a, j->o, &s->u);
  Work *w = vm_work_forward(a, observed_tape(o), SLICE, j->pool);
  size_t ld = vm_ld(w);
  QDraws d = q_draws(a, j->q, SLICE, ld, vm_kernels(w));
  double *theta = vm_theta(w);
  Running run = {SLICE, ld, vm_kernels(w), d.weights, 0, s->batches};
  for (size_t k = from; k < to && !nobody_waits(j); k++) {
    sobol_normal_slice(d.u, q_noise(j->q), (SobolSlice){k * SLICE, SLICE, s->count * SLICE}, ld,
                       j->noise.seed);
    q_draw(j->q, j->phi, &d, theta);
    vm_forward(w, theta);
    vm_tiles(w, add_densities, &run, false);
  }
  temp_close(temp);
}

/* Errors of all observations have one cause, the draws, and add up: so of many each has to be
 * smaller, if their sum's is to be a hundredth or two of what the sum varies by. */
static double small_error(const Scoring *j) { return 0.02 / sqrt((double)j->o->model->n_obs); }

/* By draws of q: a few, and twice as many again and again for those observations of which they have
 * not said enough, up to noise.M. Whether they have is asked of each by itself, so a score does not
 * depend on what else is scored. */
static void log_by_draws(Arena *a, const Scoring *j, double *scores) {
  if (j->theta) {
    log_by_given(a, j, scores);
    return;
  }
  enum { LEAST = 4 };
  Slices s = {j, all_of(a, j->o->n), no_batches(a, j->o->n), (j->noise.M + SLICE - 1) / SLICE};
  double enough = j->tolerance > 0 ? small_error(j) : -1;
  for (size_t done = 0, to = LEAST; s.u.n && !nobody_waits(j); done = to, to *= 2) {
    if (to > s.count) to = s.count;
    run_slices(&s, done, to);
    size_t more = 0;
    for (size_t k = 0; k < s.u.n; k++) {
      size_t at = s.u.at[k];
      scores[at] = batches_score(&s.batches[k], (double)to);
      if (to == s.count || batches_error(&s.batches[k], (double)to) <= enough) continue;
      s.batches[more] = s.batches[k];
      s.u.at[more++] = at;
    }
    s.u.n = more;
  }
}

/* ---- one evaluation of the rows -------------------------------------------------------------- */

/* Nodes to begin with, and without a tolerance. */
enum { FIRST_NODES = 32, FIXED_NODES = 64 };
/* Few nodes of a law that is wide agree where it is symmetric, whatever it is: so binary outcomes
 * begin with as many as have another way (EXACT_NODES). */
enum { WIDE_NODES = 4 * EXACT_NODES };

/* With t->nodes, or by the draws of j. */
static const Predictive *evaluate(Arena *a, const Scoring *j, const Target *t, double *scores) {
  ModelPoints draws = {j->theta, j->noise.M, 1, j->noise.M};
  Predictive *p = j->theta ? predictive_of_draws(a, j->o, t, j->q, &draws, j->pool)
                           : predictive_make(a, j->o, t, j->q, j->noise, j->pool);
  PredictiveValue v;
  predictive_eval(p, j->phi, &v, NULL);
  memcpy(scores, predictive_rows(p), j->o->n * sizeof *scores);
  return p;
}

static void by_draws(Arena *a, const Scoring *j, Target t, double *scores) {
  t.integrate = INTEGRATE_DRAWS;
  if (t.score == SCORE_log)
    log_by_draws(a, j, scores);
  else
    evaluate(a, j, &t, scores);
}

/* ---- as many nodes as it takes --------------------------------------------------------------- */

/* The limits: nodes a dimension of a line and of a plane, fewer for scores that cost more than a
 * sum over them; and lanes of all observations together, beyond those that are cheap. Draws for
 * what does not settle. */
typedef struct {
  size_t line, plane, lanes, draws;
} Limits;
static const Limits of_log = {8192, 512, (size_t)1 << 29, (size_t)1 << 17},
                    of_others = {2048, 128, (size_t)1 << 20, (size_t)1 << 14},
                    of_costly = {2048, 32, (size_t)1 << 15, (size_t)1 << 14};
enum { CHEAP_NODES = 128, LEAST_DRAWS = 1024, GRID_LANES = 1 << 27 };

static bool is_costly(const Scoring *j, const Target *t) {
  for (int b = 0; t->score != SCORE_log && b < j->o->model->nblocks; b++)
    if (kind_is_costly(j->o->kinds[b])) return true;
  return false;
}

static const Limits *limits_of(const Scoring *j, const Target *t) {
  return t->score == SCORE_log ? &of_log : is_costly(j, t) ? &of_costly : &of_others;
}

/* Nodes of log scores reach farther than those of fits, into tails of q where an outlier of the
 * outcome has all of its density. */
static const double REACH = 16;

/* The observations whose scores still change. */
typedef struct {
  Some some;
  double *change;          /* of all: the last one, relative to 1 + |score| */
  const Predictive *first; /* how they were evaluated at first */
} Unsettled;

/* Few nodes may agree by chance, and where integration converges fast more agree in many digits;
 * where it is slow, the digits asked for must do. Scores that compare all lanes with each other
 * have a fourfold price for twice the nodes, which are that much better than the last ones. */
static double enough(const Scoring *j, const Target *t) {
  double chance = t->score == SCORE_log ? 0.01 : 0.1;
  return t->nodes <= CHEAP_NODES && !exact_has_grid(j->o) ? chance * j->tolerance : j->tolerance;
}

/* now: of the unsettled ones; scores: of all, the last ones. No density at any node is no answer:
 * it may be that all of them missed it. */
static void keep_unsettled(Unsettled *u, const double *now, double *scores, const Scoring *j,
                           const Target *t) {
  size_t n = 0;
  double tolerance = enough(j, t);
  for (size_t k = 0; k < u->some.n; k++) {
    size_t at = u->some.at[k];
    double change = scores[at] == now[k] ? 0 : fabs(now[k] - scores[at]) / (1 + fabs(now[k]));
    scores[at] = now[k];
    u->change[at] = change;
    bool missed = t->score == SCORE_log && isinf(now[k]);
    if (missed || !(change <= tolerance)) u->some.at[n++] = at;
  }
  u->some.n = n;
}

static bool may_double(const Scoring *j, const Target *t, const Unsettled *u) {
  bool plane = exact_has_plane(j->o);
  const Limits *l = limits_of(j, t);
  size_t lanes = plane ? 4 * t->nodes * t->nodes : 2 * t->nodes;
  return 2 * t->nodes <= (plane ? l->plane : l->line) &&
         predictive_grid_fits(u->first, 2 * t->nodes, u->some.n) &&
         (2 * t->nodes <= FIXED_NODES || u->some.n < l->lanes / lanes);
}

/* As many as the limits of all observations together allow. Where scales are on a grid, a wide q
 * leaves many observations unsettled. */
static size_t draws_for(const Scoring *j, const Target *t, const Unsettled *u) {
  const Limits *l = limits_of(j, t);
  size_t lanes = exact_has_scales(j->o) && l->lanes > GRID_LANES ? GRID_LANES : l->lanes,
         fair = lanes / (u->some.n + 1);
  return fair < LEAST_DRAWS ? LEAST_DRAWS : fair < l->draws ? fair : l->draws;
}

/* The unsettled ones again, with twice the nodes or, where there are no more, by draws. */
static void evaluate_again(const Scoring *j, const Target *t, bool exact, Unsettled *u,
                           double *scores) {
  TempArena *temp = temp_open(j->o->arena->ctx);
  Arena *a = &temp->arena;
  Scoring again = *j;
  double *now = NEW_ARRAY(a, double, u->some.n + 1);
  Observed *o = select_rows(a, j->o, &u->some);
  again.o = o;
  again.noise.M = draws_for(j, t, u);
  if (exact) {
    observed_reduce(o);
    evaluate(a, &again, t, now);
    keep_unsettled(u, now, scores, j, t);
  } else {
    by_draws(a, &again, *t, now);
    for (size_t k = 0; k < u->some.n; k++) scores[u->some.at[k]] = now[k];
  }
  temp_close(temp);
}

/* What changes by less than draws would is left as it is. */
static void keep_worst(Unsettled *u) {
  size_t n = 0;
  for (size_t k = 0; k < u->some.n; k++)
    if (!(u->change[u->some.at[k]] <= 1e-3)) u->some.at[n++] = u->some.at[k];
  u->some.n = n;
}

static void settle(Arena *a, const Scoring *j, Target t, double *scores) {
  size_t n = j->o->n;
  Unsettled u = {all_of(a, n), NEW_ARRAY(a, double, n + 1), NULL};
  double *now = NEW_ARRAY(a, double, n + 1);
  size_t first = exact_has_wide(j->o) ? WIDE_NODES : FIRST_NODES;
  t.nodes = first / 2;
  evaluate(a, j, &t, scores);
  t.nodes = first;
  u.first = evaluate(a, j, &t, now);
  keep_unsettled(&u, now, scores, j, &t);
  t.reach = t.score == SCORE_log ? REACH : 0;
  while (u.some.n && !nobody_waits(j) && may_double(j, &t, &u)) {
    t.nodes *= 2;
    evaluate_again(j, &t, true, &u, scores);
  }
  if (j->unsettled) *j->unsettled += u.some.n;
  keep_worst(&u);
  if (u.some.n && !nobody_waits(j)) evaluate_again(j, &t, false, &u, scores);
}

/* ---- scores ---------------------------------------------------------------------------------- */

/* Quasi-random points of scales never agree in six digits: their number is fixed, and as large as
 * the score is cheap, or as few digits as are asked for need. */
static size_t sampled_nodes(const Scoring *s, const Target *t) {
  const double FEW_DIGITS = 1e-5;
  bool many = t->score == SCORE_log && s->tolerance < FEW_DIGITS;
  return many ? 4 * FIXED_NODES : FIXED_NODES;
}

/* Draws of a score that costs much, so many for all observations of the program together: those of
 * a fold are some of them. Of 500 outcomes of a t distribution 131 draws leave an error of one or
 * two hundredths of the mean score's standard error; sums over counts cost half as much, and 262
 * draws of 500 of them leave a thousandth. */
static size_t affordable_draws(const Scoring *s, const Target *t) {
  enum { LEAST = 128, COSTLY = 1 << 16, COUNTS = 1 << 17 };
  bool costly = is_costly(s, t);
  size_t fair = (costly ? COSTLY : COUNTS) / (s->o->model->n_obs + 1), most = s->noise.M;
  if (!costly && !target_counts(t, s->o)) return most;
  return fair > most ? most : fair < LEAST && LEAST < most ? LEAST : fair;
}

/* What is by draws has no more digits than this. */
static const double DRAWS_DIGITS = 1e-4;

/* By draws: a quarter of them for the observations about which an eighth says nearly the same.
 * Under a narrow q, as VI's, these are most. */
static void settle_draws(Arena *a, const Scoring *j, const Target *t, double *scores) {
  enum { FEWER = 4, LEAST = 128 };
  size_t M = j->noise.M, n = 0;
  if (j->theta || !(j->tolerance > 0) || M < 2 * FEWER * LEAST) {
    evaluate(a, j, t, scores);
    return;
  }
  Scoring part = *j;
  Some u = all_of(a, j->o->n);
  double *now = NEW_ARRAY(a, double, u.n + 1);
  part.noise.M = M / (2 * FEWER);
  evaluate(a, &part, t, now);
  part.noise.M = M / FEWER;
  if (nobody_waits(j)) return;
  evaluate(a, &part, t, scores);
  for (size_t k = 0; k < u.n; k++)
    if (!(fabs(scores[k] - now[k]) <= small_error(j) * fabs(scores[k]))) u.at[n++] = k;
  u.n = n;
  if (!n || nobody_waits(j)) return;
  part = *j;
  part.o = select_rows(a, j->o, &u);
  evaluate(a, &part, t, now);
  for (size_t k = 0; k < n; k++) scores[u.at[k]] = now[k];
}

/* The log scores, where they are had by means over one parameter each. */
static bool by_products(Ctx *c, const Scoring *s, Integrate how, double *scores) {
  return how != INTEGRATE_DRAWS && !s->theta && product_means_known(s->o, s->q) &&
         product_means_scores(c, s, scores);
}

void predictive_scores(Ctx *c, const Scoring *s, const Target *target, double *scores) {
  if (target->score == SCORE_log && by_products(c, s, target->integrate, scores)) return;
  TempArena *temp = temp_open(c);
  Scoring j = *s;
  Target t = *target;
  const char *why;
  t.lambda = 0;
  t.forward = true;
  if (!t.nodes) t.nodes = exact_has_grid(s->o) ? 2 * FIXED_NODES : FIXED_NODES;
  bool exact = t.integrate != INTEGRATE_DRAWS && exact_applies(s->o, &t, s->q, &why);
  bool sampled = exact && exact_is_sampled(s->o);
  if (sampled && is_costly(s, &t)) { /* fewer draws do */
    t.integrate = INTEGRATE_DRAWS;
    exact = sampled = false;
  }
  if (sampled) t.nodes = sampled_nodes(s, &t);
  if (!exact && !s->theta) j.noise.M = affordable_draws(s, &t);
  if (!exact) t.score_options.accuracy = DRAWS_DIGITS;
  if (exact && s->tolerance > 0 && !sampled)
    settle(&temp->arena, s, t, scores);
  else if (exact)
    evaluate(&temp->arena, &j, &t, scores);
  else
    settle_draws(&temp->arena, &j, &t, scores);
  forget_unfinished(s, scores);
  temp_close(temp);
}

void predictive_log_scores(Ctx *c, const Scoring *s, Integrate how, double *scores) {
  Target t = {.score = SCORE_log, .score_weight = 1, .integrate = how};
  const char *why;
  if (how != INTEGRATE_DRAWS && exact_applies(s->o, &t, s->q, &why)) {
    predictive_scores(c, s, &t, scores);
    return;
  }
  if (by_products(c, s, how, scores)) return;
  TempArena *temp = temp_open(c);
  log_by_draws(&temp->arena, s, scores);
  forget_unfinished(s, scores);
  temp_close(temp);
}

static void keep_first(void *self, const TileView *t) {
  double *out = self;
  for (size_t r = 0; r < t->rows; r++) out[t->row + r] = t->heads[HEAD_LL][r * LANES];
}

void predictive_point(Ctx *c, const Observed *o, const double *theta, double *log_densities) {
  TempArena *temp = temp_open(c);
  double *rows = NEW_ARRAY(&temp->arena, double, o->model->dim *LANES);
  for (size_t k = 0; k < o->model->dim * LANES; k++) rows[k] = theta[k / LANES];
  Work *w = vm_work_forward(&temp->arena, observed_tape(o), LANES, NULL);
  vm_forward(w, rows);
  vm_tiles(w, keep_first, log_densities, false);
  temp_close(temp);
}
