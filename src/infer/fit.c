/* fit.c: how a fit goes.
 *
 *   1. ordinary VI, from zero and from where climbs on the log density led, gives a centre and a
 * unit for every parameter (centre.c);
 *   2. predictive scores start from the best of several widths around it, and more (starts.c);
 * where there are very many observations both happen on a sample of them;
 *   3. L-BFGS takes that to convergence, with draws or nodes that grow until fresh ones agree
 *      (stages.c), and on from there if there is a higher optimum (elsewhere.c); or a stochastic
 *      optimizer does all its iterations (stochastic.c);
 *   4. whether there is an optimum at all is found out by trying (bounds.c).
 *
 * The noise of L-BFGS's draws is fixed, so the objective is a function. All that is computed goes
 * through the steps of steps.c, where a fit can be interrupted and resumed.
 */
#include "infer/fit_int.h"

#include <math.h>
#include <string.h>

/* What was guessed may be anywhere: few nodes or draws tell which is better. */
static void prefer_guess(Fitter *f, double *phi) {
  FitMark mark = fit_mark(f);
  Target few = f->target;
  NoiseSet noise = {fit_draws(f, EXPLORE_DRAWS), fit_seed(f, SEED_JUDGE)};
  few.nodes = EXACT_NODES / 4;
  fit_prefer(f, fit_objective_of(f, f->train, &few, &f->q, noise), phi, f->o->guess);
  fit_release(f, mark);
}

/* A neighbouring fit of the same q, where one is given. */
static bool begin_warm(Fitter *f, double *phi) {
  const double *start = f->o->warm ? f->o->start(f->o->start_self, &f->q) : NULL;
  if (!start) return false;
  memcpy(phi, start, q_size(&f->q) * sizeof *phi);
  f->has_phi = true;
  if (f->o->guess) prefer_guess(f, phi);
  return true;
}

/* VI in a family with correlations begins with those of the log density, where that is better. */
static void begin_correlated(Fitter *f, double *phi) {
  FitMark mark = fit_mark(f);
  double *other = NEW_ARRAY(f->arena, double, q_size(&f->q));
  if (fit_at_curvature(f, &f->q, other)) {
    Predictive *p = fit_objective(f, fit_draws(f, JUDGE_DRAWS), fit_seed(f, SEED_JUDGE));
    fit_prefer(f, p, phi, other);
  }
  fit_release(f, mark);
}

/* VI's centre is what it was, or is found. */
static void find_centre(Fitter *f) {
  size_t dim = f->model->dim;
  const FitCentre *known = &f->o->vi;
  if (!known->mean) {
    fit_centre(f);
    if (f->vi_unbounded) return;
  } else {
    memcpy(f->mean, known->mean, dim * sizeof *f->mean);
    memcpy(f->sd, known->sd, dim * sizeof *f->sd);
  }
  double *kept = NEW_ARRAY(&f->ctx->arena, double, 2 * dim + 1);
  memcpy(kept, f->mean, dim * sizeof *kept);
  memcpy(kept + dim, f->sd, dim * sizeof *kept);
  f->fit->vi = (FitCentre){kept, kept + dim, NULL};
}

/* No start is finite. Where VI's q reaches beyond an edge of the program's support, and so do all
 * starts around it, the fit ends there. */
static void no_start(Fitter *f) {
  const char *edge = fit_edge_of_vi(f);
  if (!edge || f->o->rough)
    ctx_fail(f->ctx, PVI_FAILURE, NOWHERE, "the objective is not finite at any of %zu starts%s%s",
             f->fit->nstarts, edge ? ": " : "",
             edge ? edge : "; check priors and data, or give " OPTION("init"));
  f->unbounded = f->fit->reason = edge;
}

/* VI's q, or the best of the starts for predictive scores. */
static void begin(Fitter *f, double *phi) {
  if (begin_warm(f, phi)) return;
  find_centre(f);
  f->unit = f->sd;
  fit_at_centre(f, phi);
  f->has_phi = true;
  if (f->vi_unbounded && f->target.lambda > 0) return;
  if (f->target.score == SCORE_elbo) {
    begin_correlated(f, phi);
    return;
  }
  if (!fit_explore(f, phi)) no_start(f);
}

/* All observations again, after a sample of them. */
static void see_all(Fitter *f, const Observed *train, const Observed *train_ll) {
  f->sampling = false;
  f->train = train;
  f->train_ll = train_ll;
}

/* The same on a sample, and on to its optimum, before all observations are asked. They have the
 * last word: what suits the sample alone is no start for them. */
static void begin_with_few(Fitter *f, double *phi) {
  const Observed *train = f->train, *train_ll = f->train_ll;
  size_t M = f->o->draws ? f->o->draws : fit_draws(f, FIRST_DRAWS), size = q_size(&f->q);
  f->sampling = true;
  f->train = f->few;
  f->train_ll = f->few_ll;
  begin(f, phi);
  if (f->unbounded) {
    see_all(f, train, train_ll);
    return;
  }
  double *start = memcpy(NEW_ARRAY(f->arena, double, size), phi, size * sizeof *phi),
         *vi = NEW_ARRAY(f->arena, double, size);
  fit_at_centre(f, vi);
  FitMark mark = fit_mark(f);
  fit_lbfgs(f, fit_objective(f, M, fit_seed(f, SEED_EXPLORE)), phi, 500, 1e-7, "sample");
  fit_release(f, mark);
  see_all(f, train, train_ll);
  Predictive *p = fit_objective(f, M, fit_seed(f, SEED_JUDGE));
  fit_prefer(f, p, phi, start);
  fit_prefer(f, p, phi, vi);
  fit_release(f, mark);
  fit_note(f, arena_format(&f->ctx->arena, "begun on a sample of %zu of the training observations",
                           f->few->n));
}

