/* outcome.c: what an observation's statement says about its outcome: the distribution in canonical
 * form (OUTCOME of dists.def: poisson_log(eta) is poisson(exp eta)), with a node for each parameter
 * and one row an observation. Scores other than the log score are computed from it. */
#include "model/dist.h"

Outcome outcome_as(DistId id, Value *y, Value *const *par) {
  Outcome o = {.dist = id, .known = true, .y = y};
  for (; o.npar < OUTCOME_PARAMETERS && par[o.npar]; o.npar++) o.par[o.npar] = par[o.npar];
  return o;
}

Outcome outcome_of_trials(Value *trials, Outcome o) {
  o.size = trials;
  return o;
}

Outcome outcome_of_categories(Outcome o) {
  o.width = o.par[0]->n;
  return o;
}

Outcome outcome_of(Eval *E, DistId id, Value **a) {
  DistOutcome *form = dist_code(id)->outcome;
  return form ? form(E, a) : (Outcome){.known = false};
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
  if (width > 1) return;
  Value *par[OUTCOME_PARAMETERS] = {o->par[0], o->par[1], o->par[2]};
  if (!site->axis && n > 1) par[0] = ADD(par[0], value_vector(E, n)); /* a draw per observation */
  Value *sim = dist_simulate(E, o->dist, par, o->npar);
  if (sim) site->sim = rows_node(E, sim, site->axis, n, 1);
}
