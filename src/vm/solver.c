/* solver.c: solving a differential equation for many draws at once.
 *
 * Draws are lanes of vectors, each with its own time, step and error control: what comes out for a
 * draw does not depend on the others. In every round each lane attempts one step. A lane that has
 * reached its last time makes room for the next draw.
 *
 * Explicit methods are Runge-Kutta pairs. They follow Stan's solvers step by step (Boost's odeint
 * on the states and sensitivities together), so that numbers agree with Stan's to rounding:
 * Dormand-Prince with its interpolation (Hairer, Norsett, Wanner: Solving Ordinary Differential
 * Equations I, II.6), and Cash-Karp, whose steps end at the times asked for.
 */
#include "vm/ode_int.h"

#include <float.h>
#include <math.h>
#include <string.h>

#ifdef PVI_TORTURE
enum { SOLVER_BYTES = 1, LANES_MOST = LANES };
#else
enum { SOLVER_BYTES = 40 * 1024, LANES_MOST = 64 };
#endif
enum { FAILURES_MOST = 500 }; /* of one step */

static const double first_step = 0.1;

typedef struct {
  int stages;
  bool dense; /* the last slope is the next step's first, and there is an interpolation between the
                 steps */
  double c[STAGES_MOST], a[STAGES_MOST][STAGES_MOST], b[STAGES_MOST],
      e[STAGES_MOST]; /* e: error of b */
  double down, up;    /* powers of the error by which steps shrink and grow */
} Method;

static const Method dormand_prince = {
    .stages = 7,
    .dense = true,
    .c = {0, 1. / 5, 3. / 10, 4. / 5, 8. / 9, 1, 1},
    .a = {{0},
          {1. / 5},
          {3. / 40, 9. / 40},
          {44. / 45, -56. / 15, 32. / 9},
          {19372. / 6561, -25360. / 2187, 64448. / 6561, -212. / 729},
          {9017. / 3168, -355. / 33, 46732. / 5247, 49. / 176, -5103. / 18656},
          {35. / 384, 0, 500. / 1113, 125. / 192, -2187. / 6784, 11. / 84}},
    .b = {35. / 384, 0, 500. / 1113, 125. / 192, -2187. / 6784, 11. / 84},
    .e = {35. / 384 - 5179. / 57600, 0, 500. / 1113 - 7571. / 16695, 125. / 192 - 393. / 640,
          -2187. / 6784 + 92097. / 339200, 11. / 84 - 187. / 2100, -1. / 40},
    .down = -1. / 3,
    .up = -1. / 5,
};

static const Method cash_karp = {
    .stages = 6,
    .c = {0, 1. / 5, 3. / 10, 3. / 5, 1, 7. / 8},
    .a = {{0},
          {1. / 5},
          {3. / 40, 9. / 40},
          {3. / 10, -9. / 10, 6. / 5},
          {-11. / 54, 5. / 2, -70. / 27, 35. / 27},
          {1631. / 55296, 175. / 512, 575. / 13824, 44275. / 110592, 253. / 4096}},
    .b = {37. / 378, 0, 250. / 621, 125. / 594, 0, 512. / 1771},
    .e = {37. / 378 - 2825. / 27648, 0, 250. / 621 - 18575. / 48384, 125. / 594 - 13525. / 55296,
          -277. / 14336, 512. / 1771 - 1. / 4},
    .down = -1. / 3,
    .up = -1. / 5,
};

/* Their steps are in radau.c. */
static const Method radau_three = {.down = -1. / 4, .up = -1. / 4},
                    radau_five = {.down = -1. / 6, .up = -1. / 6};

static const Method *method_of(const Solver *s) {
  return s->radau                     ? radau_stages(s->ode) > 3 ? &radau_five : &radau_three
         : s->ode->method == ODE_CKRK ? &cash_karp
                                      : &dormand_prince;
}

/* ---- slopes ---------------------------------------------------------------------------------- */

/* S_i' = df_i/dp + sum_k df_i/dy_k S_k */
static void sensitivity_slopes(Solver *s, size_t i, const double *z, double *out, size_t n) {
  const Rhs *r = s->rhs;
  size_t from = s->ode->from_state ? s->N : 0, terms = 0;
  const double *const *partial = r->partial + i * (s->N + r->params);
  for (size_t p = 0; p < s->P; p++) s->own[p] = p < from ? NULL : partial[s->N + p - from];
  for (size_t k = 0; k < s->N; k++) {
    if (!partial[k]) continue;
    s->by[terms] = partial[k];
    s->of[terms++] = z + (s->N + k * s->P) * s->ld;
  }
  s->k->tangent(out + (s->N + i * s->P) * s->ld, &(TangentSum){s->own, s->by, s->of, terms},
                (RowsShape){s->P, s->ld, n});
}

