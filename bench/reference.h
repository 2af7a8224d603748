/* reference.h: hand-written kernels that the engine is measured against.
 *
 * Each is the log score of one fixed model, sum_i log mean_j p(y_i | theta_j), with its derivative
 * in every draw: one loop over the observations, BLOCK of them at a time, draws in vectors, exp
 * inlined, nothing general. theta and adj are rows of ld draws; the padding (lanes M .. ld) is kept
 * out by a log density of -inf.
 */
#ifndef PVI_BENCH_REFERENCE_H
#define PVI_BENCH_REFERENCE_H

#include "num/vmath.h"

enum { BLOCK = 4, MOST_LANES = 1024, MOST_GATHERS = 5, MOST_COLUMNS = 5 };

/* The linear predictor: columns of X times theta[column ..), and theta[first[g] + index[g][i]] by
 * group, times coef where given.
 */
typedef struct {
  size_t n, M, ld;
  size_t column;
  const double *X; /* [n x columns] */
  const double *y;
  size_t first[MOST_GATHERS];
  const int32_t *index[MOST_GATHERS];
  const double *coef[MOST_GATHERS]; /* NULL: ones */
} Regression;

typedef struct {
  double z[BLOCK][MOST_LANES], l[BLOCK][MOST_LANES];
  double inv_sigma[MOST_LANES],
      shift[MOST_LANES]; /* per draw: 1 / sigma, and what is taken from every log density */
} Buffers;

#define EACH_ROW for (int r = 0; r < BLOCK; r++)
#define UNROLLED V_UNROLL

/* Rows i .. i + BLOCK of the predictor, at draws j .. j + VL. */
VFN void predict(const Regression *m, const double *theta, size_t i, size_t j, vd eta[BLOCK],
                 size_t columns, size_t gathers) {
  UNROLLED EACH_ROW eta[r] = v_splat(0);
  for (size_t k = 0; k < columns; k++) {
    vd b = v_load(theta + (m->column + k) * m->ld + j);
    UNROLLED EACH_ROW eta[r] = v_fma(v_splat(m->X[(i + (size_t)r) * columns + k]), b, eta[r]);
  }
  for (size_t g = 0; g < gathers; g++) {
    UNROLLED EACH_ROW {
      size_t at = i + (size_t)r;
      vd b = v_load(theta + (m->first[g] + (size_t)m->index[g][at]) * m->ld + j);
      eta[r] = m->coef[g] ? v_fma(v_splat(m->coef[g][at]), b, eta[r]) : eta[r] + b;
    }
  }
}

/* ... and the way back from its derivatives. */
VFN void pull(const Regression *m, double *adj, size_t i, size_t j, const vd d[BLOCK],
              size_t columns, size_t gathers) {
  for (size_t k = 0; k < columns; k++) {
    double *to = adj + (m->column + k) * m->ld + j;
    vd a = v_load(to);
    UNROLLED EACH_ROW a = v_fma(v_splat(m->X[(i + (size_t)r) * columns + k]), d[r], a);
    v_store(to, a);
  }
  for (size_t g = 0; g < gathers; g++) {
    UNROLLED EACH_ROW {
      size_t at = i + (size_t)r;
      double *to = adj + (m->first[g] + (size_t)m->index[g][at]) * m->ld + j;
      v_store(to, v_fma(v_splat(m->coef[g] ? m->coef[g][at] : 1), d[r], v_load(to)));
    }
  }
}

/* exp(l - max) over the draws, in place; returns log mean exp, and 1 / sum in *scale. */
VFN double normalise(double *l, vd top, size_t M, size_t ld, double *scale) {
  double peak = v_hmax(top);
  vd sum = v_splat(0), shift = v_splat(peak);
  for (size_t j = 0; j < ld; j += VL) {
    vd e = v_exp(v_load(l + j) - shift);
    sum += e;
    v_store(l + j, e);
  }
  double total = v_sum(sum);
  *scale = 1 / total;
  return peak + log(total / (double)M);
}

/* y_i ~ normal(eta_i, exp(theta[log_sigma])); n a multiple of BLOCK or the rest left to the same
 * code by the caller. */
