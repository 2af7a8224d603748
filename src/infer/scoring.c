/* scoring.c: scores of observations under a q that is given: what a finished fit reports.
 *
 * Where exact integration applies, the number of nodes is as large as every observation needs: it
 * doubles, for the observations whose score still changes, until two numbers of nodes agree. Those
 * that change much to the last, and everything where integration is by draws, is scored on draws
 * that no fit has seen.
 */
#include "infer/exact.h"
#include "infer/predictive_int.h"

#include "num/sobol.h"

#include <math.h>
#include <string.h>

/* ---- log scores by many draws ---------------------------------------------------------------- */

typedef struct {
  size_t M, ld;
  const Kernels *k;
  const double *weights;
  double share;   /* log of how many draws these are, in units of a batch */
  double *scores; /* running log of the sum of densities */
} Running;

static void add_densities(void *self, const TileView *v) {
  Running *s = self;
  for (size_t r = 0; r < v->rows; r++) {
    ScoreCase c = {.q = {.M = s->M, .ld = s->ld, .weights = s->weights},
                   .ll = v->heads[HEAD_LL] + r * s->ld,
                   .k = s->k};
    double one = score_log(&c, &(ScoreAdjoint){0}) + s->share, *t = &s->scores[v->row + r];
    double top = one > *t ? one : *t, low = one > *t ? *t : one;
    *t = top == -INFINITY ? top : top + log1p(exp(low - top));
  }
}

enum { BATCH = 1024 }; /* draws at a time, so that memory does not grow with their number */

/* By draws that are given. */
static void log_by_given(Arena *a, const Scoring *j, double *scores) {
  size_t dim = j->q->dim, M = j->noise.M;
  Work *w = vm_work(a, observed_tape(j->o), BATCH, j->pool);
  double *theta = NEW_ARRAY(a, double, dim *BATCH + 1);
  ModelPoints points = {j->theta, M, 1, M};
  for (size_t k = 0; k < j->o->n; k++) scores[k] = -INFINITY;
  for (size_t first = 0; first < M; first += BATCH) {
    size_t m = model_lanes(j->o->model, &points, first, BATCH, theta);
    vm_forward(w, theta);
    Running s = {m, BATCH, vm_kernels(w), NULL, log((double)m / BATCH), scores};
    vm_tiles(w, add_densities, &s, false);
  }
  for (size_t k = 0; k < j->o->n; k++) scores[k] -= log((double)M / BATCH);
}

static void log_by_draws(Arena *a, const Scoring *j, double *scores) {
  if (j->theta) {
    log_by_given(a, j, scores);
    return;
  }
  size_t batches = (j->noise.M + BATCH - 1) / BATCH, rows = q_noise(j->q);
  Work *w = vm_work(a, observed_tape(j->o), BATCH, j->pool);
  QDraws d = q_draws(a, j->q, BATCH, BATCH, vm_kernels(w));
  double *theta = NEW_ARRAY(a, double, j->q->dim *BATCH);
  for (size_t k = 0; k < j->o->n; k++) scores[k] = -INFINITY;
  for (size_t b = 0; b < batches; b++) {
    sobol_normal_slice(d.u, rows, (SobolSlice){b * BATCH, BATCH, batches * BATCH}, BATCH,
                       j->noise.seed);
    q_draw(j->q, j->phi, &d, theta);
    vm_forward(w, theta);
    Running s = {BATCH, BATCH, vm_kernels(w), d.weights, 0, scores};
    vm_tiles(w, add_densities, &s, false);
  }
  for (size_t k = 0; k < j->o->n; k++) scores[k] -= log((double)batches);
}

/* ---- one evaluation of the rows -------------------------------------------------------------- */

/* Nodes to begin with, and without a tolerance. */
enum { FIRST_NODES = 32, FIXED_NODES = 64 };
/* Few nodes of a law that is wide agree where it is symmetric, whatever it is: so binary outcomes
 * begin with as many as have another way (EXACT_NODES). */
enum { WIDE_NODES = 4 * EXACT_NODES };

/* With t->nodes, or by the draws of j. */
static void evaluate(Arena *a, const Scoring *j, const Target *t, double *scores) {
  ModelPoints draws = {j->theta, j->noise.M, 1, j->noise.M};
  Predictive *p = j->theta ? predictive_of_draws(a, j->o, t, j->q, &draws, j->pool)
                           : predictive_make(a, j->o, t, j->q, j->noise, j->pool);
  PredictiveValue v;
  predictive_eval(p, j->phi, &v, NULL);
  memcpy(scores, predictive_rows(p), j->o->n * sizeof *scores);
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
  size_t n, *at;  /* their places among all */
  double *change; /* of all: the last one, relative to 1 + |score| */
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
  for (size_t k = 0; k < u->n; k++) {
    size_t at = u->at[k];
    double change = scores[at] == now[k] ? 0 : fabs(now[k] - scores[at]) / (1 + fabs(now[k]));
    scores[at] = now[k];
    u->change[at] = change;
    bool missed = t->score == SCORE_log && isinf(now[k]);
    if (missed || !(change <= tolerance)) u->at[n++] = at;
  }
  u->n = n;
}