void solver_slopes(Solver *s, const double *at, const double *z, double *out, size_t n) {
  Rhs *r = s->rhs;
  memcpy(r->t, at, n * sizeof *at);
  memcpy(r->y, z, s->N * s->ld * sizeof *z);
  rhs_values(r, n);
  rhs_slopes(r, out, n);
  if (!s->P) return;
  rhs_partials(r, n);
  for (size_t i = 0; i < s->N; i++) sensitivity_slopes(s, i, z, out, n);
}

/* ---- an explicit step ------------------------------------------------------------------------ */

typedef struct {
  const double *k[STAGES_MOST];
  double coef[STAGES_MOST];
  size_t count;
} Terms;

static Terms terms_of(const Solver *s, const double *coef) {
  Terms t = {.count = 0};
  for (int c = 0; c < STAGES_MOST; c++) {
    if (coef[c] == 0) continue;
    t.k[t.count] = s->slopes[c];
    t.coef[t.count++] = coef[c];
  }
  return t;
}

static void combine(const Solver *s, double *out, const double *coef, size_t n) {
  Terms t = terms_of(s, coef);
  s->k->runge_kutta(out, s->z, s->h, &(StageSum){t.k, t.coef, t.count},
                    (RowsShape){s->R, s->ld, n});
}

static void explicit_attempt(Solver *s, const Method *m, size_t n) {
  if (!m->dense || s->fresh) solver_slopes(s, s->t, s->z, s->slopes[0], n);
  for (int i = 1; i < m->stages; i++) {
    double *to = m->dense && i == m->stages - 1 ? s->znew : s->stage;
    combine(s, to, m->a[i], n);
    for (size_t j = 0; j < n; j++) s->at[j] = s->t[j] + m->c[i] * s->h[j];
    solver_slopes(s, s->at, to, s->slopes[i], n);
  }
  if (!m->dense) combine(s, s->znew, m->b, n);
  Terms t = terms_of(s, m->e);
  s->k->step_error(s->error, &(StepScale){s->z, s->slopes[0], s->h, s->relative, s->absolute},
                   &(StageSum){t.k, t.coef, t.count}, (RowsShape){s->R, s->ld, n});
}

/* ---- what is asked for ----------------------------------------------------------------------- */

/* Lane j of the states and sensitivities z as the solution at time k. */
static void record(const Solver *s, const double *z, size_t j, int32_t k) {
  const OdeRows *rows = s->rows;
  size_t draw = s->lane[j].draw;
  double *out = rows->out + (size_t)k * s->N * rows->out_ld + draw;
  for (size_t i = 0; i < s->N; i++) out[i * rows->out_ld] = z[i * s->ld + j];
  if (!s->P) return;
  double *to = rows->sensitivity + (size_t)k * s->N * s->P * rows->sensitivity_ld + draw;
  for (size_t i = 0; i < s->N * s->P; i++) to[i * rows->sensitivity_ld] = z[(s->N + i) * s->ld + j];
}

/* Weights of the slopes in the solution at a part x of a Dormand-Prince step. */
static void interpolation(double x, double *w) {
  const double *b = dormand_prince.b;
  double A = x * x * (3 - 2 * x), B = x * x * (x - 1), C = B * (x - 1), D = x * (x - 1) * (x - 1);
  w[0] = A * b[0] - C * (5 * (2558722523. - 31403016. * x) / 11282082432.) + D;
  w[1] = 0;
  w[2] = A * b[2] + C * (100 * (882725551. - 15701508. * x) / 32700410799.);
  w[3] = A * b[3] - C * (25 * (443332067. - 31403016. * x) / 1880347072.);
  w[4] = A * b[4] + C * (32805 * (23143187. - 3489224. * x) / 199316789632.);
  w[5] = A * b[5] - C * (55 * (29972135. - 7076736. * x) / 822651844.);
  w[6] = B + C * (10 * (7414447. - 829305. * x) / 29380423.);
}

