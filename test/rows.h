/* rows.h: calls of builtins, made from their rows in functions.def and dists.def, for tests of all
 * of them.
 *
 *   Rows      the parsed signatures of all rows
 *   RowCall   one call: a row, an alternative of it, types and sizes of its arguments
 *
 * row_choose takes types and sizes as the signature says; sizes may then be changed to try what
 * must be refused. Random numbers are those of splitmix64.
 */
#ifndef PVI_TEST_ROWS_H
#define PVI_TEST_ROWS_H

#include "testing.h"

#include "stan/stan_int.h"

/* ---- random numbers -------------------------------------------------------------------------- */

typedef struct {
  uint64_t state;
} Dice;

UNUSED static size_t below(Dice *d, size_t n) { return (size_t)uniform(&d->state, 0, (double)n); }
UNUSED static bool chance(Dice *d, double p) { return uniform(&d->state, 0, 1) < p; }

/* ---- rows ------------------------------------------------------------------------------------ */

/* A builtin under one of its names: a function, or a function of a distribution. */
typedef struct {
  bool is_dist;
  FunId fun;
  DistId dist;
  DistFun distfun;
  const Sig *sigs;
  int skip; /* arguments of the signature that are not there: a generator has no outcome */
} Row;

typedef struct {
  Row *at;
  size_t n, cap;
  Program program; /* one that calls them all */
} Rows;

static const struct {
  DistFun fun;
  unsigned flags;
} row_functions[] = {
    {DF_LPDF, PDF | PMF}, {DF_CDF, CDF}, {DF_LCDF, LCDF}, {DF_LCCDF, LCCDF}, {DF_RNG, RNG}};

static bool row_is_complex(const Pattern *p) {
  if (p->kind == PAT_TUPLE)
    for (int k = 0; k < p->fun->nargs; k++)
      if (row_is_complex(p->fun->args[k])) return true;
  if (p->kind == PAT_VARIABLE)
    return p->var == VAR_CMAP || p->var == VAR_CBOX || p->var == VAR_CVEC;
  return p->kind == PAT_TYPE && (p->type == TY_COMPLEX || p->type >= TY_COMPLEX_VECTOR);
}

/* The alternatives of an argument that are not complex: how many, and number k of them. */
static int row_count(const Pattern *p) {
  int n = 0;
  for (; p; p = p->other) n += !row_is_complex(p);
  return n;
}

static const Pattern *row_alternative(const Pattern *p, size_t k) {
  for (;; p = p->other)
    if (!row_is_complex(p) && k-- == 0) return p;
}

static bool row_sig_is_complex(const Sig *s) {
  bool any = row_is_complex(s->result);
  for (int k = 0; k < s->nargs; k++) any |= !row_count(s->args[k]);
  return any;
}

/* Has a row a signature without complex numbers? */
static bool row_is_real(const Sig *s) {
  while (s && row_sig_is_complex(s)) s = s->next;
  return s != NULL;
}

/* All that can be called with real numbers. */
UNUSED static Rows rows_all(Ctx *c) {
  Checker *k = NEW(&c->arena, Checker);
  Rows rows = {0};
  k->c = c;
  rows.program.sigs = &k->sigs;
  for (int f = 0; f < FUN_COUNT; f++) {
    Row r = {.fun = (FunId)f, .sigs = sig_function(k, (FunId)f)};
    if (row_is_real(r.sigs)) PUSH(&c->arena, rows.at, rows.n, rows.cap, r);
  }
  for (int d = 0; d < DIST_COUNT; d++)
    for (size_t i = 0; i < sizeof row_functions / sizeof *row_functions; i++) {
      if (!(stan_dist_flags((DistId)d) & row_functions[i].flags)) continue;
      Row r = {.is_dist = true, .dist = (DistId)d, .distfun = row_functions[i].fun};
      r.sigs = sig_density(k, (DistId)d);
      if (r.distfun == DF_RNG && k->sigs.rngs[d])
        r.sigs = k->sigs.rngs[d];
      else
        r.skip = r.distfun == DF_RNG;
      PUSH(&c->arena, rows.at, rows.n, rows.cap, r);
    }
  return rows;
}

