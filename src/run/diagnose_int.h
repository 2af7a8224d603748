/* diagnose_int.h: what the parts of a diagnosis share: diagnose.c is its course, varies.c the test,
 * larger.c what goes with a variation and the larger programs. */
#ifndef PVI_DIAGNOSE_INT_H
#define PVI_DIAGNOSE_INT_H

#include "run/diagnose.h"
#include "run/tune.h"

/* Parameters that are let go together. */
typedef struct {
  const char *name;
  int32_t first, count; /* unconstrained */
  Freedom free;
} Candidate;

typedef struct {
  Ctx *c;
  Run *r;
  const Problem *problem;
  const Problem *rows; /* the same, every outcome an observation by itself: simulated one by one */
  FitOptions fit;      /* of the score, in VI's family */
  ScoreList list;      /* the score alone */
  Candidate *candidates;
  size_t n;
  Q q; /* VI's */
  const double *phi;
  double began; /* the stage under way, in seconds */
} Study;

/* How far a stage is, on the line of progress. */
void study_tell(const Study *s, const char *stage, size_t done, size_t total);

/* ---- varies.c -------------------------------------------------------------------------------- */

/* The width that every candidate finds when it alone leaves its Bayes distribution, and its error.
 */
void widths_alone(const Study *s, Diagnosed *v);
/* The gains in sample and, where outcomes can be simulated, p values and what varies. */
void test_varies(Study *s, Diagnosed *v, Diagnosis *d);

/* ---- larger.c -------------------------------------------------------------------------------- */

/* The column of the data that accounts for most of how the observations pull at a candidate. */
void explain(const Study *s, const Candidate *x, Diagnosed *v);
/* Larger programs for what varies: those that could be fitted, with their gains, the best first. */
void try_larger(Study *s, const char *folds, const Diagnosed *v, Diagnosis *d);

#endif
