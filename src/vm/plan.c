/* plan.c: from Graph to Tape: which values are shared and which belong to an observation, and where
 * each lives.
 *
 * Planning walks down from the roots. A global value is needed whole. Below an observation root the
 * walk carries, for every element of the tile, which element of the node it needs (`index`);
 * elementwise ops and row reductions pass it on to their operands and become tile instructions;
 * gathers compose it; everything else is needed whole and ends the walk. So a gather costs nothing:
 * it is how an operand is read.
 */
#include "vm/plan_int.h"

#include <stdlib.h>
#include <string.h>

/* ---- tile instructions ----------------------------------------------------------------------- */

/* Where the values of n global elements are as rows of all draws. */
static size_t keep_rows(Planner *p, size_t element, size_t n) {
  Tape *t = p->tape;
  if (element < t->dim) return element;
  Kept k = {element, n, t->rows_kept};
  t->rows_kept += n;
  PUSH(p->arena, t->kept, t->nkept, t->cap_kept, k);
  return k.at;
}

size_t plan_exps(Planner *p, Node id) {
  if (!p->exps_at[id]) {
    plan_global(p, id);
    p->exps_at[id] = keep_rows(p, plan_exps_of(p, id), (size_t)ir_size(p->g, id)) + 1;
  }
  return p->exps_at[id] - 1;
}

const Boundary *plan_boundary(Planner *p, Node id) {
  Tape *t = p->tape;
  if (!p->boundary_at[id]) {
    const IrNode *x = ir_node(p->g, id);
    Boundary b = {plan_global(p, id), (size_t)x->n, t->boundary_elements, 0};
    b.kept = keep_rows(p, b.element, b.n);
    t->boundary_elements += b.n;
    PUSH(p->arena, t->boundary, t->nboundary, t->cap_boundary, b);
    p->boundary_at[id] = t->nboundary;
  }
  return &t->boundary[p->boundary_at[id] - 1];
}

static bool is_iota(const int32_t *index, size_t n) {
  for (size_t e = 0; e < n; e++)
    if (index[e] != (int32_t)e) return false;
  return true;
}

static const int32_t *kept_index(Planner *p, const int32_t *index, size_t n) {
  return memcpy(NEW_ARRAY(p->arena, int32_t, n), index, n * sizeof *index);
}

/* Read a shared value: whole, by index. */
static Operand boundary_operand(Planner *p, Node id, const int32_t *index, size_t n) {
  const Boundary *b = plan_boundary(p, id);
  Operand o = {.place = IN_GLOBAL, .access = AT_INDEX, .base = b->kept, .adjoint = b->at};
  if (plan_all_same(index, n)) {
    o.access = AT_ONE;
    o.base += (size_t)index[0];
    o.adjoint += (size_t)index[0];
  } else {
    o.index = kept_index(p, index, n);
  }
  return o;
}

static Operand constant_operand(Planner *p, const IrNode *x, const int32_t *index, size_t n) {
  if (x->n == 1 || plan_all_same(index, n))
    return plan_data_operand(p, x->u.values + (x->n == 1 ? 0 : index[0]), 1);
  Operand o = {.place = IN_DATA, .access = AT_SAME, .data = x->u.values};
  if (!is_iota(index, n)) {
    double *v = NEW_ARRAY(p->arena, double, n);
    for (size_t e = 0; e < n; e++) v[e] = x->u.values[index[e]];
    o.data = v;
  }
  return o;
}

bool plan_tileable(unsigned op) {
  return ir_is_map(op) || op == IR_SUM || op == IR_LSE || op == IR_MATVEC || op == IR_PACK ||
         op == IR_NOISE || op == IR_OUTER;
}

/* A pack is a value of the observation when each of its columns is taken from one node throughout.
 */
static bool uniform_columns(const Planner *p, const IrNode *x, int32_t within) {
  for (int32_t w = 0; w < within; w++)
    for (int32_t r = 0; r < p->rows; r++)
      if (x->u.picks[p->select[r] * within + w].node != x->u.picks[p->select[0] * within + w].node)
        return false;
  return true;
}