/* Time k of lane j; -1: the initial one. */
static double time_of(const Solver *s, size_t j, int32_t k) {
  const IrOde *o = s->ode;
  if (!o->timed) return k < 0 ? o->t0 : o->times[k];
  return s->rows->in[(size_t)(o->states + o->params + 1 + k) * s->rows->in_ld + s->lane[j].draw];
}

/* The time that lane j asks for next lies behind it. */
static bool has_passed(const Solver *s, size_t j) {
  return s->lane[j].next < s->ode->ntimes &&
         time_of(s, j, s->lane[j].next) - s->t[j] <= DBL_EPSILON;
}

/* One time of every lane that has passed one in its step, which began at `from`; false when there
 * is none. The others' interpolations go nowhere. */
static bool record_between(Solver *s, size_t n) {
  double w[STAGES_MOST];
  size_t passed = 0;
  for (size_t j = 0; j < s->active; j++) {
    if (!has_passed(s, j)) continue;
    double step = s->t[j] - s->from[j];
    interpolation((time_of(s, j, s->lane[j].next) - s->from[j]) / step, w);
    for (int c = 0; c < STAGES_MOST; c++) s->weights[(size_t)c * s->ld + j] = step * w[c];
    s->passed[passed++] = j;
  }
  if (!passed) return false;
  const double *weight[STAGES_MOST], *of[STAGES_MOST];
  size_t terms = 0;
  for (int c = 0; c < STAGES_MOST; c++) {
    if (dormand_prince.e[c] == 0)
      continue; /* a slope that neither the step nor the interpolation uses */
    weight[terms] = s->weights + (size_t)c * s->ld;
    of[terms++] = s->slopes[c];
  }
  for (size_t r = 0; r < s->R; r++) s->own[r] = s->z + r * s->ld;
  s->k->tangent(s->stage, &(TangentSum){s->own, weight, of, terms}, (RowsShape){s->R, s->ld, n});
  for (size_t k = 0; k < passed; k++) {
    record(s, s->stage, s->passed[k], s->lane[s->passed[k]].next++);
    s->lane[s->passed[k]].steps = 0;
  }
  return true;
}

/* A draw that cannot be solved has no density. */
static void give_up(const Solver *s, size_t j) {
  for (size_t r = 0; r < s->R; r++) s->znew[r * s->ld + j] = r < s->N ? NAN : 0;
  for (Lane *l = &s->lane[j]; l->next < s->ode->ntimes; l->next++) record(s, s->znew, j, l->next);
}

/* ---- lanes ----------------------------------------------------------------------------------- */

/* Times that depend on parameters may be any: they must ascend, as all others do. */
static bool times_ascend(const Solver *s, size_t j) {
  bool fine = time_of(s, j, -1) < time_of(s, j, 0);
  for (int32_t k = 1; k < s->ode->ntimes; k++) fine &= time_of(s, j, k - 1) <= time_of(s, j, k);
  return fine && isfinite(time_of(s, j, -1)) && isfinite(time_of(s, j, s->ode->ntimes - 1));
}

/* A draw comes to the first free lane; it leaves at once when it cannot be solved. */
static void load(Solver *s, size_t draw) {
  size_t j = s->active, ld = s->ld, in_ld = s->rows->in_ld;
  const double *in = s->rows->in + draw;
  for (size_t r = 0; r < s->R; r++) s->z[r * ld + j] = r < s->N ? in[r * in_ld] : 0;
  size_t differential = s->N - (size_t)s->ode->algebraic; /* the others follow from these */
  for (size_t i = 0; s->ode->from_state && i < differential; i++)
    s->z[(s->N + i * s->P + i) * ld + j] = 1;
  for (size_t p = 0; p < s->rhs->params; p++) s->rhs->p[p * ld + j] = in[(s->N + p) * in_ld];
  s->lane[j] = (Lane){.draw = draw, .dt = first_step};
  s->t[j] = time_of(s, j, -1);
  s->fresh = true;
  if (!s->ode->timed || times_ascend(s, j)) {
    s->active++;
  } else {
    give_up(s, j);
  }
}

static void copy_column(double *rows, size_t count, size_t ld, size_t from, size_t to) {
  for (size_t r = 0; r < count; r++) rows[r * ld + to] = rows[r * ld + from];
}

/* Lane j is done: the last one takes its place. */
static void leave(Solver *s, size_t j) {
  size_t last = --s->active;
  s->fresh = true;
  if (j == last) return;
  copy_column(s->z, s->R, s->ld, last, j);
  copy_column(s->rhs->p, s->rhs->params, s->ld, last, j);
  s->t[j] = s->t[last];
  s->lane[j] = s->lane[last];
}

