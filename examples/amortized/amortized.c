/* amortized.c: PVI beside simulation-based inference with networks, on the y^2 regression of
 * likelihood_free.c, as in the paper's supplement.
 *
 *   NPE  neural posterior estimation (Papamakarios and Murray 2016): a network maps simulated data
 *        to a mixture of normals, and is trained to give the parameters that made them a high
 *        density; the posterior is what it says of the data that were seen
 *   NRE  neural ratio estimation (Hermans, Begy and Louppe 2020): a network learns to tell pairs of
 *        parameters and their data from pairs that do not belong together; its logit is the log
 *        ratio of likelihood and evidence, and the posterior is sampled by a Markov chain
 *
 * Both approximate the Bayes posterior: where the model is right they predict as PVI does, where it
 * is wrong they are as sure of one value as Bayes is. Data enter a network through the
 * least-squares coefficients of y^2 - m on the products x_k x_l, which have B_k B_l as their
 * expectation: n exchangeable observations become 15 numbers. Their leading eigenvector, scaled, is
 * a first estimate of B; networks see the difference from it. B and -B have the same likelihood:
 * they see the one that is nearer to the estimate.
 *
 * Printed: mean test CRPS (smaller is better) of all three, from 1000 draws each, and ratios to
 * PVI's.
 *
 *     amortized [--alpha=all] [--groups=5] [--m=2] [--n=1000] [--iterations=1000] [--npe=50000]
 *               [--nre=10000] [--epochs=20] [--seed=1] [--threads=0] */
#include "../likelihood_free/squares.h"

#include <stdbool.h>

enum {
  PRODUCTS = D * (D + 1) / 2, /* numbers in a summary */
  HIDDEN = 64,
  COMPONENTS = 2,
  HEAD = COMPONENTS * (1 + 2 * D), /* NPE's outputs: logits, means, log sds */
  DRAWS = 1000,
  BATCH = 100
};
#define UNIT 0.1 /* about the error of the estimate */

/* ---- summaries ------------------------------------------------------------------------------- */

/* A = (F'F)^-1 F', F the sums of products of every observation: the summary is A (y2 - m). */
typedef struct {
  size_t n;
  double m, *F, *inverse; /* [n x PRODUCTS], [PRODUCTS x PRODUCTS] */
} Summary;

static void invert(double *A, size_t n) { /* Gauss and Jordan; A positive definite */
  for (size_t k = 0; k < n; k++) {
    double pivot = A[k * n + k];
    A[k * n + k] = 1;
    for (size_t j = 0; j < n; j++) A[k * n + j] /= pivot;
    for (size_t i = 0; i < n; i++) {
      double f = A[i * n + k];
      if (i == k) continue;
      A[i * n + k] = 0;
      for (size_t j = 0; j < n; j++) A[i * n + j] -= f * A[k * n + j];
    }
  }
}

static Summary summary_make(const double *X, size_t n, size_t m) {
  Summary s = {n, (double)m, numbers(n * PRODUCTS), numbers(PRODUCTS * PRODUCTS)};
  for (size_t i = 0; i < n * m; i++) {
    const double *x = X + i * D;
    double *f = s.F + i / m * PRODUCTS;
    for (int k = 0; k < D; k++)
      for (int l = 0; l <= k; l++) *f++ += (k == l ? 1 : 2) * x[k] * x[l];
  }
  for (size_t i = 0; i < n; i++)
    for (int k = 0; k < PRODUCTS * PRODUCTS; k++)
      s.inverse[k] +=
          s.F[i * PRODUCTS + (size_t)(k / PRODUCTS)] * s.F[i * PRODUCTS + (size_t)(k % PRODUCTS)];
  invert(s.inverse, PRODUCTS);
  return s;
}

