/* stages.c: to convergence by L-BFGS, with enough draws or nodes, and the verdict.
 *
 * A rich family can exploit fixed draws: it puts a sharp component on a datum wherever a draw
 * happens to lie. So the optimum on a fixed set of draws is compared with fresh ones, and while
 * they disagree the number of draws grows fourfold. Where the integral is exact there are no draws
 * to grow: then twice the nodes must agree.
 */
#include "infer/fit_int.h"

#include <math.h>
#include <string.h>

enum { SCRAMBLES = 4 };

static void add_stage(Fitter *f, FitStage row) {
  PUSH(&f->ctx->arena, f->fit->stages, f->fit->nstages, f->fit->cap_stages, row);
}

/* The optimizer found the optimum: of a score with kinks that may be a place where no step gains.
 */
static bool at_kink(const Fitter *f, const OptimResult *r) {
  return fit_kinked(f) && r->status == OPTIM_STUCK;
}

static const char *how_it_ended(const Fitter *f, const OptimResult *r) {
  return at_kink(f, r) ? "no step gains: an optimum at a kink" : r->reason;
}

/* ---- fresh draws ----------------------------------------------------------------------------- */

/* Values on independent scrambles that the optimizer has not seen. */
typedef struct {
  PredictiveValue mean; /* of all that they consist of; where one is not finite, neither is this */
  double se;            /* standard error of its value */
} Fresh;

static Fresh fresh_of(const PredictiveValue *v) {
  Fresh f = {.mean = {0, 0, 0}};
  double ss = 0;
  for (int k = 0; k < SCRAMBLES; k++) {
    f.mean.value += v[k].value / SCRAMBLES;
    f.mean.score += v[k].score / SCRAMBLES;
    f.mean.regularizer += v[k].regularizer / SCRAMBLES;
  }
  for (int k = 0; k < SCRAMBLES; k++)
    ss += (v[k].value - f.mean.value) * (v[k].value - f.mean.value);
  f.se = sqrt(ss / (SCRAMBLES * (SCRAMBLES - 1)));
  return f;
}

static void renew(const Fitter *f, Predictive *p, int k) {
  predictive_renew(p, fit_seed(f, SEED_FRESH + (uint64_t)k + 10 * f->fit->nstages), false);
}

static const PredictiveValue not_finite = {-INFINITY, -INFINITY, NAN};

static double fresh_value(Fitter *f, Predictive *p, const double *phi, PredictiveValue *mean) {
  PredictiveValue v[SCRAMBLES];
  for (int k = 0; k < SCRAMBLES; k++) {
    renew(f, p, k);
    if (!fit_evaluate(f, p, phi, &v[k])) v[k] = not_finite;
  }
  Fresh fresh = fresh_of(v);
  *mean = fresh.mean;
  return fresh.se;
}

void fit_measure(Fitter *f, const double *phi) {
  Predictive *p = fit_objective(f, fit_draws(f, FIRST_DRAWS), fit_seed(f, SEED_FRESH));
  fresh_value(f, p, phi, &f->fit->value);
}

/* Far below the noise of the data themselves. One joint observation carries many outcomes, and a
 * program without data none: there the parameters count, of whose posterior sds a gap of 0.02
 * sqrt(d) in the elbo is 0.2 / d^(1/4) in each. */
double fit_tolerated_gap(const Fitter *f) {
  size_t dim = f->model->dim ? f->model->dim : 1;
  return 0.02 * sqrt((double)(f->model->joint || !f->n ? dim : f->n));
}

