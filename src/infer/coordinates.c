/* coordinates.c: points to and from coordinates of hierarchies, and which of these suit the draws
 * (coordinates.h). */
#include "infer/coordinates.h"

#include <math.h>
#include <string.h>

enum { BATCH = 64 }; /* points at a time */
enum { ROOT_LOCATIONS, ROOT_SCALES };

/* ---- making ---------------------------------------------------------------------------------- */

/* Each element once; of[k] is the place of element k among them. */
static size_t distinct(const Pick *from, size_t n, Pick *out, int32_t *of) {
  size_t count = 0;
  for (size_t k = 0; k < n; k++) {
    size_t j = count; /* equal ones follow each other, or there are few */
    for (size_t back = 0; j == count && back < count && back < 8; back++) {
      const Pick *was = &out[count - 1 - back];
      if (was->node == from[k].node && was->elem == from[k].elem) j = count - 1 - back;
    }
    if (j == count) out[count++] = from[k];
    of[k] = (int32_t)j;
  }
  return count;
}

Coordinates *coordinates_make(Arena *a, const Model *m) {
  const Centring *c = centring_find(a, m);
  if (!c) return NULL;
  Coordinates *x = NEW(a, Coordinates);
  *x = (Coordinates){.centring = c,
                     .share = NEW_ARRAY(a, double, c->n),
                     .location = NEW_ARRAY(a, int32_t, c->n),
                     .scale = NEW_ARRAY(a, int32_t, c->n),
                     .dim = m->dim};
  Graph *g = ir_copy(a, c->graph);
  Pick *picks = NEW_ARRAY(a, Pick, c->n);
  Node roots[2];
  x->nlocations = distinct(c->location, c->n, picks, x->location);
  roots[ROOT_LOCATIONS] = ir_pack(g, picks, (int32_t)x->nlocations);
  x->nscales = distinct(c->log_scale, c->n, picks, x->scale);
  roots[ROOT_SCALES] = ir_pack(g, picks, (int32_t)x->nscales);
  VmPlan plan = {.graph = g, .dim = m->dim, .roots = roots, .nroots = 2};
  x->work = vm_work(a, vm_plan(a, &plan), BATCH, NULL);
  x->lanes = vm_ld(x->work);
  x->moving = NEW_ARRAY(a, double, x->dim * x->lanes);
  return x;
}

static void note_moved(Coordinates *x) {
  x->moved = false;
  for (size_t k = 0; k < x->centring->n; k++) x->moved |= x->share[k] > 0;
}

void coordinates_state(Coordinates *x, Archive *a) {
  archive_doubles(a, x->share, x->centring->n);
  if (!a->bad) note_moved(x);
}

const Observed *coordinates_observed(Arena *a, const Coordinates *x, const Observed *o) {
  if (!x->moved) return o;
  const Model *m = centring_model(a, o->model, x->centring, x->share);
  Observed *moved = observed_of(a, m, &o->rows, o->wants);
  moved->count = o->count;
  return moved;
}

/* ---- points ---------------------------------------------------------------------------------- */

/* Points into lanes; those that there are not repeat the first. */
static void put_points(const Coordinates *x, const MovedPoint *p, size_t n, double *theta) {
  for (size_t j = 0; j < x->lanes; j++)
    for (size_t k = 0; k < x->dim; k++) theta[k * x->lanes + j] = p[j < n ? j : 0].theta[k];
}

/* Location and log scale of moved parameter k, a row of lanes each. */
static const double *location_of(const Coordinates *x, size_t k) {
  return vm_value(x->work, ROOT_LOCATIONS, x->location[k]);
}
static const double *scale_of(const Coordinates *x, size_t k) {
  return vm_value(x->work, ROOT_SCALES, x->scale[k]);
}

/* x = c mu + sigma^c w. Those whose mu and sigma depend on others that are moved come out right
 * when these are: in as many rounds as hierarchies stand upon each other. */
static void leave_batch(const Coordinates *x, const MovedPoint *p, size_t n) {
  const Centring *c = x->centring;
  put_points(x, p, n, x->moving);
  for (int round = 0; round < c->depth; round++) {
    vm_forward(x->work, x->moving);
    for (size_t k = 0; k < c->n; k++) {
      const double *mu = location_of(x, k), *scale = scale_of(x, k), share = x->share[k];
      double *row = x->moving + (size_t)c->parameter[k] * x->lanes;
      for (size_t j = 0; j < n && share > 0; j++)
        row[j] = share * mu[j] + exp(share * scale[j]) * p[j].theta[c->parameter[k]];
    }
  }
  for (size_t k = 0; k < c->n; k++) {
    const double *row = x->moving + (size_t)c->parameter[k] * x->lanes, *scale = scale_of(x, k);
    for (size_t j = 0; j < n; j++) {
      p[j].theta[c->parameter[k]] = row[j];
      if (p[j].lp && x->share[k] > 0) *p[j].lp -= x->share[k] * scale[j];
    }
  }
}

