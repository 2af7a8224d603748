/* test_programs.c: programs made at random. Whatever a program is, it has one log density:
 * evaluated for all draws at once with loops as vectors, with its loops run one by one, and draw by
 * draw. All three must agree in value, gradient and observations, prior and observations must add
 * up to the value, and the gradient must be that of finite differences.
 *
 * The generator below writes programs in which everything is allowed that real ones do: variables
 * filled by element, whole and in loops, running positions, conditions on data and on parameters,
 * functions with early returns, densities by ~ and by target, of scalars, vectors and rows, a
 * user's own. PVI_SEED=k runs the program of that seed alone and prints it; PVI_PROGRAMS=n runs n
 * of them.
 */
#include "evaluate.h"

#include <unistd.h>

#define DATA                                                                                       \
  "{\"N\": 5, \"M\": 3, \"x\": [0.5, -1, 2, 0.1, -0.3], \"y\": [1.2, 0.3, -0.7, 2.1, 0.4], "       \
  "\"g\": [1, 3, 2, 3, 1], \"h\": [2, 3, 1], \"z\": [0, 1, 1, 0, 1], \"k\": [3, 0, 2, 1, 2], "     \
  "\"Y\": [[0.1, 0.2, 0.3], [1.1, -0.4, 0.6], [0.7, 0.8, -0.9], [0.5, 1.5, -1], [0, 0.4, 2]]}"
#define HEAD                                                                                       \
  "data { int N; int M; vector[N] x; vector[N] y; array[N] int g; array[M] int h;\n"               \
  "  array[N] int z; array[N] int k; matrix[N, M] Y; }\n"                                          \
  "parameters { real c; vector[3] a; vector[N] u; real<lower=0> s; matrix[2, 3] W; }\n"

/* ---- writing programs ------------------------------------------------------------------------ */

enum { MOST_LOCALS = 40 };
typedef enum { REAL, VEC3, VECN } LocalType;

typedef struct {
  Text *out;
  uint64_t seed;
  int indent, names;
  LocalType type[MOST_LOCALS]; /* of the variables in scope: r1, v2, w3, ... */
  int name[MOST_LOCALS];
  bool frozen[MOST_LOCALS]; /* may be read only */
  int nlocals;
  int int_name[MOST_LOCALS], ints; /* int variables in scope, from 1 to 3: i4, ... */
  int loop_n, loop_m;              /* names of running loops over 1:N and 1:M, or 0 */
  bool conditions;                 /* on parameters: allowed, */
  bool met;                        /* and made */
  bool function; /* a body that may return; there are neither data nor parameters but q, p, i */
} Gen;

static int pick(Gen *g, int n) { return (int)uniform(&g->seed, 0, n); }
static bool flip(Gen *g, double p) { return uniform(&g->seed, 0, 1) < p; }
static void put(Gen *g, const char *s) { text_puts(g->out, s); }
static void line(Gen *g) {
  put(g, "\n");
  for (int k = 0; k < g->indent; k++) put(g, "  ");
}

static const char local_letters[] = "rvw";
static void put_local(Gen *g, int k) {
  text_printf(g->out, "%c%d", local_letters[g->type[k]], g->name[k]);
}

/* A variable of the type, that may be changed if `change`; -1: there is none. */
static int find_local(Gen *g, LocalType t, bool change) {
  int found = -1, seen = 0;
  for (int k = 0; k < g->nlocals; k++)
    if (g->type[k] == t && !(change && g->frozen[k]) && pick(g, ++seen) == 0) found = k;
  return found;
}

/* A number from 1 to N, or to 3. */
static void index_n(Gen *g) {
  int how = pick(g, 5);
  if (g->loop_n && how < 3) {
    text_printf(g->out, how == 2 ? "%s + 1 - n%d" : "%.0sn%d", "N", g->loop_n);
  } else {
    text_printf(g->out, "%d", 1 + pick(g, 5));
  }
}

