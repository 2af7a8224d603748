/* q.c: the family's functions, around the point-estimated parameters. */
#include "infer/q.h"

#include <math.h>
#include <string.h>

Q q_make(Arena *a, FamilyId family, Shape shape, size_t dim, const bool *is_point) {
  Q q = {.family = family, .dim = dim};
  size_t n = 0, *free = NEW_ARRAY(a, size_t, dim), *point = NEW_ARRAY(a, size_t, dim);
  for (size_t k = 0; k < dim; k++) {
    if (is_point && is_point[k]) {
      point[q.npoint++] = k;
    } else {
      free[n++] = k;
    }
  }
  if (q.npoint) q.free = free;
  q.point = point;
  shape.dim = n;
  q.shape = family_shape(family, shape);
  return q;
}

size_t q_size(const Q *q) { return family_of(q->family)->size(&q->shape) + q->npoint; }
size_t q_noise(const Q *q) { return family_of(q->family)->noise(&q->shape); }

QDraws q_draws(Arena *a, const Q *q, size_t M, size_t ld, const Kernels *k) {
  const Family *f = family_of(q->family);
  QDraws d = {.u = NEW_ARRAY(a, double, f->noise(&q->shape) * ld)};
  d.noise = (Noise){.shape = &q->shape, .M = M, .ld = ld, .u = d.u, .k = k};
  if (f->scratch) d.noise.scratch = NEW_ARRAY(a, double, f->scratch(&q->shape, ld));
  if (q->free) d.compact = NEW_ARRAY(a, double, q->shape.dim *ld);
  if (f->weights) d.weights = NEW_ARRAY(a, double, ld);
  return d;
}

static size_t point_at(const Q *q) { return family_of(q->family)->size(&q->shape); }
static size_t free_at(const Q *q, size_t k) { return q->free ? q->free[k] : k; }

void q_start(const Q *q, double *phi, const double *mean, const double *sd) {
  double m[q->shape.dim + 1], s[q->shape.dim + 1];
  for (size_t k = 0; k < q->shape.dim; k++) {
    m[k] = mean[free_at(q, k)];
    s[k] = sd[free_at(q, k)];
  }
  family_of(q->family)->start(phi, &q->shape, m, s);
  for (size_t k = 0; k < q->npoint; k++) phi[point_at(q) + k] = mean[q->point[k]];
}

void q_moments(const Q *q, const double *phi, double *mean, double *sd) {
  double m[q->shape.dim + 1], s[q->shape.dim + 1];
  family_of(q->family)->moments(phi, &q->shape, m, s);
  for (size_t k = 0; k < q->shape.dim; k++) {
    mean[free_at(q, k)] = m[k];
    sd[free_at(q, k)] = s[k];
  }
  for (size_t k = 0; k < q->npoint; k++) {
    mean[q->point[k]] = phi[point_at(q) + k];
    sd[q->point[k]] = 0;
  }
}

bool q_by_rows(const Q *q) { return family_of(q->family)->draw_row && !q->free; }

void q_draw(const Q *q, const double *phi, QDraws *d, double *theta) {
  const Family *f = family_of(q->family);
  size_t ld = d->noise.ld;
  f->draw(phi, &d->noise, q->free ? d->compact : theta);
  if (d->weights) f->weights(phi, &d->noise, d->weights);
  if (!q->free) return;
  for (size_t k = 0; k < q->shape.dim; k++)
    memcpy(theta + q->free[k] * ld, d->compact + k * ld, ld * sizeof *theta);
  for (size_t k = 0; k < q->npoint; k++)
    for (size_t j = 0; j < ld; j++) theta[q->point[k] * ld + j] = phi[point_at(q) + k];
}

void q_adjoint(const Q *q, const double *phi, QDraws *d, const double *adj_theta,
               const double *adj_w, double *grad) {
  size_t ld = d->noise.ld;
  const double *adj = adj_theta;
  if (q->free) {
    for (size_t k = 0; k < q->shape.dim; k++)
      memcpy(d->compact + k * ld, adj_theta + q->free[k] * ld, ld * sizeof *grad);
    adj = d->compact;
  }
  family_of(q->family)->adjoint(phi, &d->noise, adj, adj_w, grad);
  for (size_t k = 0; k < q->npoint; k++)
    grad[point_at(q) + k] += d->noise.k->sum(adj_theta + q->point[k] * ld, d->noise.M);
}

