/* subspace.c: see subspace.h. In order: making it; coordinates to phi, and derivatives back; what
 * optimizers ask for. */
#include "infer/subspace.h"

#include <math.h>
#include <string.h>

/* Widths that grow together. */
typedef struct {
  size_t n, *entry; /* of the logarithms of the sds in phi */
  double *rest;     /* b_k */
  double t;         /* at the start */
} Group;

struct Subspace {
  Objective inner;
  size_t nentries, *entry; /* the first coordinates: entries of phi */
  Group *groups;           /* the others */
  size_t ngroups;
  double *start, *phi, *grad, *room; /* of all of phi */
  double *up, *base;                 /* of the coordinates */
  double *square;                    /* curvature of all of phi; NULL: not known */
};

enum { FEW = 8 }; /* coordinates, whose curvature is differences of gradients */
static const double LEAST = 0.99;

static size_t coordinates(const Subspace *s) { return s->nentries + s->ngroups; }

/* ---- making it ------------------------------------------------------------------------------- */

static void find_entries(Arena *a, Subspace *s, const Q *q, const Freedom *f) {
  s->entry = NEW_ARRAY(a, size_t, q_size(q) + 1);
  for (size_t e = 0; e < q_size(q); e++) {
    long k = q_owner(q, e);
    if (k >= 0 && !f->fixed[k]) s->entry[s->nentries++] = e;
  }
}

static Group make_group(Arena *a, const Subspace *s, const Q *q, const Freedom *f, int number) {
  Group g = {.entry = NEW_ARRAY(a, size_t, q->dim + 1), .rest = NEW_ARRAY(a, double, q->dim + 1)};
  double least = INFINITY;
  for (size_t k = 0; k < q->dim; k++) {
    long e = f->group[k] == number ? q_spread_entry(q, k) : -1;
    if (e < 0) continue;
    g.entry[g.n] = (size_t)e;
    g.rest[g.n] = exp(2 * s->start[e]);
    least = fmin(least, g.rest[g.n++]);
  }
  for (size_t i = 0; i < g.n; i++) g.rest[i] -= LEAST * least;
  g.t = 0.5 * log(LEAST * least);
  return g;
}

static void find_groups(Arena *a, Subspace *s, const Q *q, const Freedom *f) {
  int most = 0;
  for (size_t k = 0; f->group && k < q->dim; k++) most = f->group[k] > most ? f->group[k] : most;
  s->groups = NEW_ARRAY(a, Group, most + 1);
  for (int g = 1; g <= most; g++) {
    Group made = make_group(a, s, q, f, g);
    if (made.n) s->groups[s->ngroups++] = made;
  }
}

Subspace *subspace_make(Arena *a, const Q *q, const Freedom *f, const Objective *inner,
                        const double *phi) {
  Subspace *s = NEW(a, Subspace);
  size_t size = q_size(q);
  *s = (Subspace){.inner = *inner};
  s->start = memcpy(NEW_ARRAY(a, double, size), phi, size * sizeof *phi);
  s->phi = memcpy(NEW_ARRAY(a, double, size), phi, size * sizeof *phi);
  s->grad = NEW_ARRAY(a, double, size);
  s->room = NEW_ARRAY(a, double, size);
  find_entries(a, s, q, f);
  find_groups(a, s, q, f);
  s->up = NEW_ARRAY(a, double, coordinates(s) + 1);
  s->base = NEW_ARRAY(a, double, coordinates(s) + 1);
  if (inner->curvature && coordinates(s) > FEW) s->square = NEW_ARRAY(a, double, size *size);
  return s;
}

/* ---- there and back -------------------------------------------------------------------------- */

void subspace_start(const Subspace *s, double *x) {
  for (size_t k = 0; k < s->nentries; k++) x[k] = s->start[s->entry[k]];
  for (size_t g = 0; g < s->ngroups; g++) x[s->nentries + g] = s->groups[g].t;
}

const double *subspace_phi(Subspace *s, const double *x) {
  for (size_t k = 0; k < s->nentries; k++) s->phi[s->entry[k]] = x[k];
  for (size_t j = 0; j < s->ngroups; j++) {
    const Group *g = &s->groups[j];
    double common = exp(2 * x[s->nentries + j]);
    for (size_t i = 0; i < g->n; i++) s->phi[g->entry[i]] = 0.5 * log(g->rest[i] + common);
  }
  return s->phi;
}

/* d phi[entry i of the group] / d t */
static double slope(const Group *g, size_t i, double t) {
  double common = exp(2 * t);
  return common / (g->rest[i] + common);
}

