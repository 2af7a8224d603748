/* test_scoring.c: scores after a fit that are by draws: as few as it takes. What they say is what
 * all draws say, and a score does not depend on what else is scored. */
#include "objective.h"

enum { N = 40, ALL = 1 << 14 };

/* y follows a line, but for one outlier. */
static const char *outcomes(Ctx *c) {
  Text t = text_make(&c->arena);
  text_printf(&t, "{\"N\": %d, \"x\": [", N);
  for (int k = 0; k < N; k++)
    text_printf(&t, "%s%.3f", k ? ", " : "", k * 0.618 - (int)(k * 0.618));
  text_printf(&t, "], \"y\": [");
  for (int k = 0; k < N; k++)
    text_printf(&t, "%s%d", k ? ", " : "", k == 7 ? 40 : (int)(3 * (k * 0.414 - (int)(k * 0.414))));
  text_printf(&t, "], \"s\": [");
  for (int k = 0; k < N; k++)
    text_printf(&t, "%s%.3f", k ? ", " : "", k == 7 ? 9 : k * 0.414 - (int)(k * 0.414));
  text_printf(&t, "]}");
  return t.s;
}

#define LINE                                                                                       \
  "data { int N; vector[N] x; vector[N] s; array[N] int y; } parameters { real a; real b; real c;" \
  " } model { a ~ normal(0, 1); b ~ normal(0, 1); c ~ normal(0, 1); "

typedef struct {
  const char *name, *program;
} Row;

static const Row rows[] = {
    {"a t distribution", LINE "s ~ student_t(4, a + b * x, exp(c)); }"},
    {"counts", LINE "y ~ neg_binomial_2_log(a + b * x, exp(c)); }"},
};

typedef struct {
  Ctx *c;
  const Model *m;
  Q q;
  double *phi;
} Case;

static Case case_of(Ctx *c, const Row *p, double sd) {
  Case x = {.c = c, .m = model_of(c, p->program, outcomes(c))};
  x.q = q_make(&c->arena, FAMILY_meanfield, (Shape){0}, x.m->dim, NULL);
  x.phi = some_phi(c, &x.q);
  for (size_t k = 0; k < x.m->dim; k++) x.phi[x.m->dim + k] = log(sd);
  return x;
}

/* Who is asked whether the scores are still waited for, and says no when asked once more than
 * `patience` times. */
typedef struct {
  int patience, asked;
} Waiting;

static bool gives_up(void *self) {
  Waiting *w = self;
  return w->asked++ >= w->patience;
}

static Waiting *waiting; /* NULL: for ever */

/* Of the given rows, all if NULL. */
static void scores_by(const Case *x, Integrate how, ScoreId id, const size_t *some, size_t n,
                      double tolerance, double *out) {
  Target t = {.score = id, .score_weight = 1, .integrate = how};
  Observed *o = observed_make(&x->c->arena, x->m, some, n, target_wants(&t));
  observed_reduce(o);
  Scoring s = {.o = o, .q = &x->q, .phi = x->phi, .noise = {ALL, 5}, .tolerance = tolerance};
  if (waiting) s.cancelled = gives_up, s.cancelled_self = waiting;
  if (id == SCORE_log)
    predictive_log_scores(x->c, &s, how, out);
  else
    predictive_scores(x->c, &s, &t, out);
}

static void scores_of(const Case *x, ScoreId id, const size_t *some, size_t n, double tolerance,
                      double *out) {
  scores_by(x, INTEGRATE_DRAWS, id, some, n, tolerance, out);
}

static const ScoreId scores[] = {SCORE_log, SCORE_crps};

TEST(few_draws_say_what_all_say) {
  static const double sds[] = {0.01, 0.1, 1};
  for (size_t w = 0; w < sizeof sds / sizeof *sds; w++)
    for (size_t k = 0; k < sizeof scores / sizeof *scores; k++) {
      Case x = case_of(c, row, sds[w]);
      double few[N], all[N], off = 0, mean = 0, square = 0;
      scores_of(&x, scores[k], NULL, 0, 1e-6, few);
      scores_of(&x, scores[k], NULL, 0, 0, all);
      for (int i = 0; i < N; i++) {
        off += few[i] - all[i];
        mean += all[i] / N;
      }
      for (int i = 0; i < N; i++) square += (all[i] - mean) * (all[i] - mean);
      /* a few hundredths of the standard error of the sum */
      if (!(fabs(off) <= 0.05 * sqrt(square)))
        fail_msg("%s, sds %g: off by %.3g of %.3g", score_name(scores[k]), sds[w], off,
                 sqrt(square));
    }
}

/* Narrow q need few draws; under a wide one some observations have all of them. */
TEST(who_needs_more_gets_more) {
  double few[N], all[N];
  for (int wide = 0; wide < 2; wide++) {
    Case x = case_of(c, row, wide ? 3 : 0.01);
    scores_of(&x, SCORE_log, NULL, 0, 1e-6, few);
    scores_of(&x, SCORE_log, NULL, 0, 0, all);
    int same = 0;
    for (int i = 0; i < N; i++) same += few[i] == all[i];
    assert_true(wide ? same > 0 : same == 0);
  }
}

TEST(scores_do_not_depend_on_each_other) {
  static const size_t some[] = {2, 7, 8, 21, 39};
  enum { SOME = sizeof some / sizeof *some };
  for (size_t k = 0; k < sizeof scores / sizeof *scores; k++) {
    Case x = case_of(c, row, 0.5);
    double all[N], few[SOME];
    scores_of(&x, scores[k], NULL, 0, 1e-6, all);
    scores_of(&x, scores[k], some, SOME, 1e-6, few);
    for (int i = 0; i < SOME; i++) assert_true(few[i] == all[some[i]]);
  }
}

/* Wherever it is given up, there are no scores, and they are soon left; where it is not, they are
 * what they are. */
TEST(what_nobody_waits_for_is_left) {
  enum { SOON = 12 };
  static const Integrate ways[] = {INTEGRATE_DRAWS, INTEGRATE_AUTO};
  for (size_t k = 0; k < 4; k++) {
    Case x = case_of(c, row, 1);
    ScoreId id = scores[k % 2];
    Integrate how = ways[k / 2];
    double all[N], some[N];
    scores_by(&x, how, id, NULL, 0, 1e-6, all);
    bool left = true;
    for (int patience = 0; left; patience = 2 * patience + 1) {
      waiting = &(Waiting){patience, 0};
      scores_by(&x, how, id, NULL, 0, 1e-6, some);
      left = waiting->asked > patience;
      if (waiting->asked > patience + SOON)
        fail_msg("%s: asked %d times after it was given up", score_name(id),
                 waiting->asked - patience);
      waiting = NULL;
      for (int i = 0; i < N; i++) assert_true(left ? isnan(some[i]) : some[i] == all[i]);
    }
  }
}

int main(void) {
  static Suite s;
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
    suite_add(&s, rows[k].name, few_draws_say_what_all_say, &rows[k]);
    suite_add(&s, rows[k].name, who_needs_more_gets_more, &rows[k]);
    suite_add(&s, rows[k].name, scores_do_not_depend_on_each_other, &rows[k]);
    suite_add(&s, rows[k].name, what_nobody_waits_for_is_left, &rows[k]);
  }
  return suite_run("scoring", &s);
}
