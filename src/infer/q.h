/* q.h: q over all parameters: a family for those that have a distribution, a number for those
 * estimated as points.
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

/* is_point: dim flags, or NULL. The numbers of the shape that are 0 get their defaults, and
 * shape.dim is counted here; so q_make(a, q->family, q->shape, q->dim, its flags) makes the same Q
 * again. */
Q q_make(Arena *a, FamilyId family, Shape shape, size_t dim, const bool *is_point);
size_t q_size(const Q *q);  /* length of phi */
size_t q_noise(const Q *q); /* rows of noise */
QDraws q_draws(Arena *a, const Q *q, size_t M, size_t ld, const Kernels *k);

/* phi near independent normals with these means and sds, dim each. */
void q_start(const Q *q, double *phi, const double *mean, const double *sd);
/* Means and sds of all dim parameters; the sd of a point is 0. */
void q_moments(const Q *q, const double *phi, double *mean, double *sd);
void q_draw(const Q *q, const double *phi, QDraws *d, double *theta); /* sets the weights too */
void q_adjoint(const Q *q, const double *phi, QDraws *d, const double *adj_theta,
               const double *adj_w, double *grad);
/* Can draws be made and adjoints taken parameter by parameter, in any order? Then these are q_draw
 * and q_adjoint for one of them. */
bool q_by_rows(const Q *q);
void q_draw_row(const Q *q, const double *phi, const QDraws *d, size_t k, double *theta);
void q_adjoint_row(const Q *q, const double *phi, const QDraws *d, size_t k, const double *adj,
                   double *grad);
double q_entropy(const Q *q, const double *phi, QDraws *d, double weight, double *grad);
void q_log_q(const Q *q, const double *phi, QDraws *d, double *out);
/* log q at n points, theta[i dim + k]. Parameters estimated as points have no density: they are
 * left out, and it is the density of the others. nan where one of those is nan, else -inf where one
 * is infinite. */
void q_log_density(const Q *q, const double *phi, const double *theta, size_t n, double *out);
/* dim x dim, with zeros for points: by a formula for normal families, their mixtures and
 * independent splines, for flows from a fixed set of draws. The arena is for working memory. */
void q_covariance(Arena *a, const Q *q, const double *phi, double *cov);
/* The parameter whose distribution entry e of phi describes, given those of all others: changing
 * the entries of one parameter leaves the joint distribution of the others as it is. -1: it belongs
 * to several. Families of normals only; flows have no such entries. */
long q_owner(const Q *q, size_t e);
/* The entry of phi that is the logarithm of parameter k's own sd, given the others before it; -1:
 * there is none. */
long q_spread_entry(const Q *q, size_t k);
/* d: about the inverse of minus the objective's second derivative in every number of phi alone.
 * unit: sds of the dim parameters in the posterior; NULL: q's own are the best guess. */
void q_scale(const Q *q, const double *phi, const double *unit, double *d);
/* x becomes H0 x: H0 about the inverse of minus the Hessian of the objective, at phi or, where that
 * says more, at another q. room: q_room numbers. */
size_t q_room(const Q *q);
void q_precondition(const Q *q, const double *phi, const double *at, const double *unit,
                    double *room, double *x);
/* Where the objective would be highest if its density were quadratic (Family.leap). */
bool q_leaps(const Q *q);
bool q_leap(const Q *q, const double *phi, double lambda, const double *grad, double *room,
            double *to);
/* Parameter k stretched about its centre by a factor and then moved; a point is only moved. */
void q_stretch(const Q *q, double *phi, size_t k, double factor, double move);
/* How far one step of an optimizer may move every number of phi. */
void q_reach(const Q *q, const double *phi, double *d);

/* A normal q's components, over all dim parameters; those estimated as points have variance 0. */
typedef struct {
  size_t count, dim;
  bool dense;
  NormalLaw *law, *adj;   /* count each, of dim parameters */
  NormalLaw *part, *padj; /* the same of the free ones, where some are points; else law and adj */
} QLaws;
bool q_is_normal(const Q *q);
QLaws q_laws(Arena *a, const Q *q);
void q_laws_at(const Q *q, const double *phi, QLaws *l); /* sets law, clears adj */
/* grad += adj d law / d phi */
void q_laws_adjoint(const Q *q, const double *phi, QLaws *l, double *grad);
/* Has the family the derivatives of single numbers of its law (Family.pull)? x and w are of all dim
 * parameters; room: 2 dim numbers. */
bool q_pulls(const Q *q);
void q_pull(const Q *q, const double *phi, const double *x, const double *w, double *room,
            double *grad);

#endif
