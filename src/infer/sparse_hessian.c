/* sparse_hessian.c: what may be moved at once, and what each move tells; or what a matrix has.
 *
 * A number that meets many others (a scale, a common slope) is moved alone. Of the others two are
 * moved at once when none of these others meets both: then every difference of a gradient's entry
 * is due to one of them. What they have in common with the numbers moved alone is known from
 * those, by symmetry (Powell & Toint 1979). How many are moved alone is tried.
 */
#include "infer/meetings.h"

#include "num/sparse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEP 1e-5 /* of a number's unit, for differences */
enum {
  MOST_SIZE = 10000,     /* numbers of phi for which it is tried, */
  MOST_MOVES = 64,       /* moves, */
  MOST_NUMBERS = 4000000 /* and numbers of the factor */
};

struct SparseHessian {
  SparsePattern pattern; /* who meets whom */
  size_t *first;
  int32_t *row;
  size_t moves, alone; /* the first `alone` moves are of one number each */
  int32_t *move;       /* of every number: the move it is part of */
  size_t *twin;        /* of every second derivative: the same one in the other half */
  double *x;           /* minus the second derivatives */
  SparseFactor *factor;
  double *at, *slope;
};

/* ---- both halves ----------------------------------------------------------------------------- */

/* How many moves there may be, of n numbers. One that is not moved alone meets no more numbers than
 * there are moves, so where more than these meet too many, it is no use. */
static size_t most_moves(size_t n) { return 12 + n / 4 < MOST_MOVES ? 12 + n / 4 : MOST_MOVES; }

/* The columns as rows. */
typedef struct {
  size_t *first;
  int32_t *row;
} Lists;

static Lists transposed(Arena *a, const SparseHessian *h, size_t n) {
  size_t all = h->first[n];
  Lists t = {NEW_ARRAY(a, size_t, n + 2), NEW_ARRAY(a, int32_t, all + 1)};
  for (size_t e = 0; e < all; e++) t.first[h->row[e] + 2]++;
  for (size_t k = 0; k < n; k++) t.first[k + 1] += t.first[k];
  for (size_t k = 0; k < n; k++)
    for (size_t e = h->first[k]; e < h->first[k + 1]; e++)
      t.row[t.first[h->row[e] + 1]++] = (int32_t)k;
  return t;
}

/* Where the change was lost in rounding one way, it was seen the other way. */
static void add_other_half(Arena *a, SparseHessian *h, size_t n) {
  Lists t = transposed(a, h, n);
  size_t *first = NEW_ARRAY(a, size_t, n + 1), end = 0;
  int32_t *row = NEW_ARRAY(a, int32_t, 2 * h->first[n] + 1);
  for (size_t k = 0; k < n; k++) {
    size_t i = h->first[k], j = t.first[k];
    while (i < h->first[k + 1] || j < t.first[k + 1]) {
      int32_t x = i < h->first[k + 1] ? h->row[i] : INT32_MAX,
              y = j < t.first[k + 1] ? t.row[j] : INT32_MAX;
      row[end++] = x < y ? x : y;
      i += x <= y;
      j += y <= x;
    }
    first[k + 1] = end;
  }
  h->first = first;
  h->row = row;
}

/* Each entry's other half: rows ascend in every column, and so does the column in every row. */
static void find_twins(Arena *a, SparseHessian *h, size_t n) {
  size_t *next = NEW_ARRAY(a, size_t, n + 1);
  h->twin = NEW_ARRAY(a, size_t, h->first[n] + 1);
  memcpy(next, h->first, n * sizeof *next);
  for (size_t k = 0; k < n; k++)
    for (size_t e = h->first[k]; e < h->first[k + 1]; e++) h->twin[e] = next[h->row[e]]++;
}

/* ---- moves ----------------------------------------------------------------------------------- */

typedef struct {
  int32_t k;
  size_t meets;
} Degree;

static int by_degree(const void *a, const void *b) {
  const Degree *x = a, *y = b;
  if (x->meets != y->meets) return x->meets < y->meets ? 1 : -1;
  return (x->k > y->k) - (x->k < y->k);
}

/* A plan in the making: the numbers, those that meet the most first; the move of each; and by move,
 * the last number that could not be part of it. */
typedef struct {
  const Degree *order;
  int32_t *move, *taken;
} Plan;

