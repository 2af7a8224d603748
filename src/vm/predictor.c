/* predictor.c: finding linear predictors: beta[1] + beta[2] * x + alpha[county] and the like are
 * one instruction; and mixtures, log_sum_exp of log(theta[doc]) + log(phi[word]), which are
 * another.
 *
 * ir/affine.c takes a value of an observation apart; the leaves are values that observations share.
 * `dense` terms are the same element in every row, `sparse` ones are picked by an index.
 */
#include "vm/plan_int.h"

#include "ir/affine.h"

#include <string.h>

enum { MOST_TERMS = 256 };

/* Is the node a value that several of the observations share (those with a coefficient), so that it
 * is evaluated once? */
static bool is_shared(const IrAffine *f, const IrSlice *s, Node *leaf, int32_t *shift) {
  Planner *p = f->self;
  const IrNode *x = ir_node(f->g, s->node);
  *leaf = s->node;
  *shift = 0;
  if (x->n == 1 || !plan_tileable(x->op)) return true;
  if (x->op == IR_PACK) return false; /* shared only where it cannot be taken apart */
  size_t used = 0;
  int32_t *of_used = NEW_ARRAY(f->temp, int32_t, f->rows);
  for (int32_t r = 0; r < f->rows; r++)
    if (s->coef[r] != 0) of_used[used++] = s->index[r];
  return !plan_distinct(p, of_used, used, x->n);
}

static const IrAffineRules rules = {.is_leaf = is_shared,
                                    .most_terms = MOST_TERMS,
                                    .most_depth = 400,
                                    .most_sources = 16,
                                    .keeps_packs = true,
                                    .widest_product = MOST_TERMS / 2};

static bool all_are(const double *v, int32_t n, double x) {
  for (int32_t r = 0; r < n; r++)
    if (v[r] != x) return false;
  return true;
}

static double *kept_numbers(Arena *a, const double *x, int32_t n) {
  return memcpy(NEW_ARRAY(a, double, n), x, (size_t)n * sizeof *x);
}

/* Room for the terms that there are of each kind. */
static TapeAffine *new_affine(Arena *a, const IrAffine *f) {
  TapeAffine *t = NEW(a, TapeAffine);
  for (int k = 0; k < f->count; k++) *(f->terms[k].same ? &t->ndense : &t->nsparse) += 1;
  t->constant = all_are(f->constant, f->rows, 0) ? NULL : kept_numbers(a, f->constant, f->rows);
  t->dense = NEW_ARRAY(a, size_t, t->ndense + 1);
  t->dense_adj = NEW_ARRAY(a, size_t, t->ndense + 1);
  t->base = NEW_ARRAY(a, size_t, t->nsparse + 1);
  t->base_adj = NEW_ARRAY(a, size_t, t->nsparse + 1);
  t->coef = NEW_ARRAY(a, const double *, t->nsparse + 1);
  t->index = NEW_ARRAY(a, const int32_t *, t->nsparse + 1);
  return t;
}

static const TapeAffine *assemble(Planner *p, const IrAffine *f) {
  Arena *a = p->arena;
  int32_t rows = f->rows;
  TapeAffine *t = new_affine(a, f);
  double *A = NEW_ARRAY(a, double, (size_t)rows * t->ndense);
  size_t d = 0, s = 0;
  for (int k = 0; k < f->count; k++) {
    const IrTerm *m = &f->terms[k];
    const Boundary *b = plan_boundary(p, m->leaf);
    if (m->same) {
      t->dense[d] = b->kept + (size_t)m->index[0];
      t->dense_adj[d] = b->at + (size_t)m->index[0];
      for (int32_t r = 0; r < rows; r++) A[(size_t)r * t->ndense + d] = m->coef[r];
      d++;
    } else {
      t->base[s] = b->kept;
      t->base_adj[s] = b->at;
      t->coef[s] = all_are(m->coef, rows, 1) ? NULL : kept_numbers(a, m->coef, rows);
      t->index[s++] =
          memcpy(NEW_ARRAY(a, int32_t, rows), m->index, (size_t)rows * sizeof *m->index);
    }
  }
  t->A = A;
  if (t->ndense + t->nsparse > p->tape->max_width) p->tape->max_width = t->ndense + t->nsparse;
  return t;
}

/* ---- mixtures -------------------------------------------------------------------------------- */

enum { MOST_FACTORS = 3, MOST_WIDTH = 64 };

