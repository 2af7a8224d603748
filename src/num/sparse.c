/* sparse.c: Cholesky factors of sparse matrices, column by column.
 *
 * Position p of the order is the column that is eliminated p-th. Its numbers below the diagonal
 * are where the matrix has some or where elimination of an earlier column left some, which is found
 * once (`order`); afterwards every column takes what the earlier ones that reach it subtract, and
 * is divided by its pivot (George & Liu 1981, chapter 5). */
#include "num/sparse.h"

#include <math.h>
#include <string.h>

struct SparseFactor {
  const SparsePattern *A;
  size_t n;
  int32_t *at;    /* [n] position of every row */
  int32_t *order; /* [n] row of every position */
  size_t *first;  /* [n + 1] numbers of L below the diagonal, column by column, */
  int32_t *row;   /* and their positions, which ascend */
  double *x;      /* [n] pivots, then those numbers, then [n] scales of the rows of A */
  double *w;      /* [n] one column */
  int32_t *head, *next;
  size_t *cursor; /* of every column, the first of its numbers that has not been used yet */
  bool definite;  /* what was factored was, as it was */
};

/* ---- the order, and where L has numbers ------------------------------------------------------ */

/* Who meets whom among those left, a bit each. */
typedef struct {
  size_t n, words;
  uint64_t *bits;
  size_t *degree;
  bool *gone;
} Meetings;

static uint64_t *row_of(const Meetings *m, size_t k) { return m->bits + k * m->words; }

static size_t count_bits(const uint64_t *w, size_t words) {
  size_t n = 0;
  for (size_t k = 0; k < words; k++) n += (size_t)__builtin_popcountll(w[k]);
  return n;
}

static Meetings begin(Arena *a, const SparsePattern *A) {
  size_t n = A->n, words = (n + 63) / 64;
  Meetings m = {n, words, NEW_ARRAY(a, uint64_t, n * words + 1), NEW_ARRAY(a, size_t, n + 1),
                NEW_ARRAY(a, bool, n + 1)};
  for (size_t k = 0; k < n; k++) {
    for (size_t e = A->first[k]; e < A->first[k + 1]; e++) {
      size_t i = (size_t)A->row[e];
      if (i == k) continue;
      row_of(&m, k)[i / 64] |= (uint64_t)1 << (i % 64);
      row_of(&m, i)[k / 64] |= (uint64_t)1 << (k % 64);
    }
  }
  for (size_t k = 0; k < n; k++) m.degree[k] = count_bits(row_of(&m, k), words);
  return m;
}

static size_t fewest(const Meetings *m) {
  size_t best = m->n;
  for (size_t k = 0; k < m->n; k++)
    if (!m->gone[k] && (best == m->n || m->degree[k] < m->degree[best])) best = k;
  return best;
}

/* Those that k meets meet each other from now on. */
static void eliminate(Meetings *m, size_t k) {
  const uint64_t *mine = row_of(m, k);
  for (size_t i = 0; i < m->n; i++) {
    uint64_t *row = row_of(m, i);
    if (!(mine[i / 64] >> (i % 64) & 1)) continue;
    for (size_t w = 0; w < m->words; w++) row[w] |= mine[w];
    row[i / 64] &= ~((uint64_t)1 << (i % 64));
    row[k / 64] &= ~((uint64_t)1 << (k % 64));
    m->degree[i] = count_bits(row, m->words);
  }
  m->gone[k] = true;
}

/* The order, and the size of every column of L; false: there are too many. The rows of `m` are what
 * they were when each was eliminated. */
static bool choose_order(SparseFactor *f, Meetings *m, size_t most) {
  for (size_t p = 0; p < f->n; p++) {
    size_t k = fewest(m);
    f->first[p + 1] = f->first[p] + m->degree[k];
    if (f->first[p + 1] > most) return false;
    f->order[p] = (int32_t)k;
    f->at[k] = (int32_t)p;
    eliminate(m, k);
  }
  return true;
}

static void list_rows(SparseFactor *f, const Meetings *m, bool *here) {
  for (size_t p = 0; p < f->n; p++) {
    const uint64_t *mine = row_of(m, (size_t)f->order[p]);
    size_t e = f->first[p], last = p;
    for (size_t i = 0; i < f->n; i++) {
      if (!(mine[i / 64] >> (i % 64) & 1)) continue;
      here[f->at[i]] = true;
      last = (size_t)f->at[i] > last ? (size_t)f->at[i] : last;
    }
    for (size_t q = p + 1; q <= last; q++) {
      if (here[q]) f->row[e++] = (int32_t)q;
      here[q] = false;
    }
  }
}