static void index_3(Gen *g) {
  int how = pick(g, 6);
  if (g->loop_m && how < 3) {
    text_printf(g->out, how == 2 && !g->function ? "h[m%d]" : "m%d", g->loop_m);
  } else if (how == 3 && !g->function) {
    put(g, "g["), index_n(g), put(g, "]");
  } else if (how == 4 && (g->function || g->ints)) {
    if (g->function)
      put(g, "i");
    else
      text_printf(g->out, "i%d", g->int_name[pick(g, g->ints)]);
  } else {
    text_printf(g->out, "%d", 1 + pick(g, 3));
  }
}

static void real_expr(Gen *g, int depth);

static void condition(Gen *g, bool data) {
  if (!data && g->conditions) {
    g->met = true;
    real_expr(g, 1);
    put(g, flip(g, 0.5) ? " > " : " < ");
    text_printf(g->out, "%.2f", uniform(&g->seed, -0.5, 0.5));
  } else if (g->function) {
    put(g, flip(g, 0.5) ? "i > 1" : "i == 2");
  } else {
    int how = pick(g, 3);
    put(g, how == 0 ? "z[" : how == 1 ? "k[" : "x[");
    index_n(g);
    put(g, how == 0 ? "] == 1" : how == 1 ? "] > 1" : "] > 0");
  }
}

/* A part whose place or size may be another one in every iteration. */
static void part(Gen *g) {
  const char *v = g->function ? "q" : "a";
  switch (pick(g, g->function ? 4 : 6)) {
  case 0: text_printf(g->out, "sum(head(%s, ", v), index_3(g), put(g, "))"); break;
  case 1: text_printf(g->out, "sum(tail(%s, ", v), index_3(g), put(g, "))"); break;
  case 2: text_printf(g->out, "sum(%s[", v), index_3(g), put(g, " : 3])"); break;
  case 3: text_printf(g->out, "segment(%s, ", v), index_3(g), put(g, ", 1)[1]"); break;
  case 4: put(g, "sum(col(W, "), index_3(g), put(g, "))"); break;
  default: put(g, "sum(sub_row(W, 2, 1, "), index_3(g), put(g, "))");
  }
}

static void leaf(Gen *g) {
  int local = find_local(g, REAL, false), v = find_local(g, VEC3, false),
      w = find_local(g, VECN, false);
  switch (pick(g, 10)) {
  case 0: text_printf(g->out, "%.2f", uniform(&g->seed, -1, 1)); break;
  case 1: put(g, g->function ? "p" : "c"); break;
  case 2: put(g, g->function ? "q[" : "a["), index_3(g), put(g, "]"); break;
  case 3:
    if (local < 0) {
      put(g, "0.3");
      break;
    }
    put_local(g, local);
    break;
  case 4:
    if (v < 0) {
      put(g, g->function ? "p" : "s");
      break;
    }
    put_local(g, v), put(g, "["), index_3(g), put(g, "]");
    break;
  case 5:
    if (w < 0 || g->function) {
      put(g, "0.7");
      break;
    }
    put_local(g, w), put(g, "["), index_n(g), put(g, "]");
    break;
  case 6:
    put(g, g->function ? "sum(q)" : "W[");
    if (!g->function) text_printf(g->out, "%d, ", 1 + pick(g, 2)), index_3(g), put(g, "]");
    break;
  case 7: part(g); break;
  default:
    if (g->function) {
      put(g, "p * q[1]");
    } else {
      put(g, flip(g, 0.5) ? "u[" : "x["), index_n(g), put(g, "]");
    }
  }
}

static void call(Gen *g) {
  static const char *const functions[] = {"tanh(", "inv_logit(", "sin(", "atan(", "Phi("};
  put(g, functions[pick(g, 5)]);
  real_expr(g, 1);
  put(g, ")");
}

static void real_expr(Gen *g, int depth) {
  int how = depth ? pick(g, 9) : 0;
  if (how < 3) {
    leaf(g);
  } else if (how < 5) {
    put(g, "("), real_expr(g, depth - 1), put(g, flip(g, 0.5) ? " + " : " - ");
    real_expr(g, depth - 1), put(g, ")");
  } else if (how == 5) {
    real_expr(g, depth - 1), put(g, " * "), real_expr(g, 0);
  } else if (how == 6) {
    call(g);
  } else if (how == 7) {
    put(g, "("), condition(g, flip(g, 0.6)), put(g, " ? ");
    real_expr(g, depth - 1), put(g, " : "), real_expr(g, depth - 1), put(g, ")");
  } else if (!g->function) {
    text_printf(g->out, "f%d(", 1 + pick(g, 2));
    real_expr(g, 0);
    int v = find_local(g, VEC3, false);
    put(g, ", ");
    if (v >= 0 && flip(g, 0.5))
      put_local(g, v);
    else
      put(g, "a");
    put(g, ", "), index_3(g), put(g, ")");
  } else {
    put(g, "log1p_exp("), real_expr(g, 0), put(g, ")");
  }
}

