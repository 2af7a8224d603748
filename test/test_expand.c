/* test_expand.c: larger programs for a variable that varies. Every one of them is a program that
 * checks, makes the same observations, and is the old program where its new parameters are zero. */
#include "model/density.h"
#include "run/expand.h"

#include "testing.h"

#define DATA                                                                                       \
  "{\"N\": 6, \"K\": 2, \"g\": [1, 2, 3, 1, 2, 3], \"male\": [0, 1, 0, 1, 0, 1], \"h\": [2, 1, "   \
  "2, "                                                                                            \
  "1, 2, 1], \"x\": [0.1, -0.4, 0.7, 1.2, -0.9, 0.3], \"y\": [1, 2, 0.5, 3, -1, 0.2], \"c\": [1, " \
  "0, 1, "                                                                                         \
  "1, 0, 1], \"X\": [[1, 2], [0.5, -1], [0.3, 0.2], [1, 1], [-2, 0.4], [0.6, 0.1]]}"
#define HEAD                                                                                       \
  "data { int N; int K; array[N] int g; array[N] int male; vector[N] x; vector[N] y; array[N] "    \
  "int c; "                                                                                        \
  "matrix[N, K] X; }\n"

typedef struct {
  const char *name, *program;
  const char *variable; /* that varies */
  int element;
  const char *column; /* and what goes with it */
  bool groups;
  int count;       /* expansions */
  const char *has; /* a piece of the last one */
} Row;

static const Row rows[] = {
    {"a slope by group",
     HEAD "parameters { real a; real b; }\nmodel { a ~ normal(0, 1); b ~ normal(0, 1); y ~ "
          "normal(a + b * x, 1); }",
     "b", 0, "g", true, 1, "(b + b_sd * b_z[g]) .* x"},
    {"an intercept by group in a loop",
     HEAD
     "parameters { real a; real b; }\nmodel { for (n in 1:N) y[n] ~ normal(a + b * x[n], 1); }",
     "a", 0, "g", true, 1, "normal((a + a_sd * a_z[g[n]]) + b"},
    {"a slope through a product",
     HEAD "parameters { real a; vector[K] b; }\nmodel { c ~ bernoulli_logit(a + X * b); }", "b", 2,
     "g", true, 1, "a + (X * b + X[, 2] .* (b_2_sd * b_2_z[g]))"},
    {"a slope through a product in a loop",
     HEAD "parameters { real a; vector[K] b; }\nmodel { for (n in 1:N) c[n] ~ bernoulli_logit(a + "
          "X[n] * b); }",
     "b", 1, "x", false, 1, "(X[n] * b + X[n][1] * (b_1_x * x[n]))"},
    {"elements by name in transformed parameters",
     HEAD "parameters { vector[2] b; real<lower=0> s; }\ntransformed parameters { vector[N] mu = "
          "b[1] + x * b[2]; "
          "// the mean; with a brace }\n}\nmodel {\n  target += normal_lpdf(y | mu, s);\n}",
     "b", 2, NULL, false, 1, "x .* (b[2] + b_2_sd * b_2_z)"},
    {"a column that is no vector", HEAD "parameters { real a; }\nmodel { y ~ normal(a, 1); }", "a",
     0, "male", false, 1, "a_male * to_vector(male)"},
    {"a group that the program does not declare",
     HEAD "parameters { real a; }\nmodel { y ~ normal(a, 1); }", "a", 0, "h", true, 1,
     "array[N] int<lower=1> h;"},
    {"a scale: heavier tails, then groups",
     HEAD "parameters { real a; real<lower=0> s; }\nmodel { s ~ normal(0, 1); y ~ normal(a, s); }",
     "s", 0, "g", true, 2, "normal(a, (s * exp(s_sd * s_z[g])))"},
    {"tails of a density by name",
     HEAD "parameters { real a; real<lower=0> s; }\nmodel { target += "
          "normal_lpdf(y | a, s); }",
     "s", 0, NULL, false, 1, "student_t_lpdf(y | s_nu, a, s)"},
    {"a quotient", HEAD "parameters { real<lower=0> k; }\nmodel { y ~ normal(k / 2, 1); }", "k", 0,
     "g", true, 1, "(k * exp(k_sd * k_z[g])) / 2"},
    {"over a vector", HEAD "parameters { real k; }\nmodel { y ~ normal(k ./ x, 1); }", "k", 0, "g",
     true, 1, "(k + k_sd * k_z[g]) ./ x"},
    {"not used",
     HEAD "parameters { real a; real b; }\nmodel { b ~ normal(0, 1); y ~ normal(a, 1); }", "b", 0,
     "g", true, 0, NULL},
};