void q_draw_row(const Q *q, const double *phi, const QDraws *d, size_t k, double *theta) {
  family_of(q->family)->draw_row(phi, &d->noise, k, theta);
}

void q_adjoint_row(const Q *q, const double *phi, const QDraws *d, size_t k, const double *adj,
                   double *grad) {
  family_of(q->family)->adjoint_row(phi, &d->noise, k, adj, grad);
}

double q_entropy(const Q *q, const double *phi, QDraws *d, double weight, double *grad) {
  return family_of(q->family)->entropy(phi, &d->noise, weight, grad);
}

void q_log_q(const Q *q, const double *phi, QDraws *d, double *out) {
  family_of(q->family)->log_q(phi, &d->noise, out);
}

/* nan if one of the numbers is nan, else -inf if one is infinite, else l. */
static double density_there(const Q *q, const double *theta, double l) {
  for (size_t k = 0; k < q->shape.dim; k++)
    if (isnan(theta[free_at(q, k)])) return NAN;
  for (size_t k = 0; k < q->shape.dim; k++)
    if (isinf(theta[free_at(q, k)])) return -INFINITY;
  return l;
}

/* Without the points' numbers, in blocks of as many rows as the stack has room for. */
static void density_of_free(const Q *q, const double *phi, const double *theta, size_t n,
                            double *out) {
  enum { ROOM = 8192 };
  size_t dim = q->shape.dim, most = dim < ROOM ? ROOM / (dim + 1) : 1;
  double block[most * dim + 1];
  for (size_t from = 0; from < n; from += most) {
    size_t count = n - from < most ? n - from : most;
    for (size_t i = 0; i < count; i++)
      for (size_t k = 0; k < dim; k++) block[i * dim + k] = theta[(from + i) * q->dim + q->free[k]];
    family_log_density(q->family, phi, &q->shape, block, count, out + from);
  }
}

void q_log_density(const Q *q, const double *phi, const double *theta, size_t n, double *out) {
  if (q->free) {
    density_of_free(q, phi, theta, n, out);
  } else {
    family_log_density(q->family, phi, &q->shape, theta, n, out);
  }
  for (size_t i = 0; i < n; i++) out[i] = density_there(q, theta + i * q->dim, out[i]);
}

void q_scale(const Q *q, const double *phi, const double *unit, double *d) {
  double free_unit[q->shape.dim + 1];
  for (size_t k = 0; unit && k < q->shape.dim; k++) free_unit[k] = unit[free_at(q, k)];
  family_of(q->family)->scale(phi, &q->shape, unit ? free_unit : NULL, d);
  for (size_t k = 0; k < q->npoint; k++) {
    double sd = unit ? unit[q->point[k]] : 1;
    d[point_at(q) + k] = sd * sd;
  }
}

size_t q_room(const Q *q) {
  const Family *f = family_of(q->family);
  return q_size(q) + (f->precondition || f->leap ? family_square_room(&q->shape) : 0);
}

void q_precondition(const Q *q, const double *phi, const double *at, const double *unit,
                    double *room, double *x) {
  const Family *f = family_of(q->family);
  q_scale(q, phi, unit, room);
  size_t from = f->precondition ? f->precondition(phi, at, &q->shape, room + q_size(q), x) : 0;
  for (size_t i = from; i < q_size(q); i++) x[i] *= room[i];
}

bool q_leaps(const Q *q) { return family_of(q->family)->leap && !q->npoint; }

bool q_leap(const Q *q, const double *phi, double lambda, const double *grad, double *room,
            double *to) {
  return family_of(q->family)->leap(phi, &q->shape, lambda, grad, room, to);
}

void q_stretch(const Q *q, double *phi, size_t k, double factor, double move) {
  for (size_t i = 0; i < q->shape.dim; i++)
    if (free_at(q, i) == k) family_of(q->family)->stretch(phi, &q->shape, i, factor, move);
  for (size_t i = 0; i < q->npoint; i++)
    if (q->point[i] == k) phi[point_at(q) + i] += move;
}

