/* fuzz_types.c: fuzz_types PROGRAMS SEED [NAME]: random programs that call every builtin, or the
 * one named, with arguments of all types that its row allows, and of sizes that fit or do not (0,
 * 1, unequal): numbers, parameters, or variables some elements of which are parameters; vectorized
 * or in a loop; in transformed data, in the model and in generated quantities. Each is loaded, its
 * density evaluated, its gradient compared with differences, its outputs computed.
 *
 * A program may be refused, with a place. It must not end the process, be heard of by a sanitizer,
 * take longer than LIMIT, have a gradient that is not its density's, or refuse sizes that fit.
 * Programs run in processes of BATCH each, so that all failures are found in one run. Prints what
 * failed, with the program, and counts; the exit status is 0 when nothing failed. */
#include "evaluate.h"
#include "rows.h"

#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>

enum { BATCH = 100, LIMIT = 10 /* seconds a program */, MOST_SHOWN = 40 };

/* ---- what arguments are like ----------------------------------------------------------------- */

/* The words of dists.def; see there. */
typedef enum {
  ANYTHING,
  NUMBER,
  FINITE,
  POSITIVE,
  NONNEGATIVE,
  NATURAL,
  UNIT,
  BINARY,
  TRIALS,
  CATEGORY,
  CUT,
  /* and of ours */
  SIMPLEX,
  ORDERED,
  COVARIANCE,
  FACTOR,
} Demand;

#define SUPPORT(...)                                                                               \
  { __VA_ARGS__ }
static const Demand demands[DIST_COUNT][ROW_ARGS] = {
#define DIST(id, signature, flags, support, code) [DIST_##id] = support,
#include "stan/dists.def"
#undef DIST
};

typedef enum { DATA, PARAMETER, MIXED } Origin;

typedef struct {
  RowArg type;
  Demand demand;
  Origin origin;
  bool looped;   /* an array of as many as there are iterations */
  int32_t value; /* of an int that is a size */
  bool is_size;
} Argument;

typedef struct {
  Ctx *c;
  Dice *dice;
  RowCall call;
  Argument args[ROW_ARGS];
  const Rows *rows;
  bool spoilt;       /* a size was changed */
  const char *fault; /* what is wrong with the sizes, or NULL */
  bool in_data, in_model, in_outputs, tilde, truncated;
  int32_t iterations; /* -1: no loop */
  bool extra;         /* the function argument takes one more number */
  bool strange;       /* some numbers are so large or small that differences are lost in rounding */
  Text stan, json;
} Maker;

static bool is_ode(const Row *r) {
  return !r->is_dist && (strstr(stan_fun_names[r->fun], "ode_") == stan_fun_names[r->fun] ||
                         strstr(stan_fun_names[r->fun], "integrate_ode"));
}

static bool is_dae(const Row *r) {
  return !r->is_dist && !strncmp(stan_fun_names[r->fun], "dae", strlen("dae"));
}

static Demand demand_of(Maker *m, int k) {
  const Row *r = m->call.row;
  const RowArg *a = &m->call.args[k];
  Dice *d = m->dice;
  bool square = a->kind == TY_MATRIX && a->dims[a->ndims - 2] == a->dims[a->ndims - 1];
  if (is_ode(r) && k == 3) return ORDERED;
  if (is_dae(r) && k == 4) return ORDERED;
  if (square && chance(d, 0.8)) return chance(d, 0.5) ? COVARIANCE : FACTOR;
  if (r->is_dist) {
    Demand demand = demands[r->dist][k + r->skip];
    bool whole = a->kind == TY_VECTOR && demand == UNIT;
    return whole && chance(d, 0.7) ? SIMPLEX : chance(d, 0.95) ? demand : ANYTHING;
  }
  static const Demand often[] = {NUMBER, NUMBER, POSITIVE, UNIT, UNIT, SIMPLEX, ORDERED};
  return often[below(d, a->kind == TY_VECTOR ? 7 : 5)];
}

static bool is_real(const RowArg *a) { return a->kind != TY_INT && a->kind != TY_FUNCTION; }

static bool is_empty(const RowArg *a) {
  for (int k = 0; k < a->ndims; k++)
    if (!a->dims[k]) return true;
  return false;
}

static Origin origin_of(Maker *m, const RowArg *a) {
  if (!is_real(a) || a->data || m->in_data) return DATA;
  Origin s = (Origin[]){DATA, PARAMETER, PARAMETER, MIXED}[below(m->dice, 4)];
  return s == MIXED && (is_empty(a) || !a->ndims) ? PARAMETER : s;
}

