/* starts.c: where a fit starts: VI's centre and units, and the widths around it from which
 * predictive scores are tried.
 *
 * VI's own narrow q is a flat saddle of the predictive scores, so they start from several widths: a
 * few iterations from each, then the best is chosen on common draws that no start has seen.
 */
#include "infer/fit_int.h"

#include <math.h>
#include <string.h>

enum { EXPLORE_ITERATIONS = 25, EXPLORE_NODES = 16 };

/* ---- ordinary VI: centre and units ----------------------------------------------------------- */

static const double first_sds[] = {0.1, 1, 0.01, 0.001};
enum { NFIRST = sizeof first_sds / sizeof *first_sds };

static Target vi_target(const Fitter *f) {
  return (Target){.score = SCORE_elbo,
                  .regularizer = REG_PRIOR,
                  .lambda = 1,
                  .score_weight = 1,
                  .integrate = f->target.integrate,
                  .nodes = f->target.score == SCORE_elbo ? EXPLORE_NODES : EXPLORE_NODES / 2};
}

/* phi of the first width around zero where the log density is finite. */
static void start_at_zero(Fitter *f, Predictive *p, const Q *q, double *phi) {
  for (int s = 0; s < NFIRST; s++) {
    PredictiveValue v;
    for (size_t k = 0; k < f->model->dim; k++) f->mean[k] = 0, f->sd[k] = first_sds[s];
    q_start(q, phi, f->mean, f->sd);
    if (fit_evaluate(f, p, phi, &v)) return;
  }
  ctx_fail(f->ctx, PVI_FAILURE, NOWHERE,
           "the log density is not finite at any starting point around zero; check the priors "
           "and the data");
}

/* On few draws, from zero. Predictive scores need only a centre and units of it. */
void fit_centre(Fitter *f) {
  Target vi = vi_target(f);
  ArenaMark mark = arena_mark(f->arena);
  Q *q = NEW(f->arena, Q);
  *q = q_make(f->arena, FAMILY_meanfield, (Shape){0}, f->model->dim, NULL);
  Predictive *p =
      fit_objective_of(f, f->train_ll, &vi, q, (NoiseSet){VI_DRAWS, fit_seed(f, SEED_VI)});
  double *phi = NEW_ARRAY(f->arena, double, q_size(q));
  start_at_zero(f, p, q, phi);
  fit_lbfgs(f, p, phi, 2000, f->target.score == SCORE_elbo ? 1e-7 : 1e-4, "VI");
  q_moments(q, phi, f->mean, f->sd);
  fit_release(f, mark);
}

void fit_at_centre(const Fitter *f, double factor, double *phi) {
  size_t d = f->model->dim;
  double *sd = NEW_ARRAY(f->arena, double, d);
  for (size_t k = 0; k < d; k++) {
    double wide = f->sd[k] * factor, most = fmax(1, 2 * f->sd[k]);
    sd[k] = factor == 1 ? f->sd[k] : fmin(wide, most);
  }
  q_start(&f->q, phi, f->mean, sd);
}

/* ---- the starts ------------------------------------------------------------------------------ */

/* VI's sd times n^power times factor: VI's is that of n observations, and one observation's is
 * sqrt(n) times as wide. Where evaluations are cheap the best width is looked for instead of the
 * middle one. */
typedef struct {
  const char *name;
  double power, factor;
  bool looked_for;
} Width;

static const Width widths[] = {{"VI", 0, 1, false},
                               {"VI widened by n^1/4", 0.25, 1, true},
                               {"VI widened by n^1/2 / 2", 0.5, 0.5, false}};
enum { NWIDTHS = sizeof widths / sizeof *widths, MOST_STARTS = NWIDTHS + 3 };

typedef struct {
  const char *name;
  double *phi; /* NULL: it is none, after all */
} Start;

typedef struct {
  Fitter *f;
  Predictive *p, *judge; /* for the iterations, and to compare what comes out of them */
  Start starts[MOST_STARTS];
  int n;
} Search;

static double *new_start(Search *s, const char *name) {
  double *phi = NEW_ARRAY(s->f->arena, double, q_size(&s->f->q));
  s->starts[s->n++] = (Start){name, phi};
  return phi;
}

/* VI's q in the family itself, where that has correlations: a predictive q is often wide along a
 * ridge of the posterior. NULL: there is none. */
static const double *correlated_vi(Fitter *f) {
  Target vi = vi_target(f);
  const char *why;
  if (!family_of(f->q.family)->widen || !exact_applies(f->train_ll, &vi, &f->q, &why)) return NULL;
  double *phi = NEW_ARRAY(f->arena, double, q_size(&f->q));
  ArenaMark mark = arena_mark(f->arena);
  PredictiveValue v;
  Predictive *p = fit_objective_of(f, f->train_ll, &vi, &f->q, (NoiseSet){0, fit_seed(f, SEED_VI)});
  q_start(&f->q, phi, f->mean, f->sd);
  bool finite = fit_evaluate(f, p, phi, &v);
  if (finite) fit_lbfgs(f, p, phi, 500, 1e-6, "VI, correlated");
  fit_release(f, mark);
  return finite ? phi : NULL;
}

