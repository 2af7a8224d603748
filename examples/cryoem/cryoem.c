/* cryoem.c: the population of a protein's conformations from noisy images of single molecules, as
 * in the paper: no likelihood, a differentiable simulator in C, and the energy score.
 *
 * A molecule of HSP90 is 1207 beads; how far it is open, from 0 to 19, varies from molecule to
 * molecule with two modes. An image is the molecule's projection, seen through a lens of random
 * defocus (the contrast transfer function), scaled to unit variance inside the disc that the
 * molecule may fill, plus normal noise in every pixel. PVI looks for the distribution q of the
 * opening (a spline with 32 knots) whose simulated images look like those that were observed. Bayes
 * believes in one opening for all images: the more of them there are, the more it is a point.
 *
 *   simulate_one  an image without noise for an opening and a defocus (and with pose=1 a rotation
 *                 and a shift), and its derivative in the opening, which is kept
 *   pullback_one  the inner product with that derivative
 *
 * The noise of pixels is known to be normal, and integrated out of the score (noise_sd).
 *
 * Printed: an estimate of the time; then for every seed the Kolmogorov-Smirnov distance of q to the
 * distribution that made the images, and that of the Bayes posterior from some of them, a grid over
 * openings with the defocus integrated out.
 *
 *   cryoem [FILE] [--pixels=64] [--n=10000] [--snr=0.13] [--pose=0] [--seed=1] [--seeds=1]
 *          [--knots=32] [--draws=64] [--iterations=1000] [--rate=0.05] [--batch=250] [--lbfgs=0]
 *          [--lambda=0.01] [--bayes=300] [--curve=0] [--check=0] [--data=0]
 *          [--threads=0]
 *
 * FILE: the conformations as model,bead,x,y,z in Angstrom (default
 * ../shared/data/cryoem/hsp90_models.csv, or below $PVI_SHARED); without it nothing is done.
 * curve=1 prints both distribution functions; check=1 compares images and their energy score with
 * those of cryoem.stan, at 8 x 8. */
#include "../example.h"

#include <stdbool.h>

enum { MODELS = 20, MOST_BEADS = 4096, MOST_PIXELS = 256, REACH = 6, NOISES = 1, POSE_NOISES = 6 };

static const double field = 160;   /* Angstrom: side of an image */
static const double bead_sd = 2.5; /* Angstrom: of a bead's density */
static const double amplitude = 0.1, b_factor = 50, least_defocus = 1, most_defocus = 2; /* um */
static const double most_shift = 10;                                                     /* A */

typedef struct {
  size_t beads, pixels;
  double *x;     /* [MODELS x beads x 3] */
  double *slope; /* [draws x pixels^2]: d image / d theta of every draw */
  bool pose;
} Molecule;

/* ---- the molecule ---------------------------------------------------------------------------- */

static FILE *open_models(const char *path) {
  char usual[512];
  const char *shared = getenv("PVI_SHARED");
  if (path) return fopen(path, "r");
  snprintf(usual, sizeof usual, "%s/data/cryoem/hsp90_models.csv", shared ? shared : "../shared");
  return fopen(usual, "r");
}

/* Lines model,bead,x,y,z. */
static bool read_models(const char *path, Molecule *m) {
  FILE *f = open_models(path);
  char line[256];
  size_t model, bead;
  double x[3];
  if (!f) return false;
  m->x = numbers(MODELS * MOST_BEADS * 3);
  while (fgets(line, sizeof line, f)) {
    if (sscanf(line, "%zu,%zu,%lf,%lf,%lf", &model, &bead, &x[0], &x[1], &x[2]) != 5) continue;
    if (model >= MODELS || bead >= MOST_BEADS) stop("%s: there is no room for this line", line);
    memcpy(m->x + (model * MOST_BEADS + bead) * 3, x, sizeof x);
    m->beads = bead + 1 > m->beads ? bead + 1 : m->beads;
  }
  fclose(f);
  return m->beads > 0;
}