static void vec3_expr(Gen *g) {
  int v = find_local(g, VEC3, false);
  switch (pick(g, 5)) {
  case 0: put(g, "["), real_expr(g, 1), put(g, ", "), real_expr(g, 1), put(g, ", 0.2]'"); break;
  case 1:
    if (v >= 0) {
      put_local(g, v), put(g, " * 0.5");
      break;
    }
    put(g, g->function ? "0.5 * q" : "0.5 * a");
    break;
  case 2: put(g, "rep_vector("), real_expr(g, 1), put(g, ", 3)"); break;
  case 3: put(g, "tanh("), put(g, g->function ? "q" : "W[2]'"), put(g, ")"); break;
  default: put(g, g->function ? "q" : "a"), put(g, " + "), real_expr(g, 1);
  }
}

static void vecn_expr(Gen *g) {
  int w = find_local(g, VECN, false);
  switch (pick(g, 5)) {
  case 0: put(g, "u .* x"); break;
  case 1: put(g, "a[g] * "), real_expr(g, 0); break;
  case 2:
    if (w >= 0) {
      put(g, "tanh("), put_local(g, w), put(g, ")");
      break;
    }
    put(g, "0.3 * x");
    break;
  case 3: put(g, "Y * a + "), real_expr(g, 0); break;
  default: put(g, "rep_vector("), real_expr(g, 1), put(g, ", N)");
  }
}

static void statements(Gen *g, int depth, int count);

static int new_local(Gen *g, LocalType t, bool frozen) {
  if (g->nlocals == MOST_LOCALS) return -1;
  g->type[g->nlocals] = t;
  g->name[g->nlocals] = ++g->names;
  g->frozen[g->nlocals] = frozen;
  return g->nlocals;
}

static void declare(Gen *g) {
  LocalType t = (LocalType)pick(g, g->function ? 2 : 3);
  int k = new_local(g, t, false);
  if (k < 0) return;
  line(g);
  put(g, t == REAL ? "real " : t == VEC3 ? "vector[3] " : "vector[N] ");
  put_local(g, k), put(g, " = ");
  if (t == REAL)
    put(g, "tanh("), real_expr(g, 2), put(g, ")");
  else if (t == VEC3)
    vec3_expr(g);
  else
    vecn_expr(g);
  put(g, ";");
  g->nlocals++;
}

static void assign(Gen *g) {
  LocalType t = (LocalType)pick(g, g->function ? 2 : 3);
  int k = find_local(g, t, true);
  if (k < 0) {
    declare(g);
    return;
  }
  line(g);
  put_local(g, k);
  bool element = t != REAL && flip(g, 0.7);
  if (element) put(g, "["), (t == VEC3 ? index_3 : index_n)(g), put(g, "]");
  put(g, flip(g, 0.3) ? " += " : " = ");
  if (t == REAL || element)
    put(g, "tanh("), real_expr(g, 2), put(g, ")");
  else if (t == VEC3)
    vec3_expr(g);
  else
    vecn_expr(g);
  put(g, ";");
}

/* A block in braces with a scope of its own. */
static void block(Gen *g, int depth, int count) {
  int locals = g->nlocals, ints = g->ints;
  put(g, "{");
  g->indent++;
  statements(g, depth, count);
  g->indent--;
  line(g), put(g, "}");
  g->nlocals = locals;
  g->ints = ints;
}

static void loop(Gen *g, int depth) {
  bool over_n = !g->function && flip(g, 0.6);
  int *running = over_n ? &g->loop_n : &g->loop_m, outer = *running, name = ++g->names;
  line(g);
  text_printf(g->out, over_n ? "for (n%d in 1:N) " : "for (m%d in 1:3) ", name);
  *running = name;
  block(g, depth - 1, 1 + pick(g, 3));
  *running = outer;
}

