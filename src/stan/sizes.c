/* sizes.c: do the sizes of a call's arguments fit the row of its builtin?
 *
 * What must be equal is named alike in the row (head of functions.def): in vector[m](matrix[m,n],
 * vector[n]) the first argument tells m and n, and the second must have n elements. Arguments of
 * one word (map, box, T) have the same sizes, unless they are single numbers. First every size
 * that is a letter is looked at, then those made of letters. What an empty array would hold has no
 * size. */
#include "stan/stan_int.h"

/* Where a letter got its value. */
typedef struct {
  bool known;
  long size;
  int arg, dim; /* dim -1: the value of an int */
} Bound;

typedef struct {
  const Pattern *patterns[MOST_SIZED];
  const SizedArg *args;
  int n;
  bool outcome; /* the first argument is the outcome of a distribution, the others parameters */
  Bound letters['z' - 'a' + 1];
  const char *fault; /* the first one found */
  Arena *arena;
} Fit;

/* ---- which of the alternatives is called ----------------------------------------------------- */

static bool kind_fits(TypeKind want, TypeKind have) {
  return want == have || (want == TY_REAL && have == TY_INT);
}

static bool variable_fits(Variable v, const SizedArg *x) {
  bool box = x->kind >= TY_VECTOR && x->kind <= TY_MATRIX;
  switch (v) {
  case VAR_MAP: return box || x->kind == TY_INT || x->kind == TY_REAL;
  case VAR_IMAP: return x->kind == TY_INT;
  case VAR_BOX: return box && !x->array_dims;
  case VAR_VEC: return box && x->kind != TY_MATRIX;
  case VAR_T: return true;
  default: return false;
  }
}

static bool pattern_fits(const Pattern *p, const SizedArg *x) {
  if (p->kind == PAT_FUNCTION) return x->kind == TY_FUNCTION;
  if (p->kind == PAT_VARIABLE) return x->array_dims >= p->dims && variable_fits(p->var, x);
  return (p->dims == ANY_DIMS || p->dims == x->array_dims) && kind_fits(p->type, x->kind);
}

/* The alternatives behind "/" of every argument, behind the first `skip` of the signature. */
static bool sig_fits(Fit *f, const Sig *s, int skip) {
  int fixed = s->nargs - skip;
  if (s->rest ? f->n < fixed : f->n != fixed) return false;
  if (f->n > fixed) f->n = fixed;
  for (int i = 0; i < f->n; i++) {
    const Pattern *p = s->args[i + skip];
    while (p && !pattern_fits(p, &f->args[i])) p = p->other;
    if (!p) return false;
    f->patterns[i] = p;
  }
  return true;
}

/* ---- messages -------------------------------------------------------------------------------- */

static const char *name_of(const Fit *f, int arg) {
  if (f->outcome && arg == 0) return "the outcome";
  return arena_format(f->arena, f->outcome ? "parameter %d" : "argument %d",
                      f->outcome ? arg : arg + 1);
}

/* "rows", "columns", "size", of a dimension of an argument */
static const char *part_of(const Fit *f, int arg, int dim) {
  const SizedArg *x = &f->args[arg];
  if (dim < 0) return "the value";
  if (x->kind == TY_MATRIX && dim >= x->array_dims)
    return dim == x->array_dims ? "rows" : "columns";
  return dim > 0 ? "the size of elements" : "the size";
}

static const char *shape_of(const Fit *f, int arg) {
  const SizedArg *x = &f->args[arg];
  Text t = text_make(f->arena);
  for (int d = 0; d < x->ndims; d++) text_printf(&t, "%s%d", d ? " x " : "", x->dims[d]);
  return t.s;
}

static bool is_whole(const Fit *f, int arg, int dim) { return dim == 0 && f->args[arg].ndims == 1; }

static void fault_unequal(Fit *f, int arg, int other) {
  f->fault =
      arena_format(f->arena, "%s has size %s, but %s has size %s; they must be the same size",
                   name_of(f, arg), shape_of(f, arg), name_of(f, other), shape_of(f, other));
}

/* The size at (arg, dim) is not that of the letter. */
static void fault_letter(Fit *f, const Bound *b, int arg, int dim) {
  if (is_whole(f, b->arg, b->dim) && is_whole(f, arg, dim)) {
    fault_unequal(f, b->arg, arg);
    return;
  }
  f->fault = arena_format(f->arena, "%s%s of %s (%ld) and %s of %s (%d) must match in size",
                          b->arg == arg ? "expecting a square matrix; " : "",
                          part_of(f, b->arg, b->dim), name_of(f, b->arg), b->size,
                          part_of(f, arg, dim), name_of(f, arg), f->args[arg].dims[dim]);
}

/* ---- letters --------------------------------------------------------------------------------- */

static Bound *letter(Fit *f, char c) { return &f->letters[c - 'a']; }

