/* test_resume.c: fits that are interrupted, written to bytes, read and resumed end with the same
 * bits as fits that never were: interrupted at many places, once and again, and from journals that
 * were saved on the way. And journals that are damaged, or of another fit, are refused. */
#include "objective.h"

#include "infer/fit.h"
#include "infer/journal.h"
#include "infer/simulator.h"
#include "num/rng.h"

/* ---- the fits -------------------------------------------------------------------------------- */

static const char regression[] = "data { int N; vector[N] x; vector[N] y; array[N] int k; }"
                                 "parameters { real a; real b; real s; }"
                                 "model { a ~ normal(0, 2); b ~ normal(0, 2); s ~ normal(0, 1); y "
                                 "~ normal(a + b * x, exp(s)); }";
static const char counts[] =
    "data { int N; vector[N] x; vector[N] y; array[N] int k; }"
    "parameters { real a; real b; }"
    "model { a ~ normal(0, 2); b ~ normal(0, 2); k ~ poisson_log(5 + a + b * x); }";
static const char known_scale[] =
    "data { int N; vector[N] x; vector[N] y; array[N] int k; }"
    "parameters { real a; real b; }"
    "model { a ~ normal(0, 2); b ~ normal(0, 2); y ~ normal(a + b * x, 1); }";

typedef struct {
  const char *name, *program, *score, *family;
  int n;          /* observations */
  double holdout; /* for validation */
  FitOptions o;   /* score and family are filled in */
} Row;

#define TARGET(how)                                                                                \
  .target = {.regularizer = REG_POSTERIOR,                                                         \
             .lambda = 0.05,                                                                       \
             .score_weight = 1,                                                                    \
             .score_options = {.alpha = 0.1},                                                      \
             .integrate = how}

static const Row rows[] = {
    {"exact", regression, "log", "fullrank", 30, 0, {TARGET(INTEGRATE_AUTO)}},
    {"exact, centred nodes", counts, "log", "meanfield", 30, 0, {TARGET(INTEGRATE_AUTO)}},
    {"exact, centred nodes of a mixture",
     counts,
     "log",
     "mixture",
     20,
     0,
     {TARGET(INTEGRATE_AUTO)}},
    {"exact, elbo", counts, "elbo", "fullrank", 30, 0, {TARGET(INTEGRATE_AUTO)}},
    {"exact, interval", regression, "interval", "meanfield", 15, 0, {TARGET(INTEGRATE_AUTO)}},
    {"draws", regression, "log", "fullrank", 15, 0, {TARGET(INTEGRATE_DRAWS)}},
    {"draws, a flow",
     regression,
     "log",
     "realnvp",
     8,
     0,
     {TARGET(INTEGRATE_DRAWS), .draws = 64, .iterations = 30}},
    {"draws, interval",
     known_scale,
     "interval",
     "meanfield",
     10,
     0,
     {TARGET(INTEGRATE_DRAWS), .draws = 64}},
    {"draws, crps", regression, "crps", "meanfield", 15, 0, {TARGET(INTEGRATE_DRAWS)}},
    {"adam, mini-batches",
     regression,
     "log",
     "meanfield",
     40,
     0,
     {TARGET(INTEGRATE_DRAWS), .optimizer = OPTIM_ADAM, .minibatch = 7, .iterations = 60,
      .draws = 16, .schedule = SCHEDULE_WARMUP_COSINE, .clip = 50}},
    {"rmsprop",
     regression,
     "log",
     "fullrank",
     20,
     0,
     {TARGET(INTEGRATE_DRAWS), .optimizer = OPTIM_RMSPROP, .iterations = 50, .draws = 16,
      .learning_rate = 1e-2, .schedule = SCHEDULE_STEP}},
    {"nesterov",
     regression,
     "log",
     "meanfield",
     20,
     0,
     {TARGET(INTEGRATE_DRAWS), .optimizer = OPTIM_NESTEROV, .iterations = 30, .draws = 16,
      .learning_rate = 1e-4}},
    {"sgd, rejection",
     known_scale,
     "log",
     "meanfield",
     12,
     0,
     {TARGET(INTEGRATE_DRAWS), .optimizer = OPTIM_SGD, .iterations = 30, .draws = 4,
      .learning_rate = 1e-3, .rejection = true}},
    {"selected by validation, exact",
     counts,
     "log",
     "meanfield",
     40,
     0.3,
     {TARGET(INTEGRATE_AUTO), .select_validation = true}},
    {"selected by validation, draws",
     regression,
     "log",
     "meanfield",
     40,
     0.3,
     {TARGET(INTEGRATE_DRAWS), .draws = 64, .select_validation = true}},
    {"selected by validation, adam",
     regression,
     "log",
     "meanfield",
     40,
     0.3,
     {TARGET(INTEGRATE_DRAWS), .optimizer = OPTIM_ADAM, .iterations = 40, .draws = 16,
      .select_validation = true}},
    {"begun on a sample, exact",
     counts,
     "log",
     "meanfield",
     1100,
     0,
     {TARGET(INTEGRATE_AUTO), .sample = 64}},
    {"begun on a sample, draws",
     regression,
     "log",
     "fullrank",
     1100,
     0,
     {TARGET(INTEGRATE_DRAWS), .sample = 64, .draws = 32, .iterations = 15}},
};
enum { ROWS = sizeof rows / sizeof *rows };