/* One size of one argument becomes another. */
static void spoil_sizes(Maker *m) {
  m->spoilt = true;
  for (int tries = 0; tries < 8; tries++) {
    RowArg *a = &m->call.args[below(m->dice, (size_t)m->call.n)];
    if (!a->ndims) continue;
    a->dims[below(m->dice, (size_t)a->ndims)] = row_size(m->dice);
    return;
  }
}

static void choose_places(Maker *m) {
  Dice *d = m->dice;
  const Row *r = m->call.row;
  bool rng = (r->is_dist && r->distfun == DF_RNG) || (!r->is_dist && r->fun == FUN_hmm_latent_rng);
  m->in_data = chance(d, rng ? 0.5 : 0.2);
  m->in_model = !rng && chance(d, 0.85);
  m->in_outputs = (rng && !m->in_data) || chance(d, 0.4);
  m->tilde = r->is_dist && r->distfun == DF_LPDF && chance(d, 0.5);
  m->truncated =
      m->tilde && chance(d, 0.3) && (stan_dist_flags(r->dist) & (LCDF | LCCDF)) == (LCDF | LCCDF);
  m->iterations = chance(d, 0.4) ? row_size(d) : -1;
}

static void choose(Maker *m, const Row *r) {
  const Sig *sigs[32];
  size_t n = 0;
  for (const Sig *s = r->sigs; s; s = s->next)
    if (!row_sig_is_complex(s)) sigs[n++] = s;
  const Sig *s = sigs[below(m->dice, n)];
  m->call = row_choose(m->dice, r, s);
  m->extra = s->rest && chance(m->dice, 0.5);
  choose_places(m);
  if (m->call.n && chance(m->dice, 0.25)) spoil_sizes(m);
  for (int k = 0; k < m->call.n; k++) {
    Argument *a = &m->args[k];
    const Size *name = &m->call.args[k].pattern->value;
    *a = (Argument){.type = m->call.args[k], .demand = demand_of(m, k)};
    a->origin = origin_of(m, &a->type);
    a->is_size = name->a != 0;
    a->value = a->is_size ? m->call.letters[name->a - 'a'] : 0;
    a->looped =
        m->iterations >= 0 && !a->is_size && a->type.kind != TY_FUNCTION && chance(m->dice, 0.6);
  }
  double values[ROW_ARGS];
  for (int k = 0; k < m->call.n; k++) values[k] = m->args[k].is_size ? m->args[k].value : -1;
  m->fault = row_fault(m->c, m->rows, &m->call, values);
}

static const char *bounds_of(Demand demand) {
  switch (demand) {
  case POSITIVE:
  case NONNEGATIVE: return "<lower=0>";
  case UNIT:
  case SIMPLEX: return "<lower=0, upper=1>";
  default: return "";
  }
}

/* ---- numbers --------------------------------------------------------------------------------- */

static double an_int(Maker *m, Demand demand) {
  static const double strange[] = {-1, 7, 1000, 1000000, 2147483647, -2147483647};
  Dice *d = m->dice;
  if (chance(d, 0.04)) {
    m->strange = true;
    return strange[below(d, 6)];
  }
  switch (demand) {
  case BINARY: return (double)below(d, 2);
  case NATURAL: return 1 + (double)below(d, 3);
  case CATEGORY:
  case CUT: return 1 + (double)below(d, chance(d, 0.9) ? 1 : 3);
  case TRIALS: return (double)below(d, 3);
  default: return (double)below(d, 4);
  }
}

static double a_real(Maker *m, Demand demand) {
  Dice *d = m->dice;
  static const double strange[] = {0,     1,     -1,    0.5,      2,         1e-300,
                                   1e300, -1e10, 1e-10, INFINITY, -INFINITY, NAN};
  if (chance(d, 0.06)) {
    double x = strange[below(d, chance(d, 0.7) ? 5 : 12)];
    m->strange |= !(fabs(x) < 1e9) || fabs(x) < 1e-9 || (*bounds_of(demand) && (x <= 0 || x >= 1));
    return x;
  }
  double u = uniform(&d->state, 0, 1);
  switch (demand) {
  case POSITIVE:
  case NONNEGATIVE: return 0.2 + 3 * u;
  case UNIT:
  case SIMPLEX: return 0.05 + 0.9 * u;
  default: return 4 * u - 2;
  }
}

