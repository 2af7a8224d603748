/* model.c: a program and its data become a Model: run the blocks, gather what they added to the log
 * density, split it. */
#include "model/eval.h"

#include <math.h>
#include <stdlib.h>
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

static const double *values_of(Eval *E, const Program *p, const Data *data, const Decl *d,
                               const Value *shape) {
  long dims[MAX_DIMS];
  for (int k = 0; k < shape->ndims; k++) dims[k] = shape->dims[k];
  if (d->type->kind == TY_INT && shape->ndims == 0 && data_rows(data) >= 0 &&
      !data_find(data, d->name) && is_size_of_data(p, d)) {
    double *rows =
        NEW_ARRAY(E->arena, double,
                  1); /* a table's number of rows is the size its columns are declared with */
    rows[0] = (double)data_rows(data);
    return rows;
  }
  return data_bind(E->ctx, data, d, shape->ndims, dims);
}

static Value *bound(Eval *E, const Expr *e) { return e ? eval_expr(E, e) : NULL; }

static void check_data(Eval *E, const Decl *d, const Value *v) {
  long dims[MAX_DIMS];
  for (int k = 0; k < v->ndims; k++) dims[k] = v->dims[k];
  if (d->con.kind == CON_BOUNDS) {
    Value *lo = bound(E, d->con.lower), *hi = bound(E, d->con.upper);
    data_check_bounds(E->ctx, d, v->ndims, dims, v->v, lo ? lo->v : NULL, lo ? (size_t)lo->n : 0,
                      hi ? hi->v : NULL, hi ? (size_t)hi->n : 0);
  } else if (d->con.kind > CON_AFFINE) {
    data_check_structure(E->ctx, d, v->ndims, dims, v->v);
  }
}

static void bind_data(Eval *E, const Program *p, const Data *data) {
  const Stmt *block = p->blocks[BLOCK_DATA];
  for (int k = 0; block && k < block->nbody; k++)
    for (int j = 0; j < block->body[k]->ndecls; j++) {
      const Decl *d = block->body[k]->decls[j];
      if (d->type->kind == TY_TUPLE || d->type->kind == TY_COMPLEX || d->type->kind > TY_MATRIX)
        ctx_fail(E->ctx, PVI_PROGRAM, d->loc,
                 "data variable %s: tuples and complex numbers are not supported yet", d->name);
      Value shape;
      eval_dims(E, d, &shape);
      const double *v = values_of(E, p, data, d, &shape);
      if (!v) ctx_jump(E->ctx, PVI_DATA);
      Value *x = value_like(E, &shape);
      x->known = x->shared = true;
      x->v = (double *)v; /* nobody changes what is shared */
      check_data(E, d, x);
      E->frame[d->slot] = (Var){x, d, NULL};
      if (E->ctx->nerrors) ctx_jump(E->ctx, PVI_DATA);
    }
  data_forget_text(data);
}

/* ---- parameters and outputs ------------------------------------------------------------------ */

static void add_output(Model *m, int *cap, const Decl *d, BlockId block, const Value *v,
                       int32_t offset, int32_t unconstrained, Node node) {
  Arena *a = &m->ctx->arena;
  int32_t *dims = NEW_ARRAY(a, int32_t, v->ndims + 1);
  for (int k = 0; k < v->ndims; k++) dims[k] = v->dims[k];
  Output o = {d->name, block,  v->kind,       v->array_dims, v->ndims, dims,
              v->n,    offset, unconstrained, node,          d};
  PUSH(a, m->outputs, m->noutputs, *cap, o);
}

static void make_parameters(Eval *E, Model *m, int *cap) {
  const Stmt *block = m->program->blocks[BLOCK_PARAMETERS];
  int32_t at = 0;
  for (int k = 0; block && k < block->nbody; k++)
    for (int j = 0; j < block->body[k]->ndecls; j++) {
      const Decl *d = block->body[k]->decls[j];
      int32_t first = at;
      Value *v = constrain(E, d, &at);
      E->frame[d->slot] = (Var){v, d, NULL};
      add_output(m, cap, d, BLOCK_PARAMETERS, v, first, at - first,
                 v->n ? value_node(E, v) : NO_NODE);
    }
  m->dim = (size_t)at;
}