static Model *make_model(Ctx *c, const Row *r) {
  Text t = text_make(&c->arena);
  uint64_t state = 5;
  text_printf(&t, "{\"N\": %d", r->n);
  for (int v = 0; v < 3; v++) {
    text_printf(&t, ", \"%c\": [", "xyk"[v]);
    for (int i = 0; i < r->n; i++) {
      double z = 0.4 * rng_normal(rng_make(11, (uint64_t)v), (uint64_t)i, 0);
      text_puts(&t, i ? ", " : "");
      if (v == 2) {
        text_printf(&t, "%d", (int)(150 * exp(z)));
      } else {
        text_printf(&t, "%.6f", v ? 3 * z + uniform(&state, -1, 1) : z);
      }
    }
    text_puts(&t, "]");
  }
  text_puts(&t, "}");
  return model_of(c, r->program, t.s);
}

static Split *make_split(Ctx *c, const Row *r) {
  Split *s = split_all(c, (size_t)r->n);
  if (r->holdout == 0) return s;
  *s = *split_holdout(c, (size_t)r->n, r->holdout, 3);
  s->rows[PART_VALID] = s->rows[PART_TEST];
  s->count[PART_VALID] = s->count[PART_TEST];
  s->count[PART_TEST] = 0;
  return s;
}

/* ---- interrupting ---------------------------------------------------------------------------- */

typedef struct {
  Ctx *c;
  const Model *m;
  const Split *split;
  FitOptions o;
  long asked, stop; /* how often was `cancelled` asked; when it says yes (< 0: never) */
} Course;

static bool cancelled(void *self) {
  Course *k = self;
  return k->asked++ == k->stop;
}

static const Fit *run_course(Course *k, Journal *j, long stop) {
  k->asked = 0;
  k->stop = stop;
  k->o.cancelled = cancelled;
  k->o.cancelled_self = k;
  k->o.journal = j;
  const Fit *f = fit_run(k->c, k->m, k->split, &k->o, NULL);
  assert_true(f->interrupted == (stop >= 0 && k->asked > stop));
  return f;
}

/* Through bytes, as if another process had written them. */
static Journal *through_bytes(Ctx *c, const Journal *j) {
  Text t = text_make(&c->arena), again = text_make(&c->arena);
  journal_write(j, &t);
  Journal *read = journal_read(c, &c->arena, t.s, t.n);
  assert_non_null(read);
  journal_write(read, &again);
  assert_int_equal(t.n, again.n);
  assert_memory_equal(t.s, again.s, t.n);
  return read;
}

static void assert_bits(const char *what, const double *a, const double *b, size_t n) {
  for (size_t k = 0; k < n; k++)
    if (memcmp(&a[k], &b[k], sizeof *a) != 0)
      fail_msg("%s %zu: %.17g, not interrupted %.17g", what, k, a[k], b[k]);
}

