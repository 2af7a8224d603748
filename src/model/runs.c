/* runs.c: programs whose course depends on their parameters, evaluated draw by draw.
 *
 * All that follows the parameters is one RUN node of the graph: its inputs are the parameters on
 * the program's scale, its outputs the prior, what the program adds to the Jacobian, the log
 * likelihood of every observation, and the transformed parameters.
 *
 * To evaluate a draw is to follow the program with its numbers (follow.c), which gives a graph and
 * the decisions that were made on the way. The graph holds for every draw that makes the same
 * decisions, and such draws are many: so graphs are kept, with tapes for several draws at a time,
 * and a draw is followed only when none of them is its own. Finding out is cheap: a tape computes
 * its decisions, too, and compares.
 *
 * A draw on which the program fails or rejects has no density. One with more or fewer observations
 * than usual has the usual number, each with an equal part of the sum.
 */
#include "model/model_int.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
  BATCH = 16,           /* draws that a tape evaluates together */
  MOST_TRACES = 128,    /* more are not kept: the next ones are forgotten at once, */
  MOST_BYTES = 1 << 28, /* nor is more memory */
  FIRST_OBS = RUN_OBSERVATIONS,
};

/* Buffers of a trace's tape, in use by one thread at a time. */
typedef struct TraceWork {
  Ctx ctx;
  Work *work;
  double *theta, *adjoint; /* [inputs x BATCH] */
  double *outputs;         /* [outputs x BATCH], or their adjoints */
  struct TraceWork *next;
} TraceWork;

/* A course that some draws take. */
typedef struct Trace {
  Ctx ctx;
  const Tape *tape; /* NULL: the program failed there */
  const Decision *decisions;
  size_t ndecisions;
  const double *no_seeds; /* of the decisions: zeros */
  size_t n_obs;
  TraceWork *idle;
  struct Trace *next;
} Trace;

struct Runs {
  Closer closer;
  IrRun run;
  const Program *program;
  ModelOptions options;
  const KnownVariable *known;
  int nknown;
  const Output *parameters; /* and where each begins among the inputs: Output.offset */
  int nparameters;
  size_t n_obs;         /* of every draw */
  pthread_mutex_t lock; /* guards what follows, and Trace.idle */
  Trace *traces;
  int ntraces;
  size_t bytes; /* of them */
  Trace *spare; /* traces that are not kept: their memory is for the next ones */
  bool closed;
};

/* ---- following a draw ------------------------------------------------------------------------ */