UNUSED static const char *row_name(Ctx *c, const Row *r) {
  static const char *const ends[] = {[DF_LPDF] = "_lpdf",
                                     [DF_CDF] = "_cdf",
                                     [DF_LCDF] = "_lcdf",
                                     [DF_LCCDF] = "_lccdf",
                                     [DF_RNG] = "_rng"};
  if (!r->is_dist) return stan_fun_names[r->fun];
  bool mass = r->distfun == DF_LPDF && (stan_dist_flags(r->dist) & PMF);
  return arena_format(&c->arena, "%s%s", stan_dist_names[r->dist],
                      mass ? "_lpmf" : ends[r->distfun]);
}

/* ---- calls ----------------------------------------------------------------------------------- */

enum { ROW_DIMS = 16, ROW_ARGS = 16 };

typedef struct {
  const Pattern *pattern;
  TypeKind kind; /* TY_FUNCTION: one of the program's functions */
  int array_dims, ndims;
  int32_t dims[ROW_DIMS];
  bool data; /* must not depend on parameters */
} RowArg;

typedef struct {
  const Row *row;
  const Sig *sig;
  int n;
  RowArg args[ROW_ARGS];
  int32_t letters[26]; /* sizes */
  RowArg words[VAR_COUNT];
  bool bound[VAR_COUNT];
} RowCall;

/* What a word stands for in this call. */
static RowArg row_word(Dice *d, Variable v) {
  static const TypeKind maps[] = {TY_REAL, TY_REAL, TY_VECTOR, TY_ROW_VECTOR, TY_MATRIX},
                        boxes[] = {TY_VECTOR, TY_ROW_VECTOR, TY_MATRIX},
                        any[] = {TY_INT, TY_REAL, TY_VECTOR, TY_ROW_VECTOR, TY_MATRIX};
  RowArg a = {0};
  switch (v) {
  case VAR_MAP: a.kind = maps[below(d, 5)]; break;
  case VAR_IMAP: a.kind = TY_INT; break;
  case VAR_BOX: a.kind = boxes[below(d, 3)]; break;
  case VAR_VEC: a.kind = boxes[below(d, 2)]; break;
  default: a.kind = any[below(d, 5)]; break;
  }
  bool arrays = v == VAR_MAP || v == VAR_IMAP || v == VAR_T;
  a.array_dims = arrays ? (int)below(d, a.kind == TY_MATRIX ? 2 : 3) : 0;
  a.ndims = a.array_dims + type_own_dims(a.kind);
  return a;
}

/* Sizes are small; nothing and one are common, since they are special. */
static int32_t row_size(Dice *d) { return (int32_t[]){0, 1, 1, 2, 2, 2, 3, 3}[below(d, 8)]; }

static int32_t row_sized(const RowCall *c, const Size *z) {
  int32_t a = c->letters[z->a - 'a'], b = z->b >= 'a' ? c->letters[z->b - 'a'] : z->b - '0';
  return z->sign == '+' ? a + b : z->sign == 'm' ? (a < b ? a : b) : a;
}

/* The words of a call, with the same sizes wherever they stand. */
static void row_bind_words(Dice *d, RowCall *c) {
  for (int v = 0; v < VAR_COUNT; v++) {
    RowArg *w = &c->words[v];
    *w = row_word(d, (Variable)v);
    for (int k = 0; k < w->ndims; k++) w->dims[k] = row_size(d);
  }
  RowArg *map = &c->words[VAR_MAP], *imap = &c->words[VAR_IMAP];
  bool both = false, one = false;
  for (int k = 0; k < c->sig->nargs; k++) {
    both |= c->sig->args[k]->kind == PAT_VARIABLE && c->sig->args[k]->var == VAR_MAP;
    one |= c->sig->args[k]->kind == PAT_VARIABLE && c->sig->args[k]->var == VAR_IMAP;
  }
  if (!both || !one) return;
  imap->array_dims = imap->ndims = map->ndims;
  memcpy(imap->dims, map->dims, sizeof imap->dims);
}

