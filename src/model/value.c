/* value.c: Values: known numbers or graph elements, with or without an axis; taking, putting,
 * joining and mapping them. */
#include "model/eval.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static int32_t rows_of(const Axis *a) { return a ? a->rows : 1; }

int32_t value_total(const Value *v) { return rows_of(v->axis) * v->n; }

int32_t value_count(Eval *E, const Axis *axis, int64_t n) {
  int64_t total = rows_of(axis) * n;
  if (total <= MOST_ELEMENTS) return (int32_t)total;
  if (E->lift) lift_bail(E, "all its iterations together have too many elements");
  ctx_fail(E->ctx, PVI_PROGRAM, E->density, "a value of %lld elements is too large",
           (long long)total);
}

/* ---- making ---------------------------------------------------------------------------------- */

Value *value_shape(Eval *E, TypeKind kind, int array_dims, int ndims, const int32_t *dims) {
  Value *v = NEW(E->arena, Value);
  *v = (Value){.kind = kind, .array_dims = array_dims, .ndims = ndims, .n = 1, .node = NO_NODE};
  int64_t n = 1;
  for (int k = 0; k < ndims; k++) {
    v->dims[k] = dims[k];
    n *= dims[k];
    if (n > MOST_DECLARED)
      ctx_fail(E->ctx, PVI_DATA, E->density, "a variable or expression has more than %d elements",
               MOST_DECLARED);
  }
  v->n = (int32_t)n;
  return v;
}

Value *value_like(Eval *E, const Value *s) {
  return value_shape(E, s->kind, s->array_dims, s->ndims, s->dims);
}

/* All iterations together; one by one they may fit. */
static void check_rows(Eval *E, const Value *shape, const Axis *axis) {
  if ((int64_t)rows_of(axis) * shape->n <= MOST_DECLARED) return;
  if (E->lift) lift_bail(E, "its values are too large to hold those of all iterations");
  ctx_fail(E->ctx, PVI_DATA, NOWHERE, "an expression has more than %d elements", MOST_DECLARED);
}

Value *value_known(Eval *E, const Value *shape, const Axis *axis) {
  check_rows(E, shape, axis);
  Value *v = value_like(E, shape);
  v->known = true;
  v->axis = axis;
  v->v = NEW_ARRAY(E->arena, double, value_count(E, axis, v->n));
  return v;
}

static const Value scalar_real = {.kind = TY_REAL, .n = 1}, scalar_int = {.kind = TY_INT, .n = 1};

/* A number and its Value are one piece of memory. */
static Value *scalar(Eval *E, TypeKind kind, double x) {
  struct {
    Value value;
    double number;
  } *s = arena_alloc(E->arena, sizeof *s);
  s->number = x;
  s->value = (Value){.kind = kind, .n = 1, .known = true, .v = &s->number, .node = NO_NODE};
  return &s->value;
}

Value *value_real(Eval *E, double x) { return scalar(E, TY_REAL, x); }

Value *value_int(Eval *E, long x) { return scalar(E, TY_INT, (double)x); }

Value *value_vector(Eval *E, int32_t n) {
  return value_known(E, value_shape(E, TY_VECTOR, 0, 1, &n), NULL);
}

Value *value_of_node(Eval *E, const Value *shape, const Axis *axis, Node node) {
  const IrNode *x = ir_node(E->graph, node);
  if (x->op == IR_CONST) {
    Value *v = value_known(E, shape, axis);
    for (int32_t k = 0; k < value_total(v); k++) v->v[k] = x->u.values[x->n == 1 ? 0 : k];
    v->likelihood = x->likelihood;
    return v;
  }
  Value *v = value_like(E, shape);
  v->axis = axis;
  v->node = node;
  v->likelihood = x->likelihood;
  assert(ir_size(E->graph, node) == value_total(v));
  return v;
}

