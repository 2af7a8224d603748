/* radau.c: steps of stiff equations: Radau IIA of three stages and order 5, or of five stages and
 * order 9 (Hairer, Wanner: Solving Ordinary Differential Equations II, IV.8).
 *
 * The displacements U_i = Y_i - y of the stages solve U_i = h sum_l A_il f(t + c_l h, y +
 * U_l), by Newton's method with
 * the Jacobian of every stage. Sensitivities of the stages solve the linear system with Newton's
 * last matrix,
 *     V_i - h sum_l A_il J_l V_l = h sum_l A_il (J_l S + df_l/dp),
 * and are so the derivatives of the numbers that the states become, not only of the exact solution.
 * The last stage is the end
 * of the step. Everything is rows of draws; a draw whose iteration has converged waits for the
 * others.
 *
 * Algebraic states, which are the last ones, have 0 = f in the place of y' = f: what stands for
 * U_i, V_i and the identity above is then zero in their rows, and they have no say in the error.
 */
#include "vm/ode_int.h"

#include <math.h>
#include <string.h>

enum { MOST = 5, ITERATIONS_MOST = 10 }; /* stages; Newton's */
static const double newton_tolerance =
    1e-2; /* of the correction not made, in units of the error allowed */

/* The error is (I - h gamma J)^-1 (h gamma f + sum_i e_i U_i), gamma the real eigenvalue of A. */
typedef struct {
  size_t stages;
  double gamma, c[MOST], e[MOST], A[MOST][MOST];
} Rule;

#define R6 2.449489742783178098197284
#define GAMMA_3 0.2748888295956773677
static const Rule three = {
    .stages = 3,
    .gamma = GAMMA_3,
    .c = {(4 - R6) / 10, (4 + R6) / 10, 1},
    .e = {GAMMA_3 * (-13 - 7 * R6) / 3, GAMMA_3 *(-13 + 7 * R6) / 3, -GAMMA_3 / 3},
    .A = {{(88 - 7 * R6) / 360, (296 - 169 * R6) / 1800, (-2 + 3 * R6) / 225},
          {(296 + 169 * R6) / 1800, (88 + 7 * R6) / 360, (-2 - 3 * R6) / 225},
          {(16 - R6) / 36, (16 + R6) / 36, 1. / 9}},
};
static const Rule five = {
    .stages = 5,
    .gamma = 0.1590658444274691205,
    .c = {0.05710419611451768219, 0.2768430136381238277, 0.5835904323689168201,
          0.8602401356562194478, 1},
    .e = {-4.418997716796381723, 0.5792348522566700545, -0.1992375609534680087,
          0.09416748369194548898, -0.0318131688854938241},
    .A = {{0.07299886431790332431, -0.02673533110794557188, 0.01867692976398435441,
           -0.01287910609330643985, 0.005042839233882015207},
          {0.1537752314791824687, 0.1462148678474935066, -0.03644456890512808953,
           0.02123306311930471942, -0.007935579902728777533},
          {0.1400630456848098715, 0.2989671294912834794, 0.1675850701352489634,
           -0.03396910168661774657, 0.01094428874419225227},
          {0.1448943081095347575, 0.2765000687601592276, 0.32579792291042103, 0.1287567532549097612,
           -0.01570891737880532839},
          {0.1437135607912259413, 0.2813560151494620602, 0.3118265229757412541,
           0.2231039010835707444, 0.04}},
};
static const double one = 1;

/* Five stages cost about twice as much as three, and make steps that are several times as long
 * where little error is allowed. */
static const Rule *rule_of(const IrOde *ode) { return ode->relative < 1e-7 ? &five : &three; }

double radau_stages(const IrOde *ode) { return (double)rule_of(ode)->stages; }

struct Radau {
  const Rule *rule;
  size_t stages;
  double *U[MOST]; /* [N x ld] */
  double *X[MOST]; /* [R x ld]: corrections of U; then displacements of states and sensitivities */
  double *J[MOST], *J0;         /* [N x N x ld]: of the stages, of the beginning */
  double *M;                    /* [stages N x stages N x ld]: a matrix to solve with */
  double *minus_hA[MOST][MOST]; /* a number a lane, as all below */
  double *minus_hg, *ones, *size, *update;
  double *zeros;      /* [R x ld] */
  double *correction; /* the size of the last one */
  bool *done, *failed;
  double **rows; /* stages N, of one right-hand side */
};