/* Is element e of observation r always element m[e] of the source's own row select[r]? Then the
 * source is a value of the same observation, `within` elements wide. */
static bool same_observation(const Planner *p, const int32_t *index, int32_t width,
                             int32_t within) {
  for (int32_t r = 0; r < p->rows; r++)
    for (int32_t w = 0; w < width; w++) {
      int32_t m = index[w] - p->select[0] * within;
      if (m < 0 || m >= within || index[r * width + w] != p->select[r] * within + m) return false;
    }
  return true;
}

bool plan_distinct(Planner *p, const int32_t *index, size_t n, int32_t size) {
  ArenaMark m = arena_mark(p->temp);
  bool *seen = NEW_ARRAY(p->temp, bool, size);
  bool ok = true;
  for (size_t e = 0; ok && e < n; e++) {
    ok = !seen[index[e]];
    seen[index[e]] = true;
  }
  arena_reset(p->temp, m);
  return ok;
}

static size_t tile_value(Planner *p, Node id, const int32_t *index, int32_t width);

/* How a tile instruction of `width` elements per observation reads the given elements of node id.
 */
static Operand tile_operand(Planner *p, Node id, const int32_t *index, int32_t width) {
  const IrNode *x = ir_node(p->g, id);
  size_t n = (size_t)p->rows * (size_t)width;
  if (x->op == IR_CONST) return constant_operand(p, x, index, n);
  if (x->op == IR_GATHER) {
    int32_t *through = NEW_ARRAY(p->temp, int32_t, n);
    for (size_t e = 0; e < n; e++) through[e] = x->u.index[x->n == 1 ? 0 : index[e]];
    return tile_operand(p, x->args[0], through, width);
  }
  if (x->n > 1 && plan_tileable(x->op)) {
    int32_t within = x->n % p->full_rows == 0 ? x->n / p->full_rows : 0;
    bool packed = x->op == IR_PACK;
    if (within && same_observation(p, index, width, within) &&
        (!packed || uniform_columns(p, x, within))) {
      int32_t *own = NEW_ARRAY(p->temp, int32_t, p->rows * within);
      for (int32_t r = 0; r < p->rows; r++)
        for (int32_t w = 0; w < within; w++) own[r * within + w] = p->select[r] * within + w;
      int32_t *m = NEW_ARRAY(p->arena, int32_t, width);
      for (int32_t w = 0; w < width; w++) m[w] = index[w] - p->select[0] * within;
      Operand o = {.place = IN_TILE,
                   .access = AT_ROW,
                   .base = tile_value(p, id, own, within),
                   .width = width,
                   .source_width = within,
                   .index = m};
      if (width == within && is_iota(m, (size_t)width)) o.access = AT_SAME;
      return o;
    }
    if (!packed && n <= (size_t)x->n && plan_distinct(p, index, n, x->n))
      return (Operand){
          .place = IN_TILE, .access = AT_SAME, .base = tile_value(p, id, index, width)};
  }
  return boundary_operand(p, id, index, n);
}

static size_t find_value(const Planner *p, Node id, const int32_t *index, int32_t width) {
  for (size_t k = 0; k < p->nvalues; k++) {
    const TileValue *v = &p->values[k];
    if (v->node == id && v->width == width &&
        (v->index == index ||
         !memcmp(v->index, index, (size_t)p->rows * (size_t)width * sizeof *index)))
      return v->slot;
  }
  return SIZE_MAX;
}

static const double *matrix_rows(Planner *p, Node matrix, int32_t inner, const int32_t *index,
                                 size_t n) {
  const double *all = ir_node(p->g, matrix)->u.values;
  if (is_iota(index, n)) return all;
  double *v = NEW_ARRAY(p->arena, double, n *(size_t)inner);
  for (size_t e = 0; e < n; e++)
    memcpy(v + e * (size_t)inner, all + (size_t)index[e] * (size_t)inner,
           (size_t)inner * sizeof *v);
  return v;
}