/* All but the seconds. */
static void assert_same_fit(const Fit *a, const Fit *b) {
  assert_bits("phi", a->phi, b->phi, q_size(&b->q));
  assert_bits("value", (const double *)&a->value, (const double *)&b->value, 3);
  assert_int_equal(a->evaluations, b->evaluations);
  assert_int_equal(a->iterations, b->iterations);
  assert_int_equal(a->skipped, b->skipped);
  assert_int_equal(a->draws, b->draws);
  assert_true(a->exact == b->exact && a->converged == b->converged && !a->interrupted);
  assert_string_equal(a->reason, b->reason);
  assert_int_equal(a->ntrace, b->ntrace);
  for (size_t k = 0; k < b->ntrace; k++) {
    FitTrace x = a->trace[k], y = b->trace[k];
    x.seconds = y.seconds = 0;
    assert_int_equal(x.iteration, y.iteration);
    assert_bits("trace", &x.seconds, &y.seconds, 6);
    assert_true(isnan(x.validation) ? isnan(y.validation) : x.validation == y.validation);
  }
  assert_int_equal(a->nstarts, b->nstarts);
  for (size_t k = 0; k < b->nstarts; k++)
    assert_bits("start", &a->starts[k].objective, &b->starts[k].objective, 1);
  assert_int_equal(a->nstages, b->nstages);
  for (size_t k = 0; k < b->nstages; k++)
    assert_bits("stage", &a->stages[k].objective, &b->stages[k].objective, 3);
  assert_int_equal(a->nnotes, b->nnotes);
  for (size_t k = 0; k < b->nnotes; k++) assert_string_equal(a->notes[k], b->notes[k]);
}

static void assert_usable(const Fit *f) {
  assert_true(f->interrupted && !f->converged && f->draws > 0);
  assert_string_equal(f->reason, "interrupted");
  for (size_t k = 0; k < q_size(&f->q); k++) assert_true(isfinite(f->phi[k]));
}

static Course course_of(Ctx *c, const Row *r) {
  Course k = {.c = c, .m = make_model(c, r), .split = make_split(c, r), .o = r->o, .stop = -1};
  k.o.seed = 1;
  assert_true(score_find(r->score, &k.o.target.score));
  k.o.family = family_named(r->family);
  return k;
}

#define SAMPLED "begun on a sample of 64 of the training observations"

/* Places all over the course: every one where there are few of them. */
static long place(long k, long places, long evaluations) {
  return places >= evaluations ? k : k * (evaluations - 1) / (places - 1);
}

TEST(resumed_is_never_interrupted) {
  const Row *r = row;
  Course k = course_of(c, r);
  const Fit *whole = run_course(&k, NULL, -1);
  long evaluations = k.asked, places = 30;
  assert_true(evaluations >= 20);
  if (r->o.sample) assert_string_equal(whole->notes[whole->nnotes - 1], SAMPLED);
  for (long i = 0; i < places && i < evaluations; i++) {
    long at = place(i, places, evaluations);
    Journal *j = journal_make(&c->arena);
    assert_usable(run_course(&k, j, at));
    const Fit *f = run_course(&k, through_bytes(c, j), -1);
    assert_same_fit(f, whole);
  }
}

/* Interrupted again and again, a few evaluations further every time; sometimes not one. A line
 * search that was begun is begun again, and one that fails has 40 evaluations. */
TEST(interrupted_again_and_again) {
  const Row *r = row;
  Course k = course_of(c, r);
  const Fit *whole = run_course(&k, NULL, -1), *f;
  long evaluations = k.asked;
  Journal *j = journal_make(&c->arena);
  uint64_t state = 7;
  for (int times = 0; times < 400; times++) {
    f = run_course(&k, j, (long)uniform(&state, 0, fmax(60, (double)evaluations / 12)));
    if (!f->interrupted) break;
    j = through_bytes(c, j);
  }
  assert_same_fit(f, whole);
}

/* ---- journals saved on the way --------------------------------------------------------------- */

