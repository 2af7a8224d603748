/* posterior.c: evaluating the posterior's log density (posterior.h): theta into lanes, global
 * values, tiles, and the gradient back out of the lanes.
 *
 * Few points do not pay for many lanes: there is a Work for 8, 16, 32, ... points, and an
 * evaluation takes the smallest that will do.
 */
#include "infer/posterior.h"

#include <math.h>
#include <string.h>

enum { MOST_SIZES = 12 };

/* Buffers for so many lanes. */
typedef struct {
  const Observed *o;
  Work *work;
  size_t lanes, ld, chunks;
  double *likelihood; /* [chunks x ld]: summed over the observations of each */
} Lanes;

struct Posterior {
  Lanes sizes[MOST_SIZES];
  int nsizes;
  size_t dim;
  bool no_jacobian;
  long undefined;
};

Observed *posterior_observed(Arena *a, const Model *m, const size_t *rows, size_t nrows) {
  Observed *o = observed_make(a, m, rows, nrows, WANT_LL);
  observed_collapse(o);
  observed_sort(o);
  return o;
}

static Lanes make_lanes(Arena *a, const Observed *o, size_t lanes, Pool *pool) {
  Lanes l = {.o = o, .work = vm_work(a, observed_tape(o), lanes, pool)};
  l.lanes = lanes;
  l.ld = vm_ld(l.work);
  l.chunks = vm_chunks(l.work);
  l.likelihood = NEW_ARRAY(a, double, (l.chunks + 1) * l.ld);
  vm_overwrites(l.work);
  return l;
}

Posterior *posterior_make(Arena *a, const Observed *o, size_t points, Pool *pool) {
  Posterior *p = NEW(a, Posterior);
  p->dim = o->model->dim;
  for (size_t lanes = LANES; p->nsizes < MOST_SIZES; lanes *= 2) {
    p->sizes[p->nsizes++] = make_lanes(a, o, lanes, pool);
    if (lanes >= points) break;
  }
  return p;
}

void posterior_without_jacobian(Posterior *p) { p->no_jacobian = true; }

/* The likelihood is a sum, every point for itself: its derivative in a row's log density is how
 * often the row was seen. */
static void add_tile(void *self, const TileView *t) {
  Lanes *l = self;
  const Kernels *k = vm_kernels(l->work);
  double *sum = l->likelihood + t->chunk * l->ld;
  for (size_t r = 0; r < t->rows; r++) {
    double count = observed_count(l->o, t->row + r);
    k->axpy(sum, count, t->heads[HEAD_LL] + r * l->ld, l->lanes);
    k->fill(t->adj[HEAD_LL] + r * l->ld, count, l->lanes);
  }
}

/* Lanes beyond the points repeat the first one. */
static void put_points(const Posterior *p, const Lanes *l, const PosteriorPoint *x, size_t n) {
  double *theta = vm_theta(l->work);
  for (size_t j = 0; j < l->lanes; j++) {
    const double *from = x[j < n ? j : 0].theta;
    for (size_t k = 0; k < p->dim; k++) theta[k * l->ld + j] = from[k];
  }
}

static void take_results(Posterior *p, const Lanes *l, const PosteriorPoint *x, size_t n) {
  const double *prior = vm_value(l->work, ROOT_PRIOR, 0),
               *jacobian = vm_value(l->work, ROOT_JACOBIAN, 0), *grad = vm_theta_adjoint(l->work);
  for (size_t j = 0; j < n; j++) {
    double value = prior[j] + (p->no_jacobian ? 0 : jacobian[j]);
    for (size_t c = 0; c < l->chunks; c++) value += l->likelihood[c * l->ld + j];
    bool finite = isfinite(value);
    for (size_t k = 0; k < p->dim; k++) {
      x[j].gradient[k] = grad[k * l->ld + j];
      finite &= isfinite(x[j].gradient[k]);
    }
    *x[j].value = finite ? value : -INFINITY;
    p->undefined += !finite;
  }
}

long posterior_undefined(const Posterior *p) { return p->undefined; }

void posterior_eval(Posterior *p, const PosteriorPoint *points, size_t n) {
  Lanes *l = p->sizes;
  while (l->lanes < n) l++;
  put_points(p, l, points, n);
  memset(l->likelihood, 0, l->chunks * l->ld * sizeof *l->likelihood);
  vm_forward(l->work, vm_theta(l->work));
  vm_tiles(l->work, add_tile, l, true);
  vm_backward(l->work, (double[]){1, p->no_jacobian ? 0 : 1}, NULL, vm_theta_adjoint(l->work));
  take_results(p, l, points, n);
}
