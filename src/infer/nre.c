/* nre.c: neural ratio estimation (amortized.h).
 *
 * Everything is in units v of the reference, theta = T(WIDE v), T being the flow that the data have
 * by npe: there the reference is the standard normal whatever the data are. The network sees
 * (summary, v, v^2) and learns to tell the v of lessons from standard normal ones. With equally
 * many of both the best logit is log p(v | data) - log N(v), so
 *
 *     log p(v | data) = logit(data, v) - |v|^2 / 2 + constant.
 */
#include "infer/amortized.h"

#include "infer/ess.h"
#include "num/rng.h"
#include "num/stats.h"

#include <math.h>
#include <string.h>

enum { STREAM = 61, CHAINS = 32, WARMUP = 300, LEAST_DRAWS = 250, LANE_ROOM = 16 };
static const double WIDE = 1.5; /* the reference's noise, in that of the flow */

typedef struct {
  const Lessons *l;
  NetworkShape net;
  double *v; /* [lessons x dim] */
  uint64_t seed;
} Ratio;

/* ---- learning -------------------------------------------------------------------------------- */

/* Row by row: the summary, v, v^2. */
static void put_lane(const Ratio *r, const double *s, const double *v, size_t ld, size_t j,
                     double *in) {
  size_t K = r->l->size, dim = r->l->dim;
  for (size_t k = 0; k < K; k++) in[k * ld + j] = s[k];
  for (size_t k = 0; k < dim; k++) {
    in[(K + k) * ld + j] = v[k];
    in[(K + dim + k) * ld + j] = v[k] * v[k];
  }
}

/* log(1 + exp x) and its slope */
static double softplus(double x, double *slope) {
  *slope = 1 / (1 + exp(-x));
  return fmax(x, 0) + log1p(exp(-fabs(x)));
}

/* Lanes below PIECE are lessons, the others have the same data and a v of the reference. */
static double loss(const void *self, const double *w, const LessonPiece *p, double *grad) {
  enum { BOTH = 2 * PIECE };
  const Ratio *r = self;
  size_t dim = r->l->dim;
  double *in = p->room, *logit = in + r->net.in * BOTH, *adj = logit + BOTH, v[dim], sum = 0;
  Network f = {r->net, kernels_best(), w, BOTH, adj + BOTH};
  Rng key = rng_make(r->seed, STREAM + p->number);
  for (size_t j = 0; j < BOTH; j++) {
    size_t i = p->which[j % PIECE];
    for (size_t k = 0; k < dim; k++) v[k] = rng_normal(key, j, k);
    put_lane(r, r->l->s + i * r->l->size, j < PIECE ? r->v + i * dim : v, BOTH, j, in);
  }
  network_forward(&f, in, logit);
  for (size_t j = 0; j < BOTH; j++) {
    double sign = j < PIECE ? -1 : 1, slope;
    sum += softplus(sign * logit[j], &slope);
    adj[j] = sign * slope;
  }
  if (grad) network_adjoint(&f, in, adj, grad, NULL);
  return sum;
}

static Learner ratio_learner(const Ratio *r) {
  size_t room = (r->net.in + 2) * 2 * PIECE + network_room(&r->net, 2 * PIECE);
  return (Learner){network_size(&r->net), room, loss, r, "learning the ratio"};
}

/* Where every lesson is in units of the reference that belongs to its data. */
static double *reference_units(Ctx *c, const Head *h, const double *w) {
  size_t n = h->l->n * h->l->dim;
  double *v = NEW_ARRAY(&c->arena, double, n + 1);
  head_noise(c, h, w, v);
  for (size_t i = 0; i < n; i++) v[i] /= WIDE;
  return v;
}

/* At first as if the flow were right: log N(WIDE v) WIDE^dim / N(v). */
static void start(const Ratio *r, uint64_t seed, double *w) {
  size_t K = r->l->size, dim = r->l->dim;
  network_start(&r->net, seed, w);
  for (size_t k = 0; k < dim; k++)
    w[network_past(&r->net, 0, K + dim + k)] = -0.5 * (WIDE * WIDE - 1);
  w[network_past(&r->net, 0, r->net.in)] = (double)dim * log(WIDE);
}

/* ---- sampling -------------------------------------------------------------------------------- */

typedef struct {
  const Ratio *r;
  const double *w;
} Density;

/* logit - |v|^2 / 2 and its gradient. */
static void density(const void *self, const PosteriorPoint *points, size_t n) {
  enum { LD = LANE_ROOM };
  const Density *d = self;
  const Ratio *r = d->r;
  size_t K = r->l->size, dim = r->l->dim;
  double in[r->net.in * LD], adj_in[r->net.in * LD], room[network_room(&r->net, LD)], logit[LD],
      one[LD];
  Network f = {r->net, kernels_best(), d->w, LD, room};
  for (size_t j = 0; j < LD; j++) {
    put_lane(r, r->l->seen, points[j < n ? j : 0].theta, LD, j, in);
    one[j] = 1;
  }
  network_forward(&f, in, logit);
  network_adjoint(&f, in, one, NULL, adj_in);
  for (size_t j = 0; j < n; j++) {
    double value = logit[j];
    for (size_t k = 0; k < dim; k++) {
      double v = points[j].theta[k];
      value -= 0.5 * v * v;
      points[j].gradient[k] = adj_in[(K + k) * LD + j] + 2 * v * adj_in[(K + dim + k) * LD + j] - v;
    }
    *points[j].value = isfinite(value) ? value : -INFINITY;
  }
}