/* Variables declared at the top of a block, after it ran. */
static void collect_outputs(Eval *E, Model *m, int *cap, BlockId id) {
  const Stmt *block = m->program->blocks[id];
  for (int k = 0; block && k < block->nbody; k++) {
    const Stmt *s = block->body[k];
    if (s->kind != ST_DECL) continue;
    for (int j = 0; j < s->ndecls; j++) {
      const Decl *d = s->decls[j];
      if (id == BLOCK_GENERATED) {
        if (d->type->kind == TY_TUPLE)
          ctx_fail(E->ctx, PVI_PROGRAM, d->loc,
                   "tuples in generated quantities are not supported yet");
        Value shape;
        eval_dims(E, d, &shape);
        add_output(m, cap, d, id, &shape, 0, 0, NO_NODE);
      } else {
        Value *v = E->frame[d->slot].value;
        if (v->kind == TY_TUPLE)
          ctx_fail(E->ctx, PVI_PROGRAM, d->loc,
                   "tuples as transformed parameters are not supported yet");
        add_output(m, cap, d, id, v, 0, 0, v->n ? value_node(E, v) : NO_NODE);
      }
    }
  }
}

/* ---- splitting the log density --------------------------------------------------------------- */

static Node total(Eval *E, Value **terms, size_t n) {
  int32_t count = (int32_t)n;
  if (!n) return ir_number(E->graph, 0);
  return value_node(
      E, value_sum(E, value_join(E, terms, count, value_shape(E, TY_VECTOR, 0, 1, &count))));
}

static void add_block(Model *m, int *cap, const Site *s, Node root, const int32_t *obs) {
  ObsBlock b = {.root = root,
                .rows = ir_size(m->graph, root),
                .obs = obs,
                .loc = s->loc,
                .name = s->name,
                .dist = s->dist,
                .npar = s->npar,
                .width = s->width,
                .par = {s->par[0], s->par[1], s->par[2]},
                .y = s->y,
                .size = s->size,
                .sim = s->sim,
                .sim_width = 1,
                .sim_y = s->y};
  PUSH(&m->ctx->arena, m->blocks, m->nblocks, *cap, b);
}

/* A vectorized statement: every element is an observation. */
static void split_vector(Model *m, int *cap, const Site *s) {
  int32_t n = ir_size(m->graph, s->node), *obs = NEW_ARRAY(&m->ctx->arena, int32_t, n);
  for (int32_t k = 0; k < n; k++) obs[k] = (int32_t)m->n_obs + k;
  add_block(m, cap, s, s->node, obs);
  m->n_obs += (size_t)n;
}

/* The outcomes of single observations as one of `count` rows. */
static void join_outcomes(Model *m, Site *all, const Site *s, int32_t count) {
  Arena *a = &m->ctx->arena;
  for (int p = 0; p < all->npar; p++) {
    Pick *picks = NEW_ARRAY(a, Pick, count * all->width);
    for (int32_t k = 0; k < count * all->width; k++)
      picks[k] = (Pick){s[k / all->width].par[p], k % all->width};
    all->par[p] = ir_pack(m->graph, picks, count * all->width);
  }
  double *y = NEW_ARRAY(a, double, count), *size = all->size ? NEW_ARRAY(a, double, count) : NULL;
  for (int32_t k = 0; k < count; k++) {
    y[k] = s[k].y[0];
    if (size) size[k] = s[k].size[0];
  }
  all->y = y;
  all->size = size;
}