/* Densities have faster kernels than their row of ops.def: with shared scale, or with the slope
 * saved on the way forward. */
static void choose_kernel(Planner *p, Instr *i) {
  const Kernels *k = kernels_best();
  if (i->op < IR_FIRST_MAP) return;
  bool shared = i->in[2].access == AT_ONE && i->in[3].access == AT_ONE &&
                i->in[2].place != IN_TILE && i->in[3].place != IN_TILE;
  if (k->density[i->op] && i->in[0].place == IN_DATA && i->in[1].place != IN_DATA && shared)
    i->density = true;
  if (!k->saving[i->op]) return;
  for (int a = 0; a < i->nargs; a++)
    if ((i->in[a].place == IN_DATA) == (a + 1 == k->saving_operand[i->op])) return;
  i->saves = true;
  i->slope = p->block->width;
  p->block->width += (size_t)i->n;
}

static const Operand *pulled_operand(const Instr *i) {
  return &i->in[i->density ? 1 : kernels_best()->saving_operand[i->op] - 1];
}

static void touch(bool *touched, const Operand *o) {
  if (o->place == IN_TILE) touched[o->base] = true;
}

static void clear_range(Planner *p, TapeBlock *b, size_t first, size_t count) {
  if (b->nclear && b->clear[b->nclear - 1].first + b->clear[b->nclear - 1].count == first) {
    b->clear[b->nclear - 1].count += count;
  } else {
    PUSH(p->arena, b->clear, b->nclear, b->cap_clear, ((Range){first, count}));
  }
}

/* Which adjoints are stored before they are added to, and which must begin at zero. On the way back
 * the last user is first. */
static void plan_adjoints(Planner *p, TapeBlock *b) {
  bool *touched = NEW_ARRAY(p->temp, bool, b->width + 1),
       *fresh = NEW_ARRAY(p->temp, bool, b->width + 1);
  for (int h = 0; h < VM_HEADS; h++)
    if (b->has[h]) touched[b->out[h]] = true;
  for (int c = b->count; c-- > 0;) {
    Instr *i = &b->code[c];
    if (i->density || i->saves) {
      const Operand *o = pulled_operand(i);
      i->fresh = o->place == IN_TILE && o->access == AT_SAME && !touched[o->base];
      if (i->fresh) fresh[o->base] = true;
    }
    for (int k = 0; k < i->nargs && !i->picks; k++) touch(touched, &i->in[k]);
    for (int32_t e = 0; i->picks && e < i->n; e++) touch(touched, &i->picks[e]);
  }
  const Instr *last = b->count ? &b->code[b->count - 1] : NULL;
  b->linear =
      last && (last->density || last->saves) && last->n == 1 && b->has[0] && last->out == b->out[0];
  for (int h = 1; h < VM_HEADS; h++) b->linear &= !b->has[h];
  for (int c = 0; c < b->count; c++)
    if (!fresh[b->code[c].out] && !(b->has[0] && b->code[c].out == b->out[0]))
      clear_range(p, b, b->code[c].out, (size_t)b->code[c].n);
}

/* Rows of a matrix of data times a shared vector. */
static void tile_matvec(Planner *p, const IrNode *x, const int32_t *index, Instr *i) {
  size_t n = (size_t)p->rows * (size_t)i->n;
  const Boundary *b = plan_boundary(p, x->args[1]);
  i->in[0] = (Operand){.place = IN_DATA, .data = matrix_rows(p, x->args[0], x->attr, index, n)};
  i->in[1] = (Operand){.place = IN_GLOBAL, .base = b->kept, .adjoint = b->at};
}

/* Noise and the evaluator's leaves: which of their elements. */
static void tile_leaf(Planner *p, const IrNode *x, const int32_t *index, Instr *i) {
  size_t n = (size_t)p->rows * (size_t)i->n;
  i->columns = x->attr2;
  i->in[0].index = x->op == IR_OUTER && is_iota(index, n) ? NULL : kept_index(p, index, n);
  if (x->op != IR_NOISE) return;
  i->kept = p->tape->noise;
  p->tape->noise += n;
}

