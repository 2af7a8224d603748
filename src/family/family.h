/* family.h: q_phi(theta) as theta = T_phi(u): phi a flat vector of numbers, u base noise that is
 * given from outside.
 *
 * Arrays over draws are rows: element (k, j) of theta, u and their adjoints is at [k ld + j], k a
 * dimension, j a draw.
 */
#ifndef PVI_FAMILY_H
#define PVI_FAMILY_H

#include "base/base.h"
#include "vm/kernels.h"

/* The size of a family's member: the dimension, and what the user may set. Zeros are replaced by
 * family_shape where the family has such a number, and mean nothing elsewhere. */
typedef struct {
  size_t dim;
  size_t components, rank, knots, layers, hidden; /* shape_fields says what they are */
} Shape;

/* What the user may set of a Shape, by name. */
typedef struct {
  const char *name, *about;
  size_t offset; /* in a Shape */
} ShapeField;
enum { SHAPE_FIELDS = 5 };
extern const ShapeField shape_fields[SHAPE_FIELDS];
size_t *shape_number(Shape *s, int field);

typedef struct {
  const Shape *shape;
  size_t M, ld;
  const double *u; /* [noise(shape) x ld] standard normal */
  const Kernels *k;
  double *scratch; /* scratch(shape, ld) numbers */
} Noise;

/* A slice of phi under a name, as q.json holds it: rows x cols numbers, row-major. */
typedef struct {
  const char *name;
  size_t offset, rows, cols;
} FamilyPart;
enum { FAMILY_PARTS = 8 };

/* One normal component of q: weight, mean, and covariance: diagonal (`var`), or dense (`cov`, dim x
 * dim, row-major). The same struct holds derivatives: cov then as if all entries were free. */
typedef struct {
  double weight, *mean, *var, *cov;
} NormalLaw;

typedef struct Family {
  size_t (*size)(const Shape *s);               /* length of phi */
  size_t (*noise)(const Shape *s);              /* rows of u */
  size_t (*scratch)(const Shape *s, size_t ld); /* numbers of working memory; NULL: none */
  /* phi near the independent normals with these means and standard deviations */
  void (*start)(double *phi, const Shape *s, const double *mean, const double *sd);
  /* q with parameter k stretched by a factor about its mean, or where that has no formula about its
   * location, and then moved */
  void (*stretch)(double *phi, const Shape *s, size_t k, double factor, double move);
  /* mean and sd of every parameter under q, exact or from a fixed set of draws */
  void (*moments)(const double *phi, const Shape *s, double *mean, double *sd);
  /* theta = T_phi(u), all ld draws */
  void (*draw)(const double *phi, const Noise *n, double *theta);
  /* Draws with weights of their own: w[j], j < M, summing to one. NULL: 1 / M each. */
  void (*weights)(const double *phi, const Noise *n, double *w);
  /* grad += sum over the M draws of adj_theta d theta / d phi (+ adj_w[j] d w[j] / d phi where
   * draws have weights) */
  void (*adjoint)(const double *phi, const Noise *n, const double *adj_theta, const double *adj_w,
                  double *grad);
  /* Families in which every parameter has its own row of u: draw and adjoint of parameter k alone,
   * adj being its row. NULL: parameters share rows. */
  void (*draw_row)(const double *phi, const Noise *n, size_t k, double *theta);
  void (*adjoint_row)(const double *phi, const Noise *n, size_t k, const double *adj, double *grad);
  /* entropy of q, exact or by the draws; grad += weight d entropy / d phi */
  double (*entropy)(const double *phi, const Noise *n, double weight, double *grad);
  /* log q(T_phi(u)) of every draw */
  void (*log_q)(const double *phi, const Noise *n, double *out);
  /* log q at n given points, theta[i dim + k]; NULL: by the inverse */
  void (*log_density)(const double *phi, const Shape *s, const double *theta, size_t n,
                      double *out);
  /* grad += sum_j c[j] d log q(theta_j) / d phi at fixed theta_j = T_phi(u_j): for estimators by
   * score functions. NULL: none */
  void (*score_function)(const double *phi, const Noise *n, const double *c, double *grad);
  /* d: about the inverse of minus the Hessian of the objective at phi, per number: q's variance for
   * a mean, as in an ELBO. Predictive scores can make q narrower than any posterior, a point at
   * last; then it is what a tenth of the posterior's sds says, which are `unit` (NULL: unknown) */
  void (*scale)(const double *phi, const Shape *s, const double *unit, double *d);
  /* The same with all correlations, of the first numbers of phi: x becomes H0 x, and how many they
   * are is returned. H0 is what it is at `at`, which is phi itself or a q that knows the posterior
   * better. room: family_square_room numbers. NULL: there is no better one than scale */
  size_t (*precondition)(const double *phi, const double *at, const Shape *s, double *room,
                         double *x);
  /* Where an expectation under q plus lambda times its entropy, whose gradient at phi is grad, is
   * highest if what is expected is quadratic, or part of the way there; false: the gradient does
   * not tell. NULL: it never does */
  bool (*leap)(const double *phi, const Shape *s, double lambda, const double *grad, double *room,
               double *to);
  /* d: how far one step of an optimizer may move every number of phi, in good faith: a location by
   * some multiples of what it is, a logarithm by REACH_LOG */
  void (*reach)(const double *phi, const Shape *s, double *d);
  /* the slices of phi; returns how many */
  int (*parts)(const Shape *s, FamilyPart *out);
  /* u with T_phi(u) = theta, and log |det dT/du| there: log q(theta) = log N(u) - log_det. NULL: u
   * has more rows than theta, or T is not one map. */
  void (*inverse)(const double *phi, const Shape *s, const double *theta, double *u,
                  double *log_det);
  bool independent; /* under q the parameters are independent of each other */
  /* The normal family whose phi comes first in phi: with what follows as `start` has it, q is that
   * normal. NULL: there is none */
  const struct Family *affine;
  /* Normal families: the number of components (NULL: the family is not normal) and whether their
   * covariances are dense; the components at phi; and grad += the adjoints of those, in phi. */
  size_t (*normals)(const Shape *s);
  bool dense;
  void (*laws)(const double *phi, const Shape *s, NormalLaw *out);
  void (*laws_adjoint)(const double *phi, const Shape *s, const NormalLaw *law,
                       const NormalLaw *adj, double *grad);
  /* One component, and few operations: grad += d (x' covariance w) / d phi, or d (x' mean) / d phi
   * where w is NULL. NULL: there is no such way. */
  void (*pull)(const double *phi, const Shape *s, const double *x, const double *w, double *grad);
} Family;