static const char *draws_verdict(const Fitter *f, const OptimResult *r, const FitStage *stage,
                                 bool agree, double se) {
  Arena *a = &f->ctx->arena;
  bool exploits = r->reason == optim_reason(OPTIM_STOPPED); /* there is no other reason */
  if (exploits && !agree && isfinite(stage->fresh))
    return arena_format(a,
                        "stopped on %zu fixed draws, which it exploits: fresh ones give %.4g less "
                        "(standard error %.2g)",
                        stage->draws, stage->gap, se);
  if (!r->converged && !(at_kink(f, r) && agree)) return r->reason;
  if (agree)
    return arena_format(a, "%s; confirmed on %d fresh sets of %zu draws", how_it_ended(f, r),
                        SCRAMBLES, stage->draws);
  if (!isfinite(stage->fresh))
    return arena_format(
        a, "converged on %zu fixed draws, but the objective is not finite on fresh ones",
        stage->draws);
  return arena_format(
      a, "converged on %zu fixed draws, but fresh ones give %.4g less (standard error %.2g)",
      stage->draws, stage->gap, se);
}

static size_t usual_draws(const Fitter *f) {
  return fit_draws(f, fit_is_rich(f) ? 2 * FIRST_DRAWS : FIRST_DRAWS);
}

/* Few draws may be enough for VI, whose log densities are smooth, for one of many neighbouring fits
 * and for families that usually have many: a quarter of what is usual is tried first, and a quarter
 * of that for a neighbour of such a family. They have to agree with fresh ones to much less than
 * the data's own noise. */
enum { FEWER = 4 };

/* Is the score on quasi-random points, of which there are as many whatever the draws for the
 * regularizer? */
static bool has_points(const Fitter *f) { return fit_is_split(f) && exact_is_sampled(f->train); }

static size_t first_draws(const Fitter *f) {
  bool vi = f->target.score == SCORE_elbo, rich = fit_is_rich(f), rough = f->o->rough;
  if (has_points(f)) rich = false;
  size_t part = rich && rough ? FEWER * FEWER : vi || rich || rough ? FEWER : 1;
  return f->o->draws ? f->o->draws : usual_draws(f) / part;
}

/* Where fits are many, more than the usual draws cost more than their last error is worth: what
 * exploits them is told by the observations held out. */
static size_t most_draws(const Fitter *f) {
  if (f->again) return f->again;
  return f->o->rough ? fit_draws(f, FIRST_DRAWS) : fit_draws(f, MOST_DRAWS);
}

/* A second optimum that is far away is not worth the way. */
static long most_iterations(const Fitter *f) {
  enum { MOST = 5000, AGAIN = 1000 };
  return f->o->iterations ? f->o->iterations : f->again ? AGAIN : MOST;
}

static double few_draws_gap(const Fitter *f) {
  if (f->o->rough) return fit_tolerated_gap(f);
  return f->target.score == SCORE_elbo ? 0.01 : 0.1 * fit_tolerated_gap(f);
}

/* Where the score has nodes, fresh draws come with twice as many of them. */
static Predictive *judge_of(Fitter *f, Predictive *p, size_t M) {
  if (!predictive_is_split(p)) return p;
  Target twice = f->target;
  twice.nodes *= 2;
  return fit_objective_of(f, f->train, &twice, &f->q, (NoiseSet){M, fit_seed(f, SEED_FRESH)});
}

/* Does the fixed set of draws tell the truth about phi? Says so in the stage's row and in the
 * verdict. */
static bool draws_agree(Fitter *f, Predictive *p, const double *phi, const OptimResult *r,
                        size_t M) {
  double se = fresh_value(f, p, phi, &f->fit->value), fresh = f->fit->value.value;
  FitStage row = {M, r->value, fresh, r->value - fresh};
  add_stage(f, row);
  double allowed = fit_tolerated_gap(f);
  if (M < usual_draws(f) && !f->o->draws) allowed = fmin(allowed, few_draws_gap(f));
  bool agree = row.gap <= 2 * se + allowed && se <= allowed;
  f->fit->draws = M;
  f->fit->converged = (r->converged || at_kink(f, r)) && agree;
  f->fit->reason = draws_verdict(f, r, &row, agree, se);
  return agree;
}

