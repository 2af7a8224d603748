/* rhs.c: the right-hand side of a differential equation as a list of kernel calls.
 *
 * It is evaluated many times for few draws, so finding operands must cost nothing: every element of
 * the graph that is needed becomes a Cell, a row of draws at a fixed place, and every operation a
 * Call on such rows. Moving elements costs nothing (the cells are the same), sums and products
 * become chains of calls. Backward, each slope has the list of the calls it depends on (its cone)
 * with adjoint rows of their own, so that a Jacobian costs as much as it has entries.
 */
#include "vm/ode_int.h"

#include <assert.h>
#include <string.h>

typedef struct {
  double *row;
  size_t step; /* 0: LANES copies of a constant */
  bool active; /* depends on y or p */
  bool moving; /* depends on t or y */
} Cell;

typedef struct {
  Arena *arena, *temp;
  Rhs *r;
  const Graph *g;
  bool **need;    /* node -> element: somebody reads it */
  int32_t **cell; /* node -> element: its cell */
  Cell *cells;
  int32_t ncells, cap_cells;
  Call *calls;
  size_t ncalls, cap_calls;
} Lowering;

/* ---- which elements are needed --------------------------------------------------------------- */

static void need(Lowering *l, Node id, int32_t e) {
  l->need[id][ir_size(l->g, id) == 1 ? 0 : e] = true;
}

static void need_operands(Lowering *l, Node id, int32_t e) {
  const IrNode *x = ir_node(l->g, id);
  int32_t W = x->attr, columns = x->op == IR_MATMUL ? x->attr2 : 1;
  switch (x->op) {
  case IR_CONST:
  case IR_INPUT: break;
  case IR_GATHER: need(l, x->args[0], x->u.index[e]); break;
  case IR_PACK: need(l, x->u.picks[e].node, x->u.picks[e].elem); break;
  case IR_SUM:
  case IR_LSE:
    for (int32_t w = 0; w < W; w++) need(l, x->args[0], e * W + w);
    break;
  case IR_CUMSUM:
    need(l, x->args[0], e);
    if (e % W) need(l, id, e - 1);
    break;
  case IR_MATVEC:
  case IR_MATMUL:
    for (int32_t k = 0; k < W; k++) {
      need(l, x->args[0], e / columns * W + k);
      need(l, x->args[1], k * columns + e % columns);
    }
    break;
  default:
    assert(ir_is_map(x->op));
    for (int k = 0; k < x->nargs; k++) need(l, x->args[k], e);
  }
}

/* Operands have smaller numbers than their users. */
static void find_needed(Lowering *l, const IrOde *ode) {
  l->need = NEW_ARRAY(l->temp, bool *, l->g->count + 1);
  for (Node x = 0; x < l->g->count; x++)
    l->need[x] = NEW_ARRAY(l->temp, bool, ir_size(l->g, x) + 1);
  for (int32_t i = 0; i < ode->states; i++) need(l, ode->slopes[i].node, ode->slopes[i].elem);
  for (Node x = l->g->count; x-- > 0;)
    for (int32_t e = ir_size(l->g, x); e-- > 0;)
      if (l->need[x][e]) need_operands(l, x, e);
}

/* ---- cells and calls ------------------------------------------------------------------------- */

static int32_t add_cell(Lowering *l, Cell c) {
  PUSH(l->temp, l->cells, l->ncells, l->cap_cells, c);
  return l->ncells - 1;
}

static int32_t constant_cell(Lowering *l, double x) {
  double *row = NEW_ARRAY(l->arena, double, LANES);
  for (int k = 0; k < LANES; k++) row[k] = x;
  return add_cell(l, (Cell){.row = row});
}

static int32_t emit(Lowering *l, unsigned op, const int32_t *args) {
  const Kernels *k = l->r->k;
  Call c = {.run = k->forward[op],
            .pull = k->backward[op],
            .out = NEW_ARRAY(l->arena, double, l->r->ld),
            .cell = l->ncells};
  Cell out = {.row = c.out, .step = 1};
  for (int a = 0; a < IR_MAX_ARGS; a++) c.args[a] = -1;
  for (int a = 0; a < ir_op_arity(op); a++) {
    const Cell *x = &l->cells[args[a]];
    c.args[a] = args[a];
    c.in[a] = x->row;
    c.step[a] = x->step;
    out.active |= x->active;
    out.moving |= x->moving;
  }
  PUSH(l->temp, l->calls, l->ncalls, l->cap_calls, c);
  return add_cell(l, out);
}

