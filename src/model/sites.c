/* sites.c: increments of the log density as they come: what is prior is added to a sum, what is
 * likelihood becomes a Site, from which observations.c makes observations when the program has run.
 * How the elements and iterations of a statement are kept apart is said by factors.c. */
#include "model/eval.h"

#include <math.h>

static void add_scalar(Eval *E, Value ***list, size_t *n, size_t *cap, Value *v) {
  Value *s = value_sum(E, v);
  if (E->axis) { /* once per iteration */
    Node node = value_node_total(E, s, E->axis, 1);
    if (ir_size(E->graph, node) == 1) {
      s = map2(E, IR_MUL, s, value_real(E, E->axis->rows));
      s->axis = NULL;
    } else {
      int32_t rows = E->axis->rows;
      s = value_sum(E, value_of_node(E, value_shape(E, TY_VECTOR, 0, 1, &rows), NULL, node));
    }
  }
  PUSH(E->arena, *list, *n, *cap, s);
}

/* One observation per iteration of a lifted loop that nothing encloses. */
static Node per_iteration(Eval *E, Value *v) {
  Value *s = value_sum(E, v);
  Node node = value_node_total(E, s, E->axis, 1);
  if (ir_size(E->graph, node) == E->axis->rows) return node;
  int32_t *zero = NEW_ARRAY(E->arena, int32_t, E->axis->rows);
  return ir_gather(E->graph, node, zero, E->axis->rows);
}

/* rows x n elements of a Value of a lifted loop, one after the other. */
static Value *flattened(Eval *E, Value *v, int32_t n) {
  if (!v) return NULL;
  Node node = value_node_total(E, value_on_axis(E, v, E->axis), E->axis, n);
  int32_t size = ir_size(E->graph, node);
  return value_of_node(E, value_shape(E, TY_VECTOR, 0, 1, &size), NULL, node);
}

/* The elements of a vectorized statement in a lifted loop, each an observation of its own. */
static void place_elements(Eval *E, Site *site, Value *v, const Outcome *outcome) {
  const Axis *axis = E->axis;
  int32_t n = v->n;
  Outcome o = outcome ? *outcome : (Outcome){.known = false};
  Value *flat = flattened(E, v, n);
  if (flat->n == 1 && axis->rows * n > 1) /* the same in all rows */
    flat = map2(E, IR_ADD, flat, value_vector(E, axis->rows * n));
  o.known &= !o.width;
  for (int k = 0; o.known && k < o.npar; k++) o.par[k] = flattened(E, o.par[k], n);
  if (o.known) o.y = flattened(E, o.y, n), o.size = flattened(E, o.size, n);
  E->axis = NULL; /* nothing here has rows any more */
  site->node = value_node(E, flat);
  site->each = n;
  outcome_place(E, site, &o, flat->n);
  E->axis = axis;
  site->axis = axis;
}

/* Number of the iteration of the loop at this level; 0 for that of the outermost one. */
static int32_t group_of(const Eval *E, int level) {
  const Nest *n = E->nest;
  while (n && n->depth > level) n = n->outer;
  return n && level > 1 ? n->tick + 1 : 0;
}

/* An increment that is observations: those of a statement outside of loops are its elements, those
 * of one in a loop what factors.c says. */