/* What the running objective would be at phi on draws it has not seen. */
static Fresh fresh_on_the_way(const Fitter *f, const double *phi) {
  Predictive *p = f->running;
  PredictiveValue v[SCRAMBLES];
  for (int k = 0; k < SCRAMBLES; k++) {
    renew(f, p, k);
    if (!predictive_eval(p, phi, &v[k], NULL)) v[k] = not_finite;
  }
  predictive_renew(p, fit_seed(f, SEED_FIT + predictive_lanes(p)), false);
  return fresh_of(v);
}

/* The same with twice the nodes. */
static Fresh twice_on_the_way(const Fitter *f, const double *phi) {
  Fresh twice = {.se = 0};
  if (!predictive_eval(f->twice, phi, &twice.mean, NULL)) twice.mean = not_finite;
  return twice;
}

/* An optimum on draws or nodes that are too few is for nothing, so what is clearly exploited
 * already on the way there ends at once; so does the fit of one fold of many, which gets no more
 * draws. But the way is not for nothing as long as fresh draws gain more by it than they fall
 * short: more draws would go the same way at four times the price. */
bool fit_exploits(Fitter *f, const double *phi, double value) {
  enum { CLEARLY = 3 };
  Fresh fresh = (f->twice ? twice_on_the_way : fresh_on_the_way)(f, phi);
  double gap = value - fresh.mean.value, rise = fresh.mean.value - f->fresh_before;
  f->fresh_before = fresh.mean.value;
  if (gap <= 2 * fresh.se + CLEARLY * fit_tolerated_gap(f)) return false;
  return f->twice || f->o->rough || !(rise > gap);
}

/* What the next look depends on, for runs that are interrupted. */
static void watch_state(void *self, Archive *a) {
  Fitter *f = self;
  archive_double(a, &f->fresh_before);
}

static void watch(Fitter *f) {
  f->watched = true;
  f->fresh_before = NAN; /* the first look has nothing to compare with */
  fit_remember(f, f, watch_state);
}

/* ---- twice the nodes ------------------------------------------------------------------------- */

static const char *nodes_verdict(const Fitter *f, const OptimResult *r, const FitStage *stage,
                                 bool agree) {
  Arena *a = &f->ctx->arena;
  if (!r->converged && !at_kink(f, r)) return r->reason;
  if (agree)
    return arena_format(a, "%s; confirmed by twice the nodes, which change the objective by %.1g",
                        how_it_ended(f, r), fabs(stage->gap));
  return arena_format(a, "converged on %zu nodes, but twice as many change the objective by %.2g",
                      stage->draws, fabs(stage->gap));
}

/* Quasi-random points of one of many neighbours, which are exploited as draws are: what that comes
 * to is told by the observations held out, so they are not many, and draws instead of them would be
 * no better. */
static bool has_rough_points(const Fitter *f) { return f->o->rough && exact_is_sampled(f->train); }

/* What twice the nodes may change of an objective. A grid over scales that all observations share
 * grows with every axis, so there a gap far below what the data can tell will do; so it will for
 * one of many neighbouring fits. Quasi-random points are judged nearly as draws are. */
static double allowed_gap(const Fitter *f, double value) {
  double fine = 1e-4 + (fit_kinked(f) ? 1e-5 : 1e-7) * fabs(value);
  double part = exact_is_sampled(f->train)   ? 0.5
                : f->o->rough                ? 0.1
                : exact_has_scales(f->train) ? 0.01
                                             : 0;
  return fmax(fine, part * fit_tolerated_gap(f));
}

/* Twice the nodes of a grid are eight times as many, too dear for one of many neighbours. */
static size_t most_nodes(const Fitter *f) {
  bool dear = has_rough_points(f) || (f->o->rough && exact_has_grid(f->train));
  return dear ? EXACT_NODES : exact_most_nodes(f->train);
}

/* The most nodes need not be better than draws are, which are what is left. */
static double last_gap(const Fitter *f, double value, size_t nodes) {
  double fine = allowed_gap(f, value);
  return nodes >= most_nodes(f) ? fmax(fine, fit_tolerated_gap(f)) : fine;
}

