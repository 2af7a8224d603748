/* summarise.c: a finished run in numbers and words: Summary, and what `pvi fit` prints of it. */
#include "run/exact_bayes.h"
#include "run/rightness.h"
#include "run/tune.h"

#include "infer/psis.h"
#include "report/table.h"

#include <math.h>
#include <string.h>

static size_t count_parameters(const Model *m, const Draws *d) {
  size_t n = 0;
  while (n < d->ncols && model_output_is_parameter(m, n)) n++;
  return n;
}

/* sigma, beta[2] and the elements of alpha by one common width */
static const char *listed(Ctx *c, const TunePath *t) {
  Text out = text_make(&c->arena);
  for (size_t k = 0; k < t->nfreed; k++)
    text_printf(&out, "%s%s",
                k == 0              ? ""
                : k + 1 < t->nfreed ? ", "
                                    : " and ",
                summary_freed_name(&c->arena, t->freed[k].name));
  return out.s;
}

/* The rows that q has widened most, largest first. */
static size_t widest(const SummaryParameter *rows, size_t n, const SummaryParameter *out[3]) {
  const double wide = 2; /* times the sd under Bayes */
  size_t found = 0;
  for (size_t k = 0; k < n; k++) {
    const SummaryParameter *p = &rows[k];
    if (!(p->sd > wide * p->bayes_sd)) continue;
    size_t at = found < 3 ? found++ : 3;
    for (; at > 0 && p->sd / p->bayes_sd > out[at - 1]->sd / out[at - 1]->bayes_sd; at--)
      if (at < 3) out[at] = out[at - 1];
    if (at < 3) out[at] = p;
  }
  return found;
}

/* Which parameters vary most, by how much wider q is than Bayes. */
static const char *widened(Ctx *c, const Summary *s) {
  const SummaryParameter *p[3];
  size_t n = widest(s->parameters, s->nparameters, p);
  if (!n) return "";
  Text t = text_make(&c->arena);
  for (size_t k = 0; k < n; k++)
    text_printf(&t,
                p[k]->sd < 100 * p[k]->bayes_sd ? "%s%s (%.2g times Bayes' sd)"
                                                : "%s%s (%.0f times Bayes' sd)",
                k == 0       ? "; what varies most: "
                : k + 1 == n ? " and "
                             : ", ",
                p[k]->name, p[k]->sd / p[k]->bayes_sd);
  return t.s;
}

/* What the search found, in words. */
static const char *found(Ctx *c, const Run *r, const Summary *s) {
  const TunePath *t = r->tuned;
  if (!t->bayes_stands || (isinf(t->lambda) && !r->fit->converged))
    return "whether anything predicts better than Bayes cannot be said: VI did not converge, so "
           "the scores of observations that were held out are those of unfinished fits";
  if (isinf(t->lambda) && t->given_up) return "Bayes is kept";
  if (isinf(t->lambda))
    return "Bayes is enough here: nothing predicts observations that were held out better than VI "
           "by "
           "more than one standard error";
  if (t->free)
    return arena_format(
        &c->arena,
        "%s var%s: held-out gain over Bayes %+.1f (standard error %.1f) when only %s may "
        "leave the Bayes distribution",
        listed(c, t), t->nfreed == 1 ? "ies" : "y", t->gain, t->se, t->nfreed == 1 ? "it" : "they");
  return arena_format(
      &c->arena,
      "lambda %g%s was chosen on folds: held-out gain over Bayes %+.1f (standard error %.1f)%s",
      t->lambda, t->regularizer == REG_PRIOR ? " with the prior as regularizer" : "", t->gain,
      t->se, widened(c, s));
}

/* And how far that makes the program wrong, where it can be said: the gain is nearly nothing of
 * what there is to say, or is more than two standard errors, or a nat an observation. And what
 * chains say, where they were asked. */
static const char *verdict(Ctx *c, const Run *r, const Summary *s) {
  const TunePath *t = r->tuned;
  const char *words = found(c, r, s);
  Rightness right = {.share = NAN};
  if (!isinf(t->lambda)) right = rightness_of(c, r->problem->model, t->bayes_scores, t->gain);
  bool clear = t->gain > 2 * t->se || t->gain > (double)right.n;
  if (!isnan(right.share) && (clear || rightness_is_near(&right)))
    words = arena_format(&c->arena, "%s; the program is %s: %s", words,
                         rightness_is_near(&right) ? "nearly right" : "not right",
                         rightness_words(&c->arena, &right));
  if (t->given_up) words = arena_format(&c->arena, "%s; %s", words, t->given_up);
  return r->exact ? arena_format(&c->arena, "%s. %s", words, exact_words(c, r->exact)) : words;
}

/* The fit's notes, and what the draws lack. What is in a run folder does not depend on who wrote
 * it: options are named as on the command line. */