/* index is the observation's own row, all of it. */
static void tile_pack(Planner *p, const IrNode *x, const int32_t *index, Instr *i) {
  Operand *columns = NEW_ARRAY(p->arena, Operand, i->n);
  for (int32_t w = 0; w < i->n; w++) {
    int32_t *elem = NEW_ARRAY(p->temp, int32_t, p->rows);
    for (int32_t r = 0; r < p->rows; r++) elem[r] = x->u.picks[index[r * i->n + w]].elem;
    columns[w] = tile_operand(p, x->u.picks[index[w]].node, elem, 1);
  }
  i->picks = columns;
}

static void tile_reduction(Planner *p, const IrNode *x, const int32_t *index, Instr *i) {
  size_t n = (size_t)p->rows * (size_t)i->n, each = (size_t)x->attr;
  int32_t *wide = NEW_ARRAY(p->temp, int32_t, n * each);
  for (size_t e = 0; e < n * each; e++) wide[e] = index[e / each] * x->attr + (int32_t)(e % each);
  i->in[0] = tile_operand(p, x->args[0], wide, i->n * x->attr);
}

static void tile_map(Planner *p, const IrNode *x, const int32_t *index, Instr *i) {
  static const int32_t zero[1] = {0};
  for (int k = 0; k < x->nargs; k++) {
    const IrNode *arg = ir_node(p->g, x->args[k]);
    if (arg->n != 1 || x->n == 1) {
      i->in[k] = tile_operand(p, x->args[k], index, i->n);
    } else if (arg->op == IR_CONST) {
      i->in[k] = plan_data_operand(p, arg->u.values, 1);
    } else {
      i->in[k] = boundary_operand(p, x->args[k], zero, 1);
    }
  }
}

/* Plan the given elements of node id as a tile instruction; its slot among the tile values. */
static size_t tile_value(Planner *p, Node id, const int32_t *index, int32_t width) {
  size_t slot = find_value(p, id, index, width);
  if (slot != SIZE_MAX) return slot;
  const IrNode *x = ir_node(p->g, id);
  Instr i = {.op = x->op, .nargs = x->nargs, .n = width, .width = x->attr};
  plan_note_width(p, x);
  if (width == 1) i.affine = plan_affine(p, id, index);
  if (width == 1 && x->op == IR_LSE) i.mixture = plan_mixture(p, x->args[0], index, x->attr);
  if (i.affine || i.mixture) {
    i.op = i.affine ? IR_AFFINE : IR_MIXTURE;
    i.nargs = 0;
  } else {
    switch (x->op) {
    case IR_MATVEC: tile_matvec(p, x, index, &i); break;
    case IR_NOISE:
    case IR_OUTER: tile_leaf(p, x, index, &i); break;
    case IR_PACK: tile_pack(p, x, index, &i); break;
    case IR_SUM:
    case IR_LSE: tile_reduction(p, x, index, &i); break;
    default: tile_map(p, x, index, &i);
    }
  }
  i.out = p->block->width;
  p->block->width += (size_t)width;
  choose_kernel(p, &i);
  PUSH(p->arena, p->block->code, p->block->count, p->block->cap, i);
  TileValue v = {id, index, width, i.out};
  PUSH(p->temp, p->values, p->nvalues, p->cap_values, v);
  return i.out;
}

/* A head must be a tile value of its own; where it is a shared value or data, add 0 to it. */
static size_t plan_head(Planner *p, Node head) {
  int32_t width = ir_size(p->g, head) / p->full_rows;
  int32_t *index = NEW_ARRAY(p->temp, int32_t, p->rows * width);
  for (int32_t r = 0; r < p->rows; r++)
    for (int32_t w = 0; w < width; w++) index[r * width + w] = p->select[r] * width + w;
  Operand o = tile_operand(p, head, index, width);
  if (o.place == IN_TILE && o.access == AT_SAME) return o.base;
  static const double zero[1] = {0};
  Instr i = {.op = IR_ADD,
             .nargs = 2,
             .n = width,
             .out = p->block->width,
             .in = {o, plan_data_operand(p, zero, 1)}};
  p->block->width += (size_t)width;
  PUSH(p->arena, p->block->code, p->block->count, p->block->cap, i);
  return i.out;
}

