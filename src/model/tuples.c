/* tuples.c: tuples and arrays of them.
 *
 * A tuple is a Value of kind TY_TUPLE whose items are its items; an array of tuples has the tuples
 * themselves as items, row-major. Data are read, parameters made and outputs listed item by item:
 * what is no tuple any more, an *item* of the variable, has a name as CmdStan heads its columns
 * (p:2 is the second item of p, p.3:2 that of the third element of an array) and a path, the places
 * that lead from the variable's Value to it. An assignment makes a new tuple, which shares the
 * other items.
 */
#include "model/complex.h"
#include "model/model_int.h"

#include <string.h>

Value *tuple_array(Eval *E, const Value *shape, Value *const *items) {
  Value *v = value_shape(E, TY_TUPLE, shape->ndims, shape->ndims, shape->dims);
  v->nitems = v->n;
  v->items = NEW_ARRAY(E->arena, Value *, v->n + 1);
  for (int k = 0; k < v->n; k++) {
    v->items[k] = items[k];
    items[k]->shared = true;
  }
  return v;
}

static bool is_array(const Value *v) { return v->array_dims > 0; }

Value *tuple_like(Eval *E, const Value *v, Value *const *items) {
  return is_array(v) ? tuple_array(E, v, items) : value_tuple(E, items, v->nitems);
}

Value *tuple_default(Eval *E, const Decl *d) {
  Value shape;
  eval_dims(E, d, &shape);
  int32_t n = shape.ndims ? shape.n : 1;
  Value **tuples = NEW_ARRAY(E->arena, Value *, n + 1),
        **items = NEW_ARRAY(E->arena, Value *, d->nitems + 1);
  for (int32_t k = 0; k < n; k++) {
    for (int i = 0; i < d->nitems; i++) items[i] = eval_default(E, d->items[i]);
    tuples[k] = value_tuple(E, items, d->nitems);
  }
  return shape.ndims ? tuple_array(E, &shape, tuples) : tuples[0];
}

/* ---- elements -------------------------------------------------------------------------------- */

static void need_same_place(Eval *E, const Selection *s) {
  if (s->axis) lift_bail(E, "an element of an array of tuples is another one in each iteration");
}

Value *tuple_select(Eval *E, const Value *v, const Selection *s) {
  need_same_place(E, s);
  if (!s->shape.ndims) return v->items[s->index[0]];
  Value **items = NEW_ARRAY(E->arena, Value *, s->shape.n + 1);
  for (int32_t k = 0; k < s->shape.n; k++) items[k] = v->items[s->index[k]];
  return tuple_array(E, &s->shape, items);
}

Value *tuple_with(Eval *E, const Value *v, int32_t at, Value *item) {
  Value **items = NEW_ARRAY(E->arena, Value *, v->nitems + 1);
  memcpy(items, v->items, (size_t)v->nitems * sizeof *items);
  items[at] = item;
  return tuple_like(E, v, items);
}

Value *tuple_replace(Eval *E, const Value *v, const Selection *s, Value *from) {
  need_same_place(E, s);
  Value *const *with = s->shape.ndims ? from->items : &from;
  Value **items = NEW_ARRAY(E->arena, Value *, v->nitems + 1);
  memcpy(items, v->items, (size_t)v->nitems * sizeof *items);
  for (int32_t k = 0; k < s->shape.n; k++) items[s->index[k]] = with[k];
  return tuple_array(E, v, items);
}

/* ---- items as outputs ------------------------------------------------------------------------ */

Value *output_value(const Eval *E, const Output *o) {
  Value *v = E->frame[o->variable->slot].value;
  for (int k = 0; k < o->npath; k++) v = v->items[o->path[k]];
  return v;
}

/* In place: nobody else holds the tuple of tuples_prepare yet. */
void output_set(Eval *E, const Output *o, Value *item) {
  Var *var = &E->frame[o->variable->slot];
  Value *v = var->value;
  for (int k = 0; k + 1 < o->npath; k++) v = v->items[o->path[k]];
  if (o->npath)
    v->items[o->path[o->npath - 1]] = item;
  else
    *var = (Var){item, o->variable, NULL, NULL};
}

void tuples_prepare(Eval *E) {
  for (BlockId id = BLOCK_PARAMETERS; id <= BLOCK_TRANSFORMED_PARAMETERS; id++) {
    const Stmt *block = E->program->blocks[id];
    for (int k = 0; block && k < block->nbody; k++)
      for (int j = 0; block->body[k]->kind == ST_DECL && j < block->body[k]->ndecls; j++) {
        const Decl *d = block->body[k]->decls[j];
        if (d->type->kind == TY_TUPLE)
          E->frame[d->slot] = (Var){tuple_default(E, d), d, NULL, NULL};
      }
  }
}

static const int32_t *longer_path(Arena *a, const Output *o, int32_t place) {
  int32_t *path = NEW_ARRAY(a, int32_t, o->npath + 1);
  if (o->npath) memcpy(path, o->path, (size_t)o->npath * sizeof *path);
  path[o->npath] = place;
  return path;
}

