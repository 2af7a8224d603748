/* scores.c: what the choice of the score does (the paper's supplement, "Properties of different
 * scoring rules"). Linear regression whose noise is Student's t, or normal with outliers in the
 * training part only, fitted by a normal model; scores on clean test data.
 *
 * Training on the interval score of level 0.9 gives intervals that cover 0.9 whatever the noise:
 * conformal prediction for free. With outliers, scores that do not follow single points into the
 * tails (crps, interval) keep the better predictions.
 *
 *     scores [--simulations=5] [--n=1000] [--test=4000] [--setting=all] [--draws=0] [--lambda=0.01]
 * [--threads=0]
 *
 * A setting is a row of the table below; 0 draws are as many as it takes, 0 threads one per core.
 */
#include "../example.h"

enum { D = 4 }; /* an intercept and three predictors */
static const double truth[D] = {1, -1, 0.5, 2};
static const double alpha = 0.1;

typedef struct {
  const char *name;
  double df;       /* of the noise; 0: normal */
  double outliers; /* part of the training data whose noise is ten times as wide */
} Setting;
static const Setting settings[] = {{"t, df 2", 2, 0},
                                   {"t, df 5", 5, 0},
                                   {"t, df 30", 30, 0},
                                   {"normal, 4% outliers", 0, 0.04},
                                   {"normal, 16% outliers", 0, 0.16}};
static const char *const scores[] = {"log", "crps", "interval", "elbo"};
enum { NSETTINGS = sizeof settings / sizeof *settings, NSCORES = sizeof scores / sizeof *scores };

typedef struct {
  size_t n, ntest; /* the first n rows train */
  double *X, *y;   /* [n + ntest x D], [n + ntest] */
} Data;

static double noise(const Setting *s, double scale, uint64_t *seed) {
  return s->df > 0 ? random_student_t(seed, s->df) : scale * random_normal(seed);
}

static void simulate(Data *d, const Setting *s, uint64_t seed) {
  size_t outliers = (size_t)(s->outliers * (double)d->n + 0.5);
  for (size_t i = 0; i < d->n + d->ntest; i++) {
    d->y[i] = noise(s, i < outliers ? 10 : 1, &seed);
    for (int k = 0; k < D; k++) {
      d->X[i * D + (size_t)k] = k ? random_normal(&seed) : 1;
      d->y[i] += d->X[i * D + (size_t)k] * truth[k];
    }
  }
}

static Json *as_json(const Data *d) {
  Json *j = json_begin();
  json_int(j, "n", d->n + d->ntest);
  json_int(j, "d", D);
  json_array(j, "X", d->X, d->n + d->ntest, D);
  json_array(j, "y", d->y, d->n + d->ntest, 0);
  return j;
}

/* P(Y <= y) under the mean-field q: given log_sigma = m + s z, Y is normal(x' E b, sqrt(x' Var(b) x
 * + sigma^2)); the mean over the normal z by the trapezoidal rule, whose error is far below what
 * matters here. */
static double predictive_cdf(const pvi_result *r, const double *x, double y) {
  double mu = 0, v = 0, p = 0, total = 0;
  for (int k = 0; k < D; k++) {
    mu += x[k] * r->mean[k];
    v += x[k] * x[k] * r->sd[k] * r->sd[k];
  }
  for (double z = -6; z <= 6; z += 0.1) {
    double w = exp(-0.5 * z * z), sigma = exp(r->mean[D] + r->sd[D] * z);
    p += w * 0.5 * erfc((mu - y) / sqrt(2 * (v + sigma * sigma)));
    total += w;
  }
  return p / total;
}

/* Part of the test data in the central predictive interval. */
static double coverage(const pvi_result *r, const Data *d) {
  double inside = 0;
  for (size_t i = d->n; i < d->n + d->ntest; i++) {
    double p = predictive_cdf(r, d->X + i * D, d->y[i]);
    inside += p >= alpha / 2 && p <= 1 - alpha / 2;
  }
  return inside / (double)d->ntest;
}

typedef struct {
  double coverage, log, crps, interval, seconds;
  int unconverged;
} Row;