/* Of VI's q times 1, 2, 4, ... that with the best objective; NULL: none is finite. Where one
 * observation says as much as a thousand others (a count of many trials), no power of n is right.
 */
static double *best_width(Search *s, const double *correlated) {
  Fitter *f = s->f;
  size_t size = q_size(&f->q);
  double *phi = NEW_ARRAY(f->arena, double, size), *best = NEW_ARRAY(f->arena, double, size),
         top = -INFINITY;
  for (double factor = 1; factor < 1e4; factor *= 2) {
    PredictiveValue v;
    if (correlated) {
      memcpy(phi, correlated, size * sizeof *phi);
      family_of(f->q.family)->widen(phi, &f->q.shape, factor);
    } else {
      fit_at_centre(f, factor, phi);
    }
    if (!fit_evaluate(f, s->p, phi, &v) || v.value <= top) continue;
    top = v.value;
    memcpy(best, phi, size * sizeof *phi);
  }
  return isfinite(top) ? best : NULL;
}

static void list_starts(Search *s, const double *correlated) {
  Fitter *f = s->f;
  const double *given = f->o->start ? f->o->start(f->o->start_self, &f->q) : NULL;
  bool exact = predictive_is_exact(s->p);
  for (int k = 0; k < NWIDTHS; k++) {
    const Width *w = &widths[k];
    if (exact && w->looked_for) continue;
    fit_at_centre(f, pow((double)f->n, w->power) * w->factor, new_start(s, w->name));
  }
  if (exact) s->starts[s->n++] = (Start){"VI at its best width", best_width(s, NULL)};
  if (exact && correlated)
    s->starts[s->n++] = (Start){"correlated VI at its best width", best_width(s, correlated)};
  if (given) memcpy(new_start(s, "given"), given, q_size(&f->q) * sizeof *given);
}

/* ---- exploring them -------------------------------------------------------------------------- */

/* A few iterations; the value on common draws, -inf where it is not finite. */
static double try_start(Search *s, const Start *start) {
  Fitter *f = s->f;
  PredictiveValue v;
  if (!start->phi || !fit_evaluate(f, s->p, start->phi, &v)) return -INFINITY;
  fit_lbfgs(f, s->p, start->phi, EXPLORE_ITERATIONS, 1e-4, start->name);
  double value = fit_evaluate(f, s->judge, start->phi, &v) ? v.value : -INFINITY;
  FitStart row = {start->name, value};
  PUSH(&f->ctx->arena, f->fit->starts, f->fit->nstarts, f->fit->cap_starts, row);
  return value;
}

/* Few nodes, or few draws; scores with kinks are rounded. The judge is sharp. */
static Search search_make(Fitter *f) {
  size_t M = fit_draws(f, 2 * EXPLORE_DRAWS);
  if (!fit_is_rich(f)) M /= 2;
  if (f->o->draws && f->o->draws < M) M = f->o->draws;
  Target rough = f->target;
  rough.nodes = EXPLORE_NODES;
  if (fit_kinked(f)) rough.score_options.smooth = 0.1 * fit_outcome_sd(f);
  Search s = {.f = f};
  s.p = fit_objective_of(f, f->train, &rough, &f->q, (NoiseSet){M, fit_seed(f, SEED_EXPLORE)});
  s.judge = predictive_is_exact(s.p) && !fit_kinked(f)
                ? s.p
                : fit_objective(f, fit_draws(f, JUDGE_DRAWS), fit_seed(f, SEED_JUDGE));
  return s;
}

void fit_explore(Fitter *f, double *phi) {
  ArenaMark mark = arena_mark(f->arena);
  const double *correlated = fit_is_exact(f) ? correlated_vi(f) : NULL;
  Search s = search_make(f);
  double best = -INFINITY;
  list_starts(&s, correlated);
  for (int k = 0; k < s.n; k++) {
    double value = try_start(&s, &s.starts[k]);
    if (!(value > best)) continue;
    best = value;
    memcpy(phi, s.starts[k].phi, q_size(&f->q) * sizeof *phi);
    f->keep_phi = true;
  }
  f->keep_phi = false;
  if (best == -INFINITY)
    ctx_fail(f->ctx, PVI_FAILURE, NOWHERE, "the objective is not finite at any start");
  fit_release(f, mark);
}

void fit_prefer(Fitter *f, Predictive *p, double *phi, const double *other) {
  PredictiveValue a, b;
  bool fa = fit_evaluate(f, p, phi, &a), fb = fit_evaluate(f, p, other, &b);
  if (fb && (!fa || b.value > a.value)) memcpy(phi, other, q_size(&f->q) * sizeof *phi);
}
