/* objective.h: for tests of objectives: a place to evaluate them, and their gradient against finite
 * differences. */
#ifndef PVI_TEST_OBJECTIVE_H
#define PVI_TEST_OBJECTIVE_H

#include "evaluate.h"

#include "infer/predictive.h"

UNUSED static FamilyId family_named(const char *name) {
  FamilyId id = FAMILY_meanfield;
  assert_true(family_find(name, &id));
  return id;
}

/* q about a sensible place, not quite symmetric. */
UNUSED static double *some_phi(Ctx *c, const Q *q) {
  double *phi = NEW_ARRAY(&c->arena, double, q_size(q)),
         *mean = NEW_ARRAY(&c->arena, double, q->dim);
  double *sd = NEW_ARRAY(&c->arena, double, q->dim);
  for (size_t k = 0; k < q->dim; k++)
    mean[k] = 0.2 - 0.1 * (double)(k % 3), sd[k] = 0.4 + 0.1 * (double)(k % 2);
  q_start(q, phi, mean, sd);
  uint64_t state = 3;
  for (size_t k = 0; k < q_size(q); k++) phi[k] += uniform(&state, -0.1, 0.1);
  return phi;
}

UNUSED static double value_at(Predictive *p, const double *phi) {
  PredictiveValue v;
  assert_true(predictive_eval(p, phi, &v, NULL));
  return v.value;
}

/* grad, of n entries, is the gradient at phi. */
UNUSED static void check_gradient(Predictive *p, double *phi, const double *grad, size_t n,
                                  double tolerance) {
  for (size_t k = 0; k < n; k++) {
    double f[4], h = 1e-5, x = phi[k];
    static const double step[4] = {-2, -1, 1, 2};
    for (int i = 0; i < 4; i++) {
      phi[k] = x + step[i] * h;
      f[i] = value_at(p, phi);
    }
    phi[k] = x;
    double d = difference(f, h);
    if (!(fabs(d - grad[k]) <= tolerance * fmax(1, fabs(d))))
      fail_msg("entry %zu: %.10g, by differences %.10g", k, grad[k], d);
  }
}

#endif