void q_reach(const Q *q, const double *phi, double *d) {
  family_of(q->family)->reach(phi, &q->shape, d);
  for (size_t k = point_at(q); k < q_size(q); k++) d[k] = family_reach_at(phi[k], 0);
}

/* ---- the components of a normal q ------------------------------------------------------------ */

bool q_is_normal(const Q *q) { return family_of(q->family)->normals != NULL; }

static NormalLaw *new_laws(Arena *a, size_t count, size_t dim, bool dense) {
  NormalLaw *l = NEW_ARRAY(a, NormalLaw, count);
  for (size_t c = 0; c < count; c++) {
    l[c].mean = NEW_ARRAY(a, double, dim);
    *(dense ? &l[c].cov : &l[c].var) = NEW_ARRAY(a, double, dense ? dim *dim : dim);
  }
  return l;
}

QLaws q_laws(Arena *a, const Q *q) {
  const Family *f = family_of(q->family);
  QLaws l = {.count = f->normals(&q->shape), .dim = q->dim, .dense = f->dense};
  l.law = l.part = new_laws(a, l.count, q->dim, l.dense);
  l.adj = l.padj = new_laws(a, l.count, q->dim, l.dense);
  if (!q->free) return l;
  l.part = new_laws(a, l.count, q->shape.dim, l.dense);
  l.padj = new_laws(a, l.count, q->shape.dim, l.dense);
  return l;
}

/* Copies numbers of the free parameters between a vector or matrix over them and one over all. */
static void spread(const Q *q, bool dense, double *all, double *part, bool back) {
  size_t n = q->shape.dim;
  for (size_t i = 0; i < (dense ? n * n : n); i++) {
    size_t at = dense ? q->free[i / n] * q->dim + q->free[i % n] : q->free[i];
    if (back) {
      part[i] = all[at];
    } else {
      all[at] = part[i];
    }
  }
}

void q_laws_at(const Q *q, const double *phi, QLaws *l) {
  size_t spreads = l->dense ? q->dim * q->dim : q->dim;
  family_of(q->family)->laws(phi, &q->shape, l->part);
  for (size_t c = 0; c < l->count; c++) {
    NormalLaw *law = &l->law[c], *adj = &l->adj[c], *part = &l->part[c];
    adj->weight = 0;
    memset(adj->mean, 0, q->dim * sizeof *adj->mean);
    memset(l->dense ? adj->cov : adj->var, 0, spreads * sizeof *adj->mean);
    if (!q->free) continue;
    law->weight = part->weight;
    spread(q, false, law->mean, part->mean, false);
    spread(q, l->dense, l->dense ? law->cov : law->var, l->dense ? part->cov : part->var, false);
    for (size_t k = 0; k < q->npoint; k++) law->mean[q->point[k]] = phi[point_at(q) + k];
  }
}

void q_laws_adjoint(const Q *q, const double *phi, QLaws *l, double *grad) {
  for (size_t c = 0; c < l->count && q->free; c++) {
    NormalLaw *adj = &l->adj[c], *part = &l->padj[c];
    part->weight = adj->weight;
    spread(q, false, adj->mean, part->mean, true);
    spread(q, l->dense, l->dense ? adj->cov : adj->var, l->dense ? part->cov : part->var, true);
    for (size_t k = 0; k < q->npoint; k++) grad[point_at(q) + k] += adj->mean[q->point[k]];
  }
  family_of(q->family)->laws_adjoint(phi, &q->shape, l->part, l->padj, grad);
}

bool q_pulls(const Q *q) { return family_of(q->family)->pull != NULL; }

void q_pull(const Q *q, const double *phi, const double *x, const double *w, double *room,
            double *grad) {
  const Family *f = family_of(q->family);
  double *part = room, *other = room + q->dim;
  if (!q->free) {
    f->pull(phi, &q->shape, x, w, grad);
    return;
  }
  for (size_t k = 0; k < q->shape.dim; k++) part[k] = x[q->free[k]];
  for (size_t k = 0; w && k < q->shape.dim; k++) other[k] = w[q->free[k]];
  f->pull(phi, &q->shape, part, w ? other : NULL, grad);
  for (size_t k = 0; !w && k < q->npoint; k++) grad[point_at(q) + k] += x[q->point[k]];
}