static void plan_block(Planner *p, TapeBlock *block, const VmBlock *given) {
  p->block = block;
  p->select = given->select;
  p->rows = given->nselect;
  p->full_rows = given->rows;
  p->nvalues = 0;
  block->rows = given->nselect;
  for (int h = 0; block->rows && h < VM_HEADS; h++) {
    block->has[h] = given->heads[h] != NO_NODE;
    if (block->has[h]) block->out[h] = plan_head(p, given->heads[h]);
  }
  plan_adjoints(p, block);
}

/* Where each global element is in the boundary: theta can be there several times, read in
 * overlapping parts. */
static void index_boundary(Arena *a, Tape *t) {
  size_t *first = NEW_ARRAY(a, size_t, t->elements + 2);
  t->border = NEW_ARRAY(a, size_t, t->boundary_elements + 1);
  t->owner = NEW_ARRAY(a, size_t, t->boundary_elements + 1);
  for (size_t b = 0; b < t->nboundary; b++)
    for (size_t e = 0; e < t->boundary[b].n; e++) first[t->boundary[b].element + e + 2]++;
  for (size_t e = 2; e < t->elements + 2; e++) first[e] += first[e - 1];
  for (size_t b = 0; b < t->nboundary; b++)
    for (size_t e = 0; e < t->boundary[b].n; e++) {
      size_t element = t->boundary[b].element + e, place = t->boundary[b].at + e;
      t->border[first[element + 1]++] = place;
      t->owner[place] = element;
    }
  t->border_first = first;
}

static void note_reader(Tape *t, size_t element, int reader) {
  if (element < t->dim && t->reader[element] > reader) t->reader[element] = reader;
}

static void note_operand(Tape *t, const Operand *o, size_t n, int reader) {
  if (o->place != IN_GLOBAL) return;
  for (size_t e = 0; e < (o->access == AT_ONE ? 1 : n); e++)
    note_reader(t, o->base + (o->access == AT_INDEX ? (size_t)o->index[e] : e), reader);
}

/* Elements of operand k that an instruction reads. */
static size_t operand_size(const Instr *i, int k) {
  size_t n = (size_t)i->n;
  switch (i->op) {
  case IR_ODE: return (size_t)ir_ode_operands(i->ode);
  case IR_RUN: return (size_t)i->run->inputs;
  case IR_EIGEN: return n / ((size_t)i->width + 1) * (size_t)i->width;
  case IR_MATVEC: return (size_t)i->width;
  case IR_MATMUL: return (k ? (size_t)i->columns : n / (size_t)i->columns) * (size_t)i->width;
  case IR_SUM:
  case IR_LSE: return n * (size_t)i->width;
  default: return n;
  }
}

/* Which parameters the global instructions and the roots read. */
static void find_readers(Arena *a, Tape *t) {
  t->reader = NEW_ARRAY(a, int, t->dim + 1);
  for (size_t k = 0; k < t->dim; k++) t->reader[k] = t->count + 1;
  for (int c = 0; c < t->count; c++) {
    const Instr *i = t->code[c].summand ? t->code[c].summand : &t->code[c];
    for (int k = 0; k < i->nargs && !i->picks; k++)
      note_operand(t, &i->in[k], operand_size(i, k), c);
    for (int32_t e = 0; i->picks && e < i->n; e++) note_operand(t, &i->picks[e], 1, c);
  }
  for (int r = 0; r < t->nroots; r++) note_reader(t, t->roots[r], t->count);
}

static void use(Planner *p, Node a) {
  if (p->uses[a] < 2) p->uses[a]++;
}