/* Moves of all that meet somebody whom k meets, but for those moved alone, are not for k. */
static void mark_taken(const SparseHessian *h, const Plan *p, int32_t k, int32_t alone) {
  for (size_t i = h->first[k]; i < h->first[k + 1]; i++) {
    int32_t between = h->row[i];
    if (p->move[between] >= 0 && p->move[between] < alone) continue;
    for (size_t j = h->first[between]; j < h->first[between + 1]; j++)
      if (p->move[h->row[j]] >= 0) p->taken[p->move[h->row[j]]] = k;
  }
}

/* How many moves it takes when the first `alone` in order are moved alone; `most`: no fewer. */
static size_t plan_moves(const SparseHessian *h, const Plan *p, size_t alone, size_t most) {
  size_t n = h->pattern.n, moves = alone;
  for (size_t k = 0; k < n; k++) p->move[k] = p->taken[k] = -1;
  for (size_t k = 0; k < alone; k++) p->move[p->order[k].k] = (int32_t)k;
  for (size_t i = alone; i < n && moves < most; i++) {
    int32_t k = p->order[i].k;
    size_t m = alone;
    mark_taken(h, p, k, (int32_t)alone);
    while (m < moves && p->taken[m] == k) m++;
    p->move[k] = (int32_t)m;
    if (m == moves) moves++;
  }
  return moves;
}

/* As few as are found; false: too many. */
static bool choose_moves(Arena *a, SparseHessian *h) {
  size_t n = h->pattern.n, most = most_moves(n);
  Degree *order = NEW_ARRAY(a, Degree, n + 1);
  for (size_t k = 0; k < n; k++) order[k] = (Degree){(int32_t)k, h->first[k + 1] - h->first[k]};
  qsort(order, n, sizeof *order, by_degree);
  Plan p = {order, NEW_ARRAY(a, int32_t, n + 1), NEW_ARRAY(a, int32_t, n + 1)};
  h->move = NEW_ARRAY(a, int32_t, n + 1);
  h->moves = most + 1;
  for (size_t alone = 0; alone <= n && alone < h->moves; alone++) {
    bool few = alone == n || order[alone].meets <= most;
    size_t moves = few ? plan_moves(h, &p, alone, h->moves) : h->moves;
    if (moves >= h->moves) continue;
    h->moves = moves;
    h->alone = alone;
    memcpy(h->move, p.move, n * sizeof *p.move);
  }
  return h->moves <= most;
}

SparseHessian *sparse_hessian_make(Arena *a, const Gradient *probe, const double *phi,
                                   const double *unit) {
  SparseHessian *h = NEW(a, SparseHessian);
  size_t n = probe->dim;
  if (n > MOST_SIZE) return NULL;
  h->at = NEW_ARRAY(a, double, n + 1);
  h->slope = NEW_ARRAY(a, double, n + 1);
  Meetings m;
  if (!meetings_find(a, probe, phi, unit, most_moves(n), &m)) return NULL;
  h->first = m.first;
  h->row = m.row;
  add_other_half(a, h, n);
  find_twins(a, h, n);
  h->pattern = (SparsePattern){n, h->first, h->row};
  if (!choose_moves(a, h)) return NULL;
  h->x = NEW_ARRAY(a, double, h->first[n] + 1);
  h->factor = sparse_factor_make(a, &h->pattern, MOST_NUMBERS);
  return h->factor ? h : NULL;
}

size_t sparse_hessian_moves(const SparseHessian *h) { return h->moves; }

/* ---- the Hessian ----------------------------------------------------------------------------- */

static bool is_alone(const SparseHessian *h, size_t k) { return h->move[k] < (int32_t)h->alone; }

/* What a move tells of number k: where it was moved alone, all; else what it has with those that
 * are not. */
static void read_column(SparseHessian *h, size_t k, const double *base, double step) {
  for (size_t e = h->first[k]; e < h->first[k + 1]; e++) {
    size_t i = (size_t)h->row[e];
    if (!is_alone(h, k) && is_alone(h, i)) continue;
    h->x[e] = (base[i] - h->slope[i]) / step;
    if (is_alone(h, k) && !is_alone(h, i)) h->x[h->twin[e]] = h->x[e];
  }
}

/* Both halves of an entry that two moves have told are their mean. */
static void make_symmetric(SparseHessian *h) {
  for (size_t e = 0; e < h->first[h->pattern.n]; e++)
    if (h->twin[e] > e) h->x[e] = h->x[h->twin[e]] = 0.5 * (h->x[e] + h->x[h->twin[e]]);
}