Value *value_reshape(Eval *E, Value *v, TypeKind kind, int array_dims, int ndims,
                     const int32_t *dims) {
  Value *shape = value_shape(E, kind, array_dims, ndims, dims);
  assert(shape->n == v->n);
  Value *r = NEW(E->arena, Value);
  *r = *v;
  v->shared = r->shared = true;
  r->kind = kind;
  r->array_dims = array_dims;
  r->ndims = ndims;
  memcpy(r->dims, shape->dims, sizeof r->dims);
  return r;
}

/* ---- elements -------------------------------------------------------------------------------- */

/* Element k in row `row` as a graph element. */
Pick value_pick(Eval *E, Value *v, int32_t row, int32_t k) {
  if (!v->axis) row = 0;
  if (v->known) return (Pick){ir_number(E->graph, v->v[row * v->n + k]), 0};
  if (v->node != NO_NODE) return (Pick){v->node, row * v->n + k};
  Ref r = v->refs[k];
  return (Pick){r.node, r.width ? row * r.width + r.elem : r.elem};
}

/* A gather by an index made for it: where Values live as long as the graph, the graph keeps it. */
static Node gather(Eval *E, Node a, const int32_t *index, int32_t n) {
  return (E->arena == E->graph->arena ? ir_gather_kept : ir_gather)(E->graph, a, index, n);
}

Node value_node(Eval *E, Value *v) {
  if (v->known) {
    bool keep = E->arena == E->graph->arena;
    v->shared |= keep;
    Node k = (keep ? ir_const_kept : ir_const)(E->graph, v->v, value_total(v));
    return v->likelihood ? ir_mark_likelihood(E->graph, k) : k;
  }
  if (v->node == NO_NODE) {
    int32_t total = value_total(v);
    Pick *picks = NEW_ARRAY(E->arena, Pick, total);
    for (int32_t r = 0; r < rows_of(v->axis); r++)
      for (int32_t k = 0; k < v->n; k++) picks[r * v->n + k] = value_pick(E, v, r, k);
    v->node = ir_pack(E->graph, picks, total);
    v->likelihood |= ir_node(E->graph, v->node)->likelihood;
    if (E->attempts) PUSH(E->arena, E->packed, E->npacked, E->cap_packed, v);
  }
  return v->node;
}

static bool number_at(const Graph *g, Node node, int32_t k, double *number) {
  const IrNode *x = ir_node(g, node);
  while (x->op == IR_GATHER || x->op == IR_PACK) {
    Pick p = x->op == IR_GATHER ? (Pick){x->args[0], x->u.index[k]} : x->u.picks[k];
    k = p.elem;
    x = ir_node(g, p.node);
  }
  if (x->op == IR_CONST) *number = x->u.values[k];
  return x->op == IR_CONST;
}

bool value_number_at(Eval *E, const Value *v, int32_t row, int32_t k, double *number) {
  Pick p = value_pick(E, (Value *)v, row, k);
  return number_at(E->graph, p.node, p.elem, number);
}

bool value_has_data(Eval *E, const Value *v) {
  if (v->known) return true;
  if (v->kind == TY_TUPLE) return false;
  for (int32_t r = 0; r < rows_of(v->axis); r++)
    for (int32_t k = 0; k < v->n; k++)
      if (value_number_at(E, v, r, k, &(double){0})) return true;
  return false;
}

/* As refs, one an element, so that single elements can be replaced. */
static void make_refs(Eval *E, Value *v) {
  if (!v->known && v->refs) {
    v->node = NO_NODE;
    return;
  }
  Ref *refs = NEW_ARRAY(E->arena, Ref, v->n);
  if (v->known && !v->axis) {
    for (int32_t k = 0; k < v->n; k++) { /* often all the same: not set yet */
      bool again = k && !memcmp(&v->v[k], &v->v[k - 1], sizeof *v->v);
      refs[k] = again ? refs[k - 1] : (Ref){ir_number(E->graph, v->v[k]), 0, 0};
    }
  } else {
    Node node = value_node(E, v);
    for (int32_t k = 0; k < v->n; k++) refs[k] = (Ref){node, k, v->axis ? v->n : 0};
  }
  v->known = false;
  v->v = NULL;
  v->refs = refs;
  v->node = NO_NODE;
}