VFN double normal_body(const Regression *m, const double *theta, size_t log_sigma, double *adj,
                       Buffers *s, size_t columns, size_t gathers) {
  double score = 0;
  for (size_t j = 0; j < m->ld; j++) {
    double l = theta[log_sigma * m->ld + j];
    s->inv_sigma[j] = j < m->M ? exp(-l) : 0;
    s->shift[j] = j < m->M ? l + 0.918938533204672742 : INFINITY;
  }
  for (size_t i = 0; i < m->n; i += BLOCK) {
    vd top[BLOCK], eta[BLOCK];
    UNROLLED EACH_ROW top[r] = v_splat(-INFINITY);
    for (size_t j = 0; j < m->ld; j += VL) {
      vd c = v_load(s->inv_sigma + j), shift = v_load(s->shift + j);
      predict(m, theta, i, j, eta, columns, gathers);
      UNROLLED EACH_ROW {
        vd z = (v_splat(m->y[i + (size_t)r]) - eta[r]) * c, l = v_splat(-0.5) * z * z - shift;
        v_store(s->z[r] + j, z);
        v_store(s->l[r] + j, l);
        top[r] = v_max(l, top[r]);
      }
    }
    double scale[BLOCK];
    EACH_ROW score += normalise(s->l[r], top[r], m->M, m->ld, &scale[r]);
    for (size_t j = 0; j < m->ld; j += VL) {
      vd c = v_load(s->inv_sigma + j), to_sigma = v_load(adj + log_sigma * m->ld + j);
      UNROLLED EACH_ROW { /* d l / d eta = z c, d l / d log sigma = z^2 - 1 */
        vd w = v_load(s->l[r] + j) * v_splat(scale[r]), z = v_load(s->z[r] + j), wz = w * z;
        to_sigma += v_fma(wz, z, -w);
        eta[r] = wz * c;
      }
      v_store(adj + log_sigma * m->ld + j, to_sigma);
      pull(m, adj, i, j, eta, columns, gathers);
    }
  }
  return score;
}

/* y_i ~ bernoulli_logit(eta_i), log densities as such: they are what a program that sums them
 * needs. */
VFN double logistic_body(const Regression *m, const double *theta, double *adj, Buffers *s,
                         size_t columns, size_t gathers) {
  double score = 0;
  for (size_t j = 0; j < m->ld; j++) s->shift[j] = j < m->M ? 0 : INFINITY;
  for (size_t i = 0; i < m->n; i += BLOCK) {
    vd top[BLOCK], eta[BLOCK];
    UNROLLED EACH_ROW top[r] = v_splat(-INFINITY);
    for (size_t j = 0; j < m->ld; j += VL) {
      vd shift = v_load(s->shift + j);
      predict(m, theta, i, j, eta, columns, gathers);
      UNROLLED EACH_ROW { /* l = -log(1 + exp(x)), d l / d eta = -+ inv_logit(x), x = -+ eta */
        vd d, x = m->y[i + (size_t)r] != 0 ? -eta[r] : eta[r];
        vd l = -v_log1p_exp_d(x, &d) - shift;
        v_store(s->z[r] + j, m->y[i + (size_t)r] != 0 ? d : -d);
        v_store(s->l[r] + j, l);
        top[r] = v_max(l, top[r]);
      }
    }
    double scale[BLOCK];
    EACH_ROW score += normalise(s->l[r], top[r], m->M, m->ld, &scale[r]);
    for (size_t j = 0; j < m->ld; j += VL) {
      UNROLLED EACH_ROW eta[r] = v_load(s->l[r] + j) * v_splat(scale[r]) * v_load(s->z[r] + j);
      pull(m, adj, i, j, eta, columns, gathers);
    }
  }
  return score;
}

/* n must be a multiple of BLOCK; theta and adj: [parameters x ld], adj is added to. */
static double earnings_reference(const Regression *m, const double *theta, double *adj,
                                 Buffers *s) {
  return normal_body(m, theta, 4, adj, s, 4, 0);
}
static double radon_reference(const Regression *m, const double *theta, double *adj, Buffers *s) {
  return normal_body(m, theta, m->first[1] * 2 + 4, adj, s, 0, 2);
}
static double election_reference(const Regression *m, const double *theta, double *adj,
                                 Buffers *s) {
  return logistic_body(m, theta, adj, s, 5, 5);
}

#endif