/* A matrix of n x n numbers: symmetric and positive definite, or its factor. */
static double matrix_element(Demand demand, int32_t i, int32_t j) {
  if (demand == FACTOR) return i < j ? 0 : i == j ? 1 + 0.2 * i : 0.3 - 0.2 * (i - j);
  return i == j ? 1.5 + 0.1 * i : 0.4 / (1 + i + j);
}

/* Element e of the last vector or matrix, `width` wide. */
static double number(Maker *m, const Argument *a, int32_t e, int32_t width) {
  if (a->is_size) return a->value;
  if (a->type.kind == TY_INT) return an_int(m, a->demand);
  if (a->demand == COVARIANCE || a->demand == FACTOR)
    return matrix_element(a->demand, e / width, e % width);
  if (a->demand == SIMPLEX) return 1.0 / width;
  if (a->demand == ORDERED) return 1.1 + 0.3 * e;
  return a_real(m, a->demand);
}

static void print_number(Text *t, double x) {
  if (isnan(x))
    text_puts(t, "\"NaN\"");
  else if (isinf(x))
    text_puts(t, x < 0 ? "\"-Infinity\"" : "\"Infinity\"");
  else
    text_printf(t, "%.17g", x);
}

/* The nest of the dimensions from `at` on; e counts the elements of the last vector or matrix. */
static void print_nest(Maker *m, const Argument *a, const int32_t *dims, int ndims, int at,
                       int32_t *e) {
  Text *t = &m->json;
  int own = type_own_dims(a->type.kind), inner = own ? own : 1;
  if (ndims - at == inner) *e = 0;
  if (at == ndims) {
    print_number(t, number(m, a, (*e)++, ndims ? dims[ndims - 1] : 1));
    return;
  }
  text_puts(t, "[");
  for (int32_t k = 0; k < dims[at]; k++) {
    if (k) text_puts(t, ", ");
    print_nest(m, a, dims, ndims, at + 1, e);
  }
  text_puts(t, "]");
}

/* With the iterations as its first dimension. */
static RowArg whole_type(const Maker *m, const Argument *a) {
  RowArg w = a->type;
  if (!a->looped) return w;
  memmove(w.dims + 1, w.dims, sizeof w.dims - sizeof *w.dims);
  w.dims[0] = m->iterations;
  w.array_dims++, w.ndims++;
  return w;
}

/* ---- the program ----------------------------------------------------------------------------- */

/* fold(x): a number that every element of x has a part in. */
static void print_folds(Text *t) {
  static const char *const kinds[] = {"real", "vector", "row_vector", "matrix"};
  text_puts(t, "  real fold(real x) { return x; }\n");
  for (int dims = 0; dims < 7; dims++)
    for (int k = 0; k < 4; k++) {
      if (!dims && !k) continue;
      text_printf(t, "  real fold(%s%.*s%s%s x) { real s = 0; for (i in 1:%s(x)) ",
                  dims ? "array[" : "", dims ? dims - 1 : 0, ",,,,,,", dims ? "] " : "", kinds[k],
                  !dims && k == 3 ? "rows" : "size");
      text_puts(t, "s += (0.5 + i % 3) * fold(x[i]); return s; }\n");
    }
}

