/* centring.c: finding hierarchies in the graph of a log density, and moving their parameters
 * (centring.h).
 *
 *   1. Densities of the prior whose outcome is made of unconstrained parameters are statements
 *      (find_statements). What their location and scale depend on is known by variable of the
 *      program, and a statement that would close a circle is left out (is_allowed).
 *   2. The graph is built again with c mu + sigma^c w in the place of x (move_graph). Nodes are
 *      made in their order, those of mu and sigma before x: as many rounds as hierarchies stand
 * upon each other.
 */
#include "model/centring.h"

#include <string.h>

enum { MOST_STATEMENTS = 256, MOST_VARIABLES = 256 };

/* ---- statements ------------------------------------------------------------------------------ */

typedef struct {
  Graph *g;
  const Model *m;
  Arena *temp;
  int32_t count;              /* nodes of the model */
  bool *below;                /* nodes below the prior */
  bool *marked;               /* room for another such set */
  int nvariables;             /* parameters of the program */
  int32_t *variable;          /* of each number of theta */
  bool *needs;                /* [variable x variable]: the first's coordinates need the second */
  Pick *location, *log_scale; /* of each number of theta; node NO_NODE: it cannot be moved */
} Finder;

/* Marks what the marked nodes are made of. */
static void mark_operands(const Graph *g, int32_t count, bool *marked) {
  for (Node k = count - 1; k >= 0; k--) {
    const IrNode *x = ir_node(g, k);
    if (!marked[k]) continue;
    for (int a = 0; a < x->nargs; a++) marked[x->args[a]] = true;
    for (int32_t e = 0; x->op == IR_PACK && e < x->n; e++) marked[x->u.picks[e].node] = true;
  }
}

/* Does this density have a location and a scale, operands 1 and 2 (its inverse)? */
static bool has_scale(unsigned op) {
  return op == IR_NORMAL || op == IR_STUDENT_T || op == IR_CAUCHY || op == IR_LOGISTIC ||
         op == IR_DOUBLE_EXP;
}

static Pick element(const Graph *g, Node id, int32_t e) {
  return (Pick){id, ir_size(g, id) == 1 ? 0 : e};
}

/* The number in theta of an element that is a parameter as it is; -1: it is none. */
static int32_t parameter_of(const Graph *g, Pick p) {
  for (;;) {
    const IrNode *x = ir_node(g, p.node);
    if (x->op == IR_INPUT) return x->attr + p.elem;
    if (x->op != IR_GATHER && x->op != IR_PACK) return -1;
    p = x->op == IR_PACK ? x->u.picks[p.elem] : (Pick){x->args[0], x->u.index[p.elem]};
  }
}

static void name_variables(Finder *f) {
  for (size_t k = 0; k < f->m->dim; k++) f->variable[k] = -1;
  for (int j = 0; j < f->m->noutputs; j++) {
    const Output *o = &f->m->outputs[j];
    if (o->block != BLOCK_PARAMETERS) continue;
    for (int32_t k = 0; k < o->unconstrained; k++) f->variable[o->offset + k] = f->nvariables;
    f->nvariables++;
  }
}

/* The variables that a statement's location and scale depend on. False: on none. */
static bool find_needs(const Finder *f, const IrNode *x, bool *needs) {
  bool *marked = memset(f->marked, 0, (size_t)f->count * sizeof *f->marked), some = false;
  marked[x->args[1]] = marked[x->args[2]] = true;
  mark_operands(f->g, f->count, marked);
  memset(needs, 0, (size_t)f->nvariables * sizeof *needs);
  for (Node k = 0; k < f->count; k++) {
    const IrNode *y = ir_node(f->g, k);
    for (int32_t e = 0; marked[k] && y->op == IR_INPUT && e < y->n; e++) {
      int32_t v = f->variable[y->attr + e];
      if (v >= 0) needs[v] = some = true;
    }
  }
  return some;
}

/* May variable v need these, without needing itself in the end? f->needs is closed: it has what is
 * needed by way of others. */
static bool is_allowed(const Finder *f, int32_t v, const bool *needs) {
  for (int u = 0; u < f->nvariables; u++)
    if (needs[u] && (u == v || f->needs[u * f->nvariables + v])) return false;
  return true;
}