static void branch(Gen *g, int depth) {
  line(g), put(g, "if ("), condition(g, flip(g, 0.6)), put(g, ") ");
  block(g, depth - 1, 1 + pick(g, 2));
  if (flip(g, 0.5)) put(g, " else "), block(g, depth - 1, 1 + pick(g, 2));
}

/* An int that is used as an index, and changed. */
static void integer(Gen *g) {
  line(g);
  if (g->ints && flip(g, 0.4)) {
    int k = g->int_name[pick(g, g->ints)];
    text_printf(g->out, "i%d = 1 + i%d %% 3;", k, k);
  } else if (g->ints < MOST_LOCALS) {
    text_printf(g->out, "int i%d = ", ++g->names);
    index_3(g), put(g, ";");
    g->int_name[g->ints++] = g->names;
  }
}

/* Matrices and arrays that are filled in pieces, and used at once. */
static void pieces(Gen *g) {
  int k = ++g->names;
  line(g);
  switch (pick(g, 4)) {
  case 0:
    text_printf(g->out, "{ matrix[2, 3] A%d = W; A%d[", k, k);
    text_printf(g->out, "%d, ", 1 + pick(g, 2));
    index_3(g), put(g, "] = tanh("), real_expr(g, 1);
    text_printf(g->out, "); A%d[2] = [0.1, c, a[1]]; target += normal_lpdf(A%d * a | 0, 2); }", k,
                k);
    break;
  case 1:
    text_printf(g->out, "{ array[2] vector[3] A%d = {a, ", k), vec3_expr(g);
    text_printf(g->out, "}; A%d[1][", k), index_3(g), put(g, "] += tanh("), real_expr(g, 1);
    text_printf(g->out, "); A%d[2, 1] = A%d[1, 3]; target += -dot_self(A%d[1] - A%d[2]); }", k, k,
                k, k);
    break;
  case 2:
    text_printf(g->out, "{ vector[N] o%d = y; o%d[{1, 3}] = u[{1, 3}]; ", k, k);
    text_printf(g->out, flip(g, 0.5) ? "o%d ~ normal(" : "for (j in 1:N) o%d[j] ~ normal(", k);
    real_expr(g, 1), put(g, ", s); }");
    break;
  default:
    text_printf(g->out, "for (e%d in x) target += normal_lpdf(", k);
    real_expr(g, 1);
    text_printf(g->out, " | e%d, 1);", k);
  }
}

/* A position that runs through x, two elements at a time. */
static void segments(Gen *g) {
  int name = ++g->names, v = find_local(g, VEC3, false);
  line(g);
  text_printf(g->out, "{ int pos%d = 1; for (j%d in 1:2) { ", name, name);
  text_printf(g->out, "target += normal_lpdf(segment(%s, pos%d, 2) | ", flip(g, 0.5) ? "y" : "u",
              name);
  if (v >= 0)
    put_local(g, v), put(g, "[1:2]");
  else
    put(g, "[c, 0.1]'");
  text_printf(g->out, ", s); pos%d += 2; } }", name);
}

/* The same by a while loop that ends by data. */
static void countdown(Gen *g) {
  int name = ++g->names;
  line(g);
  text_printf(g->out,
              "{ int left%d = 3; real r%d = 0.1; while (left%d > 0) { r%d += a[left%d] * 0.5; ",
              name, name, name, name, name);
  text_printf(g->out, "left%d -= 1; } target += -square(r%d); }", name, name);
}