/* An unrolled loop: its iterations are the observations, whatever each of them adds. */
static void split_unrolled(Model *m, int *cap, const Site *s, size_t n) {
  Arena *a = &m->ctx->arena;
  Pick *picks = NEW_ARRAY(a, Pick, n);
  int32_t count = 0, last = -1;
  bool alike = true; /* one statement makes every observation */
  for (size_t k = 0; k < n; k++) {
    alike &= s[k].dist == s[0].dist && s[k].npar == s[0].npar && s[k].width == s[0].width &&
             s[k].iteration != last;
    if (s[k].iteration == last) {
      Pick *p = &picks[count - 1];
      p->node = ir_map(m->graph, IR_ADD, (Node[]){p->node, s[k].node});
    } else {
      picks[count++] = (Pick){s[k].node, 0};
      last = s[k].iteration;
    }
  }
  int32_t *obs = NEW_ARRAY(a, int32_t, count);
  for (int32_t k = 0; k < count; k++) obs[k] = (int32_t)m->n_obs + k;
  Site all = *s;
  if (!alike) all.dist = -1;
  all.sim = NO_NODE; /* every observation has its own noise node: scores by simulation want one
                        statement for all */
  if (all.dist >= 0) join_outcomes(m, &all, s, count);
  add_block(m, cap, &all, ir_pack(m->graph, picks, count), obs);
  m->n_obs += (size_t)count;
}

/* All sites on all iterations of which any has one: zero where it has none. */
static Node padded(Model *m, const Site *s, const int32_t *rank, int32_t covered) {
  if (s->axis->rows == covered) return s->node;
  Pick *picks = NEW_ARRAY(&m->ctx->arena, Pick, covered);
  Node zero = ir_number(m->graph, 0);
  for (int32_t k = 0; k < covered; k++) picks[k] = (Pick){zero, 0};
  for (int32_t k = 0; k < s->axis->rows; k++)
    picks[rank[s->axis->iteration[k]]] = (Pick){s->node, k};
  return ir_pack(m->graph, picks, covered);
}

/* A lifted loop: one observation per iteration that adds something. */
static void split_lifted(Model *m, int *cap, const Site *s, size_t n) {
  Arena *a = &m->ctx->arena;
  const Axis *root = s->axis;
  while (root->parent) root = root->parent;
  int32_t *hits = NEW_ARRAY(a, int32_t, root->rows), *rank = NEW_ARRAY(a, int32_t, root->rows);
  bool disjoint = true;
  for (size_t k = 0; k < n; k++)
    for (int32_t r = 0; r < s[k].axis->rows; r++) disjoint &= ++hits[s[k].axis->iteration[r]] == 1;
  int32_t covered = 0;
  for (int32_t r = 0; r < root->rows; r++) rank[r] = hits[r] ? covered++ : -1;
  if (disjoint) {
    for (size_t k = 0; k < n; k++) {
      int32_t *obs = NEW_ARRAY(a, int32_t, s[k].axis->rows);
      for (int32_t r = 0; r < s[k].axis->rows; r++)
        obs[r] = (int32_t)m->n_obs + rank[s[k].axis->iteration[r]];
      add_block(m, cap, &s[k], s[k].node, obs);
    }
  } else {
    Node sum = padded(m, &s[0], rank, covered);
    for (size_t k = 1; k < n; k++)
      sum = ir_map(m->graph, IR_ADD, (Node[]){sum, padded(m, &s[k], rank, covered)});
    int32_t *obs = NEW_ARRAY(a, int32_t, covered);
    for (int32_t k = 0; k < covered; k++) obs[k] = (int32_t)m->n_obs + k;
    Site all = *s;
    all.dist = -1;
    all.sim = NO_NODE;
    add_block(m, cap, &all, sum, obs);
  }
  m->n_obs += (size_t)covered;
}

/* Increments without a density, in a loop without one. */
static bool only_bare(const Site *s, size_t n) {
  for (size_t k = 0; k < n; k++)
    if (!s[k].bare) return false;
  return true;
}

static void add_to_prior(Eval *E, const Site *s, size_t n) {
  for (size_t k = 0; k < n; k++) {
    int32_t size = ir_size(E->graph, s[k].node);
    Value *v =
        value_sum(E, value_of_node(E, value_shape(E, TY_VECTOR, 0, 1, &size), NULL, s[k].node));
    PUSH(E->arena, E->prior, E->nprior, E->cap_prior, v);
  }
}

