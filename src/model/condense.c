/* condense.c: normal observations with one scale, as few of them as there are numbers to tell.
 *
 * Where y_i ~ normal(mu_i, sigma) with mu_i affine in theta and one sigma for all, the log
 * densities of n observations have the sum
 *
 *     -n log sigma - |A (theta, 1)|^2 / (2 sigma^2),   row i of A: mu_i - y_i,
 *
 * and with A = Q R, Householder's, |A x| = |R x|. So the p + 1 rows of R, each divided by sqrt(w)
 * and counted w = n / (p + 1) times, have the same sum, whatever theta is: the same function, not
 * an approximation, and for n much larger than p next to no work. It says nothing of single
 * observations, so it is for VI alone, which asks for nothing but the sum.
 */
#include "model/model.h"

#include "ir/affine.h"
#include "num/linalg.h"

#include <math.h>
#include <string.h>

enum { MOST_TERMS = 1024, MOST_DEPTH = 500, BATCH_ROWS = 256 };

/* A block, and what of it is to be replaced. */
typedef struct {
  Arena *temp;
  const Graph *g;
  int32_t rows;          /* selected ones, */
  const int32_t *select; /* these */
  const double *count;   /* each so often; NULL: once */
  const int32_t *zeros;
  IrNode normal;
  const int32_t *at;  /* elements of the normal node */
  double constant;    /* what the sum of log densities has besides */
  IrAffine f;         /* outcome - location */
  int32_t columns;    /* parameters that it sees: */
  int32_t *parameter; /* which, */
  int32_t *column;    /* and of every parameter its column + 1 */
  double n;           /* observations */
} Block;

static double count_of(const Block *b, int32_t r) { return b->count ? b->count[r] : 1; }

static const int32_t *through(const Block *b, const int32_t *index, const int32_t *at) {
  int32_t *to = NEW_ARRAY(b->temp, int32_t, b->rows);
  for (int32_t r = 0; r < b->rows; r++) to[r] = index[at[r]];
  return to;
}

static const IrNode *operand(const Block *b, const IrNode *x, int k) {
  return ir_node(b->g, x->args[k]);
}

/* Where the elements of operand k of x are, x's being at `at`. */
static const int32_t *operand_at(const Block *b, const IrNode *x, int k, const int32_t *at) {
  return operand(b, x, k)->n == x->n ? at : b->zeros;
}

/* The root is a normal density, plus or minus numbers. */
static bool find_normal(Block *b, Node root) {
  const IrNode *x = ir_node(b->g, root);
  b->at = b->select;
  while (x->op != IR_NORMAL) {
    const int32_t *at = b->at;
    int k = (x->op == IR_ADD || x->op == IR_SUB) && operand(b, x, 0)->op == IR_CONST;
    const IrNode *numbers = x->nargs == 2 ? operand(b, x, !k) : NULL;
    bool sum = x->op == IR_ADD || (x->op == IR_SUB && !k);
    if (x->op == IR_GATHER) {
      b->at = through(b, x->u.index, at);
      x = operand(b, x, 0);
    } else if (sum && numbers->op == IR_CONST) {
      const int32_t *from = operand_at(b, x, !k, at);
      for (int32_t r = 0; r < b->rows; r++)
        b->constant += count_of(b, r) * (x->op == IR_SUB ? -1 : 1) * numbers->u.values[from[r]];
      b->at = operand_at(b, x, k, at);
      x = operand(b, x, k);
    } else {
      return false;
    }
  }
  b->normal = *x;
  return true;
}

static bool is_theta(const IrAffine *f, const IrSlice *s, Node *leaf, int32_t *shift) {
  const IrNode *x = ir_node(f->g, s->node);
  *leaf = NO_NODE;
  *shift = x->attr;
  return x->op == IR_INPUT;
}

static const IrAffineRules rules = {.is_leaf = is_theta,
                                    .most_terms = MOST_TERMS,
                                    .most_depth = MOST_DEPTH,
                                    .most_sources = 1,
                                    .widest_product = MOST_TERMS,
                                    .widest_sum = MOST_TERMS};

