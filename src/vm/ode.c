/* ode.c: differential equations as instructions of a tape. Forward solves all draws of a piece and
 * keeps the sensitivities of the solution, [times x states x sensitivities] rows, those of a piece
 * together as far apart as the instruction's; backward is a product with them. */
#include "vm/ode_int.h"
#include "vm/vm.h"

#include <string.h>

struct OdeWork {
  const IrOde *ode;
  size_t outputs, P, first; /* sensitivities are to the operand's elements from `first` on */
  double *sensitivity;      /* [pieces][outputs x P x lanes of a piece] */
  double *by_time[2]; /* likewise [outputs]: in the initial time, in the output's own; NULL: times
                         are data */
  Solver **solver;    /* per worker */
};

OdeWork *ode_work(Arena *a, const IrOde *ode, size_t lanes, int workers) {
  OdeWork *w = NEW(a, OdeWork);
  w->ode = ode;
  w->outputs = (size_t)ode->ntimes * (size_t)ode->states;
  w->first = ode->from_state ? 0 : (size_t)ode->states;
  w->P = (size_t)(ode->states + ode->params) - w->first;
  for (int k = 0; k < 2 && ode->timed; k++) w->by_time[k] = NEW_ARRAY(a, double, w->outputs *lanes);
  w->sensitivity = NEW_ARRAY(a, double, w->outputs * w->P * lanes);
  w->solver = NEW_ARRAY(a, Solver *, workers);
  for (int k = 0; k < workers; k++) w->solver[k] = solver_make(a, ode, lanes);
  return w;
}

/* Lanes behind the draws in use repeat the last of them. */
static void pad(double *row, size_t count, size_t n) {
  for (size_t j = count; j < n; j++) row[j] = count ? row[count - 1] : 0;
}

static double *sensitivity(const OdeWork *w, const OdePiece *p) {
  return w->sensitivity + p->lane * w->outputs * w->P;
}

static double *by_time(const OdeWork *w, const OdePiece *p, size_t which) {
  return w->by_time[which] + p->lane * w->outputs;
}

void ode_forward(OdeWork *w, const OdePiece *p, const double *in, double *out) {
  OdeRows rows = {.in = in,
                  .out = out,
                  .sensitivity = sensitivity(w, p),
                  .in_ld = p->lanes,
                  .out_ld = p->lanes,
                  .sensitivity_ld = p->lanes,
                  .count = p->count};
  Solver *s = w->solver[p->worker];
  solver_run(s, &rows);
  if (w->ode->timed) solver_time_slopes(s, &rows, by_time(w, p, 1), by_time(w, p, 0));
  if (p->count == p->n) return;
  for (size_t k = 0; k < w->outputs; k++) pad(out + k * p->lanes, p->count, p->n);
  for (size_t k = 0; k < w->outputs * w->P; k++)
    pad(rows.sensitivity + k * p->lanes, p->count, p->n);
  for (size_t k = 0; w->ode->timed && k < 2 * w->outputs; k++)
    pad(by_time(w, p, k / w->outputs) + k % w->outputs * p->lanes, p->count, p->n);
}

void ode_backward(OdeWork *w, const OdePiece *p, const double *out_adj, double *in_adj) {
  const Kernels *k = kernels_best();
  double *times = in_adj + (size_t)(w->ode->states + w->ode->params) * p->lanes;
  for (size_t o = 0; o < w->outputs; o++) {
    const double *g = out_adj + o * p->lanes;
    for (size_t c = 0; c < w->P; c++)
      k->chain(in_adj + (w->first + c) * p->lanes, g, sensitivity(w, p) + (o * w->P + c) * p->lanes,
               p->n, false);
    for (size_t t = 0; w->ode->timed && t < 2; t++) {
      size_t at = t ? 1 + o / (size_t)w->ode->states : 0;
      k->chain(times + at * p->lanes, g, by_time(w, p, t) + o * p->lanes, p->n, false);
    }
  }
}

void vm_solve(Arena *a, const IrOde *ode, const double *in, double *out) {
  OdeRows rows = {.in = in, .out = out, .in_ld = 1, .out_ld = 1, .count = 1};
  solver_run(solver_make(a, ode, 1), &rows);
}
