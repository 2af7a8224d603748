/* second_derivatives.c: the Hessian of an exact objective, at the price of a few evaluations.
 *
 * The objective is a sum over rows of functions of their laws z (two numbers, or five:
 * exact_int.h), and z is a function of phi. With G_r the second derivatives of row r in its own
 * law, T_r = dz_r / d phi, and a the adjoints of q's law (mean and covariance),
 *
 *   H = sum_r T_r' G_r T_r + d^2 / d phi^2 (a' law(phi) + lambda entropy(phi)),  a held fixed.
 *
 * One number of the laws of all rows is moved at once, and the change of every row's own
 * derivatives is a column of all G_r: an evaluation per number. The second term is differences of
 * the family's own adjoints. Where there are many rows, every n-th of them stands for all. Where
 * the parameters are independent under q, each has numbers of phi of its own, and a *narrow* row,
 * of few parameters (a group's, a person's and an item's), adds to few places of H.
 *
 * A term of the prior given its scales has no laws of rows: its share are differences of its own
 * gradient, in the numbers of phi that it sees.
 */
#include "infer/exact_int.h"

#include <math.h>
#include <string.h>

enum {
  MOST_SIZE = 600,    /* numbers of phi, */
  MOST_NARROW = 2500, /* where all rows are narrow, */
  MOST_ROWS = 100000, /* and rows of a block, for which it is done */
  BATCH_ROWS = 32,    /* rows whose tangents are multiplied together */
  ENOUGH_ROWS = 8     /* rows for every number of phi: as many as are needed at least, */
};
#define MOST_PRODUCTS 5e8 /* and more only while the products are fewer than this */

/* The numbers of phi that one parameter has for itself, and the derivatives of its mean and its
 * variance in them. */
typedef struct {
  size_t at[2];
  double mean[2], variance[2];
  int count;
} Own;

/* A number of phi that a row sees, and the derivatives of the row's law in it. */
typedef struct {
  size_t at;
  double law[LAW_NUMBERS];
} Tangent;

struct ExactHessian {
  Exact *e;
  size_t size, ld;     /* of phi; the same, padded */
  double *sum;         /* size x ld */
  double *first, *law; /* rows of all blocks x LAW_NUMBERS: slopes at phi itself, and laws */
  double *slopes;      /* of one block, its laws moved */
  double *second;      /* rows x LAW_NUMBERS^2: G_r */
  double shared[2][2]; /* what G has besides, of a second function that all rows share */
  double *tangents, *products; /* BATCH_ROWS LAW_NUMBERS x ld each: T_r, and G_r T_r */
  double *x, *w, *room;        /* coefficients of a row's functions; 2 dim */
  QLaws laws;                  /* of moved phi */
  double *phi, *reach, *slope_at, *slope;
  size_t batch;  /* rows of tangents that are filled */
  Own *own;      /* of every parameter; NULL: they are not independent */
  Tangent *list; /* of a narrow row */
};

/* ---- does it apply, and its memory ------------------------------------------------------------
 */

/* Rows with laws of their own. */
static size_t rows_of(const Integral *I) {
  return (size_t)(I->centred ? I->r->rows : I->r->first_rows);
}

/* Numbers of phi that a row of it sees, at most, where parameters are independent. */
static size_t width_of(const Reduced *r) {
  size_t terms = 0;
  for (int k = 0; k < r->count; k++) terms += (size_t)r->f[k].nterms;
  return 2 * terms;
}

static bool is_narrow(const Exact *e, const Integral *I) {
  enum { FEW = 8 }; /* so many times fewer than all are quicker one by one */
  return !e->laws.dense && FEW * width_of(I->r) <= q_size(e->q);
}

/* Differences are for terms of the prior only, and while they take no longer than some evaluations
 * of all, or next to no time. */
static bool given_are_cheap(const Exact *e) {
  enum { EVALUATIONS = 20, LITTLE = 4000000 };
  double given = 0, others = 0;
  for (int k = 0; k < e->count; k++) {
    const Integral *I = &e->integrals[k];
    if (I->given && !I->prior) return false;
    *(I->given ? &given : &others) += (double)I->r->rows * (double)I->M;
  }
  return given * (double)q_size(e->q) <= fmax(EVALUATIONS * others, LITTLE);
}

