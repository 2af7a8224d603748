/* special.h: special functions of one double, for densities, distribution functions and their
 * partial derivatives.
 *
 * Names and argument orders are Stan's, behind num_. Relative accuracy is a few ulp for the
 * elementary ones and about 1e-14 for the incomplete gamma and beta functions. Out-of-domain
 * arguments give nan, poles give infinities; nothing sets errno.
 */
#ifndef PVI_NUM_SPECIAL_H
#define PVI_NUM_SPECIAL_H

#include <stdbool.h>
#include <stddef.h>

/* ---- on the log scale (special.c) ------------------------------------------------------------ */
double num_log1p_exp(double x);                    /* log(1 + e^x) */
double num_log1m_exp(double x);                    /* log(1 - e^x), x <= 0 */
double num_log_diff_exp(double a, double b);       /* log(e^a - e^b), a >= b */
double num_log_sum_exp(const double *x, size_t n); /* log(sum e^x); -inf when n = 0 */
double num_inv_logit(double x);                    /* 1/(1 + e^-x) */
double num_logit(double p);                        /* log(p/(1-p)) */
double num_log_inv_logit(double x);                /* log inv_logit(x) */
double num_log1m_inv_logit(double x);              /* log(1 - inv_logit(x)) */
double num_log_inv_logit_diff(double x, double y); /* log(inv_logit(x) - inv_logit(y)), x >= y */

/* ---- normal distribution (special.c) --------------------------------------------------------- */
double num_Phi(double x);
double num_log_Phi(double x);         /* accurate in both tails */
double num_log_Phi_d(double x);       /* its derivative phi(x)/Phi(x) */
double num_inv_Phi(double p);         /* the quantile, to the last digits */
double num_inv_log_Phi(double log_p); /* the quantile at exp(log_p), also where that underflows
                                         (Stan: std_normal_log_qf) */
double num_inv_erfc(double x);
double num_owens_t(double h, double a);

/* ---- gamma family (special.c) ---------------------------------------------------------------- */
double num_lgamma(double x);   /* log |Gamma(x)| */
double num_lgamma1p(double x); /* lgamma(1 + x), accurate for small x */
double num_digamma(double x);
double num_trigamma(double x);
double num_tetragamma(double x); /* its derivative */
double num_stirling(double x);   /* lgamma(x) - ((x - 1/2) log x - x + log(2 pi)/2), x > 0 */
double num_lbeta(double a, double b);
double num_lchoose(double n, double k);
double num_lmgamma(int k, double x); /* multivariate: k(k-1)/4 log pi + sum_j lgamma(x + (1-j)/2) */
double num_lambert_w0(double x);
double num_lambert_wm1(double x);

/* ---- incomplete gamma: P(a, x) = 1 - Q(a, x), the distribution function of gamma(a, 1)
 * (incomplete.c)  */
double num_gamma_p(double a, double x);
double num_gamma_q(double a, double x);
double num_log_gamma_p(double a, double x);
double num_log_gamma_q(double a, double x);
double num_gamma_p_da(double a, double x); /* dP/da; dQ/da is minus this */
double num_gamma_p_dx(double a, double x); /* dP/dx, the density */
/* The partials of log P or, upper, of log Q, whose value is given: where P itself is too small for
 * a number, too. */
void num_log_gamma_d(double a, double x, bool upper, double log_value, double *da, double *dx);
double num_gamma_dx_da(double a, double x); /* the implicit derivative of a gamma(a, 1) draw:
                                               -(dP/da)/(dP/dx), free of underflow */
double num_gamma_quantile(double a, double p);

/* ---- incomplete beta: I_x(a, b), the distribution function of beta(a, b) (incomplete.c) ------ */
double num_inc_beta(double a, double b, double x);
double num_log_inc_beta(double a, double b, double x);   /* log I */
double num_log1m_inc_beta(double a, double b, double x); /* log(1 - I) */
void num_inc_beta_d(double a, double b, double x, double *da, double *db,
                    double *dx); /* the partials of I */
void num_log_inc_beta_d(double a, double b, double x, double log_value,
                        double *d);                    /* those of log I, whose value is given */
double num_inv_inc_beta(double a, double b, double p); /* x with I_x(a, b) = p */
void num_beta_dx_dab(double a, double b, double x, double *da,
                     double *db); /* implicit derivatives of a beta(a, b) draw */

/* Student's t with nu degrees of freedom, location 0, scale 1. */
double num_student_t_cdf(double t, double nu);
double num_student_t_log_cdf(double t, double nu);
void num_student_t_cdf_d(double t, double nu, double *dt, double *dnu);
void num_student_t_log_cdf_d(double t, double nu, double log_value, double *dt, double *dnu);
/* log(F(a) - F(b)), a > b; r: its value */
double num_student_t_log_diff(double a, double b, double nu);
void num_student_t_log_diff_d(double a, double b, double nu, double r, double *da, double *db,
                              double *dnu);

/* ---- Bessel functions (bessel.c) of whole order n; nan for orders above a million that are
 * neither 0 nor infinite --- */
double num_bessel_j(double n, double x);      /* J_n(x) */
double num_bessel_y(double n, double x);      /* Y_n(x) */
double num_log_bessel_i0(double x);           /* log I_0(x) */
double num_log_bessel_i1(double x);           /* log I_1(x), x > 0 */
double num_bessel_ratio(double x);            /* I_1(x)/I_0(x) = d log I_0(x) / dx */
double num_log_bessel_i(double nu, double x); /* log I_nu(x), nu >= 0, x > 0 */
double num_bessel_i(double n, double x);      /* I_n(x) */
double num_bessel_k(double n, double x);      /* K_n(x), x > 0 */

/* ---- log density of a first passage time t of a Wiener process, from w to 0 before 1 (wiener.c)
 */
double num_log_passage(double t, double w);
double num_log_passage_d(double t, double w, double *dt, double *dw); /* with its partials */

#endif
