/* model.h: Model, a program with its data: graphs of the prior and of every observation's log
 * likelihood.
 *
 * model_make binds the data, runs the program by partial evaluation and splits its log density:
 *     log density = prior + Jacobians of the constraints + sum of observations.
 *
 * A Model is frozen once it is made, and holds no Ctx: any number of threads may fit, evaluate and
 * print the same Model at a time, each with a Ctx of its own. Whatever is made of a Model lives in
 * the arena its maker gives, and fails into that arena's Ctx; the Model must outlive it.
 */
#ifndef PVI_MODEL_H
#define PVI_MODEL_H

#include "data/data.h"
#include "ir/ir.h"
#include "stan/stan.h"
#include "vm/vm.h"

/* A variable of the output, or an item of a tuple (tuples.c): parameters, transformed parameters,
 * generated quantities, in order. */
typedef struct {
  const char *name; /* of an item as CmdStan has it: p:1, p.2:1 */
  BlockId block;
  TypeKind kind;
  int array_dims, ndims;
  const int32_t *dims;
  int32_t n;
  int32_t offset; /* parameters: first of its unconstrained numbers */
  int32_t unconstrained;
  Node node;        /* parameters and transformed parameters: its elements, row-major; NO_NODE for
                       generated quantities */
  const Decl *decl; /* of an item: its own, with its constraint */
  const Decl *variable; /* what the program declares: decl, or the tuple that it is in */
  const int32_t *path;  /* places of the items that lead from the variable to it */
  int npath;
} Output;

