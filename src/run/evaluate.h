/* evaluate.h: scores of observations under a fitted q, the ones held out and the ones trained on.
 */
#ifndef PVI_EVALUATE_H
#define PVI_EVALUATE_H

#include "infer/predictive.h"
#include "report/summary.h"
#include "run/options.h"

enum { MOST_SCORES = SCORE_COUNT + 3 };

/* Which scores are reported: the log score and the log density at the mean of q (their difference
 * is what the width of q is worth), then those that the outcomes allow. */
typedef struct {
  const char *names[MOST_SCORES];
  size_t count;
  size_t
      first; /* number of the first of `ids` among them: 2 with both logs, 1 with the score alone */
  ScoreId ids[SCORE_COUNT + 1];
  int nids;
  const ScorePart *parts; /* of SCORE_sum among them */
  size_t nparts;
} ScoreList;

/* How the scores are computed. The same numbers give the same scores to the last digit, so a run
 * writes them down. */
typedef struct {
  Integrate integrate;
  size_t draws;        /* of q, for log scores */
  size_t metric_draws; /* for the other scores, which cost more */
  uint64_t seed;
  double alpha;
  bool coarse; /* of fits that are compared with each other: to fewer digits */
} ScoringPlan;

/* The scores of observations, those that were asked for. */
typedef struct Scores {
  ScoreList list;
  size_t n_obs;
  double *by_obs; /* [n_obs x list.count]; NaN where an observation is in no part */
  int *part;      /* n_obs: Part, or -1 */
  SummaryPart parts[PART_COUNT];
  size_t unsettled; /* scores that no number of nodes settled, and that are by draws */
} Scores;

/* Draws that stand for q: [dim x n] of all, and of fewer for the scores that cost more. */
typedef struct {
  const double *all, *few;
  size_t nall, nfew;
} GivenDraws;

/* What is scored: these observations, under q, or under draws (q is then any of their mean). */
typedef struct {
  Ctx *c;
  const Model *model;
  const Q *q;
  const double *phi;
  const ScoringPlan *how;
  Pool *pool;
  const GivenDraws *given;       /* NULL: q itself */
  bool (*cancelled)(void *self); /* as in Scoring */
  void *cancelled_self;
} Scorer;

/* What the options say of scores: the level of intervals, and the parts of a sum. */
ScoreOptions evaluate_score_options(const Options *o);
/* The scores that can be had of every observation; those of --metric must be. A sum of scores that
 * `fitted` maximises is among them. */
ScoreList evaluate_list(Ctx *c, const Model *m, const OptionList *asked, const Options *fitted);
/* The score of the target alone. */
ScoreList evaluate_one(Ctx *c, const Model *m, const Target *t);
/* The log score, and the log density at the mean. */
ScoreList evaluate_logs(void);
/* Few draws where there are very many observations, whose sum has less noise. */
ScoringPlan evaluate_scoring(const Options *o, size_t n_obs);
/* r->parts[part]: sums and means over the observations of the part, in their order. */
void evaluate_sum(Ctx *c, Scores *r, Part part);
Scores *evaluate_none(Ctx *c, const ScoreList *list, size_t n); /* of n observations, none yet */
Scores *evaluate_parts(const Scorer *s, const ScoreList *list, const Split *split);

#endif
