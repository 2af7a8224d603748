/* vspecial.h: special functions of a vector, lane by lane through the scalar ones of special.h. */
#ifndef PVI_NUM_VSPECIAL_H
#define PVI_NUM_VSPECIAL_H

#include <math.h>

#include "num/simd.h"
#include "num/special.h"

#define LIFT2(name, scalar)                                                                        \
  static inline vd name(vd a, vd b) {                                                              \
    vd r;                                                                                          \
    for (int i = 0; i < VL; i++) r[i] = scalar(a[i], b[i]);                                        \
    return r;                                                                                      \
  }

#define LIFT3(name, scalar)                                                                        \
  static inline vd name(vd a, vd b, vd c) {                                                        \
    vd r;                                                                                          \
    for (int i = 0; i < VL; i++) r[i] = scalar(a[i], b[i], c[i]);                                  \
    return r;                                                                                      \
  }

LIFT(v_tetragamma, num_tetragamma)
LIFT(v_inv_erfc, num_inv_erfc)
LIFT(v_inv_log_Phi, num_inv_log_Phi)
LIFT(v_lambert_w0, num_lambert_w0)
LIFT(v_lambert_wm1, num_lambert_wm1)
LIFT(v_log_bessel_i0, num_log_bessel_i0)
LIFT(v_bessel_ratio, num_bessel_ratio)

LIFT2(v_gamma_p, num_gamma_p)
LIFT2(v_gamma_q, num_gamma_q)
LIFT2(v_log_gamma_p, num_log_gamma_p)
LIFT2(v_log_gamma_q, num_log_gamma_q)
LIFT2(v_gamma_p_da, num_gamma_p_da)
LIFT2(v_gamma_p_dx, num_gamma_p_dx)
LIFT2(v_gamma_quantile, num_gamma_quantile)
LIFT2(v_gamma_dx_da, num_gamma_dx_da)
LIFT2(v_owens_t, num_owens_t)
LIFT2(v_log_bessel_i, num_log_bessel_i)
LIFT2(v_student_t_log_cdf, num_student_t_log_cdf)
LIFT2(v_log_passage, num_log_passage)
LIFT3(v_inc_beta, num_inc_beta)
LIFT3(v_inv_inc_beta, num_inv_inc_beta)
LIFT3(v_log_inc_beta, num_log_inc_beta)

LIFT3(v_student_t_log_diff, num_student_t_log_diff)

static inline void v_inc_beta_d(vd a, vd b, vd x, vd *da, vd *db, vd *dx) {
  for (int i = 0; i < VL; i++) {
    double d[3];
    num_inc_beta_d(a[i], b[i], x[i], &d[0], &d[1], &d[2]);
    (*da)[i] = d[0], (*db)[i] = d[1], (*dx)[i] = d[2];
  }
}

/* Derivatives of logarithms, of which r is the value. */
static inline void v_log_gamma_d(vd a, vd x, bool upper, vd r, vd *da, vd *dx) {
  for (int i = 0; i < VL; i++) {
    double d[2];
    num_log_gamma_d(a[i], x[i], upper, r[i], &d[0], &d[1]);
    (*da)[i] = d[0], (*dx)[i] = d[1];
  }
}

static inline void v_log_inc_beta_d(vd a, vd b, vd x, vd r, vd *da, vd *db, vd *dx) {
  for (int i = 0; i < VL; i++) {
    double d[3];
    num_log_inc_beta_d(a[i], b[i], x[i], r[i], d);
    (*da)[i] = d[0], (*db)[i] = d[1], (*dx)[i] = d[2];
  }
}

static inline void v_student_t_log_cdf_d(vd t, vd nu, vd r, vd *dt, vd *dnu) {
  for (int i = 0; i < VL; i++) {
    double d[2];
    num_student_t_log_cdf_d(t[i], nu[i], r[i], &d[0], &d[1]);
    (*dt)[i] = d[0], (*dnu)[i] = d[1];
  }
}

static inline void v_log_passage_d(vd t, vd w, vd *dt, vd *dw) {
  for (int i = 0; i < VL; i++) {
    double d[2];
    num_log_passage_d(t[i], w[i], &d[0], &d[1]);
    (*dt)[i] = d[0], (*dw)[i] = d[1];
  }
}

LIFT2(v_bessel_j, num_bessel_j)
LIFT2(v_bessel_y, num_bessel_y)
LIFT2(v_bessel_i, num_bessel_i)
LIFT2(v_bessel_k, num_bessel_k)

static inline void v_student_t_log_diff_d(vd a, vd b, vd nu, vd r, vd *da, vd *db, vd *dnu) {
  for (int i = 0; i < VL; i++) {
    double d[3];
    num_student_t_log_diff_d(a[i], b[i], nu[i], r[i], &d[0], &d[1], &d[2]);
    (*da)[i] = d[0], (*db)[i] = d[1], (*dnu)[i] = d[2];
  }
}

#endif