/* A place of the program where observations are made. */
typedef struct {
  Node root; /* one element an observation; NO_NODE: their density is not known */
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

/* What became of a loop: its body was evaluated once for all iterations, or one by one. */
typedef struct {
  Loc loc;
  BlockId block;
  long iterations;
  bool lifted;
  const char *why; /* not lifted: the reason, a sentence about the loop ("it rejects") */
} LoopInfo;

/* A data or transformed data variable, for generated quantities to begin with (outputs.c). */
typedef struct {
  const Decl *decl;
  const struct Value *value;
} KnownVariable;

/* What could be one observation: a partition of those that the split finds. */
typedef struct {
  const char *name;  /* row, iteration, group:NAME: as the option `unit` has it */
  size_t count;      /* of units */
  const int32_t *of; /* the unit of every row; NULL: each is one */
} ModelUnit;

/* A function whose calls are evaluated draw by draw. */
typedef struct {
  const char *name;
  Loc loc; /* of a call */
  Loc where;
  const char *why;
} CallInfo;

typedef struct Model {
  const Program *program;
  const Graph *graph;
  size_t dim; /* unconstrained parameters */
  size_t n_obs;
  Node prior;    /* without the Jacobian; one element */
  Node jacobian; /* one element */
  const ObsBlock *blocks;
  int nblocks;
  const Output *outputs;
  int noutputs;
  const LoopInfo *loops;
  size_t nloops;
  const KnownVariable *known;
  int nknown;
  const char *by_draw; /* why the program is evaluated draw by draw; NULL: it is not */
  Loc by_draw_loc;
  const CallInfo *calls; /* the functions that are, where not all of the program is */
  size_t ncalls;
  bool
      guessed; /* no density of data says so, but increments that depend on data are observations */
  const char *unit;         /* what one observation is; NULL: a row */
  const int32_t *iteration; /* of the first niteration rows: equal within one of a loop */
  size_t niteration;
  bool joint; /* one observation carries all the data: the likelihood does not factorise */
  bool outcomes_missing; /* see ModelOptions: some outcomes are not what was observed */
} Model;

/* What the user asks of a program beyond what it says. */
typedef struct {
  /* Likelihood-free: the observations are those of the data variable `observed` (NULL: y),
   * simulated by the variable `simulate` of generated quantities; densities of data count as
   * nothing. The first dimension of both is the observations. simulate NULL: no. */
  const char *simulate, *observed;
  /* Lines of the program whose increments of the log density are observations, whatever they are
   * made of. A line that makes no increment is an error. */
  const long *observe;
  int nobserve;
  /* Statements for which the same holds, where they are reached. */
  const Stmt *const *guess;
  int nguess;
  /* What one observation is: a name of model_units; NULL: row. */
  const char *unit;
  /* For predictions: a data variable that is nothing but an outcome may be missing; it then has a
   * value that its declaration allows, and Model.outcomes_missing says so. */
  bool outcomes_may_be_missing;
  /* For simulated data: other values, row-major, of a variable of data or transformed data; NULL:
   * none. */
  const Decl *replaced;
  const double *values;
  /* Of the random numbers of transformed data; 0: those that every run of pvi has. */
  uint64_t seed;
  /* For tests: run every loop one by one; evaluate draw by draw. Results must be the same. */
  bool unroll, by_draw;
} ModelOptions;

/* o NULL: nothing is asked. The Model lives in c's arena; program and data must outlive it, as must
 * the data's values, but not the data's text (data_forget_text). */
Model *model_make(Ctx *c, const Program *p, const Data *d, const ModelOptions *o);
bool model_has_densities(const Model *m);
/* What one observation of this model, which has rows, could be: their names and counts, rows first.
 */
const ModelUnit *model_units(Ctx *c, const Model *m, const Data *data, int *count);
/* The values of known variable k, where there are n of them, row-major. */
bool model_known(const Model *m, int k, double *values, size_t n);
/* Known variable k where its first dimension is `rows`: [rows x each]. NULL: it is not. */
const double *model_known_rows(const Model *m, int k, size_t rows, size_t *each);

/* ---- rows.c: selections of observations ------------------------------------------------------ */

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
 * how many rows each of them stands for. */
ModelRows model_distinct(Arena *a, const Model *m, const ModelRows *r, unsigned wants,
                         double **count);
/* How many elements the widest shared value has of which rows pick one (alpha of alpha[county]). */
int32_t model_widest(Ctx *c, const Model *m, const ModelRows *r, unsigned wants);
/* The same rows, but within a block those that read the same parameters stand together. Row k of
 * the result was row from[k]. */
ModelRows model_sorted(Arena *a, const Model *m, const ModelRows *r, unsigned wants, size_t *from);
/* condense.c: for those who ask for nothing but the sum of the log densities: a model with fewer
 * rows that has the same sum, *rows becoming these and *count how many observations each stands
 * for; m itself where there is none. count NULL: one each. */
const Model *model_condense(Arena *a, const Model *m, ModelRows *rows, const double **count);
/* Number of the observation of each row. */
void model_numbers(const Model *m, const ModelRows *r, int32_t *obs);

/* A tape of these rows, with the prior and the Jacobian as roots 0 and 1. Its tiles' heads are the
 * log likelihood (HEAD_LL) and, where wanted and known, the parameters of the outcome (HEAD_PAR
 * ...). */
enum { ROOT_PRIOR, ROOT_JACOBIAN, MODEL_ROOTS };
enum { HEAD_LL, HEAD_PAR, HEAD_SIM = HEAD_PAR + 3 };
typedef enum { WANT_LL = 1, WANT_PARAMETERS = 2, WANT_SIM = 4 } ModelWants;
Tape *model_tape(Arena *a, const Model *m, const ModelRows *r, unsigned wants);

/* ---- outputs.c: names and values of parameters and of what is computed from them ------------- */

/* Points of the unconstrained space: element k of point i is theta[i by_point + k by_dim]. Point by
 * point: {theta, n, dim, 1}; as draws are kept, a row per dimension, ld apart: {theta, n, 1, ld}.
 */
typedef struct {
  const double *theta;
  size_t n, by_point, by_dim;
} ModelPoints;
/* Rows of draws, [dim x ld], of which so many lanes are in use. */
typedef struct {
  double *theta;
  size_t lanes, ld;
} ModelLanes;
/* The points from `first` on into the lanes; those that there are not repeat the first. How many
 * there are. */
size_t model_lanes(const Model *m, const ModelPoints *p, size_t first, ModelLanes to);

const char *model_unconstrained_name(const Model *m, Arena *a,
                                     size_t k); /* theta[1,2], as tables print it */

/* Names and values of all output columns in CmdStan's order (dotted, column-major). */
size_t model_output_count(const Model *m);
const char *model_output_name(const Model *m, Arena *a, size_t k, bool dotted);
bool model_output_is_parameter(const Model *m, size_t k);
bool model_output_is_computed(const Model *m, size_t k); /* no generated quantity */
/* Writes out[point ncols + column]. Generated quantities are run point by point, point i with the
 * random numbers of stream i of the seed. */
void model_outputs(Ctx *c, const Model *m, const ModelPoints *p, uint64_t seed, double *out);
/* The same for the outputs that are flagged: columns of others are left out, and where possible not
 * computed. wanted NULL: all. */
void model_some_outputs(Ctx *c, const Model *m, const ModelPoints *p, uint64_t seed,
                        const bool *wanted, double *out);
/* Does the program end with an error at this point, one that it gives itself (reject), say? why: in
 * c's memory. */
bool model_fails_at(Ctx *c, const Model *m, const double *theta, Message *why);
/* Columns have the first index fastest: the row-major place of column k of one variable. */
int32_t model_column_place(const Output *o, int32_t k);
/* The way back: theta, dim numbers, of the parameters' values in the order of their columns. Bounds
 * that depend on other parameters are evaluated with these values. Where a value is outside of its
 * constraint it stops with PVI_DATA, naming variable, index, value and bound; on a bound itself the
 * unconstrained number is infinite. Of the lengths that make one unit_vector, theta has one. */
void model_unconstrain(Ctx *c, const Model *m, const double *values, double *theta);

#endif
