/* laws.c: the law of affine functions f_r(theta) = c_r + sum_t a_rt theta_j(r,t) under one normal
 * component of q: E f = c + a'm, cov(f, h) = a'S b; and the adjoints of these. Always for a block
 * of rows at a time.
 */
#include "infer/exact_int.h"

#include "num/linalg.h"

#include <string.h>

static double cov_at(const NormalLaw *law, size_t dim, int32_t j, int32_t k) {
  if (law->cov) return law->cov[(size_t)j * dim + (size_t)k];
  return j == k ? law->var[j] : 0;
}

static void add_cov(NormalLaw *adj, size_t dim, int32_t j, int32_t k, double g) {
  if (adj->cov) {
    adj->cov[(size_t)j * dim + (size_t)k] += g;
  } else if (j == k) {
    adj->var[j] += g;
  }
}

static int32_t input_at(const AffineTerm *t, size_t r) { return t->index ? t->index[r] : t->input; }
static double coef_at(const AffineTerm *t, size_t r) { return t->coef ? t->coef[r] : 1; }
static size_t row_in(const Affine *f, size_t r) { return f->rows == 1 ? 0 : r; }

/* The coefficients of a term that is a column of data times one parameter, the usual case; NULL
 * otherwise. */
static const double *column(const Affine *f, const AffineTerm *a, size_t row) {
  return f->rows > 1 && !a->index && a->coef ? a->coef + row : NULL;
}

void laws_coefs(const Affine *f, size_t row, double *x) {
  size_t k = row_in(f, row);
  for (int t = 0; t < f->nterms; t++) x[input_at(&f->terms[t], k)] += coef_at(&f->terms[t], k);
}

/* ---- means ----------------------------------------------------------------------------------- */

void laws_means(const Affine *f, const LawRows *at, double *mean) {
  size_t row = at->row, n = at->n;
  for (size_t r = 0; r < n; r++) mean[r] = f->constant ? f->constant[row_in(f, row + r)] : 0;
  for (int t = 0; t < f->nterms; t++) {
    const AffineTerm *a = &f->terms[t];
    const double *x = column(f, a, row);
    double m = at->law->mean[a->input];
    for (size_t r = 0; x && r < n; r++) mean[r] += x[r] * m;
    for (size_t r = 0; !x && r < n; r++) {
      size_t k = row_in(f, row + r);
      mean[r] += coef_at(a, k) * at->law->mean[input_at(a, k)];
    }
  }
}

void laws_means_adjoint(const Affine *f, const LawRows *at, const double *g, NormalLaw *adj) {
  size_t row = at->row, n = at->n;
  for (int t = 0; t < f->nterms; t++) {
    const AffineTerm *a = &f->terms[t];
    const double *x = column(f, a, row);
    if (x) adj->mean[a->input] += la_dot(g, x, n);
    for (size_t r = 0; !x && r < n; r++) {
      size_t k = row_in(f, row + r);
      adj->mean[input_at(a, k)] += g[r] * coef_at(a, k);
    }
  }
}

/* ---- covariances ----------------------------------------------------------------------------- */

/* Two terms, of one function or of two; `twice`: they stand for both orders of the two. */
typedef struct {
  const AffineTerm *a, *b;
  const Affine *f, *h;
  const LawRows *at;
  bool twice;
} Pair;

/* Where a pair's share goes: cov[r] += it; or, where cov is NULL, adj += g[r] times its derivative.
 */
typedef struct {
  double *cov;
  const double *g;
  NormalLaw *adj;
} PairSum;

/* Do two terms have entries in common in the covariance matrix? */
static bool related(const Pair *p) {
  return p->at->law->cov || (p->a->low <= p->b->high && p->b->low <= p->a->high);
}

/* Coefficients of a block of rows, with zeros behind: loops of constant length are vector loops. */
static void load_coefs(const Affine *f, const AffineTerm *a, const LawRows *at, double *x) {
  for (size_t r = 0; r < at->n; r++) x[r] = coef_at(a, row_in(f, at->row + r));
  for (size_t r = at->n; r < ROW_BLOCK; r++) x[r] = 0;
}

static void add_both(const Pair *p, NormalLaw *adj, int32_t j, int32_t k, double g) {
  add_cov(adj, p->at->dim, j, k, g);
  if (p->twice) add_cov(adj, p->at->dim, k, j, g);
}