static void split_sites(Eval *E, Model *m) {
  int cap = 0;
  for (size_t k = 0, n; k < E->nsites; k += n) {
    const Site *s = &E->sites[k];
    n = 1;
    while (s->loop >= 0 && k + n < E->nsites && s[n].loop == s->loop) n++;
    if (only_bare(s, n)) {
      add_to_prior(E, s, n);
    } else if (s->loop < 0) {
      split_vector(m, &cap, s);
    } else if (s->axis) {
      split_lifted(m, &cap, s, n);
    } else {
      split_unrolled(m, &cap, s, n);
    }
  }
}

/* ---- making ---------------------------------------------------------------------------------- */

static void run_block(Eval *E, BlockId id, bool quiet) {
  E->quiet = quiet;
  size_t first = E->nloops;
  eval_block(E, E->program->blocks[id]);
  for (size_t k = first; k < E->nloops; k++) E->loops[k].block = id;
}

/* ---- simulators ------------------------------------------------------------------------------ */

static const Decl *find_decl(const Program *p, BlockId id, const char *name) {
  const Stmt *block = p->blocks[id];
  for (int k = 0; block && k < block->nbody; k++)
    for (int j = 0; block->body[k]->kind == ST_DECL && j < block->body[k]->ndecls; j++)
      if (!strcmp(block->body[k]->decls[j]->name, name)) return block->body[k]->decls[j];
  return NULL;
}

/* Generated quantities as functions of parameters and noise; one block of observations. */
static void simulate_observations(Eval *E, Model *m, const char *simulate, const char *observed) {
  Ctx *c = m->ctx;
  const Decl *s = find_decl(m->program, BLOCK_GENERATED, simulate),
             *o = find_decl(m->program, BLOCK_DATA, observed);
  if (!s)
    ctx_fail(c, PVI_USAGE, NOWHERE, "--simulate %s: generated quantities has no such variable",
             simulate);
  if (!o)
    ctx_fail(c, PVI_USAGE, NOWHERE, "--observed %s: the data block has no such variable", observed);
  E->simulate = true;
  run_block(E, BLOCK_GENERATED, true);
  E->simulate = false;
  Value *sim = E->frame[s->slot].value, *y = E->frame[o->slot].value;
  if (sim->n != y->n || !sim->ndims || sim->dims[0] != y->dims[0])
    ctx_fail(c, PVI_PROGRAM, s->loc, "%s has %d elements, %s has %d: they must have the same sizes",
             simulate, sim->n, observed, y->n);
  if (sim->known)
    ctx_fail(c, PVI_PROGRAM, s->loc, "%s depends neither on parameters nor on random numbers",
             simulate);
  int32_t rows = y->dims[0], *obs = NEW_ARRAY(&c->arena, int32_t, rows);
  for (int32_t k = 0; k < rows; k++) obs[k] = k;
  m->blocks = NEW(&c->arena, ObsBlock);
  m->blocks[0] = (ObsBlock){.root = NO_NODE,
                            .rows = rows,
                            .obs = obs,
                            .loc = s->loc,
                            .name = simulate,
                            .dist = -1,
                            .sim = value_node(E, sim),
                            .sim_width = rows ? y->n / rows : 1,
                            .sim_y = y->v};
  m->nblocks = 1;
  m->n_obs = (size_t)rows;
}

bool model_has_densities(const Model *m) {
  for (int b = 0; b < m->nblocks; b++)
    if (m->blocks[b].root == NO_NODE) return false;
  return true;
}

Model *model_make(Ctx *c, const Program *p, const Data *d) {
  return model_make_simulator(c, p, d, NULL, NULL);
}

