/* energy.c: minus the energy score of a vector outcome, E|Y - y| - E|Y - Y'| / 2 with the Euclidean
 * norm (Gneiting and Raftery 2007), from simulated outcomes: the CRPS in one dimension. The paper's
 * likelihood-free score. */
#include "score/vector_sim.h"

#include <math.h>

/* D = -|a - b|, dD / da = -(a - b) / |a - b|; 0 where they coincide */
static double minus_distance(double r2, const ScoreOptions *o, double *slope) {
  (void)o;
  double r = sqrt(r2);
  *slope = r > 0 ? -1 / r : 0;
  return -r;
}

double score_energy(const ScoreCase *c, const ScoreAdjoint *adj) {
  return vector_sim_score(c, minus_distance, adj);
}
