/* runs.c: what is evaluated draw by draw, because its course depends on its inputs.
 *
 * It is one RUN node of the graph: the whole program behind its parameters (run_program.c), or the
 * calls of a function in all rows of a loop (run_calls.c). A *lane* is one row of one draw; lanes
 * have inputs of their own and do not know each other. What a lane computes is told by a Course.
 *
 * To evaluate a lane is to follow the program with its numbers (follow.c), which gives a graph and
 * the decisions that were made on the way. The graph holds for every lane that makes the same
 * decisions, and such lanes are many: so graphs are kept, with tapes for several lanes at a time,
 * and a lane is followed only when none of them is its own. Finding out is cheap: a tape computes
 * its decisions, too, and compares. The first one that is not the lane's tells where to look next:
 * at a graph whose decisions are the same up to there, and this one as the lane makes it.
 *
 * Where the program fails or rejects the outputs are those that the Course says.
 */
#include "model/model_int.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
  BATCH = 32,           /* lanes that a tape evaluates together */
  MOST_TRACES = 4096,   /* that are kept, and */
  MOST_BYTES = 1 << 28, /* their memory: then those that were not used for long make room */
  MOST_IDLE = 1 << 26,  /* bytes of buffers that wait */
};

/* Buffers of a trace's tape, in use by one thread at a time. */
typedef struct TraceWork {
  Ctx ctx;
  Work *work;
  double *theta, *adjoint; /* [inputs x BATCH] */
  double *outputs;         /* [outputs x BATCH], or their adjoints */
  struct TraceWork *next;
} TraceWork;

/* Memory in which a lane is followed. */
typedef struct Room {
  Ctx ctx;
  struct Room *next;
} Room;

/* A course that some lanes take. */
typedef struct Trace {
  Ctx ctx;
  Room *room; /* what the tape reads that could not be copied, or NULL */
  const Tape *tape;
  const double *decided; /* the numbers of all decisions, one after the other: root 0 of the tape */
  size_t ndecided;
  TraceWork *idle;
  int number;     /* of those that are kept, from 1; 0: it is not */
  uint64_t stamp; /* no other trace of these Runs has it */
  uint64_t used;  /* when it was: Runs.visits */
  size_t bytes;
  struct Trace *next;
} Trace;

/* The node of so many rows. */
typedef struct RunNode {
  IrRun run;
  Runs *runs;
  size_t rows;
  struct RunNode *next;
} RunNode;

struct Runs {
  Closer closer;
  Course *course;
  Arena *arena;
  RunNode *nodes;
  pthread_mutex_t lock; /* guards what follows, and Trace.idle */
  Trace *kept[MOST_TRACES];
  int nkept;
  size_t bytes;    /* of them */
  uint64_t stamps; /* that have been given */
  uint64_t visits; /* of pieces so far, */
  int visitors;    /* and those that are running */
  bool full;       /* a trace could not be kept */
  size_t idle;     /* bytes of TraceWorks that nobody uses */
  bool no_idle;    /* one could not be kept */
  Room *rooms;     /* nobody is in them */
  Trace *spare;    /* traces that are not kept: their memory is for the next ones */
  bool closed;
};

/* ---- following a lane ------------------------------------------------------------------------ */

/* The inputs of a lane: numbers `step` apart. */
typedef struct {
  const double *in;
  size_t step;
} Inputs;

/* What became of a lane that was followed. */
typedef struct {
  Course *course;
  Inputs from;
  Room *room;
  const Graph *graph;
  Node outputs, decisions; /* NO_NODE: there are none */
  const double *decided;
  int32_t ndecided;
  Trace *t;
} Following;