/* The function that is handed to a builtin, for every kind of it. */
static void print_function(Maker *m) {
  Text *t = &m->stan;
  const char *name = stan_fun_names[m->call.row->fun], *more = m->extra ? ", real a" : "";
  const char *by = m->extra ? "a" : "0.5", *old = "data array[] real xr, data array[] int xi) {";
  if (!strncmp(name, "integrate_ode", strlen("integrate_ode")))
    text_printf(
        t,
        "  array[] real f(real t, array[] real y, array[] real th, %s"
        " array[size(y)] real d; for (i in 1:size(y)) d[i] = -0.5 * y[i] + t; return d; }\n",
        old);
  else if (is_ode(m->call.row))
    text_printf(t, "  vector f(real t, vector y%s) { return -%s * y + t; }\n", more, by);
  else if (!strncmp(name, "algebra", strlen("algebra")))
    text_printf(t, "  vector f(vector x, vector th, %s return x + 0.1 * x .* x .* x - 0.5; }\n",
                old);
  else if (!strncmp(name, "solve", strlen("solve")))
    text_printf(t, "  vector f(vector x%s) { return x + 0.1 * x .* x .* x - %s; }\n", more, by);
  else if (!strncmp(name, "dae", strlen("dae")))
    text_printf(t, "  vector f(real t, vector y, vector v%s) { return v + %s * y; }\n", more, by);
  else if (!strncmp(name, "integrate_1d_", strlen("integrate_1d_")))
    text_printf(t, "  real f(real x, real xc%s) { return exp(-x * x) * %s; }\n", more, by);
  else if (!strcmp(name, "integrate_1d"))
    text_printf(t, "  real f(real x, real xc, array[] real th, %s return exp(-x * x); }\n", old);
  else if (!strcmp(name, "map_rect"))
    text_printf(t, "  vector f(vector phi, vector th, %s return append_row(phi, th); }\n", old);
  else {
    RowArg slice = m->args[1].type;
    text_puts(t, "  real f(array[");
    for (int k = 1; k < slice.array_dims; k++) text_puts(t, ",");
    text_printf(t, "] %s x, int from, int to%s) { return fold(x) * %s; }\n",
                type_text(&m->c->arena, type_basic(slice.kind)), more, by);
  }
}

/* The word of a type by itself that a parameter of this demand has, of the size `last`; NULL. */
static const char *word_of(const RowArg *a, Demand demand) {
  int32_t last = a->ndims ? a->dims[a->ndims - 1] : 0;
  bool vector = a->kind == TY_VECTOR;
  switch (demand) {
  case SIMPLEX: return vector && last ? "simplex" : NULL;
  case ORDERED: return vector ? "ordered" : NULL;
  case COVARIANCE: return "cov_matrix";
  case FACTOR: return "cholesky_factor_cov";
  default: return NULL;
  }
}

static void print_parameter(Maker *m, const Argument *a, int k) {
  Text *t = &m->stan;
  RowArg w = whole_type(m, a), inner = w;
  const char *word = word_of(&w, a->demand);
  text_puts(t, "  ");
  for (int d = 0; d < w.array_dims; d++) text_printf(t, "%s%d", d ? ", " : "array[", w.dims[d]);
  if (w.array_dims) text_puts(t, "] ");
  inner.ndims -= w.array_dims, inner.array_dims = 0;
  memmove(inner.dims, w.dims + w.array_dims, sizeof w.dims - (size_t)w.array_dims * sizeof *w.dims);
  Text type = text_make(&m->c->arena);
  row_print_type(&type, &inner);
  size_t name = strcspn(type.s, "[");
  if (word)
    text_printf(t, "%s[%d]", word, inner.dims[0]);
  else
    text_printf(t, "%.*s%s%s", (int)name, type.s, bounds_of(a->demand), type.s + name);
  text_printf(t, " x%d;\n", k + 1);
}

static void print_declaration(Maker *m, const Argument *a, int k) {
  RowArg w = whole_type(m, a);
  text_puts(&m->stan, "  ");
  row_print_type(&m->stan, &w);
  text_printf(&m->stan, " x%d;\n", k + 1);
  text_printf(&m->json, "%s\"x%d\": ", m->json.n > 1 ? ",\n " : "", k + 1);
  print_nest(m, a, w.dims, w.ndims, 0, &(int32_t){0});
}

/* How a statement names argument k; `local`: variables that are partly parameters have a name of
 * their own. */
static void print_arg(Maker *m, int k, bool local) {
  const Argument *a = &m->args[k];
  if (a->type.kind == TY_FUNCTION)
    text_puts(&m->stan, "f");
  else
    text_printf(&m->stan, "%s%d%s", a->origin == MIXED && local ? "v" : "x", k + 1,
                a->looped ? "[i]" : "");
}

static void print_args(Maker *m, int from, bool local) {
  for (int k = from; k < m->call.n; k++) {
    if (k > from) text_puts(&m->stan, ", ");
    print_arg(m, k, local);
  }
  if (m->extra) text_puts(&m->stan, ", q");
}

static void print_call(Maker *m, bool local) {
  const Row *r = m->call.row;
  bool bar = r->is_dist && r->distfun != DF_RNG && m->call.n > 1;
  text_printf(&m->stan, "%s(", row_name(m->c, r));
  if (bar) {
    print_arg(m, 0, local);
    text_puts(&m->stan, " | ");
  }
  print_args(m, bar, local);
  text_puts(&m->stan, ")");
}

