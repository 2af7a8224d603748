/* test_amortized.c: posteriors by networks. Gradients of all that learns against differences; a
 * conditional flow against the ordinary one that it becomes; simulated data against their
 * distribution; and what is learned against posteriors in closed form. */
#include "evaluate.h"

#include "family/conditional.h"
#include "infer/amortized.h"
#include "infer/embedding.h"
#include "infer/replicas.h"
#include "num/stats.h"
#include "pvi.h"

enum { LD = 2 * LANES };

static void fill(uint64_t *seed, double *x, size_t n, double size) {
  for (size_t i = 0; i < n; i++) x[i] = uniform(seed, -size, size);
}

/* A function of some numbers, and how it moves with number i of x. */
typedef double Value(void *self);
static double slope(Value *f, void *self, double *x, size_t i) {
  const double h = 1e-4, steps[] = {-2, -1, 1, 2};
  double at = x[i], v[4];
  for (int k = 0; k < 4; k++) {
    x[i] = at + steps[k] * h;
    v[k] = f(self);
  }
  x[i] = at;
  return difference(v, h);
}

/* ---- networks -------------------------------------------------------------------------------- */

typedef struct {
  Network f;
  double *in, *out, *weights; /* the value is the sum of weights times outputs */
} NetworkCase;

static double network_value(void *self) {
  NetworkCase *x = self;
  double sum = 0;
  network_forward(&x->f, x->in, x->out);
  for (size_t i = 0; i < x->f.shape.out * LD; i++) sum += x->weights[i] * x->out[i];
  return sum;
}

TEST(networks_have_their_gradient) {
  NetworkShape s = {3, 5, 2};
  uint64_t seed = 1;
  size_t n = network_size(&s);
  double w[n], grad[n], in[3 * LD], out[2 * LD], weights[2 * LD], adj[3 * LD],
      room[network_room(&s, LD)];
  NetworkCase x = {{s, kernels_best(), w, LD, room}, in, out, weights};
  network_start(&s, 7, w);
  for (size_t i = 0; i < n; i++) w[i] += uniform(&seed, -0.3, 0.3);
  fill(&seed, in, 3 * LD, 2);
  fill(&seed, weights, 2 * LD, 1);
  memset(grad, 0, sizeof grad);
  network_value(&x);
  network_adjoint(&x.f, in, weights, grad, adj);
  for (size_t i = 0; i < n; i++) assert_close(grad[i], slope(network_value, &x, w, i), 1e-8);
  for (size_t i = 0; i < 3 * LD; i++) assert_close(adj[i], slope(network_value, &x, in, i), 1e-8);
}

/* ---- conditional flows ----------------------------------------------------------------------- */