static bool applies(const Exact *e) {
  bool narrow = q_size(e->q) > MOST_SIZE;
  if (e->laws.count != 1 || !q_pulls(e->q) || q_size(e->q) > MOST_NARROW || !given_are_cheap(e))
    return false;
  for (int k = 0; k < e->count; k++) {
    const Integral *I = &e->integrals[k];
    if (I->given) continue;
    if (rows_of(I) > MOST_ROWS || (narrow && !is_narrow(e, I))) return false;
  }
  return true;
}

static size_t most_rows(const Exact *e) {
  size_t most = 1;
  for (int k = 0; k < e->count; k++)
    most = rows_of(&e->integrals[k]) > most ? rows_of(&e->integrals[k]) : most;
  return most;
}

static size_t all_rows(const Exact *e) {
  size_t sum = 1;
  for (int k = 0; k < e->count; k++) sum += rows_of(&e->integrals[k]);
  return sum;
}

bool exact_prepare_hessian(Arena *a, Exact *e) {
  if (!applies(e)) return false;
  ExactHessian *h = e->hessian = NEW(a, ExactHessian);
  size_t size = q_size(e->q), ld = (size + LANES - 1) / LANES * LANES, rows = most_rows(e);
  *h = (ExactHessian){.e = e, .size = size, .ld = ld};
  h->sum = NEW_ARRAY(a, double, size *ld);
  h->first = NEW_ARRAY(a, double, all_rows(e) * LAW_NUMBERS);
  h->law = NEW_ARRAY(a, double, all_rows(e) * LAW_NUMBERS);
  h->slopes = NEW_ARRAY(a, double, rows *LAW_NUMBERS);
  h->second = NEW_ARRAY(a, double, rows *LAW_NUMBERS *LAW_NUMBERS);
  h->tangents = NEW_ARRAY(a, double, BATCH_ROWS *LAW_NUMBERS *ld);
  h->products = NEW_ARRAY(a, double, BATCH_ROWS *LAW_NUMBERS *ld);
  h->x = NEW_ARRAY(a, double, e->q->dim);
  h->w = NEW_ARRAY(a, double, e->q->dim);
  h->room = NEW_ARRAY(a, double, 2 * e->q->dim);
  h->laws = q_laws(a, e->q);
  h->phi = NEW_ARRAY(a, double, size);
  h->reach = NEW_ARRAY(a, double, size);
  h->slope_at = NEW_ARRAY(a, double, size);
  h->slope = NEW_ARRAY(a, double, size);
  h->own = e->laws.dense ? NULL : NEW_ARRAY(a, Own, e->q->dim);
  h->list = NEW_ARRAY(a, Tangent, size);
  return true;
}

/* ---- G_r: second derivatives in the laws of the rows ------------------------------------------
 */

static int numbers_of(const Reduced *r) { return r->count == 2 ? LAW_NUMBERS : 2 * r->count; }
static bool is_shared(const Reduced *r) { return r->count == 2 && r->f[1].rows == 1; }

/* The laws of the rows of an integral at phi itself, and the slopes in them. */
typedef struct {
  double *law, *first, shared[2];
} RowLaw;

/* All rows of an integral with one number of their laws moved; their slopes. */
static void slopes_with(Integral *I, int moved, double *slopes) {
  memset(slopes, 0, rows_of(I) * LAW_NUMBERS * sizeof *slopes);
  I->moved = moved;
  I->row_slopes = slopes;
  tiles_integrate(I, true);
  I->moved = -1;
  I->row_slopes = NULL;
}

/* Column `moved` of every G_r. */
static void keep_column(ExactHessian *h, const Integral *I, const RowLaw *at, int moved) {
  int n = numbers_of(I->r);
  for (size_t r = 0; r < rows_of(I); r++) {
    double step = leaves_step(at->law + r * LAW_NUMBERS, moved);
    double *G = h->second + r * LAW_NUMBERS * LAW_NUMBERS;
    for (int k = 0; k < n; k++) {
      size_t i = r * LAW_NUMBERS + (size_t)k;
      G[k * LAW_NUMBERS + moved] = step > 0 ? (h->slopes[i] - at->first[i]) / step : 0;
    }
  }
  if (!is_shared(I->r) || moved < LAW_MEAN_2) return;
  double step = leaves_step(at->law, moved);
  for (int k = 0; k < 2; k++)
    h->shared[k][moved - LAW_MEAN_2] = step > 0 ? (I->shared_slopes[k] - at->shared[k]) / step : 0;
}