enum { MOST_SAVES = 4096 };
typedef struct {
  Ctx *c;
  Text *bytes[MOST_SAVES];
  int n;
} Saves;

static void keep_save(void *self, const Journal *j) {
  Saves *s = self;
  if (s->n == MOST_SAVES) return;
  s->bytes[s->n] = NEW(&s->c->arena, Text);
  *s->bytes[s->n] = text_make(&s->c->arena);
  journal_write(j, s->bytes[s->n++]);
}

/* A process that was killed leaves the journal it last saved. */
TEST(killed) {
  const Row *r = row;
  Course k = course_of(c, r);
  const Fit *whole = run_course(&k, NULL, -1);
  Saves *s = NEW(&c->arena, Saves);
  s->c = c;
  Journal *j = journal_make(&c->arena);
  journal_on_save(j, 0, keep_save, s);
  assert_same_fit(run_course(&k, j, -1), whole);
  assert_true(s->n >= 20);
  for (int i = 0; i < s->n; i += 1 + s->n / 25) {
    Journal *saved = journal_read(c, &c->arena, s->bytes[i]->s, s->bytes[i]->n);
    assert_non_null(saved);
    assert_same_fit(run_course(&k, saved, -1), whole);
  }
}

/* Saves come no more often than asked for, and one comes with an interruption. */
TEST(saves_at_intervals) {
  Course k = course_of(c, &rows[0]);
  Saves *s = NEW(&c->arena, Saves);
  s->c = c;
  Journal *j = journal_make(&c->arena);
  journal_on_save(j, 1e6, keep_save, s);
  run_course(&k, j, -1);
  assert_int_equal(s->n, 0);
  j = journal_make(&c->arena);
  journal_on_save(j, 1e6, keep_save, s);
  run_course(&k, j, 17);
  assert_int_equal(s->n, 1);
}

TEST(seconds_add_up) {
  Course k = course_of(c, &rows[0]);
  Journal *j = journal_make(&c->arena);
  const Fit *first = run_course(&k, j, 17), *second = run_course(&k, through_bytes(c, j), -1);
  assert_true(second->seconds > 0 && first->seconds > 0);
  for (size_t t = 1; t < second->ntrace; t++)
    assert_true(second->trace[t].seconds >= second->trace[t - 1].seconds);
}

/* ---- damage ---------------------------------------------------------------------------------- */

static bool reads(Ctx *c, const char *bytes, size_t n) {
  Ctx own;
  ctx_init(&own);
  const Journal *j = journal_read(&own, &own.arena, bytes, n);
  assert_true((j == NULL) == (own.nerrors == 1));
  ctx_free(&own);
  (void)c;
  return j != NULL;
}

TEST(damaged_journals_are_refused) {
  Course k = course_of(c, &rows[1]);
  Journal *j = journal_make(&c->arena);
  run_course(&k, j, 30);
  Text t = text_make(&c->arena);
  journal_write(j, &t);
  assert_true(reads(c, t.s, t.n));
  for (size_t n = 0; n < t.n; n++) assert_false(reads(c, t.s, n));
  for (size_t at = 0; at < t.n; at++)
    for (int bit = 0; bit < 8; bit += 1 + (int)(at % 7)) {
      t.s[at] = (char)(t.s[at] ^ 1 << bit);
      assert_false(reads(c, t.s, t.n));
      t.s[at] = (char)(t.s[at] ^ 1 << bit);
    }
  text_add(&t, "", 1);
  assert_false(reads(c, t.s, t.n));
}

/* Another seed, other data, another family: the fit says so instead of going on. */
static void resume_elsewhere(Ctx *c, void *arg) {
  Course *k = arg;
  k->c = c;
  run_course(k, k->o.journal, -1);
}

TEST(journals_of_other_fits_are_refused) {
  Course k = course_of(c, &rows[0]), others[] = {k, k, k, course_of(c, &rows[1])};
  Journal *j = journal_make(&c->arena);
  run_course(&k, j, 30);
  others[0].o.seed = 2;
  others[1].o.family = FAMILY_meanfield;
  others[2].o.target.lambda = 0.06;
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    others[i].o.journal = through_bytes(c, j);
    assert_int_equal(attempt(c, resume_elsewhere, &others[i]), PVI_DATA);
    expect_message(c, "of another fit");
    ctx_close(c);
  }
}

