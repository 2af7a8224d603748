/* npe.c: neural posterior estimation (amortized.h): the head learns, and what it says of the data
 * that were seen is the flow. */
#include "infer/amortized.h"

Amortized npe_fit(Ctx *c, const Model *m, const Lessons *l, const AmortizedOptions *o, Pool *pool) {
  Head h = head_make(l, o);
  Learner f = head_learner(&h);
  double *w = NEW_ARRAY(&c->arena, double, f.weights);
  Amortized a = {.q = q_make(&c->arena, FAMILY_flow, h.shape, m->dim, NULL)};
  head_start(&c->arena, &h, o->learn.seed, w);
  a.learned = learn(c, &f, l->n, &o->learn, pool, w);
  a.phi = head_phi(c, &h, w);
  return a;
}