/* Opening 0 ... 19 of the unconstrained theta. */
static double opening(double theta) { return (MODELS - 1) / (1 + exp(-theta)); }

/* A rotation from three uniform numbers (Shoemake 1992); without a pose the view is along y, in
 * which the molecule opens. Rows: the image's two axes. */
static void axes_of(const double *u, bool pose, double R[2][3]) {
  static const double fixed[2][3] = {{1, 0, 0}, {0, 0, 1}};
  memcpy(R, fixed, sizeof fixed);
  if (!pose) return;
  double a = sqrt(1 - u[0]), b = sqrt(u[0]), s = 2 * M_PI * u[1], t = 2 * M_PI * u[2];
  double x = a * sin(s), y = a * cos(s), z = b * sin(t), w = b * cos(t);
  double first[3] = {1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)};
  double second[3] = {2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)};
  memcpy(R[0], first, sizeof first);
  memcpy(R[1], second, sizeof second);
}

/* Where a bead is in the image, and its derivative in the opening: on the line between two
 * conformations. */
typedef struct {
  double at[2], slope[2];
} Spot;

static Spot spot_of(const Molecule *m, double c, size_t bead, double R[2][3], const double *shift) {
  size_t k = (size_t)fmin(floor(c), MODELS - 2);
  const double *from = m->x + (k * MOST_BEADS + bead) * 3, *to = from + MOST_BEADS * 3;
  Spot s = {{shift[0], shift[1]}, {0, 0}};
  for (int a = 0; a < 2; a++)
    for (int d = 0; d < 3; d++) {
      s.at[a] += R[a][d] * (from[d] + (c - (double)k) * (to[d] - from[d]));
      s.slope[a] += R[a][d] * (to[d] - from[d]);
    }
  return s;
}

/* ---- the image ------------------------------------------------------------------------------- */

/* A complex field: the image, and as its imaginary part the derivative. */
typedef struct {
  double re, im;
} Complex;

/* A normal density on pixels from first on, and its derivative in the centre. */
typedef struct {
  int first, count;
  double value[MOST_PIXELS], slope[MOST_PIXELS];
} Profile;

/* Neighbouring values have ratios whose own ratio is constant. */
static void profile(double at, int pixels, Profile *p) {
  double size = field / pixels, scale = 1 / (bead_sd * sqrt(2 * M_PI)), v = 1 / (bead_sd * bead_sd);
  int lo = (int)ceil((at - REACH * bead_sd) / size) + pixels / 2,
      hi = (int)floor((at + REACH * bead_sd) / size) + pixels / 2;
  p->first = lo > 0 ? lo : 0;
  p->count = (hi < pixels - 1 ? hi : pixels - 1) - p->first + 1;
  double d = (p->first - pixels / 2) * size - at, value = scale * exp(-0.5 * d * d * v),
         ratio = exp(-size * (d + 0.5 * size) * v), change = exp(-size * size * v);
  for (int a = 0; a < p->count; a++, d += size) {
    p->value[a] = value;
    p->slope[a] = value * d * v;
    value *= ratio;
    ratio *= change;
  }
}

static void add_bead(Complex *image, int pixels, const Spot *s, double weight) {
  Profile x, y;
  profile(s->at[0], pixels, &x);
  profile(s->at[1], pixels, &y);
  for (int a = 0; a < x.count; a++) {
    Complex *row = image + (x.first + a) * pixels + y.first;
    double v = weight * x.value[a], dx = weight * x.slope[a] * s->slope[0], dy = v * s->slope[1];
    for (int b = 0; b < y.count; b++) {
      row[b].re += v * y.value[b];
      row[b].im += dx * y.value[b] + dy * y.slope[b];
    }
  }
}

static void exchange(Complex *a, Complex *b, size_t n) {
  for (size_t k = 0; k < n; k++) {
    Complex t = a[k];
    a[k] = b[k];
    b[k] = t;
  }
}