static void count_uses(Planner *p, const IrNode *x) {
  for (int k = 0; k < x->nargs; k++) use(p, x->args[k]);
  for (int32_t k = 0; x->op == IR_PACK && k < x->n; k++) use(p, x->u.picks[k].node);
}

static Planner planner(Arena *a, Arena *temp, Tape *t, const VmPlan *wanted) {
  const Graph *g = wanted->graph;
  Planner p = {.arena = a, .temp = temp, .tape = t, .g = g};
  p.global_at = NEW_ARRAY(temp, size_t, g->count + 1);
  p.boundary_at = NEW_ARRAY(temp, size_t, g->count + 1);
  p.exps_at = NEW_ARRAY(temp, size_t, g->count + 1);
  p.exps_of = NEW_ARRAY(temp, size_t, g->count + 1);
  p.uses = NEW_ARRAY(temp, uint8_t, g->count + 1);
  for (int32_t k = 0; k < g->count; k++) count_uses(&p, ir_node(g, k));
  for (int k = 0; k < wanted->nroots; k++) use(&p, wanted->roots[k]);
  for (int k = 0; k < wanted->nblocks; k++)
    for (int h = 0; h < VM_HEADS; h++)
      if (wanted->blocks[k].heads[h] != NO_NODE) use(&p, wanted->blocks[k].heads[h]);
  return p;
}

#ifdef PVI_TORTURE
enum { MANY = 2 };
#else
enum { MANY = 256 };
#endif

/* What is wanted, of a graph whose small nodes are joined. */
static VmPlan rerolled(Arena *a, Arena *temp, const VmPlan *given) {
  VmPlan plan = *given;
  int n = given->nroots + given->nblocks * VM_HEADS, at = given->nroots;
  Node *nodes = NEW_ARRAY(temp, Node, n + 1);
  VmBlock *blocks = NEW_ARRAY(temp, VmBlock, given->nblocks + 1);
  for (int k = 0; k < given->nroots; k++) nodes[k] = given->roots[k];
  for (int k = 0; k < given->nblocks; k++)
    for (int h = 0; h < VM_HEADS; h++) nodes[at++] = given->blocks[k].heads[h];
  plan.graph = ir_reroll(a, given->graph, nodes, n, given->join == VM_JOIN_ALL ? 1 : MANY);
  plan.roots = nodes;
  plan.blocks = blocks;
  at = given->nroots;
  for (int k = 0; k < given->nblocks; k++) {
    blocks[k] = given->blocks[k];
    for (int h = 0; h < VM_HEADS; h++) blocks[k].heads[h] = nodes[at++];
  }
  return plan;
}

/* A leaf that the evaluator sets has its adjoint written, not added to, by the one instruction that
 * reads it. Joined nodes may read a leaf twice, row by row in a tile and whole in a pack, and the
 * later reading would overwrite the earlier: graphs with leaves stay as they are. */
static bool has_leaves(const Graph *g) {
  for (Node k = 0; k < g->count; k++)
    if (ir_node(g, k)->op == IR_OUTER) return true;
  return false;
}

Tape *vm_plan(Arena *a, const VmPlan *given) {
  TempArena *task = temp_open(a->ctx);
  bool joined = given->join != VM_JOIN_NONE && !has_leaves(given->graph);
  VmPlan plan = joined ? rerolled(a, &task->arena, given) : *given;
  const VmPlan *wanted = &plan;
  Tape *t = NEW(a, Tape);
  *t = (Tape){.dim = wanted->dim,
              .elements = wanted->dim,
              .rows_kept = wanted->dim,
              .nroots = wanted->nroots,
              .nblocks = wanted->nblocks,
              .max_width = 1};
  Planner p = planner(a, &task->arena, t, wanted);
  t->blocks = NEW_ARRAY(a, TapeBlock, t->nblocks + 1);
  for (int k = 0; k < t->nblocks; k++) {
    t->blocks[k].first = t->rows;
    plan_block(&p, &t->blocks[k], &wanted->blocks[k]);
    t->rows += (size_t)t->blocks[k].rows;
  }
  t->shared = t->count;
  t->shared_elements = t->elements;
  t->roots = NEW_ARRAY(a, size_t, t->nroots + 1);
  t->roots_kept = NEW_ARRAY(a, size_t, t->nroots + 1);
  t->shared_kept = t->nkept;
  for (int k = 0; k < t->nroots; k++) {
    t->roots[k] = plan_global(&p, wanted->roots[k]);
    t->roots_kept[k] = keep_rows(&p, t->roots[k], (size_t)ir_size(p.g, wanted->roots[k]));
  }
  index_boundary(a, t);
  find_readers(a, t);
  plan_recurrences(&p);
  temp_close(task);
  return t;
}