static void add_needs(Finder *f, int32_t v, const bool *needs) {
  int n = f->nvariables, known = 0;
  while (known < n && needs[known] <= f->needs[v * n + known]) known++;
  if (known == n) return;
  for (int u = 0; u < n; u++) {
    if (u != v && !f->needs[u * n + v]) continue; /* u is v, or needs it */
    for (int w = 0; w < n; w++) {
      f->needs[u * n + w] |= needs[w];
      for (int t = 0; t < n; t++) f->needs[u * n + w] |= needs[t] && f->needs[t * n + w];
    }
  }
}

/* Only student_t has no operand log sigma. */
static Node log_scale(Finder *f, const IrNode *x) {
  if (x->op != IR_STUDENT_T) return x->args[3];
  Node log_inverse = ir_map(f->g, IR_LOG, (Node[]){x->args[2]});
  return ir_map(f->g, IR_NEG, (Node[]){log_inverse});
}

/* The parameters of one density; each is moved by the first that has it. */
static void take_statement(Finder *f, IrNode x, const bool *needs) {
  Node scale = log_scale(f, &x);
  for (int32_t e = 0; e < x.n; e++) {
    int32_t k = parameter_of(f->g, element(f->g, x.args[0], e));
    if (k < 0 || f->variable[k] < 0 || f->location[k].node != NO_NODE ||
        !is_allowed(f, f->variable[k], needs))
      continue;
    add_needs(f, f->variable[k], needs);
    f->location[k] = element(f->g, x.args[1], e);
    f->log_scale[k] = element(f->g, scale, e);
  }
}

static bool reads_parameter(const Finder *f, const IrNode *x) {
  for (int32_t e = 0; e < x->n; e++)
    if (parameter_of(f->g, element(f->g, x->args[0], e)) >= 0) return true;
  return false;
}

static void find_statements(Finder *f) {
  bool *needs = NEW_ARRAY(f->temp, bool, f->nvariables + 1);
  int statements = 0;
  for (Node k = 0; k < f->count && statements < MOST_STATEMENTS; k++) {
    IrNode x = *ir_node(f->g, k);
    if (!f->below[k] || !has_scale(x.op) || !reads_parameter(f, &x)) continue;
    statements++;
    if (find_needs(f, &x, needs)) take_statement(f, x, needs);
  }
}

/* The longest way from need to need, through variables that are moved. */
static int depth_of(const Finder *f) {
  int n = f->nvariables, depth = 0, *of = NEW_ARRAY(f->temp, int, n + 1);
  for (size_t k = 0; k < f->m->dim; k++)
    if (f->location[k].node != NO_NODE && f->variable[k] >= 0) of[f->variable[k]] = 1;
  for (bool more = true; more;) {
    more = false;
    for (int v = 0; v < n; v++)
      for (int u = 0; u < n && of[v]; u++)
        if (f->needs[v * n + u] && of[u] >= of[v]) of[v] = of[u] + 1, more = true;
  }
  for (int v = 0; v < n; v++) depth = of[v] > depth ? of[v] : depth;
  return depth;
}

static const Centring *found(Arena *a, const Finder *f) {
  size_t dim = f->m->dim;
  Centring *x = NEW(a, Centring);
  int32_t *parameter = NEW_ARRAY(a, int32_t, dim + 1);
  Pick *location = NEW_ARRAY(a, Pick, dim + 1), *scale = NEW_ARRAY(a, Pick, dim + 1);
  for (size_t k = 0; k < dim; k++) {
    if (f->location[k].node == NO_NODE) continue;
    parameter[x->n] = (int32_t)k;
    location[x->n] = f->location[k];
    scale[x->n++] = f->log_scale[k];
  }
  x->parameter = parameter;
  x->location = location;
  x->log_scale = scale;
  x->graph = f->g;
  x->depth = depth_of(f);
  return x->n ? x : NULL;
}