/* All columns of n x n numbers at once, after Cooley and Tukey: n a power of two, sign that of the
 * exponent. */
static void fft_columns(Complex *x, size_t n, double sign) {
  for (size_t i = 1, j = 0; i < n; i++) {
    size_t bit = n >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) exchange(x + i * n, x + j * n, n);
  }
  for (size_t half = 1; half < n; half *= 2)
    for (size_t k = 0; k < half; k++) {
      double a = sign * M_PI * (double)k / (double)half, c = cos(a), s = sin(a);
      for (size_t i = k; i < n; i += 2 * half)
        for (size_t b = 0; b < n; b++) {
          Complex *u = x + i * n + b, *v = u + half * n;
          Complex w = {v->re * c - v->im * s, v->re * s + v->im * c};
          *v = (Complex){u->re - w.re, u->im - w.im};
          *u = (Complex){u->re + w.re, u->im + w.im};
        }
    }
}

static void fft2(Complex *x, size_t n, double sign) {
  for (int side = 0; side < 2; side++) {
    fft_columns(x, n, sign);
    for (size_t a = 0; a < n; a++)
      for (size_t b = 0; b < a; b++) exchange(&x[a * n + b], &x[b * n + a], 1);
  }
}

/* The lens's factor at a squared frequency; it is real and even, so the field's real and imaginary
 * part go through it each for itself. */
static double transfer(double k2, double defocus) {
  double w = defocus * 2 * M_PI * 1e4 * 0.019866, phase = 0.5 * w * k2;
  return (-amplitude * cos(phase) - sqrt(1 - amplitude * amplitude) * sin(phase)) *
         exp(-0.5 * b_factor * k2) / amplitude;
}

/* It is the same at frequencies of either sign, and in either order. */
static void through_the_lens(Complex *x, size_t n, double defocus) {
  fft2(x, n, -1);
  for (size_t a = 0; a <= n / 2; a++)
    for (size_t b = a; b <= n / 2; b++) {
      double h = transfer((double)(a * a + b * b) / (field * field), defocus) / (double)(n * n);
      size_t at[2] = {a, b}, other[2] = {(n - a) % n, (n - b) % n};
      for (int k = 0; k < 8; k++) {
        size_t i = k & 1 ? at[0] : other[0], j = k & 2 ? at[1] : other[1];
        if ((k & 1 && at[0] == other[0]) || (k & 2 && at[1] == other[1]) || (k & 4 && a == b))
          continue;
        Complex *z = k & 4 ? &x[j * n + i] : &x[i * n + j];
        z->re *= h;
        z->im *= h;
      }
    }
  fft2(x, n, 1);
}

static bool in_disc(size_t a, size_t b, size_t n) {
  double x = (double)a - 0.5 * (double)n, y = (double)b - 0.5 * (double)n;
  return x * x + y * y < 0.25 * (double)(n * n);
}

/* (J - mean) / sd, both over the disc, and its derivative, times d. */
static void standardize(const Complex *x, size_t n, double d, double *out, double *slope) {
  double count = 0, mean = 0, dmean = 0, ss = 0, dss = 0;
  for (size_t k = 0; k < n * n; k++) {
    if (!in_disc(k / n, k % n, n)) continue;
    count++, mean += x[k].re, dmean += x[k].im;
  }
  mean /= count, dmean /= count;
  for (size_t k = 0; k < n * n; k++) {
    if (!in_disc(k / n, k % n, n)) continue;
    ss += (x[k].re - mean) * (x[k].re - mean);
    dss += 2 * (x[k].re - mean) * (x[k].im - dmean);
  }
  double sd = sqrt(ss / (count - 1)), dsd = 0.5 * dss / (count - 1) / sd;
  for (size_t k = 0; k < n * n; k++) {
    out[k] = (x[k].re - mean) / sd;
    if (slope) slope[k] = d * ((x[k].im - dmean) / sd - out[k] * dsd / sd);
  }
}

