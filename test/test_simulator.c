/* test_simulator.c: fits through simulators in C: outcomes that serve all observations are scored
 * as if each observation had them for itself, noise is integrated out as theory says, derivatives
 * are those of differences, and a fit has the same bits with any number of threads, and interrupted
 * and resumed at any place. */
#include "testing.h"

#include "infer/journal.h"
#include "infer/shared_score.h"
#include "infer/simulated.h"
#include "num/rng.h"

/* ---- the shared score ------------------------------------------------------------------------ */

enum { N = 70, M = 37, WIDTH = 19 };

typedef struct {
  double y[N * WIDTH], sim[M * WIDTH], weights[M];
} Vectors;

static void fill(Vectors *v, double apart) {
  Rng key = rng_make(5, 1);
  double sum = 0;
  for (size_t k = 0; k < N * WIDTH; k++) v->y[k] = 3 + rng_normal(key, k, 0);
  for (size_t k = 0; k < M * WIDTH; k++) v->sim[k] = 2.5 + apart * rng_normal(key, k, 1);
  for (size_t j = 0; j < M; j++) sum += v->weights[j] = 0.5 + rng_uniform(key, j, 2);
  for (size_t j = 0; j < M; j++) v->weights[j] /= sum;
}

static SharedProblem problem(const Vectors *v, ScoreId score) {
  return (SharedProblem){
      .n = N, .width = WIDTH, .y = v->y, .score = score, .options = {.bandwidth = 4}};
}

/* The score of every observation for itself, and the sum of its derivatives. */
static double directly(Ctx *c, const Vectors *v, ScoreId score, double *scores, double *adj) {
  double sum = 0, *one = NEW_ARRAY(&c->arena, double, M *WIDTH);
  memset(adj, 0, M * WIDTH * sizeof *adj);
  for (size_t i = 0; i < N; i++) {
    ScoreCase k = {.q = {.M = M, .ld = (M + LANES - 1) / LANES * LANES},
                   .sim = v->sim,
                   .nsim = M,
                   .yvec = v->y + i * WIDTH,
                   .dim = WIDTH,
                   .o = {.bandwidth = 4},
                   .k = kernels_best(),
                   .scratch = NEW_ARRAY(&c->arena, double, score_scratch(M, M, false))};
    sum += scores[i] = score_of(score)(&k, &(ScoreAdjoint){.sim = one});
    for (size_t q = 0; q < M * WIDTH; q++) adj[q] += one[q];
  }
  return sum;
}

/* Simulations apart from each other, and so near that inner products cancel. */
TEST(shared_is_direct) {
  static const struct {
    ScoreId score;
    double apart, tolerance;
  } rows[] = {{SCORE_energy, 1, 1e-11},
              {SCORE_mmd, 1, 1e-11},
              {SCORE_energy, 1e-4, 1e-9},
              {SCORE_energy, 0, 1e-9}};
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    Vectors *v = NEW(&c->arena, Vectors);
    fill(v, rows[r].apart);
    SharedProblem p = problem(v, rows[r].score);
    Pool *pool = pool_make(c, 2);
    SharedScore *s = shared_make(&c->arena, &p, M, pool);
    double scores[N], expected[N], *adj = NEW_ARRAY(&c->arena, double, M *WIDTH),
                                   *g = NEW_ARRAY(&c->arena, double, M *WIDTH);
    double sum = shared_eval(s, &(SharedCase){.count = N, .sim = v->sim}, scores, g, NULL),
           direct = directly(c, v, rows[r].score, expected, adj);
    assert_true(fabs(sum - direct) < rows[r].tolerance * fabs(direct));
    for (size_t i = 0; i < N; i++)
      assert_true(fabs(scores[i] - expected[i]) < rows[r].tolerance * (1 + fabs(expected[i])));
    for (size_t k = 0; k < M * WIDTH; k++)
      assert_true(fabs(g[k] - adj[k]) < 100 * rows[r].tolerance * (1 + fabs(adj[k])));
    pool_free(pool);
  }
}

