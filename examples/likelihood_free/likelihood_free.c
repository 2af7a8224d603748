/* likelihood_free.c: the paper's y^2 regression (supplement, "Likelihood-free regression").
 * Outcomes y_ij = x_ij' B + e_ij, of which only the sums of squares of m of them are seen: their
 * density (noncentral chi-squared) is an infinite sum, but they are simulated in a line
 * (squares.stan). The truth takes B of every observation from {(1 - alpha) B_0 + alpha B_g}, g = 1
 * ... groups: with alpha = 0 the model is right, with alpha = 1 it is as wrong as the groups
 * differ.
 *
 * PVI maximises the CRPS of the simulations over a neural spline flow q(B), by Adam as in the
 * paper. Its rivals: the same program with B estimated as a point and, with --networks=1, neural
 * posterior and ratio estimation, which learn from simulated data what Bayes would say
 * (halves.stan: B in half of the space). Where the model is right all predict alike; where it is
 * wrong q is worth its width, and the others are as sure of one value as Bayes is.
 *
 *     likelihood_free [--alpha=all] [--groups=5] [--m=2] [--n=1000] [--iterations=1000]
 *                     [--networks=0] [--pairs=20000] [--epochs=60] [--seed=1] [--threads=0]
 *                     [--data=0]
 *
 * All alpha are 0, 0.5 and 1 (with networks 0 and 1); 0 threads are one per core. --data=1 fits
 * nothing and prints the data, the training half first, for the command line:
 *
 *     likelihood_free --alpha=1 --data=1 > squares.json
 *     pvi fit examples/likelihood_free/squares.stan squares.json --simulate y2_sim --observed y2
 * --score crps_sim --lambda 0
 *         --family flow --knots 8 --optimizer adam --iterations 1000 --learning-rate 0.005
 * --schedule warmup-cosine --draws 100
 *     pvi npe examples/likelihood_free/halves.stan squares.json --simulate y2_sim --observed y2
 */
#include "../example.h"

enum { D = 5 };

typedef struct {
  size_t n, m, groups; /* n observations to train on and as many to test */
  size_t iterations, pairs, epochs;
  double alpha;
  uint64_t seed;
  int threads;
} Setting;

/* ---- data ------------------------------------------------------------------------------------ */

/* X: [2 n x m x D], y2: [2 n] */
static void simulate(const Setting *s, double *X, double *y2) {
  uint64_t seed = s->seed * 1001;
  double *B = numbers((s->groups + 1) * D);
  for (size_t k = 0; k < (s->groups + 1) * D; k++) B[k] = random_normal(&seed);
  for (size_t i = 0; i < 2 * s->n; i++) {
    const double *group = B + D * (1 + (size_t)(random_uniform(&seed) * (double)s->groups));
    y2[i] = 0;
    for (size_t j = 0; j < s->m; j++) {
      double *x = X + (i * s->m + j) * D, y = random_normal(&seed);
      for (int k = 0; k < D; k++) {
        x[k] = random_normal(&seed);
        y += x[k] * ((1 - s->alpha) * B[k] + s->alpha * group[k]);
      }
      y2[i] += y * y;
    }
  }
  free(B);
}

static Json *make_data(const Setting *s) {
  size_t n = 2 * s->n;
  double *X = numbers(n * s->m * D), *y2 = numbers(n);
  simulate(s, X, y2);
  Json *j = json_begin();
  json_int(j, "n", n);
  json_int(j, "m", s->m);
  json_int(j, "d", D);
  json_name(j, "X"); /* an array of n matrices */
  for (size_t i = 0; i < n; i++) {
    fputc(i ? ',' : '[', j->f);
    json_rows(j, X + i * s->m * D, s->m, D);
  }
  fputc(']', j->f);
  json_array(j, "y2", y2, n, 0);
  free(X);
  free(y2);
  return j;
}

static void print_data(const Setting *s) {
  Json *j = make_data(s);
  fputs(json_end(j), stdout);
  json_free(j);
}

/* ---- methods --------------------------------------------------------------------------------- */

static void fit_options(pvi_options *o) {
  set(o, "score", "crps_sim");
  set(o, "lambda", "0");
}

static void flow_options(pvi_options *o, const Setting *s) {
  fit_options(o);
  set(o, "family", "flow");
  set(o, "knots", "8");
  set(o, "optimizer", "adam");
  set(o, "iterations", "%zu", s->iterations);
  set(o, "learning-rate", "0.005");
  set(o, "schedule", "warmup-cosine");
  set(o, "draws", "100");
}

static void point_options(pvi_options *o, const Setting *s) {
  (void)s;
  fit_options(o);
  set(o, "family", "meanfield");
  set(o, "point", "B");
  set(o, "draws", "256");
}

static void network_options(pvi_options *o, const Setting *s) {
  set(o, "pairs", "%zu", s->pairs);
  set(o, "epochs", "%zu", s->epochs);
}

typedef struct {
  const char *name, *program;
  void (*options)(pvi_options *o, const Setting *s);
  int (*fit)(pvi_context *c, const pvi_model *m, const pvi_options *o, const pvi_split *split,
             pvi_run **out);
} Method;