typedef enum {
#define FAMILY(id, ...) FAMILY_##id,
#include "family/families.def"
#undef FAMILY
  FAMILY_COUNT,
} FamilyId;

const Family *family_of(FamilyId id);
size_t family_square_room(const Shape *s); /* of a matrix over the parameters, its rows padded */
const char *family_name(FamilyId id);
bool family_find(const char *name, FamilyId *id);
/* The default of a number of the shape ("knots") in many dimensions: in few, the rank is at most
 * the dimension, and a flow in one dimension has as many knots as a spline. 0: the family has no
 * such number. */
size_t family_default(FamilyId id, const char *field);
/* The shape with defaults in the place of zeros. A complete shape stays as it is. */
Shape family_shape(FamilyId id, Shape wanted);
/* log q at n given points, theta[i dim + k]. */
void family_log_density(FamilyId id, const double *phi, const Shape *s, const double *theta,
                        size_t n, double *out);
/* Covariance of a family that is not normal, dim x dim: exact where its parameters are independent,
 * else from the same fixed set of draws as its moments. */
void family_covariance(FamilyId id, const double *phi, const Shape *s, double *cov);

/* phi of the mixture of these components: `components` weights, and means and sds, dim each. */
void family_mixture_of(double *phi, const Shape *s, const double *weight, const double *mean,
                       const double *sd);

#define FAMILY(id, ...) extern const Family family_##id;
#include "family/families.def"
#undef FAMILY

/* A number x of phi that stands for a log sd is kept in [-LOG_SD_LIMIT, LOG_SD_LIMIT]: below, a
 * parameter is a point; above, nothing is known of it. Whatever a family computes from x it
 * computes from family_log_sd(x), the entropy like the draws, so that all agree on which q it is.
 * Beyond the limits nothing depends on x any more, and the derivatives are zero. */
#define LOG_SD_LIMIT 50.0
double family_log_sd(double x);
double family_sd(double x);           /* exp(family_log_sd(x)) */
double family_log_sd_slope(double x); /* d family_log_sd / dx: 1, or 0 beyond the limits */
double family_sd_slope(double x);     /* d family_sd / dx */

/* Family.reach of logarithms and of numbers without a unit, and of a location x whose sd is s: an
 * order of magnitude an iteration takes it anywhere in a few of them. */
#define REACH_LOG 3.0
double family_reach_at(double x, double s);

#endif