static void summarize(const Summary *s, const double *y2, double *out) {
  double sum[PRODUCTS] = {0};
  for (size_t i = 0; i < s->n; i++)
    for (int k = 0; k < PRODUCTS; k++) sum[k] += s->F[i * PRODUCTS + (size_t)k] * (y2[i] - s->m);
  for (int k = 0; k < PRODUCTS; k++) {
    out[k] = 0;
    for (int l = 0; l < PRODUCTS; l++) out[k] += s->inverse[k * PRODUCTS + l] * sum[l];
  }
}

/* The estimate: sqrt(lambda) v of the largest eigenvalue of the matrix of products, by powers of
 * it. */
static void estimate(const double *s, double *B) {
  double A[D][D], norm = 0;
  for (int k = 0; k < D; k++)
    for (int l = 0; l <= k; l++) A[k][l] = A[l][k] = s[k * (k + 1) / 2 + l];
  for (int k = 0; k < D; k++) B[k] = 1 + 0.1 * k;
  for (int t = 0; t < 60; t++) {
    double next[D] = {0};
    norm = 0;
    for (int k = 0; k < D; k++) {
      for (int l = 0; l < D; l++) next[k] += A[k][l] * B[l];
      norm += next[k] * next[k];
    }
    norm = sqrt(norm);
    for (int k = 0; k < D; k++) B[k] = next[k] / norm;
  }
  for (int k = 0; k < D; k++) B[k] *= sqrt(norm);
}

/* The difference of B, or of -B if that is nearer, from the estimate, in units of its error. */
static void relative(const double *B, const double *near, double *z) {
  double dot = 0;
  for (int k = 0; k < D; k++) dot += B[k] * near[k];
  for (int k = 0; k < D; k++) z[k] = ((dot < 0 ? -B[k] : B[k]) - near[k]) / UNIT;
}

/* One outcome of every observation under B. */
static void draw_outcomes(const double *X, size_t n, size_t m, const double *B, uint64_t *seed,
                          double *y2) {
  for (size_t i = 0; i < n; i++) {
    y2[i] = 0;
    for (size_t j = 0; j < m; j++) {
      const double *x = X + (i * m + j) * D;
      double y = random_normal(seed);
      for (int k = 0; k < D; k++) y += x[k] * B[k];
      y2[i] += y * y;
    }
  }
}

/* ---- a network ------------------------------------------------------------------------------- */

/* Two hidden layers of tanh; weights and biases of all layers in one vector, with Adam's moments.
 */
typedef struct {
  size_t in, out, size;
  double *w, *grad, *m, *v;
  long steps;
  double h1[HIDDEN], h2[HIDDEN]; /* of the last forward pass */
} Network;

static Network network_make(size_t in, size_t out, uint64_t *seed) {
  size_t size = (in + 1) * HIDDEN + (HIDDEN + 1) * HIDDEN + (HIDDEN + 1) * out;
  Network f = {in, out, size, numbers(size), numbers(size), numbers(size), numbers(size),
               0,  {0}, {0}};
  double *w = f.w;
  for (size_t k = 0; k < in * HIDDEN; k++) *w++ = random_normal(seed) / sqrt((double)in);
  w += HIDDEN;
  for (size_t k = 0; k < HIDDEN * HIDDEN; k++) *w++ = random_normal(seed) / sqrt(HIDDEN);
  w += HIDDEN;
  for (size_t k = 0; k < HIDDEN * out; k++) *w++ = 0.1 * random_normal(seed) / sqrt(HIDDEN);
  return f;
}

static void network_free(Network *f) {
  free(f->w);
  free(f->grad);
  free(f->m);
  free(f->v);
}

/* out = b + W x, W [n_out x n_in] then b; returns what follows in the weights. */
static const double *layer(const double *w, const double *x, size_t in, double *out, size_t n) {
  for (size_t k = 0; k < n; k++) {
    double s = w[in * n + k];
    for (size_t i = 0; i < in; i++) s += w[k * in + i] * x[i];
    out[k] = s;
  }
  return w + (in + 1) * n;
}