void value_own(Eval *E, Value **v) {
  if (!(*v)->shared) return;
  Value *c = NEW(E->arena, Value);
  *c = **v;
  c->shared = false;
  if (c->known) {
    c->v = memcpy(NEW_ARRAY(E->arena, double, value_total(c)), c->v,
                  (size_t)value_total(c) * sizeof *c->v);
  } else if (c->refs) {
    c->refs = memcpy(NEW_ARRAY(E->arena, Ref, c->n), c->refs, (size_t)c->n * sizeof *c->refs);
  } else if (c->kind == TY_TUPLE) {
    c->items = NEW_ARRAY(E->arena, Value *, c->nitems);
    for (int k = 0; k < c->nitems; k++) {
      c->items[k] = (*v)->items[k];
      c->items[k]->shared = true;
    }
  }
  *v = c;
}

/* The row of `from` in which row r of `axis` lies. */
static int32_t ancestor_row(const Axis *axis, const Axis *from, int32_t r) {
  for (; axis && axis != from; axis = axis->parent) r = axis->parent_rows[r];
  return r;
}

static bool is_ancestor(const Axis *a, const Axis *of) {
  for (; of; of = of->parent)
    if (of == a) return true;
  return false;
}

Value *value_on_axis(Eval *E, Value *v, const Axis *axis) {
  if (!v->axis || v->axis == axis || v->kind == TY_TUPLE) return v;
  if (!is_ancestor(v->axis, axis)) lift_bail(E, "a value of a branch is used outside of it");
  int32_t *index = NEW_ARRAY(E->arena, int32_t, value_count(E, axis, v->n));
  for (int32_t r = 0; r < axis->rows; r++)
    for (int32_t k = 0; k < v->n; k++) index[r * v->n + k] = k;
  return value_take(E, v, v, axis, index);
}

static bool is_iota(const int32_t *index, int32_t n) {
  for (int32_t k = 0; k < n; k++)
    if (index[k] != k) return false;
  return true;
}

/* The same numbers, laid out in another shape. */
static Value *share_known(Eval *E, Value *v, const Value *shape, const Axis *axis) {
  Value *r = value_like(E, shape);
  r->known = r->shared = v->shared = true;
  r->axis = axis;
  r->v = v->v;
  r->likelihood = v->likelihood;
  return r;
}

Value *value_take(Eval *E, Value *v, const Value *shape, const Axis *axis, const int32_t *index) {
  const Axis *out =
      axis ? axis
           : v->axis; /* index per row of axis; without one the same index in all rows of v */
  int32_t rows = rows_of(out), n = shape->n, total = value_count(E, out, n);
  if (v->known && !v->axis && total == v->n && is_iota(index, v->n))
    return share_known(E, v, shape, out);
  if (v->known) {
    Value *r = value_known(E, shape, out);
    for (int32_t i = 0; i < rows; i++) {
      const double *from = v->v + (v->axis ? ancestor_row(out, v->axis, i) * v->n : 0);
      const int32_t *at = index + (axis ? i * n : 0);
      for (int32_t k = 0; k < n; k++) r->v[i * n + k] = from[at[k]];
    }
    r->likelihood = v->likelihood;
    return r;
  }
  if (v->node != NO_NODE) {
    int32_t *flat = NEW_ARRAY(E->arena, int32_t, total);
    for (int32_t i = 0; i < rows; i++) {
      int32_t base = v->axis ? ancestor_row(out, v->axis, i) * v->n : 0;
      for (int32_t k = 0; k < n; k++) flat[i * n + k] = base + index[(axis ? i * n : 0) + k];
    }
    return value_of_node(E, shape, out, gather(E, v->node, flat, total));
  }
  Pick *picks = NEW_ARRAY(E->arena, Pick, total);
  for (int32_t i = 0; i < rows; i++) {
    int32_t row = v->axis ? ancestor_row(out, v->axis, i) : 0;
    for (int32_t k = 0; k < n; k++)
      picks[i * n + k] = value_pick(E, v, row, index[(axis ? i * n : 0) + k]);
  }
  return value_of_node(E, shape, out, ir_pack(E->graph, picks, total));
}

