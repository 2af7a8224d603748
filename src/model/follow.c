/* follow.c: evaluating a program for one draw, for which alone it takes the course it takes.
 *
 * The parameters are inputs of a graph as always, but each also has its number, and whenever the
 * program asks for a value that depends on them to decide what to do next (a condition, a bound, an
 * index) the value's numbers are looked up: eval_decided. So there are no branches left, and what
 * comes out is a plain graph, right for this draw and for every other one for which all decisions
 * come out the same. The decisions are written down (Draw.decisions), for others to compare.
 */
#include "model/eval.h"

#include "num/linalg.h"

#include <math.h>
#include <string.h>

/* ---- numbers of nodes ------------------------------------------------------------------------ */

static void sums(const IrNode *x, const double *a, double *out) {
  for (int32_t e = 0; e < x->n; e++) {
    double s = 0, top = -INFINITY;
    const double *v = a + (size_t)e * (size_t)x->attr;
    for (int32_t k = 0; k < x->attr; k++) top = fmax(top, v[k]);
    for (int32_t k = 0; k < x->attr; k++)
      s += x->op == IR_SUM ? v[k] : isfinite(top) ? exp(v[k] - top) : 0;
    out[e] = x->op == IR_SUM ? s : isfinite(top) ? top + log(s) : top;
  }
}

static void products(const IrNode *x, const double *a, const double *b, double *out) {
  int32_t inner = x->attr, columns = x->op == IR_MATMUL ? x->attr2 : 1;
  for (int32_t e = 0; e < x->n; e++) {
    out[e] = 0;
    for (int32_t k = 0; k < inner; k++)
      out[e] += a[e / columns * inner + k] * b[k * columns + e % columns];
  }
}

static void map_numbers(const Graph *g, const IrNode *x, const double *const *in, double *out) {
  size_t sizes[IR_MAX_ARGS];
  for (int k = 0; k < x->nargs; k++) sizes[k] = (size_t)ir_size(g, x->args[k]);
  vm_fold(x->op, in, sizes, out, (size_t)x->n);
}

static void spectra(Arena *a, const IrNode *x, const double *in, double *out) {
  size_t K = (size_t)x->attr, count = (size_t)x->n / (K * (K + 1));
  double *A = NEW_ARRAY(a, double, K *K), *rest = NEW_ARRAY(a, double, K *K + 2 * K);
  for (size_t k = 0; k < count; k++, in += K * K, out += K * (K + 1)) {
    memcpy(A, in, K * K * sizeof *A);
    if (la_eigen_symmetric(A, out, out + K, rest, K)) continue;
    for (size_t e = 0; e < K * (K + 1); e++) out[e] = (double)NAN;
  }
}

static void compute(Draw *d, const Graph *g, const IrNode *x, double *out) {
  const double *in[IR_MAX_ARGS];
  for (int k = 0; k < x->nargs; k++) in[k] = d->numbers[x->args[k]];
  switch (x->op) {
  case IR_CONST: memcpy(out, x->u.values, (size_t)x->n * sizeof *out); break;
  case IR_INPUT: memcpy(out, d->inputs + x->attr, (size_t)x->n * sizeof *out); break;
  case IR_GATHER:
    for (int32_t e = 0; e < x->n; e++) out[e] = in[0][x->u.index[e]];
    break;
  case IR_PACK:
    for (int32_t e = 0; e < x->n; e++) out[e] = d->numbers[x->u.picks[e].node][x->u.picks[e].elem];
    break;
  case IR_SUM:
  case IR_LSE: sums(x, in[0], out); break;
  case IR_CUMSUM:
    for (int32_t e = 0; e < x->n; e++) out[e] = in[0][e] + (e % x->attr ? out[e - 1] : 0);
    break;
  case IR_MATVEC:
  case IR_MATMUL: products(x, in[0], in[1], out); break;
  case IR_EIGEN: spectra(d->arena, x, in[0], out); break;
  case IR_ODE: vm_solve(d->arena, x->u.ode, in[0], out); break;
  default:
    if (ir_is_map(x->op)) map_numbers(g, x, in, out); /* of others, noise, nobody asks */
  }
}

const double *draw_numbers(Draw *d, const Graph *g, Node node) {
  for (; d->known <= node; d->known++) {
    const IrNode *x = ir_node(g, d->known);
    double *out = NEW_ARRAY(d->arena, double, x->n);
    compute(d, g, x, out);
    size_t count = (size_t)d->known;
    PUSH(d->arena, d->numbers, count, d->cap, out);
  }
  return d->numbers[node];
}

/* ---- decisions ------------------------------------------------------------------------------- */

Value *eval_decided(Eval *E, Value *v) {
  Draw *d = E->draw;
  if (!d || v->known || v->kind == TY_TUPLE) return v;
  Decision made = {.node = value_node(E, v), .count = value_total(v)};
  Value *known = value_known(E, v, v->axis);
  size_t bytes = (size_t)value_total(v) * sizeof *known->v;
  memcpy(known->v, draw_numbers(d, E->graph, made.node), bytes);
  made.numbers = memcpy(arena_alloc(d->arena, bytes), known->v, bytes);
  PUSH(d->arena, d->decisions, d->ndecisions, d->cap_decisions, made);
  return known;
}
