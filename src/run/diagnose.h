/* diagnose.h: which variables of a program vary in the population, by what it gains to let each of
 * them leave its Bayes distribution alone.
 *
 * Two questions are asked of every variable. Does freeing it predict held-out observations better?
 * That is the guide for a fit. And is its gain in sample larger than it would be if nothing varied?
 * That is the more powerful test: the same is done with data simulated from the Bayes fit, where by
 * construction nothing varies.
 */
#ifndef PVI_DIAGNOSE_H
#define PVI_DIAGNOSE_H

#include "run/run.h"

typedef struct {
  const char *name;      /* a variable, or an element of a short vector */
  double gain, se;       /* on held-out observations, with the paired standard error */
  double inside;         /* in sample */
  double p, adjusted;    /* of "varies": by itself, and among all; nan: unknown */
  bool varies;           /* adjusted is below the level */
  double sd_se;          /* of sd: how far it would differ with other data; nan: not known */
  double sd, bayes_sd;   /* on the unconstrained scale; of several elements the root mean square */
  const char *explained; /* the column of the data that goes with its variation best, or NULL */
  double share;          /* of the variation that the column accounts for */
  bool groups;           /* the column's values are groups */
  double column_sd;
} Diagnosed;

/* A larger program that was tried: how much better Bayes predicts with it. */
typedef struct {
  const char *variable, *what;
  const char *text, *changes; /* the program; its new lines */
  double gain, se;            /* on held-out observations, log score, over the program as it is */
} Expanded;

typedef struct {
  const Diagnosed *variables;
  size_t n, simulations; /* 0: none could be made */
  const char *no_test;   /* then: why */
  const Expanded *expanded;
  size_t nexpanded;
  const SummaryExact *exact; /* exact Bayes on held-out observations; NULL: not asked for */
  const char *verdict;
} Diagnosis;

/* What goes with a variable's variation, a sentence; NULL: nothing was found. How much a larger
 * program gains, another. */
const char *diagnosed_words(Arena *a, const Diagnosed *v);
const char *expanded_words(Arena *a, const Expanded *e);

const Diagnosis *diagnose(Ctx *c, const Problem *p, const Options *o, const RunHooks *h);

#endif
