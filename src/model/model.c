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
      if (d->type->kind == TY_TUPLE)
        ctx_fail(E->ctx, PVI_PROGRAM, d->loc, "data variable %s: tuples are not supported yet",
                 d->name);
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
      E->frame[d->slot] = (Var){x, d, NULL};
      if (E->ctx->nerrors) ctx_jump(E->ctx, PVI_DATA);
    }
}

/* ---- blocks ---------------------------------------------------------------------------------- */

const Decl *model_find_decl(const Program *p, BlockId id, const char *name) {
  const Stmt *block = p->blocks[id];
  for (int k = 0; block && k < block->nbody; k++)
    for (int j = 0; block->body[k]->kind == ST_DECL && j < block->body[k]->ndecls; j++)
      if (!strcmp(block->body[k]->decls[j]->name, name)) return block->body[k]->decls[j];
  return NULL;
}

void model_run_block(Eval *E, BlockId id, bool quiet) {
  E->quiet = quiet;
  size_t first = E->nloops;
  eval_block(E, E->program->blocks[id]);
  for (size_t k = first; k < E->nloops; k++) E->loops[k].block = id;
}

/* Random numbers of transformed data: one stream, the same in every run. */
static void run_transformed_data(Eval *E) {
  RngStream rng = rngs_make(1, 0);
  E->rng = &rng;
  model_run_block(E, BLOCK_TRANSFORMED_DATA, true);
  E->rng = NULL;
}

static void replace_values(Eval *E, const ModelOptions *o) {
  Var *var = &E->frame[o->replaced->slot];
  Value *v = value_known(E, var->value, NULL);
  for (int32_t k = 0; k < v->n; k++) v->v[k] = o->values[k];
  var->value = v;
}

/* The parameters as functions of theta; returns how many numbers theta has. */
static size_t make_parameters(Eval *E, OutputList *outputs) {
  const Stmt *block = E->program->blocks[BLOCK_PARAMETERS];
  int32_t at = 0;
  E->quiet = false;
  for (int k = 0; block && k < block->nbody; k++)
    for (int j = 0; j < block->body[k]->ndecls; j++) {
      const Decl *d = block->body[k]->decls[j];
      Output o = {.decl = d, .block = BLOCK_PARAMETERS, .offset = at, .node = NO_NODE};
      Value *v = constrain(E, d, &at);
      E->frame[d->slot] = (Var){v, d, NULL};
      o.unconstrained = at - o.offset;
      if (v->n) o.node = value_node(E, v);
      outputs_add(E, outputs, o, v);
    }
  return (size_t)at;
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
                .observe = o->observe,
                .nobserve = o->nobserve,
                .observe_found = NEW_ARRAY(&c->arena, bool, o->nobserve + 1)};
}

static void check_observed(const Eval *E) {
  for (int k = 0; k < E->nobserve; k++)
    if (!E->observe_found[k])
      ctx_fail(E->ctx, PVI_USAGE, NOWHERE,
               OPTION("observe") " %ld: no increment of the log density is made on that line",
               E->observe[k]);
}

static Node total(Eval *E, Value **terms, size_t n) {
  int32_t count = (int32_t)n;
  if (!n) return ir_number(E->graph, 0);
  return value_node(
      E, value_sum(E, value_join(E, terms, count, value_shape(E, TY_VECTOR, 0, 1, &count))));
}

Model *model_make(Ctx *c, const Program *p, const Data *d, const ModelOptions *o) {
  static const ModelOptions none = {.nobserve = 0};
  if (!o) o = &none;
  Eval E = evaluator(c, p, o);
  OutputList outputs = {.count = 0};
  Model *m = NEW(&c->arena, Model);
  bind_data(&E, d, o, &m->outcomes_missing);
  run_transformed_data(&E);
  if (o->replaced) replace_values(&E, o);
  m->known = outputs_known(&E, &m->nknown);
  m->dim = make_parameters(&E, &outputs);
  model_run_block(&E, BLOCK_TRANSFORMED_PARAMETERS, false);
  outputs_of_block(&E, &outputs, BLOCK_TRANSFORMED_PARAMETERS);
  model_run_block(&E, BLOCK_MODEL, false);
  outputs_of_block(&E, &outputs, BLOCK_GENERATED);
  check_observed(&E);
  Observations obs = observations_split(&E);
  m->prior = total(&E, E.prior, E.nprior);
  m->jacobian = total(&E, E.jacobian, E.njacobian);
  if (o->simulate) obs = observations_simulated(&E, o);
  m->program = p;
  m->graph = E.graph;
  m->blocks = obs.blocks;
  m->nblocks = obs.nblocks;
  m->n_obs = obs.n;
  m->outputs = outputs.items;
  m->noutputs = outputs.count;
  m->loops = E.loops;
  m->nloops = E.nloops;
  return m;
}