/* How a fit is made, besides its data, score and seed. */
typedef struct {
  size_t draws;
  double lambda;
  int threads;
  pvi_split split;
} How;

static pvi_options *options_of(pvi_context *c, const How *h, const char *score, size_t seed) {
  pvi_options *o = pvi_options_new(c);
  set(o, "family", "meanfield");
  set(o, "score", "%s", score);
  set(o, "alpha", "%g", alpha);
  set(o, "lambda", "%g", h->lambda);
  set_count(o, "draws", h->draws);
  set(o, "seed", "%zu", seed);
  set(o, "threads", "%d", h->threads);
  return o;
}

static void add_fit(Row *row, const Data *d, pvi_context *c, const pvi_options *o, const How *h,
                    double weight) {
  pvi_model *m = load(c, "examples/scores/regression.stan", as_json(d), NULL);
  pvi_run *r = fit(c, m, o, &h->split, &row->unconverged);
  double each = weight / (double)d->ntest;
  row->coverage += weight * coverage(pvi_result_of(r), d);
  row->log += each * pvi_score_of(r, "test", "log").sum;
  row->crps -= each * pvi_score_of(r, "test", "crps").sum;
  row->interval -= each * pvi_score_of(r, "test", "interval").sum;
  row->seconds += weight * pvi_result_of(r)->seconds;
  pvi_run_free(r);
  pvi_model_free(m);
}

static void run(const Setting *s, Data *d, size_t simulations, const How *h) {
  for (int k = 0; k < NSCORES; k++) {
    Row row = {0};
    for (size_t t = 0; t < simulations; t++) {
      pvi_context *c = pvi_open();
      pvi_options *o = options_of(c, h, scores[k], t + 1);
      simulate(d, s, 77 * (t + 1));
      add_fit(&row, d, c, o, h, 1 / (double)simulations);
      pvi_options_free(o);
      pvi_close(c);
    }
    printf("%-21s  %-8s  %8.3f  %9.4f  %8.4f  %8.3f  %11.2f  %d\n", s->name, scores[k],
           row.coverage, row.log, row.crps, row.interval, row.seconds, row.unconverged);
    fflush(stdout);
  }
}

int main(int argc, char **argv) {
  double simulations = 5, n = 1000, ntest = 4000, setting = NAN, draws = 0, lambda = 0.01,
         threads = 0;
  const Option options[] = {
      {"simulations", &simulations, 1, 1e6, WHOLE, "data sets per line of the table"},
      {"n", &n, 2, 1e6, WHOLE, "observations to train on"},
      {"test", &ntest, 1, 1e6, WHOLE, "observations to test on"},
      {"setting", &setting, 1, NSETTINGS, WHOLE, "t with df 2, 5, 30; 4% and 16% of outliers"},
      {"draws", &draws, 0, 1e6, WHOLE, "draws; 0: as many as it takes"},
      {"lambda", &lambda, 0, 1e6, REAL, "weight of the posterior in the objective"},
      {"threads", &threads, 0, 256, WHOLE, "threads; 0: one per core"}};
  READ_OPTIONS(argc, argv, options);
  Data d = {.n = (size_t)n, .ntest = (size_t)ntest};
  size_t *test = calloc(d.ntest, sizeof *test);
  d.X = numbers((d.n + d.ntest) * D);
  d.y = numbers(d.n + d.ntest);
  for (size_t k = 0; k < d.ntest; k++) test[k] = d.n + k;
  How how = {.draws = (size_t)draws,
             .lambda = lambda,
             .threads = (int)threads,
             .split = {.test = test, .ntest = d.ntest}};
  printf("n = %zu, means over %g simulations with %zu test observations each; crps and interval: "
         "smaller is better\n\n",
         d.n, simulations, d.ntest);
  printf("noise                  trained   coverage   test log      crps  interval  seconds/fit  "
         "not converged\n");
  for (int k = 0; k < NSETTINGS; k++)
    if (isnan(setting) || setting == k + 1) run(&settings[k], &d, (size_t)simulations, &how);
  free(test);
  free(d.X);
  free(d.y);
  return 0;
}