Radau *radau_make(Arena *a, const Solver *s) {
  Radau *w = NEW(a, Radau);
  size_t N = s->N, ld = s->ld, order;
  w->rule = rule_of(s->ode);
  w->stages = w->rule->stages;
  order = w->stages * N;
  for (size_t i = 0; i < w->stages; i++) {
    w->U[i] = NEW_ARRAY(a, double, N *ld);
    w->X[i] = NEW_ARRAY(a, double, s->R *ld);
    w->J[i] = NEW_ARRAY(a, double, N *N *ld);
    for (size_t l = 0; l < w->stages; l++) w->minus_hA[i][l] = NEW_ARRAY(a, double, ld);
  }
  w->J0 = NEW_ARRAY(a, double, N *N *ld);
  w->M = NEW_ARRAY(a, double, order *order *ld);
  w->zeros = NEW_ARRAY(a, double, s->R *ld);
  double **numbers[] = {&w->minus_hg, &w->ones, &w->size, &w->update, &w->correction};
  for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
    *numbers[k] = NEW_ARRAY(a, double, ld);
  s->k->fill(w->ones, 1, ld);
  w->done = NEW_ARRAY(a, bool, ld);
  w->failed = NEW_ARRAY(a, bool, ld);
  w->rows = NEW_ARRAY(a, double *, order);
  return w;
}

/* States that have a derivative. */
static size_t differential(const Solver *s) { return s->N - (size_t)s->ode->algebraic; }

/* ---- matrices -------------------------------------------------------------------------------- */

static void copy_jacobian(const Solver *s, double *J, size_t n) {
  for (size_t a = 0; a < s->N; a++)
    for (size_t b = 0; b < s->N; b++) {
      const double *row = s->rhs->partial[a * (s->N + s->rhs->params) + b];
      if (row) memcpy(J + (a * s->N + b) * s->ld, row, n * sizeof *J);
    }
}

/* The N x N block (i, l) of M, which has `order` columns. */
typedef struct {
  size_t order, i, l;
} Block;

/* (i == l) I + factor J, I without its algebraic rows */
static void set_block(const Solver *s, Block k, const double *factor, const double *J, size_t n) {
  for (size_t a = 0; a < s->N; a++)
    for (size_t b = 0; b < s->N; b++) {
      double *to = s->radau->M + ((k.i * s->N + a) * k.order + k.l * s->N + b) * s->ld;
      s->k->fill(to, k.i == k.l && a == b && a < differential(s), n);
      if (s->rhs->partial[a * (s->N + s->rhs->params) + b])
        s->k->multiply_add(to, factor, J + (a * s->N + b) * s->ld, n);
    }
}

/* X = (I - h A x J)^-1 X of all stages, for `columns` rows of each state from row `first` on */
static void solve_stages(const Solver *s, size_t first, size_t columns, size_t n) {
  Radau *w = s->radau;
  for (size_t i = 0; i < w->stages; i++) {
    for (size_t l = 0; l < w->stages; l++)
      set_block(s, (Block){w->stages * s->N, i, l}, w->minus_hA[i][l], w->J[l], n);
    for (size_t a = 0; a < s->N; a++)
      w->rows[i * s->N + a] = w->X[i] + (first + a * columns) * s->ld;
  }
  s->k->solve(w->M, w->rows, w->stages * s->N, columns, s->ld, n);
}

/* x = (I - h g J)^-1 x, likewise */
static void solve_error(const Solver *s, double *x, size_t first, size_t columns, size_t n) {
  Radau *w = s->radau;
  set_block(s, (Block){s->N, 0, 0}, w->minus_hg, w->J0, n);
  for (size_t a = 0; a < s->N; a++) w->rows[a] = x + (first + a * columns) * s->ld;
  s->k->solve(w->M, w->rows, s->N, columns, s->ld, n);
}