/* w = (x - c mu) / sigma^c */
static void enter_batch(const Coordinates *x, const MovedPoint *p, size_t n) {
  const Centring *c = x->centring;
  put_points(x, p, n, x->moving);
  vm_forward(x->work, x->moving);
  for (size_t k = 0; k < c->n; k++) {
    const double *mu = location_of(x, k), *scale = scale_of(x, k), share = x->share[k];
    for (size_t j = 0; j < n && share > 0; j++) {
      double *at = &p[j].theta[c->parameter[k]];
      *at = (*at - share * mu[j]) * exp(-share * scale[j]);
      if (p[j].lp) *p[j].lp += share * scale[j];
    }
  }
}

typedef void Batch(const Coordinates *x, const MovedPoint *p, size_t n);

static void in_batches(const Coordinates *x, const MovedPoint *p, size_t n, Batch *batch) {
  if (!x || !x->moved) return;
  for (size_t i = 0; i < n; i += BATCH) batch(x, p + i, n - i < BATCH ? n - i : BATCH);
}

void coordinates_leave(const Coordinates *x, const MovedPoint *p, size_t n) {
  in_batches(x, p, n, leave_batch);
}
void coordinates_enter(const Coordinates *x, const MovedPoint *p, size_t n) {
  in_batches(x, p, n, enter_batch);
}

/* ---- shares ---------------------------------------------------------------------------------- */

/* Shares that are tried: 0, 1/4, ..., 1. */
enum { TRIED = 5 };

/* Sums over the draws of one parameter: w, w^2 for each share, and log sigma. */
typedef struct {
  double first[TRIED], w[TRIED], w2[TRIED], scale, n;
} ShareSums;

/* With the first draw as origin, so that a mean far from 0 does not cost digits. */
static void add_draw(ShareSums *s, double x, double mu, double scale) {
  double root = exp(-0.25 * scale), factor = 1;
  for (int t = 0; t < TRIED; t++, factor *= root) {
    double w = (x - 0.25 * t * mu) * factor;
    if (s->n == 0) s->first[t] = w;
    s->w[t] += w - s->first[t];
    s->w2[t] += (w - s->first[t]) * (w - s->first[t]);
  }
  s->scale += scale;
  s->n++;
}

/* What a normal fitted to w costs for a draw of x: log sd(w) + c mean(log sigma), up to a constant.
 * The least is the share in which the draws are most like a normal. */
static double cost(const ShareSums *s, int t) {
  double mean = s->w[t] / s->n, var = s->w2[t] / s->n - mean * mean;
  return 0.5 * log(var) + 0.25 * t * s->scale / s->n;
}

static void add_batch(const Coordinates *x, const MovedPoint *p, size_t n, ShareSums *sums) {
  put_points(x, p, n, x->moving);
  vm_forward(x->work, x->moving);
  for (size_t k = 0; k < x->centring->n; k++) {
    const double *mu = location_of(x, k), *scale = scale_of(x, k),
                 *row = x->moving + (size_t)x->centring->parameter[k] * x->lanes;
    for (size_t j = 0; j < n; j++)
      if (isfinite(mu[j]) && isfinite(scale[j])) add_draw(&sums[k], row[j], mu[j], scale[j]);
  }
}

/* The costs of all shares, of every parameter and, on average, of those with the same scale. */
typedef struct {
  double (*own)[TRIED], (*common)[TRIED], *members;
} ShareCosts;

static ShareCosts costs_of(Arena *work, const Coordinates *x, const ShareSums *sums) {
  size_t n = x->centring->n;
  ShareCosts c = {(double(*)[TRIED])NEW_ARRAY(work, double, n *TRIED),
                  (double(*)[TRIED])NEW_ARRAY(work, double, x->nscales *TRIED),
                  NEW_ARRAY(work, double, x->nscales)};
  for (size_t k = 0; k < n; k++) {
    bool finite = true;
    for (int t = 0; t < TRIED; t++) finite &= isfinite(c.own[k][t] = cost(&sums[k], t));
    for (int t = 0; t < TRIED; t++) c.common[x->scale[k]][t] += finite ? c.own[k][t] : 0;
    c.members[x->scale[k]] += finite;
    if (!finite) memset(c.own[k], 0, sizeof c.own[k]);
  }
  return c;
}

/* Draws of a window are not many, and of few independent scales: what is good for parameters with
 * the same scale counts as much as what is good for this one. A gain of less than `least` nats is
 * not worth it. */
static double best_share(const ShareCosts *c, size_t k, int32_t scale, double least) {
  double best = 0, gain = least, members = fmax(c->members[scale], 1);
  for (int t = 1; t < TRIED; t++) {
    double own = c->own[k][0] - c->own[k][t],
           common = (c->common[scale][0] - c->common[scale][t]) / members;
    if (0.5 * (own + common) > gain) gain = 0.5 * (own + common), best = 0.25 * t;
  }
  return best;
}

bool coordinates_choose(Arena *work, Coordinates *x, const MovedPoint *draws, size_t n,
                        double least) {
  size_t count = x->centring->n;
  bool changed = false;
  ShareSums *sums = NEW_ARRAY(work, ShareSums, count);
  for (size_t i = 0; i < n; i += BATCH)
    add_batch(x, draws + i, n - i < BATCH ? n - i : BATCH, sums);
  const ShareCosts costs = costs_of(work, x, sums);
  for (size_t k = 0; k < count; k++) {
    double share = best_share(&costs, k, x->scale[k], least);
    changed |= share != x->share[k];
    x->share[k] = share;
  }
  note_moved(x);
  return changed;
}
