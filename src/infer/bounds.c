/* bounds.c: three reasons why there is no optimum to be found, two with the name of a parameter.
 *
 * Is the objective bounded at all? A parameter that the program does not use, a flat prior
 * with data that say "the more the better": then there is no optimum, and a fit ends wherever its
 * optimizer happened to stop. That is found out by trying: parameters that went far are moved and
 * widened a thousand times further, and where the objective does not fall, nothing bounds them.
 *
 * Does q reach the edge of where the program has a density? beta ~ uniform(0, 1) without the bounds
 * declared has none below 0, and every normal q reaches there. The parameter is found by moving q a
 * little, and the edge by bisection on the log density.
 *
 * Does q reproduce observations? Where they are continuous the log score of one grows without bound
 * as what predicts it becomes a point, and a small lambda times what the others lose by it may not
 * outweigh that. Then some densities are far above all that VI gives to any observation.
 */
#include "infer/fit_int.h"

#include <math.h>
#include <string.h>

/* A parameter is far when its mean or sd, on the unconstrained scale, is beyond these; one that is
 * far for good reasons (data in units of millions) is found innocent by the trial. */
#define FAR_MEAN 1e3
#define FAR_SD 1e2
#define FURTHER 1e3
enum { MOST_SUSPECTS = 20 };

typedef struct {
  Fitter *f;
  Predictive *p;
  const Q *q;
  const double *phi;
  double value; /* at phi */
  double *try, *mean, *sd;
  const double *cov; /* of q, dim x dim; NULL: parameters are independent */
} Trial;

/* Does the objective stay as high as it was? */
static bool stays(Trial *t) {
  PredictiveValue v;
  return fit_evaluate(t->f, t->p, t->try, &v) && v.value >= t->value - 1e-3 - 1e-9 * fabs(t->value);
}

static void begin(Trial *t) { memcpy(t->try, t->phi, q_size(t->q) * sizeof *t->phi); }

static bool stays_wider(Trial *t, size_t k) {
  begin(t);
  q_stretch(t->q, t->try, k, FURTHER, 0);
  return t->sd[k] > 0 && stays(t);
}

/* How far a trial goes, in standard deviations of q, how many iterations an optimizer has to put
 * right what goes along, and how much of the objective may then be missing. */
typedef struct {
  double sds;
  long iterations;
  double missing;
} Distance;

/* Parameter k with all others as they go along with it under q. They do so nearly enough at best,
 * so an optimizer may put that right: where nothing bounds them it comes to the same height again,
 * out there, and where something does it comes back. */
static bool stays_together_at(Trial *t, size_t k, double sign, Distance d) {
  Fitter *f = t->f;
  size_t dim = t->q->dim;
  double far = sign * d.sds * fmax(t->sd[k], f->unit ? f->unit[k] : 0);
  bool keep = f->keep_phi;
  FitMark mark = fit_mark(f);
  double *mean = NEW_ARRAY(f->arena, double, dim), *sd = NEW_ARRAY(f->arena, double, dim);
  begin(t);
  for (size_t i = 0; i < dim; i++)
    q_stretch(t->q, t->try, i, 1, far * t->cov[k * dim + i] / t->cov[k * dim + k]);
  f->keep_phi = f->has_phi;
  double value = fit_lbfgs(f, t->p, t->try, d.iterations, 1e-7, "bounds").value;
  f->keep_phi = keep;
  q_moments(t->q, t->try, mean, sd);
  bool there = value >= t->value - d.missing && (mean[k] - t->mean[k]) / far > 0.5;
  fit_release(f, mark);
  return there;
}

/* Ten standard deviations away nearly all that is bounded is found to be so, in a few evaluations;
 * what is as high there has to be as high a hundred times further. */
static bool stays_moved_together(Trial *t, size_t k, double sign) {
  return t->cov && t->sd[k] > 0 && stays_together_at(t, k, sign, (Distance){10, 6, 1}) &&
         stays_together_at(t, k, sign, (Distance){FURTHER, 60, 0.1});
}

static bool stays_moved(Trial *t, size_t k, double sign) {
  begin(t);
  q_stretch(t->q, t->try, k, 1, sign * FURTHER * fmax(t->sd[k], 0.1 * fabs(t->mean[k])));
  return stays(t) || stays_moved_together(t, k, sign);
}

/* The name of parameter k, in whose place its unconstrained number is meant. */
static const char *name_of(const Fitter *f, size_t k) {
  const Model *m = f->model;
  Arena *a = &f->ctx->arena;
  bool constrained = false;
  for (int o = 0; o < m->noutputs; o++) {
    const Output *out = &m->outputs[o];
    if (out->block == BLOCK_PARAMETERS && (size_t)out->offset <= k)
      constrained = out->decl && out->decl->con.kind != CON_NONE;
  }
  const char *name = model_unconstrained_name(m, a, k);
  return constrained ? arena_format(a, "%s (on its unconstrained scale)", name) : name;
}

