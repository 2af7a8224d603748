/* model.h: Model, a program with its data: graphs of the prior and of every observation's log likelihood.
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
  Node node; /* parameters and transformed parameters: its elements, row-major; NO_NODE for generated quantities */
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
/* Likelihood-free: the observations are those of the data variable `observed`, simulated by the variable `simulate` of
 * generated quantities; densities of data count as nothing. The first dimension of both is the observations. */
Model *model_make_simulator(Ctx *c, const Program *p, const Data *d, const char *simulate, const char *observed);
bool model_has_densities(const Model *m);

/* A tape of the given observations (0-based numbers; NULL: all), with the prior and the Jacobian as roots 0 and 1. Its tiles'
 * heads are the log likelihood (HEAD_LL) and, where wanted and known, the parameters of the outcome (HEAD_PAR ...). obs, when
 * not NULL, receives the number of the observation of each row of the tape. */
enum { ROOT_PRIOR, ROOT_JACOBIAN, MODEL_ROOTS };
enum { HEAD_LL, HEAD_PAR, HEAD_SIM = HEAD_PAR + 3 };
typedef enum { WANT_LL = 1, WANT_PARAMETERS = 2, WANT_SIM = 4 } ModelWants;
Tape *model_tape(const Model *m, const size_t *rows, size_t nrows, int32_t *obs, unsigned wants);
/* Row of its block for each row of a tape over the same observations. */
void model_block_rows(const Model *m, const size_t *rows, size_t nrows, int32_t *block, int32_t *row);

const char *model_unconstrained_name(const Model *m, Arena *a, size_t k); /* theta[1,2], as tables print it */

/* Names and values of all output columns in CmdStan's order (dotted, column-major). */
typedef struct ModelOutputs ModelOutputs;
size_t model_output_count(const Model *m);
const char *model_output_name(const Model *m, Arena *a, size_t k, bool dotted);
bool model_output_is_parameter(const Model *m, size_t k);
/* theta: [dim x ld], a row per dimension; writes out[draw ncols + column]. Generated quantities are run draw by draw. */
void model_outputs(const Model *m, const double *theta, size_t ld, size_t ndraws, uint64_t seed, double *out);

#endif
