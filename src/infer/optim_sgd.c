/* optim_sgd.c: the stochastic optimizers: one loop, and one step function for each row of
 * optimizers.def. */
#include <math.h>

#include "infer/optim_int.h"
#include "num/linalg.h"

#define MAX_SKIPS_IN_A_ROW 1000

/* ---- steps: phi follows the gradient g ------------------------------------------------------- */

/* Kingma & Ba 2015 */
void step_adam(Step *s, double *phi, const double *g, double rate) {
  const double b1 = 0.9, b2 = 0.999;
  double t = (double)(s->t + 1), c1 = 1 / (1 - pow(b1, t)), c2 = 1 / (1 - pow(b2, t));
  for (size_t i = 0; i < s->dim; i++) {
    s->m[i] = b1 * s->m[i] + (1 - b1) * g[i];
    s->v[i] = b2 * s->v[i] + (1 - b2) * g[i] * g[i];
    phi[i] += rate * c1 * s->m[i] / (sqrt(c2 * s->v[i]) + 1e-8);
  }
}

/* Tieleman & Hinton 2012, with momentum: the paper's. Far from the optimum a step is about 10 rates
 * long. */
void step_rmsprop(Step *s, double *phi, const double *g, double rate) {
  for (size_t i = 0; i < s->dim; i++) {
    s->v[i] = 0.9 * s->v[i] + 0.1 * g[i] * g[i];
    s->m[i] = 0.9 * s->m[i] + rate * g[i] / sqrt(s->v[i] + 1e-8);
    phi[i] += s->m[i];
  }
}

void step_sgd(Step *s, double *phi, const double *g, double rate) { la_axpy(rate, g, phi, s->dim); }

/* Nesterov 1983, with the momentum applied to the gradient (Sutskever et al. 2013) */
void step_nesterov(Step *s, double *phi, const double *g, double rate) {
  for (size_t i = 0; i < s->dim; i++) {
    s->m[i] = 0.9 * s->m[i] + g[i];
    phi[i] += rate * (0.9 * s->m[i] + g[i]);
  }
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* grad scaled to norm <= clip, then by gradient_scale, into g. */
static void clip(const OptimOptions *o, const double *grad, double norm, double *g, size_t dim) {
  double c = o->gradient_scale * (o->clip > 0 && norm > o->clip ? o->clip / norm : 1);
  for (size_t i = 0; i < dim; i++) g[i] = c * grad[i];
}

typedef struct {
  Step step;    /* the vectors, and how many steps were done */
  double *g;    /* scratch: the gradient as the step gets it */
  double *grad; /* scratch: where the next gradient is computed */
  int vectors;
  long skips; /* in a row */
} Descent;

static void state(void *own, Archive *a) {
  Descent *d = own;
  if (d->vectors > 0) archive_doubles(a, d->step.m, d->step.dim);
  if (d->vectors > 1) archive_doubles(a, d->step.v, d->step.dim);
  archive_long(a, &d->step.t);
  archive_long(a, &d->skips);
}

static Descent make(const Run *r, int vectors) {
  size_t dim = r->f->dim;
  Descent d = {.step.dim = dim, .vectors = vectors};
  if (vectors > 0) d.step.m = NEW_ARRAY(r->arena, double, dim);
  if (vectors > 1) d.step.v = NEW_ARRAY(r->arena, double, dim);
  d.grad = NEW_ARRAY(r->arena, double, dim);
  d.g = NEW_ARRAY(r->arena, double, dim);
  return d;
}

/* One evaluation and the step that follows from it; none where the evaluation is not finite. */
static void descend(Run *r, Descent *d, StepFn *step) {
  double value, rate = optim_rate(r->o, r->iterations);
  bool ok = optim_eval(r, r->phi, &value, d->grad);
  if (r->interrupted) return;
  r->step = rate;
  d->skips = ok ? 0 : d->skips + 1;
  if (!ok) return;
  double *old = r->grad;
  r->grad = d->grad;
  d->grad = old;
  r->value = value;
  r->gradient_norm = la_norm(r->grad, d->step.dim);
  clip(r->o, r->grad, r->gradient_norm, d->g, d->step.dim);
  step(&d->step, r->phi, d->g, r->step);
  d->step.t++;
}

OptimStatus optim_stochastic(Run *r, StepFn *step, int vectors) {
  const Objective *f = r->f;
  Descent d = make(r, vectors);
  r->own = &d;
  r->own_state = state;
  if (r->o->resume) optim_state(r, r->o->resume);
  if (r->o->resume && r->o->resume->bad) return OPTIM_NOT_FINITE;
  while (r->iterations < r->o->max_iterations) {
    optim_pause(r);
    if (optim_out_of_evaluations(r)) return OPTIM_LIMIT;
    if (f->iteration) f->iteration(f->self, r->iterations);
    descend(r, &d, step);
    if (r->interrupted) return optim_interrupted(r);
    if (d.skips == MAX_SKIPS_IN_A_ROW) return OPTIM_NOT_FINITE;
    r->iterations++;
    if (!optim_observe(r)) return OPTIM_STOPPED;
  }
  return d.step.t > 0 || r->o->max_iterations == 0 ? OPTIM_FINISHED : OPTIM_NOT_FINITE;
}