static const Decl *parameter(const Model *m, const char *name, const Output **out) {
  for (int k = 0; k < m->noutputs; k++)
    if (!strcmp(m->outputs[k].name, name)) {
      *out = &m->outputs[k];
      return m->outputs[k].decl;
    }
  fail_msg("no parameter %s", name);
  return NULL;
}

/* Log likelihoods at the point where parameter k of the first program is 0.3 + 0.1 k, others zero.
 */
static double *pointwise(Ctx *c, const Model *m, size_t old) {
  double *theta = NEW_ARRAY(&c->arena, double, m->dim + 1),
         *each = NEW_ARRAY(&c->arena, double, m->n_obs);
  for (size_t k = 0; k < m->dim && k < old; k++) theta[k] = 0.3 + 0.1 * (double)k;
  density_once(c, m, NULL, 0, &(ModelPoints){theta, 1, m->dim, 1},
               &(DensityOut){.pointwise = each});
  return each;
}

TEST(larger_programs) {
  const Row *r = row;
  const Options *o = options_make(&c->arena);
  const Problem *p =
      problem_load(c, &(ProblemSource){.program = r->program, .data = DATA, .text = true}, o);
  const Output *out;
  Expansion found[MOST_EXPANSIONS];
  Varying v = {.name = r->element ? arena_format(&c->arena, "%s[%d]", r->variable, r->element)
                                  : r->variable,
               .variable = parameter(p->model, r->variable, &out),
               .element = r->element,
               .column = r->column,
               .groups = r->groups,
               .width = 0.7,
               .column_sd = 1};
  assert_int_equal(expand(c, p, &v, found), r->count);
  if (r->has && !strstr(found[r->count - 1].text, r->has)) fail_msg("%s", found[r->count - 1].text);
  const double *before = pointwise(c, p->model, p->model->dim);
  for (int k = 0; k < r->count; k++) {
    const Problem *q = problem_of_text(c, p, o, found[k].text);
    assert_int_equal(q->model->n_obs, p->model->n_obs);
    assert_true(*expand_changes(c, p->program, found[k].text));
    if (strstr(found[k].text, "student_t")) continue;
    const double *after = pointwise(c, q->model, p->model->dim);
    for (size_t i = 0; i < p->model->n_obs; i++) assert_close(after[i], before[i], 1e-14);
  }
}

/* With many degrees of freedom the heavier tails are normal again. */
TEST(tails) {
  const Options *o = options_make(&c->arena);
  const Row *r = &rows[8];
  const Problem *p =
      problem_load(c, &(ProblemSource){.program = r->program, .data = DATA, .text = true}, o);
  const Output *out;
  Expansion found[MOST_EXPANSIONS];
  Varying v = {.name = "s", .variable = parameter(p->model, "s", &out), .width = 1, .column_sd = 1};
  assert_int_equal(expand(c, p, &v, found), 1);
  const Model *m = problem_of_text(c, p, o, found[0].text)->model;
  double theta[3] = {0.2, 0.1, log(1e6)}, each[6]; /* they differ by about (y / s)^4 / nu */
  density_once(c, m, NULL, 0, &(ModelPoints){theta, 1, 3, 1}, &(DensityOut){.pointwise = each});
  double before[6];
  density_once(c, p->model, NULL, 0, &(ModelPoints){theta, 1, 2, 1},
               &(DensityOut){.pointwise = before});
  for (int k = 0; k < 6; k++) assert_close(each[k], before[k], 2e-5);
}

int main(void) {
  Suite s = {.n = 0};
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
    suite_add(&s, rows[k].name, larger_programs, &rows[k]);
  SUITE_ADD(&s, tails);
  return suite_run("expand", &s);
}
