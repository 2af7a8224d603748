/* objective.h: for tests of objectives: their value, and their gradient against finite differences. */
#ifndef PVI_TEST_OBJECTIVE_H
#define PVI_TEST_OBJECTIVE_H

#include "evaluate.h"

#include "infer/predictive.h"

UNUSED static double value_at(Predictive *p, const double *phi) {
  PredictiveValue v;
  assert_true(predictive_eval(p, phi, &v, NULL));
  return v.value;
}

/* grad, of n entries, is the gradient at phi. */
UNUSED static void check_gradient(Predictive *p, double *phi, const double *grad, size_t n, double tolerance) {
  for (size_t k = 0; k < n; k++) {
    double f[4], h = 1e-5, x = phi[k];
    static const double step[4] = {-2, -1, 1, 2};
    for (int i = 0; i < 4; i++) {
      phi[k] = x + step[i] * h;
      f[i] = value_at(p, phi);
    }
    phi[k] = x;
    double d = difference(f, h);
    if (fabs(d - grad[k]) > tolerance * fmax(1, fabs(d))) fail_msg("entry %zu: %.10g, by differences %.10g", k, grad[k], d);
  }
}

#endif