/* The image of an opening without noise; u: the defocus, and with a pose three numbers of its
 * rotation and two of its shift. */
static void image(const Molecule *m, double theta, const double *u, double *out, double *slope) {
  size_t n = m->pixels;
  double c = opening(theta), R[2][3], shift[2] = {0, 0};
  Complex *x = calloc(n * n, sizeof *x);
  if (!x) stop("no memory");
  axes_of(u + 1, m->pose, R);
  for (int a = 0; a < 2 && m->pose; a++) shift[a] = most_shift * (2 * u[4 + a] - 1);
  for (size_t bead = 0; bead < m->beads; bead++) {
    Spot s = spot_of(m, c, bead, R, shift);
    add_bead(x, (int)n, &s, 1 / (double)m->beads);
  }
  through_the_lens(x, n, least_defocus + (most_defocus - least_defocus) * u[0]);
  standardize(x, n, c * (1 - c / (MODELS - 1)), out, slope);
  free(x);
}

static int simulate_one(void *self, const pvi_simulator_draw *d, double *out) {
  const Molecule *m = self;
  image(m, d->theta[0], d->u, out, m->slope + d->j * m->pixels * m->pixels);
  return 1;
}

static int pullback_one(void *self, const pvi_simulator_draw *d, const double *adj,
                        double *adj_theta) {
  const Molecule *m = self;
  const double *slope = m->slope + d->j * m->pixels * m->pixels;
  for (size_t k = 0; k < m->pixels * m->pixels; k++) adj_theta[0] += adj[k] * slope[k];
  return 1;
}

/* ---- the truth ------------------------------------------------------------------------------- */

/* Openings: two normals, within the range. */
static const double part[2] = {0.4, 0.6}, centre[2] = {5, 14}, width[2] = {1.2, 1.5};

static double normal_cdf(double x) { return 0.5 * erfc(-x / sqrt(2)); }

static double true_cdf(double c) {
  double p = 0;
  for (int k = 0; k < 2; k++) {
    double lo = normal_cdf((0 - centre[k]) / width[k]),
           hi = normal_cdf((MODELS - 1 - centre[k]) / width[k]);
    p += part[k] * (normal_cdf((c - centre[k]) / width[k]) - lo) / (hi - lo);
  }
  return fmin(fmax(p, 0), 1);
}

static double draw_theta(uint64_t *state) {
  int k = random_uniform(state) > part[0];
  double c;
  do c = centre[k] + width[k] * random_normal(state);
  while (c <= 0.01 || c >= MODELS - 1.01);
  return log(c / (MODELS - 1 - c));
}

/* y: n images; theirs is all that q may know. */
static void make_images(const Molecule *m, size_t n, double noise_sd, uint64_t seed, double *y) {
  size_t width2 = m->pixels * m->pixels;
  uint64_t state = seed * 7919 + 17;
  for (size_t i = 0; i < n; i++) {
    double u[POSE_NOISES], theta = draw_theta(&state);
    for (int k = 0; k < POSE_NOISES; k++) u[k] = random_uniform(&state);
    image(m, theta, u, y + i * width2, NULL);
    for (size_t k = 0; k < width2; k++) y[i * width2 + k] += noise_sd * random_normal(&state);
  }
}

/* ---- distances ------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* sup |F - G|, F of n points with weights that sum to one (NULL: equal), sorted; G the truth. */
static double ks_distance(const double *c, const double *w, size_t n) {
  double below = 0, most = 0;
  for (size_t k = 0; k < n; k++) {
    double g = true_cdf(c[k]), above = below + (w ? w[k] : 1 / (double)n);
    most = fmax(most, fmax(fabs(g - below), fabs(g - above)));
    below = above;
  }
  return most;
}