/* ---- without a journal ----------------------------------------------------------------------- */

/* A later interruption leaves no worse a q, from the first evaluation to the last. */
TEST(interrupted_fits_are_usable) {
  Course k = course_of(c, &rows[0]);
  const Fit *whole = run_course(&k, NULL, -1);
  long evaluations = k.asked;
  double mean[3], sd[3];
  for (long at = 0; at < evaluations; at++) {
    const Fit *f = run_course(&k, NULL, at);
    assert_usable(f);
    q_moments(&f->q, f->phi, mean, sd);
    for (int d = 0; d < 3; d++) assert_true(isfinite(mean[d]) && sd[d] > 0);
    assert_true(f->value.value <= whole->value.value + 1e-3);
    if (at > evaluations * 9 / 10) assert_close(f->value.value, whole->value.value, 1e-2);
  }
}

typedef struct {
  long asked, stop;
} Patience;
static bool impatient(void *self) {
  Patience *p = self;
  return p->asked++ == p->stop;
}
static bool simulate(void *self, const double *theta, size_t M, size_t ld, uint64_t seed,
                     double *out) {
  (void)self;
  for (size_t i = 0; i < 3; i++) rng_fill_normal(rng_make(seed, 0), 0, i, out + i * ld, M);
  for (size_t i = 0; i < 3; i++)
    for (size_t j = 0; j < M; j++) out[i * ld + j] += theta[j];
  return true;
}
static bool pullback(void *self, const double *theta, size_t M, size_t ld, uint64_t seed,
                     const double *adj_out, double *adj_theta) {
  (void)self, (void)theta, (void)seed;
  for (size_t i = 0; i < 3; i++)
    for (size_t j = 0; j < M; j++) adj_theta[j] += adj_out[i * ld + j];
  return true;
}

TEST(simulators_can_be_interrupted) {
  static const double y[3] = {0.5, 1, 2}, mean[1] = {0}, sd[1] = {2};
  Simulator s = {.dim = 1,
                 .n = 3,
                 .width = 1,
                 .y = y,
                 .prior_mean = mean,
                 .prior_sd = sd,
                 .simulate = simulate,
                 .pullback = pullback};
  Patience p = {.stop = -1};
  SimulatorOptions o = {.score = SCORE_crps_sim,
                        .family = FAMILY_meanfield,
                        .lambda = 0.1,
                        .seed = 1,
                        .cancelled = impatient,
                        .cancelled_self = &p};
  SimulatorFit *whole = simulator_fit(c, &s, &o);
  long evaluations = p.asked;
  assert_false(whole->interrupted);
  for (long at = 0; at < evaluations; at++) {
    p = (Patience){.stop = at};
    SimulatorFit *f = simulator_fit(c, &s, &o);
    assert_true(f->interrupted && !f->converged && p.asked == at + 1);
    assert_string_equal(f->reason, "interrupted");
    assert_true(isfinite(f->phi[0]) && isfinite(f->phi[1]));
    assert_true(at == 0 || isfinite(f->value.value));
  }
}

int main(void) {
  static Suite s;
  for (size_t k = 0; k < ROWS; k++) {
    suite_add(&s, rows[k].name, resumed_is_never_interrupted, &rows[k]);
    suite_add(&s, rows[k].name, interrupted_again_and_again, &rows[k]);
    suite_add(&s, rows[k].name, killed, &rows[k]);
  }
  SUITE_ADD(&s, saves_at_intervals);
  SUITE_ADD(&s, seconds_add_up);
  SUITE_ADD(&s, damaged_journals_are_refused);
  SUITE_ADD(&s, journals_of_other_fits_are_refused);
  SUITE_ADD(&s, interrupted_fits_are_usable);
  SUITE_ADD(&s, simulators_can_be_interrupted);
  return suite_run("resume", &s);
}
