/* cmdstan_optimize.c: method=optimize, the point where the density is largest, and method=laplace,
 * the normal distribution around it (cmdstan_run.h).
 *
 * Without the Jacobian the density is that of the constrained parameters: penalised maximum
 * likelihood. All algorithms that CmdStan names (bfgs, lbfgs, newton) are L-BFGS here.
 */
#include "run/cmdstan_run.h"

#include "infer/optim.h"
#include "num/linalg.h"
#include "num/rng.h"

#include <math.h>
#include <string.h>

enum { TRIES = 100, STREAM = 9 };

/* ---- the optimum ----------------------------------------------------------------------------- */

typedef struct {
  CmdstanCall *k;
  CmdstanDensity density;
  bool keep; /* all iterations */
  double *points, *values;
  size_t n, cap, nvalues, cap_values;
  long refresh;
} Search;

static bool eval(void *self, const double *phi, double *value, double *grad) {
  *value = cmdstan_eval(&((Search *)self)->density, phi, grad);
  return isfinite(*value);
}

static void keep_point(Search *s, const double *theta, double value) {
  Arena *a = &s->k->c->arena;
  if (!s->keep) s->n = s->nvalues = 0;
  for (size_t d = 0; d < s->k->model->dim; d++) PUSH(a, s->points, s->n, s->cap, theta[d]);
  PUSH(a, s->values, s->nvalues, s->cap_values, value);
}

static void say_iteration(const Search *s, const OptimState *o) {
  console_say(s->k->out, s->k->c, "%8ld%15.6g%15s%15.6g%13.4g%10ld\n", o->iteration, o->value, "",
              o->gradient_norm, o->step, o->evaluations);
}

static bool observe(void *self, const OptimState *o) {
  Search *s = self;
  if (s->keep) keep_point(s, o->phi, o->value);
  if (s->refresh > 0 && (o->iteration == 1 || o->iteration % s->refresh == 0)) say_iteration(s, o);
  return true;
}

/* A start with a density: the one given, or one of a hundred at random. */
static double *find_start(const Search *s) {
  size_t dim = s->k->model->dim, id = (size_t)cmdstan_whole(s->k->args, ARG_id);
  double *theta = NEW_ARRAY(&s->k->c->arena, double, dim + 1),
         *grad = NEW_ARRAY(&s->k->c->arena, double, dim + 1);
  for (size_t t = 0; t < TRIES; t++) {
    cmdstan_start(s->k, id + t * 1000, theta);
    double value = cmdstan_eval(&s->density, theta, grad);
    if (!isfinite(value)) continue;
    console_say(s->k->out, s->k->c, "Initial log joint probability = %g\n", value);
    return theta;
  }
  ctx_fail(s->k->c, PVI_FAILURE, NOWHERE,
           "Initialization failed: no start was found where the density is positive; give one with "
           "init=FILE");
}

/* A little way up the slope of one parameter (of the first MOST of them) there is more: where the
 * density grows without end, steps may become so short that nothing seems to be gained. */
static bool still_rises(const Search *s, const OptimResult *r) {
  enum { MOST = 100 };
  static const double ways[] = {1e-3, 0.1};
  size_t dim = s->k->model->dim;
  double *slope = NEW_ARRAY(&s->k->c->arena, double, dim + 1),
         *x = NEW_ARRAY(&s->k->c->arena, double, dim + 1),
         *other = NEW_ARRAY(&s->k->c->arena, double, dim + 1);
  memcpy(x, r->phi, dim * sizeof *x);
  cmdstan_eval(&s->density, x, slope);
  for (size_t k = 0; k < 2 * dim && k < 2 * MOST; k++) {
    size_t d = k / 2;
    x[d] = r->phi[d] + copysign(ways[k % 2], slope[d]);
    if (cmdstan_eval(&s->density, x, other) > r->value + 1e-6 * fmax(1, fabs(r->value)))
      return true;
    x[d] = r->phi[d];
  }
  return false;
}