/* Twice as many, or, where there is another way for binary outcomes (leaves.c), as many as take
 * it: it knows no law that is too wide. One of many neighbours has enough digits with fewer. */
static size_t more_nodes(const Fitter *f, size_t nodes) {
  size_t other = f->o->rough ? EXACT_NODES + 1 : 2 * EXACT_NODES;
  return exact_has_wide(f->train) && nodes <= EXACT_NODES ? other : 2 * nodes;
}

/* What phi is worth on so many nodes. */
static Predictive *on_nodes(Fitter *f, size_t nodes) {
  Target t = f->target;
  t.nodes = nodes;
  t.forward = true;
  return fit_objective_of(f, f->train, &t, &f->q, (NoiseSet){0, fit_seed(f, SEED_FIT)});
}

static bool nodes_agree(Fitter *f, const double *phi, const OptimResult *r, size_t nodes) {
  PredictiveValue *v = &f->fit->value;
  bool finite = fit_evaluate(f, on_nodes(f, more_nodes(f, nodes)), phi, v);
  FitStage row = {nodes, r->value, v->value, r->value - v->value};
  add_stage(f, row);
  bool agree = finite && fabs(row.gap) <= last_gap(f, r->value, nodes);
  f->fit->draws = nodes;
  f->fit->converged = (r->converged || at_kink(f, r)) && agree;
  f->fit->reason = nodes_verdict(f, r, &row, agree);
  return agree;
}

/* ---- the stages ------------------------------------------------------------------------------ */

/* Gains too small to end a fit's search: far below what data can tell. */
static double negligible_gain(const Fitter *f) { return 1e-3 * fit_tolerated_gap(f); }

/* A part of the draws or of the quasi-random points. Fewer tell nothing of all; a grid has no part.
 */
static void use_few(Fitter *f, Predictive *p) {
  enum { OF_DRAWS = 8, OF_POINTS = 4, LEAST_DRAWS = 64 };
  bool exact = predictive_is_exact(p);
  size_t part = exact ? OF_POINTS : OF_DRAWS, M = exact ? 0 : predictive_lanes(p) / part;
  if (q_size(&f->q) > MOST_FEW_NUMBERS) return;
  if (exact ? !exact_is_sampled(f->train) : M < LEAST_DRAWS) return;
  Target t = f->target;
  if (exact) t.nodes /= part;
  NoiseSet noise = {M, fit_seed(f, SEED_FIT)};
  predictive_use_few(p, fit_objective_of(f, f->train, &t, &f->q, noise), 1.0 / (double)part);
}

/* Where formulas do not tell the curvature, differences of gradients may: on a handful of draws or
 * nodes it is seen which of them are needed. */
static void use_probe(Fitter *f, Predictive *p) {
  enum { FEW_DRAWS = 8, FEW_NODES = 4 };
  if (predictive_is_curved(p) || fit_kinked(f) || f->o->rough) return;
  Target t = f->target;
  t.nodes = exact_is_sampled(f->train) ? 1 : FEW_NODES; /* a node may be several points */
  NoiseSet noise = {FEW_DRAWS, fit_seed(f, SEED_FIT)};
  predictive_use_probe(p, fit_objective_of(f, f->train, &t, &f->q, noise));
  use_few(f, p);
}

/* In a long valley an optimizer gains little without being anywhere near the top. So one that says
 * after many iterations that it has converged begins again from there, with nothing remembered, and
 * has converged when that gains nothing. */