/* ---- Bayes: one opening for all images ------------------------------------------------------- */

typedef struct {
  double ks, mean, sd;
} Bayes;

/* log p(y | c), up to what does not depend on c, by the trapezoidal rule over the defocus. */
static double log_likelihood(const double *y, const double *images, size_t nodes, size_t size,
                             double noise_sd) {
  double top = -HUGE_VAL, sum = 0, l[64];
  for (size_t d = 0; d < nodes; d++) {
    const double *x = images + d * size;
    double r2 = 0;
    for (size_t k = 0; k < size; k++) r2 += (y[k] - x[k]) * (y[k] - x[k]);
    l[d] = -0.5 * r2 / (noise_sd * noise_sd);
    top = fmax(top, l[d]);
  }
  for (size_t d = 0; d < nodes; d++) sum += (d && d + 1 < nodes ? 1 : 0.5) * exp(l[d] - top);
  return top + log(sum);
}

/* The posterior of the opening from the first n images, uniform prior, on a grid of quarters. */
static Bayes bayes(const Molecule *m, const double *y, size_t n, double noise_sd) {
  enum { NODES = 33, GRID = 4 * (MODELS - 1) - 1 };
  size_t size = m->pixels * m->pixels;
  double c[GRID], l[GRID], *images = numbers(NODES * size), top = -HUGE_VAL, total = 0;
  for (size_t g = 0; g < GRID; g++) {
    c[g] = 0.25 * (double)(g + 1);
    for (size_t d = 0; d < NODES; d++)
      image(m, log(c[g] / (MODELS - 1 - c[g])), &(double){(double)d / (NODES - 1)},
            images + d * size, NULL);
    l[g] = 0;
    for (size_t i = 0; i < n; i++)
      l[g] += log_likelihood(y + i * size, images, NODES, size, noise_sd);
    top = fmax(top, l[g]);
  }
  free(images);
  for (size_t g = 0; g < GRID; g++) total += l[g] = exp(l[g] - top);
  Bayes b = {0};
  for (size_t g = 0; g < GRID; g++) l[g] /= total, b.mean += l[g] * c[g];
  for (size_t g = 0; g < GRID; g++) b.sd += l[g] * (c[g] - b.mean) * (c[g] - b.mean);
  b.sd = sqrt(b.sd);
  b.ks = ks_distance(c, l, GRID);
  return b;
}

/* ---- PVI ------------------------------------------------------------------------------------- */

static double pixels = 64, count = 10000, snr = 0.13, pose = 0, seed = 1, seeds = 1, knots = 32,
              draws = 64, iterations = 1000, rate = 0.05, batch = 250, lbfgs = 0, lambda = 0.01,
              bayes_images = 300, curve = 0, check = 0, data = 0, threads = 0;
static const Option options[] = {
    {"pixels", &pixels, 8, MOST_PIXELS, WHOLE, "of a side of an image, a power of two"},
    {"n", &count, 2, 1e6, WHOLE, "images"},
    {"snr", &snr, 1e-4, 1e4, REAL, "variance of an image over that of its noise"},
    {"pose", &pose, 0, 1, WHOLE, "1: every molecule is rotated and shifted at random"},
    {"seed", &seed, 0, 1e9, WHOLE, "of images and fit"},
    {"seeds", &seeds, 1, 1000, WHOLE, "so many, from seed on"},
    {"knots", &knots, 2, 1000, WHOLE, "of q's spline"},
    {"draws", &draws, 2, 65536, WHOLE, "simulated images in an evaluation"},
    {"iterations", &iterations, 1, 1e7, WHOLE, "of the optimizer"},
    {"rate", &rate, 1e-9, 10, REAL, "of learning"},
    {"batch", &batch, 1, 1e6, WHOLE, "observed images in an iteration"},
    {"lbfgs", &lbfgs, 0, 1, WHOLE, "1: L-BFGS on fixed noise and all images"},
    {"lambda", &lambda, 0, 1e6, REAL, "weight of KL(q || prior)"},
    {"bayes", &bayes_images, 0, 1e6, WHOLE, "images for Bayes; 0: without"},
    {"curve", &curve, 0, 1, WHOLE, "1: print the distribution functions"},
    {"check", &check, 0, 1, WHOLE, "1: compare with cryoem.stan at 8 x 8"},
    {"data", &data, 0, 1, WHOLE, "1: print data for cryoem.stan"},
    {"threads", &threads, 0, 256, WHOLE, "0: one per core"}};

