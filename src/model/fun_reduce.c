/* fun_reduce.c: functions that make one number, or a few, of many: sums, moments, extremes;
 * sorting. */
#include "model/fun.h"

#include <math.h>
#include <stdlib.h>

/* ---- sums and the like ----------------------------------------------------------------------- */

FN(sum) { return fun_int_if(value_sum(E, a[0]), a[0]); }
FN(mean) { return value_mean(E, a[0]); }

/* a[0] op a[1] op ... over the elements, as a balanced tree. */
static Value *fold(Eval *E, unsigned op, Value *v, int32_t from, int32_t n) {
  if (n == 1) return value_element(E, v, from);
  return map2(E, op, fold(E, op, v, from, n / 2), fold(E, op, v, from + n / 2, n - n / 2));
}

FN(prod) {
  return fun_int_if(a[0]->n ? fold(E, IR_MUL, a[0], 0, a[0]->n) : value_real(E, 1), a[0]);
}

static Value *extreme(Eval *E, Value **a, int n, unsigned op, double empty) {
  if (n == 2)
    return a[0]->kind == TY_INT && a[1]->kind == TY_INT ? fun_int_if(map2(E, op, a[0], a[1]), a[0])
                                                        : map2(E, op, a[0], a[1]);
  return a[0]->n ? fun_int_if(fold(E, op, a[0], 0, a[0]->n), a[0]) : value_real(E, empty);
}
FN(min) { return extreme(E, a, n, IR_FMIN, INFINITY); }
FN(max) { return extreme(E, a, n, IR_FMAX, -INFINITY); }

/* sum (x - mean)^2 / (n - 1) */
FN(variance) {
  if (a[0]->n < 2) return value_real(E, 0);
  Value *d = map2(E, IR_SUB, a[0], value_mean(E, a[0]));
  return map2(E, IR_DIV, value_sum(E, map1(E, IR_SQUARE, d)), value_real(E, a[0]->n - 1));
}
FN(sd) { return a[0]->n < 2 ? value_real(E, 0) : map1(E, IR_SQRT, fn_variance(E, a, n, call)); }
FN(norm1) { return value_sum(E, map1(E, IR_ABS, a[0])); }
FN(dot_self) { return value_sum(E, map1(E, IR_SQUARE, a[0])); }
FN(norm2) { return map1(E, IR_SQRT, fn_dot_self(E, a, n, call)); }
FN(squared_distance) { return value_sum(E, M(SQUARE, SUB(a[0], a[1]))); }
FN(distance) { return map1(E, IR_SQRT, fn_squared_distance(E, a, n, call)); }
FN(dot_product) {
  static const Value scalar = {.kind = TY_REAL, .n = 1};
  if (a[0]->n == 0) return value_real(E, 0);
  return value_matmul(E, a[0], a[1], (MatrixProduct){1, a[0]->n, 1}, &scalar);
}

FN(log_sum_exp) {
  return n == 2 ? map2(E, IR_LOG_SUM_EXP2, a[0], a[1]) : value_reduce(E, IR_LSE, a[0]);
}
/* Of every vector of an array by itself. */
FN(log_softmax) {
  int32_t K = a[0]->ndims ? a[0]->dims[a[0]->ndims - 1] : 1, count = K ? a[0]->n / K : 0;
  if (!a[0]->n) return a[0];
  if (count == 1) return SUB(a[0], value_reduce(E, IR_LSE, a[0]));
  int32_t *index = NEW_ARRAY(E->arena, int32_t, a[0]->n);
  for (int32_t e = 0; e < a[0]->n; e++) index[e] = e / K;
  Value *total = value_reduce_rows(E, IR_LSE, a[0], K, value_shape(E, TY_VECTOR, 0, 1, &count));
  return SUB(a[0], value_take(E, total, a[0], NULL, index));
}
FN(softmax) { return map1(E, IR_EXP, fn_log_softmax(E, a, n, call)); }

/* log_mix(theta, l1, l2), or log sum_k theta[k] exp(l[k]), summed over an array of l */
FN(log_mix) {
  if (n == 3) return map2(E, IR_LOG_SUM_EXP2, ADD(M(LOG, a[0]), a[1]), ADD(M(LOG1M, a[0]), a[2]));
  bool many = a[1]->ndims > 1;
  int32_t K = many ? a[1]->dims[1] : a[1]->n, *index = NEW_ARRAY(E->arena, int32_t, a[1]->n);
  if (!a[1]->n) return NUM(many ? 0 : -INFINITY);
  for (int32_t e = 0; e < a[1]->n; e++) index[e] = e % K;
  Value *terms = ADD(value_take(E, M(LOG, a[0]), a[1], NULL, index), a[1]);
  return value_sum(
      E, value_reduce_rows(E, IR_LSE, terms, K, value_shape(E, TY_REAL, many, many, a[1]->dims)));
}

/* Of a short vector in every iteration of a loop, sum by sum: observations then keep them to
 * themselves, where one node for all would be shared by all. */
enum { SHORT = 12 };
static Value *short_sums(Eval *E, Value *v) {
  Value *sums[SHORT] = {value_element(E, v, 0)};
  for (int32_t k = 1; k < v->n; k++) sums[k] = ADD(sums[k - 1], value_element(E, v, k));
  return value_join(E, sums, v->n, v);
}

