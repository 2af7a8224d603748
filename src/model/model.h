/* model.h: Model, a program with its data: graphs of the prior and of every observation's log
 * likelihood.
 *
 * model_make binds the data, runs the program by partial evaluation and splits its log density:
 *     log density = prior (with the Jacobians of the constraints) + sum of observations.
 */
#ifndef PVI_MODEL_H
#define PVI_MODEL_H

#include "data/data.h"
#include "ir/ir.h"
#include "stan/stan.h"
#include "vm/vm.h"

/* A variable of the output: parameters, transformed parameters, generated quantities, in order. */
typedef struct {
  const char *name;
  BlockId block;
  TypeKind kind;
  int array_dims, ndims;
  const int32_t *dims;
  int32_t n;
  int32_t offset; /* parameters: first of its unconstrained numbers */
  int32_t unconstrained;
  Node node; /* parameters and transformed parameters: its elements, row-major; NO_NODE for
                generated quantities */
  const Decl *decl;
} Output;

/* A place of the program where observations are made. */
typedef struct {
  Node root; /* one element an observation */
  int32_t rows;
  const int32_t *obs; /* number of the observation, 0-based, of each row */
  Loc loc;
  const char *name; /* distribution, or "target" */
  /* what is observed, where the statement says so: scores beyond the log score need it */
  int dist; /* its distribution, a DistId, in canonical form; -1: unknown */
  int npar;
  int32_t width;       /* elements of par[0] per observation: categories, else 1 */
  Node par[3];         /* rows x width elements each */
  const double *y;     /* rows: the outcomes */
  const double *size;  /* rows: trials of a binomial, or NULL */
  Node sim;            /* rows x sim_width: simulated outcomes, or NO_NODE */
  int32_t sim_width;   /* elements of a simulated outcome */
  const double *sim_y; /* rows x sim_width: what was observed */
} ObsBlock;

typedef struct {
  Loc loc;
  BlockId block;
  long iterations;
  bool lifted;
  const char *why; /* not lifted: the reason */
} LoopInfo;

typedef struct Model {
  Ctx *ctx;
  const Program *program;
  const Data *data;
  Graph *graph;
  size_t dim; /* unconstrained parameters */
  size_t n_obs;
  Node prior;    /* without the Jacobian; one element */
  Node jacobian; /* one element */
  ObsBlock *blocks;
  int nblocks;
  Output *outputs;
  int noutputs;
  LoopInfo *loops;
  size_t nloops;
  void *evaluator; /* for generated quantities */
} Model;

Model *model_make(Ctx *c, const Program *p, const Data *d);
/* Likelihood-free: the observations are those of the data variable `observed`, simulated by the
 * variable `simulate` of generated quantities; densities of data count as nothing. The first
 * dimension of both is the observations. */
Model *model_make_simulator(Ctx *c, const Program *p, const Data *d, const char *simulate,
                            const char *observed);
bool model_has_densities(const Model *m);

/* A selection of observations as tapes have it: block by block, within a block in the order of the
 * selection. */
typedef struct {
  size_t n;
  size_t *first;      /* nblocks + 1: block b has the rows [first[b], first[b + 1]) */
  const int32_t *row; /* of its block, for each of them */
} ModelRows;
ModelRows model_rows(Arena *a, const Model *m, const size_t *rows,
                     size_t nrows); /* 0-based numbers; rows NULL: all */
/* The rows [from, to) of r, or as many of them as there are; it reads r's. */
ModelRows model_slice(Arena *a, const Model *m, const ModelRows *r, size_t from, size_t to);
/* One of each kind among rows that are the same: equal functions of theta, equal outcomes. count:
 * so many of them. */
ModelRows model_distinct(Arena *a, const Model *m, const ModelRows *r, unsigned wants,
                         double **count);
int32_t model_widest(const Model *m, const ModelRows *r,
                     unsigned wants); /* elements of the widest shared value that rows pick from */
/* The same rows, those of a block together that read the same parameters. */
ModelRows model_sorted(Arena *a, const Model *m, const ModelRows *r, unsigned wants,
                       size_t *from); /* from[k]: row k was it */
void model_numbers(const Model *m, const ModelRows *r,
                   int32_t *obs); /* number of the observation of each row */

/* A tape of these rows, with the prior and the Jacobian as roots 0 and 1. Its tiles' heads are the
 * log likelihood (HEAD_LL) and, where wanted and known, the parameters of the outcome (HEAD_PAR
 * ...). */
enum { ROOT_PRIOR, ROOT_JACOBIAN, MODEL_ROOTS };
enum { HEAD_LL, HEAD_PAR, HEAD_SIM = HEAD_PAR + 3 };
typedef enum { WANT_LL = 1, WANT_PARAMETERS = 2, WANT_SIM = 4 } ModelWants;
Tape *model_tape(Arena *a, const Model *m, const ModelRows *r, unsigned wants);

const char *model_unconstrained_name(const Model *m, Arena *a,
                                     size_t k); /* theta[1,2], as tables print it */

/* Names and values of all output columns in CmdStan's order (dotted, column-major). */
typedef struct ModelOutputs ModelOutputs;
size_t model_output_count(const Model *m);
const char *model_output_name(const Model *m, Arena *a, size_t k, bool dotted);
bool model_output_is_parameter(const Model *m, size_t k);
/* theta: [dim x ld], a row per dimension; writes out[draw ncols + column]. Generated quantities are
 * run draw by draw. */
void model_outputs(const Model *m, const double *theta, size_t ld, size_t ndraws, uint64_t seed,
                   double *out);

#endif