/* Differences leave G_r symmetric but for their error. Where all rows share the second function,
 * moving the first ones changes the shared slopes by a sum over rows: of these mixed derivatives
 * the others are the ones that belong to single rows. */
static void make_symmetric(double *G, int n, bool shared) {
  for (int i = 0; i < n; i++)
    for (int k = i + 1; k < n; k++) {
      double *upper = &G[i * LAW_NUMBERS + k], *lower = &G[k * LAW_NUMBERS + i];
      bool mixed = shared && i < LAW_MEAN_2 && k >= LAW_MEAN_2;
      *upper = *lower = mixed ? *upper : 0.5 * (*upper + *lower);
    }
}

static void row_hessians(ExactHessian *h, Integral *I, const RowLaw *at) {
  int n = numbers_of(I->r);
  memset(h->shared, 0, sizeof h->shared);
  for (int k = 0; k < n; k++) {
    slopes_with(I, k, h->slopes);
    keep_column(h, I, at, k);
  }
  for (size_t r = 0; r < rows_of(I); r++)
    make_symmetric(h->second + r * LAW_NUMBERS * LAW_NUMBERS, n, is_shared(I->r));
}

/* ---- T_r, and the sum -------------------------------------------------------------------------
 */

static double *tangent(const ExactHessian *h, double *of, size_t k) {
  return of + (h->batch + k) * h->ld;
}

/* sum += tangents' products */
static void flush(ExactHessian *h) {
  if (!h->batch) return;
  h->e->k->gemm(&(RowProduct){.out = h->sum,
                              .ldo = h->ld,
                              .a = h->tangents,
                              .a_row = 1,
                              .a_column = h->ld,
                              .b = h->products,
                              .ldb = h->ld,
                              .rows = h->size,
                              .inner = h->batch,
                              .n = h->ld,
                              .add = true});
  h->batch = 0;
}

static void find_tangents(ExactHessian *h, const Integral *I, const double *phi, size_t row) {
  const Exact *e = h->e;
  int n = numbers_of(I->r);
  const double *first[] = {h->x, h->x, h->x, h->w, h->w},
               *second[] = {NULL, h->x, h->w, NULL, h->w};
  memset(h->x, 0, e->q->dim * sizeof *h->x);
  memset(h->w, 0, e->q->dim * sizeof *h->w);
  laws_coefs(&I->r->f[0], row, h->x);
  if (I->r->count == 2) laws_coefs(&I->r->f[1], row, h->w);
  for (int k = 0; k < n; k++) {
    double *t = tangent(h, h->tangents, (size_t)k);
    memset(t, 0, h->ld * sizeof *t);
    q_pull(e->q, phi, first[k], second[k], h->room, t);
  }
}

/* T' G T of one row, `times` over: it joins the batch. */
static void add_wide_row(ExactHessian *h, int n, const double *G, double times_over) {
  for (int i = 0; i < n; i++) {
    double *out = tangent(h, h->products, (size_t)i);
    memset(out, 0, h->ld * sizeof *out);
    for (int k = 0; k < n; k++)
      h->e->k->axpy(out, times_over * G[i * LAW_NUMBERS + k], tangent(h, h->tangents, (size_t)k),
                    h->ld);
  }
  h->batch += (size_t)n;
  if (h->batch + LAW_NUMBERS > BATCH_ROWS * LAW_NUMBERS) flush(h);
}

/* ---- narrow rows ------------------------------------------------------------------------------
 */

static void find_own(ExactHessian *h, const double *phi) {
  const Q *q = h->e->q;
  double *mean = h->slope_at, *variance = h->slope;
  memset(h->x, 0, q->dim * sizeof *h->x);
  for (size_t i = 0; h->own && i < q->dim; i++) {
    Own *own = &h->own[i];
    memset(mean, 0, h->size * sizeof *mean);
    memset(variance, 0, h->size * sizeof *variance);
    h->x[i] = 1;
    q_pull(q, phi, h->x, NULL, h->room, mean);
    q_pull(q, phi, h->x, h->x, h->room, variance);
    h->x[i] = 0;
    own->count = 0;
    for (size_t k = 0; k < h->size && own->count < 2; k++) {
      if (mean[k] == 0 && variance[k] == 0) continue;
      own->at[own->count] = k;
      own->mean[own->count] = mean[k];
      own->variance[own->count++] = variance[k];
    }
  }
}