static OptimResult to_convergence(Fitter *f, Predictive *p, double *phi) {
  enum { MOST_RUNS = 20, FEW_ITERATIONS = 30 };
  long left = most_iterations(f);
  OptimResult r = fit_lbfgs(f, p, phi, left, 1e-9, "fit");
  f->near = false;
  for (int k = 0; k < MOST_RUNS && !f->o->rough && r.status == OPTIM_CONVERGED; k++) {
    double before = r.value;
    left -= r.iterations;
    if (left <= 0 || r.iterations < FEW_ITERATIONS) break;
    r = fit_lbfgs(f, p, phi, left, 1e-9, "fit");
    if (!(r.value - before > negligible_gain(f))) {
      if (r.status == OPTIM_LIMIT || r.status == OPTIM_STUCK) r.status = OPTIM_CONVERGED;
      break;
    }
  }
  r.converged = optim_converged(r.status);
  r.reason = optim_reason(r.status);
  return r;
}

/* An optimizer that stopped at an edge, or did not begin because q is beyond it, has a reason with
 * a name. */
static void name_edge(Fitter *f, Predictive *p, const double *phi, OptimResult *r) {
  if (f->o->rough) return; /* nobody reads a neighbour's reasons */
  const char *why = r->status == OPTIM_EDGE         ? fit_edge(f, p, &f->q, phi)
                    : r->status == OPTIM_NOT_FINITE ? fit_edge_around(f, &f->q, phi)
                                                    : NULL;
  if (why) r->reason = why;
}

/* Draws or nodes that were not seen are beyond an edge: so will some of the next ones be, however
 * many there are. */
static bool is_beyond_edge(Fitter *f, const double *phi) {
  if (f->o->rough || isfinite(f->fit->value.value)) return false;
  const char *why = fit_edge_around(f, &f->q, phi);
  if (why) f->unbounded = f->fit->reason = why;
  return why != NULL;
}

/* With a parameter for every observation a program may reproduce them all: the noise shrinks, the
 * densities grow without bound, and whatever an optimizer ends with is a matter of rounding. Where
 * VI's densities are exceeded so many times over, on average, that is what happens. */

static double memorised_score(Fitter *f) {
  FitMark mark = fit_mark(f);
  PredictiveValue v;
  double *vi = NEW_ARRAY(f->arena, double, q_size(&f->q));
  fit_at_centre(f, vi);
  Predictive *p = fit_objective(f, fit_draws(f, JUDGE_DRAWS), fit_seed(f, SEED_JUDGE));
  bool finite = fit_evaluate(f, p, vi, &v);
  fit_release(f, mark);
  return finite ? v.score + MEMORISED_NATS * (double)f->n : INFINITY;
}

static bool may_memorise(const Fitter *f) {
  bool vi_is_known = f->unit != NULL;
  return vi_is_known && f->target.score == SCORE_log && fit_is_continuous(f) &&
         f->model->dim >= f->n && !f->o->rough && !f->apart;
}

/* Is that why the optimizer was stopped? */
static bool memorises(Fitter *f, Predictive *p, const double *phi, OptimResult *r) {
  PredictiveValue v;
  if (r->status != OPTIM_STOPPED || !isfinite(f->memorised) || !fit_evaluate(f, p, phi, &v) ||
      !(v.score > f->memorised))
    return false;
  r->reason = arena_format(
      &f->ctx->arena,
      "unbounded: with %zu parameters for %zu observations q can reproduce the data, "
      "whose densities are already more than %.0f times VI's on average and grow as the noise "
      "shrinks; use a larger " OPTION("lambda") ", or " OPTION("lambda") " auto",
      f->model->dim, f->n, exp(MEMORISED_NATS));
  return true;
}

/* A score with kinks is approached through rounded ones, each a start of the next: widths of the
 * rounding, in standard deviations of the outcome. */
static void anneal(Fitter *f, double *phi) {
  static const double hinges[] = {0.3,   0.1,   0.05,   0.025,  0.012,
                                  0.006, 0.003, 0.0015, 0.0007, 0.0003};
  if (!fit_kinked(f)) return;
  double sd = fit_outcome_sd(f);
  if (!(sd > 0)) return;
  NoiseSet noise = {2 * fit_draws(f, FIRST_DRAWS), fit_seed(f, SEED_FIT)};
  for (size_t k = 0; k < sizeof hinges / sizeof *hinges; k++) {
    FitMark mark = fit_mark(f);
    Target rounded = f->target;
    rounded.score_options.smooth = hinges[k] * sd;
    fit_lbfgs(f, fit_objective_of(f, f->train, &rounded, &f->q, noise), phi, 200, 1e-8,
              "annealing");
    fit_release(f, mark);
  }
}

