/* normal.c: the paper's normal example (section 2.4). The model is y ~ normal(theta, 1), the truth y ~ normal(0, sigma_true).
 *
 * Where the model is right (sigma_true = 1) the standard deviation of q(theta) goes to 0 under every score. Where it is wrong
 * (sigma_true = 2) that of VI goes to 0 just the same, as n^-1/2, and that of PVI to sqrt(sigma_true^2 - 1) = sqrt(3).
 *
 *     normal [--simulations=50] [--n=0 (100, 1000 and 10000)] [--sigma=0 (1 and 2)] [--draws=128] [--threads=0]
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
    pvi_model *m = load(c, "examples/normal/normal.stan", make_data(s->n, s->sigma, 1000 * (k + 1) + s->n));
    pvi_options o = {.score = score, .family = "meanfield", .draws = s->draws, .seed = k + 1, .threads = s->threads};
    pvi_result r = fit(c, m, &o, &unconverged);
    sd[k] = r.sd[0];
    seconds += r.seconds;
    pvi_close(c);
  }
  printf("%5g  %6zu  %-8s  %9.4f  %9.4f  %11.2f  %d\n", s->sigma, s->n, score, mean_of(sd, s->simulations),
         sd_of(sd, s->simulations), seconds / (double)s->simulations, unconverged);
  fflush(stdout);
  free(sd);
}

int main(int argc, char **argv) {
  size_t n = (size_t)option(argc, argv, "n", 0);
  double sigma = option(argc, argv, "sigma", 0);
  Setting s = {.simulations = (size_t)option(argc, argv, "simulations", 50),
               .draws = (size_t)option(argc, argv, "draws", 128),
               .threads = (int)option(argc, argv, "threads", 0)};
  printf("sd of q(theta) over %zu simulations; where the model is wrong (sigma 2) PVI's goes to sqrt(3) = 1.7321\n\n",
         s.simulations);
  printf("sigma       n  score        mean sd   sd of it  seconds/fit  not converged\n");
  for (int sig = 1; sig <= 2; sig++)
    for (size_t size = 100; size <= 10000; size *= 10)
      for (int k = 0; k < NSCORES; k++) {
        s.sigma = sig;
        s.n = size;
        if ((!n || n == size) && (sigma == 0 || sigma == sig)) run(&s, scores[k]);
      }
  return 0;
}
