/* test_people.c: programs as people's tools write them: brms, rstanarm, EpiNow2 in small
 * (test/people).
 *
 * Of each: how many observations it has, one per outcome; its log density, compared with the same
 * density written down here in C, by other ways where there are any; its gradient, by finite
 * differences; the same when its loops run one by one; and VI finds a q of it. Rows are below;
 * their densities are functions of the values that the parameters have, P("b"), and of the data,
 * X("Y").
 */
#include "evaluate.h"

#include "infer/fit.h"

/* ---- values ---------------------------------------------------------------------------------- */

typedef struct {
  const Model *m;
  const Data *data;
  const double *values; /* of the parameters, columns as they are printed: first index fastest */
} At;

static const double *parameter(const At *at, const char *name) {
  const double *v = at->values;
  for (int k = 0; k < at->m->noutputs; v += at->m->outputs[k++].n)
    if (!strcmp(at->m->outputs[k].name, name)) return v;
  fail_msg("no parameter %s", name);
  return NULL;
}

static const double *variable(const At *at, const char *name) {
  const DataVar *v = data_find(at->data, name);
  if (!v) fail_msg("no data variable %s", name);
  return v->values;
}

#define P(name) parameter(at, name)
#define X(name) variable(at, name)
#define N_OF(name) ((int)X(name)[0])

/* ---- densities, as textbooks have them ------------------------------------------------------- */

static double normal(double y, double m, double s) {
  return log(exp(-0.5 * (y - m) * (y - m) / (s * s)) / (s * sqrt(2 * M_PI)));
}

static double normals(const double *y, int n, double m, double s) {
  double sum = 0;
  for (int k = 0; k < n; k++) sum += normal(y[k], m, s);
  return sum;
}

static double student(double y, double nu, double m, double s) {
  double z = (y - m) / s;
  return lgamma((nu + 1) / 2) - lgamma(nu / 2) - 0.5 * log(nu * M_PI) - log(s) -
         (nu + 1) / 2 * log(1 + z * z / nu);
}

static double gamma_density(double y, double a, double b) {
  return a * log(b) - lgamma(a) + (a - 1) * log(y) - b * y;
}

static double normal_cdf(double y, double m, double s) { return 0.5 * erfc((m - y) / s / sqrt(2)); }
static double inverse_logit(double x) { return 1 / (1 + exp(-x)); }
static double poisson(double y, double l) { return y * log(l) - l - lgamma(y + 1); }
static double negative_binomial(double y, double m, double phi) {
  return lgamma(y + phi) - lgamma(phi) - lgamma(y + 1) + y * log(m / (m + phi)) +
         phi * log(phi / (m + phi));
}

static double mean_of(const double *x, int n, int step) {
  double s = 0;
  for (int k = 0; k < n; k++) s += x[k * step];
  return s / n;
}

/* ---- brms ------------------------------------------------------------------------------------ */

static double gaussian_mixed(const At *at) {
  int N = N_OF("N"), K = N_OF("K");
  double s = P("sigma")[0], lp = student(P("Intercept")[0], 3, 1, 2.5) +
                                 normals(P("z_1"), 5, 0, 1) + student(s, 3, 0, 2.5) +
                                 student(P("sd_1")[0], 3, 0, 2.5) + 2 * log(2);
  for (int n = 0; n < N; n++) {
    double mu = P("Intercept")[0] + P("sd_1")[0] * P("z_1")[(int)X("J_1")[n] - 1];
    for (int k = 1; k < K; k++)
      mu += (X("X")[n * K + k] - mean_of(X("X") + k, N, K)) * P("b")[k - 1];
    lp += normal(X("Y")[n], mu, s);
  }
  return lp;
}

/* lkj_corr_cholesky(1) of two dimensions is uniform in the correlation: density 1/2 of it, and that
 * of the factor, sqrt(1 - r^2), is its Jacobian, which belongs to no one. */
static double student_mixed(const At *at) {
  const double *sd = P("sd_1"), *z = P("z_1"), *L = P("L_1");
  double nu = P("nu")[0], lp = normal(P("b")[0], 0, 2) + normals(z, 10, 0, 1) + log(0.5) +
                               normals(sd, 2, 0, 1) + normal(P("sigma")[0], 0, 1);
  lp += gamma_density(nu, 2, 0.1) - log(exp(-0.1) * (1 + 0.1)); /* the tail of gamma(2, 0.1) */
  for (int n = 0; n < N_OF("N"); n++) {
    int j = (int)X("J_1")[n] - 1;
    double r1 = sd[0] * z[2 * j], r2 = sd[1] * (L[1] * z[2 * j] + L[3] * z[2 * j + 1]);
    double mu = P("Intercept")[0] + r1 + (P("b")[0] + r2) * X("x")[n];
    lp += student(X("Y")[n], nu, mu, P("sigma")[0]);
  }
  return lp;
}