static Eval evaluator(Ctx *c, const Course *r, Draw *d) {
  const ModelOptions *o = r->options;
  return (Eval){.ctx = c,
                .arena = &c->arena,
                .graph = ir_graph(c),
                .program = r->program,
                .frame = NEW_ARRAY(&c->arena, Var, r->program->nslots + 1),
                .loop = -1,
                .iteration = -1,
                .unroll = o->unroll,
                .shared = NEW(&c->arena, EvalNotes),
                .draw = d,
                .observe = o->observe,
                .nobserve = o->nobserve,
                .guess = o->guess,
                .nguess = o->nguess,
                .observe_found = NEW_ARRAY(&c->arena, bool, o->nobserve + 1)};
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

static void join_decisions(Following *f, Eval *E, const Draw *d) {
  int32_t n = 0, at = 0;
  for (size_t k = 0; k < d->ndecisions; k++) n += d->decisions[k].count;
  Pick *picks = NEW_ARRAY(E->arena, Pick, n + 1);
  double *numbers = NEW_ARRAY(E->arena, double, n + 1);
  for (size_t k = 0; k < d->ndecisions; k++)
    for (int32_t e = 0; e < d->decisions[k].count; e++) {
      numbers[at] = d->decisions[k].numbers[e];
      picks[at++] = (Pick){d->decisions[k].node, e};
    }
  f->decided = numbers;
  f->ndecided = n;
  f->decisions = n ? ir_pack(E->graph, picks, n) : NO_NODE;
}

static void follow(void *self) {
  Following *f = self;
  Course *r = f->course;
  Arena *a = &f->room->ctx.arena;
  double *inputs = NEW_ARRAY(a, double, r->inputs);
  for (int32_t k = 0; k < r->inputs; k++) inputs[k] = f->from.in[(size_t)k * f->from.step];
  Draw d = {.arena = a, .inputs = inputs};
  Eval E = evaluator(&f->room->ctx, r, &d);
  f->outputs = r->follow(r, &E);
  f->graph = E.graph;
  join_decisions(f, &E, &d);
}

/* The graph of a lane that was followed becomes a tape. What the steps of a loop have done one by
 * one is done together, and all that the program had in its hands on the way is forgotten. */
static void plan(void *self) {
  const Following *f = self;
  Trace *t = f->t;
  Arena *a = &t->ctx.arena, *temp = &f->room->ctx.arena;
  f->room->ctx.trap = t->ctx.trap;
  int32_t rows = f->course->outputs, *all = NEW_ARRAY(a, int32_t, rows);
  Node wanted[] = {f->outputs, f->decisions};
  int n = f->ndecided > 0;
  const Graph *joined = ir_reroll(temp, f->graph, wanted, 1 + n, 1),
              *own = ir_extract(a, temp, joined, wanted, 1 + n);
  if (!own) t->room = f->room;
  for (int32_t k = 0; k < rows; k++) all[k] = k;
  VmBlock block = {.rows = rows, .select = all, .nselect = rows};
  for (int h = 0; h < VM_HEADS; h++) block.heads[h] = h ? NO_NODE : wanted[0];
  t->tape = vm_plan(a, &(VmPlan){.graph = own ? own : joined,
                                 .dim = (size_t)f->course->inputs,
                                 .roots = wanted + 1,
                                 .nroots = n,
                                 .blocks = &block,
                                 .nblocks = 1});
  t->ndecided = (size_t)f->ndecided;
  t->decided =
      memcpy(NEW_ARRAY(a, double, t->ndecided + 1), f->decided, t->ndecided * sizeof *t->decided);
  f->room->ctx.trap = NULL;
}

static Room *take_room(Runs *r) {
  pthread_mutex_lock(&r->lock);
  Room *x = r->rooms;
  if (x) r->rooms = x->next;
  pthread_mutex_unlock(&r->lock);
  if (!x && (x = calloc(1, sizeof *x))) ctx_init(&x->ctx);
  return x;
}

static void give_room(Runs *r, Room *x) {
  if (!x) return;
  ctx_recycle(&x->ctx);
  pthread_mutex_lock(&r->lock);
  x->next = r->rooms;
  r->rooms = x;
  pthread_mutex_unlock(&r->lock);
}

static Trace *take_spare(Runs *r) {
  pthread_mutex_lock(&r->lock);
  Trace *t = r->spare;
  if (t) r->spare = t->next;
  pthread_mutex_unlock(&r->lock);
  if (!t && (t = calloc(1, sizeof *t))) ctx_init(&t->ctx);
  return t;
}

static void drop_trace(Runs *r, Trace *t);

/* A course of its own for a lane; NULL: the program fails there, or memory is out. */
static Trace *record(Runs *r, Inputs from) {
  Following f = {.course = r->course, .from = from, .room = take_room(r)};
  if (f.room && succeeds(&f.room->ctx, follow, &f)) f.t = take_spare(r);
  bool fine = f.t && succeeds(&f.t->ctx, plan, &f);
  if (!fine || !f.t->room) give_room(r, f.room);
  if (fine) return f.t;
  if (f.t) f.t->room = NULL;
  if (f.t) drop_trace(r, f.t);
  return NULL;
}

/* ---- tapes of several lanes ------------------------------------------------------------------ */

typedef struct {
  const Course *r;
  const Trace *t;
  TraceWork *w;
} Buffers;

static void free_work(TraceWork *w) {
  ctx_free(&w->ctx);
  free(w);
}

static void make_buffers(void *self) {
  const Buffers *b = self;
  Arena *a = &b->w->ctx.arena;
  size_t inputs = (size_t)b->r->inputs, outputs = (size_t)b->r->outputs;
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
  if (succeeds(&w->ctx, make_buffers, &(Buffers){r->course, t, w})) return w;
  free_work(w);
  return NULL;
}

static TraceWork *take_work(Runs *r, Trace *t) {
  pthread_mutex_lock(&r->lock);
  TraceWork *w = t->idle;
  if (w) t->idle = w->next;
  if (w) r->idle -= arena_bytes(&w->ctx.arena);
  pthread_mutex_unlock(&r->lock);
  return w ? w : make_work(r, t);
}

static void give_work(Runs *r, Trace *t, TraceWork *w) {
  pthread_mutex_lock(&r->lock);
  t->used = r->visits;
  size_t bytes = arena_bytes(&w->ctx.arena);
  bool keep = r->idle + bytes <= MOST_IDLE;
  r->no_idle |= !keep;
  if (keep) {
    r->idle += bytes;
    w->next = t->idle;
    t->idle = w;
  }
  pthread_mutex_unlock(&r->lock);
  if (!keep) free_work(w);
}

/* Nobody else uses the trace. */
static void free_works(Runs *r, Trace *t) {
  for (TraceWork *w = t->idle, *next; w; w = next) {
    next = w->next;
    r->idle -= arena_bytes(&w->ctx.arena);
    free_work(w);
  }
  t->idle = NULL;
}

static void free_room(Room *x) {
  if (x) ctx_free(&x->ctx);
  free(x);
}

static void free_trace(Runs *r, Trace *t) {
  free_works(r, t);
  ctx_free(&t->ctx);
  free_room(t->room);
  free(t);
}

static void drop_trace(Runs *r, Trace *t) {
  give_room(r, t->room);
  pthread_mutex_lock(&r->lock);
  free_works(r, t);
  ctx_recycle(&t->ctx);
  *t = (Trace){.ctx = t->ctx, .next = r->spare};
  r->spare = t;
  pthread_mutex_unlock(&r->lock);
}

/* ---- lanes of a piece ------------------------------------------------------------------------ */

/* Which course a lane took: a number that Trace.stamp may have left since. */
typedef struct {
  int32_t number; /* 0: none yet, or it is not kept; FAILED: what evaluates it fails */
  uint64_t stamp;
} Took;
enum { FAILED = -1 };

/* Of one tape. */
typedef struct {
  const RunNode *node;
  size_t lanes;  /* of a row */
  Took *of;      /* [rows x lanes] */
  int32_t *next; /* [rows x lanes]: in a queue */
  size_t *depth; /* [rows x lanes]: so many decisions are known to be those of the lane's queue */
} RunWork;

/* Where numbers of draw j of row r lie: element k at (r each + k) lanes + j. */
typedef struct {
  const RunWork *w;
  const IrPiece *p;
  const double *in;
} Piece;

static size_t lanes_of(const Piece *q) { return q->w->node->rows * q->p->count; }

/* Lane x of a piece: its place among the lanes of the tape, and that of its first number. */
static size_t place(const Piece *q, size_t x) {
  return x / q->p->count * q->w->lanes + q->p->lane + x % q->p->count;
}

static size_t first_number(const Piece *q, size_t x, int32_t each) {
  return x / q->p->count * (size_t)each * q->p->lanes + x % q->p->count;
}

static const Course *course_of(const Piece *q) { return q->w->node->runs->course; }

static Inputs inputs_of(const Piece *q, size_t x) {
  return (Inputs){q->in + first_number(q, x, course_of(q)->inputs), q->p->lanes};
}

/* Some lanes of a piece, at most BATCH of them. */
typedef struct {
  size_t lane[BATCH], n;
} Batch;

static void load(const Piece *q, const Batch *b, TraceWork *w) {
  int32_t inputs = course_of(q)->inputs;
  for (size_t j = 0; j < BATCH; j++) {
    Inputs from = inputs_of(q, b->lane[j < b->n ? j : 0]);
    for (int32_t k = 0; k < inputs; k++)
      w->theta[(size_t)k * BATCH + j] = from.in[(size_t)k * from.step];
  }
  vm_forward(w->work, w->theta);
}

typedef struct {
  TraceWork *w;
  const Piece *q;
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
  int32_t outputs = course_of(x->q)->outputs;
  for (size_t j = 0; j < t->ld; j++) {
    const double *from =
        j < x->b->n ? x->out_adj + first_number(x->q, x->b->lane[j], outputs) : NULL;
    for (size_t e = 0; e < t->rows; e++)
      t->adj[0][e * t->ld + j] = from ? from[(t->row + e) * x->q->p->lanes] : 0;
  }
}

/* ---- whose course it is ---------------------------------------------------------------------- */

/* A decision that was made otherwise. */
typedef struct {
  size_t at;
  double number;
} Difference;

static bool same(double x, double y) { return x == y || (isnan(x) && isnan(y)); }

/* Are all lanes of a row this number? */
static bool all_are(const double *row, double y) {
  bool differs = false;
  for (size_t j = 0; j < BATCH; j++) differs |= row[j] != y;
  return !differs;
}

/* The first decision that lanes of a batch make otherwise; those that take the course, none. */
typedef struct {
  bool found[BATCH];
  Difference d[BATCH];
} Differences;

static void compare(const Trace *t, const TraceWork *w, Differences *out) {
  size_t left = BATCH;
  memset(out->found, 0, sizeof out->found);
  for (size_t k = 0; k < t->ndecided && left; k++) {
    const double *row = vm_value(w->work, 0, (int32_t)k), y = t->decided[k];
    if (all_are(row, y)) continue;
    for (size_t j = 0; j < BATCH; j++) {
      if (out->found[j] || same(row[j], y)) continue;
      out->found[j] = true;
      out->d[j] = (Difference){k, row[j]};
      left--;
    }
  }
}

/* Is s as t up to d, and there as d says? Courses that agree so far meet the same decision next. */
static bool agrees(const Trace *s, const Trace *t, const Difference *d) {
  if (s->ndecided <= d->at || !same(s->decided[d->at], d->number)) return false;
  for (size_t k = d->at; k-- > 0;)
    if (!same(s->decided[k], t->decided[k])) return false;
  return true;
}

/* Lanes that wait, by the course to be tried next; 0: none is known. */
typedef struct {
  Piece q;
  double *out;
  int nkept;
  int32_t head[MOST_TRACES + 1]; /* -1: the end */
} Queues;

static void enqueue(Queues *s, int number, size_t x, size_t depth) {
  const RunWork *w = s->q.w;
  size_t at = place(&s->q, x);
  w->next[at] = s->head[number];
  w->depth[at] = depth;
  s->head[number] = (int32_t)x;
}

static bool dequeue(Queues *s, int number, Batch *b) {
  for (b->n = 0; b->n < BATCH && s->head[number] >= 0; b->n++) {
    size_t x = (size_t)s->head[number];
    b->lane[b->n] = x;
    s->head[number] = s->q.w->next[place(&s->q, x)];
  }
  return b->n > 0;
}

static int later(const void *a, const void *b) {
  uint64_t x = (*(Trace *const *)a)->used, y = (*(Trace *const *)b)->used;
  return (x < y) - (x > y);
}

/* The traces that were used last stay, as many as half the room holds. */
static void make_room(Runs *r) {
  int n = r->nkept;
  qsort(r->kept, (size_t)n, sizeof *r->kept, later);
  r->bytes = 0;
  r->nkept = 0;
  for (int k = 0; k < n; k++) {
    Trace *t = r->kept[k];
    r->bytes += t->bytes;
    if (k < MOST_TRACES / 2 && r->bytes <= MOST_BYTES / 2)
      t->number = ++r->nkept;
    else
      free_trace(r, t);
  }
  r->bytes = 0;
  for (int k = 0; k < r->nkept; k++) r->bytes += r->kept[k]->bytes;
  r->full = false;
}

/* Buffers of all: who needs some makes them again. */
static void free_idle(Runs *r) {
  for (int k = 0; k < r->nkept; k++) free_works(r, r->kept[k]);
  r->no_idle = false;
}

/* While nobody looks at traces some may go. */
static void visit(Runs *r) {
  pthread_mutex_lock(&r->lock);
  if (r->full && !r->visitors) make_room(r);
  if (r->no_idle && !r->visitors) free_idle(r);
  r->visits++;
  r->visitors++;
  pthread_mutex_unlock(&r->lock);
}

static void leave(Runs *r) {
  pthread_mutex_lock(&r->lock);
  r->visitors--;
  pthread_mutex_unlock(&r->lock);
}

/* The trace that a lane took last time, as a number; 0: it is not there any more. */
static int number_now(const Runs *r, Took took, int nkept) {
  if (took.number <= 0) return 0;
  if (took.number <= nkept && r->kept[took.number - 1]->stamp == took.stamp) return took.number;
  for (int k = 0; k < nkept; k++)
    if (r->kept[k]->stamp == took.stamp) return k + 1;
  return 0;
}

static void see_kept(Queues *s) {
  Runs *r = s->q.w->node->runs;
  pthread_mutex_lock(&r->lock);
  int n = r->nkept;
  pthread_mutex_unlock(&r->lock);
  while (s->nkept < n) s->head[++s->nkept] = -1;
}

/* Lane x is not t's: it waits for the next course that may be its own. What is known of it must
 * become more, whatever rounding says. */
static void queue_again(Queues *s, const Trace *t, const Difference *d, size_t x) {
  Trace *const *kept = s->q.w->node->runs->kept;
  int number = 0;
  bool more = d->at >= s->q.w->depth[place(&s->q, x)];
  for (int k = 0; k < s->nkept && more && !number; k++)
    if (kept[k] != t && agrees(kept[k], t, d)) number = k + 1;
  enqueue(s, number, x, number ? d->at + 1 : 0);
}

static void store(const Queues *s, size_t x, const double *from, size_t step) {
  int32_t outputs = course_of(&s->q)->outputs;
  double *out = s->out + first_number(&s->q, x, outputs);
  for (int32_t k = 0; k < outputs; k++) out[(size_t)k * s->q.p->lanes] = from[(size_t)k * step];
}

static void fail_lane(const Queues *s, size_t x) {
  store(s, x, course_of(&s->q)->failed, 1);
  s->q.w->of[place(&s->q, x)] = (Took){FAILED, 0};
}

/* Evaluates the lanes of a batch that take the course; the others wait again. `own` is the one that
 * was followed, which takes it whatever rounding says; SIZE_MAX: none. */
static void try_trace(Queues *s, Trace *t, const Batch *b, size_t own) {
  Runs *r = s->q.w->node->runs;
  TraceWork *x = take_work(r, t);
  if (!x) {
    for (size_t j = 0; j < b->n; j++) fail_lane(s, b->lane[j]);
    return;
  }
  load(&s->q, b, x);
  vm_tiles(x->work, keep_tile, &(Tile){.w = x, .q = &s->q, .b = b}, false);
  Differences differ;
  compare(t, x, &differ);
  for (size_t j = 0; j < b->n; j++) {
    size_t lane = b->lane[j];
    if (lane != own && differ.found[j]) {
      queue_again(s, t, &differ.d[j], lane);
      continue;
    }
    s->q.w->of[place(&s->q, lane)] = (Took){t->number, t->stamp};
    store(s, lane, x->outputs + j, BATCH);
  }
  give_work(r, t, x);
}

/* Keeps the course for others, unless there are too many. */
static void keep_trace(Runs *r, Trace *t) {
  size_t bytes = arena_bytes(&t->ctx.arena) + (t->room ? arena_bytes(&t->room->ctx.arena) : 0);
  pthread_mutex_lock(&r->lock);
  r->full |= r->nkept == MOST_TRACES || r->bytes + bytes > MOST_BYTES;
  if (!r->full && !r->closed) {
    r->bytes += t->bytes = bytes;
    r->kept[r->nkept++] = t;
    t->number = r->nkept;
    t->stamp = ++r->stamps;
  }
  pthread_mutex_unlock(&r->lock);
}

/* The first of a batch for which no course is known is followed; all of its kind then try that
 * course. */
static void follow_first(Queues *s, const Batch *b) {
  Runs *r = s->q.w->node->runs;
  size_t own = b->lane[0];
  Trace *t = record(r, inputs_of(&s->q, own));
  if (!t) {
    fail_lane(s, own);
    for (size_t j = 1; j < b->n; j++) enqueue(s, 0, b->lane[j], 0);
    return;
  }
  keep_trace(r, t);
  see_kept(s);
  int32_t rest = s->head[0];
  s->head[0] = -1;
  try_trace(s, t, b, own);
  while (rest >= 0) {
    size_t x = (size_t)rest;
    rest = s->q.w->next[place(&s->q, x)];
    enqueue(s, t->number, x, 0);
  }
  if (!t->number) drop_trace(r, t);
}

static void settle(Queues *s) {
  Batch b;
  for (bool again = true; again;) {
    again = false;
    for (int k = 1; k <= s->nkept; k++)
      for (; dequeue(s, k, &b); again = true)
        try_trace(s, s->q.w->node->runs->kept[k - 1], &b, SIZE_MAX);
    if (dequeue(s, 0, &b)) {
      follow_first(s, &b);
      again = true;
    }
  }
}

/* ---- the node -------------------------------------------------------------------------------- */

static void *run_work(const IrRun *run, Arena *a, size_t lanes) {
  RunWork *w = NEW(a, RunWork);
  const RunNode *node = run->self;
  size_t n = node->rows * lanes;
  *w = (RunWork){node, lanes, NEW_ARRAY(a, Took, n), NEW_ARRAY(a, int32_t, n),
                 NEW_ARRAY(a, size_t, n)};
  return w;
}

static void forward(void *work, const IrPiece *p, const double *in, double *out) {
  const RunWork *w = work;
  Queues s = {.q = {w, p, in}, .out = out, .head = {-1}};
  Runs *r = w->node->runs;
  visit(r);
  see_kept(&s);
  for (size_t x = lanes_of(&s.q); x-- > 0;) {
    int last = number_now(r, w->of[place(&s.q, x)], s.nkept);
    enqueue(&s, last ? last : s.nkept, x, 0);
  }
  settle(&s);
  leave(r);
  for (int32_t k = 0; k < w->node->run.outputs; k++)
    for (size_t j = p->count; j < p->n; j++)
      out[(size_t)k * p->lanes + j] = p->count ? out[(size_t)k * p->lanes] : 0;
}

/* Adjoints of the outputs become those of the inputs; decisions have no derivatives. */
static void pull(const Piece *q, Trace *t, const Batch *b, const double *out_adj, double *in_adj) {
  Runs *r = q->w->node->runs;
  TraceWork *x = take_work(r, t);
  int32_t inputs = course_of(q)->inputs;
  const double no_seed = 0;
  if (!x) return;
  load(q, b, x);
  vm_tiles(x->work, seed_tile, &(Tile){.w = x, .q = q, .b = b, .out_adj = out_adj}, true);
  vm_backward(x->work, &no_seed, NULL, x->adjoint);
  for (size_t j = 0; j < b->n; j++) {
    double *to = in_adj + first_number(q, b->lane[j], inputs);
    for (int32_t k = 0; k < inputs; k++)
      to[(size_t)k * q->p->lanes] += x->adjoint[(size_t)k * BATCH + j];
  }
  give_work(r, t, x);
}

/* A lane whose course was not kept is followed once more. */
static void pull_again(const Piece *q, const Batch *b, const double *out_adj, double *in_adj) {
  Runs *r = q->w->node->runs;
  for (size_t j = 0; j < b->n; j++) {
    Batch one = {.lane = {b->lane[j]}, .n = 1};
    Trace *t = record(r, inputs_of(q, one.lane[0]));
    if (!t) continue;
    pull(q, t, &one, out_adj, in_adj);
    drop_trace(r, t);
  }
}

static void backward(void *work, const IrPiece *p, const double *in, const double *out_adj,
                     double *in_adj) {
  const RunWork *w = work;
  Queues s = {.q = {w, p, in}, .head = {-1}};
  Runs *r = w->node->runs;
  Batch b;
  visit(r);
  see_kept(&s);
  for (size_t x = lanes_of(&s.q); x-- > 0;) {
    Took took = w->of[place(&s.q, x)];
    if (took.number != FAILED) enqueue(&s, number_now(r, took, s.nkept), x, 0);
  }
  while (dequeue(&s, 0, &b)) pull_again(&s.q, &b, out_adj, in_adj);
  for (int k = 1; k <= s.nkept; k++)
    while (dequeue(&s, k, &b)) pull(&s.q, r->kept[k - 1], &b, out_adj, in_adj);
  leave(r);
}

/* ---- making it ------------------------------------------------------------------------------- */

static void close_runs(Closer *self) {
  Runs *r = (Runs *)self;
  ctx_closed(&r->closer);
  for (int k = 0; k < r->nkept; k++) free_trace(r, r->kept[k]);
  for (Trace *t = r->spare, *next; t; t = next) {
    next = t->next;
    free_trace(r, t);
  }
  for (Room *x = r->rooms, *next; x; x = next) {
    next = x->next;
    free_room(x);
  }
  r->spare = NULL;
  r->rooms = NULL;
  r->nkept = 0;
  r->bytes = 0;
  r->closed = true;
}

Runs *runs_make(Eval *E, Course *course) {
  Runs *r = NEW(E->arena, Runs);
  *r = (Runs){.course = course, .arena = E->arena};
  pthread_mutex_init(&r->lock, NULL);
  ctx_opened(E->ctx, &r->closer, close_runs);
  return r;
}

Course *runs_course(const Runs *r) { return r->course; }

bool runs_try(Runs *r, Course *course, Arena *a, const double *inputs, Message *why) {
  Following f = {.course = course, .from = {inputs, 1}, .room = take_room(r)};
  bool fine = f.room && succeeds(&f.room->ctx, follow, &f);
  if (f.room && !fine) {
    *why = f.room->ctx.messages[f.room->ctx.nmessages - 1];
    why->text = arena_text(a, why->text, strlen(why->text));
  }
  give_room(r, f.room);
  return fine;
}

Node runs_node(Runs *r, Graph *g, Node inputs, int32_t rows) {
  RunNode *n = r->nodes;
  while (n && n->rows != (size_t)rows) n = n->next;
  if (!n) {
    n = NEW(r->arena, RunNode);
    *n = (RunNode){.run = {.inputs = rows * r->course->inputs,
                           .outputs = rows * r->course->outputs,
                           .likelihood = r->course->likelihood,
                           .self = n,
                           .work = run_work,
                           .forward = forward,
                           .backward = backward},
                   .runs = r,
                   .rows = (size_t)rows,
                   .next = r->nodes};
    r->nodes = n;
  }
  return ir_run(g, &n->run, inputs);
}