Value *value_element(Eval *E, Value *v, int32_t k) {
  const Value *shape = v->kind == TY_INT ? &scalar_int : &scalar_real;
  return value_take(E, v, shape, NULL, &k);
}

Value *value_slice(Eval *E, Value *v, int32_t from, int32_t n) {
  int32_t *index = NEW_ARRAY(E->arena, int32_t, n);
  for (int32_t k = 0; k < n; k++) index[k] = from + k;
  return value_take(E, v, value_shape(E, TY_VECTOR, 0, 1, &n), NULL, index);
}

Value *value_take_or_zero(Eval *E, Value *v, const Value *shape, const int32_t *index) {
  int32_t n = v->n + 1;
  Value *all =
      value_join(E, (Value *[]){value_real(E, 0), v}, 2, value_shape(E, TY_VECTOR, 0, 1, &n));
  return value_take(E, all, shape, NULL, index);
}

Value *value_tuple(Eval *E, Value *const *items, int n) {
  Value *v = value_shape(E, TY_TUPLE, 0, 0, NULL);
  v->nitems = n;
  v->items = NEW_ARRAY(E->arena, Value *, n);
  for (int k = 0; k < n; k++) {
    v->items[k] = items[k];
    items[k]->shared = true;
  }
  return v;
}

/* ---- putting elements ------------------------------------------------------------------------ */

/* v with one row per iteration of axis. */
static void widen(Eval *E, Value *v, const Axis *axis) {
  if (v->axis == axis) return;
  assert(!v->axis);
  if (v->known) {
    double *wide = NEW_ARRAY(E->arena, double, value_count(E, axis, v->n));
    for (int32_t r = 0; r < axis->rows; r++)
      memcpy(wide + r * v->n, v->v, (size_t)v->n * sizeof *wide);
    v->v = wide;
  } else {
    make_refs(E, v);
  }
  v->axis = axis;
}

static const Axis *root_of(const Axis *a) {
  while (a->parent) a = a->parent;
  return a;
}

void value_spread(Eval *E, Value **v) {
  if ((*v)->axis || (*v)->kind == TY_TUPLE) return;
  value_own(E, v);
  widen(E, *v, root_of(E->axis));
}

/* The elements that are written, and in which rows. */
typedef struct {
  const Axis *index_axis; /* a row of the index per row of it; NULL: the same index in all */
  const int32_t *index;
  int32_t n;
  const Axis *axis; /* the rows; NULL: there are none */
} Places;

static const int32_t *places_in(const Places *p, int32_t row) {
  return p->index + (p->index_axis ? row * p->n : 0);
}

/* Element k of what is written; a scalar goes to every place. */
static int32_t source_of(const Value *from, int32_t k) { return from->n == 1 ? 0 : k; }

static void put_known(Value *t, const Places *p, const Value *from) {
  for (int32_t r = 0; r < rows_of(p->axis); r++) {
    const int32_t *at = places_in(p, r);
    double *to = t->v + (t->axis ? ancestor_row(p->axis, t->axis, r) * t->n : 0);
    const double *x = from->v + (from->axis ? r * from->n : 0);
    for (int32_t k = 0; k < p->n; k++) to[at[k]] = x[source_of(from, k)];
  }
}

/* Row by row where the index or the branch differs between rows: every element of every row is
 * named. */
static void put_rows(Eval *E, Value *t, const Places *p, Value *from) {
  int32_t total = value_total(t);
  Pick *picks = NEW_ARRAY(E->arena, Pick, total);
  for (int32_t r = 0; r < rows_of(t->axis); r++)
    for (int32_t k = 0; k < t->n; k++) picks[r * t->n + k] = value_pick(E, t, r, k);
  for (int32_t r = 0; r < rows_of(p->axis); r++) {
    int32_t row = t->axis ? ancestor_row(p->axis, t->axis, r) : 0;
    for (int32_t k = 0; k < p->n; k++)
      picks[row * t->n + places_in(p, r)[k]] = value_pick(E, from, r, source_of(from, k));
  }
  t->known = false;
  t->v = NULL;
  t->refs = NULL;
  t->node = ir_pack(E->graph, picks, total);
}