static double poisson_offset(const At *at) {
  double lp = normal(P("Intercept")[0], 0, 5) + normals(P("b"), 2, 0, 2) - P("sd_1")[0] +
              normals(P("z_1"), 5, 0, 1);
  for (int n = 0; n < N_OF("N"); n++)
    lp += poisson(X("Y")[n], exp(P("Intercept")[0] + X("offsets")[n] +
                                 P("sd_1")[0] * P("z_1")[(int)X("J_1")[n] - 1] +
                                 X("Xc")[2 * n] * P("b")[0] + X("Xc")[2 * n + 1] * P("b")[1]));
  return lp;
}

static double cumulative(const At *at) {
  const double *c = P("Intercept");
  double lp = normal(P("b")[0], 0, 2);
  for (int k = 0; k < 3; k++) lp += student(c[k], 3, 0, 2.5);
  for (int n = 0; n < N_OF("N"); n++) {
    int y = (int)X("Y")[n];
    double mu = X("x")[n] * P("b")[0], above = y == 4 ? 1 : inverse_logit(c[y - 1] - mu),
           below = y == 1 ? 0 : inverse_logit(c[y - 2] - mu);
    lp += log(above - below);
  }
  return lp;
}

/* Element n of the data, or the parameter that stands for it. */
static double filled(const At *at, const char *y, const char *j, const char *mi, int count, int n) {
  for (int k = 0; k < count; k++)
    if ((int)X(j)[k] == n + 1) return P(mi)[k];
  return X(y)[n];
}

static double missing(const At *at) {
  double lp = normal(P("a")[0], 0, 5) + normal(P("bsp")[0], 0, 2) + normal(P("m")[0], 0, 5) +
              normal(P("sigma_y")[0], 0, 2) + normal(P("sigma_x")[0], 0, 2);
  for (int n = 0; n < N_OF("N"); n++) {
    double x = filled(at, "Y_x", "Jmi_x", "Ymi_x", 3, n),
           y = filled(at, "Y_y", "Jmi_y", "Ymi_y", 2, n);
    lp += normal(y, P("a")[0] + P("bsp")[0] * x, P("sigma_y")[0]);
    lp += normal(x, P("m")[0], P("sigma_x")[0]);
  }
  return lp;
}

static double censored(const At *at) {
  double k = P("shape")[0],
         lp = normal(P("Intercept")[0], 0, 3) + normal(P("b")[0], 0, 2) + gamma_density(k, 1, 1);
  for (int n = 0; n < N_OF("N"); n++) {
    double y = X("Y")[n], mu = exp(P("Intercept")[0] + X("x")[n] * P("b")[0]),
           s = mu / tgamma(1 + 1 / k), survival = exp(-pow(y / s, k)),
           later = exp(-pow(X("rcens")[n] / s, k));
    int c = (int)X("cens")[n];
    lp += log(c == 0    ? k / s * pow(y / s, k - 1) * survival
              : c == 1  ? survival
              : c == -1 ? 1 - survival
                        : survival - later);
  }
  return lp;
}

static double truncated(const At *at) {
  double s = P("sigma")[0],
         lp = normal(P("Intercept")[0], 0, 5) + normal(P("b")[0], 0, 2) + normal(s, 0, 2);
  for (int n = 0; n < N_OF("N"); n++) {
    double mu = P("Intercept")[0] + X("x")[n] * P("b")[0];
    lp += normal(X("Y")[n], mu, s) -
          log(normal_cdf(X("ub")[n], mu, s) - normal_cdf(X("lb")[n], mu, s));
  }
  return lp;
}

static double hurdle(const At *at) {
  double hu = P("hu")[0], lp = normal(P("Intercept")[0], 0, 3) + normal(P("b")[0], 0, 2);
  for (int n = 0; n < N_OF("N"); n++) {
    double y = X("Y")[n], l = exp(P("Intercept")[0] + X("x")[n] * P("b")[0]);
    lp += y == 0 ? log(hu) : log(1 - hu) + poisson(y, l) - log(1 - exp(-l));
  }
  return lp;
}