/* From now on the iterates are compared on the validation part. */
static void begin_selection(Fitter *f) {
  const Journal *j = f->o->journal;
  size_t size = q_size(&f->q);
  f->best_phi = NEW_ARRAY(f->arena, double, size);
  f->best_valid = -INFINITY;
  if (!j || j->nbest != size) return;
  memcpy(f->best_phi, j->best_phi, size * sizeof *f->best_phi);
  f->best_valid = j->best_valid;
}

/* Why there is no optimum, judged by the objective of what was found, on draws of its own. */
static const char *why_unbounded(Fitter *f, const double *phi) {
  FitMark mark = fit_mark(f);
  Predictive *p = fit_objective(f, fit_draws(f, EXPLORE_DRAWS), fit_seed(f, SEED_JUDGE));
  const char *why = fit_unbounded(f, p, &f->q, phi);
  fit_release(f, mark);
  return why;
}

/* why NULL: there is an optimum. */
static bool is_bounded(const Fitter *f, const char *why) {
  if (!why) return true;
  f->fit->converged = false;
  f->fit->reason = why;
  return false;
}

/* Where VI ran away, and the objective at its q is as unbounded, or where all that it could begin
 * with is beyond an edge, no optimizer need follow. */
static bool ends_at_once(Fitter *f, const double *phi) {
  bool beyond = f->unbounded != NULL;
  if (!beyond && (!f->vi_unbounded || is_bounded(f, why_unbounded(f, phi)))) return false;
  f->fit->exact = fit_is_exact(f);
  f->fit->draws = f->fit->exact ? EXACT_NODES : fit_draws(f, FIRST_DRAWS);
  fit_measure(f, phi);
  return true;
}

static void finish(Fitter *f, double *phi) {
  fit_finish(f, phi);
  fit_look_elsewhere(f, phi);
}

static void course(Fitter *f) {
  double *phi = f->fit->phi;
  (f->few == f->train || f->o->warm ? begin : begin_with_few)(f, phi);
  if (ends_at_once(f, phi)) return;
  f->validates = f->nvalid > 0;
  if (f->o->select_validation) begin_selection(f);
  (f->o->optimizer == OPTIM_LBFGS ? finish : fit_stochastic)(f, phi);
  if (!f->o->rough) is_bounded(f, f->fit->exact ? f->unbounded : why_unbounded(f, phi));
  bool reason = !strncmp(f->fit->reason, "unbounded", strlen("unbounded"));
  if (!f->o->rough && !f->fit->converged && !reason && isfinite(f->fit->value.value))
    is_bounded(f, fit_reproduces(f, phi));
  if (f->best_phi && isfinite(f->best_valid)) {
    memcpy(phi, f->best_phi, q_size(&f->q) * sizeof *phi);
    fit_note(f, "the iterate with the best validation score was kept");
  }
  if (f->best_phi || f->o->optimizer != OPTIM_LBFGS) fit_measure(f, phi);
}

/* An interrupted fit has fit->phi, the best so far. One evaluation says what it is worth, on the
 * sample if the fit had not come further. */
static void settle(Fitter *f, FitMark mark) {
  Fit *fit = f->fit;
  if (f->best_phi && isfinite(f->best_valid))
    memcpy(fit->phi, f->best_phi, q_size(&f->q) * sizeof *fit->phi);
  fit_release(f, mark);
  fit->interrupted = true;
  fit->converged = false;
  fit->reason = "interrupted";
  fit->exact = fit_is_exact(f);
  if (fit->exact) {
    fit->draws = f->target.nodes ? f->target.nodes : EXACT_NODES;
  } else {
    fit->draws = f->o->draws ? f->o->draws : fit_draws(f, FIRST_DRAWS);
  }
  NoiseSet noise = {fit->draws, fit_seed(f, SEED_FRESH)};
  Predictive *p = predictive_make(f->arena, f->train, &f->target, &f->q, noise, f->pool);
  predictive_eval(p, fit->phi, &fit->value, NULL);
  if (f->sampling)
    fit_note(f, "interrupted on a sample of the training observations: the objective is an "
                "estimate from them");
}

static void run(Fitter *f) {
  FitMark mark = fit_mark(f);
  if (setjmp(f->interrupted) == 0) {
    course(f);
  } else {
    settle(f, mark);
  }
}

Fit *fit_run(Ctx *c, const Model *m, const Split *split, const FitOptions *o, Pool *pool) {
  TempArena *parts = temp_open(c), *work = temp_open(c);
  Fitter *f = NEW(&parts->arena, Fitter);
  *f = (Fitter){.ctx = c,
                .parts = &parts->arena,
                .arena = &work->arena,
                .model = m,
                .o = o,
                .target = o->target,
                .pool = pool,
                .fit = NEW(&c->arena, Fit),
                .memorised = INFINITY,
                .started = base_seconds()};
  Fit *fit = f->fit;
  fit_setup(f, split);
  fit->q = f->q;
  fit->phi = NEW_ARRAY(&c->arena, double, q_size(&f->q));
  f->mean = NEW_ARRAY(f->arena, double, m->dim);
  f->sd = NEW_ARRAY(f->arena, double, m->dim);
  fit_open_journal(f, o->journal ? fit_identity(f, split) : 0);
  run(f);
  fit->seconds = base_seconds() - f->started;
  temp_close(work);
  temp_close(parts);
  return fit;
}
