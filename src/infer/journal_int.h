/* journal_int.h: the journal as a fit sees it. */
#ifndef PVI_JOURNAL_INT_H
#define PVI_JOURNAL_INT_H

#include "infer/fit.h"
#include "infer/journal.h"

typedef enum { STEP_EVALUATION, STEP_RUN, STEP_KINDS } StepKind;

/* One step that is done. */
typedef struct {
  StepKind kind;
  bool finite; /* evaluation */
  PredictiveValue value;
  OptimResult run; /* phi has dim numbers */
  size_t dim;
} JournalStep;

struct Journal {
  Arena *arena;
  uint64_t identity; /* of the fit it belongs to; 0: of none yet */
  size_t turn;
  JournalStep *steps;
  size_t nsteps, cap_steps, replayed;
  /* The rest is how things were when it was last captured: then there were so many steps. */
  size_t captured;
  Text run;      /* state of the optimizer; empty: no run was under way */
  Text memories; /* what the objectives in use remembered */
  double seconds;
  FitTrace *trace;
  size_t ntrace, cap_trace;
  double best_valid; /* best score of the validation part, and its iterate; nbest 0: none */
  double *best_phi;
  size_t nbest;
  void (*save)(void *self, const Journal *j);
  void *save_self;
  double interval, last, took; /* seconds: between saves, time of the last one, what it took */
};

/* Begins or continues a fit; false: the journal is of another one. */
bool journal_open(Journal *j, uint64_t identity);
/* The next step to be replayed; NULL: there are no more. */
const JournalStep *journal_next(Journal *j);
void journal_add(Journal *j, const JournalStep *s); /* copies phi */
bool journal_due(const Journal *j);                 /* is it time to save? */
void journal_save(Journal *j);

#endif
