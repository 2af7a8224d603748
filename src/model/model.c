/* model.c: a program and its data become a Model: bind the data, run the blocks, gather what they
 * added to the log density (observations.c) and what they compute (outputs.c). */
#include "model/complex.h"
#include "model/model_int.h"

#include <math.h>
#include <string.h>

/* ---- data ------------------------------------------------------------------------------------ */

static bool is_size_of_data(const Program *p, const Decl *size) {
  const Stmt *block = p->blocks[BLOCK_DATA];
  for (int k = 0; k < block->nbody; k++)
    for (int j = 0; j < block->body[k]->ndecls; j++) {
      const Decl *d = block->body[k]->decls[j];
      if (d->nsizes && d->sizes[0]->kind == EX_VAR && d->sizes[0]->decl == size) return true;
    }
  return false;
}

static Value *bound(Eval *E, const Expr *e) { return e ? eval_expr(E, e) : NULL; }

/* Values for an outcome that is not there: ones, or what its bounds allow in their place. */
static const double *stand_in(Eval *E, const Decl *d, const Value *shape) {
  Value *lo = bound(E, d->con.args[0]), *hi = bound(E, d->con.args[1]);
  double *v = NEW_ARRAY(E->arena, double, shape->n + 1);
  for (int32_t k = 0; k < shape->n; k++) {
    v[k] = 1;
    if (lo) v[k] = fmax(v[k], lo->v[lo->n == 1 ? 0 : k]);
    if (hi) v[k] = fmin(v[k], hi->v[hi->n == 1 ? 0 : k]);
  }
  return v;
}

static const double *values_of(Eval *E, const Data *data, const Decl *d, const Value *shape) {
  long dims[MAX_DIMS];
  for (int k = 0; k < shape->ndims; k++) dims[k] = shape->dims[k];
  if (d->type->kind == TY_INT && shape->ndims == 0 && data_rows(data) >= 0 &&
      !data_find(data, d->name) && is_size_of_data(E->program, d)) {
    /* a table's number of rows is the size its columns are declared with */
    double *rows = NEW(E->arena, double);
    *rows = (double)data_rows(data);
    return rows;
  }
  int ndims = shape->ndims - complex_kind(shape->kind); /* as declared */
  return data_bind(E->ctx, data, d, ndims, dims);
}

static void bind_data(Eval *E, const Data *data, const ModelOptions *o, bool *missing) {
  const Stmt *block = E->program->blocks[BLOCK_DATA];
  for (int k = 0; block && k < block->nbody; k++)
    for (int j = 0; j < block->body[k]->ndecls; j++) {
      const Decl *d = block->body[k]->decls[j];
      if (d->type->kind == TY_TUPLE) {
        E->frame[d->slot] = (Var){tuple_bind(E, data, d), d, NULL, NULL};
        continue;
      }
      Value shape;
      eval_dims(E, d, &shape);
      bool absent = o->outcomes_may_be_missing && !data_find(data, d->name) &&
                    stan_is_only_outcome(E->program, d) && d->con.kind <= CON_bounds;
      *missing |= absent;
      const double *v = absent ? stand_in(E, d, &shape) : values_of(E, data, d, &shape);
      if (!v) ctx_jump(E->ctx, PVI_DATA);
      Value *x = value_like(E, &shape);
      x->known = x->shared = true;
      x->v = (double *)v; /* it is shared, so nobody changes it */
      constrain_check(E, d, x, "the data");
      E->frame[d->slot] = (Var){x, d, NULL, NULL};
      if (E->ctx->nerrors) ctx_jump(E->ctx, PVI_DATA);
    }
}

/* ---- blocks ---------------------------------------------------------------------------------- */

void model_run_block(Eval *E, BlockId id, bool quiet) {
  E->quiet = quiet;
  size_t first = E->nloops;
  eval_block(E, E->program->blocks[id]);
  for (size_t k = first; k < E->nloops; k++) E->loops[k].block = id;
}

/* Random numbers of transformed data: one stream, the same in every run unless a seed is given. */
static void run_transformed_data(Eval *E, uint64_t seed) {
  RngStream rng = rngs_make(seed ? seed : 1, 0);
  E->rng = &rng;
  E->prints = true;
  model_run_block(E, BLOCK_TRANSFORMED_DATA, true);
  E->prints = false;
  E->rng = NULL;
}