static void set_notes(Ctx *c, const Run *r, Summary *s) {
  const char **notes = NEW_ARRAY(&c->arena, const char *, r->fit->nnotes + 1);
  for (size_t k = 0; k < r->fit->nnotes; k++)
    notes[s->nnotes++] = ctx_words(c, r->fit->notes[k], "--");
  if (r->left_out) notes[s->nnotes++] = ctx_words(c, r->left_out, "--");
  s->notes = notes;
}

static const SummaryFreed *freed_of(Ctx *c, const FreedVariable *v, size_t n) {
  SummaryFreed *out = NEW_ARRAY(&c->arena, SummaryFreed, n + 1);
  for (size_t k = 0; k < n; k++) out[k] = (SummaryFreed){v[k].name, v[k].gain, v[k].se};
  return out;
}

/* How the fit was chosen, step by step and in words. */
static void add_path(Ctx *c, const Run *r, Summary *s) {
  const TunePath *t = r->tuned;
  SummaryLambda *steps = NEW_ARRAY(&c->arena, SummaryLambda, t->n + 1);
  for (size_t k = 0; k < t->n; k++)
    steps[k] = (SummaryLambda){t->steps[k].regularizer == REG_PRIOR, t->steps[k].lambda,
                               t->steps[k].sum, t->steps[k].gain, t->steps[k].se};
  s->path = steps;
  s->npath = t->n;
  s->best = t->free ? t->n : t->best;
  s->freed = freed_of(c, t->freed, t->nfreed);
  s->nfreed = t->nfreed;
  s->tried = freed_of(c, t->tried, t->ntried);
  s->ntried = t->ntried;
  s->freeing = t->free != NULL;
  const char **notes = NEW_ARRAY(&c->arena, const char *, s->nnotes + 1);
  s->verdict = notes[0] = verdict(c, r, s);
  for (size_t k = 0; k < s->nnotes; k++) notes[k + 1] = s->notes[k];
  s->notes = notes;
  s->nnotes++;
}

/* Mean and sd of every row under Bayes, where q has left it. */
static void add_bayes(Ctx *c, const Run *r, SummaryParameter *rows) {
  Run bayes = *r;
  bayes.q = r->tuned->bayes;
  bayes.phi = r->tuned->bayes_phi;
  const Model *m = r->problem->model;
  bool *kept = NEW_ARRAY(&c->arena, bool, m->noutputs + 1);
  for (int k = 0; k < m->noutputs; k++) kept[k] = m->outputs[k].block == BLOCK_PARAMETERS;
  const Draws *d =
      &run_draw(c, &bayes, r->problem, (size_t)r->o->save_draws, (uint64_t)r->o->seed, kept)->draws;
  const SummaryParameter *own = summary_parameters(c, d, d->ncols);
  for (size_t k = 0; k < d->ncols; k++) {
    rows[k].bayes_mean = own[k].mean;
    rows[k].bayes_sd = own[k].sd;
  }
}

/* ---- how far VI is from the posterior -------------------------------------------------------- */

/* In words, with the row whose mean moves most, in standard deviations of q. */
static const char *khat_note(Ctx *c, const Summary *s) {
  const SummaryParameter *most = NULL;
  double far = 0;
  for (size_t k = 0; k < s->nparameters; k++) {
    const SummaryParameter *p = &s->parameters[k];
    if (!(p->sd > 1e-9 * fabs(p->mean)))
      continue; /* a constant, L[1,1] of a correlation's factor */
    double d = fabs(p->corrected - p->mean) / p->sd;
    if (d > far) far = d, most = p;
  }
  const char *moved =
      most && far >= 0.1
          ? arena_format(&c->arena, "; by importance weights %s has mean %.3g instead of %.3g",
                         most->name, most->corrected, most->mean)
          : "";
  if (!(s->khat <= PSIS_GOOD))
    return arena_format(&c->arena,
                        "q is far from the posterior (Pareto k-hat %.2f, above 0.7): do not trust "
                        "its sds, nor corrected means; pvi sample draws from the posterior itself",
                        s->khat);
  return arena_format(&c->arena, "q is %s the posterior (Pareto k-hat %.2f)%s",
                      s->khat < 0.5 ? "close to" : "not far from", s->khat, moved);
}

static void add_note(Ctx *c, Summary *s, const char *note) {
  const char **notes = NEW_ARRAY(&c->arena, const char *, s->nnotes + 1);
  for (size_t k = 0; k < s->nnotes; k++) notes[k] = s->notes[k];
  notes[s->nnotes++] = note;
  s->notes = notes;
}

/* Weights p / q of the draws of q make them draws of the posterior, as far as their k allows. */
static void add_khat(Ctx *c, const Run *r, Summary *s, SummaryParameter *rows) {
  const Draws *d = r->draws;
  TempArena *temp = temp_open(c);
  double *w = NEW_ARRAY(&temp->arena, double, d->ndraws + 1);
  for (size_t i = 0; i < d->ndraws; i++) w[i] = d->log_p[i] - d->log_g[i];
  s->has_khat = true;
  s->khat = psis_smooth(psis_work(&temp->arena, d->ndraws), w);
  for (size_t k = 0; k < s->nparameters; k++) {
    rows[k].corrected = 0;
    for (size_t i = 0; i < d->ndraws; i++)
      rows[k].corrected += exp(w[i]) * d->values[i * d->ncols + k];
  }
  temp_close(temp);
  add_note(c, s, khat_note(c, s));
}