static RowArg row_arg(Dice *d, RowCall *c, const Pattern *p) {
  p = row_alternative(p, below(d, (size_t)row_count(p)));
  RowArg a = {.pattern = p, .data = p->data, .array_dims = p->dims == ANY_DIMS ? 0 : p->dims};
  if (p->kind == PAT_FUNCTION) {
    a.kind = TY_FUNCTION;
    return a;
  }
  const RowArg *w = p->kind == PAT_VARIABLE ? &c->words[p->var] : NULL;
  bool repeated = w && (p->var == VAR_MAP || p->var == VAR_IMAP) && c->n + c->sig->nargs > 1 &&
                  c->sig->nargs > 1 && chance(d, 0.3);
  a.kind = !w ? p->type : repeated ? (p->var == VAR_IMAP ? TY_INT : TY_REAL) : w->kind;
  if (w && !repeated) a.array_dims += w->array_dims;
  a.ndims = a.array_dims + type_own_dims(a.kind);
  for (int k = 0; k < a.ndims; k++) {
    int own = a.ndims - (w && !repeated ? w->ndims : 0); /* dimensions before those of the word */
    const Size *z = k < p->nsizes ? &p->sizes[k] : NULL;
    a.dims[k] = z && z->a ? row_sized(c, z) : k >= own ? w->dims[k - own] : row_size(d);
  }
  if (w && w->kind == TY_INT && !repeated) a.kind = TY_INT;
  return a;
}

/* A call of the row by the given alternative, with sizes that fit. */
UNUSED static RowCall row_choose(Dice *d, const Row *r, const Sig *s) {
  RowCall c = {.row = r, .sig = s};
  for (int k = 0; k < 26; k++) c.letters[k] = row_size(d);
  row_bind_words(d, &c);
  for (int k = r->skip; k < s->nargs; k++) c.args[c.n++] = row_arg(d, &c, s->args[k]);
  return c;
}

/* What is wrong with the sizes of a call, or NULL. values: those of its ints, or NULL. */
UNUSED static const char *row_fault(Ctx *c, const Rows *rows, const RowCall *call,
                                    const double *values) {
  SizedArg sized[ROW_ARGS];
  const Row *r = call->row;
  for (int k = 0; k < call->n; k++) {
    const RowArg *a = &call->args[k];
    bool number = values && a->kind == TY_INT && !a->ndims;
    sized[k] = (SizedArg){a->kind, a->array_dims, a->ndims, a->dims, number ? &values[k] : NULL};
  }
  return r->is_dist
             ? stan_dist_sizes(&rows->program, r->dist, r->distfun, sized, call->n, &c->arena)
             : stan_function_sizes(&rows->program, r->fun, sized, call->n, &c->arena);
}

UNUSED static void row_print_type(Text *t, const RowArg *a) {
  static const char *const names[] = {[TY_INT] = "int",
                                      [TY_REAL] = "real",
                                      [TY_VECTOR] = "vector",
                                      [TY_ROW_VECTOR] = "row_vector",
                                      [TY_MATRIX] = "matrix"};
  for (int k = 0; k < a->array_dims; k++) text_printf(t, "%s%d", k ? ", " : "array[", a->dims[k]);
  text_printf(t, "%s%s", a->array_dims ? "] " : "", names[a->kind]);
  for (int k = a->array_dims; k < a->ndims; k++)
    text_printf(t, "%s%d", k > a->array_dims ? ", " : "[", a->dims[k]);
  if (a->ndims > a->array_dims) text_puts(t, "]");
}

#endif
