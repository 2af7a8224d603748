/* test_alloc.c: nothing is allocated inside an iteration: every allocation of the process is
 * counted while an objective is evaluated again and again, and while an optimizer runs on it. */
#include "evaluate.h"

#include "infer/exact.h"
#include "infer/optim.h"

#include <errno.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* The C library's own functions, under the names it keeps for such purposes. */
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t k, size_t n);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

static long allocations;

#ifndef PVI_TORTURE /* sanitizers have their own */
void *malloc(size_t n) {
  __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED);
  return __libc_malloc(n);
}
void *calloc(size_t k, size_t n) {
  __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED);
  return __libc_calloc(k, n);
}
void *realloc(void *p, size_t n) {
  __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED);
  return __libc_realloc(p, n);
}
void *aligned_alloc(size_t align, size_t n) {
  __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED);
  return __libc_memalign(align, n);
}
int posix_memalign(void **p, size_t align, size_t n) {
  __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED);
  *p = __libc_memalign(align, n);
  return *p ? 0 : ENOMEM;
}
void *mmap(void *at, size_t n, int protection, int flags, int fd,
           off_t offset) { /* large blocks of arenas */
  __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED);
  return (void *)syscall(SYS_mmap, at, n, protection, flags, fd, offset);
}
#endif

static const char program[] =
    "data { int N; vector[N] x; vector[N] y; array[N] int<lower=0> z; array[N] int<lower=1> g; }"
    "parameters { real a; real b; real s; vector[2] u; }"
    "model { a ~ normal(0, 2); b ~ normal(0, 2); s ~ normal(0, 1); u ~ normal(0, 1);"
    " y ~ normal(a + b * x + u[g], exp(s)); }";
static const char counts[] =
    "data { int N; vector[N] x; vector[N] y; array[N] int<lower=0> z; array[N] int<lower=1> g; }"
    "parameters { real a; real b; }"
    "model { a ~ normal(0, 2); b ~ normal(0, 2); z ~ poisson_log(a + b * x); }";
static const char growth[] =
    "functions { vector f(real t, vector y, real a, real b) { return y .* (exp(a) - exp(b) * y); } "
    "}"
    "data { int N; vector[N] x; vector[N] y; array[N] int<lower=0> z; array[N] int<lower=1> g; }"
    "parameters { real a; real b; }"
    "model { array[7] vector[1] m = ode_rk45(f, [0.1]', 0, {1, 2, 3, 4, 5, 6, 7}, a, b);"
    " array[7] vector[1] n = ode_bdf_tol(f, [0.1]', 0, {1, 2, 3, 4, 5, 6, 7}, 1e-5, 1e-5, 10000, "
    "a, b);"
    " a ~ normal(0, 2); b ~ normal(0, 2); y ~ normal(to_vector(m[ : , 1]) + to_vector(n[ : , 1]), "
    "1); }";
static const char data[] =
    "{\"N\": 7, \"x\": [-1, 0.5, 2, 1, -0.3, 0, 1.5], \"y\": [0.1, 1, 3, -1, 0.4, 0.2, 2],"
    " \"z\": [0, 100, 1, 3, 0, 1, 1], \"g\": [1, 2, 1, 2, 2, 1, 1]}";

typedef struct {
  const char *name, *program, *score, *family;
  bool exact, pool;
} Row;

static const Row rows[] = {
    {"log, draws", program, "log", "meanfield", false, false},
    {"log, draws, threads", program, "log", "fullrank", false, true},
    {"crps, draws", program, "crps", "mixture", false, false},
    {"crps by simulation, draws", program, "crps_sim", "meanfield", false, false},
    {"interval, draws", program, "interval", "flow", false, false},
    {"log, draws, differential equations", growth, "log", "meanfield", false, false},
    {"log, draws, differential equations, threads", growth, "log", "meanfield", false, true},
    {"log, exact", program, "log", "meanfield", true, false},
    {"log, exact, threads", program, "log", "fullrank", true, true},
    {"crps, exact", program, "crps", "mixture", true, false},
    {"log of counts, exact", counts, "log", "lowrank", true, false},
};

/* An objective that remembers the count at its third evaluation and at its last. */
typedef struct {
  Predictive *p;
  int evaluations;
  long third, last;
} Counted;

static bool counted_eval(void *self, const double *phi, double *value, double *grad) {
  Counted *c = self;
  PredictiveValue v;
  bool ok = predictive_eval(c->p, phi, &v, grad);
  *value = v.value;
  if (++c->evaluations == 3) c->third = allocations;
  c->last = allocations;
  return ok;
}

TEST(allocates_nothing) {
  const Row *r = row;
  Model *m = model_of(c, r->program, data);
  Target t = {
      .regularizer = REG_PRIOR, .lambda = 0.1, .score_weight = 1, .score_options = {.alpha = 0.1}};
  t.integrate = r->exact ? INTEGRATE_EXACT : INTEGRATE_DRAWS;
  FamilyId family = FAMILY_meanfield;
  assert_true(score_find(r->score, &t.score) && family_find(r->family, &family));
  Q q = q_make(&c->arena, family, (Shape){0}, m->dim, NULL);
  Observed *o = observed_make(&c->arena, m, NULL, 0, target_wants(&t));
  observed_reduce(o);
  Pool *pool = r->pool ? pool_make(c, 2) : NULL;
  Counted k = {.p = predictive_make(&c->arena, o, &t, &q, (NoiseSet){64, 1}, pool)};
  assert_true(predictive_is_exact(k.p) == r->exact);
  size_t n = q_size(&q);
  double *phi = NEW_ARRAY(&c->arena, double, n), *grad = NEW_ARRAY(&c->arena, double, n);
  double mean[5] = {0}, sd[5] = {0.3, 0.3, 0.3, 0.3, 0.3}, value;
  q_start(&q, phi, mean, sd);
  assert_true(counted_eval(&k, phi, &value, grad));
  long before = allocations;
  for (int i = 0; i < 10; i++) assert_true(counted_eval(&k, phi, &value, grad));
  assert_int_equal(allocations, before);
  k.evaluations = 0;
  Objective f = {.dim = n, .self = &k, .eval = counted_eval};
  OptimOptions options = optim_defaults(OPTIM_LBFGS);
  options.max_iterations = 30;
  optim_run(&c->arena, &f, phi, &options);
  assert_true(k.evaluations > 5);
  assert_int_equal(k.last, k.third);
  if (pool) pool_free(pool);
}

/* The counter counts: a test that cannot fail is none. */
TEST(counter_works) {
#ifndef PVI_TORTURE
  long before = allocations;
  Arena a = arena_make(c);
  arena_alloc(&a, 1 << 20);
  arena_free(&a);
  assert_true(allocations > before);
#endif
}

int main(void) {
  static Suite s;
  SUITE_ADD(&s, counter_works);
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
    suite_add(&s, rows[k].name, allocates_nothing, &rows[k]);
  return suite_run("alloc", &s);
}