static int32_t cell_of(const Lowering *l, Node id, int32_t e) {
  return l->cell[id][ir_size(l->g, id) == 1 ? 0 : e];
}

static int32_t lower_reduction(Lowering *l, const IrNode *x, int32_t e) {
  int32_t s = cell_of(l, x->args[0], e * x->attr);
  for (int32_t w = 1; w < x->attr; w++)
    s = emit(l, x->op == IR_SUM ? IR_ADD : IR_LOG_SUM_EXP2,
             (int32_t[]){s, cell_of(l, x->args[0], e * x->attr + w)});
  return s;
}

static int32_t lower_product(Lowering *l, const IrNode *x, int32_t e) {
  int32_t columns = x->op == IR_MATMUL ? x->attr2 : 1, s = -1;
  for (int32_t k = 0; k < x->attr; k++) {
    int32_t a = cell_of(l, x->args[0], e / columns * x->attr + k),
            b = cell_of(l, x->args[1], k * columns + e % columns);
    s = k ? emit(l, IR_FMA, (int32_t[]){a, b, s}) : emit(l, IR_MUL, (int32_t[]){a, b});
  }
  return s;
}

static int32_t lower_element(Lowering *l, Node id, int32_t e) {
  const IrNode *x = ir_node(l->g, id);
  int32_t args[IR_MAX_ARGS];
  switch (x->op) {
  case IR_CONST: return constant_cell(l, x->u.values[e]);
  case IR_INPUT: return x->attr + e;
  case IR_GATHER: return cell_of(l, x->args[0], x->u.index[e]);
  case IR_PACK: return cell_of(l, x->u.picks[e].node, x->u.picks[e].elem);
  case IR_SUM:
  case IR_LSE: return lower_reduction(l, x, e);
  case IR_CUMSUM:
    args[0] = cell_of(l, x->args[0], e);
    if (e % x->attr == 0) return args[0];
    args[1] = l->cell[id][e - 1];
    return emit(l, IR_ADD, args);
  case IR_MATVEC:
  case IR_MATMUL: return lower_product(l, x, e);
  default:
    for (int k = 0; k < x->nargs; k++) args[k] = cell_of(l, x->args[k], e);
    return emit(l, x->op, args);
  }
}

/* The first cells are the input: t, y, p. */
static void make_leaves(Lowering *l) {
  Rhs *r = l->r;
  size_t n = 1 + r->states + r->params;
  r->t = NEW_ARRAY(l->arena, double, n * r->ld);
  r->y = r->t + r->ld;
  r->p = r->y + r->states * r->ld;
  for (size_t k = 0; k < n; k++)
    add_cell(l,
             (Cell){.row = r->t + k * r->ld, .step = 1, .active = k > 0, .moving = k <= r->states});
}

static void lower(Lowering *l) {
  l->cell = NEW_ARRAY(l->temp, int32_t *, l->g->count + 1);
  for (Node x = 0; x < l->g->count; x++) {
    l->cell[x] = NEW_ARRAY(l->temp, int32_t, ir_size(l->g, x) + 1);
    for (int32_t e = 0; e < ir_size(l->g, x); e++)
      if (l->need[x][e]) l->cell[x][e] = lower_element(l, x, e);
  }
}

/* Parameters do not change while draws are solved: what depends on nothing else is computed when
 * they come. */
static void divide(Lowering *l) {
  Rhs *r = l->r;
  r->fixed = NEW_ARRAY(l->arena, Call, l->ncalls + 1);
  r->moving = NEW_ARRAY(l->arena, Call, l->ncalls + 1);
  for (size_t c = 0; c < l->ncalls; c++) {
    bool moving = l->cells[l->calls[c].cell].moving;
    *(moving ? &r->moving[r->nmoving++] : &r->fixed[r->nfixed++]) = l->calls[c];
  }
}

/* ---- cones ----------------------------------------------------------------------------------- */

typedef struct {
  int32_t *row; /* cell -> its adjoint row in the cone + 1 */
  Cone *cone;
} Marking;

static void mark(const Lowering *l, Marking *m, int32_t cell) {
  if (cell >= 0 && l->cells[cell].active && !m->row[cell]) m->row[cell] = (int32_t)++m->cone->rows;
}

static double *adjoint_row(const Lowering *l, const Marking *m, int32_t cell) {
  return cell >= 0 && m->row[cell] ? m->cone->adjoint + (size_t)(m->row[cell] - 1) * l->r->ld
                                   : NULL;
}