const Centring *centring_find(Arena *a, const Model *m) {
  if (m->by_draw || m->noutputs > MOST_VARIABLES || !m->dim) return NULL;
  TempArena *temp = temp_open(a->ctx);
  Finder f = {.g = ir_copy(a, m->graph),
              .m = m,
              .temp = &temp->arena,
              .count = m->graph->count,
              .below = NEW_ARRAY(&temp->arena, bool, m->graph->count + 1),
              .marked = NEW_ARRAY(&temp->arena, bool, m->graph->count + 1),
              .variable = NEW_ARRAY(&temp->arena, int32_t, m->dim),
              .location = NEW_ARRAY(&temp->arena, Pick, m->dim),
              .log_scale = NEW_ARRAY(&temp->arena, Pick, m->dim)};
  name_variables(&f);
  f.needs = NEW_ARRAY(f.temp, bool, f.nvariables *f.nvariables + 1);
  for (size_t k = 0; k < m->dim; k++) f.location[k].node = NO_NODE;
  f.below[m->prior] = true;
  mark_operands(f.g, f.count, f.below);
  find_statements(&f);
  const Centring *x = found(a, &f);
  temp_close(temp);
  return x;
}

/* ---- the moved graph ------------------------------------------------------------------------- */

typedef struct {
  const Centring *x;
  const double *share;
  const int32_t *at; /* of each number of theta: its place in x, or -1 where it stays */
  Arena *temp;
  Graph *g;
  Node *made; /* of each node of the old graph */
} Mover;

static Node map2(Graph *g, unsigned op, Node a, Node b) { return ir_map(g, op, (Node[]){a, b}); }

/* Elements of nodes that are made, with `other` where a parameter stays; false: some are not made
 * yet. */
static bool picks_of(const Mover *v, const IrNode *x, const Pick *from, Pick other, Pick *out) {
  for (int32_t e = 0; e < x->n; e++) {
    int32_t k = v->at[x->attr + e];
    out[e] = k < 0 ? other : (Pick){v->made[from[k].node], from[k].elem};
    if (out[e].node == NO_NODE) return false;
  }
  return true;
}

static Node moved_input(Mover *v, const IrNode *x) {
  Graph *g = v->g;
  Node w = ir_input(g, x->attr, x->n), zero = ir_number(g, 0);
  Pick *mu = NEW_ARRAY(v->temp, Pick, x->n), *scale = NEW_ARRAY(v->temp, Pick, x->n);
  double *share = NEW_ARRAY(v->temp, double, x->n);
  bool some = false;
  for (int32_t e = 0; e < x->n; e++) {
    int32_t k = v->at[x->attr + e];
    share[e] = k < 0 ? 0 : v->share[k];
    some |= k >= 0;
  }
  if (!some) return w;
  if (!picks_of(v, x, v->x->location, (Pick){zero, 0}, mu) ||
      !picks_of(v, x, v->x->log_scale, (Pick){zero, 0}, scale))
    return NO_NODE;
  Node c = ir_const(g, share, x->n);
  Node shift = map2(g, IR_MUL, c, ir_pack(g, mu, x->n)),
       factor = ir_map(g, IR_EXP, (Node[]){map2(g, IR_MUL, c, ir_pack(g, scale, x->n))});
  return map2(g, IR_ADD, shift, map2(g, IR_MUL, factor, w));
}

static Node moved_pack(Mover *v, const IrNode *x) {
  Pick *picks = NEW_ARRAY(v->temp, Pick, x->n);
  for (int32_t e = 0; e < x->n; e++)
    picks[e] = (Pick){v->made[x->u.picks[e].node], x->u.picks[e].elem};
  return ir_pack(v->g, picks, x->n);
}

/* The node on operands that are made. */
static Node moved_node(Mover *v, const IrNode *x) {
  Graph *g = v->g;
  Node args[IR_MAX_ARGS];
  for (int k = 0; k < x->nargs; k++) args[k] = v->made[x->args[k]];
  switch (x->op) {
  case IR_CONST: return ir_const_kept(g, x->u.values, x->n);
  case IR_INPUT: return moved_input(v, x);
  case IR_GATHER: return ir_gather_kept(g, args[0], x->u.index, x->n);
  case IR_PACK: return moved_pack(v, x);
  case IR_SUM:
  case IR_LSE: return ir_reduce(g, x->op, args[0], x->attr);
  case IR_CUMSUM: return ir_cumsum(g, args[0], x->attr);
  case IR_MATVEC: return ir_matvec(g, args[0], args[1]);
  case IR_MATMUL: return ir_matmul(g, args[0], args[1], x->attr, x->attr2);
  case IR_EIGEN: return ir_eigen(g, args[0], x->attr);
  case IR_NOISE: return ir_noise(g, (NoiseKind)x->attr, x->attr2, x->n);
  case IR_ODE: return ir_ode(g, x->u.ode, args[0]);
  case IR_RUN: return ir_run(g, x->u.run, args[0]);
  default: return ir_map(g, x->op, args);
  }
}