/* An optimum to the last digit may look stuck: no step gains any more. */
static bool is_optimum(const Search *s, const OptimResult *r) {
  if (r->status == OPTIM_LIMIT) return true;
  bool stuck = r->status == OPTIM_STUCK && r->gradient_norm <= 1e-6 * fmax(1, fabs(r->value));
  return (r->converged || stuck) && !still_rises(s, r);
}

/* The name of a parameter that ran to the bound of its declaration, where the density has no
 * maximum; NULL: none did. */
static const char *at_bound(const Model *m, const double *theta) {
  enum { FAR = 100 }; /* on the unconstrained scale */
  for (int v = 0; v < m->noutputs && m->outputs[v].block == BLOCK_PARAMETERS; v++) {
    const Output *o = &m->outputs[v];
    for (int32_t k = 0; o->decl->con.kind != CON_NONE && k < o->unconstrained; k++)
      if (fabs(theta[o->offset + k]) > FAR) return o->name;
  }
  return NULL;
}

/* Says how it ended; false: not at a maximum. That is a message of the context, which goes where
 * errors go: CmdStanR takes what stands among the output for success. */
static bool say_end(const Search *s, const OptimResult *r) {
  const CmdstanCall *k = s->k;
  bool optimum = is_optimum(s, r);
  const char *name = at_bound(k->model, r->phi);
  if (name)
    ctx_warn(k->c, NOWHERE,
             "Optimization terminated with error:\n  the parameter %s has run to the bound of its "
             "declaration: there the density grows without end; give it a prior, or use jacobian=1",
             name);
  else if (!optimum)
    ctx_warn(k->c, NOWHERE,
             "Optimization terminated with error:\n  Line search failed to achieve a sufficient "
             "decrease, no more progress can be made (%s)",
             r->reason);
  else
    console_say(k->out, k->c, "Optimization terminated normally:\n  %s\n",
                r->status == OPTIM_LIMIT
                    ? "Maximum number of iterations hit, may not be at an optima"
                    : "Convergence detected: no further gain is above the tolerance");
  return !name && optimum;
}

bool cmdstan_optimize(CmdstanCall *k) {
  Search s = {.k = k,
              .density = cmdstan_density(k, cmdstan_flag(k->args, ARG_opt_jacobian)),
              .keep = cmdstan_flag(k->args, ARG_save_iterations),
              .refresh = cmdstan_whole(k->args, ARG_refresh)};
  double *start = find_start(&s);
  OptimOptions o = optim_defaults(OPTIM_LBFGS);
  o.max_iterations = cmdstan_whole(k->args, ARG_opt_iter);
  o.history = (size_t)cmdstan_whole(k->args, ARG_history_size);
  if (o.history < 10) o.history = 10;
  o.tol_relative = 1e-12;
  o.tol_gradient = cmdstan_number(k->args, ARG_tol_grad);
  o.observer = observe;
  o.observer_self = &s;
  o.cancelled = k->hooks.cancelled;
  o.cancelled_self = k->hooks.self;
  console_say(k->out, k->c,
              "    Iter      log prob        ||dx||       ||grad||       alpha   # evals\n");
  OptimResult r = optim_run(&k->c->arena, &(Objective){k->model->dim, &s, .eval = eval}, start, &o);
  keep_point(&s, r.phi, r.value);
  bool found = say_end(&s, &r);
  Draws d = cmdstan_outputs(k, s.points, s.nvalues, NULL);
  d.columns = &(DrawsColumn){"lp__", s.values};
  d.ncolumns = 1;
  cmdstan_write_table(k->dir, k->base, &k->run, &d);
  return found;
}

/* ---- the normal distribution around it ------------------------------------------------------- */