SparseFactor *sparse_factor_make(Arena *a, const SparsePattern *pattern, size_t most) {
  SparseFactor *f = NEW(a, SparseFactor);
  size_t n = pattern->n;
  *f = (SparseFactor){.A = pattern, .n = n};
  f->at = NEW_ARRAY(a, int32_t, n + 1);
  f->order = NEW_ARRAY(a, int32_t, n + 1);
  f->first = NEW_ARRAY(a, size_t, n + 1);
  Meetings m = begin(a, pattern);
  if (!choose_order(f, &m, most)) return NULL;
  f->row = NEW_ARRAY(a, int32_t, f->first[n] + 1);
  list_rows(f, &m, m.gone = NEW_ARRAY(a, bool, n + 1));
  f->x = NEW_ARRAY(a, double, 2 * n + f->first[n] + 1);
  f->w = NEW_ARRAY(a, double, n + 1);
  f->head = NEW_ARRAY(a, int32_t, n + 1);
  f->next = NEW_ARRAY(a, int32_t, n + 1);
  f->cursor = NEW_ARRAY(a, size_t, n + 1);
  return f;
}

double *sparse_numbers(SparseFactor *f, size_t *n) {
  *n = 2 * f->n + f->first[f->n];
  return f->x;
}

/* ---- the numbers ----------------------------------------------------------------------------- */

static double *below(const SparseFactor *f) { return f->x + f->n; }
static double *scales(const SparseFactor *f) { return f->x + f->n + f->first[f->n]; }

static bool find_scales(SparseFactor *f, const double *x) {
  const SparsePattern *A = f->A;
  for (size_t k = 0; k < f->n; k++) {
    double d = 0;
    for (size_t e = A->first[k]; e < A->first[k + 1]; e++)
      if ((size_t)A->row[e] == k) d = sqrt(fabs(x[e]));
    if (!(d > 0) || !isfinite(d)) return false;
    scales(f)[k] = d;
  }
  return true;
}

/* Column p of A, with ones on its diagonal. */
static void load(SparseFactor *f, const double *x, size_t p) {
  const SparsePattern *A = f->A;
  size_t k = (size_t)f->order[p];
  for (size_t e = A->first[k]; e < A->first[k + 1]; e++) {
    size_t i = (size_t)A->row[e];
    if ((size_t)f->at[i] >= p) f->w[f->at[i]] = x[e] / (scales(f)[i] * scales(f)[k]);
  }
}

/* Column k is used next where its next number is. */
static void wait(SparseFactor *f, size_t k) {
  if (f->cursor[k] >= f->first[k + 1]) return;
  int32_t at = f->row[f->cursor[k]];
  f->next[k] = f->head[at];
  f->head[at] = (int32_t)k;
}

static void subtract(SparseFactor *f, size_t p) {
  const double *L = below(f);
  for (int32_t k = f->head[p], then; k >= 0; k = then) {
    size_t e = f->cursor[k]++, end = f->first[k + 1];
    double c = L[e];
    then = f->next[k];
    for (; e < end; e++) f->w[f->row[e]] -= c * L[e];
    wait(f, (size_t)k);
  }
}

static void divide(SparseFactor *f, size_t p) {
  const double least = 1e-10;
  double most = 0, *L = below(f), d = f->w[p];
  for (size_t e = f->first[p]; e < f->first[p + 1]; e++) most = fmax(most, fabs(f->w[f->row[e]]));
  f->definite = f->definite && d > 0;
  d = sqrt(fmax(fmax(fabs(d), most * most), least));
  f->x[p] = d;
  f->w[p] = 0;
  for (size_t e = f->first[p]; e < f->first[p + 1]; e++) {
    L[e] = f->w[f->row[e]] / d;
    f->w[f->row[e]] = 0;
  }
}

bool sparse_factor(SparseFactor *f, const double *x) {
  if (!find_scales(f, x)) return false;
  memset(f->w, 0, f->n * sizeof *f->w);
  f->definite = true;
  for (size_t p = 0; p < f->n; p++) f->head[p] = -1;
  for (size_t p = 0; p < f->n; p++) {
    load(f, x, p);
    subtract(f, p);
    divide(f, p);
    f->cursor[p] = f->first[p];
    wait(f, p);
  }
  return true;
}

bool sparse_was_definite(const SparseFactor *f) { return f->definite; }

void sparse_solve(SparseFactor *f, const double *b, double *x) {
  const double *L = below(f);
  double *w = f->w;
  for (size_t k = 0; k < f->n; k++) w[f->at[k]] = b[k] / scales(f)[k];
  for (size_t p = 0; p < f->n; p++) {
    w[p] /= f->x[p];
    for (size_t e = f->first[p]; e < f->first[p + 1]; e++) w[f->row[e]] -= L[e] * w[p];
  }
  for (size_t p = f->n; p-- > 0;) {
    for (size_t e = f->first[p]; e < f->first[p + 1]; e++) w[p] -= L[e] * w[f->row[e]];
    w[p] /= f->x[p];
  }
  for (size_t k = 0; k < f->n; k++) x[k] = w[f->at[k]] / scales(f)[k];
}