/* Adds what the call is worth to s. */
static void print_use(Maker *m, const char *s, bool local) {
  const Pattern *result = m->call.sig->result;
  int items = result->kind == PAT_TUPLE ? result->fun->nargs : 1;
  for (int k = 0; k < items; k++) {
    text_printf(&m->stan, "%s += fold(", s);
    print_call(m, local);
    if (result->kind == PAT_TUPLE) text_printf(&m->stan, ".%d", k + 1);
    text_puts(&m->stan, "); ");
  }
}

/* Where the row tells the size of the result, it is the one. */
static void print_result(Maker *m, bool local) {
  const Pattern *p = m->call.sig->result;
  RowArg a = {.kind = p->type, .array_dims = p->dims, .ndims = p->nsizes};
  bool told = !m->spoilt && !m->call.row->is_dist && p->kind == PAT_TYPE && p->nsizes > 0;
  if (!told || p->nsizes != p->dims + type_own_dims(p->type)) return;
  for (int k = 0; k < p->nsizes; k++) {
    if (!p->sizes[k].a) return;
    a.dims[k] = row_sized(&m->call, &p->sizes[k]);
  }
  row_print_type(&m->stan, &a);
  text_puts(&m->stan, " told = ");
  print_call(m, local);
  text_puts(&m->stan, "; ");
}

static void print_tilde(Maker *m) {
  print_arg(m, 0, true);
  text_printf(&m->stan, " ~ %s(", stan_dist_names[m->call.row->dist]);
  print_args(m, 1, true);
  text_puts(&m->stan, ")");
  if (m->truncated) {
    bool lower = chance(m->dice, 0.7), upper = !lower || chance(m->dice, 0.5);
    bool discrete = stan_dist_flags(m->call.row->dist) & PMF;
    text_printf(&m->stan, " T[%s, %s]",
                !lower     ? ""
                : discrete ? "0"
                           : "-0.5",
                !upper     ? ""
                : discrete ? "5"
                           : "3.5");
  }
  text_puts(&m->stan, "; ");
}

static void print_loop(Maker *m) {
  if (m->iterations >= 0) text_printf(&m->stan, "for (i in 1:%d) { ", m->iterations);
}

/* Variables some elements of which are parameters. */
static void print_mixed(Maker *m) {
  for (int k = 0; k < m->call.n; k++) {
    const Argument *a = &m->args[k];
    if (a->origin != MIXED) continue;
    RowArg w = whole_type(m, a);
    text_puts(&m->stan, "  ");
    row_print_type(&m->stan, &w);
    text_printf(&m->stan, " v%d = x%d;", k + 1, k + 1);
    if (!is_empty(&w)) {
      text_printf(&m->stan, " v%d[1", k + 1);
      for (int d = 1; d < w.ndims; d++) text_puts(&m->stan, ", 1");
      text_printf(&m->stan, "] = %s;", *bounds_of(a->demand) ? "u" : "q");
    }
    text_puts(&m->stan, "\n");
  }
}

static void print_block(Maker *m, const char *block, const char *s, bool local) {
  Text *t = &m->stan;
  text_printf(t, "%s {\n", block);
  if (local) print_mixed(m);
  if (strcmp(s, "target")) text_printf(t, "  real %s = 0;\n", s);
  text_puts(t, "  ");
  print_loop(m);
  text_puts(t, "{ ");
  print_result(m, local);
  if (m->tilde && local)
    print_tilde(m);
  else
    print_use(m, s, local);
  text_printf(t, "}%s\n", m->iterations >= 0 ? " }" : "");
  text_puts(t, "}\n");
}

static void print_program(Maker *m) {
  Text *t = &m->stan;
  bool function = m->call.n && m->args[0].type.kind == TY_FUNCTION;
  text_puts(t, "functions {\n");
  print_folds(t);
  if (function) print_function(m);
  text_puts(t, "}\ndata {\n");
  text_puts(&m->json, "{");
  for (int k = 0; k < m->call.n; k++)
    if (m->args[k].type.kind != TY_FUNCTION && m->args[k].origin != PARAMETER)
      print_declaration(m, &m->args[k], k);
  text_puts(&m->json, "}");
  if (m->in_data && m->extra) text_puts(t, "}\ntransformed data {\n  real q = 0.3;\n");
  text_puts(t, "}\n");
  if (m->in_data && !m->extra) print_block(m, "transformed data", "td", false);
  text_printf(t, "parameters {\n  real %s;\n  real<lower=0, upper=1> u;\n",
              m->in_data && m->extra ? "q0" : "q");
  for (int k = 0; k < m->call.n; k++)
    if (m->args[k].origin == PARAMETER) print_parameter(m, &m->args[k], k);
  text_puts(t, "}\n");
  if (m->in_model) print_block(m, "model", "target", true);
  if (m->in_outputs) print_block(m, "generated quantities", "gq", false);
}