static double zero_inflated(const At *at) {
  double phi = P("shape")[0], zi = P("Intercept_zi")[0],
         lp = normal(P("Intercept")[0], 0, 3) + normal(P("b")[0], 0, 2) +
              gamma_density(phi, 2, 0.5) - zi - 2 * log(1 + exp(-zi));
  for (int n = 0; n < N_OF("N"); n++) {
    double y = X("Y")[n], x = X("x")[n], p = inverse_logit(zi - 0.5 * x),
           l = negative_binomial(y, exp(P("Intercept")[0] + x * P("b")[0]), phi);
    lp += log((y == 0 ? p : 0) + (1 - p) * exp(l));
  }
  return lp;
}

static double regression_prior(const At *at) {
  return normal(P("Intercept")[0], 0, 5) + normal(P("b")[0], 0, 2) + normal(P("sigma")[0], 0, 2);
}

static double asym_laplace(const At *at) {
  const double q = 0.25;
  double s = P("sigma")[0], lp = regression_prior(at);
  for (int n = 0; n < N_OF("N"); n++) {
    double z = (X("Y")[n] - P("Intercept")[0] - X("x")[n] * P("b")[0]) / s;
    lp += log(q * (1 - q) / s) - (z < 0 ? (q - 1) * z : q * z);
  }
  return lp;
}

static double extreme_value(const At *at) {
  double s = P("sigma")[0], xi = P("xi")[0], lp = regression_prior(at);
  for (int n = 0; n < N_OF("N"); n++) {
    double z = (X("Y")[n] - P("Intercept")[0] - X("x")[n] * P("b")[0]) / s, t = 1 + xi * z;
    lp += t > 0 ? log(pow(t, -1 - 1 / xi) / s) - pow(t, -1 / xi) : (double)-INFINITY;
  }
  return lp;
}

/* I_0 by its series, or where that is long the normal density that the program takes. */
static double direction(double y, double mu, double kappa) {
  double term = 1, I0 = 1;
  if (kappa >= 100) return normal(y, mu, sqrt(1 / kappa));
  for (int k = 1; k < 400; k++) I0 += term *= kappa * kappa / 4 / (k * (double)k);
  return kappa * cos(y - mu) - log(2 * M_PI * I0);
}

static double von_mises(const At *at) {
  double kappa = P("kappa")[0], lp = normal(P("Intercept")[0], 0, 1) + normal(P("b")[0], 0, 1) +
                                     gamma_density(kappa, 2, 0.1);
  for (int n = 0; n < N_OF("N"); n++)
    lp += direction(X("Y")[n], 2 * atan(P("Intercept")[0] + X("x")[n] * P("b")[0]), kappa);
  return lp;
}

static double com_poisson(const At *at) {
  double nu = P("shape")[0],
         lp = normal(P("Intercept")[0], 0, 2) + normal(P("b")[0], 0, 1) + gamma_density(nu, 4, 4);
  for (int n = 0; n < N_OF("N"); n++) {
    double l = P("Intercept")[0] + X("x")[n] * P("b")[0], Z = 0;
    for (int k = 0; k < 400; k++) Z += exp(nu * (k * l - lgamma(k + 1.0)));
    lp += nu * (X("Y")[n] * l - lgamma(X("Y")[n] + 1)) - log(Z);
  }
  return lp;
}

static double measurement(const At *at) {
  int N = N_OF("N");
  double mean = 0, lp = student(P("Intercept")[0], 3, 0, 2.5) + student(P("sigma")[0], 3, 0, 2.5) +
                        log(2) + normals(P("zme_1"), N, 0, 1);
  for (int n = 0; n < N; n++) mean += X("X")[2 * n + 1] / N;
  for (int n = 0; n < N; n++) {
    double x = P("meanme_1")[0] + P("sdme_1")[0] * P("zme_1")[n];
    lp += normal(X("Xn_1")[n], x, X("noise_1")[n]);
    lp += normal(X("Y")[n],
                 P("Intercept")[0] + P("bsp")[0] * x + P("b")[0] * (X("X")[2 * n + 1] - mean),
                 P("sigma")[0]);
  }
  return lp;
}

