/* outputs.c: the variables that a Model prints: which there are, their names, their values.
 *
 * Parameters and transformed parameters are nodes of the graph, evaluated for many points together.
 * Generated quantities are run, point by point, by the evaluator with numbers for parameters; it
 * begins every point with the known variables, which the Model keeps frozen, so the points do not
 * depend on each other and calls in several threads not on each other either.
 */
#include "model/complex.h"
#include "model/model_int.h"

#include <math.h>
#include <string.h>

/* ---- making the list ------------------------------------------------------------------------- */

void outputs_add(Eval *E, OutputList *l, Output o, const Value *v) {
  int32_t *dims = NEW_ARRAY(E->arena, int32_t, v->ndims + 1);
  memcpy(dims, v->dims, (size_t)v->ndims * sizeof *dims);
  o.kind = v->kind;
  o.array_dims = v->array_dims;
  o.ndims = v->ndims;
  o.dims = dims;
  o.n = v->n;
  PUSH(E->arena, l->items, l->count, l->cap, o);
}

Output outputs_of(const Decl *d, BlockId id) {
  return (Output){.name = d->name, .decl = d, .variable = d, .block = id, .node = NO_NODE};
}

static void add_item(Eval *E, Output o, Value *v, void *list) { outputs_add(E, list, o, v); }

static void add_node(Eval *E, Output o, Value *v, void *list) {
  if (v->n) o.node = value_node(E, v);
  outputs_add(E, list, o, v);
}

static void add_declared(Eval *E, OutputList *l, const Decl *d, BlockId id) {
  Value shape;
  eval_dims(E, d, &shape);
  tuple_each(E, outputs_of(d, id), d->type->kind == TY_TUPLE ? tuple_default(E, d) : &shape,
             add_item, l);
}

static void add_computed(Eval *E, OutputList *l, const Decl *d, BlockId id) {
  tuple_each(E, outputs_of(d, id), E->frame[d->slot].value, add_node, l);
}

static void each_output(Eval *E, OutputList *l, BlockId id,
                        void (*add)(Eval *E, OutputList *l, const Decl *d, BlockId id)) {
  const Stmt *block = E->program->blocks[id];
  for (int k = 0; block && k < block->nbody; k++) {
    const Stmt *s = block->body[k];
    for (int j = 0; s->kind == ST_DECL && j < s->ndecls; j++) add(E, l, s->decls[j], id);
  }
}

void outputs_declared(Eval *E, OutputList *l, BlockId id) { each_output(E, l, id, add_declared); }

void outputs_of_block(Eval *E, OutputList *l, BlockId id) {
  each_output(E, l, id, id == BLOCK_GENERATED ? add_declared : add_computed);
}

/* ---- known variables ------------------------------------------------------------------------- */

Value *outputs_view(Arena *a, const Value *v) {
  Value *c = NEW(a, Value);
  *c = *v;
  c->shared = true;
  if (v->kind != TY_TUPLE) return c;
  c->items = NEW_ARRAY(a, Value *, v->nitems);
  for (int k = 0; k < v->nitems; k++) c->items[k] = outputs_view(a, v->items[k]);
  return c;
}

const KnownVariable *outputs_known(Eval *E, int *count) {
  KnownVariable *list = NULL;
  int cap = 0;
  *count = 0;
  for (BlockId id = BLOCK_DATA; id <= BLOCK_TRANSFORMED_DATA; id++) {
    const Stmt *block = E->program->blocks[id];
    for (int k = 0; block && k < block->nbody; k++)
      for (int j = 0; block->body[k]->kind == ST_DECL && j < block->body[k]->ndecls; j++) {
        const Decl *d = block->body[k]->decls[j];
        KnownVariable v = {d, outputs_view(E->arena, E->frame[d->slot].value)};
        PUSH(E->arena, list, *count, cap, v);
      }
  }
  return list;
}

bool model_known(const Model *m, int k, double *values, size_t n) {
  const Value *v = m->known[k].value;
  if (v->kind == TY_TUPLE || !v->known || (size_t)v->n != n) return false;
  memcpy(values, v->v, n * sizeof *values);
  return true;
}