/* The step to attempt. */
static double wanted_step(const Solver *s, const Method *m, size_t j) {
  Lane *l = &s->lane[j];
  if (!m->dense) return fmin(l->dt, time_of(s, j, l->next) - s->t[j]);
  double last = time_of(s, j, s->ode->ntimes - 1);
  if (s->t[j] + l->dt - last > DBL_EPSILON) l->dt = last - s->t[j];
  return l->dt;
}

/* By how much steps change: 0.9 error^power, from 1/5 to 5, where the error says so. */
static void adjust(Solver *s, const Method *m, size_t n) {
  double least = pow(5, 1 / m->up);
  for (size_t j = 0; j < n; j++) {
    bool too_large = s->error[j] > 1;
    s->base[j] = s->error[j] > least ? s->error[j] : least;
    s->power[j] = too_large ? m->down : m->up;
  }
  s->k->forward[IR_POW](s->factor, (const double *[]){s->base, s->power}, (size_t[]){1, 1}, n);
}

static void accept(Solver *s, const Method *m, size_t j) {
  Lane *l = &s->lane[j];
  double step = s->error[j] < 0.5 ? s->h[j] * 0.9 * s->factor[j] : s->h[j];
  s->t[j] += s->h[j];
  l->dt = m->dense ? step : fmax(l->dt, step);
  l->failures = 0;
  if (++l->steps > s->ode->most_steps) give_up(s, j);
  for (; !m->dense && has_passed(s, j); l->steps = 0) record(s, s->znew, j, l->next++);
}

static void reject(Solver *s, size_t j) {
  Lane *l = &s->lane[j];
  l->dt = s->h[j] * fmax(0.9 * s->factor[j], 0.2);
  bool stuck = s->t[j] + l->dt == s->t[j];
  if (++l->failures >= FAILURES_MOST || stuck) give_up(s, j);
}

static void swap(double **a, double **b) {
  double *x = *a;
  *a = *b;
  *b = x;
}

/* The step's end becomes the next one's beginning; lanes that were rejected stay. */
static void move_on(Solver *s, const Method *m, size_t n) {
  swap(&s->z, &s->znew);
  if (m->dense) swap(&s->slopes[0], &s->slopes[m->stages - 1]);
  for (size_t j = 0; j < n; j++) {
    if (!(s->error[j] > 1)) continue;
    for (size_t at = j; at < s->R * s->ld; at += s->ld) {
      s->z[at] = s->znew[at];
      if (m->dense) s->slopes[0][at] = s->slopes[m->stages - 1][at];
    }
  }
}

static void round_of_steps(Solver *s) {
  const Method *m = method_of(s);
  size_t n = (s->active + LANES - 1) / LANES * LANES;
  for (size_t j = 0; j < n; j++) s->h[j] = j < s->active ? wanted_step(s, m, j) : 0;
  if (s->fresh) rhs_fixed(s->rhs, n);
  if (s->radau) {
    radau_attempt(s, n);
  } else {
    explicit_attempt(s, m, n);
  }
  s->fresh = false;
  adjust(s, m, n);
  memcpy(s->from, s->t, n * sizeof *s->t);
  for (size_t j = 0; j < s->active; j++) {
    if (s->error[j] > 1) {
      reject(s, j);
    } else {
      accept(s, m, j);
    }
  }
  while (m->dense && record_between(s, n)) continue;
  move_on(s, m, s->active);
  for (size_t j = s->active; j-- > 0;)
    if (s->lane[j].next == s->ode->ntimes) leave(s, j);
}

void solver_run(Solver *s, const OdeRows *rows) {
  size_t next = 0;
  s->rows = rows;
  s->active = 0;
  do {
    while (s->active < s->ld && next < rows->count) load(s, next++);
    if (s->active) round_of_steps(s);
  } while (s->active || next < rows->count);
}

/* f where the solution has been recorded, of draws [first, first + count): at time k, or at the
 * beginning (-1). */