/* Element `place` of an array of tuples: p.2.1. */
static Output element_of(Arena *a, Output o, const Value *v, int32_t place) {
  Text t = text_make(a);
  text_puts(&t, o.name);
  int32_t stride = v->n;
  for (int d = 0, rest = place; d < v->ndims; d++) {
    stride /= v->dims[d];
    text_printf(&t, ".%d", rest / stride + 1);
    rest %= stride;
  }
  o.name = t.s;
  o.path = longer_path(a, &o, place);
  o.npath++;
  return o;
}

static Output item_of(Arena *a, Output o, const Decl *tuple, int place) {
  Decl *d = NEW(a, Decl);
  *d = *tuple->items[place];
  d->name = o.name = arena_format(a, "%s:%d", o.name, place + 1);
  d->loc = tuple->loc;
  o.decl = d;
  o.path = longer_path(a, &o, place);
  o.npath++;
  return o;
}

void tuple_each(Eval *E, Output o, Value *v, TupleItem *item, void *self) {
  if (v->kind != TY_TUPLE) {
    item(E, o, v, self);
    return;
  }
  if (!is_array(v)) {
    for (int k = 0; k < v->nitems; k++)
      tuple_each(E, item_of(E->arena, o, o.decl, k), v->items[k], item, self);
    return;
  }
  Output shape = {.kind = TY_TUPLE, .ndims = v->ndims, .dims = v->dims, .n = v->n};
  for (int32_t k = 0; k < v->n; k++) { /* the first index fastest, as of all arrays */
    int32_t place = model_column_place(&shape, k);
    tuple_each(E, element_of(E->arena, o, v, place), v->items[place], item, self);
  }
}

/* ---- data ------------------------------------------------------------------------------------ */

/* Arrays of tuples around an item: the data have its values with their sizes in front. */
typedef struct {
  const Data *data;
  int ndims;
  int32_t dims[MAX_DIMS];
  int32_t count;
} Around;

static Value **bind_each(Eval *E, const Around *around, const Decl *d, const char *name);

static Value **bind_numbers(Eval *E, const Around *around, const Decl *d, const Value *shape) {
  long dims[2 * MAX_DIMS];
  int ndims = 0;
  Type type = *d->type;
  Decl all = *d;
  for (int k = 0; k < around->ndims; k++) dims[ndims++] = around->dims[k];
  for (int k = 0; k < shape->ndims - complex_kind(shape->kind); k++) dims[ndims++] = shape->dims[k];
  type.array_dims += around->ndims;
  all.type = &type;
  const double *v = data_bind_as(E->ctx, around->data, d->name, &all, ndims, dims);
  if (!v) ctx_jump(E->ctx, PVI_DATA);
  Value **each = NEW_ARRAY(E->arena, Value *, around->count + 1);
  for (int32_t k = 0; k < around->count; k++) {
    each[k] = value_like(E, shape);
    each[k]->known = each[k]->shared = true;
    each[k]->v = (double *)v + (size_t)k * (size_t)shape->n; /* shared, so nobody changes it */
    constrain_check(E, d, each[k], "the data");
  }
  if (E->ctx->nerrors) ctx_jump(E->ctx, PVI_DATA);
  return each;
}

static Value **bind_tuples(Eval *E, const Around *around, const Decl *d, const Value *shape) {
  Around inner = *around;
  if (around->ndims + shape->ndims > MAX_DIMS)
    ctx_fail(E->ctx, PVI_PROGRAM, d->loc, "%s has more than %d dimensions", d->name, MAX_DIMS);
  for (int k = 0; k < shape->ndims; k++) inner.dims[inner.ndims++] = shape->dims[k];
  inner.count *= shape->n;
  Value ***items = NEW_ARRAY(E->arena, Value **, d->nitems + 1),
        **tuples = NEW_ARRAY(E->arena, Value *, inner.count + 1),
        **one = NEW_ARRAY(E->arena, Value *, d->nitems + 1);
  for (int i = 0; i < d->nitems; i++)
    items[i] = bind_each(E, &inner, d->items[i], arena_format(E->arena, "%s.%d", d->name, i + 1));
  for (int32_t k = 0; k < inner.count; k++) {
    for (int i = 0; i < d->nitems; i++) one[i] = items[i][k];
    tuples[k] = value_tuple(E, one, d->nitems);
  }
  if (!shape->ndims) return tuples;
  Value **each = NEW_ARRAY(E->arena, Value *, around->count + 1);
  for (int32_t k = 0; k < around->count; k++)
    each[k] = tuple_array(E, shape, tuples + k * shape->n);
  return each;
}

/* The values of d, called `name`, in each of the tuples around it. */
static Value **bind_each(Eval *E, const Around *around, const Decl *d, const char *name) {
  Decl named = *d;
  named.name = name;
  Value shape;
  eval_dims(E, &named, &shape);
  return d->type->kind == TY_TUPLE ? bind_tuples(E, around, &named, &shape)
                                   : bind_numbers(E, around, &named, &shape);
}

Value *tuple_bind(Eval *E, const Data *data, const Decl *d) {
  return bind_each(E, &(Around){.data = data, .count = 1}, d, d->name)[0];
}