static const Sample *sample(Ctx *c, const Model *m, const Density *d, const AmortizedOptions *o,
                            Pool *pool) {
  static const size_t none = 0;
  size_t dim = m->dim, each = (o->draws + CHAINS - 1) / CHAINS;
  Arena *a = &c->arena;
  double *start = NEW_ARRAY(a, double, CHAINS *dim + 1);
  Metric *unit = NEW(a, Metric);
  *unit = metric_make(a, dim);
  for (size_t i = 0; i < CHAINS * dim; i++)
    start[i] = 0.5 * rng_normal(rng_make(o->learn.seed, STREAM), i, 0);
  SampleOptions s = {.method = SAMPLER_nuts,
                     .chains = CHAINS,
                     .warmup = WARMUP,
                     .draws = each > LEAST_DRAWS ? each : LEAST_DRAWS,
                     .metric = METRIC_AUTO,
                     .seed = rng_mix(o->learn.seed + STREAM),
                     .start = start,
                     .centre = NEW_ARRAY(a, double, dim + 1),
                     .first = unit,
                     .density = density,
                     .density_self = d,
                     .cancelled = o->learn.hooks.cancelled,
                     .self = o->learn.hooks.self};
  const Sample *x = sample_run(c, posterior_observed(a, m, &none, 0), &s, pool);
  lessons_check(c, &o->learn.hooks, "sampling");
  return x;
}

static const char *doubt(Ctx *c, const Model *m, const Sample *s) {
  const double most = 1.05;
  TempArena *temp = temp_open(c);
  EssWork *w = ess_work(&temp->arena, s->chains, s->draws);
  double *x = NEW_ARRAY(&temp->arena, double, s->chains * s->draws + 1), worst = 0;
  size_t whose = 0;
  for (size_t k = 0; k < s->dim; k++) {
    for (size_t i = 0; i < s->chains * s->draws; i++)
      x[i] = sample_draw(s, i / s->draws, i % s->draws)[k];
    double rhat = ess_quality(w, x).rhat;
    if (!(rhat <= worst)) worst = rhat, whose = k;
  }
  temp_close(temp);
  if (worst <= most) return NULL;
  return arena_format(&c->arena,
                      "the chains that sample the learned posterior do not agree about %s (R-hat "
                      "%.2f): it has several modes, or the network has learned too little",
                      model_unconstrained_name(m, &c->arena, whose), worst);
}

/* ---- the draws as q -------------------------------------------------------------------------- */

/* Particles with a narrow kernel, moved towards their mean so that the variances stay. */
static double *particles_of(Ctx *c, const double *theta, size_t n, size_t dim) {
  const double narrow = 0.1, shrink = sqrt(1 - narrow * narrow);
  double *phi = NEW_ARRAY(&c->arena, double, n *dim + dim), *x = NEW_ARRAY(&c->arena, double, n);
  for (size_t k = 0; k < dim; k++) {
    for (size_t i = 0; i < n; i++) x[i] = theta[i * dim + k];
    double mean = stat_mean(x, n), sd = stat_sd(x, n);
    for (size_t i = 0; i < n; i++) phi[i * dim + k] = mean + shrink * (x[i] - mean);
    phi[n * dim + k] = log(fmax(narrow * sd, 1e-300));
  }
  return phi;
}

/* n draws, of every chain in turn and as far apart as there are: [n x dim]. */
static double *theta_of(Ctx *c, const Head *h, const double *w, const Sample *s, size_t n) {
  size_t dim = h->shape.dim, ld = (n + LANES - 1) / LANES * LANES;
  double *out = NEW_ARRAY(&c->arena, double, n *dim + 1);
  const double *phi = head_phi(c, h, w);
  size_t each = (n + s->chains - 1) / s->chains, thin = s->draws / each;
  TempArena *temp = temp_open(c);
  Q q = q_make(&temp->arena, FAMILY_flow, h->shape, dim, NULL);
  QDraws d = q_draws(&temp->arena, &q, n, ld, kernels_best());
  double *theta = NEW_ARRAY(&temp->arena, double, dim *ld);
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k < dim; k++)
      d.u[k * ld + i] = WIDE * sample_draw(s, i % s->chains, i / s->chains * thin)[k];
  q_draw(&q, phi, &d, theta);
  for (size_t i = 0; i < n * dim; i++) out[i] = theta[i % dim * ld + i / dim];
  temp_close(temp);
  return out;
}

Amortized nre_fit(Ctx *c, const Model *m, const Lessons *l, const AmortizedOptions *o, Pool *pool) {
  Head h = head_make(l, o);
  Learner first = head_learner(&h);
  first.stage = "learning the reference";
  double *w = NEW_ARRAY(&c->arena, double, first.weights);
  head_start(&c->arena, &h, o->learn.seed, w);
  learn(c, &first, l->n, &o->learn, pool, w);
  Ratio r = {l, {l->size + 2 * l->dim, o->hidden, 1}, reference_units(c, &h, w), o->learn.seed};
  Learner second = ratio_learner(&r);
  double *ratio = NEW_ARRAY(&c->arena, double, second.weights);
  start(&r, o->learn.seed + 1, ratio);
  Learned learned = learn(c, &second, l->n, &o->learn, pool, ratio);
  const Sample *s = sample(c, m, &(Density){&r, ratio}, o, pool);
  const double *theta = theta_of(c, &h, w, s, o->draws);
  return (Amortized){.q = q_make(&c->arena, FAMILY_particles,
                                 (Shape){.dim = l->dim, .components = o->draws}, l->dim, NULL),
                     .phi = particles_of(c, theta, o->draws, l->dim),
                     .learned = learned,
                     .doubt = doubt(c, m, s)};
}