static double mixture(const At *at) {
  const double *a = P("ordered_Intercept"), *theta = P("theta");
  double lp = normals(a, 2, 0, 3) + normal(P("b_mu1")[0], 0, 2) + normal(P("sigma1")[0], 0, 1) +
              normal(P("sigma2")[0], 0, 1) + log(6 * theta[0] * theta[1]);
  for (int n = 0; n < N_OF("N"); n++)
    lp += log(theta[0] * exp(normal(X("Y")[n], a[0] + X("x")[n] * P("b_mu1")[0], P("sigma1")[0])) +
              theta[1] * exp(normal(X("Y")[n], a[1], P("sigma2")[0])));
  return lp;
}

static double spline(const At *at) {
  double lp = student(P("Intercept")[0], 3, 0, 2.5) + normal(P("bs")[0], 0, 2) +
              student(P("sds_1")[0], 3, 0, 2.5) + log(2) + normal(P("sigma")[0], 0, 1) +
              normals(P("zs_1_1"), 4, 0, 1);
  for (int n = 0; n < N_OF("N"); n++) {
    double mu = P("Intercept")[0] + X("Xs")[n] * P("bs")[0];
    for (int k = 0; k < 4; k++) mu += X("Zs_1_1")[4 * n + k] * P("sds_1")[0] * P("zs_1_1")[k];
    lp += normal(X("Y")[n], mu, P("sigma")[0]);
  }
  return lp;
}

/* e[n] = y[n] - eta[n] - ma e[n - 1]; y[n] ~ normal(eta[n] + (ma + ar) e[n - 1], sigma) */
static double arma(const At *at) {
  double s = P("sigma")[0], e = 0,
         lp = normal(P("Intercept")[0], 0, 5) + normal(P("b")[0], 0, 2) + normal(s, 0, 1);
  for (int n = 0; n < N_OF("N"); n++) {
    double eta = P("Intercept")[0] + X("x")[n] * P("b")[0];
    lp += normal(X("Y")[n], eta + (P("ma")[0] + P("ar")[0]) * e, s);
    e = X("Y")[n] - eta - P("ma")[0] * e;
  }
  return lp;
}

/* ---- rstanarm -------------------------------------------------------------------------------- */

/* The first factor has an intercept and a slope, correlated by 2 rho - 1, the second an intercept.
 */
static double lmer(const At *at) {
  double aux = 2 * P("aux_unscaled")[0], r = 2 * P("rho")[0] - 1;
  const double *zeta = P("zeta"), *tau = P("tau"), *z = P("z_b");
  double total = 2 * tau[0] * tau[0] * aux * aux, s1 = sqrt(total * zeta[0] / (zeta[0] + zeta[1])),
         s2 = sqrt(total * zeta[1] / (zeta[0] + zeta[1]));
  double lp = normal(P("z_beta")[0], 0, 1) + normal(P("gamma")[0], 0, 5) - P("aux_unscaled")[0] +
              normals(z, 11, 0, 1) - zeta[0] - zeta[1] - tau[0] - tau[1];
  for (int n = 0; n < N_OF("N"); n++) {
    int g = n % 4, h = n % 3;
    double x = X("w")[3 * n + 1], b1 = s1 * z[2 * g],
           b2 = s2 * (r * z[2 * g] + sqrt(1 - r * r) * z[2 * g + 1]);
    double eta =
        P("gamma")[0] + 2.5 * P("z_beta")[0] * X("X")[n] + b1 + b2 * x + tau[1] * aux * z[8 + h];
    lp += normal(X("y")[n], eta, aux);
  }
  return lp;
}

/* ---- EpiNow2 --------------------------------------------------------------------------------- */

/* The distribution function of gamma(a, rate b), by its series. */
static double gamma_cdf(double y, double a, double b) {
  double x = b * y, term = 1 / a, sum = term;
  for (int k = 1; k < 400; k++) sum += term *= x / (a + k);
  return exp(a * log(x) - x - lgamma(a)) * sum;
}

/* pmf[d]: the probability of day d + 1 */
static void discretised(double *pmf, int n, double mean, double sd) {
  double a = mean * mean / (sd * sd), b = mean / (sd * sd), all = gamma_cdf(n, a, b);
  for (int d = 0; d < n; d++)
    pmf[d] = (gamma_cdf(d + 1, a, b) - (d ? gamma_cdf(d, a, b) : 0)) / all;
}

static double half_normal(double y, double m, double s) {
  return normal(y, m, s) - log(normal_cdf(m, 0, s));
}