const double *model_known_rows(const Model *m, int k, size_t rows, size_t *each) {
  const Value *v = m->known[k].value;
  if (v->kind == TY_TUPLE || !v->known || !v->ndims || (size_t)v->dims[0] != rows || !v->n)
    return NULL;
  *each = (size_t)v->n / rows;
  return v->v;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Indexes of column k of a variable, first index fastest, but real and imaginary part before all;
 * returns the row-major place. */
static int32_t column_place(const Output *o, int32_t k, int32_t *at) {
  int32_t place = 0;
  int ndims = o->ndims - complex_kind(o->kind);
  if (ndims < o->ndims) {
    at[ndims] = k % 2;
    k /= 2;
  }
  for (int d = 0; d < ndims; d++) {
    at[d] = k % o->dims[d];
    k /= o->dims[d];
  }
  for (int d = 0; d < o->ndims; d++) place = place * o->dims[d] + at[d];
  return place;
}

int32_t model_column_place(const Output *o, int32_t k) {
  int32_t at[MAX_DIMS];
  return column_place(o, k, at);
}

/* An item of an array of tuples is p[2,1].3 to people, p.2.1:3 to CmdStan. */
static void put_name(Text *t, const char *name, bool dotted) {
  bool open = false;
  for (; *name; name++) {
    bool index = *name == '.' && !dotted;
    if (open && *name == ':') text_puts(t, "]");
    text_printf(t, "%c", index ? open ? ',' : '[' : *name == ':' && !dotted ? '.' : *name);
    open = index || (open && *name != ':');
  }
}

static const char *column_name(Arena *a, const Output *o, int32_t k, bool dotted) {
  int32_t at[MAX_DIMS];
  column_place(o, k, at);
  Text t = text_make(a);
  put_name(&t, o->name, dotted);
  int ndims = o->ndims - complex_kind(o->kind);
  for (int d = 0; d < ndims; d++) text_printf(&t, dotted ? ".%d" : d ? ",%d" : "[%d", at[d] + 1);
  if (ndims && !dotted) text_puts(&t, "]");
  if (ndims < o->ndims) text_puts(&t, at[ndims] ? ".imag" : ".real");
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

bool model_output_is_computed(const Model *m, size_t k) {
  return find_column(m, &k)->block != BLOCK_GENERATED;
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

/* ---- values of the graph --------------------------------------------------------------------- */

size_t model_lanes(const Model *m, const ModelPoints *p, size_t first, ModelLanes to) {
  size_t count = p->n - first < to.lanes ? p->n - first : to.lanes;
  for (size_t k = 0; k < m->dim; k++)
    for (size_t j = 0; j < to.lanes; j++)
      to.theta[k * to.ld + j] =
          p->theta[(first + (j < count ? j : 0)) * p->by_point + k * p->by_dim];
  return count;
}

/* Which columns are written, and what has to be computed for them: generated quantities begin with
 * all that comes before them. */
typedef struct {
  const Model *m;
  const bool *wanted; /* by output; NULL: all */
  bool generates;
  size_t ncols;         /* all columns */
  const int32_t *place; /* of each in its variable, row-major */
  Habit *habits;        /* of generated quantities, from point to point */
  Result *results;
  Codes *codes;
} Columns;

static bool is_wanted(const Columns *s, int k) { return !s->wanted || s->wanted[k]; }

static bool is_evaluated(const Columns *s, int k) {
  return s->m->outputs[k].node != NO_NODE && (s->generates || is_wanted(s, k));
}

static const int32_t *places_of(Arena *a, const Model *m) {
  int32_t *place = NEW_ARRAY(a, int32_t, model_output_count(m) + 1), *next = place;
  for (int k = 0; k < m->noutputs; k++)
    for (int32_t j = 0; j < m->outputs[k].n; j++) *next++ = model_column_place(&m->outputs[k], j);
  return place;
}

/* codes: an arena in which no Values live. */
static Columns columns_of(Arena *a, Arena *codes, const Model *m, const bool *wanted) {
  Columns s = {.m = m,
               .wanted = wanted,
               .ncols = model_output_count(m),
               .place = places_of(a, m),
               .habits = NEW_ARRAY(a, Habit, HABITS),
               .results = NEW_ARRAY(a, Result, RESULTS),
               .codes = codes_make(codes)};
  for (int k = 0; m->program->blocks[BLOCK_GENERATED] && k < m->noutputs; k++)
    s.generates |= m->outputs[k].block == BLOCK_GENERATED && is_wanted(&s, k);
  return s;
}

/* Parameters and transformed parameters of `count` points, from lane 0 on, into out. */
static void graph_outputs(const Columns *s, const Work *w, size_t count, double *out) {
  size_t first = 0;
  int root = 0;
  for (int k = 0; k < s->m->noutputs; first += (size_t)s->m->outputs[k++].n) {
    const Output *o = &s->m->outputs[k];
    if (!is_evaluated(s, k)) continue;
    for (int32_t j = 0; j < o->n; j++) {
      const double *row = vm_value(w, root, s->place[first + (size_t)j]);
      for (size_t i = 0; i < count; i++) out[i * s->ncols + first + (size_t)j] = row[i];
    }
    root++;
  }
}

static Work *work_of(Arena *a, const Columns *s, size_t lanes) {
  const Model *m = s->m;
  Node *roots = NEW_ARRAY(a, Node, m->noutputs + 1);
  int nroots = 0;
  for (int k = 0; k < m->noutputs; k++)
    if (is_evaluated(s, k)) roots[nroots++] = m->outputs[k].node;
  VmPlan plan = {.graph = m->graph, .dim = m->dim, .roots = roots, .nroots = nroots};
  return vm_work_forward(a, vm_plan(a, &plan), lanes, NULL);
}

/* ---- generated quantities -------------------------------------------------------------------- */

Eval model_interpreter(Arena *values, Arena *nodes, const Model *m) {
  Eval E = {.ctx = values->ctx,
            .arena = values,
            .graph = ir_graph_in(nodes),
            .program = m->program,
            .frame = NEW_ARRAY(values, Var, m->program->nslots + 1),
            .loop = -1,
            .iteration = -1,
            .quiet = true,
            .shared = NEW(values, EvalNotes)};
  for (int k = 0; k < m->nknown; k++) {
    const Decl *d = m->known[k].decl;
    E.frame[d->slot] = (Var){outputs_view(values, m->known[k].value), d, NULL, NULL};
  }
  return E;
}

/* Generated quantities of one point begin with its parameters and transformed parameters, which out
 * has already. */
static void set_variables(Eval *E, const Columns *s, const double *out) {
  const Model *m = s->m;
  size_t first = 0;
  tuples_prepare(E);
  for (int k = 0; k < m->noutputs; first += (size_t)m->outputs[k++].n) {
    const Output *o = &m->outputs[k];
    if (o->block == BLOCK_GENERATED) continue;
    Value *v = value_known(E, value_shape(E, o->kind, o->array_dims, o->ndims, o->dims), NULL);
    for (size_t j = 0; j < (size_t)o->n; j++) v->v[s->place[first + j]] = out[first + j];
    output_set(E, o, v);
  }
}

static void get_generated(const Eval *E, const Columns *s, double *out) {
  const Model *m = s->m;
  size_t first = 0;
  for (int k = 0; k < m->noutputs; first += (size_t)m->outputs[k++].n) {
    const Output *o = &m->outputs[k];
    if (o->block != BLOCK_GENERATED) continue;
    const Value *v = output_value(E, o);
    for (size_t j = 0; j < (size_t)o->n; j++) out[first + j] = v->v[s->place[first + j]];
  }
}

typedef struct {
  const Columns *s;
  Arena *values, *nodes;
  RngStream rng;
  double *out; /* the columns of the point */
} Generating;

static void generate(Ctx *c, void *self) {
  (void)c;
  Generating *g = self;
  Eval E = model_interpreter(g->values, g->nodes, g->s->m);
  E.rng = &g->rng;
  E.numbers = true;
  E.habits = g->s->habits;
  E.results = g->s->results;
  E.codes = g->s->codes;
  set_variables(&E, g->s, g->out);
  eval_block(&E, g->s->m->program->blocks[BLOCK_GENERATED]);
  get_generated(&E, g->s, g->out);
}

/* ---- errors of the program ------------------------------------------------------------------- */

static void run_model(Ctx *c, void *self) {
  (void)c;
  Generating *g = self;
  Eval E = model_interpreter(g->values, g->nodes, g->s->m);
  E.numbers = true;
  E.codes = g->s->codes;
  set_variables(&E, g->s, g->out);
  eval_block(&E, g->s->m->program->blocks[BLOCK_TRANSFORMED_PARAMETERS]);
  eval_block(&E, g->s->m->program->blocks[BLOCK_MODEL]);
}

bool model_fails_at(Ctx *c, const Model *m, const double *theta, Message *why) {
  TempArena *values = temp_open(c), *nodes = temp_open(c), *codes = temp_open(c);
  Columns s = columns_of(&values->arena, &codes->arena, m, NULL);
  s.generates = true; /* all that the blocks before need */
  Work *w = work_of(&values->arena, &s, 1);
  Generating g = {.s = &s,
                  .values = &values->arena,
                  .nodes = &nodes->arena,
                  .out = NEW_ARRAY(&values->arena, double, s.ncols + 1)};
  ModelLanes lanes = {vm_theta(w), LANES, vm_ld(w)};
  model_lanes(m, &(ModelPoints){theta, 1, m->dim, 1}, 0, lanes);
  vm_forward(w, lanes.theta);
  graph_outputs(&s, w, 1, g.out);
  bool fails = !ctx_try(c, run_model, &g, why);
  if (fails) why->text = arena_text(&c->arena, why->text, strlen(why->text));
  temp_close(codes);
  temp_close(nodes);
  temp_close(values);
  return fails;
}

/* ---- all points ------------------------------------------------------------------------------ */

/* Points whose generated quantities end with an error, and the first of the errors. */
typedef struct {
  size_t n;
  Message first;
} Failed;

/* Such a point has none: NaN, as with CmdStan. Running out of memory is not the point's fault. */
static void no_quantities(Ctx *c, const Generating *g, const Message *why, Failed *f) {
  if (c->status == PVI_FAILURE) ctx_fail(c, PVI_FAILURE, why->loc, "%s", why->text);
  if (!f->n++) f->first = *why;
  const Model *m = g->s->m;
  double *out = g->out;
  for (int k = 0; k < m->noutputs; out += m->outputs[k++].n)
    for (int32_t j = 0; m->outputs[k].block == BLOCK_GENERATED && j < m->outputs[k].n; j++)
      out[j] = NAN;
}

static void warn_failed(Ctx *c, const Failed *f, size_t points) {
  if (f->n)
    ctx_warn(c, f->first.loc,
             "%s; %zu of %zu draw%s no generated quantities for such a reason: "
             "they are NaN",
             f->first.text, f->n, points, f->n == 1 ? " has" : "s have");
}

/* Of `count` points, the first of which is number `from` of all. */
static void generate_all(Ctx *c, const Columns *s, uint64_t seed, size_t from, size_t count,
                         double *out, Failed *failed) {
  TempArena *values = temp_open(c), *nodes = temp_open(c);
  ArenaMark value_mark = arena_mark(&values->arena), node_mark = arena_mark(&nodes->arena);
  for (size_t i = 0; i < count; i++) {
    Generating g = {s, &values->arena, &nodes->arena, rngs_make(seed, from + i + 1),
                    out + i * s->ncols};
    Message why;
    if (!ctx_try(c, generate, &g, &why)) no_quantities(c, &g, &why, failed);
    arena_reset(&values->arena, value_mark);
    arena_reset(&nodes->arena, node_mark);
  }
  temp_close(nodes);
  temp_close(values);
}

/* The wanted columns of `count` points, one after the other; returns where the next ones go. */
static double *keep_wanted(const Columns *s, const double *all, size_t count, double *out) {
  for (size_t i = 0; i < count; i++) {
    const double *from = all + i * s->ncols;
    for (int k = 0; k < s->m->noutputs; from += s->m->outputs[k++].n) {
      size_t n = (size_t)s->m->outputs[k].n;
      if (!is_wanted(s, k)) continue;
      memcpy(out, from, n * sizeof *out);
      out += n;
    }
  }
  return out;
}

void model_some_outputs(Ctx *c, const Model *m, const ModelPoints *p, uint64_t seed,
                        const bool *wanted, double *out) {
  enum { BATCH = 64 };
  TempArena *temp = temp_open(c);
  Columns s = columns_of(&temp->arena, &temp->arena, m, wanted);
  Failed failed = {.n = 0};
  Work *w = work_of(&temp->arena, &s, BATCH);
  ModelLanes lanes = {vm_theta(w), BATCH, vm_ld(w)};
  double *all = NEW_ARRAY(&temp->arena, double, s.ncols *BATCH + 1);
  for (size_t i = 0; i < p->n; i += BATCH) {
    size_t count = model_lanes(m, p, i, lanes);
    vm_forward(w, lanes.theta);
    graph_outputs(&s, w, count, all);
    if (s.generates) generate_all(c, &s, seed, i, count, all, &failed);
    out = keep_wanted(&s, all, count, out);
  }
  warn_failed(c, &failed, p->n);
  temp_close(temp);
}

void model_outputs(Ctx *c, const Model *m, const ModelPoints *p, uint64_t seed, double *out) {
  model_some_outputs(c, m, p, seed, NULL, out);
}