static void forward(Network *f, const double *x, double *out) {
  const double *w = layer(f->w, x, f->in, f->h1, HIDDEN);
  for (int k = 0; k < HIDDEN; k++) f->h1[k] = tanh(f->h1[k]);
  w = layer(w, f->h1, HIDDEN, f->h2, HIDDEN);
  for (int k = 0; k < HIDDEN; k++) f->h2[k] = tanh(f->h2[k]);
  layer(w, f->h2, HIDDEN, out, f->out);
}

/* Of one layer: its weights' gradient, and adj_x (NULL: not wanted). */
static void layer_back(const double *w, double *grad, const double *x, size_t in, const double *adj,
                       size_t n, double *adj_x) {
  for (size_t i = 0; adj_x && i < in; i++) adj_x[i] = 0;
  for (size_t k = 0; k < n; k++) {
    grad[in * n + k] += adj[k];
    for (size_t i = 0; i < in; i++) {
      grad[k * in + i] += adj[k] * x[i];
      if (adj_x) adj_x[i] += adj[k] * w[k * in + i];
    }
  }
}

/* grad += d loss / d w, from adj = d loss / d out of the last forward pass at x. */
static void backward(Network *f, const double *x, const double *adj) {
  size_t second = (f->in + 1) * HIDDEN, third = second + (HIDDEN + 1) * HIDDEN;
  double a2[HIDDEN], a1[HIDDEN];
  layer_back(f->w + third, f->grad + third, f->h2, HIDDEN, adj, f->out, a2);
  for (int k = 0; k < HIDDEN; k++) a2[k] *= 1 - f->h2[k] * f->h2[k];
  layer_back(f->w + second, f->grad + second, f->h1, HIDDEN, a2, HIDDEN, a1);
  for (int k = 0; k < HIDDEN; k++) a1[k] *= 1 - f->h1[k] * f->h1[k];
  layer_back(f->w, f->grad, x, f->in, a1, HIDDEN, NULL);
}

/* Adam (Kingma and Ba 2015), towards smaller loss. */
static void step(Network *f, double rate) {
  double t = (double)++f->steps, c1 = 1 / (1 - pow(0.9, t)), c2 = 1 / (1 - pow(0.999, t));
  for (size_t k = 0; k < f->size; k++) {
    double g = f->grad[k] / BATCH;
    f->m[k] = 0.9 * f->m[k] + 0.1 * g;
    f->v[k] = 0.999 * f->v[k] + 0.001 * g * g;
    f->w[k] -= rate * c1 * f->m[k] / (sqrt(c2 * f->v[k]) + 1e-8);
    f->grad[k] = 0;
  }
}

/* ---- simulated data to learn from ------------------------------------------------------------ */

typedef struct {
  size_t count;
  double *B, *near, *s; /* [count x D], their estimates, [count x PRODUCTS], scaled by these: */
  double mean[PRODUCTS], sd[PRODUCTS];
  double observed[PRODUCTS], observed_near[D]; /* the same of the data that were seen */
} Lessons;

static void standardize(Lessons *l) {
  for (int k = 0; k < PRODUCTS; k++) {
    double *x = numbers(l->count);
    for (size_t i = 0; i < l->count; i++) x[i] = l->s[i * PRODUCTS + (size_t)k];
    l->mean[k] = mean_of(x, l->count);
    l->sd[k] = sd_of(x, l->count);
    for (size_t i = 0; i < l->count; i++)
      l->s[i * PRODUCTS + (size_t)k] = (x[i] - l->mean[k]) / l->sd[k];
    l->observed[k] = (l->observed[k] - l->mean[k]) / l->sd[k];
    free(x);
  }
}

