/* normal.c: the paper's normal example (section 2.4). The model is y ~ normal(theta, 1), the truth
 * y ~ normal(0, sigma_true).
 *
 * Where the model is right (sigma_true = 1) the standard deviation of q(theta) goes to 0 under
 * every score. Where it is wrong (sigma_true = 2) that of VI goes to 0 just the same, as n^-1/2,
 * and that of PVI to sqrt(sigma_true^2 - 1) = sqrt(3).
 *
 *     normal [--simulations=50] [--n=all] [--sigma=all] [--draws=0] [--threads=0]
 *
 * All n are 100, 1000 and 10000, all sigma_true 1 and 2; 0 draws are as many as it takes, 0 threads
 * one per core.
 */
#include "../example.h"

static const char *const scores[] = {"log", "crps", "interval", "elbo"};
enum { NSCORES = sizeof scores / sizeof *scores };

typedef struct {
  size_t simulations, n, draws;
  double sigma;
  int threads;
} Setting;

static Json *make_data(size_t n, double sigma, uint64_t seed) {
  double *y = numbers(n);
  for (size_t k = 0; k < n; k++) y[k] = sigma * random_normal(&seed);
  Json *j = json_begin();
  json_int(j, "n", n);
  json_array(j, "y", y, n, 0);
  free(y);
  return j;
}

/* One line: mean and standard deviation over simulations of the standard deviation of q(theta). */
static void run(const Setting *s, const char *score) {
  double *sd = numbers(s->simulations), seconds = 0;
  int unconverged = 0;
  for (size_t k = 0; k < s->simulations; k++) {
    pvi_context *c = pvi_open();
    pvi_model *m = load(c, "examples/normal/normal.stan",
                        make_data(s->n, s->sigma, 1000 * (k + 1) + s->n), NULL);
    pvi_options *o = pvi_options_new(c);
    set(o, "score", "%s", score);
    set(o, "family", "meanfield");
    set(o, "lambda", "0");
    set_count(o, "draws", s->draws);
    set(o, "seed", "%zu", k + 1);
    set(o, "threads", "%d", s->threads);
    pvi_run *r = fit(c, m, o, NULL, &unconverged);
    sd[k] = pvi_result_of(r)->sd[0];
    seconds += pvi_result_of(r)->seconds;
    pvi_run_free(r);
    pvi_options_free(o);
    pvi_model_free(m);
    pvi_close(c);
  }
  printf("%5g  %6zu  %-8s  %9.4f  %9.4f  %11.2f  %d\n", s->sigma, s->n, score,
         mean_of(sd, s->simulations), sd_of(sd, s->simulations), seconds / (double)s->simulations,
         unconverged);
  fflush(stdout);
  free(sd);
}

int main(int argc, char **argv) {
  double simulations = 50, n = NAN, sigma = NAN, draws = 0, threads = 0;
  const Option options[] = {
      {"simulations", &simulations, 1, 1e6, WHOLE, "data sets per line of the table"},
      {"n", &n, 1, 1e7, WHOLE, "observations; all: 100, 1000 and 10000"},
      {"sigma", &sigma, 1e-3, 1e3, REAL, "sd of the truth; all: 1 and 2"},
      {"draws", &draws, 0, 1e6, WHOLE, "draws; 0: as many as it takes"},
      {"threads", &threads, 0, 256, WHOLE, "threads; 0: one per core"}};
  READ_OPTIONS(argc, argv, options);
  printf("sd of q(theta) over %g simulations; where the model is wrong (sigma 2) PVI's goes to "
         "sqrt(3) = 1.7321\n\n",
         simulations);
  printf("sigma       n  score        mean sd   sd of it  seconds/fit  not converged\n");
  for (double s = 1; s <= (isnan(sigma) ? 2 : 1); s++)
    for (double size = 100; size <= (isnan(n) ? 10000 : 100); size *= 10)
      for (int k = 0; k < NSCORES; k++)
        run(&(Setting){.simulations = (size_t)simulations,
                       .n = (size_t)(isnan(n) ? size : n),
                       .draws = (size_t)draws,
                       .sigma = isnan(sigma) ? s : sigma,
                       .threads = (int)threads},
            scores[k]);
  return 0;
}