/* ---- Newton's method ------------------------------------------------------------------------- */

/* sum_l coef[l] x[l] */
typedef struct {
  double *const *x;
  const double *coef;
  size_t terms;
} Terms;

/* So many rows from `first` on, of n draws. */
typedef struct {
  size_t first, rows, n;
} Span;

/* out = z + h times the terms */
static void combine(const Solver *s, double *out, const double *z, const double *h, Terms t,
                    Span r) {
  const double *k[MOST];
  size_t from = r.first * s->ld;
  for (size_t l = 0; l < t.terms; l++) k[l] = t.x[l] + from;
  s->k->runge_kutta(out + from, z + from, h, &(StageSum){k, t.coef, t.terms},
                    (RowsShape){r.rows, s->ld, r.n});
}

/* The size of x's rows in units of the error allowed. */
static void size_of(const Solver *s, const double *x, size_t rows, double *out, size_t n) {
  const Radau *w = s->radau;
  s->k->step_error(out, &(StepScale){s->z, w->zeros, w->ones, s->relative, s->absolute},
                   &(StageSum){&x, &one, 1}, (RowsShape){rows, s->ld, n});
}

/* Where stage l is: its states, with the sensitivities of the beginning. */
static void set_stage(Solver *s, size_t l, size_t n) {
  const Radau *w = s->radau;
  combine(s, s->stage, s->z, w->ones, (Terms){&(double *){w->U[l]}, &one, 1}, (Span){0, s->N, n});
  for (size_t j = 0; j < n; j++) s->at[j] = s->t[j] + w->rule->c[l] * s->h[j];
}

static bool finite_column(const double *x, size_t rows, size_t ld, size_t j) {
  bool fine = true;
  for (size_t r = 0; r < rows; r++) fine &= isfinite(x[r * ld + j]) != 0;
  return fine;
}

/* Corrections shrink quadratically: the quotient of the next two is the square of that of the last
 * two. True when all lanes are done. */
static bool judge(Solver *s) {
  Radau *w = s->radau;
  bool all = true;
  for (size_t j = 0; j < s->active; j++) {
    w->update[j] = !w->done[j];
    if (w->done[j]) continue;
    for (size_t i = 0; i < w->stages; i++) w->failed[j] |= !finite_column(w->X[i], s->N, s->ld, j);
    double quotient = w->size[j] / w->correction[j];
    w->done[j] =
        w->failed[j] || w->size[j] * (quotient < 1 ? quotient * quotient : 1) < newton_tolerance;
    w->correction[j] = w->size[j];
    all &= w->done[j];
  }
  return all;
}

static bool newton(Solver *s, size_t n) {
  Radau *w = s->radau;
  Rhs *r = s->rhs;
  for (size_t l = 0; l < w->stages; l++) {
    set_stage(s, l, n);
    memcpy(r->t, s->at, n * sizeof *s->at);
    memcpy(r->y, s->stage, s->N * s->ld * sizeof *s->stage);
    rhs_values(r, n);
    rhs_slopes(r, s->slopes[1 + l], n);
    rhs_partials(r, n);
    copy_jacobian(s, w->J[l], n);
  }
  for (size_t i = 0; i < w->stages; i++) { /* h sum_l A_il f_l - U_i */
    combine(s, w->X[i], w->zeros, s->h, (Terms){s->slopes + 1, w->rule->A[i], w->stages},
            (Span){0, s->N, n});
    combine(s, w->X[i], w->X[i], w->ones, (Terms){&w->U[i], &(double){-1}, 1},
            (Span){0, differential(s), n});
  }
  solve_stages(s, 0, 1, n);
  memset(w->size, 0, n * sizeof *w->size);
  for (size_t i = 0; i < w->stages; i++) {
    size_of(s, w->X[i], differential(s), s->error, n);
    for (size_t j = 0; j < n; j++) w->size[j] = s->error[j] > w->size[j] ? s->error[j] : w->size[j];
  }
  bool all = judge(s);
  for (size_t i = 0; i < w->stages; i++)
    for (size_t a = 0; a < s->N; a++) {
      double *to = w->U[i] + a * s->ld, *by = w->X[i] + a * s->ld;
      s->k->forward[IR_SELECT](by, (const double *[]){w->update, by, w->zeros}, (size_t[]){1, 1, 1},
                               n);
      s->k->add(to, by, n);
    }
  return all;
}