static void slopes_at(Solver *s, const OdeRows *rows, int32_t k, size_t first, size_t count,
                      double *out) {
  Rhs *r = s->rhs;
  size_t n = (count + LANES - 1) / LANES * LANES, from = k < 0 ? 0 : (size_t)k * s->N;
  const double *y = k < 0 ? rows->in : rows->out;
  size_t ld = k < 0 ? rows->in_ld : rows->out_ld;
  for (size_t j = 0; j < count; j++) {
    s->lane[j].draw = first + j;
    r->t[j] = time_of(s, j, k);
    for (size_t i = 0; i < s->N; i++) r->y[i * s->ld + j] = y[(from + i) * ld + first + j];
    for (size_t p = 0; p < r->params; p++)
      r->p[p * s->ld + j] = rows->in[(s->N + p) * rows->in_ld + first + j];
  }
  rhs_fixed(r, n);
  rhs_values(r, n);
  rhs_slopes(r, out, n);
}

/* d y(t) / d t = f(t, y), d y(t) / d t0 = -S f(t0, y0). */
void solver_time_slopes(Solver *s, const OdeRows *rows, double *by_time, double *by_first) {
  double *slope = s->slopes[0], *initial = s->slopes[1];
  for (size_t first = 0; first < rows->count; first += s->ld) {
    size_t count = rows->count - first < s->ld ? rows->count - first : s->ld;
    slopes_at(s, rows, -1, first, count, initial);
    for (int32_t k = 0; k < s->ode->ntimes; k++) {
      slopes_at(s, rows, k, first, count, slope);
      for (size_t i = 0; i < s->N; i++)
        for (size_t j = 0; j < count; j++) {
          size_t o = (size_t)k * s->N + i, at = o * rows->out_ld + first + j;
          by_time[at] = slope[i * s->ld + j];
          by_first[at] = 0;
          for (size_t m = 0; s->ode->from_time && m < s->N; m++)
            by_first[at] -= rows->sensitivity[(o * s->P + m) * rows->sensitivity_ld + first + j] *
                            initial[m * s->ld + j];
        }
    }
  }
}

/* ---- making ---------------------------------------------------------------------------------- */

/* As many lanes as keep the rows of a step near the first-level cache. */
static size_t lane_count(const Solver *s, size_t most) {
  size_t rows = s->R * (STAGES_MOST + 3) + rhs_rows(s->ode);
  size_t fit = SOLVER_BYTES / (rows * sizeof(double)) / LANES * LANES;
  most = most < LANES_MOST ? (most + LANES - 1) / LANES * LANES : LANES_MOST;
  return fit < LANES ? LANES : fit < most ? fit : most;
}

/* Errors of Adams' and BDF formulas stay below what they are asked for. Ours must do so too: an
 * explicit method is asked for more; Radau's error with three stages is of order 5 and its estimate
 * of order 3, so that much less than small tolerances is enough; with five stages the estimate is
 * near the error where equations are stiff. */
static double tightening(const IrOde *ode) {
  if (ode->method == ODE_ADAMS) return 0.01;
  if (ode->method != ODE_BDF) return 1;
  return radau_stages(ode) > 3 ? 1.5 : 0.01 * pow(ode->relative, -1. / 3);
}

Solver *solver_make(Arena *a, const IrOde *ode, size_t most) {
  Solver *s = NEW(a, Solver);
  s->ode = ode;
  s->k = kernels_best();
  s->N = (size_t)ode->states;
  s->P = (size_t)ode->params + (ode->from_state ? s->N : 0);
  s->R = s->N * (1 + s->P);
  s->ld = lane_count(s, most);
  double tighter = tightening(ode);
  s->relative = tighter * ode->relative;
  s->absolute = tighter * ode->absolute;
  s->rhs = rhs_make(a, ode, s->ld);
  s->lane = NEW_ARRAY(a, Lane, s->ld);
  double **rows[] = {&s->t, &s->h, &s->at, &s->from, &s->error, &s->base, &s->power, &s->factor};
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) *rows[k] = NEW_ARRAY(a, double, s->ld);
  double **blocks[] = {&s->z, &s->znew, &s->stage};
  for (size_t k = 0; k < sizeof blocks / sizeof *blocks; k++)
    *blocks[k] = NEW_ARRAY(a, double, s->R * s->ld);
  for (int c = 0; c < STAGES_MOST; c++) s->slopes[c] = NEW_ARRAY(a, double, s->R * s->ld);
  s->weights = NEW_ARRAY(a, double, STAGES_MOST * s->ld);
  s->passed = NEW_ARRAY(a, size_t, s->ld);
  s->own = NEW_ARRAY(a, const double *, s->R);
  s->by = NEW_ARRAY(a, const double *, s->N);
  s->of = NEW_ARRAY(a, const double *, s->N);
  if (ode->method == ODE_BDF) s->radau = radau_make(a, s);
  return s;
}