FN(cumulative_sum) {
  Value *v = a[0];
  if (!v->n) return v;
  if (v->known) {
    Value *r = value_known(E, v, v->axis);
    for (int32_t k = 0; k < value_total(v); k++) r->v[k] = v->v[k] + (k % v->n ? r->v[k - 1] : 0);
    return r;
  }
  return v->axis && v->n <= SHORT
             ? short_sums(E, v)
             : value_of_node(E, v, v->axis, ir_cumsum(E->graph, value_node(E, v), v->n));
}

/* ---- order ----------------------------------------------------------------------------------- */

typedef struct {
  double x;
  int32_t at;
} Ranked;

static int ascending(const void *p, const void *q) {
  const Ranked *a = p, *b = q;
  return a->x < b->x ? -1 : a->x > b->x ? 1 : a->at < b->at ? -1 : a->at > b->at;
}
static int descending(const void *p, const void *q) {
  const Ranked *a = p, *b = q;
  return a->x > b->x ? -1 : a->x < b->x ? 1 : a->at < b->at ? -1 : a->at > b->at;
}

static Value *sorted(Eval *E, Value *v, const Expr *call, int (*order)(const void *, const void *),
                     bool indices) {
  fun_need_known(E, v, call);
  Ranked *r = NEW_ARRAY(E->arena, Ranked, v->n);
  for (int32_t k = 0; k < v->n; k++) r[k] = (Ranked){v->v[k], k};
  qsort(r, (size_t)v->n, sizeof *r, order);
  int32_t m = v->n;
  Value *out = value_known(E, indices ? value_shape(E, TY_INT, 1, 1, &m) : v, NULL);
  for (int32_t k = 0; k < v->n; k++) out->v[k] = indices ? r[k].at + 1 : r[k].x;
  return out;
}
/* Values that depend on parameters, by a bitonic network (Batcher 1968): every draw makes the same
 * comparisons. Padded to a power of two with infinities, which end up last. */
static Value *sorted_by_network(Eval *E, Value *v, bool descending_order) {
  int32_t n = v->n, size = 1;
  while (size < n) size *= 2;
  int32_t *partner = NEW_ARRAY(E->arena, int32_t, size), padding = size - n;
  Value *pad = value_vector(E, padding), *shape = value_shape(E, TY_VECTOR, 0, 1, &size);
  for (int32_t k = 0; k < padding; k++) pad->v[k] = INFINITY;
  Value *x = value_join(E, (Value *[]){descending_order ? M(NEG, v) : v, pad}, 2, shape);
  for (int32_t run = 2; run <= size; run *= 2)
    for (int32_t apart = run / 2; apart; apart /= 2) {
      Value *least =
          value_known(E, shape, NULL); /* does the element take the lesser of the pair? */
      for (int32_t k = 0; k < size; k++) {
        partner[k] = k ^ apart;
        least->v[k] = ((k & run) == 0) == ((k & apart) == 0);
      }
      Value *other = value_take(E, x, shape, NULL, partner);
      x = map3(E, IR_SELECT, least, map2(E, IR_FMIN, x, other), map2(E, IR_FMAX, x, other));
    }
  Value *r = value_slice(E, x, 0, n);
  return value_reshape(E, descending_order ? M(NEG, r) : r, v->kind, v->array_dims, v->ndims,
                       v->dims);
}
FN(sort_asc) {
  return a[0]->known ? sorted(E, a[0], call, ascending, false) : sorted_by_network(E, a[0], false);
}
FN(sort_desc) {
  return a[0]->known ? sorted(E, a[0], call, descending, false) : sorted_by_network(E, a[0], true);
}
FN(sort_indices_asc) { return sorted(E, a[0], call, ascending, true); }
FN(sort_indices_desc) { return sorted(E, a[0], call, descending, true); }

/* How many elements are smaller than element s. */
FN(rank) {
  fun_need_known(E, a[0], call);
  long s = fun_int(E, a[1], call), less = 0;
  if (s < 1 || s > a[0]->n)
    ctx_fail(E->ctx, PVI_PROGRAM, fun_place(call), "index %ld is out of range 1 to %d", s, a[0]->n);
  for (int32_t k = 0; k < a[0]->n; k++) less += a[0]->v[k] < a[0]->v[s - 1];
  return value_int(E, less);
}

/* Between the elements h and h + 1 of the sorted ones, h = (n - 1) p. */
FN(quantile) {
  Value *x = sorted(E, a[0], call, ascending, false);
  fun_need_known(E, a[1], call);
  Value *r = value_known(E, a[1], NULL);
  for (int32_t k = 0; k < r->n; k++) {
    double p = a[1]->v[k], h = (x->n - 1) * p;
    if (!(p >= 0 && p <= 1))
      ctx_fail(E->ctx, PVI_PROGRAM, fun_place(call), "quantile: %g is not a probability", p);
    int32_t low = (int32_t)h, high = low + 1 < x->n ? low + 1 : low;
    r->v[k] = x->v[low] + (h - low) * (x->v[high] - x->v[low]);
  }
  return r;
}