/* The coefficients x and w of parameter i in a row's two functions, to the row's list; they are
 * cleared, for it may be met again. */
static size_t list_parameter(ExactHessian *h, size_t i, size_t count) {
  const Own *own = &h->own[i];
  double x = h->x[i], w = h->w[i];
  for (int k = 0; (x != 0 || w != 0) && k < own->count; k++) {
    double m = own->mean[k], v = own->variance[k];
    h->list[count++] = (Tangent){own->at[k], {x * m, x * x * v, x * w * v, w * m, w * w * v}};
  }
  h->x[i] = h->w[i] = 0;
  return count;
}

static size_t list_row(ExactHessian *h, const Reduced *r, size_t row) {
  size_t count = 0;
  laws_coefs(&r->f[0], row, h->x);
  if (r->count == 2) laws_coefs(&r->f[1], row, h->w);
  for (int f = 0; f < r->count; f++)
    for (int t = 0; t < r->f[f].nterms; t++) {
      const AffineTerm *term = &r->f[f].terms[t];
      size_t at = r->f[f].rows == 1 ? 0 : row;
      count = list_parameter(h, (size_t)(term->index ? term->index[at] : term->input), count);
    }
  return count;
}

static void add_narrow_row(ExactHessian *h, const Reduced *r, size_t row, const double *G) {
  int n = numbers_of(r);
  size_t count = list_row(h, r, row);
  for (size_t a = 0; a < count; a++) {
    double by[LAW_NUMBERS] = {0}, *out = h->sum + h->list[a].at * h->ld;
    for (int i = 0; i < n; i++)
      for (int k = 0; k < n; k++) by[k] += G[i * LAW_NUMBERS + k] * h->list[a].law[i];
    for (size_t b = 0; b < count; b++)
      for (int k = 0; k < n; k++) out[h->list[b].at] += by[k] * h->list[b].law[k];
  }
}

/* ---- all rows ---------------------------------------------------------------------------------
 */

static void add_row(ExactHessian *h, const Integral *I, const double *phi, size_t row,
                    const double *G, double times_over) {
  if (is_narrow(h->e, I)) {
    add_narrow_row(h, I->r, row, G);
  } else {
    find_tangents(h, I, phi, row);
    add_wide_row(h, numbers_of(I->r), G, times_over);
  }
}

/* Every so many rows are enough. */
static size_t stride_of(const ExactHessian *h, const Integral *I) {
  if (is_narrow(h->e, I)) return 1;
  double rows = (double)rows_of(I), size = (double)h->size,
         each = (double)numbers_of(I->r) * size * size;
  double most = fmax(ENOUGH_ROWS * size, MOST_PRODUCTS / each);
  return rows > most ? (size_t)ceil(rows / most) : 1;
}

static void add_rows(ExactHessian *h, const Integral *I, const double *phi) {
  size_t rows = rows_of(I), stride = stride_of(h, I);
  size_t used = (rows + stride - 1) / stride;
  memset(h->x, 0, h->e->q->dim * sizeof *h->x);
  memset(h->w, 0, h->e->q->dim * sizeof *h->w);
  for (size_t r = 0; r < rows; r += stride)
    add_row(h, I, phi, r, h->second + r * LAW_NUMBERS * LAW_NUMBERS, (double)rows / (double)used);
  if (is_shared(I->r)) {
    double G[LAW_NUMBERS * LAW_NUMBERS] = {0};
    for (int i = 0; i < 2; i++)
      for (int k = 0; k < 2; k++)
        G[(LAW_MEAN_2 + i) * LAW_NUMBERS + LAW_MEAN_2 + k] =
            0.5 * (h->shared[i][k] + h->shared[k][i]);
    add_row(h, I, phi, 0, G, 1);
  }
  flush(h);
}

/* ---- the family's own second derivatives ------------------------------------------------------
 */

