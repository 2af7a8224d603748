/* types.c: equality, promotion and the small facts about types. Promotion is int -> real ->
 * complex, and the same inside arrays, tuples and the containers' elements (vector ->
 * complex_vector). */
#include "stan/stan_int.h"

#include <string.h>

const Type *type_basic(TypeKind k) {
  static const Type basics[] = {
      {.kind = TY_ERROR},
      {.kind = TY_VOID},
      {.kind = TY_INT},
      {.kind = TY_REAL},
      {.kind = TY_COMPLEX},
      {.kind = TY_VECTOR},
      {.kind = TY_ROW_VECTOR},
      {.kind = TY_MATRIX},
      {.kind = TY_COMPLEX_VECTOR},
      {.kind = TY_COMPLEX_ROW_VECTOR},
      {.kind = TY_COMPLEX_MATRIX},
      {.kind = TY_TUPLE},
      {.kind = TY_FUNCTION},
      {.kind = TY_STRING},
  };
  return &basics[k];
}

const Type *type_array(Arena *a, const Type *of, int dims) {
  if (dims == 0 || of->kind == TY_ERROR) return of;
  Type *t = NEW(a, Type);
  *t = *of;
  t->array_dims += dims;
  return t;
}

const Type *type_element(Arena *a, const Type *t) { return type_array(a, t, -1); }

const Type *type_tuple(Arena *a, const Type **items, int n) {
  Type *t = NEW(a, Type);
  t->kind = TY_TUPLE;
  t->items = items;
  t->nitems = n;
  return t;
}

/* ---- facts ----------------------------------------------------------------------------------- */

bool type_is(const Type *t, TypeKind k) { return t->kind == k && t->array_dims == 0; }

bool type_is_int(const Type *t) {
  for (int k = 0; t->kind == TY_TUPLE && k < t->nitems; k++)
    if (!type_is_int(t->items[k])) return false;
  return t->kind == TY_INT || t->kind == TY_TUPLE;
}

bool type_is_scalar(const Type *t) { return type_is(t, TY_INT) || type_is(t, TY_REAL); }
bool type_is_error(const Type *t) { return t->kind == TY_ERROR; }

bool type_has_int(const Type *t) {
  for (int k = 0; t->kind == TY_TUPLE && k < t->nitems; k++)
    if (type_has_int(t->items[k])) return true;
  return t->kind == TY_INT;
}

int type_own_dims(TypeKind k) {
  switch (k) {
  case TY_VECTOR:
  case TY_ROW_VECTOR:
  case TY_COMPLEX_VECTOR:
  case TY_COMPLEX_ROW_VECTOR: return 1;
  case TY_MATRIX:
  case TY_COMPLEX_MATRIX: return 2;
  default: return 0;
  }
}

TypeKind type_row_kind(TypeKind matrix, bool column) {
  if (matrix == TY_MATRIX) return column ? TY_VECTOR : TY_ROW_VECTOR;
  return column ? TY_COMPLEX_VECTOR : TY_COMPLEX_ROW_VECTOR;
}

TypeKind type_scalar_kind(TypeKind k) {
  switch (k) {
  case TY_VECTOR:
  case TY_ROW_VECTOR:
  case TY_MATRIX: return TY_REAL;
  case TY_COMPLEX_VECTOR:
  case TY_COMPLEX_ROW_VECTOR:
  case TY_COMPLEX_MATRIX: return TY_COMPLEX;
  default: return k;
  }
}

TypeKind type_real_kind(TypeKind k) {
  if (k == TY_COMPLEX) return TY_REAL;
  return k >= TY_COMPLEX_VECTOR && k <= TY_COMPLEX_MATRIX
             ? (TypeKind)(k - TY_COMPLEX_VECTOR + TY_VECTOR)
             : k;
}

const char *type_text(Arena *a, const Type *t) {
  Text s = text_make(a);
  stan_print_type(&s, t);
  return s.s;
}

/* ---- equality and promotion ------------------------------------------------------------------ */

static bool same_items(const Type *a, const Type *b) {
  if (a->nitems != b->nitems) return false;
  for (int k = 0; k < a->nitems; k++)
    if (!type_equal(a->items[k], b->items[k])) return false;
  return true;
}

bool type_equal(const Type *a, const Type *b) {
  if (a == b) return true;
  if (a->kind != b->kind || a->array_dims != b->array_dims || !same_items(a, b)) return false;
  return a->kind != TY_FUNCTION || type_equal(a->result, b->result);
}

/* The number of steps from one kind to another, or -1. */
static int kind_promotions(TypeKind from, TypeKind to) {
  static const struct {
    TypeKind from, to;
    int steps;
  } rows[] = {
      {TY_INT, TY_REAL, 1},
      {TY_INT, TY_COMPLEX, 2},
      {TY_REAL, TY_COMPLEX, 1},
      {TY_VECTOR, TY_COMPLEX_VECTOR, 1},
      {TY_ROW_VECTOR, TY_COMPLEX_ROW_VECTOR, 1},
      {TY_MATRIX, TY_COMPLEX_MATRIX, 1},
  };
  if (from == to) return 0;
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
    if (rows[k].from == from && rows[k].to == to) return rows[k].steps;
  return -1;
}

int type_promotions(const Type *from, const Type *to) {
  if (type_is_error(from) || type_is_error(to) || type_equal(from, to)) return 0;
  if (from->array_dims != to->array_dims) return -1;
  if (from->kind != TY_TUPLE || to->kind != TY_TUPLE)
    return from->kind == to->kind ? -1 : kind_promotions(from->kind, to->kind);
  if (from->nitems != to->nitems) return -1;
  int sum = 0;
  for (int k = 0; k < from->nitems; k++) {
    int n = type_promotions(from->items[k], to->items[k]);
    if (n < 0) return -1;
    sum += n;
  }
  return sum;
}

static const Type *common_tuple(Arena *a, const Type *x, const Type *y) {
  if (x->nitems != y->nitems) return NULL;
  const Type **items = NEW_ARRAY(a, const Type *, x->nitems);
  for (int k = 0; k < x->nitems; k++)
    if (!(items[k] = type_common(a, x->items[k], y->items[k]))) return NULL;
  return type_array(a, type_tuple(a, items, x->nitems), x->array_dims);
}

const Type *type_common(Arena *a, const Type *x, const Type *y) {
  if (type_is_error(x) || type_is_error(y)) return type_basic(TY_ERROR);
  if (type_promotions(x, y) >= 0) return y;
  if (type_promotions(y, x) >= 0) return x;
  bool tuples = x->kind == TY_TUPLE && y->kind == TY_TUPLE && x->array_dims == y->array_dims;
  return tuples ? common_tuple(a, x, y) : NULL;
}

/* ---- constraints ----------------------------------------------------------------------------- */

static const struct {
  const char *name, *arguments[2];
  bool ints;
} constraints[CON_COUNT] = {
    [CON_NONE] = {"", {NULL, NULL}, true},
#define BRACKET(id, first, second, ints) [CON_##id] = {#id, {#first, #second}, ints},
#define TYPE_WORD(id, type, least, most, numbers) [CON_##id] = {#id, {NULL, NULL}, false},
#include "stan/constraints.def"
};

const char *stan_constraint_name(ConstraintKind k) { return constraints[k].name; }
const char *con_argument(ConstraintKind k, int argument) {
  return constraints[k].arguments[argument];
}
bool con_allows_int(ConstraintKind k) { return constraints[k].ints; }
