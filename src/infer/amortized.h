/* amortized.h: posteriors by networks that learn from simulated pairs (lessons.h).
 *
 *   npe   neural posterior estimation (Papamakarios and Murray 2016; Greenberg, Nonnenmacher and
 *         Macke 2019): a network reads the summary of data and says which normal, and which shape
 * of a flow over it (family/conditional.h), theta has; it learns to give the theta that made the
 * data a high density. What it says of the data that were seen is q, of the family `flow` nre
 * neural ratio estimation (Hermans, Begy and Louppe 2020): a network learns to tell the theta that
 * made the data from others; its logit is a log ratio of densities. The others come from a
 * reference, the flow of npe with wider noise, and not from the prior: in several dimensions hardly
 * a draw of the prior is where the posterior is. The posterior, reference times ratio, is sampled
 * by chains, whose draws are the particles of q
 */
#ifndef PVI_AMORTIZED_H
#define PVI_AMORTIZED_H

#include "infer/learn.h"
#include "infer/network.h"

typedef struct {
  Shape shape;   /* of the flow; zeros: defaults */
  size_t hidden; /* units of a hidden layer */
  LearnOptions learn;
  size_t draws; /* nre: particles */
} AmortizedOptions;

typedef struct {
  Q q;
  double *phi;
  Learned learned;
  const char *doubt; /* why the draws are not to be trusted; NULL: nothing stands against them */
} Amortized;

typedef Amortized AmortizedFit(Ctx *c, const Model *m, const Lessons *l, const AmortizedOptions *o,
                               Pool *pool);
AmortizedFit npe_fit, nre_fit;

/* ---- what both begin with: theta given a summary ----------------------------------------------
 */

/* The outputs of a network as a flow over t: means, the rows of a Cholesky factor L with the
 * logarithms of its diagonal, as fullrank has them, and the shifts of the layers. */
typedef struct {
  const Lessons *l;
  NetworkShape net;
  Shape shape;
  size_t nnet, nflow; /* weights: those of the network, those of the flow's layers */
} Head;

Head head_make(const Lessons *l, const AmortizedOptions *o);
Learner head_learner(const Head *h);
void head_start(Arena *a, const Head *h, uint64_t seed, double *w);
/* u [lessons x dim]: the noise from which the flow of its data makes every lesson's t. */
void head_noise(Ctx *c, const Head *h, const double *w, double *u);
/* phi of the flow over theta that the data which were seen have. */
double *head_phi(Ctx *c, const Head *h, const double *w);

#endif