static double value_on(Fitter *f, const double *phi, size_t nodes) {
  FitMark mark = fit_mark(f);
  PredictiveValue v;
  double value = fit_evaluate(f, on_nodes(f, nodes), phi, &v) ? v.value : -INFINITY;
  fit_release(f, mark);
  return value;
}

/* One of many neighbours begins with few. Of a wide law few nodes see what a binary outcome does
 * only by chance, so there they are not as few. */
static size_t least_nodes(const Fitter *f) {
  return !f->o->rough ? EXACT_NODES : EXACT_NODES / (exact_has_wide(f->train) ? 2 : 4);
}

/* A start that needs more nodes than usual tells so at once: where more of them change it by much
 * more than they may in the end, an optimum on the few would be for nothing. */
static size_t first_nodes(Fitter *f, const double *phi) {
  if (f->o->nodes) return f->o->nodes;
  size_t nodes = least_nodes(f), most = most_nodes(f);
  double value = value_on(f, phi, nodes), times_over = f->o->rough ? 2 : 10;
  for (; 2 * nodes <= most; nodes = more_nodes(f, nodes)) {
    double next = value_on(f, phi, more_nodes(f, nodes));
    if (!(fabs(next - value) > times_over * allowed_gap(f, value))) break;
    value = next;
  }
  return nodes;
}

/* Where even the most draws were exploited the last word is with fresh ones: q may have been better
 * where the fit began. */
static void keep_better(Fitter *f, Predictive *judge, double *phi, const double *start) {
  PredictiveValue v;
  fit_prefer(f, judge, phi, start);
  fresh_value(f, judge, phi, &v);
  f->fit->value = v;
}

/* What draws are exploited by falls as one over their number. So where a stage falls short by not
 * much more than is tolerated, twice as many will do, with a margin. */
static bool twice_will_do(const Fitter *f, size_t M) {
  const double margin = 0.8;
  double gap = f->fit->stages[f->fit->nstages - 1].gap, tolerated = fit_tolerated_gap(f);
  return M >= usual_draws(f) && gap > tolerated && gap <= 2 * margin * tolerated;
}

/* What exploited too few draws or nodes is no start for more, so a stage begins from the better of
 * the last one's optimum and the first start, judged on the new ones. Where there is no optimum,
 * more of them do not find one. */
static void finish_draws(Fitter *f, double *phi) {
  size_t size = q_size(&f->q);
  double *start = memcpy(NEW_ARRAY(f->arena, double, size), phi, size * sizeof *phi);
  bool split = fit_is_split(f);
  if (split && !f->o->nodes)
    f->target.nodes = EXACT_NODES / (f->o->rough && has_points(f) ? FEWER : 1);
  bool between = false; /* M is twice the last stage's, and twice M is the usual next one's */
  for (size_t M = first_draws(f), times;; M *= times) {
    FitMark mark = fit_mark(f);
    Predictive *p = fit_objective(f, M, fit_seed(f, SEED_FIT + M));
    if (f->fit->nstages) fit_prefer(f, p, phi, start);
    use_probe(f, p);
    bool last = f->o->draws || (!between && 4 * M > most_draws(f));
    if (!f->o->draws || f->o->rough) watch(f);
    f->near = f->fit->nstages > 0;
    OptimResult r = to_convergence(f, p, phi);
    f->watched = false;
    name_edge(f, p, phi, &r);
    Predictive *judge = judge_of(f, p, M);
    bool away = memorises(f, p, phi, &r) ||
                (!(last && f->o->rough) && fit_unbounded(f, p, &f->q, phi)),
         agree = draws_agree(f, judge, phi, &r, M),
         done = (agree && r.status != OPTIM_STOPPED) || away || last;
    bool exploited = last && !agree && r.status == OPTIM_STOPPED;
    if (exploited && !away && !f->o->rough) keep_better(f, judge, phi, start);
    fit_release(f, mark);
    if (done || is_beyond_edge(f, phi)) return;
    if (split) f->target.nodes *= 2;
    times = between || twice_will_do(f, M) ? 2 : 4;
    between = times == 2 && !between;
  }
}

