/* amortize.c: the stages of `pvi npe` and `pvi nre` in their order: see amortize_run at the end. */
#include "run/amortize.h"

#include "infer/amortized.h"

#include <math.h>

enum { MOST_PARAMETERS = 100, USUAL_HIDDEN = 64, MOST_HIDDEN = 1000 };
static const double RATE = 2e-3;

static const struct {
  const char *name;
  AmortizedFit *fit;
} methods[] = {{"npe", npe_fit}, {"nre", nre_fit}};

/* ---- what was asked -------------------------------------------------------------------------- */

static void check_asked(Ctx *c, const Problem *p, const Options *o) {
  const Model *m = p->model;
  if (!m->n_obs) problem_no_observations(c, p);
  if (m->joint)
    ctx_fail(c, PVI_PROGRAM, m->blocks[0].loc,
             "the likelihood is one joint density of all the data, of which outcomes cannot be "
             "simulated one by one; write the simulation in generated quantities and name it "
             "with " OPTION("simulate"));
  if (!m->dim || m->dim > MOST_PARAMETERS)
    ctx_fail(c, PVI_USAGE, NOWHERE,
             "the program has %zu unconstrained parameters; networks learn posteriors of 1 to %d",
             m->dim, MOST_PARAMETERS);
  if (o->hidden > MOST_HIDDEN)
    ctx_fail(c, PVI_USAGE, NOWHERE, OPTION("hidden") ": a network has at most %d units here",
             MOST_HIDDEN);
  const char *name = run_improper(c, m);
  if (name)
    ctx_fail(
        c, PVI_PROGRAM, NOWHERE,
        "%s has no proper prior in the program, so that there is nothing to draw it from; give "
        "it one",
        name);
}

/* The posterior's, where there is a density; else one that simulated outcomes have. */
static ScoreId fitting_score(const Model *m) {
  if (model_has_densities(m)) return SCORE_elbo;
  return m->blocks[0].sim_width > 1 ? SCORE_energy : SCORE_crps_sim;
}

Run *amortize_make(Ctx *c, const Problem *p, const Options *asked, const Split *split,
                   AmortizedMethod method) {
  Options *o = options_copy(&c->arena, asked);
  check_asked(c, p, o);
  ScoreId score = fitting_score(p->model);
  options_set(c, o, "score", score_name(score));
  options_set(c, o, "lambda", "1");
  Run *r = run_make(c, p, o, split);
  Options *own = (Options *)r->o;
  own->given[OPTION_score].count = own->given[OPTION_lambda].count = 0; /* nobody asked for them */
  r->amortized = methods[method].name;
  r->score = score;
  r->lambda = 1;
  r->regularizer = REG_PRIOR;
  return r;
}

/* ---- the fit --------------------------------------------------------------------------------- */

static AmortizedOptions options_of(const Options *o, const LessonHooks *h) {
  return (AmortizedOptions){
      .shape = {.knots = (size_t)o->knots, .layers = (size_t)o->layers},
      .hidden = o->hidden ? (size_t)o->hidden : USUAL_HIDDEN,
      .draws = (size_t)o->save_draws,
      .learn = {.epochs = o->epochs, .rate = RATE, .seed = (uint64_t)o->seed, .hooks = *h}};
}

static void add_note(Ctx *c, Fit *f, const char *note) {
  PUSH(&c->arena, f->notes, f->nnotes, f->cap_notes, note);
}

static void add_notes(Ctx *c, const Lessons *l, const Amortized *a, Fit *f) {
  Arena *m = &c->arena;
  add_note(c, f,
           arena_format(m,
                        "learned from %zu pairs of parameters and data; the best of %ld passes was "
                        "number %ld",
                        l->n, a->learned.epochs, a->learned.best));
  if (l->outside)
    add_note(
        c, f,
        arena_format(m,
                     "the data are unlike all that the program simulated (%zu of %zu numbers "
                     "that summarise them are beyond every simulated one): the network "
                     "extrapolates, and what it says is not to be trusted. The program is wrong "
                     "in a way that matters, or its prior is too narrow",
                     l->outside, l->size));
  if (l->dropped)
    add_note(c, f,
             arena_format(m,
                          "%zu simulated data sets had numbers that are not finite and were left "
                          "out",
                          l->dropped));
}

/* Log densities are of theta: t has other units. */
static double log_units(const Lessons *l) {
  double sum = 0;
  for (size_t k = 0; k < l->dim; k++) sum += log(l->scale[k]);
  return sum;
}

static const Fit *fit_of(Ctx *c, const Lessons *l, const Amortized *a, AmortizedMethod method,
                         double began) {
  Fit *f = NEW(&c->arena, Fit);
  double value = -a->learned.loss - (method == AMORTIZED_npe ? log_units(l) : 0);
  *f = (Fit){.q = a->q,
             .phi = a->phi,
             .value = {value, value, 0},
             .evaluations = a->learned.steps,
             .iterations = a->learned.epochs,
             .converged = !a->doubt && !a->learned.interrupted,
             .interrupted = a->learned.interrupted,
             .reason = a->doubt ? a->doubt : "all passes through the pairs are done",
             .seconds = base_seconds() - began,
             .trace = a->learned.trace,
             .ntrace = a->learned.ntrace};
  add_notes(c, l, a, f);
  return f;
}

static const Fit *fit_stage(Ctx *c, const Run *r, AmortizedMethod method, const RunHooks *h,
                            Pool *pool) {
  double began = base_seconds();
  LessonHooks hooks = h ? (LessonHooks){h->progress, h->cancelled, h->self} : (LessonHooks){0};
  LessonPlan plan = {.model = r->problem->model,
                     .rows = r->split->rows[PART_TRAIN],
                     .n = r->split->count[PART_TRAIN],
                     .pairs = (size_t)r->o->pairs,
                     .seed = (uint64_t)r->o->seed,
                     .hooks = hooks};
  const Lessons *l = lessons_make(c, &plan, pool);
  AmortizedOptions o = options_of(r->o, &hooks);
  Amortized a = methods[method].fit(c, plan.model, l, &o, pool);
  return fit_of(c, l, &a, method, began);
}

Run *amortize_run(Ctx *c, const Problem *p, const Options *asked, const Split *split,
                  AmortizedMethod method, const RunHooks *h) {
  Run *r = amortize_make(c, p, asked, split, method);
  ScoreList list = evaluate_list(c, p->model, &r->o->metric, r->o);
  run_kept(c, p->model, &r->o->save); /* a name that is none is told before anything is learned */
  RunDir *dir = r->o->out ? folder_open(c, r) : NULL;
  Pool *pool = pool_make(c, (int)r->o->threads);
  r->fit = fit_stage(c, r, method, h, pool);
  run_take(c, r, &list, pool);
  pool_free(pool);
  r->summary = run_summarise(c, r);
  if (dir) folder_write(c, dir, r);
  r->folder = dir ? dir->path : NULL;
  return r;
}