/* Parameters that are the same in all rows, the usual case; x is a's coefficients. */
static void fixed_pair(const Pair *p, const double *x, const PairSum *to) {
  const LawRows *at = p->at;
  double y[ROW_BLOCK], sum = 0;
  double c = cov_at(at->law, at->dim, p->a->input, p->b->input) * (p->twice ? 2 : 1);
  load_coefs(p->h, p->b, at, y);
  for (size_t r = 0; r < ROW_BLOCK; r++) y[r] *= x[r];
  for (size_t r = 0; to->cov && r < ROW_BLOCK; r++) to->cov[r] += c * y[r];
  if (to->cov) return;
  for (size_t r = 0; r < at->n; r++) sum += to->g[r] * y[r];
  add_both(p, to->adj, p->a->input, p->b->input, sum);
}

static void indexed_pair(const Pair *p, const double *x, const PairSum *to) {
  const LawRows *at = p->at;
  for (size_t r = 0; r < at->n; r++) {
    size_t s = row_in(p->h, at->row + r);
    int32_t j = input_at(p->a, row_in(p->f, at->row + r)), k = input_at(p->b, s);
    double c = x[r] * coef_at(p->b, s);
    if (to->cov) {
      to->cov[r] += c * cov_at(at->law, at->dim, j, k) * (p->twice ? 2 : 1);
    } else {
      add_both(p, to->adj, j, k, to->g[r] * c);
    }
  }
}

/* ---- the usual case by matrix products ------------------------------------------------------- */

/* Terms of parameters that are the same in all rows, and their coefficients in a block of rows. */
enum { TILE = 64 };
typedef struct {
  const AffineTerm *terms[TILE];
  size_t n;
  double x[TILE][ROW_BLOCK];
} Tile;

/* The next terms of f from *t on. */
static bool next_tile(const Affine *f, const LawRows *at, int *t, Tile *tile) {
  for (tile->n = 0; *t < f->nterms && tile->n < TILE; ++*t) {
    const AffineTerm *a = &f->terms[*t];
    if (a->index) continue;
    const double *x = column(f, a, at->row);
    double *to = tile->x[tile->n];
    tile->terms[tile->n++] = a;
    if (!x) {
      load_coefs(f, a, at, to);
      continue;
    }
    memcpy(to, x, at->n * sizeof *to);
    memset(to + at->n, 0, (ROW_BLOCK - at->n) * sizeof *to);
  }
  return tile->n > 0;
}

/* cov[r] += times x_r' S y_r, of the coefficients x and y in row r. */
static void add_tile(const Tile *a, const Tile *b, const LawRows *at, double times_over,
                     double *cov) {
  double S[TILE * TILE], y[TILE][ROW_BLOCK];
  for (size_t i = 0; i < a->n; i++)
    for (size_t k = 0; k < b->n; k++)
      S[i * TILE + k] =
          times_over * cov_at(at->law, at->dim, a->terms[i]->input, b->terms[k]->input);
  at->k->gemm(&(RowProduct){.out = y[0],
                            .ldo = ROW_BLOCK,
                            .a = S,
                            .a_row = TILE,
                            .a_column = 1,
                            .b = b->x[0],
                            .ldb = ROW_BLOCK,
                            .rows = a->n,
                            .inner = b->n,
                            .n = ROW_BLOCK});
  for (size_t i = 0; i < a->n; i++) at->k->multiply_add(cov, a->x[i], y[i], ROW_BLOCK);
}

/* adj += sum_r g[r] x_r y_r', and its transpose where that stands for it, too. */
static void add_tile_adjoint(const Tile *a, const Tile *b, const LawRows *at, const PairSum *to,
                             bool twice) {
  double sum[TILE * TILE], y[ROW_BLOCK * TILE];
  size_t width = (b->n + LANES - 1) / LANES * LANES;
  for (size_t r = 0; r < at->n; r++) {
    for (size_t k = 0; k < b->n; k++) y[r * width + k] = to->g[r] * b->x[k][r];
    for (size_t k = b->n; k < width; k++) y[r * width + k] = 0;
  }
  at->k->gemm(&(RowProduct){.out = sum,
                            .ldo = width,
                            .a = a->x[0],
                            .a_row = ROW_BLOCK,
                            .a_column = 1,
                            .b = y,
                            .ldb = width,
                            .rows = a->n,
                            .inner = at->n,
                            .n = width});
  for (size_t i = 0; i < a->n; i++)
    for (size_t k = 0; k < b->n; k++) {
      int32_t p = a->terms[i]->input, q = b->terms[k]->input;
      add_cov(to->adj, at->dim, p, q, sum[i * width + k]);
      if (twice) add_cov(to->adj, at->dim, q, p, sum[i * width + k]);
    }
}