/* ---- running --------------------------------------------------------------------------------- */

/* What a process of programs tells the one that waits for it. */
typedef struct {
  volatile size_t at; /* the program that runs */
  size_t made, gradients, refused, unsupported, failures;
} Tally;

static Tally *tally;

static void fail_program(const Maker *m, const char *why) {
  tally->failures++;
  printf("not ok - %s: %s\n%s%s\n", row_name(m->c, m->call.row), why, m->stan.s, m->json.s);
  fflush(stdout);
}

/* How well derivatives and differences agree: solvers have tolerances, which may be arguments, and
 * the tails of skew_normal are differences of much larger numbers. */
static double tolerance_of(const RowCall *call) {
  const Row *r = call->row;
  if (is_ode(r)) return call->n == (call->args[1].kind == TY_VECTOR ? 4 : 7) ? 1e-3 : INFINITY;
  return r->is_dist && r->dist == DIST_skew_normal ? INFINITY : 1e-5;
}

/* Is the derivative that of differences, for one of the steps, or where they go to? Larger ones may
 * meet a jump, smaller ones rounding. */
static bool agrees(Maker *maker, const Model *m, const double *u, size_t k, double slope,
                   double *other) {
  Ctx *c = maker->c;
  static const double steps[] = {1e-2, 1e-3, 1e-4, 1e-5, 1e-6};
  double error = INFINITY, tolerance = tolerance_of(&maker->call);
  for (size_t s = 0; s < 5; s++) {
    double *all = NEW_ARRAY(&c->arena, double, 4 * m->dim), h = steps[s] * fmax(1, fabs(u[k]));
    for (size_t p = 0; p < 4; p++) {
      memcpy(all + p * m->dim, u, m->dim * sizeof *u);
      all[p * m->dim + k] += h * (double[]){-2, -1, 1, 2}[p];
    }
    DensityAt *at = densities(c, m, all, 4);
    double f[4], size = 0;
    for (size_t p = 0; p < 4; p++) {
      f[p] = at[p].lp;
      if (!isfinite(f[p])) return true; /* on the edge of where it is defined */
      size = fmax(size, fabs(f[p]));
    }
    *other = difference(f, h);
    double now = fabs(slope - *other);
    if (now <= tolerance * fmax(1, fabs(*other)) + 1e-13 * size / h) return true;
    if (s > 1 && now < 1e-2 * error) return true;
    error = now;
  }
  return false;
}

/* Far from zero differences are lost in rounding. */
static void check_density(Maker *m, const Model *model) {
  bool far = chance(m->dice, 0.15);
  double *u = test_point(m->c, model->dim, m->dice->state, far ? 40 : 2);
  DensityAt d = density(m->c, model, u);
  if (!isfinite(d.lp) || far || m->strange) return;
  for (size_t k = 0; k < model->dim; k++) {
    double other = NAN;
    tally->gradients++;
    if (agrees(m, model, u, k, d.grad[k], &other)) continue;
    fail_program(m,
                 arena_format(&m->c->arena, "derivative %zu at %.17g is %.12g, not %.12g (lp %g)",
                              k + 1, u[k], d.grad[k], other, d.lp));
    return;
  }
}

/* A program that is refused, or has no generated quantities for a reason: was it right? */
static void judge(Maker *m, const Message *said) {
  const char *text = said ? said->text : "nothing said";
  tally->refused++;
  if (strstr(text, "not supported")) {
    tally->unsupported++;
    return;
  }
  bool sizes = strstr(text, "in size") || strstr(text, "same size") || strstr(text, "but must be ");
  if (!said || !said->loc.source)
    fail_program(m, arena_format(&m->c->arena, "no place: %s", text));
  else if (strstr(text, "cannot take") || strstr(text, "there is no function") ||
           strstr(text, "in assignment"))
    fail_program(m, text);
  else if (!m->fault && sizes)
    fail_program(m, arena_format(&m->c->arena, "sizes that fit: %s", text));
}

