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

/* Where q has more numbers, looking would take longer than the fit did. */
static bool is_worth_a_look(const Fitter *f) {
  enum { MOST_NUMBERS = 1024 };
  return f->fit->converged && !f->fit->exact && !f->o->rough && !f->o->warm && !fit_is_rich(f) &&
         !fit_kinked(f) && f->target.score != SCORE_elbo && q_size(&f->q) <= MOST_NUMBERS;
}

/* As wide as q is for one observation, and wider: a few iterations from there are not enough to
 * tell such a start from others, so it was none of those. */
static bool from_wide(Fitter *f, double *phi) {
  fit_widened(f, sqrt((double)f->n), phi);
  return true;
}

static bool from_wider(Fitter *f, double *phi) {
  fit_widened(f, 2 * sqrt((double)f->n), phi);
  return true;
}

static bool by_letting_go(Fitter *f, double *phi) {
  return fit_let_go(f, &f->q, (NoiseSet){EXPLORE_DRAWS, fit_seed(f, SEED_ELSEWHERE)}, phi);
}

static bool (*const ways[])(Fitter *f, double *phi) = {from_wide, from_wider, by_letting_go};
enum { WAYS = sizeof ways / sizeof *ways };

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
    if (!ways[k](f, start)) continue;
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
  bool keep = f->keep_phi;
  f->keep_phi = true; /* what an interruption leaves is phi, until there is a better one */
  FitMark mark = fit_mark(f);
  memcpy(other, best_of_ways(f, look_objective(f), phi, &above).phi, q_size(&f->q) * sizeof *other);
  fit_release(f, mark);
  if (above != 0) say(f, above, above > 0 && goes_on(f, phi, other));
  f->keep_phi = keep;
}