static void increment(Gen *g) {
  int w = find_local(g, VECN, false);
  line(g);
  if (g->loop_n && g->loop_m && flip(g, 0.3)) {
    text_printf(g->out, "Y[n%d, m%d] ~ normal(", g->loop_n, g->loop_m);
    real_expr(g, 1), put(g, ", s);");
    return;
  }
  switch (pick(g, 16)) {
  case 14:
    put(g, "y["), index_n(g), put(g, "] ~ one("), real_expr(g, 1), put(g, ", "), index_3(g);
    put(g, ");");
    break;
  case 15:
    put(g, "target += one_lpdf(y["), index_n(g), put(g, "] | "), real_expr(g, 1), put(g, ", ");
    index_3(g), put(g, ");");
    break;
  case 11:
    put(g, "Y[ : , "), index_3(g), put(g, "] ~ normal("), vecn_expr(g), put(g, ", s);");
    break;
  case 12: put(g, "y - c * x ~ normal("), real_expr(g, 1), put(g, ", s);"); break;
  case 13: put(g, "add_lp("), real_expr(g, 1), put(g, ", y, "), index_3(g), put(g, ");"); break;
  case 0: put(g, "y["), index_n(g), put(g, "] ~ normal("), real_expr(g, 2), put(g, ", s);"); break;
  case 1: put(g, "y ~ normal("), vecn_expr(g), put(g, ", s);"); break;
  case 2:
    put(g, "k["), index_n(g), put(g, "] ~ poisson_log("), real_expr(g, 1), put(g, ");");
    break;
  case 3: put(g, "Y["), index_n(g), put(g, "] ~ normal(("), vec3_expr(g), put(g, ")', s);"); break;
  case 4: put(g, "target += normal_lpdf(a | "), real_expr(g, 1), put(g, ", 1);"); break;
  case 5: put(g, "target += -square("), real_expr(g, 1), put(g, ");"); break;
  case 6:
    put(g, "target += log_mix(0.3, normal_lpdf(y["), index_n(g), put(g, "] | "), real_expr(g, 1);
    put(g, ", s), normal_lpdf(y["), index_n(g), put(g, "] | 0, 1));");
    break;
  case 7:
    put(g, "target += "), real_expr(g, 0), put(g, " + normal_lpdf(y["), index_n(g);
    put(g, "] | "), real_expr(g, 1), put(g, ", s);");
    break;
  case 8:
    put(g, "y ~ mine(");
    if (w >= 0)
      put_local(g, w);
    else
      put(g, "u");
    put(g, ", s);");
    break;
  case 9:
    put(g, "target += normal_lccdf(y["), index_n(g), put(g, "] | "), real_expr(g, 1),
        put(g, ", s);");
    break;
  default: put(g, "u["), index_n(g), put(g, "] ~ normal("), real_expr(g, 1), put(g, ", 2);");
  }
}

static void statement(Gen *g, int depth) {
  int how = pick(g, 12);
  bool nested = depth > 0;
  if (how < 3) {
    declare(g);
  } else if (how < 5) {
    assign(g);
  } else if (how < 7 && nested) {
    loop(g, depth);
  } else if (how == 7 && nested) {
    branch(g, depth);
  } else if (g->function) {
    line(g);
    if (how == 8 && g->loop_m) {
      put(g, "if ("), condition(g, flip(g, 0.5));
      put(g, flip(g, 0.5) ? ") continue;" : ") break;");
    } else if (how == 9) {
      put(g, "if ("), condition(g, flip(g, 0.5)), put(g, ") return "), real_expr(g, 1), put(g, ";");
    } else {
      assign(g);
    }
  } else if (how == 11 && flip(g, 0.7)) {
    if (flip(g, 0.4))
      integer(g);
    else
      pieces(g);
  } else if (how == 10 && flip(g, 0.3) && g->indent > 1 && (g->loop_n || g->loop_m)) {
    line(g), put(g, "if ("), condition(g, flip(g, 0.5));
    put(g, flip(g, 0.5) ? ") continue;" : ") break;");
  } else if (how == 8) {
    segments(g);
  } else if (how == 9) {
    countdown(g);
  } else {
    increment(g);
  }
}

static void statements(Gen *g, int depth, int count) {
  for (int k = 0; k < count; k++) statement(g, depth);
}

static void function(Gen *g, int k) {
  text_printf(g->out, "  real f%d(real p, vector q, int i) ", k);
  g->function = true;
  g->indent = 1;
  put(g, "{");
  g->indent++;
  statements(g, 2, 1 + pick(g, 4));
  line(g), put(g, "return "), real_expr(g, 2), put(g, ";");
  g->indent = 1;
  line(g), put(g, "}\n");
  g->function = false;
  g->nlocals = 0;
}

