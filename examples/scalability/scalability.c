/* scalability.c: the paper's last figure: mean-field log-score PVI against VI as the number d of
 * parameters grows. The model is y_i ~ MVN(theta, I), theta ~ MVN(0, I), the truth y_i ~ MVN(0, 2
 * I); n = 100 vectors, M = 10 draws.
 *
 * Printed per d: milliseconds for one value and gradient of the PVI objective, which grow linearly
 * (the exponent below the table is the slope of the logarithms from d = 100), and the expected log
 * density of a new vector under the predictive distribution of either fit, per dimension: q being
 * normal(m, s) in every dimension, that distribution is normal(m, sqrt(1 + s^2)), and its expected
 * log density under the truth has a closed form.
 *
 *     scalability [--most=10000] [--n=100] [--draws=10] [--joint=0] [--threads=1]
 *
 * d is 10, 30, 100, ... up to --most. --joint=1 has whole vectors as observations (joint.stan): the
 * same model, but each score is an average over draws of d-dimensional densities, for which 10
 * draws are few. 0 draws are as many as it takes.
 */
#include "../example.h"

static const double truth = 2; /* variance of every element */

typedef struct {
  size_t n, d;
  int joint; /* whole vectors as observations */
  size_t draws;
  int threads;
  double seconds, vi, pvi;
  int unconverged;
} Case;

static pvi_model *model_of(pvi_context *c, const Case *k) {
  double *y = numbers(k->n * k->d);
  uint64_t seed = 5 + k->d;
  for (size_t i = 0; i < k->n * k->d; i++) y[i] = sqrt(truth) * random_normal(&seed);
  Json *j = json_begin();
  json_int(j, "n", k->n);
  json_int(j, "d", k->d);
  json_array(j, "y", y, k->n, k->d);
  free(y);
  return load(c, k->joint ? "examples/scalability/joint.stan" : "examples/scalability/normal.stan",
              j, NULL);
}

/* E log normal(y | m, sqrt(1 + s^2)), y ~ normal(0, sqrt(truth)), summed over dimensions */
static double elpd(const pvi_result *r, size_t d) {
  double sum = 0;
  for (size_t k = 0; k < d; k++) {
    double v = 1 + r->sd[k] * r->sd[k];
    sum -= 0.5 * log(2 * M_PI * v) + 0.5 * (truth + r->mean[k] * r->mean[k]) / v;
  }
  return sum;
}

static pvi_options *options_of(pvi_context *c, const Case *k, const char *score) {
  pvi_options *o = pvi_options_new(c);
  set(o, "family", "meanfield");
  set(o, "score", "%s", score);
  set(o, "lambda", "0");
  set_count(o, "draws", k->draws);
  set(o, "threads", "%d", k->threads);
  return o;
}

static double fitted_elpd(Case *k, const char *score) {
  pvi_context *c = pvi_open();
  pvi_model *m = model_of(c, k);
  pvi_options *o = options_of(c, k, score);
  pvi_run *r = fit(c, m, o, NULL, &k->unconverged);
  double e = elpd(pvi_result_of(r), k->d);
  pvi_run_free(r);
  pvi_options_free(o);
  pvi_model_free(m);
  pvi_close(c);
  return e;
}

static void run(Case *k) {
  pvi_context *c = pvi_open();
  pvi_model *m = model_of(c, k);
  pvi_options *o = options_of(c, k, "log");
  if (pvi_time(c, m, o, &k->seconds)) stop("%s", pvi_error(c));
  pvi_options_free(o);
  pvi_model_free(m);
  pvi_close(c);
  k->vi = fitted_elpd(k, "elbo");
  k->pvi = fitted_elpd(k, "log");
  double d = (double)k->d;
  printf("%6zu  %10.3f  %12.2f  %12.2f  %9.4f  %9.4f\n", k->d, 1e3 * k->seconds, k->vi, k->pvi,
         k->vi / d, k->pvi / d);
  fflush(stdout);
}

/* The slope of log seconds on log d. */
static double exponent(const Case *cases, int n) {
  double mx = 0, my = 0, xx = 0, xy = 0;
  for (int k = 0; k < n; k++) {
    mx += log((double)cases[k].d) / n;
    my += log(cases[k].seconds) / n;
  }
  for (int k = 0; k < n; k++) {
    double x = log((double)cases[k].d) - mx;
    xx += x * x;
    xy += x * (log(cases[k].seconds) - my);
  }
  return xy / xx;
}

int main(int argc, char **argv) {
  static const size_t sizes[] = {10, 30, 100, 300, 1000, 3000, 10000};
  enum { NSIZES = sizeof sizes / sizeof *sizes, SMALL = 2 /* sizes below 100 */ };
  double most = 10000, vectors = 100, draws = 10, joint = 0, threads = 1;
  const Option options[] = {{"most", &most, 10, 10000, WHOLE, "largest d"},
                            {"n", &vectors, 1, 1e5, WHOLE, "vectors in the data"},
                            {"draws", &draws, 0, 1e6, WHOLE,
                             "draws; 0: as many as it takes, and 100 where time is taken"},
                            {"joint", &joint, 0, 1, WHOLE, "1: whole vectors are observations"},
                            {"threads", &threads, 0, 256, WHOLE, "threads; 0: one per core"}};
  READ_OPTIONS(argc, argv, options);
  Case cases[NSIZES];
  int n = 0, above = 0, unconverged = 0;
  printf("     d  ms per eval       VI elpd      PVI elpd  VI elpd/d  PVI elpd/d\n");
  for (; n < NSIZES && sizes[n] <= (size_t)most; n++) {
    cases[n] = (Case){.n = (size_t)vectors,
                      .d = sizes[n],
                      .joint = joint > 0,
                      .draws = (size_t)draws,
                      .threads = (int)threads};
    run(&cases[n]);
    above += cases[n].pvi > cases[n].vi;
    unconverged += cases[n].unconverged;
  }
  printf("\nPVI is above VI at %d of %d sizes; %d of %d fits say that their draws are too few\n",
         above, n, unconverged, 2 * n);
  if (n > SMALL + 1)
    printf("from d = 100 time grows as d^%.3f\n", exponent(cases + SMALL, n - SMALL));
  return 0;
}
