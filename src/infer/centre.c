/* centre.c: where a fit begins: the centre of every parameter and its unit, from mean-field VI.
 *
 * VI itself has to begin somewhere. Zero is a good place for most programs, where parameters are of
 * the order of one; it is none where the data have units of their own, or where the density is zero
 * there. So VI begins at zero with a few widths, and also where a climb on the log density came to
 * that began at one of the better of many random points; what reaches the higher ELBO is the
 * centre.
 *
 * - Points: zero (or the point that was given), and RANDOM points, uniform in (-2, 2) as Stan's, or
 *   closer to zero; a few of them where VI from zero converged.
 * - Climbs: L-BFGS on the log density, in rounds, for the mode of a hierarchical program may be
 *   where nothing varies any more, at infinite density: of the places on the way, that with the
 *   best ELBO is kept, and a round that finds no better one is the last.
 * - VI: from zero, and from the best places, for as long as they promise more.
 */
#include "infer/fit_int.h"

#include "num/rng.h"

#include <math.h>
#include <string.h>

enum {
  RANDOM = 64,
  FEW = 8,
  LOOKS = 6,  /* climbs that look for a denser place, */
  CLIMBS = 8, /* climbs once there is one, */
  TRIALS = 3, /* and places where they came to from which VI is tried */
  TRIAL_ITERATIONS = 50,
  CENTRE_ITERATIONS = 2000
};
static const double first_sds[] = {0.1, 1, 0.01, 0.001};
enum { NSDS = sizeof first_sds / sizeof *first_sds };
static const long rounds[] = {20, 60, 120}; /* iterations of a climb */
enum { NROUNDS = sizeof rounds / sizeof *rounds };

/* A point, with its log density, or a mean-field q, with its ELBO. */
typedef struct {
  double *at; /* theta, or phi */
  double value;
} Place;

typedef struct {
  Fitter *f;
  size_t dim;
  Q *point, *vi;          /* all parameters are points; mean field */
  Predictive *log, *elbo; /* their objectives: the log density, and the ELBO */
  Place best;             /* of VI */
  bool converged;         /* the last VI did */
  double *phi;            /* room for a mean-field q */
  double tolerance;
} Centre;

Target fit_vi_target(const Fitter *f, size_t nodes) {
  return (Target){.score = SCORE_elbo,
                  .regularizer = REG_PRIOR,
                  .lambda = 1,
                  .score_weight = 1,
                  .integrate = f->target.integrate,
                  .nodes = nodes};
}

static Place new_place(const Centre *c, const Q *q) {
  return (Place){NEW_ARRAY(c->f->arena, double, q_size(q)), -INFINITY};
}

static void copy_place(const Q *q, Place *to, const Place *from) {
  memcpy(to->at, from->at, q_size(q) * sizeof *to->at);
  to->value = from->value;
}

Q *fit_point_q(Fitter *f) {
  size_t dim = f->model->dim;
  bool *all = NEW_ARRAY(f->arena, bool, dim + 1);
  for (size_t k = 0; k < dim; k++) all[k] = true;
  Q *q = NEW(f->arena, Q);
  *q = q_make(f->arena, FAMILY_meanfield, (Shape){0}, dim, all);
  return q;
}

/* The log density at a point is the ELBO of a q that is this point: two nodes are exact. */
Predictive *fit_log_density(Fitter *f, const Q *point) {
  Target t = fit_vi_target(f, 2);
  return fit_objective_of(f, f->train_ll, &t, point, (NoiseSet){LANES, 0});
}

static Predictive *elbo_of(const Centre *c, size_t draws, int seed) {
  Fitter *f = c->f;
  Target vi = fit_vi_target(f, f->target.score == SCORE_elbo ? 16 : 8);
  return fit_objective_of(f, f->train_ll, &vi, c->vi, (NoiseSet){draws, fit_seed(f, seed)});
}

