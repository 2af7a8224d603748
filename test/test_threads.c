/* test_threads.c: one Model, several threads: each with a Ctx of its own evaluates densities, runs
 * generated quantities and fits a fold, all at the same time, and gets the same bytes as alone. */
#include "evaluate.h"

#include "infer/fit.h"

#include <pthread.h>

enum { THREADS = 4, POINTS = 40, MOST_NUMBERS = 4096 };

/* ---- models ---------------------------------------------------------------------------------- */

/* What an evaluator may be tempted to write to: variables that are read, sliced, passed on, changed
 * in a copy; transformed data; tuples; random numbers; loops that are lifted and loops that are
 * not. */
static const char grouped[] =
    "functions { real weight(vector v, data vector w) { return dot_product(v, w) / sum(w); }"
    "  vector changed(vector v) { vector[rows(v)] r = v; r[1] = 7; return r; } }"
    "data { int N; array[N] int g; vector[N] x; vector[N] y; }"
    "transformed data { vector[N] z = (x - mean(x)) / sd(x); tuple(real, vector[2]) t = (2.5, "
    "[1, 2]'); vector[N] w; for (n in 1:N) w[n] = n > 1 ? 0.5 * w[n - 1] + 1 : 1; }"
    "parameters { real mu; vector[3] a; real b; real<lower=0> s; }"
    "transformed parameters { vector[N] eta = mu + a[g] + b * z; }"
    "model { mu ~ normal(0, 2); a ~ normal(0, 1); b ~ normal(0, 1); s ~ exponential(1);"
    "  for (n in 1:N) y[n] ~ normal(mu + a[g[n]] + b * z[n], s); }"
    "generated quantities { vector[N] again; real m = weight(eta, w); vector[N] c = changed(z);"
    "  real u = t.1 * t.2[2]; vector[N] walk; for (n in 1:N) again[n] = normal_rng(eta[n], s);"
    "  for (n in 1:N) walk[n] = n > 1 ? walk[n - 1] + again[n] * w[n] : z[1]; }";

static const char counts[] =
    "data { int N; array[N] int g; vector[N] x; vector[N] y; }"
    "transformed data { array[N] int k; for (n in 1:N) k[n] = n % 4; }"
    "parameters { real mu; vector[3] a; real<lower=0> s; }"
    "model { mu ~ normal(0, 1); s ~ exponential(1); a ~ normal(0, s);"
    "  k ~ poisson_log(mu + a[g] + 0.1 * square(a[g])); }"
    "generated quantities { array[N] int again = poisson_log_rng(mu + a[g]); }";

static const char decay[] =
    "functions { vector f(real t, vector y, real k) { return -k * y; } }"
    "data { int N; array[N] int g; vector[N] x; vector[N] y; }"
    "parameters { real<lower=0> k; real<lower=0> s; }"
    "transformed parameters { vector[N] level; { array[N] vector[1] at = ode_rk45_tol(f, [2.0]', "
    "0, "
    "linspaced_array(N, 0.1, 2), 1e-3, 1e-3, 100, k); for (n in 1:N) level[n] = at[n][1]; } }"
    "model { k ~ exponential(1); s ~ exponential(1); y ~ normal(level, s); }"
    "generated quantities { vector[1] end = ode_rk45(f, [2.0]', 0, {3.0}, k)[1]; }";

static const char simulator[] =
    "data { int N; array[N] int g; vector[N] x; vector[N] y; }"
    "parameters { real a; real b; } model { a ~ normal(0, 2); b ~ normal(0, 2); }"
    "generated quantities { vector[N] y_sim; for (n in 1:N) y_sim[n] = normal_rng(a + b * x[n], "
    "0.5); }";

static const char numbers[] = "{\"N\": 12, \"g\": [1, 2, 3, 1, 2, 3, 3, 2, 1, 1, 3, 2],"
                              " \"x\": [-1, 0.5, 2, 1, -0.3, 0, 1.5, 0.7, -2, 0.2, 1.1, -0.6],"
                              " \"y\": [0.1, 1, 3, -1, 0.4, 0.2, 2, 1.4, -1.2, 0.3, 1.7, -0.2]}";

typedef struct {
  const char *name, *program, *simulate;
  ScoreId score;
  Integrate integrate;
} Row;