static void set_variables(Eval *E, const Runs *r) {
  for (int k = 0; k < r->nknown; k++)
    E->frame[r->known[k].decl->slot] =
        (Var){outputs_view(E->arena, r->known[k].value), r->known[k].decl, NULL, NULL};
  tuples_prepare(E);
  for (int k = 0; k < r->nparameters; k++) {
    const Output *o = &r->parameters[k];
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
static void pick_observations(Eval *E, const Runs *r, const Observations *o, Pick *picks) {
  for (int b = 0; b < o->nblocks && o->n == r->n_obs; b++)
    for (int32_t k = 0; k < o->blocks[b].rows; k++)
      picks[o->blocks[b].obs[k]] = (Pick){o->blocks[b].root, k};
  if (o->n == r->n_obs) return;
  Value *sum = value_real(E, 0);
  for (int b = 0; b < o->nblocks; b++) {
    Value *all = value_of_node(E, value_shape(E, TY_VECTOR, 0, 1, &o->blocks[b].rows), NULL,
                               o->blocks[b].root);
    sum = map2(E, IR_ADD, sum, value_sum(E, all));
  }
  if (!r->n_obs) {
    add_to_prior(E, sum);
    return;
  }
  Node each = value_node(E, map2(E, IR_DIV, sum, value_real(E, (double)r->n_obs)));
  for (size_t k = 0; k < r->n_obs; k++) picks[k] = (Pick){each, 0};
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

static Eval evaluator(Trace *t, const Runs *r, Draw *d) {
  Ctx *c = &t->ctx;
  return (Eval){.ctx = c,
                .arena = &c->arena,
                .graph = ir_graph(c),
                .program = r->program,
                .frame = NEW_ARRAY(&c->arena, Var, r->program->nslots + 1),
                .loop = -1,
                .iteration = -1,
                .unroll = r->options.unroll,
                .shared = NEW(&c->arena, EvalNotes),
                .draw = d,
                .observe = r->options.observe,
                .nobserve = r->options.nobserve,
                .guess = r->options.guess,
                .nguess = r->options.nguess,
                .observe_found = NEW_ARRAY(&c->arena, bool, r->options.nobserve + 1)};
}

static void plan(Trace *t, const Runs *r, Eval *E, const Draw *d, Node outputs) {
  Node *roots = NEW_ARRAY(E->arena, Node, d->ndecisions + 1);
  int32_t rows = r->run.outputs, *all = NEW_ARRAY(E->arena, int32_t, rows);
  for (size_t k = 0; k < d->ndecisions; k++) roots[k] = d->decisions[k].node;
  for (int32_t k = 0; k < rows; k++) all[k] = k;
  VmBlock block = {.rows = rows, .select = all, .nselect = rows};
  for (int h = 0; h < VM_HEADS; h++) block.heads[h] = h ? NO_NODE : outputs;
  t->tape = vm_plan(E->arena, &(VmPlan){.graph = E->graph,
                                        .dim = (size_t)r->run.inputs,
                                        .roots = roots,
                                        .nroots = (int)d->ndecisions,
                                        .blocks = &block,
                                        .nblocks = 1});
  t->decisions = d->decisions;
  t->ndecisions = d->ndecisions;
  t->no_seeds = NEW_ARRAY(E->arena, double, d->ndecisions + 1);
}

/* What may fail does so into a context of its own; false: it did. */
static bool succeeds(Ctx *c, void (*work)(void *self), void *self) {
  jmp_buf here;
  bool fine = !setjmp(here);
  if (fine) {
    c->trap = &here;
    work(self);
  }
  c->trap = NULL;
  return fine;
}

typedef struct {
  const Runs *r;
  Trace *t;
  const double *in; /* of the draw: numbers `step` apart */
  size_t step;
} Following;

static void follow(void *self) {
  const Following *f = self;
  const Runs *r = f->r;
  Trace *t = f->t;
  Arena *a = &t->ctx.arena;
  double *inputs = NEW_ARRAY(a, double, r->run.inputs);
  for (int32_t k = 0; k < r->run.inputs; k++) inputs[k] = f->in[(size_t)k * f->step];
  Draw *d = NEW(a, Draw);
  *d = (Draw){.arena = a, .inputs = inputs};
  Eval E = evaluator(t, r, d);
  set_variables(&E, r);
  model_run_block(&E, BLOCK_TRANSFORMED_PARAMETERS, false);
  model_run_block(&E, BLOCK_MODEL, false);
  Observations o = observations_split(&E);
  t->n_obs = o.n;
  if (!r->run.outputs) return; /* only to count */
  Pick *picks = NEW_ARRAY(a, Pick, r->run.outputs);
  pick_observations(&E, r, &o, picks + FIRST_OBS);
  picks[RUN_PRIOR] = (Pick){model_total(&E, E.prior, E.nprior), 0};
  picks[RUN_JACOBIAN] = (Pick){model_total(&E, E.jacobian, E.njacobian), 0};
  pick_transformed(&E, picks + FIRST_OBS + r->n_obs);
  plan(t, r, &E, d, ir_pack(E.graph, picks, r->run.outputs));
}

static Trace *take_spare(Runs *r) {
  pthread_mutex_lock(&r->lock);
  Trace *t = r->spare;
  if (t) r->spare = t->next;
  pthread_mutex_unlock(&r->lock);
  return t;
}

static Trace *new_trace(void) {
  Trace *t = calloc(1, sizeof *t);
  if (t) ctx_init(&t->ctx);
  return t;
}

/* A course of its own for a draw; where the program fails it has no tape, and its Ctx says why. */
static Trace *record(Runs *r, const double *in, size_t step) {
  Trace *t = take_spare(r);
  if (!t) t = new_trace();
  if (!t) return NULL;
  if (!succeeds(&t->ctx, follow, &(Following){r, t, in, step})) t->tape = NULL;
  return t;
}

/* ---- tapes of several draws ------------------------------------------------------------------ */

typedef struct {
  const Runs *r;
  const Trace *t;
  TraceWork *w;
} Buffers;

static void make_buffers(void *self) {
  const Buffers *b = self;
  Arena *a = &b->w->ctx.arena;
  size_t inputs = (size_t)b->r->run.inputs, outputs = (size_t)b->r->run.outputs;
  b->w->work = vm_work(a, b->t->tape, BATCH, NULL);
  b->w->theta = NEW_ARRAY(a, double, inputs *BATCH);
  b->w->adjoint = NEW_ARRAY(a, double, inputs *BATCH);
  b->w->outputs = NEW_ARRAY(a, double, outputs *BATCH);
}

/* NULL: out of memory */
static TraceWork *make_work(const Runs *r, const Trace *t) {
  TraceWork *w = calloc(1, sizeof *w);
  if (!w) return NULL;
  ctx_init(&w->ctx);
  if (succeeds(&w->ctx, make_buffers, &(Buffers){r, t, w})) return w;
  ctx_free(&w->ctx);
  free(w);
  return NULL;
}

static TraceWork *take_work(Runs *r, Trace *t) {
  pthread_mutex_lock(&r->lock);
  TraceWork *w = t->idle;
  if (w) t->idle = w->next;
  pthread_mutex_unlock(&r->lock);
  return w ? w : make_work(r, t);
}

static void give_work(Runs *r, Trace *t, TraceWork *w) {
  pthread_mutex_lock(&r->lock);
  w->next = t->idle;
  t->idle = w;
  pthread_mutex_unlock(&r->lock);
}

static void free_works(Trace *t) {
  for (TraceWork *w = t->idle, *next; w; w = next) {
    next = w->next;
    ctx_free(&w->ctx);
    free(w);
  }
  t->idle = NULL;
}

static void free_trace(Trace *t) {
  free_works(t);
  ctx_free(&t->ctx);
  free(t);
}

static void drop_trace(Runs *r, Trace *t) {
  free_works(t);
  ctx_recycle(&t->ctx);
  pthread_mutex_lock(&r->lock);
  *t = (Trace){.ctx = t->ctx, .next = r->spare};
  r->spare = t;
  pthread_mutex_unlock(&r->lock);
}

static void free_traces(Trace *t) {
  for (Trace *next; t; t = next) {
    next = t->next;
    free_trace(t);
  }
}

/* Some draws of a piece, at most BATCH of them. */
typedef struct {
  const IrPiece *p;
  const double *in;
  size_t lane[BATCH], n;
} Batch;

static void load(const Runs *r, const Batch *b, TraceWork *w) {
  for (int32_t k = 0; k < r->run.inputs; k++)
    for (size_t j = 0; j < BATCH; j++)
      w->theta[(size_t)k * BATCH + j] = b->in[(size_t)k * b->p->lanes + b->lane[j < b->n ? j : 0]];
  vm_forward(w->work, w->theta);
}

/* Does draw j of a batch take this course? */
static bool takes(const Trace *t, const TraceWork *w, size_t j) {
  for (size_t k = 0; k < t->ndecisions; k++)
    for (int32_t e = 0; e < t->decisions[k].count; e++) {
      double x = vm_value(w->work, (int)k, e)[j], y = t->decisions[k].numbers[e];
      if (x != y && !(isnan(x) && isnan(y))) return false;
    }
  return true;
}

typedef struct {
  TraceWork *w;
  const Batch *b;
  const double *out_adj; /* NULL: values are wanted */
} Tile;

static void keep_tile(void *self, const TileView *t) {
  Tile *x = self;
  for (size_t e = 0; e < t->rows; e++)
    memcpy(x->w->outputs + (t->row + e) * BATCH, t->heads[0] + e * t->ld,
           BATCH * sizeof *x->w->outputs);
}

static void seed_tile(void *self, const TileView *t) {
  const Tile *x = self;
  for (size_t e = 0; e < t->rows; e++)
    for (size_t j = 0; j < t->ld; j++)
      t->adj[0][e * t->ld + j] =
          j < x->b->n ? x->out_adj[(t->row + e) * x->b->p->lanes + x->b->lane[j]] : 0;
}

/* ---- the node -------------------------------------------------------------------------------- */

/* Of one tape: which course each draw took. */
typedef struct {
  Runs *runs;
  Trace **of; /* per lane; NULL: none yet, or it is not kept */
} RunWork;

static void *run_work(const IrRun *run, Arena *a, size_t lanes) {
  RunWork *w = NEW(a, RunWork);
  *w = (RunWork){run->self, NEW_ARRAY(a, Trace *, lanes)};
  return w;
}

/* No density: it cannot be evaluated. */
static void fail_draw(const Runs *r, const IrPiece *p, size_t lane, double *out) {
  int32_t transformed = FIRST_OBS + (int32_t)r->n_obs;
  for (int32_t k = 0; k < r->run.outputs; k++)
    out[(size_t)k * p->lanes + lane] = k == RUN_JACOBIAN ? 0 : k < transformed ? -INFINITY : NAN;
}

/* Evaluates the draws of the batch that take the course; those that do not stay in the batch. `own`
 * is the one that was followed, which takes it whatever rounding says; SIZE_MAX: none. */
static void try_trace(RunWork *w, Trace *t, Batch *b, size_t own, double *out) {
  Runs *r = w->runs;
  TraceWork *x = t->tape ? take_work(r, t) : NULL;
  size_t left = 0;
  if (!x) return;
  load(r, b, x);
  vm_tiles(x->work, keep_tile, &(Tile){.w = x, .b = b}, false);
  for (size_t j = 0; j < b->n; j++) {
    size_t lane = b->lane[j];
    if (lane == own || takes(t, x, j)) {
      w->of[b->p->lane + lane] = t;
      for (int32_t k = 0; k < r->run.outputs; k++)
        out[(size_t)k * b->p->lanes + lane] = x->outputs[(size_t)k * BATCH + j];
    } else {
      b->lane[left++] = lane;
    }
  }
  b->n = left;
  give_work(r, t, x);
}

static Trace *first_trace(Runs *r) {
  pthread_mutex_lock(&r->lock);
  Trace *t = r->traces;
  pthread_mutex_unlock(&r->lock);
  return t;
}

/* Keeps the course for others, unless there are too many; true: it was kept. */
static bool keep_trace(Runs *r, Trace *t) {
  pthread_mutex_lock(&r->lock);
  size_t bytes = arena_bytes(&t->ctx.arena);
  bool room = r->ntraces < MOST_TRACES && r->bytes + bytes <= MOST_BYTES && !r->closed;
  if (room) {
    r->bytes += bytes;
    t->next = r->traces;
    r->traces = t;
    r->ntraces++;
  }
  pthread_mutex_unlock(&r->lock);
  return room;
}

/* The last draw of the batch is followed. */
static Trace *record_last(Runs *r, const Batch *b) {
  return record(r, b->in + b->lane[b->n - 1], b->p->lanes);
}

static void follow_last(RunWork *w, Batch *b, double *out) {
  Runs *r = w->runs;
  Trace *t = record_last(r, b);
  size_t n = b->n, lane = b->lane[n - 1];
  bool kept = t && t->tape && keep_trace(r, t);
  if (t && t->tape) try_trace(w, t, b, lane, out);
  if (b->n == n) { /* it failed */
    fail_draw(r, b->p, lane, out);
    w->of[b->p->lane + lane] = NULL;
    b->n--;
  }
  if (!t || kept) return;
  for (size_t j = 0; j < b->p->count; j++)
    if (w->of[b->p->lane + j] == t) w->of[b->p->lane + j] = NULL;
  drop_trace(r, t);
}

static void forward(void *work, const IrPiece *p, const double *in, double *out) {
  RunWork *w = work;
  for (size_t first = 0; first < p->count; first += BATCH) {
    Batch b = {.p = p, .in = in};
    for (size_t j = first; j < p->count && j < first + BATCH; j++) b.lane[b.n++] = j;
    Trace *last = w->of[p->lane + first];
    if (last) try_trace(w, last, &b, SIZE_MAX, out);
    for (Trace *t = first_trace(w->runs); t && b.n; t = t->next)
      if (t != last) try_trace(w, t, &b, SIZE_MAX, out);
    while (b.n) follow_last(w, &b, out);
  }
  for (int32_t k = 0; k < w->runs->run.outputs; k++)
    for (size_t j = p->count; j < p->n; j++)
      out[(size_t)k * p->lanes + j] = p->count ? out[(size_t)k * p->lanes] : 0;
}

/* Adjoints of the outputs become those of the inputs; decisions have no derivatives. */
static void pull(RunWork *w, Trace *t, const Batch *b, const double *out_adj, double *in_adj) {
  Runs *r = w->runs;
  TraceWork *x = take_work(r, t);
  if (!x) return;
  load(r, b, x);
  vm_tiles(x->work, seed_tile, &(Tile){.w = x, .b = b, .out_adj = out_adj}, true);
  vm_backward(x->work, t->no_seeds, NULL, x->adjoint);
  for (int32_t k = 0; k < r->run.inputs; k++)
    for (size_t j = 0; j < b->n; j++)
      in_adj[(size_t)k * b->p->lanes + b->lane[j]] += x->adjoint[(size_t)k * BATCH + j];
  give_work(r, t, x);
}

/* Draws whose course was not kept are followed once more. */
static void backward(void *work, const IrPiece *p, const double *in, const double *out_adj,
                     double *in_adj) {
  RunWork *w = work;
  bool *done = calloc(p->count + 1, sizeof *done);
  for (size_t j = 0; done && j < p->count; j++) {
    Trace *t = w->of[p->lane + j], *own = NULL;
    Batch b = {.p = p, .in = in, .lane = {j}, .n = 1};
    if (done[j]) continue;
    if (!t) own = t = record_last(w->runs, &b);
    for (size_t i = j + 1; !own && i < p->count && b.n < BATCH; i++)
      if (!done[i] && w->of[p->lane + i] == t) b.lane[b.n++] = i;
    for (size_t i = 0; i < b.n; i++) done[b.lane[i]] = true;
    if (t && t->tape) pull(w, t, &b, out_adj, in_adj);
    if (own) drop_trace(w->runs, own);
  }
  free(done);
}

/* ---- making it ------------------------------------------------------------------------------- */

static void close_runs(Closer *self) {
  Runs *r = (Runs *)self;
  ctx_closed(&r->closer);
  free_traces(r->traces);
  free_traces(r->spare);
  r->traces = r->spare = NULL;
  r->ntraces = 0;
  r->bytes = 0;
  r->closed = true;
}

Runs *runs_make(Eval *E, const ModelOptions *o, const RunInputs *in) {
  Runs *r = NEW(E->arena, Runs);
  *r = (Runs){
      .program = E->program,
      .options = *o,
      .known = in->known,
      .nknown = in->nknown,
      .parameters = in->parameters,
      .nparameters = in->nparameters,
      .run = {
          .inputs = in->n, .self = r, .work = run_work, .forward = forward, .backward = backward}};
  long *lines = NEW_ARRAY(E->arena, long, o->nobserve + 1);
  for (int k = 0; k < o->nobserve; k++) lines[k] = o->observe[k];
  r->options.observe = lines;
  pthread_mutex_init(&r->lock, NULL);
  ctx_opened(E->ctx, &r->closer, close_runs);
  return r;
}

bool runs_count(Runs *r, Arena *a, const double *inputs, size_t *n_obs, Message *why) {
  Trace *t = record(r, inputs, 1);
  bool fine = t && !t->ctx.nerrors;
  if (fine) *n_obs = t->n_obs;
  if (t && !fine) {
    *why = t->ctx.messages[t->ctx.nmessages - 1];
    why->text = arena_text(a, why->text, strlen(why->text));
  }
  if (t) drop_trace(r, t);
  return fine;
}

Node runs_node(Runs *r, Graph *g, Node inputs, size_t n_obs, int32_t transformed) {
  r->n_obs = n_obs;
  r->run.outputs = FIRST_OBS + (int32_t)n_obs + transformed;
  return ir_run(g, &r->run, inputs);
}