/* A target without rows: single elements are replaced; by those of all iterations where the index
 * has rows, by those of the only one otherwise. */
static void put_elements(Eval *E, Value *t, const Places *p, Value *from) {
  make_refs(E, t);
  for (int32_t r = 0; r < (p->index_axis ? p->axis->rows : 1); r++)
    for (int32_t k = 0; k < p->n; k++) {
      Pick x = value_pick(E, from, r, source_of(from, k));
      t->refs[places_in(p, r)[k]] = (Ref){x.node, x.elem, 0};
    }
}

/* The same elements in all rows of the target. */
static void put_columns(Eval *E, Value *t, const Places *p, Value *from) {
  make_refs(E, t);
  if (from->known || from->node != NO_NODE) {
    Node node = value_node(E, from);
    for (int32_t k = 0; k < p->n; k++)
      t->refs[p->index[k]] = (Ref){node, source_of(from, k), from->axis ? from->n : 0};
  } else {
    for (int32_t k = 0; k < p->n; k++) t->refs[p->index[k]] = from->refs[source_of(from, k)];
  }
}

/* Elements index of *target become those of from. In a lifted loop:
 *   - a target without rows and an index with rows: every iteration writes its own elements
 *   - else a value with rows, or a branch that not all rows take, gives the target rows */
void value_put(Eval *E, Value **target, const Axis *index_axis, const int32_t *index, int32_t n,
               Value *from) {
  value_own(E, target);
  Value *t = *target;
  from = value_on_axis(E, from, E->axis);
  bool branch = E->axis && E->axis->parent; /* other rows keep what they have */
  bool rows_matter = index_axis || from->axis || branch || (E->axis && t->axis);
  bool scatter = index_axis && !t->axis; /* the target stays without rows */
  Places p = {index_axis, index, n, rows_matter ? E->axis : NULL};
  if (rows_matter && !scatter && !t->axis) widen(E, t, root_of(E->axis));
  t->likelihood |= from->likelihood;
  if (t->known && from->known) {
    put_known(t, &p, from);
  } else if (!t->axis) {
    put_elements(E, t, &p, from);
  } else if (index_axis || t->axis != p.axis) {
    put_rows(E, t, &p, from);
  } else {
    put_columns(E, t, &p, from);
  }
}

Value *value_join(Eval *E, Value *const *parts, int nparts, const Value *shape) {
  const Axis *axis = E->axis;
  bool known = true, rows = false, likelihood = false;
  for (int p = 0; p < nparts; p++) {
    known &= parts[p]->known;
    rows |= parts[p]->axis != NULL;
    likelihood |= parts[p]->likelihood;
  }
  if (!rows) axis = NULL;
  if (known) {
    Value *r = value_known(E, shape, axis);
    int32_t at = 0;
    for (int p = 0; p < nparts; p++) {
      const Value *x = value_on_axis(E, parts[p], axis);
      for (int32_t i = 0; i < rows_of(axis); i++)
        if (x->n)
          memcpy(r->v + i * r->n + at, x->v + (x->axis ? i * x->n : 0),
                 (size_t)x->n * sizeof *r->v);
      at += x->n;
    }
    r->likelihood = likelihood;
    return r;
  }
  Value *r = value_like(E, shape);
  r->axis = axis;
  r->refs = NEW_ARRAY(E->arena, Ref, r->n);
  r->likelihood = likelihood;
  int32_t at = 0;
  for (int p = 0; p < nparts; p++) {
    Value *x = value_on_axis(E, parts[p], axis);
    if (!x->known && x->refs && x->node == NO_NODE) {
      if (x->n) memcpy(r->refs + at, x->refs, (size_t)x->n * sizeof *r->refs);
      at += x->n;
      continue;
    }
    Node node = x->n ? value_node(E, x) : NO_NODE;
    for (int32_t k = 0; k < x->n; k++) r->refs[at++] = (Ref){node, k, x->axis ? x->n : 0};
  }
  assert(at == r->n);
  return r;
}