static Centre make(Fitter *f) {
  Centre c = {.f = f, .dim = f->model->dim, .tolerance = 1e-4};
  c.point = fit_point_q(f);
  c.vi = NEW(f->arena, Q);
  *c.vi = q_make(f->arena, FAMILY_meanfield, (Shape){0}, c.dim, NULL);
  c.log = fit_log_density(f, c.point);
  c.elbo = elbo_of(&c, VI_DRAWS, SEED_VI);
  c.best = new_place(&c, c.vi);
  c.phi = NEW_ARRAY(f->arena, double, q_size(c.vi));
  if (f->target.score == SCORE_elbo) c.tolerance = 1e-7;
  return c;
}

/* ---- points ---------------------------------------------------------------------------------- */

static double log_density(const Centre *c, const double *theta) {
  PredictiveValue v;
  return fit_evaluate(c->f, c->log, theta, &v) ? v.value : -INFINITY;
}

/* The first half of RANDOM is as far as the radius allows, the others are closer and closer to
 * zero. */
static void random_point(const Centre *c, size_t k, double radius, double *theta) {
  Rng key = rng_make(fit_seed(c->f, SEED_POINTS), 0);
  double reach = radius * (k < RANDOM / 2 ? 1 : pow(0.5, (double)(1 + k % 8)));
  for (size_t i = 0; i < c->dim; i++) theta[i] = reach * (2 * rng_uniform(key, k, i) - 1);
}

/* Keeps the n best points, the best first. */
static void insert(const Centre *c, Place *best, int n, const Place *p) {
  if (!(p->value > best[n - 1].value)) return;
  Place last = best[n - 1];
  int k = n - 1;
  for (; k > 0 && best[k - 1].value < p->value; k--) best[k] = best[k - 1];
  best[k] = last;
  copy_place(c->point, &best[k], p);
}

/* Zero, or what was given. */
static void first_point(const Centre *c, Place *p) {
  if (c->f->o->init) memcpy(p->at, c->f->o->init, c->dim * sizeof *p->at);
  p->value = log_density(c, p->at);
}

/* The n best of the random ones, the best first. */
static void random_points(const Centre *c, size_t tried, Place *points, int n) {
  const FitOptions *o = c->f->o;
  Place p = new_place(c, c->point);
  double radius = o->init_radius == 0 ? 2 : o->init_radius;
  for (size_t k = 0; !o->init && radius > 0 && k < tried; k++) {
    random_point(c, k, radius, p.at);
    p.value = log_density(c, p.at);
    insert(c, points, n, &p);
  }
}

/* ---- climbs ---------------------------------------------------------------------------------- */

/* The best of a few widths around the point. */
static void widths_at(const Centre *c, const double *theta, Place *q) {
  Fitter *f = c->f;
  for (int s = 0; s < NSDS; s++) {
    PredictiveValue v;
    for (size_t k = 0; k < c->dim; k++) f->sd[k] = first_sds[s];
    q_start(c->vi, c->phi, theta, f->sd);
    if (!fit_evaluate(f, c->elbo, c->phi, &v) || v.value <= q->value) continue;
    copy_place(c->vi, q, &(Place){c->phi, v.value});
  }
}

static void climb(const Centre *c, const Place *from, Place *q) {
  Place p = new_place(c, c->point);
  copy_place(c->point, &p, from);
  if (!isfinite(p.value)) return;
  widths_at(c, p.at, q); /* there may be no density around where it leads */
  for (int k = 0; k < NROUNDS; k++) {
    OptimResult r = fit_lbfgs(c->f, c->log, p.at, rounds[k], 1e-5, "climbing");
    double before = q->value;
    widths_at(c, p.at, q);
    if (r.converged || (k && isfinite(before) && !(q->value > before))) return;
  }
}

/* ---- VI -------------------------------------------------------------------------------------- */

/* VI from phi, which is taken along; its ELBO, -inf where that is not even finite. */
static double vi_from(Centre *c, double *phi, long iterations) {
  OptimResult r = fit_lbfgs(c->f, c->elbo, phi, iterations, c->tolerance, "VI");
  c->converged = r.converged;
  return isfinite(r.value) ? r.value : -INFINITY;
}