/* These observations alone. */
static Observed *select_rows(Arena *a, const Observed *o, const Unsettled *u) {
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

static bool may_double(const Scoring *j, const Target *t, const Unsettled *u) {
  bool plane = exact_has_plane(j->o);
  const Limits *l = limits_of(j, t);
  size_t lanes = plane ? 4 * t->nodes * t->nodes : 2 * t->nodes;
  return 2 * t->nodes <= (plane ? l->plane : l->line) &&
         exact_grid_fits(j->o, 2 * t->nodes, u->n) &&
         (2 * t->nodes <= FIXED_NODES || u->n < l->lanes / lanes);
}

/* As many as the limits of all observations together allow. Where scales are on a grid, a wide q
 * leaves many observations unsettled. */
static size_t draws_for(const Scoring *j, const Target *t, const Unsettled *u) {
  const Limits *l = limits_of(j, t);
  size_t lanes = exact_has_scales(j->o) && l->lanes > GRID_LANES ? GRID_LANES : l->lanes,
         fair = lanes / (u->n + 1);
  return fair < LEAST_DRAWS ? LEAST_DRAWS : fair < l->draws ? fair : l->draws;
}

/* The unsettled ones again, with twice the nodes or, where there are no more, by draws. */
static void evaluate_again(const Scoring *j, const Target *t, bool exact, Unsettled *u,
                           double *scores) {
  TempArena *temp = temp_open(j->o->arena->ctx);
  Arena *a = &temp->arena;
  Scoring again = *j;
  double *now = NEW_ARRAY(a, double, u->n + 1);
  Observed *o = select_rows(a, j->o, u);
  again.o = o;
  again.noise.M = draws_for(j, t, u);
  if (exact) {
    observed_reduce(o);
    evaluate(a, &again, t, now);
    keep_unsettled(u, now, scores, j, t);
  } else {
    by_draws(a, &again, *t, now);
    for (size_t k = 0; k < u->n; k++) scores[u->at[k]] = now[k];
  }
  temp_close(temp);
}

/* What changes by less than draws would is left as it is. */
static void keep_worst(Unsettled *u) {
  size_t n = 0;
  for (size_t k = 0; k < u->n; k++)
    if (!(u->change[u->at[k]] <= 1e-3)) u->at[n++] = u->at[k];
  u->n = n;
}

static void settle(Arena *a, const Scoring *j, Target t, double *scores) {
  size_t n = j->o->n;
  Unsettled u = {n, NEW_ARRAY(a, size_t, n + 1), NEW_ARRAY(a, double, n + 1)};
  double *now = NEW_ARRAY(a, double, n + 1);
  for (size_t k = 0; k < n; k++) u.at[k] = k;
  size_t first = exact_has_wide(j->o) ? WIDE_NODES : FIRST_NODES;
  t.nodes = first / 2;
  evaluate(a, j, &t, scores);
  t.nodes = first;
  evaluate(a, j, &t, now);
  keep_unsettled(&u, now, scores, j, &t);
  t.reach = t.score == SCORE_log ? REACH : 0;
  while (u.n && may_double(j, &t, &u)) {
    t.nodes *= 2;
    evaluate_again(j, &t, true, &u, scores);
  }
  if (j->unsettled) *j->unsettled += u.n;
  keep_worst(&u);
  if (u.n) evaluate_again(j, &t, false, &u, scores);
}

/* ---- scores ---------------------------------------------------------------------------------- */

/* Quasi-random points of scales never agree in six digits: their number is fixed, and as large as
 * the score is cheap. */
static size_t sampled_nodes(const Target *t) {
  return t->score == SCORE_log ? 4 * FIXED_NODES : FIXED_NODES;
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

void predictive_scores(Ctx *c, const Scoring *s, const Target *target, double *scores) {
  TempArena *temp = temp_open(c);
  Scoring j = *s;
  Target t = *target;
  const char *why;
  t.lambda = 0;
  if (!t.nodes) t.nodes = exact_has_grid(s->o) ? 2 * FIXED_NODES : FIXED_NODES;
  bool exact = t.integrate != INTEGRATE_DRAWS && exact_applies(s->o, &t, s->q, &why);
  bool sampled = exact && exact_is_sampled(s->o);
  if (sampled && is_costly(s, &t)) { /* fewer draws do */
    t.integrate = INTEGRATE_DRAWS;
    exact = sampled = false;
  }
  if (sampled) t.nodes = sampled_nodes(&t);
  if (!exact && !s->theta) j.noise.M = affordable_draws(s, &t);
  if (!exact) t.score_options.accuracy = DRAWS_DIGITS;
  if (exact && s->tolerance > 0 && !sampled)
    settle(&temp->arena, s, t, scores);
  else
    evaluate(&temp->arena, &j, &t, scores);
  temp_close(temp);
}

void predictive_log_scores(Ctx *c, const Scoring *s, Integrate how, double *scores) {
  Target t = {.score = SCORE_log, .score_weight = 1, .integrate = how};
  const char *why;
  if (how != INTEGRATE_DRAWS && exact_applies(s->o, &t, s->q, &why)) {
    predictive_scores(c, s, &t, scores);
    return;
  }
  TempArena *temp = temp_open(c);
  log_by_draws(&temp->arena, s, scores);
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
  Work *w = vm_work(&temp->arena, observed_tape(o), LANES, NULL);
  vm_forward(w, rows);
  vm_tiles(w, keep_first, log_densities, false);
  temp_close(temp);
}