/* Some of the observations, in any order. */
TEST(a_batch_is_its_rows) {
  static const size_t rows[] = {3, 69, 0, 17, 18};
  Vectors *v = NEW(&c->arena, Vectors);
  fill(v, 1);
  SharedProblem p = problem(v, SCORE_energy);
  Pool *pool = pool_make(c, 1);
  SharedScore *s = shared_make(&c->arena, &p, M, pool);
  double all[N], some[5];
  shared_eval(s, &(SharedCase){.count = N, .sim = v->sim}, all, NULL, NULL);
  double sum = shared_eval(s, &(SharedCase){rows, 5, v->sim, NULL}, some, NULL, NULL), expected = 0;
  for (int k = 0; k < 5; k++) {
    assert_true(fabs(some[k] - all[rows[k]]) < 1e-12);
    expected += some[k];
  }
  assert_true(fabs(sum - expected) < 1e-10);
  pool_free(pool);
}

/* Derivatives in simulations and weights, with and without noise, with both kinds of pairs. */
TEST(shared_derivatives) {
  for (int kind = 0; kind < 8; kind++) {
    Vectors *v = NEW(&c->arena, Vectors);
    fill(v, 0.7);
    SharedProblem p = problem(v, kind & 1 ? SCORE_mmd : SCORE_energy);
    p.noise_sd = kind & 2 ? 0.8 : 0;
    p.all_pairs = kind & 4;
    Pool *pool = pool_make(c, 1);
    SharedScore *s = shared_make(&c->arena, &p, M, pool);
    SharedCase k = {.count = N, .sim = v->sim, .weights = v->weights};
    double *adj = NEW_ARRAY(&c->arena, double, M *WIDTH), adj_w[M];
    shared_eval(s, &k, NULL, adj, adj_w);
    for (size_t q = 0; q < M * WIDTH; q += 97) {
      double x = v->sim[q], h = 1e-5;
      v->sim[q] = x + h;
      double up = shared_eval(s, &k, NULL, NULL, NULL);
      v->sim[q] = x - h;
      double down = shared_eval(s, &k, NULL, NULL, NULL);
      v->sim[q] = x;
      assert_true(fabs((up - down) / (2 * h) - adj[q]) < 1e-6 * (1 + fabs(adj[q])));
    }
    for (size_t j = 0; j < M; j += 7) {
      double w = v->weights[j], h = 1e-6;
      v->weights[j] = w + h;
      double up = shared_eval(s, &k, NULL, NULL, NULL);
      v->weights[j] = w - h;
      double down = shared_eval(s, &k, NULL, NULL, NULL);
      v->weights[j] = w;
      assert_true(fabs((up - down) / (2 * h) - adj_w[j]) < 1e-6 * (1 + fabs(adj_w[j])));
    }
    pool_free(pool);
  }
}

/* |a + tau e|^2 / tau^2 is a Poisson mixture of central chi-squared variables with P + 2 k degrees
 * of freedom, whose roots have means sqrt(2) G((P + 1) / 2 + k) / G(P / 2 + k). */
static double exact_distance(double r2, double tau, double P) {
  double rate = 0.5 * r2 / (tau * tau), sum = 0;
  for (int k = 0; k < 4000; k++) {
    double log_p = k * log(rate + 1e-300) - rate - lgamma(k + 1.0);
    sum += exp(log_p + lgamma(0.5 * (P + 1) + k) - lgamma(0.5 * P + k));
  }
  return tau * sqrt(2) * sum;
}

TEST(noise_is_integrated_out) {
  for (size_t width = 16; width <= 4096; width *= 4)
    for (double r2 = 0; r2 < 300; r2 = 3 * r2 + 0.5) {
      double slope, up, down, ignored, tau = 0.7, P = (double)width, h = 1e-4 * (1 + r2);
      double value = shared_mean_distance(r2, tau, width, &slope),
             exact = exact_distance(r2, tau, P);
      assert_true(fabs(value - exact) < exact * 3 * pow(P, -4) + 1e-9);
      up = shared_mean_distance(r2 + h, tau, width, &ignored);
      down = shared_mean_distance(r2 - h, tau, width, &ignored);
      assert_true(fabs((up - down) / (2 * h) - slope) < 1e-7);
    }
}

