/* run_read.c: a run folder as a Run again. */
#include "report/sample_summary.h"
#include "run/run.h"

#include <string.h>
#include <unistd.h>

/* scores.csv, with the sums of summary.json; leave-one-out scores are left out. */
static const Scores *read_scores(Ctx *c, const char *folder, const Summary *summary) {
  const ScoreTable *t = scores_read(c, arena_format(&c->arena, "%s/scores.csv", folder));
  Scores *s = NEW(&c->arena, Scores);
  if (t->nscores > 2 * MOST_SCORES || t->n != summary->n_obs)
    ctx_fail(c, PVI_DATA, NOWHERE, "%s/scores.csv is not of this run", folder);
  s->n_obs = t->n;
  s->part = (int *)t->part;
  size_t each = summary->folds.count ? t->nscores / 2 : t->nscores; /* held-out ones follow */
  if (each >= 2 && !strcmp(t->names[each - 2], "loo")) each -= 2;   /* and the Pareto k of each */
  s->by_obs = NEW_ARRAY(&c->arena, double, t->n *each + 1);
  for (size_t i = 0; i < t->n; i++)
    memcpy(s->by_obs + i * each, t->values + i * t->nscores, each * sizeof(double));
  s->list.count = each;
  for (size_t k = 0; k < each; k++) s->list.names[k] = t->names[k];
  memcpy(s->parts, summary->parts, sizeof s->parts);
  return s;
}

/* What was asked, and where. */
static Run *read_asked(Ctx *c, const char *folder, const Asked *a) {
  Run *r = NEW(&c->arena, Run);
  r->o = a->options;
  r->amortized = a->amortized;
  r->program_origin = a->program;
  r->data_origin = a->data;
  r->folder = arena_format(&c->arena, "%s", folder);
  return r;
}

Run *run_read(Ctx *c, const char *folder) {
  const Asked *a = folder_asked(c, folder);
  const char *command = a->sampling ? "sample" : "fit";
  if (!a->has_results && a->amortized)
    ctx_fail(c, PVI_DATA, NOWHERE, "the run in %s is not finished; begin it anew with pvi %s",
             folder, a->amortized);
  if (!a->has_results)
    ctx_fail(c, PVI_DATA, NOWHERE,
             "the %s in %s is not finished; continue it: pvi %s " OPTION("resume") " %s",
             a->sampling ? "sampling" : "fit", folder, command, folder);
  Run *r = read_asked(c, folder, a);
  const char *summary = arena_format(&c->arena, "%s/summary.json", folder);
  if (a->sampling) {
    r->sampling = true;
    r->sampled = sample_summary_read(c, summary);
    r->summary = sample_summary_plain(c, r->sampled);
  } else {
    qfile_read(c, folder, r);
    r->summary = summary_read(c, summary);
  }
  r->scores = read_scores(c, folder, r->summary);
  return r;
}

/* Has the file that the run was made from changed since? */
static void check_origin(Ctx *c, const char *what, const Origin *then, const Origin *now) {
  if (!strcmp(then->hash, now->hash)) return;
  ctx_fail(c, PVI_DATA, NOWHERE,
           "the %s %s has changed since the run; the run says nothing about what it is now: run it "
           "again",
           what, now->shown ? now->shown : "");
}

const Problem *run_problem(Ctx *c, const Run *r) {
  if (!r->program_origin.path)
    ctx_fail(c, PVI_DATA, NOWHERE,
             "this run was made from a program in memory; give the model to read the run with");
  if (r->data_origin.shown && !r->data_origin.path)
    ctx_fail(c, PVI_DATA, NOWHERE,
             "the data of this run came from a pipe or from memory and cannot be read again; put "
             "them into a file and run it anew, or give the model to read the run with");
  ProblemSource s = {.program = r->program_origin.path, .data = r->data_origin.path};
  Problem *p = problem_load(c, &s, r->o);
  run_check_problem(c, r, p);
  p->program_origin.shown = r->program_origin.shown; /* as the user named them then */
  p->data_origin.shown = r->data_origin.shown;
  return p;
}

void run_check_problem(Ctx *c, const Run *r, const Problem *p) {
  check_origin(c, "program", &r->program_origin, &p->program_origin);
  check_origin(c, "data file", &r->data_origin, &p->data_origin);
}

const Split *run_split(Ctx *c, const Run *r, const Problem *p) {
  if (r->split) return r->split;
  const char *path = arena_format(&c->arena, "%s/split.json", r->folder);
  return access(path, F_OK) ? split_all(c, p->model->n_obs) : split_read(c, path, p->model->n_obs);
}
