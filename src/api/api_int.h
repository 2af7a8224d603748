/* api_int.h: the handles behind include/pvi.h, and how every call runs.
 *
 * A handle owns a Ctx: its memory, freed with it. A call runs in the Ctx of the handle it makes, or
 * in one of its own that goes when the call returns; either way under a trap, so that an error
 * becomes a status, and its messages become text in the context.
 */
#ifndef PVI_API_INT_H
#define PVI_API_INT_H

#include "pvi.h"

#include "model/density.h"
#include "report/table.h"
#include "run/reports.h"

#include <pthread.h>
#include <stdatomic.h>

struct pvi_context {
  char *error; /* the messages of the last call as text, and one by one */
  pvi_message *messages;
  size_t nmessages;
  char *text; /* of the last report */
  const char *option_prefix;
  int (*report)(void *self, const pvi_progress *p);
  void *report_self;
  atomic_bool cancelled;
  long alloc_left; /* torture: see Ctx */
};

struct pvi_options {
  pvi_context *context;
  Ctx ctx;
  Options *o;
  char *got;           /* what pvi_get returned last */
  const char *command; /* whose options are taken; NULL: all */
};

/* Names of parameters and columns are made when they are first asked for. */
struct pvi_model {
  Ctx ctx;
  const Problem *problem;
  pthread_mutex_t lock;
  const char **parameters, **columns;
  pthread_mutex_t density_lock; /* one plan for pvi_density, made at its first call */
  Ctx density_ctx;
  Density *density;
};

struct pvi_run {
  Ctx ctx;
  const Run *run;
  bool simulator; /* it has no Problem: parameters are its only columns */
  pvi_result result;
  const Scores *scores;
  pvi_score *rows; /* of every part and name */
  size_t nrows;
  /* the Problem: of the model it was fitted to or read with, or loaded when it is first needed */
  const Problem *problem;
  pthread_mutex_t lock;
  Ctx problem_ctx;
};

typedef void ApiStep(Ctx *ctx, void *arg);
/* Runs the step in the given Ctx, or with NULL in one of its own. */
int api_call(pvi_context *c, Ctx *ctx, ApiStep *step, void *arg);

/* A step that makes a text; the text then belongs to the context. */
typedef Status ApiReport(Ctx *ctx, void *arg, Text *out);
int api_report(pvi_context *c, ApiReport *report, void *arg, const char **text);

/* Arguments that must not be NULL: a status and a message instead of a crash. */
int api_missing(pvi_context *c, const char *what);
#define NEED(c, what)                                                                              \
  do {                                                                                             \
    if (!(what)) return api_missing(c, #what);                                                     \
  } while (0)

/* So many points of `each` numbers cannot be. */
void api_check_count(Ctx *ctx, size_t n, size_t each);

const Options *api_options(Ctx *ctx, const pvi_options *o); /* defaults for NULL */
RunHooks api_hooks(pvi_context *c); /* the context's progress and cancellation */
/* Makes a run, *slot, for the step to fill in; *out is it, or NULL where the step failed. */
int api_make_run(pvi_context *c, ApiStep *step, void *arg, pvi_run **slot, pvi_run **out);
int api_verdict(const pvi_run *r); /* the status of a fit that has ended */
/* What a run tells and asks, and its split. */
RunHooks api_hooks(pvi_context *c);
const Split *api_split(Ctx *ctx, const pvi_split *p, size_t n);
/* The Problem that the run in a folder was asked for: m's, or loaded. */
const Problem *api_asked_problem(Ctx *ctx, const pvi_model *m, const Asked *asked);
void api_need_q(Ctx *ctx, const Run *run); /* ends with PVI_USAGE where there are only draws */
/* The Problem of a run. */
int api_problem(pvi_context *c, pvi_run *r, const Problem **out);

#endif