/* ---- elementwise ----------------------------------------------------------------------------- */

/* rows x n elements of v, or a single one when it is the same everywhere. */
Node value_node_total(Eval *E, Value *v, const Axis *axis, int32_t n) {
  int32_t rows = rows_of(axis), total = value_count(E, axis, n);
  if (value_total(v) == total && (v->axis == axis || !axis)) return value_node(E, v);
  if (v->n == 1 && !v->axis) return value_node(E, v);
  if (!v->axis && rows == 1) return value_node(E, v);
  int32_t *index = NEW_ARRAY(E->arena, int32_t, total);
  for (int32_t r = 0; r < rows; r++)
    for (int32_t k = 0; k < n; k++)
      index[r * n + k] = (v->axis ? r * v->n : 0) + (v->n == 1 ? 0 : k);
  return gather(E, value_node(E, v), index, total);
}

/* The same for known numbers; *size tells which. */
static const double *known_total(Eval *E, const Value *v, const Axis *axis, int32_t n,
                                 size_t *size) {
  int32_t rows = rows_of(axis);
  *size = (size_t)(rows * n);
  if (v->n == 1 && !v->axis) {
    *size = 1;
    return v->v;
  }
  if (value_total(v) == rows * n && (v->axis == axis || !axis)) return v->v;
  double *x = NEW_ARRAY(E->arena, double, rows *n);
  for (int32_t r = 0; r < rows; r++)
    for (int32_t k = 0; k < n; k++)
      x[r * n + k] = v->v[(v->axis ? r * v->n : 0) + (v->n == 1 ? 0 : k)];
  return x;
}

/* Operators, functions and distributions look at sizes and tell the user which do not match; this
 * one guards the graph against those that nobody has looked at. */
static void check_broadcast(Eval *E, const Value *v, int32_t n) {
  if (v->n != n && v->n != 1)
    ctx_fail(E->ctx, PVI_PROGRAM, E->density, "sizes do not match: %d and %d elements", v->n, n);
}

/* Of single numbers; NULL: they are not. */
static Value *map_numbers(Eval *E, unsigned op, Value *const *args, int arity) {
  double x[IR_MAX_ARGS] = {0};
  bool likelihood = false;
  for (int k = 0; k < arity; k++) {
    if (!args[k]->known || args[k]->ndims || args[k]->axis) return NULL;
    x[k] = args[k]->v[0];
    likelihood |= args[k]->likelihood;
  }
  Value *r = value_real(E, number_fold(E, op, x));
  r->likelihood = likelihood;
  return r;
}

Value *value_map(Eval *E, unsigned op, Value *const *given) {
  int arity = ir_op_arity(op);
  Value *numbers = map_numbers(E, op, given, arity);
  if (numbers) return numbers;
  Value *args[IR_MAX_ARGS];
  const Axis *axis = NULL;
  const Value *shape = given[0];
  bool known = true, likelihood = false;
  for (int k = 0; k < arity; k++) {
    args[k] = value_on_axis(E, given[k], E->axis);
    if (args[k]->axis) axis = args[k]->axis;
    if (args[k]->ndims && (!shape->ndims || args[k]->n > shape->n)) shape = args[k];
    known &= args[k]->known;
    likelihood |= args[k]->likelihood;
  }
  int32_t n = shape->n;
  for (int k = 0; k < arity; k++) check_broadcast(E, args[k], n);
  if (n == 0) known = true;
  check_rows(E, shape, axis);
  Value out = *shape;
  if (out.kind == TY_INT) out.kind = TY_REAL;
  if (known) {
    Value *r = value_known(E, &out, axis);
    const double *in[IR_MAX_ARGS];
    size_t sizes[IR_MAX_ARGS];
    if (n == 0) return r;
    for (int k = 0; k < arity; k++) in[k] = known_total(E, args[k], axis, n, &sizes[k]);
    vm_fold(op, in, sizes, r->v, (size_t)value_total(r));
    r->likelihood = likelihood;
    return r;
  }
  Node nodes[IR_MAX_ARGS];
  int32_t total = value_count(E, axis, n);
  for (int k = 0; k < arity; k++) nodes[k] = value_node_total(E, args[k], axis, n);
  Node node = ir_map(E->graph, op, nodes);
  if (ir_size(E->graph, node) != total) { /* every operand was one element: repeat the result */
    int32_t *zero = NEW_ARRAY(E->arena, int32_t, total);
    node = gather(E, node, zero, total);
  }
  return value_of_node(E, &out, axis, node);
}