static pvi_options *fit_options(pvi_context *c, double the_seed) {
  pvi_options *o = pvi_options_new(c);
  set(o, "family", "spline");
  set(o, "knots", "%.0f", knots);
  set(o, "draws", "%.0f", draws);
  set(o, "iterations", "%.0f", iterations);
  set(o, "lambda", "%.17g", lambda);
  set(o, "seed", "%.0f", the_seed);
  set(o, "threads", "%.0f", threads);
  set(o, "optimizer", lbfgs != 0 ? "lbfgs" : "adam");
  if (lbfgs != 0) return o;
  set(o, "learning-rate", "%.17g", rate);
  set(o, "minibatch", "%.0f", batch);
  return o;
}

/* Seconds an iteration, from the first few. */
typedef struct {
  double seconds;
  long at;
} Clock;
static int look_at_clock(void *self, const pvi_progress *p) {
  Clock *k = self;
  k->seconds = p->seconds / (double)p->done;
  return p->done >= k->at;
}

static void print_estimate(pvi_context *c, const pvi_simulator *s) {
  Clock k = {.at = lbfgs != 0 ? 1 : 5};
  pvi_options *o = fit_options(c, seed);
  pvi_run *r = NULL;
  pvi_on_progress(c, look_at_clock, &k);
  if (pvi_fit_simulator(c, s, o, &r) != PVI_STATUS_INTERRUPTED) stop("%s", pvi_error(c));
  pvi_on_progress(c, NULL, NULL);
  double again = 9 * (lbfgs != 0 ? 1 : 2) * count / fmin(lbfgs != 0 ? count : batch, count);
  printf("%.0f images of %.0f x %.0f, %.0f MB; %.2g s an iteration: about %.0f s a fit\n", count,
         pixels, pixels, count * pixels * pixels * 8e-6, k.seconds,
         k.seconds * (fmin(iterations, lbfgs != 0 ? 100 : iterations) + 0.3 * again));
  fflush(stdout); /* whoever waits reads it now, in a file, too */
  pvi_run_free(r);
  pvi_options_free(o);
}

static void print_curve(const double *c, size_t n) {
  size_t k = 0;
  puts("opening  truth      q");
  for (double x = 0; x <= MODELS - 1; x += 0.5) {
    while (k < n && c[k] <= x) k++;
    printf("%7.1f %6.3f %6.3f\n", x, true_cdf(x), (double)k / (double)n);
  }
}

static double ks_of_run(pvi_context *c, const pvi_run *r, double *mean) {
  enum { DRAWS = 20000 };
  pvi_draws *d;
  if (pvi_draw(c, r, DRAWS, 1, &d)) stop("%s", pvi_error(c));
  double *x = numbers(DRAWS);
  for (size_t k = 0; k < DRAWS; k++) x[k] = opening(d->theta[k]);
  qsort(x, DRAWS, sizeof *x, ascending);
  double ks = ks_distance(x, NULL, DRAWS);
  *mean = mean_of(x, DRAWS);
  if (curve != 0) print_curve(x, DRAWS);
  pvi_draws_free(d);
  free(x);
  return ks;
}

