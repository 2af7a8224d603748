/* bench_kernels.c: the engine against hand-written kernels of the same models, on the same draws,
 * in the same run.
 *
 *   bench_kernels EXAMPLES     programs are EXAMPLES/earnings.stan and so on; data of the paper's
 * shapes are made up here
 *
 * Both compute value and gradient of the log score; values and gradients must agree, then the two
 * are timed by turns.
 */
#include "reference.h"

#include "data/data.h"
#include "infer/predictive.h"
#include "num/rng.h"
#include "num/sobol.h"
#include "stan/stan.h"

#include <stdlib.h>

typedef double Reference(const Regression *m, const double *theta, double *adj, Buffers *s);

typedef struct {
  const char *name, *what;
  Regression r;
  Reference *reference;
  Text json;
  double bar;
} Case;

/* ---- data ------------------------------------------------------------------------------------ */

static uint64_t seed = 1;
static double uniform(void) {
  seed = rng_mix(seed + 1);
  return ((double)(seed >> 11) + 0.5) * 0x1p-53;
}
static double normal(void) {
  return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

static void json_reals(Text *t, const char *name, const double *x, size_t n, size_t step) {
  text_printf(t, ", \"%s\": [", name);
  for (size_t i = 0; i < n; i++) text_printf(t, "%s%.17g", i ? "," : "", x[i * step]);
  text_puts(t, "]");
}

static void json_indices(Text *t, const char *name, const int32_t *x, size_t n) {
  text_printf(t, ", \"%s\": [", name);
  for (size_t i = 0; i < n; i++) text_printf(t, "%s%d", i ? "," : "", x[i] + 1);
  text_puts(t, "]");
}

static int32_t *groups(Arena *a, size_t n, size_t count) {
  int32_t *g = NEW_ARRAY(a, int32_t, n);
  for (size_t i = 0; i < n; i++) g[i] = (int32_t)(uniform() * (double)count);
  return g;
}

static Case earnings(Arena *a) {
  Case c = {"earnings", "normal, 4 columns", {.n = 716}, earnings_reference, text_make(a), 1.25};
  size_t n = c.r.n;
  double *X = NEW_ARRAY(a, double, 4 * n), *y = NEW_ARRAY(a, double, n);
  double *earn = NEW_ARRAY(a, double, n), *height = NEW_ARRAY(a, double, n),
         *male = NEW_ARRAY(a, double, n);
  double mean = 0, square = 0;
  for (size_t i = 0; i < n; i++) {
    height[i] = 66 + 4 * normal();
    male[i] = uniform() < 0.4;
    earn[i] = exp(9.5 + 0.4 * male[i] + 0.9 * normal());
    mean += height[i] / (double)n;
  }
  for (size_t i = 0; i < n; i++) square += (height[i] - mean) * (height[i] - mean) / (double)n;
  for (size_t i = 0; i < n; i++) {
    double z = (height[i] - mean) / sqrt(square);
    X[4 * i] = 1;
    X[4 * i + 1] = z;
    X[4 * i + 2] = male[i];
    X[4 * i + 3] = z * male[i];
    y[i] = log(earn[i]);
  }
  c.r.X = X;
  c.r.y = y;
  text_printf(&c.json, "{\"N\": %zu", n);
  json_reals(&c.json, "earn", earn, n, 1);
  json_reals(&c.json, "height", height, n, 1);
  json_reals(&c.json, "male", male, n, 1);
  text_puts(&c.json, "}");
  return c;
}

static Case radon(Arena *a) {
  enum { COUNTIES = 386 };
  Case c = {"radon",         "normal, 2 gathers", {.n = 12572, .first = {0, COUNTIES}},
            radon_reference, text_make(a),        1.5};
  size_t n = c.r.n;
  int32_t *county = groups(a, n, COUNTIES);
  double *basement = NEW_ARRAY(a, double, n), *y = NEW_ARRAY(a, double, n);
  for (size_t i = 0; i < n; i++) {
    basement[i] = uniform() < 0.2;
    y[i] = 1.3 - 0.6 * basement[i] + 0.8 * normal();
  }
  c.r.y = y;
  c.r.index[0] = c.r.index[1] = county;
  c.r.coef[1] = basement;
  text_printf(&c.json, "{\"N\": %zu, \"J\": %d", n, COUNTIES);
  json_indices(&c.json, "county_idx", county, n);
  json_reals(&c.json, "floor_measure", basement, n, 1);
  json_reals(&c.json, "log_radon", y, n, 1);
  text_puts(&c.json, "}");
  return c;
}

static Case election(Arena *a) {
  static const struct {
    const char *index, *size;
    size_t count;
  } group[] = {{"age", "n_age", 4},
               {"edu", "n_edu", 4},
               {"age_edu", "n_age_edu", 16},
               {"state", "n_state", 51},
               {"region_full", "n_region_full", 5}};
  Case c = {"election",
            "logistic, 5 columns, 5 gathers",
            {.n = 11564, .column = 80},
            election_reference,
            text_make(a),
            1.5};
  size_t n = c.r.n, first = 0;
  double *X = NEW_ARRAY(a, double, 5 * n), *y = NEW_ARRAY(a, double, n);
  for (size_t i = 0; i < n; i++) {
    X[5 * i] = 1;
    X[5 * i + 1] = uniform() < 0.1;
    X[5 * i + 2] = uniform() < 0.6;
    X[5 * i + 3] = 0.5 + 0.1 * normal();
    X[5 * i + 4] = X[5 * i + 1] * X[5 * i + 2];
    y[i] = uniform() < 0.56;
  }
  c.r.X = X;
  c.r.y = y;
  text_printf(&c.json, "{\"N\": %zu", n);
  for (int g = 0; g < 5; g++) {
    c.r.first[g] = first;
    c.r.index[g] = groups(a, n, group[g].count);
    first += group[g].count;
    text_printf(&c.json, ", \"%s\": %zu", group[g].size, group[g].count);
    json_indices(&c.json, group[g].index, c.r.index[g], n);
  }
  json_reals(&c.json, "black", X + 1, n, 5);
  json_reals(&c.json, "female", X + 2, n, 5);
  json_reals(&c.json, "v_prev_full", X + 3, n, 5);
  text_puts(&c.json, ", \"y\": [");
  for (size_t i = 0; i < n; i++) text_printf(&c.json, "%s%d", i ? "," : "", (int)y[i]);
  text_puts(&c.json, "]}");
  return c;
}

/* ---- the two, by turns ----------------------------------------------------------------------- */

typedef struct {
  Predictive *p;
  Q q;
  QDraws draws;
  double *phi, *grad, *theta, *adj, *ref_grad;
  size_t dim, ld;
} Both;

static Both prepare(Ctx *c, Case *k, const char *folder, size_t M) {
  Both b = {0};
  Program *p = stan_parse(c, arena_format(&c->arena, "%s/%s.stan", folder, k->name), NULL);
  if (!c->nerrors) stan_check(c, p);
  if (c->nerrors) ctx_jump(c, PVI_PROGRAM);
  Model *m = model_make(c, p, data_read_text(c, "data", k->json.s, NULL), NULL);
  Target *t = NEW(&c->arena, Target);
  *t = (Target){.score = SCORE_log, .regularizer = REG_PRIOR, .lambda = 0, .score_weight = 1};
  Observed *o = observed_make(&c->arena, m, NULL, 0, target_wants(t));
  b.q = q_make(&c->arena, FAMILY_meanfield, (Shape){0}, m->dim, NULL);
  Q *q = NEW(&c->arena, Q);
  *q = b.q;
  b.p = predictive_make(&c->arena, o, t, q, (NoiseSet){M, 1}, NULL);
  b.dim = m->dim;
  b.ld = (M + LANES - 1) / LANES * LANES;
  k->r.M = M;
  k->r.ld = b.ld;
  b.draws = q_draws(&c->arena, q, M, b.ld, kernels_best());
  sobol_normal(b.draws.u, q_noise(q), M, b.ld, 1, false);
  b.phi = NEW_ARRAY(&c->arena, double, q_size(q));
  b.grad = NEW_ARRAY(&c->arena, double, q_size(q));
  b.ref_grad = NEW_ARRAY(&c->arena, double, q_size(q));
  b.theta = NEW_ARRAY(&c->arena, double, b.dim *b.ld);
  b.adj = NEW_ARRAY(&c->arena, double, b.dim *b.ld);
  double *mean = NEW_ARRAY(&c->arena, double, b.dim), *sd = NEW_ARRAY(&c->arena, double, b.dim);
  for (size_t j = 0; j < b.dim; j++) sd[j] = 0.1;
  q_start(q, b.phi, mean, sd);
  return b;
}

static double run_reference(const Case *k, Both *b, Buffers *s) {
  memset(b->adj, 0, b->dim * b->ld * sizeof *b->adj);
  memset(b->ref_grad, 0, q_size(&b->q) * sizeof *b->ref_grad);
  q_draw(&b->q, b->phi, &b->draws, b->theta);
  double value = k->reference(&k->r, b->theta, b->adj, s);
  q_adjoint(&b->q, b->phi, &b->draws, b->adj, NULL, b->ref_grad);
  return value;
}

static double disagreement(const Case *k, Both *b, Buffers *s) {
  PredictiveValue v;
  predictive_eval(b->p, b->phi, &v, b->grad);
  double value = run_reference(k, b, s), worst = fabs(value - v.score) / fabs(value), size = 0;
  for (size_t j = 0; j < q_size(&b->q); j++) size = fmax(size, fabs(b->grad[j]));
  for (size_t j = 0; j < q_size(&b->q); j++)
    worst = fmax(worst, fabs(b->grad[j] - b->ref_grad[j]) / size);
  return worst;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static bool compare(Ctx *c, Case *k, const char *folder, size_t M) {
  enum { TURNS = 41 };
  Both b = prepare(c, k, folder, M);
  Buffers *s = NEW(&c->arena, Buffers);
  double wrong = disagreement(k, &b, s), engine = INFINITY, reference = INFINITY, ratio[TURNS];
  PredictiveValue v;
  for (int turn = 0; turn < TURNS; turn++) {
    double start = base_seconds(), one, two;
    long each = 0;
    do predictive_eval(b.p, b.phi, &v, b.grad), each++;
    while ((one = base_seconds() - start) < 0.01);
    one /= (double)each;
    start = base_seconds();
    each = 0;
    do run_reference(k, &b, s), each++;
    while ((two = base_seconds() - start) < 0.01);
    two /= (double)each;
    ratio[turn] = one / two;
    engine = fmin(engine, one);
    reference = fmin(reference, two);
  }
  qsort(ratio, TURNS, sizeof *ratio, by_value);
  double per = 1e9 / ((double)k->r.n * (double)M);
  bool ok = wrong < 1e-10 && engine / reference <= k->bar;
  printf("%-10s %-32s n %6zu, M %4zu: engine %6.3f ns, by hand %6.3f ns, ratio %5.2f (median "
         "%5.2f, bar %.2f)%s\n",
         k->name, k->what, k->r.n, M, engine * per, reference * per, engine / reference,
         ratio[TURNS / 2], k->bar,
         wrong >= 1e-10 ? "  DISAGREE"
         : ok           ? ""
                        : "  MISSED");
  return ok;
}

int main(int argc, char **argv) {
  const char *folder = argc > 1 ? argv[1] : "examples/paper";
  Ctx c;
  jmp_buf trap;
  ctx_init(&c);
  c.trap = &trap;
  if (setjmp(trap)) {
    ctx_print(&c, stderr);
    ctx_free(&c);
    return 1;
  }
  printf("log score, value and gradient: nanoseconds per observation and draw (vectors of %d)\n",
         VL);
  Case cases[] = {earnings(&c.arena), radon(&c.arena), election(&c.arena)};
  for (int k = 0; k < 3; k++) compare(&c, &cases[k], folder, 100);
  ctx_free(&c);
  return 0;
}