/* ---- the step -------------------------------------------------------------------------------- */

static void begin(Solver *s, size_t n) {
  Radau *w = s->radau;
  solver_slopes(s, s->t, s->z, s->slopes[0], n);
  if (!s->P) rhs_partials(s->rhs, n);
  copy_jacobian(s, w->J0, n);
  for (size_t j = 0; j < n; j++) {
    for (size_t i = 0; i < w->stages; i++)
      for (size_t l = 0; l < w->stages; l++) w->minus_hA[i][l][j] = -s->h[j] * w->rule->A[i][l];
    w->minus_hg[j] = -s->h[j] * w->rule->gamma;
    w->done[j] = w->failed[j] = j >= s->active;
    w->correction[j] = 0;
  }
  size_t D = differential(s);
  for (size_t i = 0; i < w->stages; i++) {
    combine(s, w->U[i], w->zeros, s->h, (Terms){s->slopes, &w->rule->c[i], 1},
            (Span){0, D, n}); /* Euler's */
    memset(w->U[i] + D * s->ld, 0, (s->N - D) * s->ld * sizeof *w->U[i]);
  }
}

/* Displacements of the sensitivities. */
static void displace_sensitivities(Solver *s, size_t n) {
  Radau *w = s->radau;
  size_t rows = s->N * s->P;
  memcpy(s->stage + s->N * s->ld, s->z + s->N * s->ld, rows * s->ld * sizeof *s->z);
  for (size_t l = 0; l < w->stages; l++) {
    set_stage(s, l, n);
    solver_slopes(s, s->at, s->stage, s->slopes[1 + l], n);
    copy_jacobian(s, w->J[l], n);
  }
  for (size_t i = 0; i < w->stages; i++)
    combine(s, w->X[i], w->zeros, s->h, (Terms){s->slopes + 1, w->rule->A[i], w->stages},
            (Span){s->N, rows, n});
  solve_stages(s, s->N, s->P, n);
}

/* The rows of algebraic states, and those of their sensitivities. */
static void forget_algebraic(const Solver *s, double *x) {
  size_t D = differential(s), rows = s->N - D;
  memset(x + D * s->ld, 0, rows * s->ld * sizeof *x);
  memset(x + (s->N + D * s->P) * s->ld, 0, rows * s->P * s->ld * sizeof *x);
}

static void end(Solver *s, size_t n) {
  Radau *w = s->radau;
  for (size_t i = 0; i < w->stages; i++) memcpy(w->X[i], w->U[i], s->N * s->ld * sizeof *w->U[i]);
  combine(s, s->znew, s->z, w->ones, (Terms){&w->X[w->stages - 1], &one, 1}, (Span){0, s->R, n});
  double *error = s->stage;
  combine(s, error, w->zeros, w->ones, (Terms){w->X, w->rule->e, w->stages}, (Span){0, s->R, n});
  combine(s, error, error, s->h, (Terms){s->slopes, &w->rule->gamma, 1}, (Span){0, s->R, n});
  forget_algebraic(s, error);
  solve_error(s, error, 0, 1, n);
  if (s->P) solve_error(s, error, s->N, s->P, n);
  forget_algebraic(s, error);
  size_of(s, error, s->R, s->error, n);
  for (size_t j = 0; j < n; j++) {
    bool fine = w->done[j] && !w->failed[j] && finite_column(error, s->N, s->ld, j);
    if (!fine) s->error[j] = j < s->active ? INFINITY : 0;
  }
}

void radau_attempt(Solver *s, size_t n) {
  begin(s, n);
  for (int it = 0; it < ITERATIONS_MOST && !newton(s, n); it++) continue;
  if (s->P) displace_sensitivities(s, n);
  end(s, n);
}