static const Message *last_message(const Ctx *c) {
  return c->nmessages ? &c->messages[c->nmessages - 1] : NULL;
}

static void run(Ctx *c, void *maker) {
  Maker *m = maker;
  const Model *model = model_of(c, m->stan.s, m->json.s);
  check_density(m, model);
  size_t columns = model_output_count(model);
  double *u = NEW_ARRAY(&c->arena, double, 3 * model->dim),
         *out = NEW_ARRAY(&c->arena, double, 3 * columns);
  for (size_t k = 0; k < 3 * model->dim; k++) u[k] = uniform(&m->dice->state, -1, 1);
  model_outputs(c, model, &(ModelPoints){u, 3, model->dim, 1}, 1, out);
  const Message *said = last_message(c);
  bool no_outputs = said && strstr(said->text, "no generated quantities");
  tally->made++;
  bool runs = m->iterations != 0 && (m->in_model || m->in_outputs || (m->in_data && !m->extra));
  if (no_outputs)
    judge(m, said);
  else if (m->fault && runs)
    fail_program(m, arena_format(&c->arena, "was not refused: %s", m->fault));
}

/* Few programs, too, are spread over all rows. */
static const Row *row_of(const Rows *rows, size_t number) {
  return &rows->at[number * 197 % rows->n];
}

static void one_program(const Rows *rows, size_t number, uint64_t seed, const char *only) {
  Ctx c;
  ctx_init(&c);
  Dice dice = {seed * 1000003 + number};
  const Row *r = row_of(rows, number);
  Maker m = {.c = &c, .dice = &dice, .rows = rows};
  m.stan = text_make(&c.arena), m.json = text_make(&c.arena);
  below(&dice, 2);
  if (!only || strstr(row_name(&c, r), only)) {
    choose(&m, r);
    print_program(&m);
    if (attempt(&c, run, &m) != PVI_OK) judge(&m, last_message(&c));
  }
  ctx_free(&c);
}

static void show_program(const Rows *rows, size_t number, uint64_t seed, const char *why) {
  Ctx c;
  ctx_init(&c);
  Dice dice = {seed * 1000003 + number};
  Maker m = {.c = &c, .dice = &dice, .rows = rows};
  m.stan = text_make(&c.arena), m.json = text_make(&c.arena);
  below(&dice, 2);
  choose(&m, row_of(rows, number));
  print_program(&m);
  fail_program(&m, arena_format(&c.arena, "program %zu: %s", number, why));
  ctx_free(&c);
}

/* Of the processor: other programs on the machine do not count. */
static void limit_time(long seconds) {
  setitimer(ITIMER_PROF, &(struct itimerval){.it_value = {.tv_sec = seconds}}, NULL);
}

/* The programs from `from` on in a process of their own; returns where to go on. */
static size_t batch(const Rows *rows, size_t from, size_t to, uint64_t seed, const char *only) {
  tally->at = from;
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    for (; tally->at < to; tally->at++) {
      limit_time(LIMIT);
      one_program(rows, tally->at, seed, only);
    }
    limit_time(0);
    fflush(stdout);
    exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  size_t at = tally->at;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return to;
  if (at >= to) {
    printf("not ok - programs %zu to %zu: memory is left over\n", from, to - 1);
    tally->failures++;
    return to;
  }
  bool late = WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF;
  show_program(rows, at, seed, late ? "it takes too long" : "the process ended");
  return at + 1;
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fputs("usage: fuzz_types PROGRAMS SEED [NAME]\n", stderr);
    return 2;
  }
  size_t n = strtoul(argv[1], NULL, 10), last = n;
  uint64_t seed = strtoull(argv[2], NULL, 10);
  const char *only = argc > 3 ? argv[3] : NULL;
  tally = mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  Ctx c;
  ctx_init(&c);
  Rows rows = rows_all(&c);
  for (size_t at = 0; at < last && tally->failures < MOST_SHOWN;)
    at = batch(&rows, at, at + BATCH < last ? at + BATCH : last, seed, only);
  printf("# %zu rows, %zu programs: %zu ran, %zu derivatives; %zu refused, %zu of them not "
         "supported\n",
         rows.n, n, tally->made, tally->gradients, tally->refused, tally->unsupported);
  printf("%s - programs of all types\n", tally->failures ? "not ok" : "ok");
  ctx_free(&c);
  return tally->failures > 0;
}