static void replace_values(Eval *E, const ModelOptions *o) {
  Var *var = &E->frame[o->replaced->slot];
  Value *v = value_known(E, var->value, NULL);
  for (int32_t k = 0; k < v->n; k++) v->v[k] = o->values[k];
  var->value = v;
}

typedef struct {
  OutputList *outputs;
  int32_t at; /* in theta */
} Parameters;

static void make_parameter(Eval *E, Output o, Value *v, void *self) {
  Parameters *p = self;
  o.offset = p->at;
  v = constrain(E, o.decl, &p->at);
  if (p->at > MOST_PARAMETERS)
    ctx_fail(E->ctx, PVI_DATA, o.decl->loc, "with %s there are more than %d parameters", o.name,
             MOST_PARAMETERS);
  output_set(E, &o, v);
  o.unconstrained = p->at - o.offset;
  if (v->n) o.node = value_node(E, v);
  outputs_add(E, p->outputs, o, v);
}

/* The parameters as functions of theta; returns how many numbers theta has. */
static size_t make_parameters(Eval *E, OutputList *outputs) {
  const Stmt *block = E->program->blocks[BLOCK_PARAMETERS];
  Parameters p = {outputs, 0};
  Value none = {.kind = TY_REAL};
  E->quiet = false;
  tuples_prepare(E);
  for (int k = 0; block && k < block->nbody; k++)
    for (int j = 0; j < block->body[k]->ndecls; j++) {
      const Decl *d = block->body[k]->decls[j];
      Value *v = d->type->kind == TY_TUPLE ? E->frame[d->slot].value : &none;
      tuple_each(E, outputs_of(d, BLOCK_PARAMETERS), v, make_parameter, &p);
    }
  return (size_t)p.at;
}

/* ---- making ---------------------------------------------------------------------------------- */

static Eval evaluator(Ctx *c, const Program *p, const ModelOptions *o) {
  return (Eval){.ctx = c,
                .arena = &c->arena,
                .graph = ir_graph(c),
                .program = p,
                .frame = NEW_ARRAY(&c->arena, Var, p->nslots + 1),
                .loop = -1,
                .iteration = -1,
                .unroll = o->unroll,
                .shared = NEW(&c->arena, EvalNotes),
                .observe = o->observe,
                .nobserve = o->nobserve,
                .guess = o->guess,
                .nguess = o->nguess,
                .observe_found = NEW_ARRAY(&c->arena, bool, o->nobserve + 1)};
}

static void check_observed(const Eval *E) {
  for (int k = 0; k < E->nobserve; k++)
    if (!E->observe_found[k])
      ctx_fail(E->ctx, PVI_USAGE, NOWHERE,
               OPTION("observe") " %ld: no increment of the log density is made on that line",
               E->observe[k]);
}

Node model_total(Eval *E, Value **terms, size_t n) {
  int32_t count = (int32_t)n;
  if (!n) return ir_number(E->graph, 0);
  return value_node(
      E, value_sum(E, value_join(E, terms, count, value_shape(E, TY_VECTOR, 0, 1, &count))));
}

/* One observation, and it is not one number: a Gaussian process, a chain of hidden states. */
static bool is_joint(const Eval *E, const Observations *o) {
  if (o->n != 1 || o->blocks[0].dist >= 0 || o->blocks[0].root == NO_NODE) return false;
  const Stmt *block = E->program->blocks[BLOCK_DATA];
  for (int k = 0; block && k < block->nbody; k++)
    for (int j = 0; j < block->body[k]->ndecls; j++)
      if (E->frame[block->body[k]->decls[j]->slot].value->n > 1) return true;
  return false;
}

/* A Model in the making. */
typedef struct {
  Eval E;
  Model *m;
  const ModelOptions *o;
  OutputList outputs;
  Observations obs;
  Calls calls;
} Making;

/* Draws that the program rejects have density zero, as prior and as predictions. */
static void reject_draws(Making *w) {
  Graph *g = w->E.graph;
  Node none = ir_number(g, -INFINITY), rejected = model_total(&w->E, w->E.rejected, w->E.nrejected);
  w->m->prior = ir_map(g, IR_SELECT, (Node[]){rejected, none, w->m->prior});
  for (int b = 0; b < w->obs.nblocks; b++) {
    ObsBlock *o = &w->obs.blocks[b];
    o->root = ir_map(g, IR_SELECT, (Node[]){rejected, none, o->root});
  }
}