/* Where q is as wide as if it knew next to nothing, nodes take more points than draws do. */
static bool by_draws_instead(Fitter *f, double *phi) {
  if (f->target.integrate != INTEGRATE_AUTO || has_rough_points(f)) return false;
  f->target.integrate = INTEGRATE_DRAWS;
  f->target.nodes = 0;
  f->fit->exact = false;
  finish_draws(f, phi);
  return true;
}

static Predictive *exact_objective(Fitter *f) {
  Predictive *p = fit_objective(f, 0, fit_seed(f, SEED_FIT));
  if (f->target.score != SCORE_elbo && !fit_kinked(f)) predictive_use_curvature(f->arena, p);
  return p;
}

/* Nodes that are more than usual may be too few for a law as narrow as q can make them, and there
 * an optimizer goes on for thousands of iterations. */
static OptimResult exact_optimum(Fitter *f, Predictive *p, double *phi) {
  size_t nodes = f->target.nodes;
  bool many = nodes > EXACT_NODES || exact_is_sampled(f->train),
       watched = many && (nodes < most_nodes(f) || has_rough_points(f));
  use_probe(f, p);
  f->twice = watched ? on_nodes(f, more_nodes(f, nodes)) : NULL;
  OptimResult r = to_convergence(f, p, phi);
  f->twice = NULL;
  name_edge(f, p, phi, &r);
  return r;
}

/* Why there is no optimum, on the nodes of a stage that ended; NULL: there is one. */
static const char *unbounded_after(Fitter *f, const double *phi) {
  FitMark mark = fit_mark(f);
  const char *why = fit_unbounded(f, exact_objective(f), &f->q, phi);
  fit_release(f, mark);
  return why;
}

/* Whether there is an optimum at all is asked of one of many neighbours only before it would go on
 * by draws. */
static void finish_exact(Fitter *f, double *phi) {
  size_t size = q_size(&f->q);
  double *start = memcpy(NEW_ARRAY(f->arena, double, size), phi, size * sizeof *phi);
  bool rough = f->o->rough;
  f->fit->exact = true;
  for (size_t nodes = first_nodes(f, phi);; nodes = more_nodes(f, nodes)) {
    FitMark mark = fit_mark(f);
    f->target.nodes = nodes; /* also for what is measured afterwards */
    Predictive *p = exact_objective(f);
    if (f->fit->nstages) fit_prefer(f, p, phi, start);
    OptimResult r = exact_optimum(f, p, phi);
    bool memorised = memorises(f, p, phi, &r);
    f->unbounded = memorised ? r.reason : rough ? NULL : fit_unbounded(f, p, &f->q, phi);
    fit_release(f, mark); /* what comes next is as large */
    bool agree = nodes_agree(f, phi, &r, nodes), last = nodes >= most_nodes(f);
    fit_release(f, mark);
    if (rough && last && !agree) f->unbounded = unbounded_after(f, phi);
    if (is_beyond_edge(f, phi)) return;
    if (last && !agree && !f->unbounded && by_draws_instead(f, phi)) return;
    if (agree || f->unbounded || last) return;
  }
}

void fit_finish(Fitter *f, double *phi) {
  if (may_memorise(f)) f->memorised = memorised_score(f);
  anneal(f, phi);
  (fit_is_exact(f) ? finish_exact : finish_draws)(f, phi);
}
