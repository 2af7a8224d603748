/* learn.c: epochs of steps, a step being one batch; the verdict of the lessons set aside. */
#include "infer/learn.h"

#include "infer/optim_int.h"
#include "num/linalg.h"
#include "num/rng.h"

#include <math.h>
#include <string.h>

enum { STREAM = 51, BATCH = PIECE * PIECES };
static const double STEEPEST = 10; /* the norm of a batch's mean gradient that is believed */

typedef struct {
  const Learner *f;
  const LearnOptions *o;
  Pool *pool;
  double *w;   /* the weights in the making */
  Step step;   /* Adam's moments, and how many steps were done */
  size_t *all; /* the lessons: those that teach, in the order of the epoch, then those that judge */
  size_t teach, judge;
  const size_t *order; /* of the pieces under way, one after the other */
  uint64_t number;     /* of the first piece */
  bool losses;         /* they alone are wanted */
  double *loss;        /* of every piece */
  double *grad;        /* [PIECES x weights], then the step's */
  double *room;        /* [threads x room] */
} Course;

static void do_piece(void *arg, size_t k, int worker) {
  Course *x = arg;
  LessonPiece p = {x->order + k * PIECE, x->number + k, x->room + (size_t)worker * x->f->room};
  double *grad = x->losses ? NULL : x->grad + k * x->f->weights;
  if (grad) memset(grad, 0, x->f->weights * sizeof *grad);
  x->loss[k] = x->f->loss(x->f->self, x->w, &p, grad);
}

/* The mean loss of so many pieces. */
static double mean_loss(Course *x, size_t pieces) {
  double sum = 0;
  pool_run(x->pool, pieces, do_piece, x);
  for (size_t k = 0; k < pieces; k++) sum += x->loss[k];
  return sum / (double)(pieces * PIECE);
}

/* Minus the mean gradient of the batch, no longer than STEEPEST; false: it is not finite. */
static bool downhill(const Course *x, double *g) {
  size_t n = x->f->weights;
  memset(g, 0, n * sizeof *g);
  for (size_t k = 0; k < PIECES; k++) la_axpy(-1.0 / BATCH, x->grad + k * n, g, n);
  double norm = la_norm(g, n), shrink = norm > STEEPEST ? STEEPEST / norm : 1;
  if (!isfinite(norm)) return false;
  for (size_t i = 0; shrink < 1 && i < n; i++) g[i] *= shrink;
  return true;
}

static bool is_cancelled(const Course *x) {
  const LessonHooks *h = &x->o->hooks;
  return h->cancelled && h->cancelled(h->self);
}

/* All batches of an epoch, and their mean loss; false: cut short. */
static bool teach(Course *x, double *mean) {
  size_t steps = x->teach / BATCH;
  double total = (double)x->o->epochs * (double)steps, *g = x->grad + PIECES * x->f->weights;
  RngStream r = rngs_make(x->o->seed, STREAM + (uint64_t)x->step.t);
  rngs_shuffle(&r, x->all, x->teach);
  x->losses = false;
  *mean = 0;
  for (size_t k = 0; k < steps; k++) {
    if (is_cancelled(x)) return false;
    x->order = x->all + k * BATCH;
    x->number = (uint64_t)x->step.t * PIECES;
    *mean += mean_loss(x, PIECES) / (double)steps;
    double rate = x->o->rate * 0.5 * (1 + cos(M_PI * (double)x->step.t / total));
    if (downhill(x, g)) step_adam(&x->step, x->w, g, rate);
    x->step.t++;
  }
  return true;
}

/* The mean loss of the lessons set aside, with the same random numbers every time. */
static double judge(Course *x) {
  x->losses = true;
  x->order = x->all + x->teach;
  x->number = 0;
  return mean_loss(x, x->judge / PIECE);
}

static void tell(const Course *x, const Learned *l, double began) {
  FitProgress p = {x->f->stage, l->epochs, x->o->epochs,
                   l->epochs,   -l->loss,  base_seconds() - began};
  if (x->o->hooks.progress) x->o->hooks.progress(x->o->hooks.self, &p);
}

/* The first lessons teach, the last ones, about a tenth, judge. */
static Course begin(Ctx *c, Arena *a, const Learner *f, const LearnOptions *o, size_t lessons,
                    Pool *pool) {
  size_t aside = lessons / 10 / PIECE * PIECE;
  if (!aside) aside = PIECE;
  if (lessons < aside + BATCH)
    ctx_fail(c, PVI_USAGE, NOWHERE,
             "%zu lessons are too few to learn from; more " OPTION("pairs") " are needed", lessons);
  size_t pieces = aside / PIECE > PIECES ? aside / PIECE : PIECES;
  Course x = {
      .f = f,
      .o = o,
      .pool = pool,
      .step = {f->weights, NEW_ARRAY(a, double, f->weights), NEW_ARRAY(a, double, f->weights), 0},
      .all = NEW_ARRAY(a, size_t, lessons),
      .teach = lessons - aside,
      .judge = aside,
      .loss = NEW_ARRAY(a, double, pieces),
      .grad = NEW_ARRAY(a, double, (PIECES + 1) * f->weights),
      .room = NEW_ARRAY(a, double, f->room *(size_t)pool_threads(pool))};
  for (size_t k = 0; k < lessons; k++) x.all[k] = k;
  return x;
}

Learned learn(Ctx *c, const Learner *f, size_t lessons, const LearnOptions *o, Pool *pool,
              double *w) {
  TempArena *temp = temp_open(c);
  Course x = begin(c, &temp->arena, f, o, lessons, pool);
  double *best = NEW_ARRAY(&temp->arena, double, f->weights), began = base_seconds(), trained;
  Learned out = {.loss = INFINITY};
  x.w = w;
  while (out.epochs < o->epochs && !(out.interrupted = !teach(&x, &trained))) {
    double loss = judge(&x);
    FitTrace t = {.iteration = ++out.epochs,
                  .seconds = base_seconds() - began,
                  .objective = -trained,
                  .score = -trained,
                  .validation = -loss};
    PUSH(&c->arena, out.trace, out.ntrace, out.cap_trace, t);
    if (loss < out.loss) {
      out.loss = loss;
      out.best = out.epochs;
      memcpy(best, w, f->weights * sizeof *w);
    }
    tell(&x, &out, began);
  }
  if (out.interrupted && !out.epochs) lessons_check(c, &o->hooks, f->stage);
  if (!isfinite(out.loss))
    ctx_fail(c, PVI_FAILURE, NOWHERE, "the network did not learn: its loss is not finite");
  memcpy(w, best, f->weights * sizeof *w);
  out.steps = x.step.t;
  temp_close(temp);
  return out;
}