/* The blocks behind the parameters, for all draws at once. */
static void run_for_all(Making *w) {
  Eval *E = &w->E;
  model_run_block(E, BLOCK_TRANSFORMED_PARAMETERS, false);
  outputs_of_block(E, &w->outputs, BLOCK_TRANSFORMED_PARAMETERS);
  model_run_block(E, BLOCK_MODEL, false);
  check_observed(E);
  w->obs = observations_split(E);
  w->m->prior = model_total(E, E->prior, E->nprior);
  w->m->jacobian = model_total(E, E->jacobian, E->njacobian);
  if (E->nrejected) reject_draws(w);
}

/* ---- draw by draw ---------------------------------------------------------------------------- */

/* All parameters on the program's scale, one after the other. */
static Node join_parameters(Making *w, RunInputs *in) {
  Output *list = NEW_ARRAY(w->E.arena, Output, w->outputs.count + 1);
  Value **parts = NEW_ARRAY(w->E.arena, Value *, w->outputs.count + 1);
  for (int k = 0; k < w->outputs.count; k++) {
    list[k] = w->outputs.items[k];
    list[k].offset = in->n;
    in->n += list[k].n;
    parts[k] = output_value(&w->E, &list[k]);
  }
  in->parameters = list;
  in->nparameters = w->outputs.count;
  return value_node(&w->E, value_join(&w->E, parts, in->nparameters,
                                      value_shape(&w->E, TY_VECTOR, 0, 1, &in->n)));
}

/* How many observations there are: the most of some points where the program can be evaluated, the
 * first of which is zero, the others are at random. */
static size_t count_observations(Making *w, Runs *r, Node inputs) {
  enum { TRIES = 50, ENOUGH = 5 };
  Arena *a = w->E.arena;
  double *theta = NEW_ARRAY(a, double, w->m->dim + 1);
  RngStream rng = rngs_make(1, 1);
  Message why = {.text = "it cannot be evaluated"};
  size_t n, most = 0;
  int found = 0;
  for (int k = 0; k < TRIES && found < ENOUGH; k++) {
    Draw d = {.arena = a, .inputs = theta};
    if (run_program_count(r, a, draw_numbers(&d, w->E.graph, inputs), &n, &why)) {
      found++;
      most = n > most ? n : most;
    }
    for (size_t i = 0; i < w->m->dim; i++) theta[i] = 4 * rngs_uniform(&rng) - 2;
  }
  if (found) return most;
  ctx_fail(w->E.ctx, PVI_PROGRAM, why.loc, "%s", why.text);
}

static Node part_of_run(Making *w, Node run, int32_t from, int32_t n) {
  int32_t *index = NEW_ARRAY(w->E.arena, int32_t, n + 1);
  for (int32_t k = 0; k < n; k++) index[k] = from + k;
  return n ? ir_gather(w->E.graph, run, index, n) : NO_NODE;
}

/* Transformed parameters as outputs; their nodes come later. */
static int32_t declare_transformed(Making *w) {
  int first = w->outputs.count;
  int32_t n = 0;
  outputs_declared(&w->E, &w->outputs, BLOCK_TRANSFORMED_PARAMETERS);
  for (int k = first; k < w->outputs.count; k++) n += w->outputs.items[k].n;
  return n;
}

static void add_run_block(Making *w, Node run, size_t n) {
  ObsBlock *b = NEW(w->E.arena, ObsBlock);
  int32_t *obs = NEW_ARRAY(w->E.arena, int32_t, n + 1);
  for (size_t k = 0; k < n; k++) obs[k] = (int32_t)k;
  *b = (ObsBlock){.root = part_of_run(w, run, RUN_OBSERVATIONS, (int32_t)n),
                  .rows = (int32_t)n,
                  .obs = obs,
                  .loc = w->m->by_draw_loc,
                  .name = "target",
                  .dist = -1,
                  .sim = NO_NODE,
                  .sim_width = 1};
  w->obs = (Observations){.blocks = b, .nblocks = n > 0, .n = n};
}