/* One line: the fit to the images of one seed. */
static void fit_seed(pvi_context *c, Molecule *m, double the_seed, bool first) {
  size_t n = (size_t)count, size = m->pixels * m->pixels;
  double *y = numbers(n * size), zero = 0, wide = 1.5, sd = 1 / sqrt(snr), mean;
  make_images(m, n, sd, (uint64_t)the_seed, y);
  pvi_simulator s = {.dim = 1,
                     .n = n,
                     .width = size,
                     .y = y,
                     .prior_mean = &zero,
                     .prior_sd = &wide,
                     .self = m,
                     .simulate_one = simulate_one,
                     .pullback_one = pullback_one,
                     .noises = m->pose ? POSE_NOISES : NOISES,
                     .noise_sd = sd};
  if (first) {
    print_estimate(c, &s);
    puts(
        "seed       n    snr pose |  KS of q  mean of q  seconds converged | KS of Bayes  mean     "
        "sd");
  }
  pvi_options *o = fit_options(c, the_seed);
  pvi_run *r = NULL;
  int status = pvi_fit_simulator(c, &s, o, &r);
  if (status && status != PVI_STATUS_NOT_CONVERGED) stop("%s", pvi_error(c));
  double ks = ks_of_run(c, r, &mean);
  printf("%4.0f %7.0f %6.3g %4.0f | %8.3f %10.2f %8.1f %9s", the_seed, count, snr, pose, ks, mean,
         pvi_result_of(r)->seconds, status ? "no" : "yes");
  if (bayes_images > 0 && !m->pose) {
    Bayes b = bayes(m, y, (size_t)fmin(bayes_images, count), sd);
    printf(" | %11.3f %5.2f %6.3f", b.ks, b.mean, b.sd);
  }
  puts("");
  if (status) printf("# %s\n", pvi_result_of(r)->reason);
  fflush(stdout);
  pvi_run_free(r);
  pvi_options_free(o);
  free(y);
}

/* ---- the same in Stan ------------------------------------------------------------------------ */

enum { CHECK_PIXELS = 8, CHECK_BEADS = 40, CHECK_DRAWS = 12, CHECK_IMAGES = 20 };

/* The program's data: all of the molecule, n images, and the defoci of D draws. */
static Json *stan_data(const Molecule *m, const double *u, size_t D, const double *y, size_t n) {
  Json *j = json_begin();
  double *x = numbers(MODELS * m->beads), *z = numbers(MODELS * m->beads);
  for (size_t k = 0; k < MODELS * m->beads; k++) {
    const double *at = m->x + (k / m->beads * MOST_BEADS + k % m->beads) * 3;
    x[k] = at[0], z[k] = at[2];
  }
  json_int(j, "P", m->pixels);
  json_int(j, "K", MODELS);
  json_int(j, "B", m->beads);
  json_int(j, "N", n);
  json_int(j, "D", D);
  json_array(j, "x", x, MODELS, m->beads);
  json_array(j, "z", z, MODELS, m->beads);
  json_array(j, "u", u, D, 0);
  json_array(j, "y", y, n, m->pixels * m->pixels);
  json_name(j, "snr");
  fprintf(j->f, "%.9g", snr);
  free(x);
  free(z);
  return j;
}

/* pixels=8 and few images: what cryoem.stan can be fitted to. */
static void print_data(const Molecule *m) {
  double *y = numbers((size_t)count * m->pixels * m->pixels);
  make_images(m, (size_t)count, 1 / sqrt(snr), (uint64_t)seed, y);
  Json *j = stan_data(m, NULL, 0, y, (size_t)count);
  fputs(json_end(j), stdout);
  json_free(j);
  free(y);
}

/* The energy score of all images by the direct formula. */
static double energy(const double *sim, size_t M, const double *y, size_t n, size_t size) {
  double sum = 0;
  for (size_t j = 0; j < M; j++) {
    for (size_t i = 0; i < n + M; i++) {
      const double *other = i < n ? y + i * size : sim + (i - n) * size;
      double r2 = 0;
      for (size_t k = 0; k < size; k++)
        r2 += (sim[j * size + k] - other[k]) * (sim[j * size + k] - other[k]);
      sum += i < n ? -sqrt(r2) / (double)M : 0.5 * (double)n * sqrt(r2) / (double)(M * M);
    }
  }
  return sum;
}