/* d (a' law(phi) + lambda entropy(phi)) / d phi, a being e->laws.adj. */
static void slope_in_phi(ExactHessian *h, double *slope) {
  Exact *e = h->e;
  QLaws *l = &h->laws;
  size_t dim = e->laws.dim, n = l->dense ? dim * dim : dim;
  const NormalLaw *from = &e->laws.adj[0];
  NormalLaw *to = &l->adj[0];
  memset(slope, 0, h->size * sizeof *slope);
  q_laws_at(e->q, h->phi, l);
  memcpy(to->mean, from->mean, dim * sizeof *to->mean);
  memcpy(l->dense ? to->cov : to->var, l->dense ? from->cov : from->var, n * sizeof *to->mean);
  q_laws_adjoint(e->q, h->phi, l, slope);
  if (e->target.lambda != 0) q_entropy(e->q, h->phi, &e->draws, e->target.lambda, slope);
}

static void add_family(ExactHessian *h, const double *phi) {
  memcpy(h->phi, phi, h->size * sizeof *phi);
  q_reach(h->e->q, phi, h->reach);
  slope_in_phi(h, h->slope_at);
  for (size_t k = 0; k < h->size; k++) {
    double step = 1e-5 * h->reach[k];
    h->phi[k] = phi[k] + step;
    slope_in_phi(h, h->slope);
    h->phi[k] = phi[k];
    for (size_t i = 0; i < h->size; i++)
      h->sum[k * h->ld + i] += (h->slope[i] - h->slope_at[i]) / step;
  }
}

/* ---- given scales -----------------------------------------------------------------------------
 */

/* The gradient at h->phi of the terms given their scales. */
static void slope_given(ExactHessian *h, double *slope) {
  Exact *e = h->e;
  q_laws_at(e->q, h->phi, &e->laws);
  for (int k = 0; k < e->count; k++)
    if (e->integrals[k].given) tiles_integrate(&e->integrals[k], true);
  memset(slope, 0, h->size * sizeof *slope);
  q_laws_adjoint(e->q, h->phi, &e->laws, slope);
}

/* A number with no slope at all is not seen. */
static void add_given(ExactHessian *h, const double *phi) {
  bool any = false;
  for (int k = 0; k < h->e->count; k++) any = any || h->e->integrals[k].given;
  if (!any) return;
  memcpy(h->phi, phi, h->size * sizeof *phi);
  slope_given(h, h->slope_at);
  for (size_t k = 0; k < h->size; k++) {
    double step = 1e-5 * h->reach[k];
    if (h->slope_at[k] == 0) continue;
    h->phi[k] = phi[k] + step;
    slope_given(h, h->slope);
    h->phi[k] = phi[k];
    for (size_t i = 0; i < h->size; i++)
      h->sum[k * h->ld + i] += (h->slope[i] - h->slope_at[i]) / step;
  }
  q_laws_at(h->e->q, phi, &h->e->laws);
}

/* ---- all --------------------------------------------------------------------------------------
 */

long exact_hessian(Exact *e, const double *phi, double *H) {
  ExactHessian *h = e->hessian;
  int most = 0;
  memset(h->sum, 0, h->size * h->ld * sizeof *h->sum);
  q_laws_at(e->q, phi, &e->laws);
  size_t from = 0;
  for (int k = 0; k < e->count; from += rows_of(&e->integrals[k++]) * LAW_NUMBERS) {
    if (e->integrals[k].given) continue;
    e->integrals[k].row_laws = h->law + from;
    slopes_with(&e->integrals[k], -1, h->first + from);
    e->integrals[k].row_laws = NULL;
  }
  add_family(h, phi);
  add_given(h, phi);
  find_own(h, phi);
  from = 0;
  for (int k = 0; k < e->count; from += rows_of(&e->integrals[k++]) * LAW_NUMBERS) {
    Integral *I = &e->integrals[k];
    int n = I->given ? 0 : numbers_of(I->r);
    most = n > most ? n : most;
    if (!n) continue;
    row_hessians(
        h, I,
        &(RowLaw){h->law + from, h->first + from, {I->shared_slopes[0], I->shared_slopes[1]}});
    add_rows(h, I, phi);
  }
  for (size_t i = 0; i < h->size; i++)
    for (size_t k = 0; k <= i; k++)
      H[i * h->size + k] = H[k * h->size + i] =
          0.5 * (h->sum[i * h->ld + k] + h->sum[k * h->ld + i]);
  return all_finite(H, h->size * h->size) ? 1 + most : 0;
}