/* ---- fits ------------------------------------------------------------------------------------ */

/* Outcomes of 20 numbers: a curve in theta, shifted by noise; the curve is kept for the way back.
 */
enum { DOTS = 20, IMAGES = 300 };
typedef struct {
  double y[IMAGES * DOTS];
} Images;

static void curve(double theta, double shift, double *out, double *slope) {
  for (int k = 0; k < DOTS; k++) {
    double d = theta + 0.3 * shift - 0.4 * (k - 10), e = exp(-0.5 * d * d);
    out[k] = 3 * e;
    if (slope) slope[k] = -3 * d * e;
  }
}

static bool simulate(void *self, const SimulatorDraw *d, double *out) {
  (void)self;
  curve(d->theta[0], d->u[0] - 0.5, out, NULL);
  return true;
}

static bool pullback(void *self, const SimulatorDraw *d, const double *adj, double *adj_theta) {
  double out[DOTS], slope[DOTS];
  (void)self;
  curve(d->theta[0], d->u[0] - 0.5, out, slope);
  for (int k = 0; k < DOTS; k++) adj_theta[0] += adj[k] * slope[k];
  return true;
}

static const double zero[1] = {0}, two[1] = {2};

/* theta is -1.5 or 1.5, a quarter and three quarters of the time, with sd 0.2. */
static Simulator images(Ctx *c) {
  Images *v = NEW(&c->arena, Images);
  Rng key = rng_make(9, 0);
  for (size_t i = 0; i < IMAGES; i++) {
    double theta = (rng_uniform(key, i, 0) < 0.25 ? -1.5 : 1.5) + 0.2 * rng_normal(key, i, 1);
    curve(theta, rng_uniform(key, i, 2) - 0.5, v->y + i * DOTS, NULL);
    for (size_t k = 0; k < DOTS; k++) v->y[i * DOTS + k] += 0.5 * rng_normal(key, i, 3 + k);
  }
  return (Simulator){.dim = 1,
                     .n = IMAGES,
                     .width = DOTS,
                     .y = v->y,
                     .prior_mean = zero,
                     .prior_sd = two,
                     .simulate_one = simulate,
                     .pullback_one = pullback,
                     .noises = 1,
                     .noise_sd = 0.5};
}

static SimulatorOptions stochastic(FamilyId family) {
  return (SimulatorOptions){.score = SCORE_energy,
                            .family = family,
                            .lambda = 0.01,
                            .M = 48,
                            .optimizer = OPTIM_ADAM,
                            .iterations = 600,
                            .learning_rate = 0.03,
                            .schedule = SCHEDULE_WARMUP_COSINE,
                            .minibatch = 100,
                            .seed = 1,
                            .threads = 2};
}

/* The part of q below zero, and mean and sd of the rest. */
static void halves(Ctx *c, const SimulatorFit *f, double *below, double *mean, double *sd) {
  enum { DRAWS = 4096 };
  QDraws d = q_draws(&c->arena, &f->q, DRAWS, DRAWS, kernels_best());
  double *theta = NEW_ARRAY(&c->arena, double, DRAWS), n = 0, s = 0, ss = 0, low = 0;
  for (size_t k = 0; k < q_noise(&f->q); k++)
    rng_fill_normal(rng_make(3, 3), 0, k, d.u + k * DRAWS, DRAWS);
  q_draw(&f->q, f->phi, &d, theta);
  for (size_t j = 0; j < DRAWS; j++) {
    double w = d.weights ? d.weights[j] : 1.0 / DRAWS;
    low += theta[j] < 0 ? w : 0;
    if (theta[j] < 0) continue;
    n += w, s += w * theta[j], ss += w * theta[j] * theta[j];
  }
  *below = low, *mean = s / n, *sd = sqrt(ss / n - s * s / n / n);
}