size_t vm_rows(const Tape *t) { return t->rows; }

static size_t predictor_width(const Instr *i) {
  return i->affine ? i->affine->ndense : i->op == IR_MATVEC ? (size_t)i->width : 0;
}

VmShape vm_shape(const Tape *t) {
  VmShape s = {.global_elements = t->elements, .global_ops = (size_t)t->count};
  for (int k = 0; k < t->nblocks; k++) {
    s.tile_ops += (size_t)t->blocks[k].count;
    if (t->blocks[k].width > s.tile_width) s.tile_width = t->blocks[k].width;
    for (int c = 0; c < t->blocks[k].count; c++) {
      size_t width = predictor_width(&t->blocks[k].code[c]);
      if (width > s.predictor_width) s.predictor_width = width;
    }
  }
  return s;
}

/* ---- printing -------------------------------------------------------------------------------- */

static void print_operand(Text *out, const Operand *o) {
  static const char *const access[] = {"", "[one]", "[index]", "[row]"};
  if (o->place != IN_DATA) {
    text_printf(out, " %c%zu%s", o->place == IN_GLOBAL ? 'g' : 't', o->base, access[o->access]);
  } else if (o->access == AT_ONE) {
    text_printf(out, " %g", *o->data);
  } else {
    text_puts(out, " data");
  }
}

static void print_instr(Text *out, const Instr *i, char place) {
  text_printf(out, "  %c%zu = %s[%d]", place, i->out, ir_op_name(i->op), i->n);
  if (i->summand) text_printf(out, " of %s[%d]", ir_op_name(i->summand->op), i->summand->n);
  const Instr *reads = i->summand ? i->summand : i;
  for (int k = 0; k < reads->nargs && !i->picks; k++) print_operand(out, &reads->in[k]);
  if (i->affine)
    text_printf(out, " of %zu values, %zu by index", i->affine->ndense, i->affine->nsparse);
  if (i->mixture)
    text_printf(out, " of %zu, each a sum of %zu", i->mixture->width, i->mixture->terms);
  for (int32_t e = 0; i->picks && e < i->n && e < 4; e++) print_operand(out, &i->picks[e]);
  if (i->picks && i->n > 4) text_puts(out, " ...");
  text_puts(out, "\n");
}

void vm_print_tiles(Text *out, const Tape *t) {
  for (int b = 0; b < t->nblocks; b++) {
    const TapeBlock *k = &t->blocks[b];
    text_printf(out, "tile of block %d: %d observations, %zu elements each, log likelihood t%zu\n",
                b + 1, k->rows, k->width, k->out[0]);
    for (int j = 0; j < k->count; j++) print_instr(out, &k->code[j], 't');
  }
}

void vm_print(Text *out, const Tape *t) {
  text_printf(out, "global: %zu elements per draw, the first %zu are theta\n", t->elements, t->dim);
  for (int k = 0, end = 0; k < t->count; k++) {
    const Instr *i = &t->code[k];
    if (i->recurrence && k >= end) {
      text_printf(out, " a loop of %zu steps:\n", i->recurrence->steps);
      end = k + i->together;
    }
    print_instr(out, i, 'g');
  }
  vm_print_tiles(out, t);
}