/* Of three ways to write one density the generator takes one. */
static void own_density(Gen *g) {
  static const char *const bodies[] = {
      "return normal_lpdf(v | m, d);",
      "real lp = 0; for (n in 1:rows(v)) lp += normal_lpdf(v[n] | m[n], d); return lp;",
      "vector[rows(v)] lp; for (n in 1:rows(v)) lp[n] = normal_lpdf(v[n] | m[n], d); return "
      "sum(lp);",
      "real lp = -rows(v) * log(d); for (n in 1:rows(v)) lp -= 0.5 * square((v[n] - m[n]) / d); "
      "return lp - 0.5 * rows(v) * log(2 * pi());",
  };
  static const char *const scalars[] = {
      "if (i == 1) return normal_lpdf(v | m, 1); else if (i == 2) return -square(v - m); "
      "return normal_lpdf(v | m, 2) - 0.5 * m;",
      "real lp = 0; if (i > 1) { if (v > 0.35) return bernoulli_logit_lpmf(1 | m); lp += m; } "
      "lp += student_t_lpdf(v | 3, m, 1) + bernoulli_logit_lpmf(0 | m); return lp;",
      "for (j in 1:3) { if (j == i) return normal_lpdf(v | m, j); } return -1;",
  };
  text_printf(g->out, "  real mine_lpdf(vector v, vector m, real d) { %s }\n", bodies[pick(g, 4)]);
  text_printf(g->out, "  real one_lpdf(real v, real m, int i) { %s%s }\n",
              g->conditions && flip(g, 0.3) ? "if (m > 0.3) return -m; " : "", scalars[pick(g, 3)]);
  put(g, "  void add_lp(real p, vector v, int i) { if (i == 2) return; target += -square(p); "
         "v[i] ~ normal(p, 1); }\n");
}

typedef struct {
  const char *text;
  bool conditional; /* on parameters somewhere */
} Program_;

/* Transformed parameters, filled by element, which the model may read. */
static void transformed(Gen *g) {
  int v = new_local(g, VEC3, true);
  g->nlocals++;
  int w = new_local(g, VECN, true);
  g->nlocals++;
  put(g, "transformed parameters {\n  vector[3] "), put_local(g, v), put(g, " = "),
      put(g, "a;\n  vector[N] ");
  put_local(g, w), put(g, ";\n  for (n in 1:N) { ");
  put_local(g, w), put(g, "[n] = c * x[n]; ");
  put_local(g, v),
      put(g, flip(g, 0.5) ? "[g[n]] += 0.1 * u[n]; }\n" : "[1 + n % 3] = a[g[n]] * x[n]; }\n");
  put(g, "}\n");
}

static Program_ write_program(Ctx *c, uint64_t seed) {
  Text t = text_make(&c->arena);
  Gen g = {.out = &t, .seed = seed * 7919, .conditions = seed % 3 == 0};
  put(&g, "functions {\n");
  function(&g, 1), function(&g, 2), own_density(&g);
  put(&g, "}\n" HEAD);
  g.indent = 1;
  if (flip(&g, 0.4)) transformed(&g);
  put(&g, "model {");
  g.indent = 1;
  statements(&g, 3, 4 + pick(&g, 6));
  put(&g, "\n  a ~ normal(0, 1); u ~ normal(0, 1); c ~ normal(0, 1); s ~ normal(0, 1);\n");
  put(&g, "  to_vector(W) ~ normal(0, 1);\n}\n");
  return (Program_){t.s, g.met};
}

/* ---- laws ------------------------------------------------------------------------------------ */

static const Model *model_with(Ctx *c, const char *text, ModelOptions o) {
  Program *p = stan_parse_text(c, "random.stan", text, strlen(text), NULL);
  if (!c->nerrors) stan_check(c, p);
  if (c->nerrors) ctx_jump(c, PVI_PROGRAM);
  return model_make(c, p, data_read_text(c, "random.json", DATA, NULL), &o);
}