static double renewal(const At *at) {
  enum { T = 28, SEEDING = 6, GT = 7, DELAY = 8 };
  double gt[GT], delay[DELAY], inf[SEEDING + T], walk = 0, lp = 0, phi = P("rep_phi")[0];
  const double *day = P("day_of_week_simplex");
  discretised(gt, GT, 3, 1.5);
  discretised(delay, DELAY, P("delay_mean")[0], 1);
  for (int s = 0; s < SEEDING; s++) inf[s] = exp(P("initial")[0] + P("growth")[0] * s);
  for (int s = 0; s < T; s++) {
    int now = SEEDING + s;
    double force = 0, reports = 0;
    if (s) walk += P("noise")[s - 1];
    for (int d = 0; d < GT && d < now; d++) force += gt[d] * inf[now - 1 - d];
    inf[now] = P("R0")[0] * exp(P("rw_sd")[0] * walk) * force;
    for (int d = 0; d < DELAY && d <= now; d++) reports += delay[d] * inf[now - d];
    reports *= 7 * day[(int)X("day_of_week")[s] - 1];
    lp += negative_binomial(X("cases")[s], reports, 1 / (phi * phi));
  }
  lp += normal(log(P("R0")[0]), 0, 0.5) - log(P("R0")[0]) + normal(P("initial")[0], 3, 1) +
        normal(P("growth")[0], 0, 0.2) + normals(P("noise"), T - 1, 0, 1);
  lp += half_normal(P("rw_sd")[0], 0, 0.1) + half_normal(P("delay_mean")[0], 3, 0.5) +
        half_normal(phi, 0, 1) + lgamma(35) - 7 * lgamma(5);
  for (int k = 0; k < 7; k++) lp += 4 * log(day[k]);
  return lp;
}

/* ---- tables and times ------------------------------------------------------------------------ */