static void place_site(Eval *E, Value *v, Loc loc, const char *name, const Outcome *outcome) {
  Factor f = E->loop < 0 ? (Factor){.elements = true} : factors_find(E->factors, E->statement);
  Site site = {.loop = E->loop,
               .iteration = E->iteration,
               .group = group_of(E, f.level),
               .each = 1,
               .guarded = eval_is_conditional(E),
               .loc = E->inlined ? E->inlined->loc : loc,
               .name = E->inlined ? E->inlined->name : name,
               .sim = NO_NODE,
               .dist = -1};
  bool rows = E->axis && (E->iteration < 0 || f.level >= E->lift_depth);
  if (rows && f.elements && v->n > 1) {
    place_elements(E, &site, v, outcome);
  } else if (rows) {
    site.axis = E->axis;
    site.node = per_iteration(E, v);
    outcome_place(E, &site, outcome, v->n);
  } else if (E->axis) { /* a lifted loop inside of an unrolled one: part of that one's iteration */
    int32_t n = E->axis->rows;
    site.node = value_node(E, value_sum(E, value_of_node(E, value_shape(E, TY_VECTOR, 0, 1, &n),
                                                         NULL, per_iteration(E, v))));
  } else {
    if (!f.elements && v->n > 1) outcome = NULL;
    if (!f.elements) v = value_sum(E, v);
    site.each = v->n;
    site.node = value_node(E, v);
    outcome_place(E, &site, outcome, v->n);
  }
  PUSH(E->arena, E->sites, E->nsites, E->cap_sites, site);
}

/* Of increments outside of loops that count in some draws only: do they have the same elements? */
static bool are_alternatives(const Eval *E, const Site *a, const Site *b) {
  return a->guarded && b->guarded && a->loop < 0 && b->loop < 0 && !a->axis && !b->axis &&
         a->each == b->each && ir_size(E->graph, a->node) == ir_size(E->graph, b->node);
}

bool sites_join(Eval *E, size_t into, size_t from) {
  Site *a = &E->sites[into];
  if (!are_alternatives(E, a, &E->sites[from])) return false;
  a->node = ir_map(E->graph, IR_ADD, (Node[]){a->node, E->sites[from].node});
  a->dist = -1;
  a->sim = NO_NODE;
  a->y = a->size = NULL;
  for (size_t k = from + 1; k < E->nsites; k++) E->sites[k - 1] = E->sites[k];
  E->nsites--;
  return true;
}

/* The user says that increments of this line, or terms of them, are observations. */
bool eval_is_observed(const Eval *E, Loc loc) {
  const Stmt *s = E->adding;
  bool any = false;
  for (int k = 0; k < E->nguess; k++) any |= E->guess[k] == s;
  for (int k = 0; k < E->nobserve; k++) {
    bool term = E->observe[k] == (long)loc.line && loc.source == E->program->source;
    bool statement = s && E->observe[k] == (long)s->loc.line && s->loc.source == E->program->source;
    if (!term && !statement) continue;
    any = E->observe_found[k] = true;
  }
  return any;
}

/* Under a condition on parameters nothing is added where it does not hold. */
Value *eval_guarded(Eval *E, Value *v) {
  Value *c = eval_condition(E);
  return c ? map3(E, IR_SELECT, c, v, value_real(E, 0)) : v;
}

void eval_add_jacobian(Eval *E, Value *v) {
  if (E->quiet || v->n == 0) return;
  add_scalar(E, &E->jacobian, &E->njacobian, &E->cap_jacobian, eval_guarded(E, v));
}

void eval_add_rejected(Eval *E, Value *condition) {
  add_scalar(E, &E->rejected, &E->nrejected, &E->cap_rejected, condition);
}

void eval_add_target(Eval *E, Value *v, Loc loc, const char *name, const Outcome *outcome) {
  if (E->quiet || v->n == 0) return;
  if (eval_is_observed(E, loc) && !v->likelihood) v = eval_as_likelihood(E, v);
  bool likelihood = v->likelihood;
  v = eval_guarded(E, v);
  if (!likelihood) {
    add_scalar(E, &E->prior, &E->nprior, &E->cap_prior, v);
    return;
  }
  place_site(E, v, loc, name, eval_is_conditional(E) ? NULL : outcome);
}

Value *eval_as_likelihood(Eval *E, Value *v) {
  if (!v->known)
    return value_of_node(E, v, v->axis, ir_mark_likelihood(E->graph, value_node(E, v)));
  Value *r = value_reshape(E, v, v->kind, v->array_dims, v->ndims, v->dims);
  r->likelihood = true;
  return r;
}