Value *map1(Eval *E, unsigned op, Value *a) { return value_map(E, op, (Value *[]){a}); }
Value *map2(Eval *E, unsigned op, Value *a, Value *b) {
  return value_map(E, op, (Value *[]){a, b});
}
Value *map3(Eval *E, unsigned op, Value *a, Value *b, Value *c) {
  return value_map(E, op, (Value *[]){a, b, c});
}
Value *map4(Eval *E, unsigned op, Value *a, Value *b, Value *c, Value *d) {
  return value_map(E, op, (Value *[]){a, b, c, d});
}

/* ---- reductions and products ----------------------------------------------------------------- */

static double reduce_known(unsigned op, const double *x, int32_t n) {
  double s = 0, top = -INFINITY;
  if (op == IR_SUM) {
    for (int32_t k = 0; k < n; k++) s += x[k];
    return s;
  }
  for (int32_t k = 0; k < n; k++) top = x[k] > top || isnan(x[k]) ? x[k] : top;
  if (!isfinite(top)) return top;
  for (int32_t k = 0; k < n; k++) s += exp(x[k] - top);
  return top + log(s);
}

Value *value_reduce(Eval *E, unsigned op, Value *v) {
  if (!v->ndims && v->kind == TY_REAL) return v;
  if (v->n == 1) return value_reshape(E, v, TY_REAL, 0, 0, NULL);
  if (v->known || v->n == 0) {
    Value *r = value_known(E, &scalar_real, v->n ? v->axis : NULL);
    for (int32_t i = 0; i < rows_of(r->axis); i++)
      r->v[i] = reduce_known(op, v->n ? v->v + i * v->n : NULL, v->n);
    r->likelihood = v->likelihood;
    return r;
  }
  return value_of_node(E, &scalar_real, v->axis, ir_reduce(E->graph, op, value_node(E, v), v->n));
}

Value *value_reduce_rows(Eval *E, unsigned op, Value *v, int32_t width, const Value *shape) {
  if (width == 1)
    return value_reshape(E, v, shape->kind, shape->array_dims, shape->ndims, shape->dims);
  if (v->known || v->n == 0) {
    Value *r = value_known(E, shape, v->n ? v->axis : NULL);
    for (int32_t i = 0; i < value_total(r); i++)
      r->v[i] = reduce_known(op, v->v + i * width, width);
    r->likelihood = v->likelihood;
    return r;
  }
  return value_of_node(E, shape, v->axis, ir_reduce(E->graph, op, value_node(E, v), width));
}

Value *value_sum(Eval *E, Value *v) { return value_reduce(E, IR_SUM, v); }
Value *value_mean(Eval *E, Value *v) {
  return map2(E, IR_DIV, value_sum(E, v), value_real(E, v->n));
}

Value *value_transpose(Eval *E, Value *a) {
  if (a->kind == TY_VECTOR || a->kind == TY_ROW_VECTOR)
    return value_reshape(E, a, a->kind == TY_VECTOR ? TY_ROW_VECTOR : TY_VECTOR, a->array_dims,
                         a->ndims, a->dims);
  int32_t R = a->dims[0], C = a->dims[1], dims[2] = {C, R};
  int32_t *index = NEW_ARRAY(E->arena, int32_t, R * C);
  for (int32_t i = 0; i < R; i++)
    for (int32_t j = 0; j < C; j++) index[j * R + i] = i * C + j;
  return value_take(E, a, value_shape(E, TY_MATRIX, 0, 2, dims), NULL, index);
}

