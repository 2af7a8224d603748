/* summarise.c: a finished run in numbers and words: Summary, and what `pvi fit` prints of it. */
#include "run/run.h"

#include "report/table.h"

#include <string.h>

static size_t count_parameters(const Model *m, const Draws *d) {
  size_t n = 0;
  while (n < d->ncols && model_output_is_parameter(m, n)) n++;
  return n;
}

const Summary *run_summarise(Ctx *c, const Run *r) {
  const Fit *fit = r->fit;
  const Options *o = r->o;
  const Model *m = r->problem->model;
  bool vi = o->score == SCORE_elbo;
  SummaryCounter *counters = NEW_ARRAY(&c->arena, SummaryCounter, 1);
  counters[0] = (SummaryCounter){"skipped_steps", fit->skipped};
  Summary *s = NEW(&c->arena, Summary);
  *s = (Summary){.version = PVI_VERSION,
                 .program = r->program_origin.shown,
                 .data = r->data_origin.shown,
                 .seed = (uint64_t)o->seed,
                 .score = score_name((ScoreId)o->score),
                 .family = family_name(r->q.family),
                 .regularizer = vi || o->regularize == REG_PRIOR ? "prior" : "posterior",
                 .lambda = vi ? 1 : o->lambda,
                 .exact = fit->exact,
                 .draws = (long)fit->draws,
                 .optimizer = optim_name((OptimKind)o->optimizer),
                 .converged = fit->converged,
                 .interrupted = fit->interrupted,
                 .reason = fit->reason,
                 .objective = fit->value.value,
                 .evaluations = fit->evaluations,
                 .iterations = fit->iterations,
                 .seconds = fit->seconds,
                 .n_obs = m->n_obs,
                 .dim = m->dim,
                 .parameters = summary_parameters(c, r->draws),
                 .nparameters = count_parameters(m, r->draws),
                 .notes = fit->notes,
                 .nnotes = fit->nnotes,
                 .counters = counters,
                 .ncounters = 1,
                 .starts = fit->starts,
                 .nstarts = fit->nstarts,
                 .stages = fit->stages,
                 .nstages = fit->nstages};
  memcpy(s->parts, r->scores->parts, sizeof s->parts);
  if (r->folds) s->folds = r->folds->parts[PART_TEST], s->folds_rule = o->folds;
  return s;
}