/* A diagonal without a zero, which no factor has. */
static void raise_diagonal(SparseHessian *h, const Straight *s) {
  for (size_t k = 0; k < h->pattern.n; k++)
    for (size_t e = h->first[k]; e < h->first[k + 1]; e++)
      if (h->row[e] == (int32_t)k && fabs(h->x[e]) < s->least[k]) h->x[e] = s->instead[k];
}

bool sparse_hessian_renew(SparseHessian *h, const Gradient *g, const double *phi,
                          const double *base, const double *unit, const Straight *straight) {
  size_t n = h->pattern.n;
  for (int32_t m = 0; m < (int32_t)h->moves; m++) {
    for (size_t k = 0; k < n; k++) h->at[k] = phi[k] + (h->move[k] == m ? STEP * unit[k] : 0);
    if (!g->at(g->self, h->at, h->slope)) return false;
    for (size_t k = 0; k < n; k++)
      if (h->move[k] == m) read_column(h, k, base, STEP * unit[k]);
  }
  make_symmetric(h);
  raise_diagonal(h, straight);
  return sparse_factor(h->factor, h->x);
}

bool sparse_hessian_is_definite(const SparseHessian *h) { return sparse_was_definite(h->factor); }

void sparse_hessian_matrix(const SparseHessian *h, double *A) {
  size_t n = h->pattern.n;
  memset(A, 0, n * n * sizeof *A);
  for (size_t k = 0; k < n; k++)
    for (size_t e = h->first[k]; e < h->first[k + 1]; e++) A[k * n + (size_t)h->row[e]] = h->x[e];
}

void sparse_hessian_solve(SparseHessian *h, const double *b, double *x) {
  sparse_solve(h->factor, b, x);
}

void sparse_hessian_state(SparseHessian *h, Archive *a) {
  size_t n;
  double *x = sparse_numbers(h->factor, &n);
  archive_doubles(a, x, n);
}

/* ---- a known matrix -------------------------------------------------------------------------- */

static SparseHessian *with_pattern(Arena *a, SparseHessian *h, size_t n) {
  h->pattern = (SparsePattern){n, h->first, h->row};
  h->x = NEW_ARRAY(a, double, h->first[n] + 1);
  h->factor = sparse_factor_make(a, &h->pattern, MOST_NUMBERS);
  return h->factor ? h : NULL;
}

SparseHessian *sparse_hessian_of(Arena *a, const double *A, size_t n) {
  SparseHessian *h = NEW(a, SparseHessian);
  size_t end = 0;
  h->first = NEW_ARRAY(a, size_t, n + 1);
  for (size_t i = 0; i < n * n; i++) end += A[i] != 0 || i % (n + 1) == 0;
  h->row = NEW_ARRAY(a, int32_t, end + 1);
  end = 0;
  for (size_t k = 0; k < n; k++) {
    for (size_t i = 0; i < n; i++)
      if (i == k || A[k * n + i] != 0) h->row[end++] = (int32_t)i;
    h->first[k + 1] = end;
  }
  return with_pattern(a, h, n);
}

bool sparse_hessian_set(SparseHessian *h, const double *A) {
  size_t n = h->pattern.n;
  for (size_t k = 0; k < n; k++)
    for (size_t e = h->first[k]; e < h->first[k + 1]; e++) h->x[e] = A[k * n + (size_t)h->row[e]];
  return sparse_factor(h->factor, h->x);
}

void sparse_hessian_whole_state(Arena *room, SparseHessian **h, size_t n, Archive *a) {
  SparseHessian *s = *h ? *h : NEW(room, SparseHessian);
  bool fresh = !*h;
  if (fresh) s->first = NEW_ARRAY(room, size_t, n + 1);
  for (size_t k = 1; k <= n; k++) archive_count(a, &s->first[k], n * n);
  if (fresh) s->row = NEW_ARRAY(room, int32_t, s->first[n] + 1);
  for (size_t e = 0; e < s->first[n]; e++) {
    size_t row = (size_t)s->row[e];
    archive_count(a, &row, n - 1);
    s->row[e] = (int32_t)row;
  }
  if (fresh && !a->bad) *h = with_pattern(room, s, n);
  if (*h && !a->bad)
    sparse_hessian_state(*h, a);
  else
    a->bad = true;
}