static const char *sentence(const Trial *t, size_t k, bool up, bool down) {
  bool prior = predictive_target(t->p)->lambda != 0;
  return arena_format(
      &t->f->ctx->arena, "unbounded: nothing in the data%s bounds %s%s; %s",
      prior ? " or the prior" : "", name_of(t->f, k),
      up == down ? ""
      : up       ? " from above"
                 : " from below",
      prior ? "give it a proper prior"
            : "without a regularizer (" OPTION("lambda") " 0) its prior does not count");
}

/* The suspects, those that are furthest first. */
static size_t suspects(const Trial *t, size_t *out) {
  size_t n = 0;
  double far[MOST_SUSPECTS];
  for (size_t k = 0; k < t->q->dim; k++) {
    double x = fmax(fabs(t->mean[k]) / FAR_MEAN, t->sd[k] / FAR_SD);
    if (!(x > 1)) continue;
    size_t at = n < MOST_SUSPECTS ? n++ : n;
    for (; at > 0 && far[at - 1] < x; at--) {
      if (at == MOST_SUSPECTS) continue;
      far[at] = far[at - 1];
      out[at] = out[at - 1];
    }
    if (at < MOST_SUSPECTS) far[at] = x, out[at] = k;
  }
  return n;
}

const char *fit_unbounded(Fitter *f, Predictive *p, const Q *q, const double *phi) {
  size_t dim = q->dim, list[MOST_SUSPECTS];
  FitMark mark = fit_mark(f);
  Trial t = {.f = f, .p = p, .q = q, .phi = phi};
  const char *why = NULL;
  PredictiveValue v;
  t.try = NEW_ARRAY(f->arena, double, q_size(q));
  t.mean = NEW_ARRAY(f->arena, double, dim);
  t.sd = NEW_ARRAY(f->arena, double, dim);
  q_moments(q, phi, t.mean, t.sd);
  size_t n = suspects(&t, list);
  if (n && fit_evaluate(f, p, phi, &v)) {
    t.value = v.value;
    if (q_is_normal(q) && family_of(q->family)->dense) {
      double *cov = NEW_ARRAY(f->arena, double, dim *dim);
      q_covariance(f->arena, q, phi, cov);
      t.cov = cov;
    }
    for (size_t s = 0; s < n && !why; s++) {
      size_t k = list[s];
      bool up = stays_moved(&t, k, 1), down = stays_moved(&t, k, -1), wide = stays_wider(&t, k);
      if (up || down || wide) why = sentence(&t, k, up, down);
    }
  }
  fit_release(f, mark);
  return why;
}

/* ---- observations that are reproduced -------------------------------------------------------- */

static double *log_scores(Fitter *f, const double *phi) {
  enum { DRAWS = 4096 };
  double *scores = NEW_ARRAY(f->arena, double, f->train->n + 1);
  Scoring s = {.o = f->train,
               .q = &f->q,
               .phi = phi,
               .noise = {DRAWS, fit_seed(f, SEED_JUDGE)},
               .pool = f->pool};
  predictive_log_scores(f->ctx, &s, f->target.integrate, scores);
  return scores;
}

const char *fit_reproduces(Fitter *f, const double *phi) {
  if (f->target.score != SCORE_log || !fit_is_continuous(f) || !f->unit) return NULL;
  FitMark mark = fit_mark(f);
  double *vi = NEW_ARRAY(f->arena, double, q_size(&f->q)), most = -INFINITY;
  fit_at_centre(f, vi);
  const double *of_vi = log_scores(f, vi), *now = log_scores(f, phi);
  size_t n = f->train->n, count = 0;
  for (size_t i = 0; i < n; i++) most = fmax(most, of_vi[i]);
  for (size_t i = 0; i < n; i++) count += now[i] > most + MEMORISED_NATS;
  fit_release(f, mark);
  if (!count) return NULL;
  return arena_format(
      &f->ctx->arena,
      "unbounded: q reproduces %zu of the %zu observations; the density of %s is "
      "more than %.0f times the highest that VI gives to any, and grows as the "
      "noise shrinks; use a larger " OPTION("lambda") ", or " OPTION("lambda") " auto",
      count, n, count == 1 ? "it" : "each", exp(MEMORISED_NATS));
}

/* ---- edges ----------------------------------------------------------------------------------- */

static bool finite_with(Trial *t, size_t k, double factor, double move) {
  PredictiveValue v;
  begin(t);
  q_stretch(t->q, t->try, k, factor, move);
  return fit_evaluate(t->f, t->p, t->try, &v);
}

/* A way from a mean along one parameter. */
typedef struct {
  Fitter *f;
  const double *mean, *sd;
  size_t k;
  double sign;
  Predictive *log; /* the log density at a point */
  double *theta;   /* room for that */
} Way;

static Way way_from(Fitter *f, const double *mean, const double *sd) {
  return (Way){.f = f,
               .mean = mean,
               .sd = sd,
               .log = fit_log_density(f, fit_point_q(f)),
               .theta = NEW_ARRAY(f->arena, double, f->model->dim)};
}

static bool is_inside(const Way *w, double distance) {
  PredictiveValue v;
  memcpy(w->theta, w->mean, w->f->model->dim * sizeof *w->theta);
  w->theta[w->k] += w->sign * distance;
  return fit_evaluate(w->f, w->log, w->theta, &v);
}