static const Shape shapes[] = {{.dim = 1, .knots = 5},
                               {.dim = 2, .knots = 4, .layers = 2, .hidden = 3},
                               {.dim = 5, .knots = 3, .layers = 3, .hidden = 4}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

typedef struct {
  Shape s;
  size_t nw, nshift;
  FlowLanes lanes;
  double *w, *shift, *x, *u, *log_det, *weights;
} FlowCase;

static FlowCase *flow_case(Ctx *c, const Shape *shape) {
  Arena *a = &c->arena;
  FlowCase *f = NEW(a, FlowCase);
  uint64_t seed = 3;
  f->s = family_shape(FAMILY_flow, *shape);
  f->nw = family_of(FAMILY_flow)->size(&f->s) - family_of(FAMILY_fullrank)->size(&f->s);
  f->nshift = conditional_shifts(&f->s);
  f->w = NEW_ARRAY(a, double, f->nw);
  f->shift = NEW_ARRAY(a, double, f->nshift *LD);
  f->x = NEW_ARRAY(a, double, f->s.dim *LD);
  f->u = NEW_ARRAY(a, double, f->s.dim *LD);
  f->weights = NEW_ARRAY(a, double, f->s.dim *LD);
  f->log_det = NEW_ARRAY(a, double, LD);
  fill(&seed, f->w, f->nw, 0.7);
  fill(&seed, f->shift, f->nshift * LD, 0.7);
  fill(&seed, f->x, f->s.dim * LD, 2);
  fill(&seed, f->weights, f->s.dim * LD, 1);
  f->lanes = (FlowLanes){&f->s, kernels_best(), LD,
                         f->w,  f->shift,       NEW_ARRAY(a, double, conditional_room(&f->s, LD))};
  return f;
}

static double flow_value(void *self) {
  FlowCase *f = self;
  double sum = 0;
  memcpy(f->u, f->x, f->s.dim * LD * sizeof *f->u);
  conditional_normalise(&f->lanes, f->u, f->log_det);
  for (size_t i = 0; i < f->s.dim * LD; i++) sum += f->weights[i] * f->u[i];
  for (size_t j = 0; j < LD; j++) sum += f->log_det[j];
  return sum;
}

TEST(conditional_flows_have_their_gradient) {
  for (size_t k = 0; k < SHAPES; k++) {
    FlowCase *f = flow_case(c, &shapes[k]);
    double *adj = NEW_ARRAY(&c->arena, double, f->s.dim *LD),
           *grad = NEW_ARRAY(&c->arena, double, f->nw),
           *adj_shift = NEW_ARRAY(&c->arena, double, f->nshift *LD);
    flow_value(f);
    memcpy(adj, f->weights, f->s.dim * LD * sizeof *adj);
    conditional_adjoint(&f->lanes, adj, grad, adj_shift);
    for (size_t i = 0; i < f->nw; i++) assert_close(grad[i], slope(flow_value, f, f->w, i), 1e-6);
    for (size_t i = 0; i < f->s.dim * LD; i++)
      assert_close(adj[i], slope(flow_value, f, f->x, i), 1e-6);
    for (size_t i = 0; i < f->nshift * LD; i++)
      assert_close(adj_shift[i], slope(flow_value, f, f->shift, i), 1e-6);
  }
}

/* Lane by lane, with its own shift, it is the family's flow. */
TEST(a_conditional_flow_is_a_flow) {
  for (size_t k = 0; k < SHAPES; k++) {
    FlowCase *f = flow_case(c, &shapes[k]);
    size_t dim = f->s.dim, affine = family_of(FAMILY_fullrank)->size(&f->s);
    double phi[affine + f->nw], zero[dim], one[dim], x[dim], u[dim], shift[f->nshift], log_det;
    flow_value(f);
    for (size_t j = 0; j < LD; j++) {
      for (size_t i = 0; i < dim; i++) zero[i] = 0, one[i] = 1, x[i] = f->x[i * LD + j];
      for (size_t i = 0; i < f->nshift; i++) shift[i] = f->shift[i * LD + j];
      family_of(FAMILY_flow)->start(phi, &f->s, zero, one);
      memcpy(phi + affine, f->w, f->nw * sizeof *phi);
      conditional_shift(&f->s, shift, phi + affine);
      family_of(FAMILY_flow)->inverse(phi, &f->s, x, u, &log_det);
      for (size_t i = 0; i < dim; i++) assert_close(f->u[i * LD + j], u[i], 1e-9);
      assert_close(f->log_det[j], log_det, 1e-9);
    }
  }
}

/* ---- the loss of a head ---------------------------------------------------------------------- */

typedef struct {
  Learner f;
  double *w;
  LessonPiece p;
} HeadCase;

static double head_value(void *self) {
  HeadCase *x = self;
  return x->f.loss(x->f.self, x->w, &x->p, NULL);
}

TEST(heads_have_their_gradient) {
  enum { DIM = 2, SIZE = 3 };
  double t[PIECE * DIM], s[PIECE * SIZE];
  size_t which[PIECE];
  uint64_t seed = 5;
  Lessons l = {.n = PIECE, .dim = DIM, .size = SIZE, .t = t, .s = s};
  fill(&seed, t, PIECE * DIM, 1.5);
  fill(&seed, s, PIECE * SIZE, 2);
  for (size_t j = 0; j < PIECE; j++) which[j] = PIECE - 1 - j;
  AmortizedOptions o = {.shape = {.knots = 3, .layers = 2, .hidden = 3}, .hidden = 4};
  Head h = head_make(&l, &o);
  HeadCase x = {head_learner(&h), NULL, {which, 0, NULL}};
  double *grad = NEW_ARRAY(&c->arena, double, x.f.weights);
  x.w = NEW_ARRAY(&c->arena, double, x.f.weights);
  x.p.room = NEW_ARRAY(&c->arena, double, x.f.room);
  head_start(&c->arena, &h, 1, x.w);
  for (size_t i = 0; i < x.f.weights; i++) x.w[i] += uniform(&seed, -0.2, 0.2);
  x.f.loss(x.f.self, x.w, &x.p, grad);
  for (size_t i = 0; i < x.f.weights; i++)
    assert_close(grad[i], slope(head_value, &x, x.w, i), 1e-6);
}

/* ---- simulated data -------------------------------------------------------------------------- */

/* Outcomes have the mean and the variance of their distribution at the point of their data set. */
static void check_moments(Ctx *c, const char *program, const char *data, double theta, double mean,
                          double variance) {
  enum { M = 4096 };
  const char *why;
  const Model *m = model_of(c, program, data);
  Replicas *r = replicas_make(&c->arena, &(ReplicasOf){m, NULL, 0, M}, NULL, &why);
  assert_non_null(r);
  double *points = NEW_ARRAY(&c->arena, double, M), *y = NEW_ARRAY(&c->arena, double, 2 * M);
  for (size_t j = 0; j < M; j++) points[j] = theta;
  replicas_draw(r, points, 11, y);
  for (size_t i = 0; i < 2; i++) {
    double error = 4 * sqrt(variance / M);
    assert_true(fabs(stat_mean(y + i * M, M) - mean) < error);
    assert_true(fabs(stat_variance(y + i * M, M) / variance - 1) < 0.15);
  }
  assert_true(y[0] != y[M] || y[1] != y[M + 1]); /* observations have random numbers of their own */
}

TEST(replicas_have_the_moments_of_the_outcome) {
  check_moments(c, "data { vector[2] y; } parameters { real a; } model { y ~ normal(a, 2); }",
                "{\"y\": [0, 1]}", 0.5, 0.5, 4);
  check_moments(c, "data { array[2] int y; } parameters { real a; } model { y ~ poisson_log(a); }",
                "{\"y\": [0, 1]}", log(3), 3, 3);
  check_moments(c,
                "data { array[2] int y; } parameters { real a; }\n"
                "model { y ~ bernoulli_logit(a); }",
                "{\"y\": [0, 1]}", 0, 0.5, 0.25);
}

/* Features are sums over observations: their order has no influence. */
TEST(features_do_not_see_the_order) {
  enum { N = 70 };
  Text data = text_make(&c->arena);
  text_puts(&data, "{\"x\": [");
  for (int i = 0; i < N; i++) text_printf(&data, "%s%d", i ? ", " : "", i % 7);
  text_puts(&data, "], \"y\": [");
  for (int i = 0; i < N; i++) text_printf(&data, "%s%g", i ? ", " : "", 0.1 * i);
  text_puts(&data, "]}");
  const Model *m = model_of(c,
                            "data { vector[70] x; vector[70] y; } parameters { real b; }\n"
                            "model { b ~ normal(0, 1); y ~ normal(b * x, 1); }",
                            data.s);
  const char *why;
  Replicas *r = replicas_make(&c->arena, &(ReplicasOf){m, NULL, 0, 1}, NULL, &why);
  double y[N], z[N];
  replicas_seen(r, y);
  memcpy(z, y, sizeof z);
  for (int i = 0; i + 7 < N; i += 14) { /* rows i and i + 7 have the same x */
    double other = z[i];
    z[i] = z[i + 7];
    z[i + 7] = other;
  }
  Embedding *e = embedding_make(&c->arena, m, r, y, 1);
  size_t F = embedding_features(e);
  double *a = NEW_ARRAY(&c->arena, double, embedding_room(e)),
         *b = NEW_ARRAY(&c->arena, double, embedding_room(e));
  embedding_feature(e, y, 1, 0, a);
  embedding_feature(e, z, 1, 0, b);
  assert_true(F >= 8);
  for (size_t f = 0; f < F; f++) assert_close(a[f], b[f], 1e-12);
}

/* ---- posteriors in closed form --------------------------------------------------------------- */

typedef int NetworkFit(pvi_context *c, const pvi_model *m, const pvi_options *o,
                       const pvi_split *split, pvi_run **out);

typedef struct {
  const char *program, *data, *options;
  size_t dim;
  double mean[2], sd[2];
} Known;

/* y ~ normal(mu, 1), mu ~ normal(0, 1): precision n + 1, mean sum y / (n + 1). The same simulated.
 * Then b ~ normal(0, 1), y ~ normal(b1 + b2 x, 1), x = -1.5 ... 1.5 with sum x = 0 and sum x^2 = 9:
 * precisions n + 1 and 10. */
static const Known known[] = {
    {"data { int n; vector[n] y; } parameters { real mu; }\n"
     "model { mu ~ normal(0, 1); y ~ normal(mu, 1); }",
     "{\"n\": 9, \"y\": [0.3, -0.2, 1.5, 0.8, 0.4, 1.9, -1.1, 0.6, 1.8]}",
     NULL,
     1,
     {0.6},
     {0.3162278}},
    {"data { int n; vector[n] y; } parameters { real mu; } model { mu ~ normal(0, 1); }\n"
     "generated quantities { vector[n] s; for (i in 1:n) s[i] = normal_rng(mu, 1); }",
     "{\"n\": 9, \"y\": [0.3, -0.2, 1.5, 0.8, 0.4, 1.9, -1.1, 0.6, 1.8]}",
     "s",
     1,
     {0.6},
     {0.3162278}},
    {"data { int n; vector[n] x; vector[n] y; } parameters { vector[2] b; }\n"
     "model { b ~ normal(0, 1); y ~ normal(b[1] + b[2] * x, 1); }",
     "{\"n\": 8, \"x\": [-1.5, -1, -1, -0.5, 0.5, 1, 1, 1.5], \"y\": [-1, -0.2, -0.9, 0.4, 0.9, "
     "1.4, 1.2, "
     "2.7]}",
     NULL,
     2,
     {0.5, 0.95},
     {0.3333333, 0.3162278}},
};

static pvi_options *network_options(pvi_context *p, const Known *k, const char *threads) {
  pvi_options *o = pvi_options_new(p);
  pvi_set(o, "pairs", accurate ? "6000" : "600");
  pvi_set(o, "epochs", accurate ? "20" : "1");
  pvi_set(o, "threads", threads);
  if (k->options) pvi_set(o, "simulate", k->options);
  return o;
}

static void check_known(const Known *k, NetworkFit *fit) {
  pvi_context *p = pvi_open();
  pvi_options *o = network_options(p, k, "2");
  pvi_model *m = NULL;
  pvi_run *r = NULL;
  if (pvi_load_text(p, k->program, k->data, o, &m)) fail_msg("%s", pvi_error(p));
  int status = fit(p, m, o, NULL, &r);
  if (!r || (accurate && status)) fail_msg("status %d: %s", status, pvi_error(p));
  const pvi_result *x = pvi_result_of(r);
  for (size_t i = 0; accurate && i < k->dim; i++)
    if (!(fabs(x->mean[i] - k->mean[i]) < 0.25 * k->sd[i] && fabs(x->sd[i] / k->sd[i] - 1) < 0.15))
      fail_msg("%g (%g), but the posterior is %g (%g)", x->mean[i], x->sd[i], k->mean[i], k->sd[i]);
  pvi_run_free(r);
  pvi_model_free(m);
  pvi_options_free(o);
  pvi_close(p);
}

TEST(npe_finds_known_posteriors) {
  for (size_t k = 0; k < sizeof known / sizeof *known; k++) check_known(&known[k], pvi_npe);
}
TEST(nre_finds_known_posteriors) {
  for (size_t k = 0; k < sizeof known / sizeof *known; k++) check_known(&known[k], pvi_nre);
}

/* One thread and three: the same bits. */
TEST(threads_change_nothing) {
  NetworkFit *fits[] = {pvi_npe, pvi_nre};
  for (int f = 0; f < 2; f++) {
    double mean[2], sd[2];
    for (int t = 0; t < 2; t++) {
      pvi_context *p = pvi_open();
      pvi_options *o = network_options(p, &known[0], t ? "3" : "1");
      pvi_model *m = NULL;
      pvi_run *r = NULL;
      pvi_set(o, "pairs", "1000");
      pvi_set(o, "epochs", "2");
      assert_int_equal(pvi_load_text(p, known[0].program, known[0].data, o, &m), 0);
      fits[f](p, m, o, NULL, &r);
      assert_non_null(r);
      mean[t] = pvi_result_of(r)->mean[0];
      sd[t] = pvi_result_of(r)->sd[0];
      pvi_run_free(r);
      pvi_model_free(m);
      pvi_options_free(o);
      pvi_close(p);
    }
    assert_true(mean[0] == mean[1] && sd[0] == sd[1]);
  }
}

/* ---- what cannot be learned, in words -------------------------------------------------------- */

static const struct {
  const char *program, *data, *said;
  int status;
} refused[] = {
    {"data { vector[3] y; } parameters { real mu; } model { y ~ normal(mu, 1); }",
     "{\"y\": [1, 2, 3]}", "mu has no proper prior", PVI_STATUS_PROGRAM},
    {"parameters { real mu; } model { mu ~ normal(0, 1); }", "{}", "no observation",
     PVI_STATUS_PROGRAM},
    {"data { vector[3] y; } parameters { real<lower=0> s; }\n"
     "model { s ~ lognormal(0, 1); y ~ multi_normal(rep_vector(0, 3), s * identity_matrix(3)); }",
     "{\"y\": [1, 2, 3]}", "simulate", PVI_STATUS_PROGRAM},
};

TEST(what_cannot_be_learned_is_refused) {
  for (size_t k = 0; k < sizeof refused / sizeof *refused; k++) {
    pvi_context *p = pvi_open();
    pvi_model *m = NULL;
    pvi_run *r = NULL;
    assert_int_equal(pvi_load_text(p, refused[k].program, refused[k].data, NULL, &m), 0);
    assert_int_equal(pvi_npe(p, m, NULL, NULL, &r), refused[k].status);
    assert_null(r);
    if (!strstr(pvi_error(p), refused[k].said)) fail_msg("%s", pvi_error(p));
    pvi_model_free(m);
    pvi_close(p);
  }
}

int main(void) {
  Suite s = {.n = 0};
  SUITE_ADD(&s, networks_have_their_gradient);
  SUITE_ADD(&s, conditional_flows_have_their_gradient);
  SUITE_ADD(&s, a_conditional_flow_is_a_flow);
  SUITE_ADD(&s, heads_have_their_gradient);
  SUITE_ADD(&s, replicas_have_the_moments_of_the_outcome);
  SUITE_ADD(&s, features_do_not_see_the_order);
  SUITE_ADD(&s, npe_finds_known_posteriors);
  SUITE_ADD(&s, nre_finds_known_posteriors);
  SUITE_ADD(&s, threads_change_nothing);
  SUITE_ADD(&s, what_cannot_be_learned_is_refused);
  return suite_run("amortized", &s);
}