/* Outcome minus location, as a function of theta. */
static bool find_residual(Block *b) {
  double *ones = NEW_ARRAY(b->temp, double, b->rows), *minus = NEW_ARRAY(b->temp, double, b->rows);
  for (int32_t r = 0; r < b->rows; r++) ones[r] = 1, minus[r] = -1;
  b->f = ir_affine(b->temp, b->g, b->rows, &rules, NULL);
  const double *sign[] = {ones, minus};
  for (int k = 0; k < 2; k++) {
    const int32_t *at = operand_at(b, &b->normal, k, b->at);
    if (!ir_affine_add(&b->f, &(IrSlice){b->normal.args[k], at, sign[k]})) return false;
  }
  return b->f.count > 0;
}

static int32_t index_of(const IrTerm *t, int32_t r) { return t->index[t->same ? 0 : r]; }

static void find_columns(Block *b, size_t dim) {
  b->column = NEW_ARRAY(b->temp, int32_t, dim + 1);
  b->parameter = NEW_ARRAY(b->temp, int32_t, dim + 1);
  for (int t = 0; t < b->f.count; t++)
    for (int32_t r = 0; r < (b->f.terms[t].same ? 1 : b->rows); r++) {
      int32_t k = b->f.terms[t].index[r];
      if (b->column[k]) continue;
      b->parameter[b->columns++] = k;
      b->column[k] = b->columns;
    }
}

/* The element of operand k that all rows share; false: they differ. */
static bool shared_element(const Block *b, int k, Pick *of) {
  const IrNode *x = operand(b, &b->normal, k);
  const int32_t *at = operand_at(b, &b->normal, k, b->at);
  *of = (Pick){b->normal.args[k], at[0]};
  for (; x->op == IR_GATHER; x = operand(b, x, 0)) {
    at = through(b, x->u.index, at);
    *of = (Pick){x->args[0], at[0]};
  }
  for (int32_t r = 1; r < b->rows; r++)
    if (at[r] != at[0]) return false;
  return true;
}

/* Is the work that is left much less? Of an observation it is that of its terms and a density. */
static bool pays(const Block *b) {
  const double DENSITY = 8, MUCH = 2;
  double before = (double)b->rows * (b->f.count + DENSITY),
         after = (b->columns + 1.0) * (b->columns + DENSITY);
  return before >= MUCH * after;
}

/* Row r of A, times the root of its count. */
static bool fill_row(const Block *b, int32_t r, double *row) {
  double root = sqrt(count_of(b, r));
  memset(row, 0, ((size_t)b->columns + 1) * sizeof *row);
  for (int t = 0; t < b->f.count; t++)
    row[b->column[index_of(&b->f.terms[t], r)] - 1] += root * b->f.terms[t].coef[r];
  row[b->columns] = root * b->f.constant[r];
  double sum = 0;
  for (int32_t k = 0; k <= b->columns; k++) sum += row[k] * row[k];
  return isfinite(sum);
}

/* R of A = Q R; false: not all is finite. */
static bool find_root(Block *b, double *R) {
  size_t p = (size_t)b->columns + 1;
  double *batch = NEW_ARRAY(b->temp, double, BATCH_ROWS *p), *room = NEW_ARRAY(b->temp, double, p);
  for (int32_t r = 0; r < b->rows;) {
    size_t n = 0;
    for (; n < BATCH_ROWS && r < b->rows; n++, r++)
      if (!fill_row(b, r, batch + n * p)) return false;
    la_qr_append(R, batch, room, n, p);
  }
  return true;
}

/* The p + 1 rows of R as normal observations, w of each. */
static Node condensed_root(const Block *b, Graph *g, const double *R, double w, const Pick *scale) {
  int32_t p = b->columns, rows = p + 1;
  double *A = NEW_ARRAY(b->temp, double, rows *p), *y = NEW_ARRAY(b->temp, double, rows),
         root = sqrt(w);
  for (int32_t r = 0; r < rows; r++) {
    for (int32_t k = 0; k < p; k++) A[r * p + k] = -R[r * rows + k] / root;
    y[r] = R[r * rows + p] / root;
  }
  Node theta = NO_NODE;
  int32_t last = 0;
  for (int32_t k = 0; k < p; k++) last = b->parameter[k] > last ? b->parameter[k] : last;
  theta = ir_gather(g, ir_input(g, 0, last + 1), b->parameter, p);
  Node args[] = {ir_const(g, y, rows), ir_matvec(g, ir_const(g, A, rows * p), theta),
                 ir_gather(g, scale[0].node, &scale[0].elem, 1),
                 ir_gather(g, scale[1].node, &scale[1].elem, 1)};
  Node density = ir_map(g, IR_NORMAL, args);
  return b->constant == 0 ? density
                          : ir_map(g, IR_ADD, (Node[]){density, ir_number(g, b->constant / b->n)});
}

