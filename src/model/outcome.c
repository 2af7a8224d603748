/* outcome.c: what an observation's statement says about its outcome: the distribution, in one
 * canonical form per kind, with a node for each parameter and one row an observation. Scores other
 * than the log score are computed from it. */
#include "model/dist.h"

#include <math.h>

static Outcome with(DistId dist, Value *y, int npar, Value *p0, Value *p1, Value *p2) {
  return (Outcome){.dist = dist, .known = true, .y = y, .npar = npar, .par = {p0, p1, p2}};
}

/* P(y = k) = F(c[k] - eta) - F(c[k-1] - eta), one vector per observation; only one observation at a
 * time. */
static Outcome ordinal(Eval *E, Value **a) {
  if (a[1]->ndims || a[0]->ndims) return (Outcome){.known = false};
  int32_t K = a[2]->n + 1;
  Value *upper = map1(E, IR_INV_LOGIT, map2(E, IR_SUB, a[2], a[1]));
  Value *low[2] = {value_real(E, 0), upper}, *high[2] = {upper, value_real(E, 1)};
  const Value *shape = value_shape(E, TY_VECTOR, 0, 1, &K);
  Value *p = map2(E, IR_SUB, value_join(E, high, 2, shape), value_join(E, low, 2, shape));
  Outcome o = with(DIST_categorical, a[0], 1, p, NULL, NULL);
  o.width = K;
  return o;
}

static Outcome categorical(Value *y, Value *p) {
  Outcome o = with(DIST_categorical, y, 1, p, NULL, NULL);
  o.width = p->n;
  return o;
}

/* The outcome of a density statement; .known is false where there is no canonical form. a[0] is the
 * outcome. */
Outcome outcome_of(Eval *E, DistId id, Value **a) {
  Value *y = a[0];
  Outcome o;
  switch (id) {
  case DIST_normal:
  case DIST_lognormal:
  case DIST_cauchy:
  case DIST_logistic:
  case DIST_double_exponential:
  case DIST_gamma:
  case DIST_beta:
  case DIST_neg_binomial_2: return with(id, y, 2, a[1], a[2], NULL);
  case DIST_std_normal: return with(DIST_normal, y, 2, value_real(E, 0), value_real(E, 1), NULL);
  case DIST_student_t: return with(id, y, 3, a[1], a[2], a[3]);
  case DIST_exponential:
  case DIST_bernoulli:
  case DIST_poisson: return with(id, y, 1, a[1], NULL, NULL);
  case DIST_bernoulli_logit:
    return with(DIST_bernoulli, y, 1, map1(E, IR_INV_LOGIT, a[1]), NULL, NULL);
  case DIST_poisson_log: return with(DIST_poisson, y, 1, map1(E, IR_EXP, a[1]), NULL, NULL);
  case DIST_neg_binomial_2_log:
    return with(DIST_neg_binomial_2, y, 2, map1(E, IR_EXP, a[1]), a[2], NULL);
  case DIST_normal_id_glm:
    return with(DIST_normal, y, 2, dist_linear_predictor(E, a[1], a[2], a[3]), a[4], NULL);
  case DIST_bernoulli_logit_glm:
    return with(DIST_bernoulli, y, 1,
                map1(E, IR_INV_LOGIT, dist_linear_predictor(E, a[1], a[2], a[3])), NULL, NULL);
  case DIST_poisson_log_glm:
    return with(DIST_poisson, y, 1, map1(E, IR_EXP, dist_linear_predictor(E, a[1], a[2], a[3])),
                NULL, NULL);
  case DIST_neg_binomial_2_log_glm:
    return with(DIST_neg_binomial_2, y, 2,
                map1(E, IR_EXP, dist_linear_predictor(E, a[1], a[2], a[3])), a[4], NULL);
  case DIST_binomial_logit_glm:
    o = with(DIST_binomial, y, 1, map1(E, IR_INV_LOGIT, dist_linear_predictor(E, a[2], a[3], a[4])),
             NULL, NULL);
    o.size = a[1];
    return o;
  case DIST_binomial:
  case DIST_binomial_logit:
    o = with(DIST_binomial, y, 1, id == DIST_binomial ? a[2] : map1(E, IR_INV_LOGIT, a[2]), NULL,
             NULL);
    o.size = a[1];
    return o;
  case DIST_categorical: return categorical(y, a[1]);
  case DIST_categorical_logit: {
    Value *l = map2(E, IR_SUB, a[1], value_reduce(E, IR_LSE, a[1]));
    return categorical(y, map1(E, IR_EXP, l));
  }
  case DIST_ordered_logistic: return ordinal(E, a);
  default: return (Outcome){.known = false};
  }
}

/* ---- one row an observation ------------------------------------------------------------------ */

/* width elements per row of axis (lifted), per element of a vectorized statement (n of them), or of
 * the one observation. */
static Node rows_node(Eval *E, Value *v, const Axis *axis, int32_t n, int32_t width) {
  v = value_on_axis(E, v, E->axis);
  int32_t rows = axis ? axis->rows : n;
  if (width == 1) {
    Node node = value_node_total(E, v, axis, axis ? 1 : n);
    if (ir_size(E->graph, node) == rows) return node;
    return ir_gather_kept(E->graph, node, NEW_ARRAY(E->arena, int32_t, rows),
                          rows); /* sites are kept as long as the graph */
  }
  Node node = value_node(E, v);
  if (v->axis) return node;
  int32_t *index = NEW_ARRAY(E->arena, int32_t, rows * width);
  for (int32_t k = 0; k < rows * width; k++) index[k] = k % width;
  return ir_gather_kept(E->graph, node, index, rows * width);
}

static const double *rows_known(Eval *E, Value *v, const Axis *axis, int32_t n) {
  v = value_on_axis(E, v, E->axis);
  int32_t rows = axis ? axis->rows : n;
  if (value_total(v) == rows) {
    v->shared = true;
    return v->v;
  }
  double *x = NEW_ARRAY(E->arena, double, rows);
  for (int32_t r = 0; r < rows; r++) x[r] = v->v[v->axis ? r : v->n == 1 ? 0 : r];
  return x;
}

/* Lay the outcome of a site out by rows; a site whose observations have several elements each keeps
 * none. */
void outcome_place(Eval *E, Site *site, const Outcome *o, int32_t n) {
  site->dist = -1;
  site->sim = NO_NODE;
  bool scalar_rows = !site->axis || n == 1;
  if (!o || !o->known || !o->y->known || !scalar_rows || (o->size && !o->size->known)) return;
  int32_t width = o->width ? o->width : 1;
  for (int k = 0; k < o->npar; k++) {
    int32_t each = width == 1 ? o->par[k]->n : 1;
    if (each != 1 && each != n) return;
    site->par[k] = rows_node(E, o->par[k], site->axis, n, width);
  }
  site->dist = (int)o->dist;
  site->npar = o->npar;
  site->width = width;
  site->y = rows_known(E, o->y, site->axis, n);
  site->size = o->size ? rows_known(E, o->size, site->axis, n) : NULL;
  Value *par[3] = {o->par[0], o->par[1], o->par[2]};
  if (!site->axis && n > 1)
    par[0] = map2(E, IR_ADD, par[0], value_vector(E, n)); /* one draw per observation */
  Value *sim = width == 1 ? dist_simulate(E, o->dist, par, o->npar) : NULL;
  if (sim) site->sim = rows_node(E, sim, site->axis, n, 1);
}
