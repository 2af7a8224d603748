/* rows.c: selections of a model's observations (ModelRows): in the order given, one of each kind,
 * sorted by what they read; and their tapes. An observation is known to the user by its number and
 * to a tape by its block and its row there; a selection translates. */
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
  int32_t position, row;
} Placed;

static int by_position(const void *a, const void *b) {
  const Placed *x = a, *y = b;
  if (x->position != y->position) return x->position < y->position ? -1 : 1;
  return x->row < y->row ? -1 : x->row > y->row;
}

/* Of every observation its last place + 1 in the selection, 0 where it is not in it, and how often
 * it is there. Both NULL: all are, once, each in its own place. */
typedef struct {
  int32_t *position, *times;
} Selection;

static Selection selection_of(Arena *a, const Model *m, const size_t *rows, size_t nrows) {
  Selection s = {NULL, NULL};
  if (!rows) return s;
  s.position = NEW_ARRAY(a, int32_t, m->n_obs + 1);
  s.times = NEW_ARRAY(a, int32_t, m->n_obs + 1);
  for (size_t k = 0; k < nrows; k++) {
    s.position[rows[k]] = (int32_t)k + 1;
    s.times[rows[k]]++;
  }
  return s;
}

static int32_t position_of(const ObsBlock *o, const Selection *s, int32_t row) {
  return s->position ? s->position[o->obs[row]] : o->obs[row] + 1;
}

/* The selected rows of a block, in the order of the selection; how many. */
static size_t select_rows(Arena *temp, const ObsBlock *o, const Selection *s, int32_t *select) {
  size_t n = 0;
  bool sorted = true;
  for (int32_t r = 0, last = 0; r < o->rows; r++) {
    int32_t at = position_of(o, s, r);
    if (!at) continue;
    for (int32_t t = s->times ? s->times[o->obs[r]] : 1; t > 0; t--) select[n++] = r;
    sorted &= at > last;
    last = at;
  }
  if (sorted) return n;
  Placed *placed = NEW_ARRAY(temp, Placed, n);
  for (size_t k = 0; k < n; k++) placed[k] = (Placed){position_of(o, s, select[k]), select[k]};
  qsort(placed, n, sizeof *placed, by_position);
  for (size_t k = 0; k < n; k++) select[k] = placed[k].row;
  return n;
}

ModelRows model_rows(Arena *a, const Model *m, const size_t *rows, size_t nrows) {
  ModelRows r = {.n = rows ? nrows : m->n_obs, .first = NEW_ARRAY(a, size_t, m->nblocks + 1)};
  int32_t *row = NEW_ARRAY(a, int32_t, r.n);
  TempArena *temp = temp_open(a->ctx);
  Selection selected = selection_of(&temp->arena, m, rows, nrows);
  for (int b = 0; b < m->nblocks; b++)
    r.first[b + 1] =
        r.first[b] + select_rows(&temp->arena, &m->blocks[b], &selected, row + r.first[b]);
  temp_close(temp);
  r.row = row;
  return r;
}

static size_t clamp(size_t x, size_t low, size_t high) {
  return x < low ? low : x > high ? high : x;
}

ModelRows model_slice(Arena *a, const Model *m, const ModelRows *r, size_t from, size_t to) {
  from = clamp(from, 0, r->n);
  to = clamp(to, from, r->n);
  ModelRows s = {
      .n = to - from, .first = NEW_ARRAY(a, size_t, m->nblocks + 1), .row = r->row + from};
  for (int b = 0; b <= m->nblocks; b++) s.first[b] = clamp(r->first[b], from, to) - from;
  return s;
}

void model_numbers(const Model *m, const ModelRows *r, int32_t *obs) {
  for (int b = 0; b < m->nblocks; b++)
    for (size_t k = r->first[b]; k < r->first[b + 1]; k++) obs[k] = m->blocks[b].obs[r->row[k]];
}

static VmBlock tape_block(const ObsBlock *o, const int32_t *select, size_t n, unsigned wants) {
  VmBlock v = {.rows = o->rows, .select = select, .nselect = (int32_t)n};
  for (int h = 0; h < VM_HEADS; h++) v.heads[h] = NO_NODE;
  if (wants & WANT_LL) v.heads[HEAD_LL] = o->root;
  for (int k = 0; (wants & WANT_PARAMETERS) && o->dist >= 0 && k < o->npar; k++)
    v.heads[HEAD_PAR + k] = o->par[k];
  if (wants & WANT_SIM) v.heads[HEAD_SIM] = o->sim;
  return v;
}

/* What row `row` is compared with. */
static void mix_outcome(const ObsBlock *o, int32_t row, RowKey *key) {
  if (o->dist >= 0) ir_key_mix_number(key, o->y[row]);
  if (o->dist >= 0 && o->size) ir_key_mix_number(key, o->size[row]);
  for (int32_t k = 0; o->sim_y && k < o->sim_width; k++)
    ir_key_mix_number(key, o->sim_y[row * o->sim_width + k]);
}