static Lessons make_lessons(const Setting *s, const double *X, const double *y2, size_t count,
                            uint64_t *seed) {
  Lessons l = {.count = count, .B = numbers(count * D), .near = numbers(count * D)};
  l.s = numbers(count * PRODUCTS);
  Summary how = summary_make(X, s->n, s->m);
  double *y = numbers(s->n);
  for (size_t i = 0; i < count; i++) {
    double *B = l.B + i * D;
    for (int k = 0; k < D; k++) B[k] = random_normal(seed);
    draw_outcomes(X, s->n, s->m, B, seed, y);
    summarize(&how, y, l.s + i * PRODUCTS);
    estimate(l.s + i * PRODUCTS, l.near + i * D);
  }
  summarize(&how, y2, l.observed);
  estimate(l.observed, l.observed_near);
  standardize(&l);
  free(how.F);
  free(how.inverse);
  free(y);
  return l;
}

static void lessons_free(Lessons *l) {
  free(l->B);
  free(l->near);
  free(l->s);
}

/* ---- NPE ------------------------------------------------------------------------------------- */

/* -log density of B in the mixture of normals that the outputs describe, and its derivatives. */
static double mixture_loss(const double *out, const double *B, double *adj) {
  double l[COMPONENTS], top = -HUGE_VAL, total = 0, norm = 0, most = -HUGE_VAL;
  for (int c = 0; c < COMPONENTS; c++) most = fmax(most, out[c]);
  for (int c = 0; c < COMPONENTS; c++) norm += exp(out[c] - most);
  for (int c = 0; c < COMPONENTS; c++) {
    const double *mean = out + COMPONENTS + c * 2 * D, *log_sd = mean + D;
    l[c] = out[c] - most - log(norm);
    for (int k = 0; k < D; k++) {
      double z = (B[k] - mean[k]) * exp(-log_sd[k]);
      l[c] -= log_sd[k] + 0.5 * z * z + 0.5 * log(2 * M_PI);
    }
    top = fmax(top, l[c]);
  }
  for (int c = 0; c < COMPONENTS; c++) total += exp(l[c] - top);
  for (int c = 0; c < COMPONENTS && adj; c++) {
    double share = exp(l[c] - top) / total;
    const double *mean = out + COMPONENTS + c * 2 * D, *log_sd = mean + D;
    adj[c] = exp(out[c] - most) / norm - share;
    for (int k = 0; k < D; k++) {
      double z = (B[k] - mean[k]) * exp(-log_sd[k]);
      adj[COMPONENTS + c * 2 * D + k] = -share * z * exp(-log_sd[k]);
      adj[COMPONENTS + c * 2 * D + D + k] = share * (1 - z * z);
    }
  }
  return -(top + log(total));
}

static double rate_at(size_t t, size_t steps) {
  return 1e-3 * 0.5 * (1 + cos(M_PI * (double)t / (double)steps));
}

/* Draws of the learned posterior at the data that were seen. */
static void npe(const Lessons *l, size_t epochs, uint64_t *seed, double *draws) {
  Network f = network_make(PRODUCTS, HEAD, seed);
  size_t steps = epochs * l->count / BATCH;
  double out[HEAD], adj[HEAD], z[D], total = 0;
  for (size_t t = 0; t < steps; t++) {
    for (int b = 0; b < BATCH; b++) {
      size_t i = (size_t)(random_uniform(seed) * (double)l->count);
      forward(&f, l->s + i * PRODUCTS, out);
      relative(l->B + i * D, l->near + i * D, z);
      mixture_loss(out, z, adj);
      backward(&f, l->s + i * PRODUCTS, adj);
    }
    step(&f, rate_at(t, steps));
  }
  forward(&f, l->observed, out);
  for (int c = 0; c < COMPONENTS; c++) total += exp(out[c]);
  for (size_t j = 0; j < DRAWS; j++) {
    double u = random_uniform(seed) * total;
    int c = 0;
    while (c + 1 < COMPONENTS && (u -= exp(out[c])) > 0) c++;
    for (int k = 0; k < D; k++) {
      const double *mean = out + COMPONENTS + c * 2 * D;
      draws[j * D + (size_t)k] =
          l->observed_near[k] + UNIT * (mean[k] + exp(mean[D + k]) * random_normal(seed));
    }
  }
  network_free(&f);
}