Model *model_make_simulator(Ctx *c, const Program *p, const Data *d, const char *simulate,
                            const char *observed) {
  Model *m = NEW(&c->arena, Model);
  m->ctx = c;
  m->program = p;
  m->data = d;
  m->graph = ir_graph(c);
  Eval *E = NEW(&c->arena, Eval);
  *E = (Eval){
      .ctx = c, .arena = &c->arena, .graph = m->graph, .program = p, .loop = -1, .iteration = -1};
  E->frame = NEW_ARRAY(&c->arena, Var, p->nslots + 1);
  RngStream rng = rngs_make(1, 0);
  E->rng = &rng;
  bind_data(E, p, d);
  run_block(E, BLOCK_TRANSFORMED_DATA, true);
  E->rng = NULL;
  int cap = 0;
  E->quiet = false;
  make_parameters(E, m, &cap);
  run_block(E, BLOCK_TRANSFORMED_PARAMETERS, false);
  collect_outputs(E, m, &cap, BLOCK_TRANSFORMED_PARAMETERS);
  run_block(E, BLOCK_MODEL, false);
  collect_outputs(E, m, &cap, BLOCK_GENERATED);
  for (int k = 0; k < p->nobserve; k++)
    if (!p->observe_found[k])
      ctx_fail(c, PVI_USAGE, NOWHERE,
               "--observe %ld: no increment of the log density is made on that line",
               p->observe[k]);
  split_sites(E, m);
  m->prior = total(E, E->prior, E->nprior);
  m->jacobian = total(E, E->jacobian, E->njacobian);
  if (simulate) simulate_observations(E, m, simulate, observed);
  m->loops = E->loops;
  m->nloops = E->nloops;
  m->evaluator = E;
  return m;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Indexes of column k of a variable, first index fastest; returns the row-major place. */
static int32_t column_place(const Output *o, int32_t k, int32_t *at) {
  int32_t place = 0;
  for (int d = 0; d < o->ndims; d++) {
    at[d] = k % o->dims[d];
    k /= o->dims[d];
  }
  for (int d = 0; d < o->ndims; d++) place = place * o->dims[d] + at[d];
  return place;
}

static const char *column_name(Arena *a, const Output *o, int32_t k, bool dotted) {
  int32_t at[MAX_DIMS];
  column_place(o, k, at);
  Text t = text_make(a);
  text_puts(&t, o->name);
  for (int d = 0; d < o->ndims; d++) text_printf(&t, dotted ? ".%d" : d ? ",%d" : "[%d", at[d] + 1);
  if (o->ndims && !dotted) text_puts(&t, "]");
  return t.s;
}

size_t model_output_count(const Model *m) {
  size_t n = 0;
  for (int k = 0; k < m->noutputs; k++) n += (size_t)m->outputs[k].n;
  return n;
}

static const Output *find_column(const Model *m, size_t *k) {
  const Output *o = m->outputs;
  while (*k >= (size_t)o->n) *k -= (size_t)o++->n;
  return o;
}

const char *model_output_name(const Model *m, Arena *a, size_t k, bool dotted) {
  const Output *o = find_column(m, &k);
  return column_name(a, o, (int32_t)k, dotted);
}

bool model_output_is_parameter(const Model *m, size_t k) {
  return find_column(m, &k)->block == BLOCK_PARAMETERS;
}

const char *model_unconstrained_name(const Model *m, Arena *a, size_t k) {
  for (int j = 0; j < m->noutputs; j++) {
    const Output *o = &m->outputs[j];
    if (o->block != BLOCK_PARAMETERS || k >= (size_t)(o->offset + o->unconstrained)) continue;
    int32_t i = (int32_t)k - o->offset;
    if (o->unconstrained == o->n && o->array_dims == 0) return column_name(a, o, i, false);
    return o->ndims ? arena_format(a, "%s[%d]", o->name, i + 1) : o->name;
  }
  return "?";
}

/* ---- output values --------------------------------------------------------------------------- */

/* Parameters and transformed parameters of `count` draws, from lane 0 on, into out. */
static void graph_outputs(const Model *m, const Work *w, size_t count, double *out, size_t ncols) {
  size_t first = 0;
  int root = 0;
  for (int k = 0; k < m->noutputs; k++) {
    const Output *o = &m->outputs[k];
    for (int32_t j = 0; o->node != NO_NODE && j < o->n; j++) {
      int32_t at[MAX_DIMS];
      const double *row = vm_value(w, root, column_place(o, j, at));
      for (size_t i = 0; i < count; i++) out[i * ncols + first + (size_t)j] = row[i];
    }
    root += o->node != NO_NODE;
    first += (size_t)o->n;
  }
}

/* Generated quantities of one draw: the evaluator as an interpreter, parameters known. */
static void generate(const Model *m, Eval *E, double *out) {
  size_t first = 0;
  for (int k = 0; k < m->noutputs; first += (size_t)m->outputs[k++].n) {
    const Output *o = &m->outputs[k];
    if (o->block == BLOCK_GENERATED) continue;
    Value *v = value_known(E, value_shape(E, o->kind, o->array_dims, o->ndims, o->dims), NULL);
    for (int32_t j = 0; j < o->n; j++) {
      int32_t at[MAX_DIMS];
      v->v[column_place(o, j, at)] = out[first + (size_t)j];
    }
    E->frame[o->decl->slot] = (Var){v, o->decl, NULL};
  }
  eval_block(E, m->program->blocks[BLOCK_GENERATED]);
  first = 0;
  for (int k = 0; k < m->noutputs; first += (size_t)m->outputs[k++].n) {
    const Output *o = &m->outputs[k];
    if (o->block != BLOCK_GENERATED) continue;
    const Value *v = E->frame[o->decl->slot].value;
    for (int32_t j = 0; j < o->n; j++) {
      int32_t at[MAX_DIMS];
      out[first + (size_t)j] = v->v[column_place(o, j, at)];
    }
  }
}

static void generate_all(const Model *m, size_t ndraws, uint64_t seed, double *out, size_t ncols) {
  Arena scratch = arena_make(m->ctx);
  Eval E = *(const Eval *)m->evaluator;
  Var *frame = NEW_ARRAY(&m->ctx->arena, Var, m->program->nslots + 1);
  E.arena = &scratch;
  E.graph = ir_graph(m->ctx);
  E.quiet = true;
  E.loop = E.iteration = -1;
  jmp_buf here, *outer = m->ctx->trap;
  if (setjmp(here)) { /* the scratch memory must go, whatever happened */
    arena_free(&scratch);
    m->ctx->trap = outer;
    ctx_jump(m->ctx, m->ctx->status);
  }
  m->ctx->trap = &here;
  for (size_t i = 0; i < ndraws; i++) {
    ArenaMark mark = arena_mark(&scratch);
    RngStream rng = rngs_make(seed, i + 1);
    E.rng = &rng;
    memcpy(frame, ((const Eval *)m->evaluator)->frame, (size_t)m->program->nslots * sizeof *frame);
    E.frame = frame;
    generate(m, &E, out + i * ncols);
    arena_reset(&scratch, mark);
  }
  m->ctx->trap = outer;
  arena_free(&scratch);
}

void model_outputs(const Model *m, const double *theta, size_t ld, size_t ndraws, uint64_t seed,
                   double *out) {
  enum { BATCH = 64 };
  Arena *a = &m->ctx->arena;
  size_t ncols = model_output_count(m);
  Node *roots = NEW_ARRAY(a, Node, m->noutputs + 1);
  int nroots = 0;
  for (int k = 0; k < m->noutputs; k++)
    if (m->outputs[k].node != NO_NODE) roots[nroots++] = m->outputs[k].node;
  Work *w = vm_work(a, vm_plan(m->ctx, a, m->graph, m->dim, roots, nroots, NULL, 0), BATCH, NULL);
  double *block = NEW_ARRAY(a, double, m->dim *BATCH);
  for (size_t i = 0; i < ndraws; i += BATCH) {
    size_t count = ndraws - i < BATCH ? ndraws - i : BATCH;
    for (size_t k = 0; k < m->dim; k++)
      for (size_t j = 0; j < BATCH; j++)
        block[k * BATCH + j] = theta[k * ld + i + (j < count ? j : 0)];
    vm_forward(w, block);
    graph_outputs(m, w, count, out + i * ncols, ncols);
  }
  if (m->program->blocks[BLOCK_GENERATED]) generate_all(m, ndraws, seed, out, ncols);
}