static size_t column(const pvi_model *model, const char *name) {
  for (size_t k = 0; k < pvi_columns(model); k++)
    if (!strcmp(pvi_column(model, k), name)) return k;
  stop("cryoem.stan has no %s", name);
}

static void compare_with_stan(pvi_context *c, Molecule *m) {
  size_t size = CHECK_PIXELS * CHECK_PIXELS;
  uint64_t state = 5;
  double u[CHECK_DRAWS], theta[CHECK_DRAWS], *sim = numbers(CHECK_DRAWS * size),
                                             *stan = numbers(CHECK_DRAWS * size),
                                             *y = numbers(CHECK_IMAGES * size);
  m->pixels = CHECK_PIXELS;
  m->beads = CHECK_BEADS;
  make_images(m, CHECK_IMAGES, 1 / sqrt(snr), 1, y);
  for (size_t j = 0; j < CHECK_DRAWS; j++) {
    char text[32];
    snprintf(text, sizeof text, "%.9g", random_uniform(&state)); /* as the data file has it */
    u[j] = strtod(text, NULL);
    theta[j] = random_normal(&state);
    image(m, theta[j], &u[j], sim + j * size, NULL);
  }
  for (size_t k = 0; k < CHECK_IMAGES * size; k++) y[k] = 1e-6 * round(1e6 * y[k]);
  pvi_model *model =
      load(c, "examples/cryoem/cryoem.stan", stan_data(m, u, CHECK_DRAWS, y, CHECK_IMAGES), NULL);
  double *columns = numbers(CHECK_DRAWS * pvi_columns(model));
  if (pvi_constrain(c, model, theta, CHECK_DRAWS, 1, columns)) stop("%s", pvi_error(c));
  for (size_t j = 0; j < CHECK_DRAWS; j++) {
    char name[32];
    snprintf(name, sizeof name, "image.%zu.1", j + 1);
    for (size_t k = 0; k < size; k++) /* the first index is the fastest */
      stan[j * size + k] = columns[j * pvi_columns(model) + column(model, name) + k * CHECK_DRAWS];
  }
  double ours = energy(sim, CHECK_DRAWS, y, CHECK_IMAGES, size),
         theirs = energy(stan, CHECK_DRAWS, y, CHECK_IMAGES, size);
  printf("objective in C %.12g, of cryoem.stan %.12g, difference %.2g\n", ours, theirs,
         ours - theirs);
  pvi_model_free(model);
  free(columns);
  free(sim);
  free(stan);
  free(y);
}

int main(int argc, char **argv) {
  const char *path = NULL;
  Molecule m = {0};
  if (argc > 1 && strncmp(argv[1], "--", 2)) {
    path = argv[1];
    argv[1] = argv[0];
    argc--, argv++;
  }
  READ_OPTIONS(argc, argv, options);
  if (!read_models(path, &m)) {
    puts("# skip: the conformations of HSP90 are not there; name their file (model,bead,x,y,z)");
    return path ? 1 : 0;
  }
  m.pixels = (size_t)pixels;
  m.pose = pose != 0;
  if (m.pixels & (m.pixels - 1)) stop("--pixels must be a power of two");
  pvi_context *c = pvi_open();
  if (!c) stop("no memory");
  m.slope = numbers((size_t)draws * m.pixels * m.pixels);
  if (check != 0) {
    compare_with_stan(c, &m);
  } else if (data != 0) {
    print_data(&m);
  } else {
    for (double k = 0; k < seeds; k++) fit_seed(c, &m, seed + k, k == 0);
  }
  free(m.slope);
  free(m.x);
  pvi_close(c);
  return 0;
}