/* Replaces a block where that pays. `to` is a copy of it; *w: of each of its rows. */
static bool condense_block(Block *b, Graph *g, size_t dim, ObsBlock *to, double *w) {
  Pick scale[2];
  if (b->rows < 4 || to->root == NO_NODE || !find_normal(b, to->root) || !find_residual(b) ||
      !shared_element(b, 2, &scale[0]) || !shared_element(b, 3, &scale[1]))
    return false;
  find_columns(b, dim);
  size_t p = (size_t)b->columns + 1;
  if (!pays(b)) return false;
  double *R = NEW_ARRAY(b->temp, double, p *p);
  if (!find_root(b, R) || !isfinite(b->constant)) return false;
  for (int32_t r = 0; r < b->rows; r++) b->n += count_of(b, r);
  *w = b->n / (double)p;
  int32_t *obs = NEW_ARRAY(g->arena, int32_t, p);
  for (size_t k = 0; k < p; k++) obs[k] = (int32_t)k;
  *to = (ObsBlock){.root = condensed_root(b, g, R, *w, scale),
                   .rows = (int32_t)p,
                   .obs = obs,
                   .loc = to->loc,
                   .name = to->name,
                   .dist = -1,
                   .par = {NO_NODE, NO_NODE, NO_NODE},
                   .sim = NO_NODE};
  return true;
}

/* The rows of a block, and how many observations each stands for. */
static size_t put_rows(const ModelRows *r, const double *count, int block, const ObsBlock *now,
                       double w, int32_t *row, double *of) {
  size_t from = r->first[block], n = w > 0 ? (size_t)now->rows : r->first[block + 1] - from;
  for (size_t k = 0; k < n; k++) {
    row[k] = w > 0 ? (int32_t)k : r->row[from + k];
    of[k] = w > 0 ? w : count ? count[from + k] : 1;
  }
  return n;
}

const Model *model_condense(Arena *a, const Model *m, ModelRows *rows, const double **count) {
  TempArena *temp = temp_open(a->ctx);
  Graph *g = ir_copy(a, m->graph);
  ObsBlock *blocks = NEW_ARRAY(a, ObsBlock, m->nblocks + 1);
  double *w = NEW_ARRAY(&temp->arena, double, m->nblocks + 1);
  bool any = false;
  for (int k = 0; k < m->nblocks; k++) {
    size_t from = rows->first[k], n = rows->first[k + 1] - from;
    Block b = {.temp = &temp->arena,
               .g = m->graph,
               .rows = (int32_t)n,
               .select = rows->row + from,
               .count = *count ? *count + from : NULL,
               .zeros = NEW_ARRAY(&temp->arena, int32_t, n)};
    blocks[k] = m->blocks[k];
    any |= condense_block(&b, g, m->dim, &blocks[k], &w[k]);
  }
  if (any) {
    ModelRows now = {.first = NEW_ARRAY(a, size_t, m->nblocks + 1)};
    for (int k = 0; k < m->nblocks; k++)
      now.n += w[k] > 0 ? (size_t)blocks[k].rows : rows->first[k + 1] - rows->first[k];
    int32_t *row = NEW_ARRAY(a, int32_t, now.n);
    double *of = NEW_ARRAY(a, double, now.n);
    for (int k = 0; k < m->nblocks; k++) {
      size_t at = now.first[k];
      now.first[k + 1] = at + put_rows(rows, *count, k, &blocks[k], w[k], row + at, of + at);
    }
    now.row = row;
    *rows = now;
    *count = of;
  }
  temp_close(temp);
  if (!any) return m;
  Model *condensed = NEW(a, Model);
  *condensed = *m;
  condensed->graph = g;
  condensed->blocks = blocks;
  return condensed;
}