static Value *matmul_known(Eval *E, const Value *a, const Value *b, MatrixProduct m,
                           const Value *shape) {
  const Axis *axis = a->axis ? a->axis : b->axis;
  Value *r = value_known(E, shape, axis);
  for (int32_t z = 0; z < rows_of(axis); z++) {
    const double *x = a->v + (a->axis ? z * a->n : 0), *y = b->v + (b->axis ? z * b->n : 0);
    double *out = r->v + z * r->n;
    for (int32_t i = 0; i < m.rows; i++)
      for (int32_t k = 0; k < m.inner; k++)
        for (int32_t j = 0; j < m.cols; j++)
          out[i * m.cols + j] += x[i * m.inner + k] * y[k * m.cols + j];
  }
  return r;
}

/* Factors with rows of their own: out[i, j] = sum_k a[i, k] b[k, j] is a sum over products laid out
 * i, j, k. */
static Value *matmul_rows(Eval *E, Value *a, Value *b, MatrixProduct m, const Value *shape) {
  int32_t n = value_count(E, NULL, (int64_t)m.rows * m.cols * m.inner);
  int32_t *ia = NEW_ARRAY(E->arena, int32_t, n), *ib = NEW_ARRAY(E->arena, int32_t, n);
  for (int32_t i = 0, e = 0; i < m.rows; i++)
    for (int32_t j = 0; j < m.cols; j++)
      for (int32_t k = 0; k < m.inner; k++, e++) {
        ia[e] = i * m.inner + k;
        ib[e] = k * m.cols + j;
      }
  const Value *flat = value_shape(E, TY_VECTOR, 0, 1, &n);
  Value *p = map2(E, IR_MUL, value_take(E, a, flat, NULL, ia), value_take(E, b, flat, NULL, ib));
  return value_of_node(E, shape, p->axis, ir_reduce(E->graph, IR_SUM, value_node(E, p), m.inner));
}

/* Data times a vector is one matrix-vector node; rows of data in a lifted loop likewise. */
Value *value_matmul(Eval *E, Value *a, Value *b, MatrixProduct m, const Value *shape) {
  a = value_on_axis(E, a, E->axis);
  b = value_on_axis(E, b, E->axis);
  if (a->known && b->known) return matmul_known(E, a, b, m, shape);
  if (m.inner == 0) return value_known(E, shape, NULL);
  Graph *g = E->graph;
  if (a->known && !b->axis && m.cols == 1) /* A b, and X[n] b with X[n] a row of data */
    return value_of_node(E, shape, a->axis, ir_matvec(g, value_node(E, a), value_node(E, b)));
  if (b->known && !a->axis && m.rows == 1 && (!b->axis || m.cols == 1)) { /* a B = B' a */
    if (m.cols == 1)
      return value_of_node(E, shape, b->axis, ir_matvec(g, value_node(E, b), value_node(E, a)));
    int32_t dims[2] = {m.inner, m.cols};
    Value *t = value_transpose(E, value_reshape(E, b, TY_MATRIX, 0, 2, dims));
    return value_of_node(E, shape, NULL, ir_matvec(g, value_node(E, t), value_node(E, a)));
  }
  if (!a->axis && !b->axis && m.inner > 1 && (m.rows > 1 || m.cols > 1))
    return value_of_node(E, shape, NULL,
                         ir_matmul(g, value_node(E, a), value_node(E, b), m.inner, m.cols));
  return matmul_rows(E, a, b, m, shape);
}

long value_int_of(Eval *E, Value *v, Loc loc, const char *what) {
  v = eval_decided(E, v);
  if (!v->known) eval_needs_draw(E, loc, arena_format(E->arena, "%s depends on parameters", what));
  v = value_on_axis(E, v, E->axis);
  for (int32_t r = 1; v->axis && r < v->axis->rows; r++)
    if (v->v[r] != v->v[0]) lift_differs(E, v->axis, v->v);
  return (long)v->v[0];
}