/* ---- NRE ------------------------------------------------------------------------------------- */

static void join(const double *s, const double *near, const double *B, double *x) {
  memcpy(x, s, PRODUCTS * sizeof *x);
  relative(B, near, x + PRODUCTS);
}

/* The logistic loss of one pair, whose label says whether it belongs together. */
static void teach_pair(Network *f, const Lessons *l, size_t i, const double *B, double label) {
  double x[PRODUCTS + D], logit, adj;
  join(l->s + i * PRODUCTS, l->near + i * D, B, x);
  forward(f, x, &logit);
  adj = 1 / (1 + exp(-logit)) - label;
  backward(f, x, &adj);
}

static double log_posterior(Network *f, const Lessons *l, const double *B) {
  double x[PRODUCTS + D], logit, prior = 0;
  for (int k = 0; k < D; k++) prior -= 0.5 * B[k] * B[k];
  join(l->observed, l->observed_near, B, x);
  forward(f, x, &logit);
  return prior + logit;
}

/* Metropolis, steps adapted to an acceptance of about a quarter; every twentieth point. */
static void sample(Network *f, const Lessons *l, uint64_t *seed, double *draws) {
  enum { THIN = 20, WARM = 4000 };
  double B[D], next[D], scale = 0.2, now = -HUGE_VAL;
  for (size_t i = 0; i < l->count && i < 5000; i++) { /* begins at the best of the simulated ones */
    double p = log_posterior(f, l, l->B + i * D);
    if (p > now) now = p, memcpy(B, l->B + i * D, sizeof B);
  }
  for (size_t t = 0; t < WARM + THIN * DRAWS; t++) {
    for (int k = 0; k < D; k++) next[k] = B[k] + scale * random_normal(seed);
    double p = log_posterior(f, l, next);
    bool accept = log(random_uniform(seed)) < p - now;
    if (accept) now = p, memcpy(B, next, sizeof B);
    if (t < WARM) scale *= exp(((accept ? 1 : 0) - 0.25) / sqrt((double)t + 1));
    if (t >= WARM && (t - WARM) % THIN == 0) memcpy(draws + (t - WARM) / THIN * D, B, sizeof B);
  }
}

static void nre(const Lessons *l, size_t epochs, uint64_t *seed, double *draws) {
  Network f = network_make(PRODUCTS + D, 1, seed);
  size_t steps = 2 * epochs * l->count / BATCH;
  for (size_t t = 0; t < steps; t++) {
    for (int b = 0; b < BATCH / 2; b++) {
      size_t i = (size_t)(random_uniform(seed) * (double)l->count),
             j = (size_t)(random_uniform(seed) * (double)l->count);
      teach_pair(&f, l, i, l->B + i * D, 1);
      teach_pair(&f, l, i, l->B + j * D, 0);
    }
    step(&f, rate_at(t, steps));
  }
  sample(&f, l, seed, draws);
  network_free(&f);
}

/* ---- the comparison -------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Mean CRPS of the test half under draws of B. */
static double test_crps(const Setting *s, const double *X, const double *y2, const double *draws,
                        uint64_t seed) {
  double sim[DRAWS], sum = 0;
  for (size_t i = s->n; i < 2 * s->n; i++) {
    double gap = 0, spread = 0;
    for (size_t j = 0; j < DRAWS; j++)
      draw_outcomes(X + i * s->m * D, 1, s->m, draws + j * D, &seed, &sim[j]);
    qsort(sim, DRAWS, sizeof *sim, ascending);
    for (size_t j = 0; j < DRAWS; j++) {
      gap += fabs(sim[j] - y2[i]);
      spread += (2 * (double)j + 1 - DRAWS) * sim[j];
    }
    sum += gap / DRAWS - spread / ((double)DRAWS * (DRAWS - 1));
  }
  return sum / (double)s->n;
}