static RowKey *block_keys(Arena *temp, const Model *m, const ObsBlock *o, const int32_t *row,
                          size_t n, unsigned wants) {
  RowKey *keys = NEW_ARRAY(temp, RowKey, n);
  VmBlock v = tape_block(o, row, n, wants);
  for (int h = 0; h < VM_HEADS; h++)
    if (v.heads[h] != NO_NODE)
      ir_row_keys(temp->ctx, &(IrRows){m->graph, v.heads[h], v.rows, row, n}, keys);
  for (size_t k = 0; k < n; k++) mix_outcome(o, row[k], &keys[k]);
  return keys;
}

static bool same_key(const RowKey *x, const RowKey *y) { return x->a == y->a && x->b == y->b; }

/* first[k]: the first row with the key of row k. */
static void find_first(Arena *temp, const RowKey *keys, size_t n, size_t *first) {
  size_t size = 2;
  while (size < 2 * n) size *= 2;
  size_t *table = NEW_ARRAY(temp, size_t, size); /* row + 1 */
  for (size_t k = 0; k < n; k++) {
    size_t at = keys[k].a & (size - 1);
    while (table[at] && !same_key(&keys[table[at] - 1], &keys[k])) at = (at + 1) & (size - 1);
    if (!table[at]) table[at] = k + 1;
    first[k] = table[at] - 1;
  }
}

ModelRows model_distinct(Arena *a, const Model *m, const ModelRows *r, unsigned wants,
                         double **count) {
  ModelRows d = {.first = NEW_ARRAY(a, size_t, m->nblocks + 1)};
  int32_t *row = NEW_ARRAY(a, int32_t, r->n);
  *count = NEW_ARRAY(a, double, r->n);
  for (int b = 0; b < m->nblocks; b++) {
    TempArena *temp = temp_open(a->ctx);
    const int32_t *given = r->row + r->first[b];
    size_t n = r->first[b + 1] - r->first[b];
    size_t *first = NEW_ARRAY(&temp->arena, size_t, n), *place = NEW_ARRAY(&temp->arena, size_t, n);
    find_first(&temp->arena, block_keys(&temp->arena, m, &m->blocks[b], given, n, wants), n, first);
    for (size_t k = 0; k < n; k++) {
      if (first[k] == k) {
        place[k] = d.n++;
        row[place[k]] = given[k];
      }
      (*count)[place[first[k]]]++;
    }
    d.first[b + 1] = d.n;
    temp_close(temp);
  }
  d.row = row;
  return d;
}

int32_t model_widest(Ctx *c, const Model *m, const ModelRows *r, unsigned wants) {
  int32_t widest = 0;
  for (int b = 0; b < m->nblocks; b++) {
    TempArena *temp = temp_open(c);
    size_t n = r->first[b + 1] - r->first[b];
    const RowKey *keys = block_keys(&temp->arena, m, &m->blocks[b], r->row + r->first[b], n, wants);
    for (size_t k = 0; k < n; k++) widest = keys[k].width > widest ? keys[k].width : widest;
    temp_close(temp);
  }
  return widest;
}

ModelRows model_sorted(Arena *a, const Model *m, const ModelRows *r, unsigned wants, size_t *from) {
  ModelRows s = *r;
  int32_t *row = NEW_ARRAY(a, int32_t, r->n);
  for (int b = 0; b < m->nblocks; b++) {
    TempArena *temp = temp_open(a->ctx);
    size_t first = r->first[b], n = r->first[b + 1] - first;
    const RowKey *keys = block_keys(&temp->arena, m, &m->blocks[b], r->row + first, n, wants);
    Placed *placed = NEW_ARRAY(&temp->arena, Placed, n);
    for (size_t k = 0; k < n; k++) placed[k] = (Placed){keys[k].place, (int32_t)k};
    qsort(placed, n, sizeof *placed, by_position);
    for (size_t k = 0; k < n; k++) {
      from[first + k] = first + (size_t)placed[k].row;
      row[first + k] = r->row[from[first + k]];
    }
    temp_close(temp);
  }
  s.row = row;
  return s;
}

Tape *model_tape(Arena *a, const Model *m, const ModelRows *r, unsigned wants) {
  VmBlock *blocks = NEW_ARRAY(a, VmBlock, m->nblocks + 1);
  for (int b = 0; b < m->nblocks; b++)
    blocks[b] =
        tape_block(&m->blocks[b], r->row + r->first[b], r->first[b + 1] - r->first[b], wants);
  return vm_plan(a, &(VmPlan){.graph = m->graph,
                              .dim = m->dim,
                              .roots = (Node[]){m->prior, m->jacobian},
                              .nroots = MODEL_ROOTS,
                              .blocks = blocks,
                              .nblocks = m->nblocks});
}