static bool operands_made(const Mover *v, const IrNode *x) {
  for (int k = 0; k < x->nargs; k++)
    if (v->made[x->args[k]] == NO_NODE) return false;
  for (int32_t e = 0; x->op == IR_PACK && e < x->n; e++)
    if (v->made[x->u.picks[e].node] == NO_NODE) return false;
  return true;
}

/* Rounds over the wanted nodes, until a round makes none. */
static void move_graph(Mover *v, const bool *wanted) {
  const Graph *old = v->x->graph;
  for (Node k = 0; k < old->count; k++) v->made[k] = NO_NODE;
  for (bool more = true; more;) {
    more = false;
    for (Node k = 0; k < old->count; k++) {
      const IrNode *x = ir_node(old, k);
      if (!wanted[k] || v->made[k] != NO_NODE || !operands_made(v, x)) continue;
      v->made[k] = moved_node(v, x);
      more |= v->made[k] != NO_NODE;
    }
  }
}

/* sum_k c_k log sigma_k */
static Node log_factors(const Mover *v) {
  int32_t n = (int32_t)v->x->n, count = 0;
  Pick *picks = NEW_ARRAY(v->temp, Pick, n);
  double *share = NEW_ARRAY(v->temp, double, n);
  for (int32_t k = 0; k < n; k++) {
    if (v->at[v->x->parameter[k]] < 0) continue;
    share[count] = v->share[k];
    picks[count++] = (Pick){v->made[v->x->log_scale[k].node], v->x->log_scale[k].elem};
  }
  if (!count) return ir_number(v->g, 0);
  Node scales = ir_pack(v->g, picks, count), c = ir_const(v->g, share, count);
  return ir_reduce(v->g, IR_SUM, map2(v->g, IR_MUL, c, scales), count);
}

static bool *wanted_nodes(const Mover *v, const Model *m) {
  int32_t count = v->x->graph->count;
  bool *wanted = NEW_ARRAY(v->temp, bool, count + 1);
  wanted[m->prior] = wanted[m->jacobian] = true;
  for (int b = 0; b < m->nblocks; b++)
    if (m->blocks[b].root != NO_NODE) wanted[m->blocks[b].root] = true;
  for (size_t k = 0; k < v->x->n; k++)
    wanted[v->x->location[k].node] = wanted[v->x->log_scale[k].node] = true;
  mark_operands(v->x->graph, count, wanted);
  return wanted;
}

static const ObsBlock *moved_blocks(const Mover *v, Arena *a, const Model *m) {
  ObsBlock *blocks = NEW_ARRAY(a, ObsBlock, m->nblocks + 1);
  for (int b = 0; b < m->nblocks; b++) {
    blocks[b] = m->blocks[b];
    blocks[b].npar = 0;
    blocks[b].sim = NO_NODE;
    for (int k = 0; k < 3; k++) blocks[b].par[k] = NO_NODE;
    if (blocks[b].root != NO_NODE) blocks[b].root = v->made[blocks[b].root];
  }
  return blocks;
}

const Model *centring_model(Arena *a, const Model *m, const Centring *x, const double *share) {
  TempArena *temp = temp_open(a->ctx);
  int32_t *at = NEW_ARRAY(&temp->arena, int32_t, m->dim);
  for (size_t k = 0; k < m->dim; k++) at[k] = -1;
  for (size_t k = 0; k < x->n; k++)
    if (share[k] > 0) at[x->parameter[k]] = (int32_t)k;
  Mover v = {.x = x,
             .share = share,
             .at = at,
             .temp = &temp->arena,
             .g = ir_graph_in(a),
             .made = NEW_ARRAY(&temp->arena, Node, x->graph->count + 1)};
  move_graph(&v, wanted_nodes(&v, m));
  Model *out = NEW(a, Model);
  *out = *m;
  out->prior = v.made[m->prior];
  out->jacobian = map2(v.g, IR_ADD, v.made[m->jacobian], log_factors(&v));
  out->blocks = moved_blocks(&v, a, m);
  out->graph = v.g;
  temp_close(temp);
  return out;
}