/* VI with a density for every parameter, and draws enough for a tail. */
static bool has_khat(const Run *r) {
  enum { LEAST = 100 };
  bool kernels = r->amortized && r->q.family == FAMILY_particles; /* which only smooth draws */
  return r->score == SCORE_elbo && !kernels && !r->q.npoint && r->q.dim &&
         r->draws->ndraws >= LEAST && !r->fit->interrupted &&
         model_has_densities(r->problem->model);
}

/* What q was held to; of both, with their weights. */
static const char *regularizer_name(Ctx *c, const Run *r) {
  const OptionParts *p = &r->o->parts[OPTION_regularize];
  static const char *const names[] = {"prior", "posterior"};
  if (r->regularizer != REG_BOTH) return names[r->regularizer];
  return arena_format(&c->arena, "%s %g + %s %g", names[p->items[0].word], p->items[0].weight,
                      names[p->items[1].word], p->items[1].weight);
}

/* ---- how much other families could gain ------------------------------------------------------ */

static const char *certificate_note(Ctx *c, const Certificate *x) {
  if (!x->bounded)
    return "certificate: none; the likelihood of single observations grows without limit, so some "
           "distribution of the parameters gains any number of nats";
  if (x->at_most < 0.05)
    return "certificate: no distribution of the parameters, of whatever family, would gain 0.05 "
           "nats of training log score over q";
  const char *found =
      x->gain >= 0.05
          ? arena_format(&c->arena, ", and one with %zu points gains %.2f", x->points, x->gain)
          : "";
  return arena_format(&c->arena,
                      "certificate: whatever its family, no distribution of the parameters gains "
                      "more than %.2f nats of training log score over q, as far as %zu searches "
                      "found%s",
                      x->at_most, x->searches, found);
}

static void add_certificate(Ctx *c, const Certificate *x, Summary *s) {
  s->has_certificate = true;
  s->limited = x->bounded;
  s->bound_slope = x->slope;
  s->bound_at_q = x->bound;
  s->gain_found = x->gain;
  s->gain_at_most = x->at_most;
  add_note(c, s, certificate_note(c, x));
}

const Summary *run_summarise(Ctx *c, const Run *r) {
  const Fit *fit = r->fit;
  const Options *o = r->o;
  const Model *m = r->problem->model;
  bool vi = r->score == SCORE_elbo;
  SummaryCounter *counters = NEW_ARRAY(&c->arena, SummaryCounter, 1);
  counters[0] = (SummaryCounter){"skipped_steps", fit->skipped};
  SummaryParameter *rows = summary_parameters(c, r->draws, count_parameters(m, r->draws));
  Summary *s = NEW(&c->arena, Summary);
  *s = (Summary){.version = PVI_VERSION,
                 .program = r->program_origin.shown,
                 .data = r->data_origin.shown,
                 .seed = (uint64_t)o->seed,
                 .score = r->amortized ? r->amortized : run_score_title(c, r->o, r->score),
                 .family = family_name(r->q.family),
                 .regularizer = vi ? "prior" : regularizer_name(c, r),
                 .lambda = vi ? 1 : r->lambda,
                 .exact = fit->exact,
                 .draws = (long)fit->draws,
                 .optimizer = optim_name(r->amortized ? OPTIM_ADAM : (OptimKind)o->optimizer),
                 .converged = fit->converged,
                 .interrupted = fit->interrupted,
                 .reason = ctx_words(c, fit->reason, "--"),
                 .objective = fit->value.value,
                 .evaluations = fit->evaluations,
                 .iterations = fit->iterations,
                 .seconds = fit->seconds,
                 .n_obs = m->n_obs,
                 .dim = m->dim,
                 .parameters = rows,
                 .nparameters = count_parameters(m, r->draws),
                 .counters = counters,
                 .ncounters = 1,
                 .starts = fit->starts,
                 .nstarts = fit->nstarts,
                 .stages = fit->stages,
                 .nstages = fit->nstages};
  set_notes(c, r, s);
  memcpy(s->parts, r->scores->parts, sizeof s->parts);
  if (r->folds) {
    s->folds = r->folds->parts[PART_TEST];
    s->folds_rule = r->folds_rule;
  }
  if (r->tuned && !isinf(r->tuned->lambda)) add_bayes(c, r, rows);
  s->exact_bayes = r->exact;
  if (r->tuned)
    add_path(c, r, s);
  else if (r->exact)
    add_note(c, s, exact_words(c, r->exact));
  if (has_khat(r)) add_khat(c, r, s, rows);
  if (r->certificate) add_certificate(c, r->certificate, s);
  return s;
}