#define FAR_SDS 16.

/* How far the log density is finite, in the way's direction. */
static double edge_of(const Way *w) {
  double in = 0, out = FAR_SDS * w->sd[w->k];
  for (int i = 0; i < 60; i++) {
    double mid = 0.5 * (in + out);
    *(is_inside(w, mid) ? &in : &out) = mid;
  }
  return in;
}

/* What the program itself says of w->theta: that it rejects. */
static const char *said(const Way *w) {
  Ctx *c = w->f->ctx;
  Message why;
  if (!model_fails_at(c, w->f->model, w->theta, &why)) return NULL;
  return arena_format(&c->arena, " (line %u: %s)", why.loc.line, why.text);
}

static const char *said_beyond(const Way *w, double edge) {
  memcpy(w->theta, w->mean, w->f->model->dim * sizeof *w->theta);
  w->theta[w->k] += w->sign * (edge + 0.01 * w->sd[w->k]);
  const char *why = said(w);
  return why ? why : "";
}

/* Where no parameter alone leads beyond the edge several do together. */
static const char *said_around(const Way *w) {
  enum { POINTS = 200 };
  RngStream rng = rngs_make(fit_seed(w->f, SEED_JUDGE), 0);
  const char *why = NULL;
  for (int i = 0; i < POINTS && !why; i++) {
    for (size_t k = 0; k < w->f->model->dim; k++)
      w->theta[k] = w->mean[k] + 4 * w->sd[k] * rngs_normal(&rng);
    why = said(w);
  }
  return why ? why : "";
}

/* What can be done besides. VI's q is as narrow as the posterior, and came to its end inside. */
static const char *or_narrower(const Fitter *f) {
  bool wide = f->target.score != SCORE_elbo && f->unit && !f->vi_unbounded;
  return wide ? ", or use a larger " OPTION("lambda") ", which keeps q narrower" : "";
}

static const char *edge_sentence(const Way *w) {
  Arena *a = &w->f->ctx->arena;
  const char *name = name_of(w->f, w->k), *besides = or_narrower(w->f);
  if (is_inside(w, FAR_SDS * w->sd[w->k]))
    return arena_format(a,
                        "q reaches the edge of the program's support: with %s a little %s some of "
                        "its draws have no density%s; give the parameters tighter priors%s",
                        name, w->sign < 0 ? "lower" : "higher", said_around(w), besides);
  double distance = edge_of(w), edge = w->mean[w->k] + w->sign * distance;
  return arena_format(a,
                      "q reaches the edge of the program's support: it has no density where %s "
                      "is %s about %.3g%s; declare that bound, or give %s a tighter prior%s",
                      name, w->sign < 0 ? "below" : "above",
                      fabs(edge) < 1e-9 * w->sd[w->k] ? 0 : edge, said_beyond(w, distance), name,
                      besides);
}

enum { MOST_TRIED = 200 }; /* parameters that are asked for an edge */

const char *fit_edge(Fitter *f, Predictive *p, const Q *q, const double *phi) {
  size_t dim = q->dim;
  FitMark mark = fit_mark(f);
  Trial t = {.f = f, .p = p, .q = q, .phi = phi};
  const char *why = NULL;
  t.try = NEW_ARRAY(f->arena, double, q_size(q));
  t.mean = NEW_ARRAY(f->arena, double, dim);
  t.sd = NEW_ARRAY(f->arena, double, dim);
  q_moments(q, phi, t.mean, t.sd);
  Way w = way_from(f, t.mean, t.sd);
  for (w.k = 0; w.k < dim && w.k < MOST_TRIED && !why; w.k++)
    for (w.sign = -1; w.sign <= 1 && !why; w.sign += 2)
      if (t.sd[w.k] > 0 && !finite_with(&t, w.k, 1, w.sign * 0.5 * t.sd[w.k]))
        why = edge_sentence(&w);
  fit_release(f, mark);
  return why;
}

/* The first edge that is nearer than 8 standard deviations. */
static const char *edge_near(Fitter *f, const double *mean, const double *sd) {
  const char *why = NULL;
  Way w = way_from(f, mean, sd);
  for (w.k = 0; w.k < f->model->dim && w.k < MOST_TRIED && !why; w.k++)
    for (w.sign = -1; w.sign <= 1 && !why; w.sign += 2)
      if (sd[w.k] > 0 && !is_inside(&w, 8 * sd[w.k])) why = edge_sentence(&w);
  return why;
}

const char *fit_edge_of_vi(Fitter *f) {
  FitMark mark = fit_mark(f);
  const char *why = edge_near(f, f->mean, f->sd);
  fit_release(f, mark);
  return why;
}

const char *fit_edge_around(Fitter *f, const Q *q, const double *phi) {
  FitMark mark = fit_mark(f);
  double *mean = NEW_ARRAY(f->arena, double, q->dim), *sd = NEW_ARRAY(f->arena, double, q->dim);
  q_moments(q, phi, mean, sd);
  const char *why = edge_near(f, mean, sd);
  fit_release(f, mark);
  return why;
}