/* Minus the Hessian by differences of gradients, symmetric. */
static double *precision_at(const CmdstanCall *k, const CmdstanDensity *f, const double *mode) {
  size_t dim = k->model->dim;
  double *A = NEW_ARRAY(&k->c->arena, double, dim *dim + 1),
         *x = memcpy(NEW_ARRAY(&k->c->arena, double, dim + 1), mode, dim * sizeof *x),
         *up = NEW_ARRAY(&k->c->arena, double, dim + 1),
         *down = NEW_ARRAY(&k->c->arena, double, dim + 1);
  for (size_t i = 0; i < dim; i++) {
    double h = 1e-4 * fmax(1, fabs(mode[i]));
    x[i] = mode[i] + h;
    cmdstan_eval(f, x, up);
    x[i] = mode[i] - h;
    cmdstan_eval(f, x, down);
    x[i] = mode[i];
    for (size_t j = 0; j < dim; j++) A[i * dim + j] = (down[j] - up[j]) / (2 * h);
  }
  for (size_t i = 0; i < dim; i++)
    for (size_t j = 0; j < i; j++)
      A[i * dim + j] = A[j * dim + i] = 0.5 * (A[i * dim + j] + A[j * dim + i]);
  return A;
}

/* theta = mode + L'^-1 z with L L' = A; log q is that of the normal distribution. */
static void draw_normal(const CmdstanCall *k, const double *mode, const double *L, size_t n,
                        double *theta, double *log_q) {
  size_t dim = k->model->dim;
  Rng key = rng_make(k->seed, STREAM);
  double *z = NEW_ARRAY(&k->c->arena, double, dim + 1),
         half = -0.5 * (double)dim * log(2 * acos(-1));
  for (size_t d = 0; d < dim; d++) half += log(L[d * dim + d]);
  for (size_t i = 0; i < n; i++) {
    double *x = theta + i * dim;
    rng_fill_normal(key, 0, i, z, dim);
    log_q[i] = half - 0.5 * la_dot(z, z, dim);
    for (size_t d = dim; d-- > 0;) {
      x[d] = z[d];
      for (size_t e = d + 1; e < dim; e++) x[d] -= L[e * dim + d] * (x[e] - mode[e]);
      x[d] = mode[d] + x[d] / L[d * dim + d];
    }
  }
}

bool cmdstan_laplace(CmdstanCall *k) {
  size_t n = (size_t)cmdstan_whole(k->args, ARG_laplace_draws), dim = k->model->dim, rows;
  if (!*k->args->value[ARG_mode])
    ctx_fail(k->c, PVI_USAGE, NOWHERE, "Argument \"mode\" file - missing or empty.");
  const double *points = cmdstan_fitted(k, k->args->value[ARG_mode], &rows),
               *mode = points + (rows - 1) * dim;
  CmdstanDensity f = cmdstan_density(k, cmdstan_flag(k->args, ARG_laplace_jacobian));
  double *A = precision_at(k, &f, mode), *L = NEW_ARRAY(&k->c->arena, double, dim *dim + 1);
  if (!la_cholesky(A, L, dim))
    ctx_fail(k->c, PVI_FAILURE, NOWHERE,
             "the Hessian at the mode is not negative definite: the point is no maximum of this "
             "density; use the same jacobian as for optimize, and let it converge");
  double *theta = NEW_ARRAY(&k->c->arena, double, n *dim + 1),
         *log_q = NEW_ARRAY(&k->c->arena, double, n + 1),
         *log_p = NEW_ARRAY(&k->c->arena, double, n + 1),
         *grad = NEW_ARRAY(&k->c->arena, double, dim + 1);
  draw_normal(k, mode, L, n, theta, log_q);
  for (size_t i = 0; i < n; i++) log_p[i] = cmdstan_eval(&f, theta + i * dim, grad);
  Draws d = cmdstan_outputs(k, theta, n, NULL);
  d.columns = (DrawsColumn[]){{"log_p__", log_p}, {"log_q__", log_q}};
  d.ncolumns = 2;
  cmdstan_write_table(k->dir, k->base, &k->run, &d);
  console_say(k->out, k->c, "Generating draws\n");
  return true;
}