/* Small steps gain little, which is not because nothing is left. */
TEST(small_steps_are_no_convergence) {
  Simulator s = images(c);
  SimulatorOptions o = stochastic(FAMILY_spline);
  o.learning_rate = 1e-6;
  const SimulatorFit *f = simulator_fit(c, &s, &o);
  if (f->converged) print_message("%s\n", f->reason);
  assert_false(f->converged);
  assert_non_null(strstr(f->reason, "along the gradient"));
}

/* A family with two modes finds both, by either optimizer. */
TEST(populations_are_found) {
  Simulator s = images(c);
  static const FamilyId families[] = {FAMILY_mixture, FAMILY_spline, FAMILY_flow};
  for (int k = 0; k < 6; k++) {
    SimulatorOptions o = stochastic(families[k / 2]);
    o.shape.knots = 8;
    if (k % 2) o.optimizer = OPTIM_LBFGS, o.minibatch = 0, o.iterations = 300, o.M = 256;
    const SimulatorFit *f = simulator_fit(c, &s, &o);
    double below, mean, sd;
    halves(c, f, &below, &mean, &sd);
    if (!f->converged) print_message("%d: %s\n", k, f->reason);
    assert_true(f->converged && isfinite(f->value.value));
    if (!(fabs(below - 0.25) < 0.08 && fabs(mean - 1.5) < 0.1 && sd < 0.5))
      print_message("%d: %g %g %g\n", k, below, mean, sd);
    assert_true(fabs(below - 0.25) < 0.08 && fabs(mean - 1.5) < 0.1 && sd < 0.5);
  }
}

/* The gradient of the whole objective, of families with and without weights. */
TEST(derivatives_in_phi) {
  static const FamilyId families[] = {FAMILY_meanfield, FAMILY_mixture, FAMILY_spline};
  Simulator s = images(c);
  for (int k = 0; k < 3; k++) {
    SimulatorOptions o = stochastic(families[k]);
    Q q = q_make(&c->arena, o.family, (Shape){.knots = 6}, 1, NULL);
    Pool *pool = pool_make(c, 1);
    Simulated *f = simulated_make(&c->arena, &s, &o, &q, 48, pool);
    size_t size = q_size(&q);
    double phi[64], grad[64];
    PredictiveValue v, up, down;
    q_start(&q, phi, zero, two);
    for (size_t e = 0; e < size; e++) phi[e] += 0.1 * sin((double)e + 1);
    simulated_renew(f, 3);
    simulated_batch(f, 1);
    assert_true(simulated_eval(f, phi, &v, grad));
    for (size_t e = 0; e < size; e++) {
      double x = phi[e], h = 1e-5;
      phi[e] = x + h;
      assert_true(simulated_eval(f, phi, &up, NULL));
      phi[e] = x - h;
      assert_true(simulated_eval(f, phi, &down, NULL));
      phi[e] = x;
      assert_true(fabs((up.value - down.value) / (2 * h) - grad[e]) < 2e-6 * (1 + fabs(grad[e])));
    }
    pool_free(pool);
  }
}

static void assert_same(const SimulatorFit *a, const SimulatorFit *b) {
  assert_memory_equal(a->phi, b->phi, q_size(&a->q) * sizeof *a->phi);
  assert_memory_equal(&a->value, &b->value, sizeof a->value);
  assert_memory_equal(a->scores, b->scores, IMAGES * sizeof *a->scores);
  assert_int_equal(a->evaluations, b->evaluations);
  assert_string_equal(a->reason, b->reason);
  assert_int_equal(a->converged, b->converged);
}

TEST(any_number_of_threads) {
  Simulator s = images(c);
  SimulatorOptions o = stochastic(FAMILY_spline);
  o.shape.knots = 6;
  o.iterations = 40;
  const SimulatorFit *one = NULL;
  for (int threads = 1; threads <= 5; threads += 2) {
    o.threads = threads;
    const SimulatorFit *f = simulator_fit(c, &s, &o);
    if (one) assert_same(one, f);
    one = one ? one : f;
  }
}