static void over_tiles(const Affine *f, const Affine *h, const LawRows *at, const PairSum *to) {
  Tile a, other;
  for (int t = 0, from = 0; next_tile(f, at, &t, &a); from = t) {
    for (int u = f == h ? from : 0; u < h->nterms;) {
      bool diagonal = f == h && u == from;
      const Tile *b = diagonal ? &a : &other;
      if (diagonal) {
        u = t;
      } else if (!next_tile(h, at, &u, &other)) {
        break;
      }
      bool twice = f == h && !diagonal;
      if (to->cov) {
        add_tile(&a, b, at, twice ? 2 : 1, to->cov);
      } else {
        add_tile_adjoint(&a, b, at, to, twice);
      }
    }
  }
}

static bool has_index(const Affine *f) {
  for (int t = 0; t < f->nterms; t++)
    if (f->terms[t].index) return true;
  return false;
}

/* Every pair of terms: coef coef cov(theta_j, theta_k). Of one function with itself, the terms
 * before the diagonal count twice instead. */
static void over_pairs(const Affine *f, const Affine *h, const LawRows *at, const PairSum *to) {
  double x[ROW_BLOCK];
  bool tiles = at->law->cov != NULL;
  if (tiles) over_tiles(f, h, at, to);
  if (tiles && !has_index(f) && !has_index(h)) return;
  for (int t = 0; t < f->nterms; t++) {
    bool loaded = false;
    for (int u = f == h ? t : 0; u < h->nterms; u++) {
      Pair p = {&f->terms[t], &h->terms[u], f, h, at, f == h && u > t};
      bool fixed = !p.a->index && !p.b->index;
      if ((fixed && tiles) || !related(&p)) continue;
      if (!loaded) load_coefs(f, p.a, at, x);
      loaded = true;
      (fixed ? fixed_pair : indexed_pair)(&p, x, to);
    }
  }
}

void laws_covariances(const Affine *f, const Affine *h, const LawRows *at, double *cov) {
  for (size_t r = 0; r < ROW_BLOCK; r++) cov[r] = 0;
  over_pairs(f, h, at, &(PairSum){.cov = cov});
}

void laws_covariances_adjoint(const Affine *f, const Affine *h, const LawRows *at, const double *g,
                              NormalLaw *adj) {
  over_pairs(f, h, at, &(PairSum){.g = g, .adj = adj});
}

/* ---- variances: terms that have no parameter in common are squares alone --------------------- */

void laws_variances(const Affine *f, const LawRows *at, double *var) {
  const NormalLaw *law = at->law;
  size_t row = at->row, n = at->n;
  if (law->cov || f->overlapping) {
    laws_covariances(f, f, at, var);
    return;
  }
  for (size_t r = 0; r < n; r++) var[r] = 0;
  for (int t = 0; t < f->nterms; t++) {
    const AffineTerm *a = &f->terms[t];
    const double *x = column(f, a, row);
    double v = law->var[a->input];
    for (size_t r = 0; x && r < n; r++) var[r] += x[r] * x[r] * v;
    for (size_t r = 0; !x && r < n; r++) {
      size_t k = row_in(f, row + r);
      var[r] += coef_at(a, k) * coef_at(a, k) * law->var[input_at(a, k)];
    }
  }
}

void laws_variances_adjoint(const Affine *f, const LawRows *at, const double *g, NormalLaw *adj) {
  size_t row = at->row, n = at->n;
  if (at->law->cov || f->overlapping) {
    laws_covariances_adjoint(f, f, at, g, adj);
    return;
  }
  for (int t = 0; t < f->nterms; t++) {
    const AffineTerm *a = &f->terms[t];
    const double *x = column(f, a, row);
    double sum = 0;
    for (size_t r = 0; x && r < n; r++) sum += g[r] * x[r] * x[r];
    if (x) adj->var[a->input] += sum;
    for (size_t r = 0; !x && r < n; r++) {
      size_t k = row_in(f, row + r);
      adj->var[input_at(a, k)] += g[r] * coef_at(a, k) * coef_at(a, k);
    }
  }
}
