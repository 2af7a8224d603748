/* q.h: q over all parameters: a family for those that have a distribution, a number for those estimated as points.
 *
 * phi holds the family's parameters, then one number per point-estimated parameter.
 */
#ifndef PVI_Q_H
#define PVI_Q_H

#include "family/family.h"

typedef struct {
  FamilyId family;
  Shape shape;         /* shape.dim: parameters with a distribution */
  size_t dim;          /* all unconstrained parameters */
  const size_t *free;  /* shape.dim of them; NULL: all */
  const size_t *point; /* npoint of them */
  size_t npoint;
} Q;

/* Noise and working memory for M draws of q. */
typedef struct {
  Noise noise;
  double *u;       /* what noise.u points to */
  double *compact; /* [shape.dim x ld]: draws of the family when some parameters are points */
  double *weights; /* M; NULL: equal */
} QDraws;

Q q_make(Arena *a, FamilyId family, Shape shape, size_t dim, const bool *is_point); /* is_point: dim flags, or NULL */
size_t q_size(const Q *q);                                                          /* length of phi */
size_t q_noise(const Q *q);                                                         /* rows of noise */
QDraws q_draws(Arena *a, const Q *q, size_t M, size_t ld, const Kernels *k);

void q_start(const Q *q, double *phi, const double *mean, const double *sd); /* mean, sd: dim each */
void q_moments(const Q *q, const double *phi, double *mean, double *sd);     /* of all dim; sd 0 for points */
void q_draw(const Q *q, const double *phi, QDraws *d, double *theta);        /* sets the weights too */
void q_adjoint(const Q *q, const double *phi, QDraws *d, const double *adj_theta, const double *adj_w, double *grad);
double q_entropy(const Q *q, const double *phi, QDraws *d, double weight, double *grad);
void q_log_q(const Q *q, const double *phi, QDraws *d, double *out);
bool q_has_scale(const Q *q);
void q_scale(const Q *q, const double *phi, double *d);

#endif