/* ---- interruptions --------------------------------------------------------------------------- */

typedef struct {
  long asked, stop;
} Patience;
static bool impatient(void *self) {
  Patience *p = self;
  return p->asked++ == p->stop;
}

static Journal *reread(Ctx *c, const Journal *j) {
  Text t = text_make(&c->arena);
  journal_write(j, &t);
  return journal_read(c, &c->arena, t.s, t.n);
}

/* Interrupted at every third place, written, read, and resumed: the same bits. */
TEST(resumed_is_never_interrupted) {
  Simulator s = images(c);
  for (int k = 0; k < 2; k++) {
    SimulatorOptions o = stochastic(FAMILY_meanfield);
    Patience p = {.stop = -1};
    o.iterations = 12;
    if (k) o.optimizer = OPTIM_LBFGS, o.minibatch = 0, o.iterations = 8;
    o.cancelled = impatient;
    o.cancelled_self = &p;
    const SimulatorFit *whole = simulator_fit(c, &s, &o);
    long evaluations = p.asked;
    assert_false(whole->interrupted);
    for (long at = 1; at < evaluations; at += 3) {
      o.journal = journal_make(&c->arena);
      p = (Patience){.stop = at};
      assert_true(simulator_fit(c, &s, &o)->interrupted);
      o.journal = reread(c, o.journal);
      assert_non_null(o.journal);
      p.stop = -1;
      assert_same(whole, simulator_fit(c, &s, &o));
    }
  }
}

static void fit_it(Ctx *c, void *arg) {
  void **a = arg;
  simulator_fit(c, a[0], a[1]);
}

TEST(another_fit_s_journal_is_refused) {
  Simulator s = images(c);
  SimulatorOptions o = stochastic(FAMILY_meanfield);
  Patience p = {.stop = 5};
  o.iterations = 12;
  o.cancelled = impatient;
  o.cancelled_self = &p;
  o.journal = journal_make(&c->arena);
  simulator_fit(c, &s, &o);
  o.lambda = 0.5;
  o.journal = reread(c, o.journal);
  assert_int_equal(attempt(c, fit_it, (void *[]){&s, &o}), PVI_DATA);
}

TEST(what_cannot_be) {
  Simulator s = images(c), each = s;
  each.simulate_one = NULL;
  SimulatorOptions ok = stochastic(FAMILY_meanfield), o;
#define REFUSED(simulator, ...)                                                                    \
  o = ok;                                                                                          \
  __VA_ARGS__;                                                                                     \
  assert_int_equal(attempt(c, fit_it, (void *[]){&simulator, &o}), PVI_USAGE)
  REFUSED(s, o.score = SCORE_log);
  REFUSED(s, o.score = SCORE_crps_sim);
  REFUSED(s, o.M = 1);
  REFUSED(s, o.optimizer = OPTIM_LBFGS);
  REFUSED(each, o.family = FAMILY_mixture);
  REFUSED(each, o.family = FAMILY_meanfield);
#undef REFUSED
}

int main(void) {
  static Suite s;
  SUITE_ADD(&s, shared_is_direct);
  SUITE_ADD(&s, a_batch_is_its_rows);
  SUITE_ADD(&s, shared_derivatives);
  SUITE_ADD(&s, noise_is_integrated_out);
  SUITE_ADD(&s, populations_are_found);
  SUITE_ADD(&s, small_steps_are_no_convergence);
  SUITE_ADD(&s, derivatives_in_phi);
  SUITE_ADD(&s, any_number_of_threads);
  SUITE_ADD(&s, resumed_is_never_interrupted);
  SUITE_ADD(&s, another_fit_s_journal_is_refused);
  SUITE_ADD(&s, what_cannot_be);
  return suite_run("simulator", &s);
}
