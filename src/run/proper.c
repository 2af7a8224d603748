/* proper.c: does every parameter have a prior that can be normalised? One that has none makes KL(q
 * || prior) meaningless: it falls without end as q widens. */
#include "run/run.h"

#include "model/density.h"
#include "num/rng.h"

#include <math.h>

/* Far out on the unconstrained scale the log prior, with the Jacobian, must somewhere fall by more
 * than log(1 / |u|) does from one place to the next, on both sides: at 10, 40, 160, ... This is
 * asked around a few points, for where the others are at zero a scale may have its pole. */
enum { AROUND = 3, PLACES = 16, MOST = 300 /* parameters */ };
static const double FIRST = 10, FURTHER = 4;
static const double FALL = 1.4; /* log FURTHER is 1.386 */

/* Places of one parameter, on one side of its point. */
typedef struct {
  Density *density;
  size_t dim;
  double *theta; /* [PLACES x dim] */
  double prior[PLACES], jacobian[PLACES];
} Look;

/* Where the density is not a number, or there is none, it falls as well. */
static bool falls(Look *l, size_t k, double side) {
  for (size_t i = 0; i < PLACES; i++)
    l->theta[i * l->dim + k] = side * FIRST * pow(FURTHER, (double)i);
  density_eval(l->density, &(ModelPoints){l->theta, PLACES, l->dim, 1},
               &(DensityOut){.prior = l->prior, .jacobian = l->jacobian});
  bool any = false;
  for (size_t i = 1; i < PLACES; i++) {
    double now = l->prior[i] + l->jacobian[i], before = l->prior[i - 1] + l->jacobian[i - 1];
    any |= !(before - now <= FALL);
  }
  return any;
}

static bool is_proper(Look *l, const double *point, size_t k) {
  for (size_t i = 0; i < PLACES * l->dim; i++) l->theta[i] = point[i % l->dim];
  return falls(l, k, 1) && falls(l, k, -1);
}

const char *run_improper(Ctx *c, const Model *m) {
  RngStream s = rngs_make(1, 1);
  Arena *a = &c->arena;
  if (m->dim > MOST) return NULL;
  double *points = NEW_ARRAY(a, double, AROUND * m->dim + 1);
  for (size_t i = 0; i < AROUND * m->dim; i++) points[i] = 2 * rngs_uniform(&s) - 1;
  static const size_t none = 0;
  Look l = {.density = density_make(a, m, &none, 0, PLACES),
            .dim = m->dim,
            .theta = NEW_ARRAY(a, double, PLACES * m->dim + 1)};
  for (size_t k = 0; k < m->dim; k++) {
    bool proper = false;
    for (size_t i = 0; i < AROUND; i++) proper |= is_proper(&l, points + i * m->dim, k);
    if (!proper) return model_unconstrained_name(m, a, k);
  }
  return NULL;
}