static void compare(const char *how, const DensityAt *d, const DensityAt *e, bool pointwise) {
  const double tolerance = 1e-10;
  if (!(distance(d->lp, e->lp) <= tolerance)) fail_msg("%s: %.17g, not %.17g", how, e->lp, d->lp);
  for (size_t k = 0; k < d->dim; k++)
    if (!(distance(d->grad[k], e->grad[k]) <= tolerance))
      fail_msg("%s: derivative %zu is %.17g, not %.17g", how, k + 1, e->grad[k], d->grad[k]);
  if (d->n_obs != e->n_obs || !pointwise) return;
  for (size_t k = 0; k < d->n_obs; k++)
    if (!(distance(d->pointwise[k], e->pointwise[k]) <= tolerance))
      fail_msg("%s: observation %zu is %.17g, not %.17g", how, k + 1, e->pointwise[k],
               d->pointwise[k]);
}

static void adds_up(const DensityAt *d) {
  double sum = d->prior + d->jacobian, most = fabs(sum);
  for (size_t k = 0; k < d->n_obs; k++) sum += d->pointwise[k], most += fabs(d->pointwise[k]);
  if (!(fabs(sum - d->lp) <= 1e-12 * fmax(1, most)))
    fail_msg("prior and observations add up to %.17g, not %.17g", sum, d->lp);
}

static void check_program(Ctx *c, const Program_ *p) {
  const Model *all = model_with(c, p->text, (ModelOptions){.nobserve = 0}),
              *unrolled = model_with(c, p->text, (ModelOptions){.unroll = true}),
              *by_draw = model_with(c, p->text, (ModelOptions){.by_draw = true});
  assert_true(by_draw->by_draw != NULL);
  if (!p->conditional) assert_true(all->by_draw == NULL); /* an index that some draws change */
  /* where the other side of a condition is never taken its observations are there all the same */
  if (all->n_obs != unrolled->n_obs && !p->conditional)
    fail_msg("%zu observations, one by one %zu", all->n_obs, unrolled->n_obs);
  if (!p->conditional) assert_int_equal(all->n_obs, by_draw->n_obs);
  for (uint64_t seed = 1; seed <= 2; seed++) {
    double *u = test_point(c, all->dim, seed, 1);
    DensityAt d = density(c, all, u), e = density(c, unrolled, u), f = density(c, by_draw, u);
    assert_true(isfinite(d.lp));
    adds_up(&d);
    adds_up(&e);
    adds_up(&f);
    compare("one by one", &d, &e, true);
    compare("draw by draw", &d, &f, !p->conditional);
    if (!p->conditional) expect_gradient(c, all, u, &d, 1e-6);
  }
}

static void check_seed(Ctx *c, uint64_t seed, bool show) {
  Program_ p = write_program(c, seed);
  if (show) printf("%s", p.text);
  fflush(stdout);
  check_program(c, &p);
}

/* Programs are checked a few per test, so that a failure says where to look. */
typedef struct {
  uint64_t first, count;
  char name[40];
} Batch;

TEST(batch) {
  const Batch *b = row;
  for (volatile uint64_t k = b->first; k < b->first + b->count; k++) {
    Ctx own;
    ctx_init(&own);
    print_message("# PVI_SEED=%llu\n", (unsigned long long)k);
    jmp_buf here;
    if (setjmp(here)) {
      ctx_print(&own, stdout);
      fail_msg("PVI_SEED=%llu stops", (unsigned long long)k);
    }
    own.trap = &here;
    check_seed(&own, k, false);
    ctx_free(&own);
  }
}

int main(void) {
  enum { EACH = 25, MOST = 400 };
  static Suite suite;
  static Batch batches[MOST];
  const char *one = getenv("PVI_SEED"), *many = getenv("PVI_PROGRAMS");
  if (one) {
    Ctx c;
    ctx_init(&c);
    jmp_buf here;
    if (!setjmp(here)) {
      c.trap = &here;
      check_seed(&c, strtoull(one, NULL, 10), true);
    }
    ctx_print(&c, stdout);
    return c.nerrors > 0;
  }
  size_t n = many ? strtoull(many, NULL, 10) / EACH : 12;
  for (size_t k = 0; k < n && k < MOST; k++) {
    batches[k] = (Batch){1 + EACH * k, EACH, ""};
    snprintf(batches[k].name, sizeof batches[k].name, "programs from %zu on", 1 + EACH * k);
    suite_add(&suite, batches[k].name, batch, &batches[k]);
  }
  return suite_run("programs", &suite);
}