static double survival(const At *at) {
  double rate = P("rate")[0], lp = normals(P("ability"), 6, 0, 1) +
                                   normals(P("difficulty"), 4, 0, 2) + gamma_density(rate, 2, 2);
  for (int k = 0; k < 24; k++) {
    double y = X("answers")[k], p = inverse_logit(P("ability")[k / 4] - P("difficulty")[k % 4]);
    if (y >= 0) lp += log(y == 1 ? p : 1 - p);
  }
  for (int k = 0; k < 8; k++) lp += log(rate) - rate * X("time_obs")[k];
  for (int k = 0; k < 3; k++) lp -= rate * X("time_cens")[k];
  return lp;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static const struct Row {
  const char *name;
  double (*density)(const At *at);
  size_t n_obs;
  int by_draw;  /* functions that are evaluated draw by draw */
  bool bounded; /* outcomes have bounds that depend on parameters: no normal q has a finite ELBO */
} rows[] = {
    {"gaussian_mixed", gaussian_mixed, 30, 0, false},
    {"student_mixed", student_mixed, 30, 0, false},
    {"poisson_offset", poisson_offset, 30, 0, false},
    {"cumulative", cumulative, 30, 0, false},
    {"missing", missing, 55, 0, false}, /* two outcomes of 30, without what is missing */
    {"censored", censored, 30, 0, false},
    {"truncated", truncated, 30, 0, false},
    {"hurdle", hurdle, 30, 0, false},
    {"zero_inflated", zero_inflated, 30, 0, false},
    {"asym_laplace", asym_laplace, 30, 0, false},
    {"extreme_value", extreme_value, 30, 0, true},
    {"von_mises", von_mises, 30, 0, false},
    {"com_poisson", com_poisson, 12, 1, false},
    {"measurement", measurement, 24, 0, false}, /* the outcomes, and the predictor as measured */
    {"mixture", mixture, 30, 0, false},
    {"spline", spline, 30, 0, false},
    {"arma", arma, 30, 0, false},
    {"lmer", lmer, 30, 0, false},
    {"renewal", renewal, 28, 0, false},
    {"survival", survival, 32, 0, false}, /* 21 answers, 8 times, 3 censored ones */
};

static const Model *load(Ctx *c, const struct Row *r, const Data **data, bool unroll) {
  static const char *const dirs[] = {"test/people/include"};
  StanOptions so = {.include_dirs = dirs, .ninclude_dirs = 1};
  Program *p = stan_parse(c, arena_format(&c->arena, "test/people/%s.stan", r->name), &so);
  if (!c->nerrors) stan_check(c, p);
  if (c->nerrors) ctx_jump(c, PVI_PROGRAM);
  Data *d = data_read(c, arena_format(&c->arena, "test/people/%s.json", r->name), NULL);
  *data = d;
  return model_make(c, p, d, &(ModelOptions){.unroll = unroll});
}

TEST(density_is_right) {
  const struct Row *r = row;
  At at;
  at.m = load(c, r, &at.data, false);
  const Model *one_by_one = load(c, r, &at.data, true);
  assert_int_equal(at.m->n_obs, r->n_obs);
  assert_int_equal(one_by_one->n_obs, r->n_obs);
  assert_true(!at.m->by_draw);
  assert_int_equal(at.m->ncalls, r->by_draw);
  double *values = NEW_ARRAY(&c->arena, double, model_output_count(at.m));
  at.values = values;
  for (uint64_t seed = 1; seed <= 3; seed++) {
    double *u = test_point(c, at.m->dim, seed, 0.4);
    DensityAt d = density(c, at.m, u), e = density(c, one_by_one, u);
    model_outputs(c, at.m, &(ModelPoints){u, 1, at.m->dim, 1}, 1, values);
    assert_close(d.prior + d.likelihood, r->density(&at), 1e-9);
    assert_close(e.lp, d.lp, 1e-11);
    if (seed == 1 && isfinite(d.lp)) expect_gradient(c, at.m, u, &d, 1e-6);
  }
}

TEST(vi_fits) {
  const struct Row *r = row;
  const Data *data;
  const Model *m = load(c, r, &data, false);
  FitOptions o = {.target = {.score = SCORE_elbo,
                             .regularizer = REG_PRIOR,
                             .lambda = 1,
                             .score_weight = 1,
                             .integrate = INTEGRATE_DRAWS},
                  .family = FAMILY_meanfield,
                  .optimizer = OPTIM_LBFGS,
                  .draws = 64,
                  .seed = 1};
  const Fit *f = fit_run(c, m, split_all(c, m->n_obs), &o, NULL);
  assert_true(isfinite(f->value.value));
  if (f->value.value < -10 * (double)m->n_obs) fail_msg("objective %g", f->value.value);
}

/* Of wide q some nodes are where both bounds are far above the centre: nobody gains by them. */
TEST(truncation_is_learned) {
  static const struct Row truncated_row = {"truncated", truncated, 30, 0, false};
  const Data *data;
  const Model *m = load(c, &truncated_row, &data, false);
  FitOptions o = {.target = {.score = SCORE_log,
                             .regularizer = REG_POSTERIOR,
                             .lambda = 0.01,
                             .score_weight = 1},
                  .family = FAMILY_fullrank,
                  .optimizer = OPTIM_LBFGS,
                  .seed = 1};
  const Fit *f = fit_run(c, m, split_all(c, m->n_obs), &o, NULL);
  assert_true(f->converged && isfinite(f->value.score));
}

/* Fits that have no optimum, and what is said of them. */
static const struct Unfit {
  const char *name;
  FamilyId family;
  const char *reason;
} unfit[] = {
    {"measurement", FAMILY_meanfield, "q reproduces 12 of the 24 observations"},
    {"extreme_value", FAMILY_fullrank, "(line 10: the program rejects: outside of the support"},
    {"com_poisson", FAMILY_meanfield, "the program rejects: mu is too large"},
};

TEST(says_why) {
  const struct Unfit *u = row;
  const Data *data;
  const Model *m = load(c, &(struct Row){.name = u->name}, &data, false);
  FitOptions o = {.target = {.score = SCORE_log,
                             .regularizer = REG_POSTERIOR,
                             .lambda = 0.01,
                             .score_weight = 1},
                  .family = u->family,
                  .optimizer = OPTIM_LBFGS,
                  .iterations = 400,
                  .seed = 1};
  const Fit *f = fit_run(c, m, split_all(c, m->n_obs), &o, NULL);
  assert_false(f->converged);
  if (!strstr(f->reason, u->reason)) fail_msg("%s", f->reason);
}

int main(void) {
  static Suite suite;
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
    suite_add(&suite, rows[k].name, density_is_right, &rows[k]);
    if (!rows[k].bounded) suite_add(&suite, rows[k].name, vi_fits, &rows[k]);
  }
  SUITE_ADD(&suite, truncation_is_learned);
  for (size_t k = 0; k < sizeof unfit / sizeof *unfit; k++)
    suite_add(&suite, unfit[k].name, says_why, &unfit[k]);
  return suite_run("people", &suite);
}