/* ---- covariance ------------------------------------------------------------------------------ */

/* sum_c w_c (cov_c + (m_c - m)(m_c - m)'), m = sum_c w_c m_c */
static void normal_covariance(Arena *a, const Q *q, const double *phi, double *cov) {
  size_t dim = q->dim;
  QLaws l = q_laws(a, q);
  double *mean = NEW_ARRAY(a, double, dim);
  q_laws_at(q, phi, &l);
  for (size_t c = 0; c < l.count; c++)
    for (size_t k = 0; k < dim; k++) mean[k] += l.law[c].weight * l.law[c].mean[k];
  for (size_t i = 0; i < dim; i++)
    for (size_t k = 0; k < dim; k++) {
      double sum = 0;
      for (size_t c = 0; c < l.count; c++) {
        const NormalLaw *n = &l.law[c];
        double within = n->cov ? n->cov[i * dim + k] : i == k ? n->var[i] : 0;
        sum += n->weight * (within + (n->mean[i] - mean[i]) * (n->mean[k] - mean[k]));
      }
      cov[i * dim + k] = sum;
    }
  for (size_t p = 0; p < q->npoint; p++) /* where weights sum to one, but for rounding */
    for (size_t k = 0; k < dim; k++) cov[q->point[p] * dim + k] = cov[k * dim + q->point[p]] = 0;
}

void q_covariance(Arena *a, const Q *q, const double *phi, double *cov) {
  size_t n = q->shape.dim;
  ArenaMark mark = arena_mark(a);
  if (q_is_normal(q)) {
    normal_covariance(a, q, phi, cov);
  } else {
    double *part = NEW_ARRAY(a, double, n *n);
    family_covariance(q->family, phi, &q->shape, part);
    memset(cov, 0, q->dim * q->dim * sizeof *cov);
    for (size_t i = 0; i < n * n; i++)
      cov[free_at(q, i / n) * q->dim + free_at(q, i % n)] = part[i];
  }
  arena_reset(a, mark);
}

/* ---- which parameter an entry belongs to ----------------------------------------------------- */

/* Row i of a lower triangle that is kept row by row: the entries i (i + 1) / 2 and following. */
static size_t triangle_row(size_t entry) {
  size_t row = 0;
  while ((row + 1) * (row + 2) / 2 <= entry) row++;
  return row;
}

/* Among the shape.dim parameters of the family, by the shape of the slice: one row or one column
 * per parameter, or the rows of a triangle. */
static long owner_in_part(const Q *q, const FamilyPart *p, size_t at) {
  size_t d = q->shape.dim;
  if (p->rows == d) return (long)(at / p->cols);
  if (p->cols == d) return (long)(at % d);
  if (q->family == FAMILY_fullrank && p->rows * p->cols == d * (d + 1) / 2)
    return (long)triangle_row(at);
  return -1;
}

long q_owner(const Q *q, size_t e) {
  size_t points = q_size(q) - q->npoint;
  if (e >= points) return (long)q->point[e - points];
  if (!q_is_normal(q)) return -1;
  FamilyPart parts[FAMILY_PARTS];
  int n = family_of(q->family)->parts(&q->shape, parts);
  for (int k = 0; k < n; k++) {
    if (e < parts[k].offset || e >= parts[k].offset + parts[k].rows * parts[k].cols) continue;
    long own = owner_in_part(q, &parts[k], e - parts[k].offset);
    return own >= 0 && q->free ? (long)q->free[own] : own;
  }
  return -1;
}

long q_spread_entry(const Q *q, size_t k) {
  FamilyPart parts[FAMILY_PARTS];
  size_t d = q->shape.dim, at = 0;
  while (at < d && free_at(q, at) != k) at++;
  if (at == d || !q_is_normal(q)) return -1;
  int n = family_of(q->family)->parts(&q->shape, parts);
  for (int p = 1; p < n; p++) {
    if (q->family == FAMILY_fullrank) return (long)(parts[p].offset + at * (at + 3) / 2);
    if (parts[p].rows == d && parts[p].cols == 1) return (long)(parts[p].offset + at);
  }
  return -1;
}
