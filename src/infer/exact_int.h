/* exact_int.h: what the files of exact integration share.
 *
 *   laws.c    the law of an affine function of theta under q: means, variances, covariances
 *   leaves.c  from laws to the coefficients of the leaves on quadrature nodes, and back
 *   tiles.c   the tape on these lanes: scores of its rows and what flows back from them
 *   given.c   the same where nodes are those of scales, on which all else is normal
 *   exact.c   when it applies, making it, one evaluation
 *   second_derivatives.c  the Hessian of the objective
 */
#ifndef PVI_EXACT_INT_H
#define PVI_EXACT_INT_H

#include "infer/exact.h"

#include "infer/predictive_int.h"

enum { NLEAVES = LEAF_LANE + 1 };

typedef struct Given Given;

/* What a row knows of q, its law: mean and variance of its first function, covariance of that with
 * its second, mean and variance of the second. */
enum { LAW_MEAN, LAW_VARIANCE, LAW_COVARIANCE, LAW_MEAN_2, LAW_VARIANCE_2, LAW_NUMBERS };

/* One block of observations, or one term of the prior, with a number of lanes of its own. */
typedef struct {
  Exact *e;
  const Reduced *r;
  bool prior;
  bool mean;    /* of observations whose density another one integrates: their mean log densities */
  int block;    /* of the model, for observations */
  size_t first; /* number of its first row among all */
  Kind kind;
  bool centred; /* its nodes are placed for every observation */
  bool wide;    /* its lanes are the normals of which a logistic one is a mixture */
  Work *work;
  size_t nodes, M, ld; /* nodes of one component of q; lanes: those of all components */
  double *node_weight, *log_node_weight, *x1, *x2;
  double *weights, *log_weights; /* of the lanes */
  size_t terms[NLEAVES];
  double *coef[NLEAVES], *adj[NLEAVES];
  double *hint;           /* rows x 2: ends of the interval at the last evaluation */
  Given *given;           /* FORM_GIVEN: instead of leaves; else NULL */
  double *centre, *width; /* rows x components: where centred nodes are */
  double *adj_w;          /* [chunks x ld], several components only */
  Pool *pool;             /* NULL: not worth it */
  /* For second derivatives: the number of every row's law that is moved by law_step (-1: none), and
   * where the derivatives in the laws of the rows go, LAW_NUMBERS each (NULL: nowhere), with those
   * in the law of a second function that all rows share. */
  int moved;
  double *row_slopes, shared_slopes[2];
  double *row_laws; /* where the laws of the rows go, likewise */
} Integral;

typedef struct ExactHessian ExactHessian;

struct Exact {
  const Observed *o;
  Target target;
  const Q *q;
  ScoreFunction *score;
  const Kernels *k;
  Pool *pool;
  int workers;
  Integral *integrals;
  int count;
  QLaws laws;
  QLaws *group; /* adjoints of groups of rows, summed in order */
  QDraws draws; /* for the entropy of mixtures */
  double posterior;
  double *row_score, *row_mean, *row_prior;
  size_t nprior;
  double prior_constant;
  double *scratch, *lane_row; /* per worker */
  size_t scratch_size, lane_size;
  bool *unsettled; /* per worker */
  double *gradient;
  size_t most_lanes;
  Stages *stages;        /* NULL: nobody asks */
  VmTimes *times;        /* per worker */
  ExactHessian *hessian; /* NULL: nobody asks */
  double *rule[2];       /* nodes and weights on a line, and on a side of a plane */
};

bool integral_is_mean(const Integral *I); /* of log densities, not of densities */

/* ---- laws.c ---------------------------------------------------------------------------------- */

enum { ROW_BLOCK = 128 }; /* rows that are done together, at most */

/* Rows [row, row + n) of an affine function, n <= ROW_BLOCK, under one normal component. */
typedef struct {
  const NormalLaw *law;
  size_t dim; /* parameters */
  size_t row, n;
  const Kernels *k;
} LawRows;

/* Of n rows each; the arrays of variances and covariances have room for ROW_BLOCK numbers. */
void laws_means(const Affine *f, const LawRows *at, double *mean);
void laws_variances(const Affine *f, const LawRows *at, double *var);
void laws_covariances(const Affine *f, const Affine *h, const LawRows *at, double *cov);
/* Their adjoints: adj += sum over the rows of g d / d law. */
void laws_means_adjoint(const Affine *f, const LawRows *at, const double *g, NormalLaw *adj);
void laws_variances_adjoint(const Affine *f, const LawRows *at, const double *g, NormalLaw *adj);
void laws_covariances_adjoint(const Affine *f, const Affine *h, const LawRows *at, const double *g,
                              NormalLaw *adj);

/* x += coefficients of row `row` of f, of all parameters. */
void laws_coefs(const Affine *f, size_t row, double *x);

/* ---- leaves.c -------------------------------------------------------------------------------- */

size_t leaves_side(ReducedForm form, size_t nodes); /* nodes per dimension of its rule */
size_t leaves_normals(size_t nodes);      /* lanes of wide integrals in place of so many nodes */
void leaves_nodes(Arena *a, Integral *I); /* nodes and weights of one component */
void leaves_make(Arena *a, Integral *I);  /* the leaves of the tape, once its work is there */
size_t leaves_groups(size_t rows);        /* groups whose adjoints are summed apart */
void leaves_set(Integral *I);             /* coefficients and weights, from the laws */
void leaves_fold(Integral *I);            /* adjoints of both, to those of the laws */
/* How far one number of a row's law is moved to see how its derivatives change. */
double leaves_step(const double *law, int which);

/* ---- given.c --------------------------------------------------------------------------------- */

const Condition *given_of(const Reduced *r, const QLaws *laws); /* NULL: it does not apply */
size_t given_lanes(const Condition *c, size_t nodes);           /* points of its grid */
void given_nodes(Arena *a, Integral *I);
void given_make(Arena *a, Integral *I);
void given_set(Integral *I);
void given_fold(Integral *I);

/* ---- tiles.c --------------------------------------------------------------------------------- */

void tiles_integrate(Integral *I,
                     bool back); /* scores of all rows; back: and adjoints of the laws */

#endif