static double *all_ones(Planner *p) {
  double *ones = NEW_ARRAY(p->temp, double, p->rows);
  for (int32_t r = 0; r < p->rows; r++) ones[r] = 1;
  return ones;
}

/* Is it a sum of `terms` shared values and nothing else? */
static bool is_plain_sum(const IrAffine *f, int terms) {
  if (f->count != terms || !all_are(f->constant, f->rows, 0)) return false;
  for (int k = 0; k < f->count; k++)
    if (!all_are(f->terms[k].coef, f->rows, 1)) return false;
  return true;
}

/* Component k of the mixture; the first one says how many terms there are. */
static void set_component(Planner *p, const IrAffine *f, TapeMixture *m, size_t k) {
  for (size_t t = 0; t < m->terms; t++) {
    const IrTerm *term = &f->terms[t];
    const Boundary *b = plan_boundary(p, term->leaf);
    size_t at = k * m->terms + t, first = term->same ? (size_t)term->index[0] : 0;
    m->base[at] = b->kept + first;
    m->base_adj[at] = b->at + first;
    m->exps[at] = plan_exps(p, term->leaf) + first;
    if (!term->same)
      m->index[at] = memcpy(NEW_ARRAY(p->arena, int32_t, p->rows), term->index,
                            (size_t)p->rows * sizeof *term->index);
  }
}

/* All components, if they are sums of as many terms each, and the terms' values fewer than the
 * exponentials that they save. */
static bool mixture_terms(Planner *p, Node id, const int32_t *index, int32_t width, IrAffine *f) {
  int64_t values = 0;
  for (int32_t k = 0; k < width; k++) {
    int32_t *at = NEW_ARRAY(p->temp, int32_t, p->rows);
    for (int32_t r = 0; r < p->rows; r++) at[r] = index[r] * width + k;
    f[k] = ir_affine(p->temp, p->g, p->rows, &rules, p);
    if (!ir_affine_add(&f[k], &(IrSlice){id, at, all_ones(p)}) || !f[k].count ||
        f[k].count > MOST_FACTORS || !is_plain_sum(&f[k], f[0].count))
      return false;
    for (int t = 0; t < f[k].count; t++) {
      bool met = false;
      for (int32_t o = 0; o <= k; o++)
        for (int u = 0; u < (o < k ? f[o].count : t); u++)
          met |= f[o].terms[u].leaf == f[k].terms[t].leaf;
      if (!met) values += ir_size(p->g, f[k].terms[t].leaf);
    }
  }
  return values < (int64_t)p->rows * width;
}

const TapeMixture *plan_mixture(Planner *p, Node id, const int32_t *index, int32_t width) {
  if (width > MOST_WIDTH) return NULL;
  ArenaMark mark = arena_mark(p->temp);
  IrAffine *f = NEW_ARRAY(p->temp, IrAffine, width);
  TapeMixture *m = NULL;
  if (mixture_terms(p, id, index, width, f)) {
    Arena *a = p->arena;
    m = NEW(a, TapeMixture);
    size_t n = (size_t)width * (size_t)f[0].count;
    *m = (TapeMixture){.width = (size_t)width,
                       .terms = (size_t)f[0].count,
                       .base = NEW_ARRAY(a, size_t, n),
                       .base_adj = NEW_ARRAY(a, size_t, n),
                       .exps = NEW_ARRAY(a, size_t, n),
                       .index = NEW_ARRAY(a, const int32_t *, n)};
    for (size_t k = 0; k < m->width; k++) set_component(p, &f[k], m, k);
    if (2 * n > p->tape->max_width) p->tape->max_width = 2 * n;
  }
  arena_reset(p->temp, mark);
  return m;
}

const TapeAffine *plan_affine(Planner *p, Node id, const int32_t *index) {
  static const bool may[IR_OP_COUNT] = {
      [IR_ADD] = true, [IR_SUB] = true,    [IR_NEG] = true,    [IR_MUL] = true,
      [IR_DIV] = true, [IR_MATVEC] = true, [IR_POISSON] = true};
  if (!may[ir_node(p->g, id)->op]) return NULL;
  ArenaMark mark = arena_mark(p->temp);
  IrAffine f = ir_affine(p->temp, p->g, p->rows, &rules, p);
  bool found = ir_affine_add(&f, &(IrSlice){id, index, all_ones(p)}) && f.taken_apart && f.count;
  const TapeAffine *t = found ? assemble(p, &f) : NULL;
  arena_reset(p->temp, mark);
  return t;
}