/* The size at a dimension, or the value of an int where dim is -1; -1: it is not known. */
static long size_at(const Fit *f, int arg, int dim) {
  const SizedArg *x = &f->args[arg];
  return dim >= 0 ? x->dims[dim] : x->value ? (long)*x->value : -1;
}

static void bind(Fit *f, const Size *z, int arg, int dim) {
  long size = size_at(f, arg, dim);
  if (!z->a || z->sign || size < 0 || f->fault) return;
  Bound *b = letter(f, z->a);
  if (!b->known)
    *b = (Bound){true, size, arg, dim};
  else if (b->size != size && dim >= 0)
    fault_letter(f, b, arg, dim);
}

/* What is made of letters; -1 where one of them is not known. */
static long computed(Fit *f, const Size *z) {
  const Bound *a = letter(f, z->a), *b = z->b >= 'a' ? letter(f, z->b) : NULL;
  if (!a->known || (b && !b->known)) return -1;
  long second = b ? b->size : z->b - '0';
  return z->sign == '+' ? a->size + second : a->size < second ? a->size : second;
}

static void check_computed(Fit *f, const Size *z, int arg, int dim) {
  long size = size_at(f, arg, dim), want = z->sign ? computed(f, z) : -1;
  if (f->fault || size < 0) return;
  if (want >= 0 && size != want)
    f->fault = arena_format(f->arena, "%s of %s is %ld, but must be %ld", part_of(f, arg, dim),
                            name_of(f, arg), size, want);
  else if (z->positive && size == 0)
    f->fault =
        arena_format(f->arena, "%s has size 0, but must have a non-zero size", name_of(f, arg));
}

typedef void Look(Fit *f, const Size *z, int arg, int dim);

/* Every size of every argument; those behind a dimension of an empty array are none. */
static void look_at_all(Fit *f, Look *look) {
  for (int i = 0; i < f->n; i++) {
    const Pattern *p = f->patterns[i];
    const SizedArg *x = &f->args[i];
    if (p->value.a) look(f, &p->value, i, -1);
    for (int d = 0; d < p->nsizes && d < x->ndims; d++) {
      look(f, &p->sizes[d], i, d);
      if (d < x->array_dims && x->dims[d] == 0) break;
    }
  }
}

/* ---- words ----------------------------------------------------------------------------------- */

/* Words whose containers are elements of one operation. */
static int group_of(Variable v) { return v == VAR_IMAP || v == VAR_CMAP ? VAR_MAP : (int)v; }

/* The dimensions that the word itself stands for; none where it is a number or what an empty array
 * would hold. */
static int own_dims(const Fit *f, int arg) {
  const SizedArg *x = &f->args[arg];
  int before = f->patterns[arg]->dims;
  for (int d = 0; d < before; d++)
    if (x->dims[d] == 0) return 0;
  return x->ndims - before;
}

static bool same_dims(const Fit *f, int arg, int other) {
  const SizedArg *x = &f->args[arg], *y = &f->args[other];
  int n = own_dims(f, arg), from = f->patterns[arg]->dims, to = f->patterns[other]->dims;
  if (n != own_dims(f, other)) return false;
  for (int d = 0; d < n; d++) {
    if (x->dims[from + d] != y->dims[to + d]) return false;
    bool empty = x->dims[from + d] == 0;
    if (empty && (from + d < x->array_dims || to + d < y->array_dims)) return true;
  }
  return true;
}

static void check_words(Fit *f) {
  int first[VAR_COUNT];
  for (int v = 0; v < VAR_COUNT; v++) first[v] = -1;
  for (int i = 0; i < f->n && !f->fault; i++) {
    if (f->patterns[i]->kind != PAT_VARIABLE || !own_dims(f, i)) continue;
    int *at = &first[group_of(f->patterns[i]->var)];
    if (*at < 0)
      *at = i;
    else if (!same_dims(f, *at, i))
      fault_unequal(f, *at, i);
  }
}

/* ---- calls ----------------------------------------------------------------------------------- */

static const char *check_call_sizes(Fit *f, const Sig *sigs, int skip) {
  int n = f->n;
  const Sig *s = sigs;
  for (; s; s = s->next, f->n = n)
    if (sig_fits(f, s, skip)) break;
  if (!s) return NULL;
  look_at_all(f, bind);
  if (!f->fault) check_words(f);
  if (!f->fault) look_at_all(f, check_computed);
  return f->fault;
}

const char *stan_function_sizes(const Program *p, FunId id, const SizedArg *args, int n, Arena *a) {
  Fit f = {.args = args, .n = n, .arena = a};
  return check_call_sizes(&f, p->sigs->functions[id], 0);
}

const char *stan_dist_sizes(const Program *p, DistId d, DistFun fun, const SizedArg *args, int n,
                            Arena *a) {
  Fit f = {.args = args, .n = n, .outcome = fun != DF_RNG, .arena = a};
  const Sig *own = fun == DF_RNG ? p->sigs->rngs[d] : NULL;
  return check_call_sizes(&f, own ? own : p->sigs->densities[d], fun == DF_RNG && !own);
}
