/* family.h: q_phi(theta) as theta = T_phi(u): phi a flat vector of numbers, u base noise that is given from outside.
 *
 * Arrays over draws are rows: element (k, j) of theta, u and their adjoints is at [k ld + j], k a dimension, j a draw.
 */
#ifndef PVI_FAMILY_H
#define PVI_FAMILY_H

#include "base/base.h"
#include "vm/kernels.h"

typedef struct {
  size_t dim, M, ld;
  const double *u; /* [noise(dim) x ld] standard normal */
  const Kernels *k;
} Noise;

typedef struct Family {
  size_t (*size)(size_t dim);  /* length of phi */
  size_t (*noise)(size_t dim); /* rows of u */
  /* phi of the independent normals with these means and standard deviations */
  void (*start)(double *phi, size_t dim, const double *mean, const double *sd);
  void (*moments)(const double *phi, size_t dim, double *mean, double *sd);
  /* theta = T_phi(u), all ld draws */
  void (*draw)(const double *phi, const Noise *n, double *theta);
  /* grad += sum over the M draws of adj_theta d theta / d phi */
  void (*adjoint)(const double *phi, const Noise *n, const double *adj_theta, double *grad);
  /* entropy of q; grad += weight d entropy / d phi */
  double (*entropy)(const double *phi, const Noise *n, double weight, double *grad);
  /* log q(T_phi(u)) of every draw */
  void (*log_q)(const double *phi, const Noise *n, double *out);
  /* d: about the inverse of minus the Hessian of an ELBO at phi, per entry: how far a step may go */
  void (*scale)(const double *phi, size_t dim, double *d);
} Family;

typedef enum {
#define FAMILY(id, name, about) FAMILY_##id,
#include "family/families.def"
#undef FAMILY
  FAMILY_COUNT,
} FamilyId;

const Family *family_of(FamilyId id);
const char *family_name(FamilyId id);
const char *family_about(FamilyId id);

#define FAMILY(id, name, about) extern const Family family_##id;
#include "family/families.def"
#undef FAMILY

/* log sds are kept in [-LOG_SD_LIMIT, LOG_SD_LIMIT]: beyond it a parameter is a point, or nothing is known of it. */
#define LOG_SD_LIMIT 25.0
double family_sd(double log_sd); /* exp, with the limits */

#endif
