/* ode_int.h: differential equations, for this folder.
 *
 *   Rhs      a right-hand side as a list of kernel calls on rows: its values, and its Jacobian
 *            (rhs.c)
 *   Solver   the draws that are being solved together, one a lane (solver.c; implicit steps in
 *            radau.c)
 *   OdeWork  what an ODE instruction of a tape keeps while it runs (ode.c)
 *
 * The solution and its sensitivities S = d y / d (initial state, parameters), S' = df/dy S + df/dp,
 * are integrated together.
 */
#ifndef PVI_ODE_INT_H
#define PVI_ODE_INT_H

#include "vm/kernels.h"

/* ---- rhs.c ----------------------------------------------------------------------------------- */

typedef struct {
  MapForward *run;
  MapBackward *pull;
  int32_t args[IR_MAX_ARGS], cell; /* what it reads, what it makes */
  const double *in[IR_MAX_ARGS];
  size_t step[IR_MAX_ARGS];
  double *out;
} Call;

typedef struct {
  const Call *call;
  const double *g;
  double *adj[IR_MAX_ARGS];
} Pull;

/* The calls that one slope depends on, last first. */
typedef struct {
  Pull *pulls;
  size_t count, cap;
  double *adjoint; /* rows of all that is active in it, its own first */
  size_t rows;
} Cone;

typedef struct {
  const Kernels *k;
  size_t states, params, ld;
  double *t, *y, *p;    /* rows to set: one, states, params */
  Call *fixed, *moving; /* what depends on p alone, and the rest */
  size_t nfixed, nmoving;
  const double **slope; /* states: rows of y' */
  size_t *slope_step;
  Cone *cones; /* states */
  const double *
      *partial; /* [states x (states + params)]: rows of d slope / d (y, p); NULL: it is zero */
} Rhs;

Rhs *rhs_make(Arena *a, const IrOde *ode, size_t ld);
size_t rhs_rows(const IrOde *ode); /* about as many as it works on */
void rhs_fixed(const Rhs *r, size_t n);
void rhs_values(const Rhs *r, size_t n);
void rhs_slopes(const Rhs *r, double *out, size_t n); /* the values, in rows of their own */
void rhs_partials(const Rhs *r, size_t n);            /* after the values */

/* ---- solver.c, radau.c ----------------------------------------------------------------------- */

/* Rows are ld apart; column j belongs to draw j. */
typedef struct {
  const double *in;          /* operands: initial states, parameters, times */
  double *out, *sensitivity; /* [times x states], [times x states x sensitivities] */
  size_t in_ld, out_ld, sensitivity_ld;
  size_t count; /* draws */
} OdeRows;

/* A draw on its way. */
typedef struct {
  size_t draw;
  int32_t next; /* the time it goes to */
  double dt;    /* the step it would like to take */
  double steps; /* since the last time */
  int failures; /* of the running step */
} Lane;

typedef struct {
  const IrOde *ode;
  const OdeRows *rows; /* while it runs */
  const Kernels *k;
  Rhs *rhs;
  size_t N, P, R; /* states; sensitivities; rows of both: state i in row i, its sensitivities from
                     row N + i P on */
  size_t ld;      /* lanes */
  double relative, absolute;
  Lane *lane;
  size_t active; /* lanes in use, the first ones */
  bool fresh;    /* lanes have come or moved: what is kept from the last step is gone */
  double *t, *h; /* a number a lane: time, attempted step */
  double *at, *from, *error, *base, *power, *factor; /* a number a lane, of one attempt */
  double *z, *znew, *stage, *slopes[STAGES_MOST];    /* [R x ld] */
  double *weights;                                   /* [slopes x ld], of one interpolation */
  size_t *passed;                                    /* lanes of it */
  const double **own, **by, **of;                    /* of one tangent */
  struct Radau *radau;                               /* implicit steps */
} Solver;

Solver *solver_make(Arena *a, const IrOde *ode, size_t most); /* for at most so many draws */
void solver_run(Solver *s, const OdeRows *rows);
/* Then, where times are operands: derivatives of the solution in its own time and in the initial
 * one, rows like out. */
void solver_time_slopes(Solver *s, const OdeRows *rows, double *by_time, double *by_first);
/* out = f(at, z): states, and sensitivities. */
void solver_slopes(Solver *s, const double *at, const double *z, double *out, size_t n);

typedef struct Radau Radau;
Radau *radau_make(Arena *a, const Solver *s);
double radau_stages(const IrOde *ode);   /* of a step: their number depends on the tolerance */
void radau_attempt(Solver *s, size_t n); /* a step h of every lane: znew, error */

/* ---- ode.c ----------------------------------------------------------------------------------- */

typedef struct OdeWork OdeWork;
OdeWork *ode_work(Arena *a, const IrOde *ode, size_t lanes, int workers);
/* Draws [lane, lane + n), `count` of them in use; in and out as an instruction's rows, `lanes`
 * apart. */
typedef struct {
  size_t lane, n, count, lanes;
  int worker;
} OdePiece;
void ode_forward(OdeWork *w, const OdePiece *p, const double *in, double *out);
void ode_backward(OdeWork *w, const OdePiece *p, const double *out_adj, double *in_adj);

#endif
