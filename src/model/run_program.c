/* run_program.c: the whole program behind its parameters, draw by draw (runs.c).
 *
 * The inputs are the parameters on the program's scale, the outputs the prior, what the program
 * adds to the Jacobian, the log likelihood of every observation, and the transformed parameters. A
 * draw on which it fails or rejects has no density. One with more or fewer observations than usual
 * has the usual number, each with an equal part of the sum.
 */
#include "model/model_int.h"

#include <math.h>

enum { FIRST_OBS = RUN_OBSERVATIONS };

typedef struct {
  Course course;
  RunInputs in;
  size_t n_obs; /* of every draw; while they are counted, of this one */
  bool counting;
} Whole;

static void set_variables(Eval *E, const RunInputs *in) {
  for (int k = 0; k < in->nknown; k++)
    E->frame[in->known[k].decl->slot] =
        (Var){outputs_view(E->arena, in->known[k].value), in->known[k].decl, NULL, NULL};
  tuples_prepare(E);
  for (int k = 0; k < in->nparameters; k++) {
    const Output *o = &in->parameters[k];
    Value *shape = value_shape(E, o->kind, o->array_dims, o->ndims, o->dims);
    Value *v = o->n ? value_of_node(E, shape, NULL, ir_input(E->graph, o->offset, o->n))
                    : value_known(E, shape, NULL);
    output_set(E, o, v);
  }
}

/* Where other draws have no observations at all, they are part of the prior. */
static void add_to_prior(Eval *E, Value *v) {
  PUSH(E->arena, E->prior, E->nprior, E->cap_prior, v);
}

/* The observations of a draw as outputs; of an unusual number of them, equal parts of the sum. */
static void pick_observations(Eval *E, size_t usual, const Observations *o, Pick *picks) {
  for (int b = 0; b < o->nblocks && o->n == usual; b++)
    for (int32_t k = 0; k < o->blocks[b].rows; k++)
      picks[o->blocks[b].obs[k]] = (Pick){o->blocks[b].root, k};
  if (o->n == usual) return;
  Value *sum = value_real(E, 0);
  for (int b = 0; b < o->nblocks; b++) {
    Value *all = value_of_node(E, value_shape(E, TY_VECTOR, 0, 1, &o->blocks[b].rows), NULL,
                               o->blocks[b].root);
    sum = map2(E, IR_ADD, sum, value_sum(E, all));
  }
  if (!usual) {
    add_to_prior(E, sum);
    return;
  }
  Node each = value_node(E, map2(E, IR_DIV, sum, value_real(E, (double)usual)));
  for (size_t k = 0; k < usual; k++) picks[k] = (Pick){each, 0};
}

static int32_t pick_transformed(Eval *E, Pick *picks) {
  OutputList list = {.count = 0};
  int32_t n = 0;
  outputs_of_block(E, &list, BLOCK_TRANSFORMED_PARAMETERS);
  for (int k = 0; k < list.count; k++)
    for (int32_t e = 0; e < list.items[k].n; e++, n++)
      if (picks) picks[n] = (Pick){list.items[k].node, e};
  return n;
}

static Node follow(Course *self, Eval *E) {
  Whole *r = (Whole *)self;
  set_variables(E, &r->in);
  model_run_block(E, BLOCK_TRANSFORMED_PARAMETERS, false);
  model_run_block(E, BLOCK_MODEL, false);
  Observations o = observations_split(E);
  if (r->counting) {
    r->n_obs = o.n;
    return NO_NODE;
  }
  Pick *picks = NEW_ARRAY(E->arena, Pick, self->outputs);
  pick_observations(E, r->n_obs, &o, picks + FIRST_OBS);
  picks[RUN_PRIOR] = (Pick){model_total(E, E->prior, E->nprior), 0};
  picks[RUN_JACOBIAN] = (Pick){model_total(E, E->jacobian, E->njacobian), 0};
  pick_transformed(E, picks + FIRST_OBS + r->n_obs);
  return ir_pack(E->graph, picks, self->outputs);
}

static const ModelOptions *copy_options(Arena *a, const ModelOptions *o) {
  ModelOptions *own = NEW(a, ModelOptions);
  long *lines = NEW_ARRAY(a, long, o->nobserve + 1);
  for (int k = 0; k < o->nobserve; k++) lines[k] = o->observe[k];
  *own = *o;
  own->observe = lines;
  return own;
}

Runs *run_program(Eval *E, const ModelOptions *o, const RunInputs *in) {
  Whole *r = NEW(E->arena, Whole);
  *r = (Whole){.course = {.program = E->program,
                          .options = copy_options(E->arena, o),
                          .inputs = in->n,
                          .likelihood = true,
                          .follow = follow},
               .in = *in};
  return runs_make(E, &r->course);
}

bool run_program_count(Runs *runs, Arena *a, const double *inputs, size_t *n_obs, Message *why) {
  Whole counting = *(const Whole *)runs_course(runs);
  counting.counting = true;
  if (!runs_try(runs, &counting.course, a, inputs, why)) return false;
  *n_obs = counting.n_obs;
  return true;
}

Node run_program_node(Runs *runs, Graph *g, Node inputs, size_t n_obs, int32_t transformed) {
  Whole *r = (Whole *)runs_course(runs);
  int32_t first = FIRST_OBS + (int32_t)n_obs, n = first + transformed;
  double *none = NEW_ARRAY(g->arena, double, n);
  for (int32_t k = 0; k < n; k++) none[k] = k < first ? -INFINITY : NAN;
  none[RUN_JACOBIAN] = 0;
  r->n_obs = n_obs;
  r->course.outputs = n;
  r->course.failed = none;
  return runs_node(runs, g, inputs, 1);
}
