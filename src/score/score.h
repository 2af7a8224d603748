/* score.h: S(predictive, y_i) and its derivatives: how good the predictive distribution of one
 * observation is at what was seen.
 *
 * The predictive distribution is a mixture over lanes (draws of theta, or quadrature nodes): lane j
 * has weight w_j and either only its log density at y (`ll`), or a known kind of distribution with
 * parameters per lane (`kind`, `par`), or simulated outcomes
 * (`sim`). Which of them a score needs is in its row of scores.def. Larger is better for every
 * score.
 */
#ifndef PVI_SCORE_H
#define PVI_SCORE_H

#include "score/kind.h"
#include "vm/kernels.h"

/* The predictive distribution of one observation. Rows over lanes have M numbers, padded to LANES.
 */
typedef struct {
  Kind kind;
  size_t M, ld;              /* lanes; distance of rows where par has several */
  const double *weights;     /* sum to one; NULL: 1 / M each */
  const double *log_weights; /* their logarithms, for those who have them at hand; may be NULL */
  const double *par[KIND_PARAMETERS]; /* per lane; categorical: par[0] has `size` rows, ld apart */
  size_t size;                        /* categories (categorical), trials (binomial) */
} Mixture;

typedef enum {
#define SCORE(id, name, title, flags, rows, formula) SCORE_##id,
#include "score/scores.def"
#undef SCORE
  SCORE_COUNT,
  SCORE_sum = SCORE_COUNT /* no row, but a weighted sum of rows: ScoreOptions.parts */
} ScoreId;

/* A score in a sum, weight > 0. */
typedef struct {
  ScoreId id;
  double weight;
} ScorePart;

/* What a score may be told besides. */
typedef struct {
  double alpha;  /* interval: its level is 1 - alpha; 0: 0.1 */
  double smooth; /* interval: width of a rounded hinge, for optimizers on their way; 0: the score
                    itself */
  const double *levels; /* quantile: levels, weighted_interval: alphas; none: the deciles, the
                           forecast hubs' */
  size_t nlevels;
  double bandwidth;       /* mmd: of its kernel; 0: 1 */
  bool halves;            /* energy, mmd: only the pairs (k, k + nsim / 2), in O(nsim) */
  const ScorePart *parts; /* SCORE_sum: different rows, none of them twice */
  size_t nparts;
  double accuracy; /* relative, of integrals over outcomes where no derivatives are wanted; 0: as
                      that of derivatives */
} ScoreOptions;

typedef struct {
  Mixture q;
  double y;
  const double *ll;  /* per lane: log density at y */
  const double *sim; /* simulated outcomes, nsim of them (energy: nsim rows of dim,
                        simulation-major), equal weights */
  size_t nsim;
  const double *yvec; /* vector outcomes: dim numbers */
  size_t dim;
  ScoreOptions o;
  const Kernels *k;
  double *scratch; /* score_scratch() numbers */
  double *hint; /* interval: its ends at the last evaluation of this observation, kept up to date;
                   0: none yet; may be NULL */
} ScoreCase;

/* Derivatives, where asked for (not NULL): overwritten, 0 in the padding. */
typedef struct {
  double *ll;
  double *par[KIND_PARAMETERS];
  double *sim;     /* nsim (times dim) numbers, no padding */
  double *weights; /* d S / d w_j, w not constrained to sum to one; up to a constant common to all
                      lanes */
} ScoreAdjoint;

typedef double ScoreFunction(const ScoreCase *c, const ScoreAdjoint *adj);

typedef enum {
  NEEDS_LL = 1,
  NEEDS_KIND = 2,
  NEEDS_SIM = 4,
  NEEDS_VECTOR_SIM = 8,
  OF_DISCRETE = 16,
  OF_MOMENTS = 32,
  BY_QUANTILE = 64,
  KINKED = 128,
  KEEPS_HINTS = 256,
  LOSS = 512
} ScoreFlags;

#define SCORE(id, name, title, flags, rows, formula) ScoreFunction score_##id;
#include "score/scores.def"
#undef SCORE
ScoreFunction score_sum;

/* Several observations at once, lanes of equal weight: for scores that see nothing but log
 * densities. */
typedef struct {
  const double *ll; /* [rows x ld] */
  double *adj;      /* likewise, overwritten; or NULL */
  size_t rows, M, ld;
  const Kernels *k;
  double *scores; /* rows */
} ScoreRows;
typedef void ScoreRowsFunction(const ScoreRows *c);
ScoreRowsFunction score_log_rows, score_elbo_rows;

ScoreFunction *score_of(ScoreId id);
ScoreRowsFunction *score_rows_of(ScoreId id); /* NULL: one by one */
const char *score_name(ScoreId id);
unsigned score_needs(ScoreId id); /* the flags of its row: NEEDS_LL ... */
/* The same where it may be a sum: the flags of all parts; and a name for people. */
unsigned score_flags(ScoreId id, const ScoreOptions *o);
const char *score_title(Arena *a, ScoreId id, const ScoreOptions *o);
bool score_find(const char *name, ScoreId *id);

/* A score as tables show it to people: its title, which way is better, and by what its value is
 * multiplied. Scores without a row (log_at_mean, sums) are shown as they are. */
typedef struct {
  const char *title, *better;
  double sign;
} ScoreShown;
ScoreShown score_shown(const char *name);
/* Is it defined for outcomes of this kind, by parameters, with useful derivatives? */
bool score_allows(ScoreId id, Kind kind);
/* Has it a value there, if perhaps no derivative to train on? */
bool score_evaluates(ScoreId id, Kind kind);
/* Numbers of scratch that any score needs for these sizes; counts: of outcomes that may be. */
size_t score_scratch(size_t M, size_t nsim, bool counts);
/* What a sum needs besides, for the derivatives of one part: rows of par[0], numbers in all
 * simulated outcomes. */
size_t score_sum_scratch(size_t ld, size_t rows, size_t simulated);

/* Not a score: the predictive distribution in a few numbers. c->y is not looked at; the kind must
 * be known. mean and sd are NaN, or sd inf, where there is none. */
typedef struct {
  double mean, sd;
  double *quantiles; /* one for each level */
} ScoreSummary;
void score_describe(const ScoreCase *c, const double *levels, size_t nlevels, ScoreSummary *out);

/* Not a score but a gradient of the log score: the paper's estimator (b). ll and uniform: M log
 * densities at y and as many variates of (0, 1); log_bound >= every log density. weights[j] =
 * 1{uniform_j < p_j / bound} / how many multiply the derivatives of log q(theta_j); returns how
 * many were accepted: none, and the caller must draw again. */
size_t score_log_rejection(const double *ll, const double *uniform, size_t M, double log_bound,
                           double *weights);

#endif
