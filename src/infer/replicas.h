/* replicas.h: data sets as a program would simulate them, one for each of many given points theta.
 *
 * Outcomes come from the distribution that their statement names or, of a program that simulates
 * (ModelOptions.simulate), from its own simulation. Every observation has `width` numbers.
 */
#ifndef PVI_REPLICAS_H
#define PVI_REPLICAS_H

#include "infer/observed.h"

typedef struct Replicas Replicas;

/* Of which observations (rows NULL: all), and for how many points at a time. */
typedef struct {
  const Model *model;
  const size_t *rows;
  size_t n, M;
} ReplicasOf;
/* NULL where outcomes cannot be simulated, and *why is the reason. */
Replicas *replicas_make(Arena *a, const ReplicasOf *of, Pool *pool, const char **why);
size_t replicas_width(const Replicas *r);
size_t replicas_count(const Replicas *r);                 /* observations */
void replicas_numbers(const Replicas *r, int32_t *which); /* of each in the model */
/* theta: [M x dim], point by point. out: [count x width x M]. All random numbers follow from the
 * seed. */
void replicas_draw(Replicas *r, const double *theta, uint64_t seed, double *out);
void replicas_seen(const Replicas *r, double *out); /* what was observed: [count x width] */

#endif
