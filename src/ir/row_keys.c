/* row_keys.c: which rows of a node are the same function of the inputs.
 *
 * The walk goes down from the node and carries, for every element of the rows, which element of the
 * node below it needs. What differs from row to row are numbers (constants, rows of matrices) and
 * places (elements of what is shared): each row mixes its own into its key. Rows whose keys of 128
 * bits agree are the same; rows that differ only in how they are written may be told apart.
 */
#include "ir/ir.h"
#include "num/rng.h"

#include <string.h>

enum { MOST_VISITS = 4096 }; /* beyond, the rows count as different */

typedef struct {
  Node node;
  const int32_t *index;
} Visit;

typedef struct {
  Arena *temp;
  const Graph *g;
  size_t rows;
  RowKey *keys;
  Visit *seen;
  size_t nseen, cap;
} RowWalk;

static void mix(RowKey *k, uint64_t word) {
  k->a = rng_mix(k->a ^ word);
  k->b = rng_mix(k->b + (word << 32 | word >> 32) + UINT64_C(0x2545F4914F6CDD1D));
}

void ir_key_mix_number(RowKey *k, double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  mix(k, bits);
}

static bool is_new(RowWalk *w, Node node, const int32_t *index) {
  for (size_t k = 0; k < w->nseen; k++)
    if (w->seen[k].node == node && w->seen[k].index == index) return false;
  PUSH(w->temp, w->seen, w->nseen, w->cap, ((Visit){node, index}));
  return true;
}

/* Element e of the rows reads number values[index[e] each ..], `each` of them. */
static void mix_numbers(RowWalk *w, const double *values, const int32_t *index, size_t width,
                        size_t each) {
  for (size_t e = 0; e < w->rows * width; e++)
    for (size_t k = 0; k < each; k++)
      ir_key_mix_number(&w->keys[e / width], values[(size_t)index[e] * each + k]);
}

static void mix_places(RowWalk *w, int32_t size, const int32_t *index, size_t width) {
  for (size_t e = 0; e < w->rows * width; e++) {
    RowKey *k = &w->keys[e / width];
    mix(k, (uint64_t)index[e]);
    if (size <= k->width) continue;
    k->width = size;
    k->place = index[e];
  }
}

static void mix_picks(RowWalk *w, const IrNode *x, const int32_t *index, size_t width) {
  for (size_t e = 0; e < w->rows * width; e++) {
    Pick p = x->u.picks[index[e]];
    const IrNode *s = ir_node(w->g, p.node);
    if (s->op == IR_CONST) {
      ir_key_mix_number(&w->keys[e / width], s->u.values[p.elem]);
    } else {
      mix(&w->keys[e / width], (uint64_t)p.node << 32 | (uint32_t)p.elem);
    }
  }
}

static void walk(RowWalk *w, Node id, const int32_t *index, size_t width);

static void walk_gather(RowWalk *w, const IrNode *x, const int32_t *index, size_t width) {
  int32_t *through = NEW_ARRAY(w->temp, int32_t, w->rows * width);
  for (size_t e = 0; e < w->rows * width; e++) through[e] = x->u.index[index[e]];
  walk(w, x->args[0], through, width);
}

static void walk_reduction(RowWalk *w, const IrNode *x, const int32_t *index, size_t width) {
  size_t each = (size_t)x->attr;
  int32_t *wide = NEW_ARRAY(w->temp, int32_t, w->rows * width * each);
  for (size_t e = 0; e < w->rows * width * each; e++)
    wide[e] = index[e / each] * x->attr + (int32_t)(e % each);
  walk(w, x->args[0], wide, width * each);
}

static void walk(RowWalk *w, Node id, const int32_t *index, size_t width) {
  const IrNode *x = ir_node(w->g, id);
  if (x->n == 1 || w->nseen > MOST_VISITS || !is_new(w, id, index))
    return; /* one element: all rows share it */
  switch (x->op) {
  case IR_CONST: mix_numbers(w, x->u.values, index, width, 1); break;
  case IR_GATHER: walk_gather(w, x, index, width); break;
  case IR_PACK: mix_picks(w, x, index, width); break;
  case IR_SUM:
  case IR_LSE: walk_reduction(w, x, index, width); break;
  case IR_MATVEC:
    mix_numbers(w, ir_node(w->g, x->args[0])->u.values, index, width, (size_t)x->attr);
    break;
  default:
    for (int k = 0; ir_is_map(x->op) && k < x->nargs; k++) walk(w, x->args[k], index, width);
    if (!ir_is_map(x->op)) mix_places(w, x->n, index, width);
  }
}

void ir_row_keys(Ctx *c, const IrRows *r, RowKey *keys) {
  TempArena *temp = temp_open(c);
  size_t width = (size_t)(ir_size(r->graph, r->node) / r->rows);
  int32_t *index = NEW_ARRAY(&temp->arena, int32_t, r->n * width);
  for (size_t e = 0; e < r->n * width; e++)
    index[e] = r->select[e / width] * (int32_t)width + (int32_t)(e % width);
  RowWalk w = {.temp = &temp->arena, .g = r->graph, .rows = r->n, .keys = keys};
  walk(&w, r->node, index, width);
  for (size_t k = 0; w.nseen > MOST_VISITS && k < r->n; k++) mix(&keys[k], (uint64_t)r->select[k]);
  temp_close(temp);
}