static void mark_calls(const Lowering *l, Marking *m, const Call *calls, size_t n) {
  for (size_t c = n; c-- > 0;) {
    if (!m->row[calls[c].cell]) continue;
    for (int a = 0; a < IR_MAX_ARGS; a++) mark(l, m, calls[c].args[a]);
    Pull p = {.call = &calls[c]};
    PUSH(l->arena, m->cone->pulls, m->cone->count, m->cone->cap, p);
  }
}

static void make_cone(const Lowering *l, size_t i, int32_t root) {
  Rhs *r = l->r;
  Marking m = {NEW_ARRAY(l->temp, int32_t, l->ncells), &r->cones[i]};
  mark(l, &m, root);
  mark_calls(l, &m, r->moving, r->nmoving);
  mark_calls(l, &m, r->fixed, r->nfixed);
  m.cone->adjoint = NEW_ARRAY(l->arena, double, m.cone->rows * r->ld + 1);
  for (size_t c = 0; c < m.cone->count; c++) {
    Pull *p = &m.cone->pulls[c];
    p->g = adjoint_row(l, &m, p->call->cell);
    for (int a = 0; a < IR_MAX_ARGS; a++) p->adj[a] = adjoint_row(l, &m, p->call->args[a]);
  }
  size_t n = r->states + r->params;
  for (size_t k = 0; k < n; k++) r->partial[i * n + k] = adjoint_row(l, &m, (int32_t)k + 1);
}

/* ---- making and running ---------------------------------------------------------------------- */

Rhs *rhs_make(Arena *a, const IrOde *ode, size_t ld) {
  Rhs *r = NEW(a, Rhs);
  *r = (Rhs){
      .k = kernels_best(), .states = (size_t)ode->states, .params = (size_t)ode->params, .ld = ld};
  TempArena *task = temp_open(a->ctx);
  Lowering l = {.arena = a, .temp = &task->arena, .r = r, .g = ode->graph};
  make_leaves(&l);
  find_needed(&l, ode);
  lower(&l);
  divide(&l);
  r->slope = NEW_ARRAY(a, const double *, r->states);
  r->slope_step = NEW_ARRAY(a, size_t, r->states);
  r->cones = NEW_ARRAY(a, Cone, r->states);
  r->partial = NEW_ARRAY(a, const double *, r->states *(r->states + r->params));
  for (size_t i = 0; i < r->states; i++) {
    int32_t root = cell_of(&l, ode->slopes[i].node, ode->slopes[i].elem);
    r->slope[i] = l.cells[root].row;
    r->slope_step[i] = l.cells[root].step;
    make_cone(&l, i, root);
  }
  temp_close(task);
  return r;
}

size_t rhs_rows(const IrOde *ode) {
  size_t n = 0;
  for (Node x = 0; x < ode->graph->count; x++)
    n += ir_is_map(ir_node(ode->graph, x)->op) ? (size_t)ir_size(ode->graph, x) : 0;
  return 3 * n + 1 + (size_t)ode->states + (size_t)ode->params;
}

static void run(const Call *calls, size_t count, size_t n) {
  for (size_t c = 0; c < count; c++) calls[c].run(calls[c].out, calls[c].in, calls[c].step, n);
}

void rhs_fixed(const Rhs *r, size_t n) { run(r->fixed, r->nfixed, n); }
void rhs_values(const Rhs *r, size_t n) { run(r->moving, r->nmoving, n); }

void rhs_slopes(const Rhs *r, double *out, size_t n) {
  for (size_t i = 0; i < r->states; i++) {
    if (r->slope_step[i]) {
      memcpy(out + i * r->ld, r->slope[i], n * sizeof *out);
    } else {
      r->k->fill(out + i * r->ld, r->slope[i][0], n);
    }
  }
}

void rhs_partials(const Rhs *r, size_t n) {
  for (size_t i = 0; i < r->states; i++) {
    const Cone *c = &r->cones[i];
    if (!c->rows) continue;
    memset(c->adjoint, 0, c->rows * r->ld * sizeof(double));
    r->k->fill(c->adjoint, 1, n);
    for (size_t p = 0; p < c->count; p++) {
      const Call *call = c->pulls[p].call;
      call->pull(c->pulls[p].g, call->out, call->in, call->step, c->pulls[p].adj, n);
    }
  }
}
