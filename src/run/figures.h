/* figures.h: what a run found, as figures: rows of a table, each a function that makes some plots.
 */
#ifndef PVI_FIGURES_H
#define PVI_FIGURES_H

#include "run/pointwise.h"
#include "run/predict.h"
#include "run/sampling.h"

/* What figures are made of. Whatever is not known is NULL, and the figures that need it are left
 * out. */
typedef struct {
  Ctx *c;
  const Run *run;
  const Summary *s;
  const Draws *draws;
  const SampledDraws *chains; /* of pvi sample */
  const Data *trace;          /* trace.csv */
  const ScoreTable *scores;   /* scores.csv */
  const Problem *problem;     /* program and data of the fit */
  const Predictions *predictions;
  const double *y;        /* the outcome of every observation; NaN: not known */
  const double *trials;   /* of every observation: of a binomial; NULL: there are none */
  const double *pit;      /* where it fell in its predictive distribution, 0 to 1 */
  const char *no_problem; /* why there is no problem */
} Findings;

Findings *findings_of(Ctx *c, const Run *run, const Options *o);

/* One kind of figure: its heading, and how to read it. */
typedef struct {
  const char *heading, *reading;
  void (*make)(const Findings *f, FigureList *out);
} FigureRow;

enum { FIGURE_ROWS = 8 };
extern const FigureRow figure_rows[FIGURE_ROWS];
/* Those that have a table behind them. */
void figures_lambda_path(const Findings *f, FigureList *out);
void figures_pit(const Findings *f, FigureList *out);
/* Of draws of the posterior (figures_sample.c), in the place of the first of them. */
enum { SAMPLE_FIGURE_ROWS = 4 };
extern const FigureRow sample_figure_rows[SAMPLE_FIGURE_ROWS];
void figures_marginals(const Findings *f, FigureList *out);
/* The share of outcomes inside of their central predictive intervals of this level. */
double figures_coverage(const Findings *f, double level);

#endif
