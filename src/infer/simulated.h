/* simulated.h: the objective of a fit through a simulator (simulator.h), on given noise:
 *
 *   sum_i S_i(simulated outcomes, y_i) - lambda KL(q || prior).
 */
#ifndef PVI_SIMULATED_H
#define PVI_SIMULATED_H

#include "infer/simulator.h"

typedef struct Simulated Simulated;

/* M draws of q. All that is given must outlive it. */
Simulated *simulated_make(Arena *a, const Simulator *s, const SimulatorOptions *o, const Q *q,
                          size_t M, Pool *pool);
void simulated_renew(Simulated *f, uint64_t seed); /* other noise */
/* Mini-batch t = 0, 1, ... of an order that the seed of the fit decides; negative: all. */
void simulated_batch(Simulated *f, long t);
/* grad may be NULL. False when not finite. */
bool simulated_eval(Simulated *f, const double *phi, PredictiveValue *v, double *grad);
/* n: of the last evaluation of all observations. */
const double *simulated_scores(const Simulated *f);

#endif