#define FOLDER "examples/likelihood_free/"
static const Method methods[] = {
    {"PVI", FOLDER "squares.stan", flow_options, pvi_fit},
    {"point", FOLDER "squares.stan", point_options, pvi_fit},
    {"NPE", FOLDER "halves.stan", network_options, pvi_npe},
    {"NRE", FOLDER "halves.stan", network_options, pvi_nre},
};
enum { WITHOUT_NETWORKS = 2, ALL_METHODS = 4 };

/* The CRPS of every test observation into scores; seconds. */
static double fit_one(const Setting *s, const Method *method, const pvi_split *split,
                      double *scores) {
  pvi_context *c = pvi_open();
  pvi_options *o = pvi_options_new(c);
  pvi_run *r = NULL;
  set(o, "simulate", "y2_sim");
  set(o, "observed", "y2");
  set(o, "seed", "%llu", (unsigned long long)s->seed);
  set(o, "threads", "%d", s->threads);
  method->options(o, s);
  pvi_model *m = load(c, method->program, make_data(s), o);
  int status = method->fit(c, m, o, split, &r);
  if (status && status != PVI_STATUS_NOT_CONVERGED) stop("%s", pvi_error(c));
  const double *rows = pvi_score_of(r, "test", "crps_sim").rows;
  for (size_t k = 0; k < s->n; k++) scores[k] = -rows[k];
  double seconds = pvi_result_of(r)->seconds;
  pvi_run_free(r);
  pvi_model_free(m);
  pvi_options_free(o);
  pvi_close(c);
  return seconds;
}

/* A line a method, beside the first of them. */
static void run(const Setting *s, size_t nmethods) {
  size_t *test = calloc(s->n, sizeof *test);
  for (size_t k = 0; k < s->n; k++) test[k] = s->n + k;
  pvi_split split = {.test = test, .ntest = s->n};
  double *first = numbers(s->n), *own = numbers(s->n), *loss = numbers(s->n);
  for (size_t i = 0; i < nmethods; i++) {
    double seconds = fit_one(s, &methods[i], &split, i ? own : first);
    const double *x = i ? own : first;
    for (size_t k = 0; k < s->n; k++) loss[k] = x[k] - first[k];
    printf("%5g  %-6s  %8.4f  %6.4f  %8.4f  %8.4f  %7.1f\n", s->alpha, methods[i].name,
           mean_of(x, s->n), mean_of(x, s->n) / mean_of(first, s->n), mean_of(loss, s->n),
           sd_of(loss, s->n) / sqrt((double)s->n), seconds);
    fflush(stdout);
  }
  free(first);
  free(own);
  free(loss);
  free(test);
}

int main(int argc, char **argv) {
  double alpha = NAN, groups = 5, m = 2, n = 1000, iterations = 1000, networks = 0, pairs = 20000,
         epochs = 60, seed = 1, threads = 0, data = 0;
  const Option options[] = {
      {"alpha", &alpha, 0, 1, REAL, "how wrong the model is; all: 0, 0.5 and 1"},
      {"groups", &groups, 1, 1e6, WHOLE, "coefficients B_g in the population"},
      {"m", &m, 1, 1e4, WHOLE, "outcomes in each sum of squares"},
      {"n", &n, 2, 1e6, WHOLE, "observations to train on, and as many to test"},
      {"iterations", &iterations, 1, 1e7, WHOLE, "of Adam, for the flow"},
      {"networks", &networks, 0, 1, WHOLE, "1: neural posterior and ratio estimation, too"},
      {"pairs", &pairs, 512, 1e8, WHOLE, "simulated data sets that the networks learn from"},
      {"epochs", &epochs, 1, 1e6, WHOLE, "passes of the networks through them"},
      {"seed", &seed, 0, 1e9, WHOLE, "of the data and of the fits"},
      {"threads", &threads, 0, 256, WHOLE, "threads; 0: one per core"},
      {"data", &data, 0, 1, WHOLE, "1: only print the data (of the first alpha) as JSON"}};
  READ_OPTIONS(argc, argv, options);
  Setting s = {.n = (size_t)n,
               .m = (size_t)m,
               .groups = (size_t)groups,
               .iterations = (size_t)iterations,
               .pairs = (size_t)pairs,
               .epochs = (size_t)epochs,
               .alpha = isnan(alpha) ? 0 : alpha,
               .seed = (uint64_t)seed,
               .threads = (int)threads};
  if (data > 0) {
    print_data(&s);
    return 0;
  }
  printf("y^2 regression: d = %d, m = %zu, %zu groups, n = %zu; test CRPS (smaller is better), its "
         "ratio to PVI's, and the difference\n\n",
         D, s.m, s.groups, s.n);
  printf("alpha  method      CRPS   ratio      loss  se(loss)  seconds\n");
  double step = networks > 0 ? 1 : 0.5;
  do {
    run(&s, networks > 0 ? ALL_METHODS : WITHOUT_NETWORKS);
    s.alpha += step;
  } while (isnan(alpha) && s.alpha <= 1);
  return 0;
}
