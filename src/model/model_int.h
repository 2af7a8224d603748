/* model_int.h: the steps of making a Model, for this folder: model.c runs the program,
 * observations.c splits its log density, outputs.c lists what it prints. */
#ifndef PVI_MODEL_INT_H
#define PVI_MODEL_INT_H

#include "model/eval.h"

typedef struct {
  ObsBlock *blocks;
  int nblocks, cap;
  size_t n; /* observations */
  /* Equal for observations of one iteration of an outermost loop; those behind the last of them,
   * and all where there are none, are iterations of their own. */
  int32_t *iteration;
  size_t niteration, cap_iteration;
} Observations;

/* What a run has added to the log density: its observations. Increments that turn out to be none go
 * to E->prior. */
Observations observations_split(Eval *E);
/* Generated quantities as functions of parameters and noise: one block, of what was observed. */
Observations observations_simulated(Eval *E, const ModelOptions *o);

/* ---- units.c: coarser observations ----------------------------------------------------------- */

/* Those of the unit that is named, where several rows make one; the name becomes m->unit. The model
 * has its rows already; a name that cannot be ends with PVI_USAGE. */
void units_take(Eval *E, Model *m, const Data *data, const char *name, Observations *o);

typedef struct {
  Output *items;
  int count, cap;
} OutputList;
/* A further variable, the shape of v; o: what the shape does not tell. */
void outputs_add(Eval *E, OutputList *l, Output o, const Value *v);
Output outputs_of(const Decl *d, BlockId id); /* what is known before a variable has a value */
/* Variables declared at the top of a block, after it ran; generated quantities need not have. */
void outputs_of_block(Eval *E, OutputList *l, BlockId id);
void outputs_declared(Eval *E, OutputList *l, BlockId id); /* without having run: without nodes */

/* ---- tuples.c: variables item by item -------------------------------------------------------- */

/* What is done with an item: o has its name, declaration and path. */
typedef void TupleItem(Eval *E, Output o, Value *v, void *self);
/* Every item of v, in the order of columns; of a Value that is no tuple, itself. */
void tuple_each(Eval *E, Output o, Value *v, TupleItem *item, void *self);
Value *tuple_bind(Eval *E, const Data *data, const Decl *d); /* the value of a data variable */
/* The Value of an output in E's frame, and a new one for it; before items of tuples are set,
 * parameters and transformed parameters that are tuples need what their items are put into. */
Value *output_value(const Eval *E, const Output *o);
void output_set(Eval *E, const Output *o, Value *item);
void tuples_prepare(Eval *E);

/* Data and transformed data as they are when these blocks have run. */
const KnownVariable *outputs_known(Eval *E, int *count);

/* The evaluator as an interpreter of one point, with data and transformed data at hand; the caller
 * gives it the parameters. That its Values and its graph are in different arenas tells it what it
 * is (eval_is_draw). */
Eval model_interpreter(Arena *values, Arena *nodes, const Model *m);
/* A Value of one's own on the same numbers, which count as shared: to change an element is to copy
 * them first. */
Value *outputs_view(Arena *a, const Value *v);

/* ---- runs.c: what is evaluated draw by draw -------------------------------------------------- */

/* What a lane computes. `follow` runs it, in E whose draw has the lane's numbers as ir_input, and
 * returns a node of its outputs; NO_NODE: they are not wanted. It fails as programs fail. What a
 * course is made of must live as long as its Runs. */
typedef struct Course {
  const Program *program;
  const ModelOptions *options;
  int32_t inputs, outputs; /* of a lane */
  const double *failed;    /* outputs of a lane that cannot be evaluated */
  bool likelihood;         /* a density of data is in them */
  Node (*follow)(struct Course *self, Eval *E);
} Course;

typedef struct Runs Runs;
Runs *runs_make(Eval *E, Course *course);
Course *runs_course(const Runs *r);
/* Follows the course, which need not be that of r, with these inputs; false: it fails, and why. */
bool runs_try(Runs *r, Course *course, Arena *a, const double *inputs, Message *why);
/* inputs: rows x those of a lane; its elements: rows x outputs. */
Node runs_node(Runs *r, Graph *g, Node inputs, int32_t rows);

/* ---- run_program.c: the whole program -------------------------------------------------------- */

typedef struct {
  const KnownVariable *known;
  int nknown;
  const Output *parameters; /* offset: of its first element among the inputs */
  int nparameters;
  int32_t n; /* inputs: elements of all parameters, on the program's scale */
} RunInputs;
Runs *run_program(Eval *E, const ModelOptions *o, const RunInputs *in);
/* How many observations the program makes for these numbers; false: it fails, and why. */
bool run_program_count(Runs *r, Arena *a, const double *inputs, size_t *n_obs, Message *why);
/* Its outputs: prior, what is added to the Jacobian, observations, transformed parameters. */
Node run_program_node(Runs *r, Graph *g, Node inputs, size_t n_obs, int32_t transformed);
enum { RUN_PRIOR, RUN_JACOBIAN, RUN_OBSERVATIONS };

/* The sum of scalars, as a node. */
Node model_total(Eval *E, Value **terms, size_t n);

/* Runs a block; quiet: what it adds to the log density does not count. */
void model_run_block(Eval *E, BlockId id, bool quiet);

#endif