static const Row rows[] = {
    {"a hierarchical model, exact", grouped, NULL, SCORE_log, INTEGRATE_AUTO},
    {"a hierarchical model, by draws", grouped, NULL, SCORE_crps, INTEGRATE_DRAWS},
    {"counts", counts, NULL, SCORE_elbo, INTEGRATE_DRAWS},
    {"a differential equation", decay, NULL, SCORE_log, INTEGRATE_DRAWS},
    {"a simulator", simulator, "y_sim", SCORE_crps_sim, INTEGRATE_DRAWS},
};

/* ---- the work of one thread ------------------------------------------------------------------ */

typedef struct {
  const Row *row;
  const Model *model;
  size_t fold;
  Status status;
  char message[200];
  size_t n;
  double numbers[MOST_NUMBERS]; /* all results, one after the other */
} Job;

static void keep(Job *j, const double *x, size_t n) {
  for (size_t k = 0; k < n && j->n < MOST_NUMBERS; k++) j->numbers[j->n++] = x[k];
}

static void work(Ctx *c, void *arg) {
  Job *j = arg;
  const Model *m = j->model;
  size_t dim = m->dim, ncols = model_output_count(m);
  double *u = test_point(c, POINTS * dim, 7 + j->fold, 1);
  ModelPoints points = {u, POINTS, dim, 1};
  double *lp = NEW_ARRAY(&c->arena, double, POINTS),
         *grad = NEW_ARRAY(&c->arena, double, POINTS *dim);
  density_eval(density_make(&c->arena, m, NULL, 0, POINTS), &points,
               &(DensityOut){.log_density = lp, .gradient = grad});
  keep(j, lp, POINTS);
  keep(j, grad, POINTS * dim);
  double *out = NEW_ARRAY(&c->arena, double, POINTS *ncols);
  model_outputs(c, m, &points, 5 + j->fold, out);
  keep(j, out, POINTS * ncols);
  FitOptions o = {.target = {.score = j->row->score,
                             .score_options = {.alpha = 0.1},
                             .regularizer = REG_PRIOR,
                             .lambda = 0.5,
                             .score_weight = 1,
                             .integrate = j->row->integrate},
                  .family = FAMILY_meanfield,
                  .draws = j->row->integrate == INTEGRATE_DRAWS ? 32 : 0,
                  .iterations = 20,
                  .optimizer = OPTIM_LBFGS,
                  .seed = 3};
  const Fit *f = fit_run(c, m, split_fold(c, m->n_obs, THREADS, j->fold, 1), &o, NULL);
  keep(j, f->phi, q_size(&f->q));
  keep(j, &f->value.value, 1);
}

static void *run(void *arg) {
  Job *j = arg;
  Ctx c;
  ctx_init(&c);
  j->n = 0;
  j->status = attempt(&c, work, j);
  if (c.nmessages) snprintf(j->message, sizeof j->message, "%s", c.messages[0].text);
  ctx_free(&c);
  return NULL;
}

/* ---- the test -------------------------------------------------------------------------------- */

TEST(same_as_alone) {
  const Row *r = row;
  Program *p = stan_parse_text(c, "t.stan", r->program, strlen(r->program), NULL);
  if (!c->nerrors) stan_check(c, p);
  if (c->nerrors) ctx_jump(c, PVI_PROGRAM);
  Data *data = data_read_text(c, "t.json", numbers, NULL);
  const Model *m = model_make(c, p, data, &(ModelOptions){.simulate = r->simulate});
  data_forget_text(data);
  Job *alone = NEW_ARRAY(&c->arena, Job, THREADS), *together = NEW_ARRAY(&c->arena, Job, THREADS);
  pthread_t threads[THREADS];
  for (size_t k = 0; k < THREADS; k++) {
    together[k] = (Job){.row = r, .model = m, .fold = k};
    assert_int_equal(pthread_create(&threads[k], NULL, run, &together[k]), 0);
  }
  for (size_t k = 0; k < THREADS; k++) pthread_join(threads[k], NULL);
  for (size_t k = 0; k < THREADS; k++) {
    alone[k] = (Job){.row = r, .model = m, .fold = k};
    run(&alone[k]);
    if (alone[k].status) fail_msg("%s", alone[k].message);
    if (together[k].status) fail_msg("%s", together[k].message);
    assert_true(alone[k].n == together[k].n && alone[k].n > POINTS && alone[k].n < MOST_NUMBERS);
    assert_memory_equal(alone[k].numbers, together[k].numbers, alone[k].n * sizeof(double));
  }
}

int main(void) {
  Suite suite = {.n = 0};
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
    suite_add(&suite, rows[k].name, same_as_alone, &rows[k]);
  return suite_run("threads", &suite);
}