static void pvi(const Setting *s, double *draws) {
  int unconverged = 0;
  size_t *test = calloc(s->n, sizeof *test);
  for (size_t k = 0; k < s->n; k++) test[k] = s->n + k;
  pvi_split split = {.test = test, .ntest = s->n};
  pvi_context *c = pvi_open();
  pvi_options *o = common_options(c, s);
  pvi_draws *d;
  flow_options(o, s);
  pvi_model *m = load(c, "examples/likelihood_free/squares.stan", make_data(s), o);
  pvi_run *r = fit(c, m, o, &split, &unconverged);
  if (pvi_draw(c, r, DRAWS, 1, &d)) stop("%s", pvi_error(c));
  memcpy(draws, d->theta, DRAWS * D * sizeof *draws);
  pvi_draws_free(d);
  pvi_run_free(r);
  pvi_model_free(m);
  pvi_options_free(o);
  pvi_close(c);
  free(test);
}

static void run(const Setting *s, size_t npe_lessons, size_t nre_lessons, size_t epochs) {
  double *X = numbers(2 * s->n * s->m * D), *y2 = numbers(2 * s->n), *draws = numbers(DRAWS * D),
         crps[3];
  uint64_t seed = s->seed * 31 + 7;
  simulate(s, X, y2);
  pvi(s, draws);
  crps[0] = test_crps(s, X, y2, draws, 5);
  Lessons l = make_lessons(s, X, y2, npe_lessons, &seed);
  npe(&l, epochs, &seed, draws);
  crps[1] = test_crps(s, X, y2, draws, 5);
  lessons_free(&l);
  l = make_lessons(s, X, y2, nre_lessons, &seed);
  nre(&l, 2 * epochs, &seed, draws);
  crps[2] = test_crps(s, X, y2, draws, 5);
  lessons_free(&l);
  printf("%5g %8.4f %8.4f %8.4f %9.4f %9.4f\n", s->alpha, crps[0], crps[1], crps[2],
         crps[1] / crps[0], crps[2] / crps[0]);
  fflush(stdout);
  free(X);
  free(y2);
  free(draws);
}

int main(int argc, char **argv) {
  double alpha = NAN, groups = 5, m = 2, n = 1000, iterations = 1000, npes = 50000, nres = 10000,
         epochs = 20, seed = 1, threads = 0;
  const Option options[] = {
      {"alpha", &alpha, 0, 1, REAL, "how wrong the model is; all: 0, 0.5 and 1"},
      {"groups", &groups, 1, 1e6, WHOLE, "coefficients B_g in the population"},
      {"m", &m, 1, 1e4, WHOLE, "outcomes in each sum of squares"},
      {"n", &n, 20, 1e6, WHOLE, "observations to train on, and as many to test"},
      {"iterations", &iterations, 1, 1e7, WHOLE, "of PVI's Adam"},
      {"npe", &npes, 100, 1e8, WHOLE, "simulated data sets for NPE"},
      {"nre", &nres, 100, 1e8, WHOLE, "simulated data sets for NRE"},
      {"epochs", &epochs, 1, 1e6, WHOLE, "of NPE; NRE has twice as many"},
      {"seed", &seed, 0, 1e9, WHOLE, "of the data and of the fits"},
      {"threads", &threads, 0, 256, WHOLE, "of PVI; 0: one per core"}};
  READ_OPTIONS(argc, argv, options);
  Setting s = {.n = (size_t)n,
               .m = (size_t)m,
               .groups = (size_t)groups,
               .iterations = (size_t)iterations,
               .alpha = isnan(alpha) ? 0 : alpha,
               .seed = (uint64_t)seed,
               .threads = (int)threads};
  puts("alpha      PVI      NPE      NRE   NPE/PVI   NRE/PVI   (test CRPS)");
  for (int k = 0; k < (isnan(alpha) ? 3 : 1); k++, s.alpha += 0.5)
    run(&s, (size_t)npes, (size_t)nres, (size_t)epochs);
  return 0;
}
