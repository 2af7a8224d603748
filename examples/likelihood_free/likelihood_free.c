/* likelihood_free.c: the paper's y^2 regression (supplement, "Likelihood-free regression").
 * Outcomes y_ij = x_ij' B + e_ij, of which only the sums of squares of m of them are seen: their
 * density (noncentral chi-squared) is an infinite sum, but they are simulated in a line
 * (squares.stan). The truth takes B of every observation from {(1 - alpha) B_0 + alpha B_g}, g = 1
 * ... groups: with alpha = 0 the model is right, with alpha = 1 it is as wrong as the groups
 * differ.
 *
 * PVI maximises the CRPS of the simulations over a neural spline flow q(B), by Adam as in the
 * paper; the rival is the same program with B estimated as a point. Where the model is right both
 * predict alike; where it is wrong q is worth its width.
 *
 *     likelihood_free [--alpha=all] [--groups=5] [--m=2] [--n=1000] [--iterations=1000] [--seed=1]
 * [--threads=0] [--data=0]
 *
 * All alpha are 0, 0.5 and 1; 0 threads are one per core. --data=1 fits nothing and prints the
 * data, the training half first, for the command line:
 *
 *     likelihood_free --alpha=1 --data=1 > squares.json
 *     pvi fit examples/likelihood_free/squares.stan squares.json --simulate y2_sim --observed y2
 * --score crps_sim --lambda 0
 *         --family flow --knots 8 --optimizer adam --iterations 1000 --learning-rate 0.005
 * --schedule warmup-cosine --draws 100
 */
#include "squares.h"

static void print_data(const Setting *s) {
  Json *j = make_data(s);
  fputs(json_end(j), stdout);
  json_free(j);
}

static void point_options(pvi_options *o, const Setting *s) {
  (void)s;
  set(o, "family", "meanfield");
  set(o, "point", "B");
  set(o, "draws", "256");
}

/* Minus the CRPS of every test observation into scores; seconds. */
static double fit_one(const Setting *s, void (*own)(pvi_options *o, const Setting *s),
                      const pvi_split *split, double *scores) {
  int unconverged = 0;
  pvi_context *c = pvi_open();
  pvi_options *o = common_options(c, s);
  own(o, s);
  pvi_model *m = load(c, "examples/likelihood_free/squares.stan", make_data(s), o);
  pvi_run *r = fit(c, m, o, split, &unconverged);
  memcpy(scores, pvi_score_of(r, "test", "crps_sim").rows, s->n * sizeof *scores);
  double seconds = pvi_result_of(r)->seconds;
  pvi_run_free(r);
  pvi_model_free(m);
  pvi_options_free(o);
  pvi_close(c);
  return seconds;
}

static void run(const Setting *s) {
  size_t *test = calloc(s->n, sizeof *test);
  for (size_t k = 0; k < s->n; k++) test[k] = s->n + k;
  pvi_split split = {.test = test, .ntest = s->n};
  double *a = numbers(s->n), *b = numbers(s->n);
  double seconds = fit_one(s, flow_options, &split, a), pvi = -mean_of(a, s->n);
  fit_one(s, point_options, &split, b);
  double rival = -mean_of(b, s->n);
  for (size_t k = 0; k < s->n; k++) a[k] -= b[k];
  printf("%5g  %8.4f  %8.4f  %6.4f  %8.4f  %8.4f  %9.1f\n", s->alpha, pvi, rival, rival / pvi,
         mean_of(a, s->n), sd_of(a, s->n) / sqrt((double)s->n), seconds);
  fflush(stdout);
  free(a);
  free(b);
  free(test);
}

int main(int argc, char **argv) {
  double alpha = NAN, groups = 5, m = 2, n = 1000, iterations = 1000, seed = 1, threads = 0,
         data = 0;
  const Option options[] = {
      {"alpha", &alpha, 0, 1, REAL, "how wrong the model is; all: 0, 0.5 and 1"},
      {"groups", &groups, 1, 1e6, WHOLE, "coefficients B_g in the population"},
      {"m", &m, 1, 1e4, WHOLE, "outcomes in each sum of squares"},
      {"n", &n, 2, 1e6, WHOLE, "observations to train on, and as many to test"},
      {"iterations", &iterations, 1, 1e7, WHOLE, "of Adam, for the flow"},
      {"seed", &seed, 0, 1e9, WHOLE, "of the data and of the fits"},
      {"threads", &threads, 0, 256, WHOLE, "threads; 0: one per core"},
      {"data", &data, 0, 1, WHOLE, "1: only print the data (of the first alpha) as JSON"}};
  READ_OPTIONS(argc, argv, options);
  Setting s = {.n = (size_t)n,
               .m = (size_t)m,
               .groups = (size_t)groups,
               .iterations = (size_t)iterations,
               .alpha = isnan(alpha) ? 0 : alpha,
               .seed = (uint64_t)seed,
               .threads = (int)threads};
  if (data > 0) {
    print_data(&s);
    return 0;
  }
  printf("y^2 regression: d = %d, m = %zu, %zu groups, n = %zu; test CRPS (smaller is better) of q "
         "and of a point\n\n",
         D, s.m, s.groups, s.n);
  printf("alpha       PVI     point   ratio      gain  se(gain)  s for PVI\n");
  for (int k = 0; k < (isnan(alpha) ? 3 : 1); k++, s.alpha += 0.5) run(&s);
  return 0;
}