/* From the first width around the first point where the density is finite. */
static void vi_from_first(Centre *c, const Place *first) {
  Fitter *f = c->f;
  for (int s = 0; s < NSDS; s++) {
    PredictiveValue v;
    for (size_t k = 0; k < c->dim; k++) f->sd[k] = first_sds[s];
    q_start(c->vi, c->best.at, first->at, f->sd);
    if (!fit_evaluate(f, c->elbo, c->best.at, &v)) continue;
    c->best.value = vi_from(c, c->best.at, CENTRE_ITERATIONS);
    if (isfinite(c->best.value)) return;
  }
}

/* From a place of a climb: to the end if there is no other q, or if it soon beats that. */
static bool vi_from_place(Centre *c, Place *q) {
  bool first = !isfinite(c->best.value);
  if (!isfinite(q->value)) return false;
  if (!first) {
    q->value = vi_from(c, q->at, TRIAL_ITERATIONS);
    if (!(q->value > c->best.value)) return false;
  }
  q->value = vi_from(c, q->at, CENTRE_ITERATIONS);
  if (!(q->value > c->best.value)) return false;
  copy_place(c->vi, &c->best, q);
  return true;
}

_Noreturn static void nowhere_finite(const Fitter *f) {
  if (f->o->init)
    ctx_fail(f->ctx, PVI_DATA, NOWHERE,
             "the log density is not finite at the point of " OPTION("init"));
  ctx_fail(f->ctx, PVI_FAILURE, NOWHERE,
           "the log density is not finite at zero nor at any of %d random points around it, on the "
           "unconstrained scale; check priors and data, or give a point where it is finite "
           "with " OPTION("init"),
           RANDOM);
}

/* Where climbs ended, in units of VI's standard deviations. */
typedef struct {
  const double *sd;
  size_t dim;
  Place ends[LOOKS];
  int n;
} Ends;

/* Has a climb come to where one has ended? On a bell as wide as VI's q half a standard deviation in
 * every direction is an eighth of a nat of each: what is farther below than that is another slope.
 */
static bool is_at_end(void *self, const double *theta, double value) {
  const double close = 0.5;
  const Ends *e = self;
  for (int i = 0; i < e->n; i++) {
    double below = e->ends[i].value - value;
    bool at = below >= 0 && below <= 0.5 * close * close * (double)e->dim;
    for (size_t k = 0; at && k < e->dim; k++)
      at = fabs(theta[k] - e->ends[i].at[k]) <= close * e->sd[k];
    if (at) return true;
  }
  return false;
}

/* Climbs from p, to where it ends, or where one that ended before has been. */
static void look_from(const Centre *c, Place *p, long most, Ends *e) {
  c->f->arrived = is_at_end;
  c->f->arrived_self = e;
  OptimResult r = fit_lbfgs(c->f, c->log, p->at, most, 1e-4, "climbing");
  c->f->arrived = NULL;
  p->value = r.value;
  if (r.converged) e->ends[e->n++] = *p;
}

/* Where VI from zero converged, climbs from elsewhere say whether there is a place that is much
 * denser than VI's mean; that of the same optimum is denser by half a nat or less per parameter.
 * With exact integration a program sees its parameters through linear predictors: a short one will
 * do. Others may be mixtures, of which a climb may leave components without data: a few of them. */
static bool is_denser_elsewhere(const Centre *c, const double *mean, Place *there) {
  bool exact = predictive_is_exact(c->elbo);
  int looks = exact ? 1 : LOOKS;
  double enough = log_density(c, mean) + 3 + 0.5 * (double)c->dim;
  Place p[LOOKS];
  for (int k = 0; k < looks; k++) p[k] = new_place(c, c->point);
  random_points(c, exact ? FEW : RANDOM / 4, p, looks);
  Ends ends = {.sd = c->f->sd, .dim = c->dim};
  for (int k = 0; k < looks && isfinite(p[k].value); k++) {
    look_from(c, &p[k], rounds[exact ? 0 : 1], &ends);
    if (p[k].value > there->value) copy_place(c->point, there, &p[k]);
  }
  return there->value > enough;
}

/* A place that is only somewhat denser, but so many of VI's standard deviations away that it is not
 * VI's own optimum, is tried: what it lacks in height it may have in width (components of a mixture
 * that have become one, and two that are apart). */
