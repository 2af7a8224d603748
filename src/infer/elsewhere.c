/* elsewhere.c: is there another optimum than the one to which a fit came?
 *
 * By draws, the starts of predictive scores are compared on few of them, and where there are
 * several optima these few decide which one it will be. So others are tried: these and the fit's
 * own q are taken to their optima on the same draws, and if those are not equally high there are
 * two. A higher one is where the fit goes on.
 */
#include "infer/fit_int.h"

#include <math.h>
#include <string.h>

/* Where iterates are chosen by validation it does not matter which optimum the last one is. */
static bool is_worth_a_look(const Fitter *f) {
  return f->fit->converged && !f->o->rough && !f->o->warm && f->target.score != SCORE_elbo &&
         !f->best_phi && fit_looks_around(f);
}

/* The ways: from as wide a q as is that of one observation, and a wider one, from which a few
 * iterations are not enough to tell it from other starts, so it was none of those; and, 0, Bayes
 * let go once more. Times sqrt(n). */
static const double widths[] = {1, 2, 0};
enum { WAYS = sizeof widths / sizeof *widths };

static bool way_begins(Fitter *f, int way, double *phi) {
  NoiseSet noise = {fit_draws(f, EXPLORE_DRAWS), fit_seed(f, SEED_ELSEWHERE)};
  if (widths[way] == 0) return fit_let_go(f, noise, phi);
  fit_widened(f, widths[way] * sqrt((double)f->n), phi);
  return true;
}

typedef struct {
  double *phi, value;
  bool ended;
} Top;

static Top top_from(Fitter *f, Predictive *p, const double *phi) {
  enum { ITERATIONS = 500 };
  size_t size = q_size(&f->q);
  Top t = {.phi = memcpy(NEW_ARRAY(f->arena, double, size), phi, size * sizeof *phi)};
  OptimResult r = fit_lbfgs(f, p, t.phi, ITERATIONS, 1e-7, "elsewhere");
  t.value = r.value;
  t.ended = r.converged;
  return t;
}

/* What a way led to, against `here`. */
typedef enum { THE_SAME, UNKNOWN, LOWER, HIGHER } Finding;

static Finding judge(const Fitter *f, const Top *there, const Top *here) {
  double above = there->value - here->value;
  if (fabs(above) <= 2 * fit_tolerated_gap(f)) return THE_SAME;
  return above > 0 ? HIGHER : there->ended ? LOWER : UNKNOWN;
}

static Predictive *look_objective(Fitter *f) {
  return fit_objective(f, fit_draws(f, EXPLORE_DRAWS), fit_seed(f, SEED_ELSEWHERE));
}

/* Goes the ways until one leads to the same top: the best of `here` and what they lead to, and how
 * far above `here` it is, or else how far below another optimum is; 0: there is none. */
static Top best_of_ways(Fitter *f, Predictive *p, const double *phi, double *above) {
  Top here = top_from(f, p, phi), best = here;
  Finding found = UNKNOWN;
  double *start = NEW_ARRAY(f->arena, double, q_size(&f->q)), lower = 0;
  for (int k = 0; k < WAYS && found != THE_SAME; k++) {
    if (!way_begins(f, k, start)) continue;
    Top there = top_from(f, p, start);
    found = judge(f, &there, &here);
    if (found == LOWER) lower = there.value - here.value;
    if (there.value > best.value) best = there;
  }
  *above = judge(f, &best, &here) == HIGHER ? best.value - here.value : lower;
  return *above > 0 ? best : here;
}

/* On from a higher place than the fit's optimum, which stays where this leads to no other one. */
static bool goes_on(Fitter *f, double *phi, double *other) {
  Fit *fit = f->fit, first = *fit;
  f->again = first.draws;
  fit_finish(f, other);
  f->again = 0;
  if (fit->converged && fit->value.value > first.value.value) {
    memcpy(phi, other, q_size(&f->q) * sizeof *phi);
    return true;
  }
  fit->converged = true;
  fit->reason = first.reason;
  fit->value = first.value;
  fit->draws = first.draws;
  return false;
}

static void say(Fitter *f, double above, bool went_on) {
  const char *text = !(above > 0) ? "other starts lead to an optimum that is %.4g lower"
                     : went_on    ? "the first starts led to an optimum that is %.4g lower"
                               : "other starts lead to where the objective is %.4g higher, but the "
                                 "fit does not converge there";
  text = arena_format(&f->ctx->arena, text, fabs(above));
  fit_note(f,
           arena_format(&f->ctx->arena,
                        "%s: there is more than one optimum, and other seeds may find better ones",
                        text));
}

void fit_look_elsewhere(Fitter *f, double *phi) {
  if (!is_worth_a_look(f)) return;
  double above, *other = NEW_ARRAY(f->arena, double, q_size(&f->q));
  bool keep = f->keep_phi, validates = f->validates;
  f->validates = false;
  f->keep_phi = true; /* what an interruption leaves is phi, until there is a better one */
  FitMark mark = fit_mark(f);
  memcpy(other, best_of_ways(f, look_objective(f), phi, &above).phi, q_size(&f->q) * sizeof *other);
  fit_release(f, mark);
  f->validates = validates;
  if (above != 0) say(f, above, above > 0 && goes_on(f, phi, other));
  f->keep_phi = keep;
}