/* From derivatives in phi to those in the coordinates. */
static void pull_back(const Subspace *s, const double *x, const double *of_phi, double *of_x) {
  for (size_t k = 0; k < s->nentries; k++) of_x[k] = of_phi[s->entry[k]];
  for (size_t j = 0; j < s->ngroups; j++) {
    const Group *g = &s->groups[j];
    double sum = 0, t = x[s->nentries + j];
    for (size_t i = 0; i < g->n; i++) sum += slope(g, i, t) * of_phi[g->entry[i]];
    of_x[s->nentries + j] = sum;
  }
}

static bool eval(void *self, const double *x, double *value, double *grad) {
  Subspace *s = self;
  bool finite = s->inner.eval(s->inner.self, subspace_phi(s, x), value, grad ? s->grad : NULL);
  if (finite && grad) pull_back(s, x, s->grad, grad);
  return finite;
}

/* ---- what optimizers ask for ----------------------------------------------------------------- */

/* H0 between two projections; of a group, by how many it moves. */
static void precondition(void *self, const double *x, double *v) {
  Subspace *s = self;
  const double *phi = subspace_phi(s, x);
  size_t n = s->inner.dim;
  memset(s->room, 0, n * sizeof *s->room);
  for (size_t k = 0; k < s->nentries; k++) s->room[s->entry[k]] = v[k];
  s->inner.precondition(s->inner.self, phi, s->room);
  for (size_t k = 0; k < s->nentries; k++) v[k] = s->room[s->entry[k]];
  for (size_t j = 0; j < s->ngroups; j++) v[s->nentries + j] /= (double)s->groups[j].n;
}

static void reach(void *self, const double *x, double *d) {
  Subspace *s = self;
  s->inner.reach(s->inner.self, subspace_phi(s, x), s->room);
  for (size_t k = 0; k < s->nentries; k++) d[k] = s->room[s->entry[k]];
  for (size_t j = 0; j < s->ngroups; j++) d[s->nentries + j] = 1;
}

static void unit(void *self, const double *x, double *d) {
  Subspace *s = self;
  s->inner.unit(s->inner.self, subspace_phi(s, x), s->room);
  for (size_t k = 0; k < s->nentries; k++) d[k] = s->room[s->entry[k]];
  for (size_t j = 0; j < s->ngroups; j++) d[s->nentries + j] = 1;
}

/* Few coordinates: differences of the gradient, one evaluation each. */
static long by_differences(Subspace *s, const double *x, double *A) {
  size_t n = coordinates(s);
  double value, *at = s->up, h[FEW], g[FEW];
  if (!eval(s, x, &value, s->base)) return 0;
  reach(s, x, h);
  memcpy(at, x, n * sizeof *x);
  for (size_t k = 0; k < n; k++) {
    h[k] *= 1e-6;
    at[k] = x[k] + h[k];
    if (!eval(s, at, &value, g)) return 0;
    at[k] = x[k];
    for (size_t i = 0; i < n; i++) A[k * n + i] = (s->base[i] - g[i]) / h[k];
  }
  for (size_t k = 0; k < n; k++)
    for (size_t i = 0; i < k; i++)
      A[k * n + i] = A[i * n + k] = 0.5 * (A[k * n + i] + A[i * n + k]);
  return (long)n + 1;
}

/* J'A of one column of A J, J = d phi / d x; A is symmetric. */
static void pull_row(const Subspace *s, const double *x, size_t c, double *row) {
  size_t n = s->inner.dim;
  memset(s->room, 0, n * sizeof *s->room);
  if (c < s->nentries) {
    memcpy(s->room, s->square + s->entry[c] * n, n * sizeof *s->room);
  } else {
    const Group *g = &s->groups[c - s->nentries];
    for (size_t i = 0; i < g->n; i++)
      for (size_t k = 0; k < n; k++)
        s->room[k] += slope(g, i, x[c]) * s->square[g->entry[i] * n + k];
  }
  pull_back(s, x, s->room, row);
}

static long curvature(void *self, const double *x, double *A) {
  Subspace *s = self;
  size_t n = coordinates(s);
  if (n <= FEW) return by_differences(s, x, A);
  long cost = s->inner.curvature(s->inner.self, subspace_phi(s, x), s->square);
  for (size_t c = 0; c < n; c++) pull_row(s, x, c, A + c * n);
  return cost;
}

static void state(void *self, Archive *a) {
  Subspace *s = self;
  s->inner.state(s->inner.self, a);
}

Objective subspace_objective(Subspace *s) {
  return (Objective){.dim = coordinates(s),
                     .self = s,
                     .eval = eval,
                     .precondition = s->inner.precondition ? precondition : NULL,
                     .curvature = s->inner.curvature ? curvature : NULL,
                     .unit = s->inner.unit ? unit : NULL,
                     .reach = reach,
                     .state = s->inner.state ? state : NULL};
}