static void run_by_draw(Making *w) {
  Eval *E = &w->E;
  E->calls = NULL;
  w->calls.ninfos = 0;
  RunInputs in = {.known = w->m->known, .nknown = w->m->nknown};
  Node inputs = join_parameters(w, &in);
  Runs *r = run_program(E, w->o, &in);
  size_t n = count_observations(w, r, inputs);
  int first = w->outputs.count;
  int32_t transformed = declare_transformed(w), at = RUN_OBSERVATIONS + (int32_t)n;
  Node run = run_program_node(r, E->graph, inputs, n, transformed);
  for (int k = first; k < w->outputs.count; k++) {
    Output *o = &w->outputs.items[k];
    o->node = part_of_run(w, run, at, o->n);
    at += o->n;
  }
  add_run_block(w, run, n);
  Node jacobian = model_total(E, E->jacobian, E->njacobian);
  w->m->prior = part_of_run(w, run, RUN_PRIOR, 1);
  w->m->jacobian =
      ir_map(E->graph, IR_ADD, (Node[]){jacobian, part_of_run(w, run, RUN_JACOBIAN, 1)});
}

/* Is it the parameters that the program stumbled over? */
static bool may_go_by_draw(const Making *w) {
  const EvalNotes *n = w->E.shared;
  return !w->o->simulate && w->m->dim && w->E.ctx->status == PVI_PROGRAM &&
         (n->needs_draw || n->conditional);
}

/* What is asked of increments is not asked of functions, which make none. */
static const ModelOptions *calls_options(Making *w) {
  ModelOptions *o = NEW(w->E.arena, ModelOptions);
  *o = (ModelOptions){.unroll = w->o->unroll};
  return o;
}

static void run_blocks(Making *w) {
  Attempt *a = NEW(w->E.arena, Attempt);
  Making before = *w;
  if (!setjmp(*attempt_begin(&w->E, a))) {
    if (w->o->by_draw) eval_needs_draw(&w->E, NOWHERE, "it is asked for");
    run_for_all(w);
    attempt_end(&w->E, a);
    return;
  }
  Ctx *c = w->E.ctx;
  const Message *last = &c->messages[c->nmessages - 1];
  if (!may_go_by_draw(w)) {
    c->trap = a->outer;
    ctx_jump(c, c->status);
  }
  w->m->by_draw = last->text;
  w->m->by_draw_loc = last->loc;
  attempt_undo(&w->E, a);
  w->outputs = before.outputs;
  run_by_draw(w);
}

static void set_observations(Making *w) {
  w->m->blocks = w->obs.blocks;
  w->m->nblocks = w->obs.nblocks;
  w->m->n_obs = w->obs.n;
}

Model *model_make(Ctx *c, const Program *p, const Data *d, const ModelOptions *o) {
  static const ModelOptions none = {.nobserve = 0};
  Making *w = NEW(&c->arena, Making);
  Model *m = NEW(&c->arena, Model);
  *w = (Making){.E = evaluator(c, p, o ? o : &none), .m = m, .o = o ? o : &none};
  bind_data(&w->E, d, w->o, &m->outcomes_missing);
  run_transformed_data(&w->E, w->o->seed);
  if (w->o->replaced) replace_values(&w->E, w->o);
  m->known = outputs_known(&w->E, &m->nknown);
  m->dim = make_parameters(&w->E, &w->outputs);
  w->calls = (Calls){.options = calls_options(w), .dim = m->dim};
  if (!w->o->simulate) w->E.calls = &w->calls;
  run_blocks(w);
  if (w->o->simulate) w->obs = observations_simulated(&w->E, w->o);
  outputs_of_block(&w->E, &w->outputs, BLOCK_GENERATED);
  m->program = p;
  m->graph = w->E.graph;
  m->joint = is_joint(&w->E, &w->obs);
  m->iteration = w->obs.iteration;
  m->niteration = w->obs.niteration;
  set_observations(w);
  if (w->o->unit) units_take(&w->E, m, d, w->o->unit, &w->obs);
  set_observations(w);
  m->guessed = w->o->nguess && m->n_obs;
  m->outputs = w->outputs.items;
  m->noutputs = w->outputs.count;
  m->calls = w->calls.infos;
  m->ncalls = w->calls.ninfos;
  m->loops = w->E.loops;
  m->nloops = w->E.nloops;
  return m;
}