static bool is_another(const Centre *c, const Place *there) {
  const double far = 6;
  if (predictive_is_exact(c->elbo) || !(there->value > log_density(c, c->f->mean))) return false;
  for (size_t k = 0; k < c->dim; k++)
    if (fabs(there->at[k] - c->f->mean[k]) > far * c->f->sd[k]) return true;
  return false;
}

static void try_another(Centre *c, const Place *there) {
  Place q = new_place(c, c->vi);
  widths_at(c, there->at, &q);
  vi_from_place(c, &q);
}

static double elbo_at(const Centre *c, Predictive *elbo, const Place *q) {
  PredictiveValue v;
  return fit_evaluate(c->f, elbo, q->at, &v) ? v.value : -INFINITY;
}

/* VI from zero on other draws, if that is the better q on draws that neither has seen. */
static void try_draws(Centre *c, const Place *first, Predictive *judge, int seed) {
  Predictive *elbo = c->elbo;
  Place mine = c->best;
  c->best = new_place(c, c->vi);
  c->elbo = elbo_of(c, VI_DRAWS, seed);
  vi_from_first(c, first);
  c->elbo = elbo;
  if (c->converged && elbo_at(c, judge, &c->best) > elbo_at(c, judge, &mine)) {
    c->best.value = elbo_at(c, elbo, &c->best);
    return;
  }
  c->best = mine;
  c->converged = true;
}

/* Draws that are hardly more than parameters are as good as random, and where VI has several optima
 * they decide which one it comes to: so it begins at zero again, with others. */
static void try_other_draws(Centre *c, const Place *first) {
  enum { TRIES = 2, JUDGES = 4 }; /* times as many that judge */
  if (predictive_is_exact(c->elbo) || 2 * c->dim <= VI_DRAWS || !c->converged) return;
  Predictive *judge = elbo_of(c, JUDGES * VI_DRAWS, SEED_VI_JUDGE);
  for (int k = 0; k < TRIES; k++) try_draws(c, first, judge, SEED_VI_OTHER + k);
}

/* Moves the best of n places to the front. */
static Place *take_best(Place *places, int n) {
  for (int k = 1; k < n; k++)
    if (places[k].value > places[0].value) {
      Place better = places[k];
      places[k] = places[0];
      places[0] = better;
    }
  return places;
}

/* The best of the random points, and where a climb has been or, if VI from there was in vain, the
 * first one; the climbs from them, VI from where these lead. */
static void search(Centre *c, const Place *also) {
  int climbs = predictive_is_exact(c->elbo) ? TRIALS : CLIMBS;
  Place points[CLIMBS], places[CLIMBS];
  for (int k = 0; k < climbs; k++) {
    points[k] = new_place(c, c->point);
    places[k] = new_place(c, c->vi);
  }
  copy_place(c->point, &points[0], also);
  random_points(c, RANDOM, points + 1, climbs - 1);
  for (int k = 0; k < climbs; k++) climb(c, &points[k], &places[k]);
  for (int k = 0; k < TRIALS; k++) vi_from_place(c, take_best(places + k, climbs - k));
}

/* VI's q as it is so far: its moments, and whether it has an optimum at all. */
static void take_moments(const Centre *c) {
  if (!isfinite(c->best.value)) return;
  c->f->vi_unbounded = fit_unbounded(c->f, c->elbo, c->vi, c->best.at);
  q_moments(c->vi, c->best.at, c->f->mean, c->f->sd);
}

void fit_centre(Fitter *f) {
  FitMark mark = fit_mark(f);
  Centre c = make(f);
  Place first = new_place(&c, c.point), there = new_place(&c, c.point);
  first_point(&c, &first);
  vi_from_first(&c, &first);
  try_other_draws(&c, &first);
  take_moments(&c);
  if (!c.converged || f->vi_unbounded || is_denser_elsewhere(&c, f->mean, &there)) {
    search(&c, c.converged ? &there : &first);
    take_moments(&c);
  } else if (is_another(&c, &there)) {
    try_another(&c, &there);
    take_moments(&c);
  }
  if (!isfinite(c.best.value)) nowhere_finite(f);
  fit_release(f, mark);
}
