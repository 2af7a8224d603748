/* starts.c: where predictive scores start: VI's q in several widths, with correlations, in the
 * parts in which the observations fall, and what was given.
 *
 * VI's own narrow q is a flat saddle of the predictive scores, so they start from several widths,
 * and from whatever else the family allows: a few iterations from each, more from the two best, and
 * the best q that was ever seen goes on, be it a start as it was given. All are compared by one
 * judge: common draws that no start has seen, or all the nodes.
 */
#include "infer/fit_int.h"

#include <math.h>
#include <string.h>

enum {
  EXPLORE_ITERATIONS = 25,
  FINAL_ITERATIONS = 75,  /* more, for the two best, */
  EXACT_ITERATIONS = 500, /* where evaluations are cheap to the end */
  EXPLORE_NODES = 16,
  MOST_STARTS = 10,
  COMPONENT_STARTS = 2
};

/* VI's q with sds so much larger, in any family. */
static void at_centre(const Fitter *f, const Q *q, double factor, double *phi) {
  size_t d = f->model->dim;
  double *sd = NEW_ARRAY(f->arena, double, d);
  for (size_t k = 0; k < d; k++) {
    double wide = f->sd[k] * factor, most = fmax(1, 2 * f->sd[k]);
    sd[k] = factor == 1 ? f->sd[k] : fmin(wide, most);
  }
  q_start(q, phi, f->mean, sd);
}

void fit_at_centre(const Fitter *f, double *phi) { at_centre(f, &f->q, 1, phi); }
void fit_widened(const Fitter *f, double factor, double *phi) { at_centre(f, &f->q, factor, phi); }

/* ---- the starts ------------------------------------------------------------------------------ */

/* VI's sd times n^power times factor: VI's is that of n observations, and one observation's is
 * sqrt(n) times as wide. Where evaluations are cheap the best width is looked for instead of the
 * middle one. */
typedef struct {
  const char *name;
  double power, factor;
  bool looked_for;
} Width;

static const Width widths[] = {{"VI", 0, 1, false},
                               {"VI widened by n^1/4", 0.25, 1, true},
                               {"VI widened by n^1/2 / 2", 0.5, 0.5, false}};
enum { NWIDTHS = sizeof widths / sizeof *widths };

static bool search(Fitter *f, const Q *q, double *phi);

typedef struct {
  const char *name;
  double *phi;
  double value;  /* the judge's, of where it is now; -inf: it is none, after all */
  bool climbing; /* it had not converged after the first few iterations */
  bool ended;    /* at an optimum */
} Start;

typedef struct {
  Fitter *f;
  const Q *q;            /* the fit's own, or a simpler one that is a start for it */
  Predictive *p, *judge; /* for the iterations, and to compare what comes out of them */
  Start starts[MOST_STARTS];
  int n;
  double *best, top; /* the best q so far, and its value */
} Search;

static double *new_start(Search *s, const char *name) {
  double *phi = NEW_ARRAY(s->f->arena, double, q_size(s->q));
  s->starts[s->n++] = (Start){name, phi, -INFINITY, false, false};
  return phi;
}

/* VI's q in the family itself, where that has correlations and integration is exact: a predictive q
 * is often wide along a ridge of the posterior. */
static bool correlated_vi(Fitter *f, const Q *q, double *phi) {
  Target vi = fit_vi_target(f, EXPLORE_NODES / 2);
  const char *why;
  if (!family_of(q->family)->dense || !exact_applies(f->train_ll, &vi, q, &why)) return false;
  if (f->o->vi.phi && q == &f->q) {
    memcpy(phi, f->o->vi.phi, q_size(q) * sizeof *phi);
    return true;
  }
  FitMark mark = fit_mark(f);
  PredictiveValue v;
  Predictive *p = fit_objective_of(f, f->train_ll, &vi, q, (NoiseSet){0, fit_seed(f, SEED_VI)});
  q_start(q, phi, f->mean, f->sd);
  bool finite = fit_evaluate(f, p, phi, &v);
  if (finite) fit_lbfgs(f, p, phi, 500, 1e-6, "VI, correlated");
  fit_release(f, mark);
  return finite;
}

/* The normal with the curvature of the log density, in a full-rank family; the diagonal of the root
 * is kept as logarithms. */
bool fit_at_curvature(Fitter *f, const Q *q, double *phi) {
  size_t n = q->shape.dim;
  if (q->family != FAMILY_fullrank) return false;
  double *root = NEW_ARRAY(f->arena, double, n *n);
  if (!fit_posterior_root(f, root)) return false;
  q_start(q, phi, f->mean, f->sd);
  for (size_t i = 0; i < n; i++) {
    double *row = phi + n + i * (i + 1) / 2;
    memcpy(row, root + i * n, i * sizeof *row);
    row[i] = log(root[i * n + i]);
  }
  return true;
}

/* Of q times 1, 2, 4, ... that with the best objective, and how many times that is, up to where
 * wider ones are no better (they may be absurd, and cost much more to evaluate); 0: none is finite.
 * Where one observation says as much as a thousand others (a count of many trials), no power of n
 * is right. correlated NULL: VI's q. */
static double best_width(Search *s, const double *correlated, double *best) {
  Fitter *f = s->f;
  size_t size = q_size(s->q);
  double *phi = NEW_ARRAY(f->arena, double, size), top = -INFINITY, times = 0;
  int worse = 0;
  for (double factor = 1; factor < 1e4 && worse < 2; factor *= 2) {
    PredictiveValue v;
    if (correlated) {
      memcpy(phi, correlated, size * sizeof *phi);
      for (size_t k = 0; k < f->model->dim; k++) q_stretch(s->q, phi, k, factor, 0);
    } else {
      at_centre(f, s->q, factor, phi);
    }
    bool better = fit_evaluate(f, s->p, phi, &v) && v.value > top;
    worse = better || top == -INFINITY ? 0 : worse + 1;
    if (!better) continue;
    top = v.value;
    times = factor;
    memcpy(best, phi, size * sizeof *phi);
  }
  return times;
}

static void add_widths(Search *s) {
  Fitter *f = s->f;
  bool exact = predictive_is_exact(s->p);
  for (int k = 0; k < NWIDTHS; k++) {
    const Width *w = &widths[k];
    if (exact && w->looked_for) continue;
    at_centre(f, s->q, pow((double)f->n, w->power) * w->factor, new_start(s, w->name));
  }
  /* once VI's width, that is a start already */
  if (exact && !(best_width(s, NULL, new_start(s, "VI at its best width")) > 1)) s->n--;
}

/* The posterior's correlations are kept for the optimizers, but where q has few numbers: these have
 * the Hessian. */
static void keep_vi(Search *s, const double *phi) {
  Fitter *f = s->f;
  size_t size = q_size(s->q);
  if (s->q != &f->q || size <= MOST_FEW_NUMBERS) return;
  f->vi = memcpy(NEW_ARRAY(f->parts, double, size), phi, size * sizeof *phi);
  predictive_set_vi(s->p, f->vi);
}

static void add_correlated(Search *s) {
  Fitter *f = s->f;
  double *phi = NEW_ARRAY(f->arena, double, q_size(s->q));
  bool exact = predictive_is_exact(s->p);
  if (!(exact ? correlated_vi(f, s->q, phi) : fit_at_curvature(f, s->q, phi))) return;
  if (exact) keep_vi(s, phi);
  if (!(best_width(s, phi, new_start(s, "correlated VI at its best width")) > 0)) s->n--;
}

static void add_components(Search *s) {
  Fitter *f = s->f;
  if (s->q->family != FAMILY_mixture) return;
  for (int k = 0; k < COMPONENT_STARTS; k++)
    if (!fit_components(f, fit_seed(f, SEED_EXPLORE + 10 + (uint64_t)k),
                        new_start(s, "components by observations")))
      s->n--;
}

/* The optimum, or nearly so, of the normal family that a richer one begins with: what follows in
 * phi is as in any start, and changes nothing at first. */
static void add_affine(Search *s) {
  Fitter *f = s->f;
  const Family *family = family_of(s->q->family), *affine = family->affine;
  if (!affine) return;
  FamilyId id = 0;
  while (family_of(id) != affine) id++;
  Q *base = NEW(f->arena, Q);
  *base = *s->q;
  base->family = id;
  base->shape = family_shape(id, (Shape){.dim = s->q->shape.dim});
  size_t size = affine->size(&base->shape), points = s->q->npoint;
  double *from = NEW_ARRAY(f->arena, double, q_size(base));
  if (!search(f, base, from)) return;
  double *phi = new_start(s, arena_format(&f->ctx->arena, "%s", family_name(id)));
  q_start(s->q, phi, f->mean, f->sd);
  memcpy(phi, from, size * sizeof *phi);
  memcpy(phi + q_size(s->q) - points, from + size, points * sizeof *phi);
}

/* Of many optima letting go leads to a better one than VI's q in any width does. */
bool fit_let_go(Fitter *f, NoiseSet noise, double *phi) {
  enum { ITERATIONS = 1000 };
  const double least = 0.003, step = 0.1, end = fmax(f->target.lambda, least);
  Target t = f->target;
  t.regularizer = REG_POSTERIOR;
  t.lambda = 1;
  if (!fit_looks_around(f) || target_wants(&t) & ~f->train->wants) return false;
  fit_at_centre(f, phi);
  for (; t.lambda * sqrt(step) > end; t.lambda *= step) {
    FitMark mark = fit_mark(f);
    Predictive *p = fit_objective_of(f, f->train, &t, &f->q, noise);
    fit_lbfgs(f, p, phi, ITERATIONS, 1e-9, "letting go");
    fit_release(f, mark);
  }
  return !fit_reproduces(f, phi);
}

static void add_let_go(Search *s) {
  NoiseSet noise = {predictive_lanes(s->p), fit_seed(s->f, SEED_EXPLORE)};
  double *phi = new_start(s, "Bayes, let go step by step");
  if (!fit_let_go(s->f, noise, phi)) s->n--;
}

static void list_starts(Search *s) {
  Fitter *f = s->f;
  bool own = s->q == &f->q;
  const double *given = own && f->o->start ? f->o->start(f->o->start_self, s->q) : NULL;
  add_widths(s);
  add_correlated(s);
  add_components(s);
  add_affine(s);
  add_let_go(s);
  if (given) memcpy(new_start(s, "given"), given, q_size(s->q) * sizeof *given);
}

/* ---- exploring them -------------------------------------------------------------------------- */

/* What the judge says of a start, as it is now. The best of all is kept. */
static void judge(Search *s, Start *start) {
  Fitter *f = s->f;
  PredictiveValue v;
  start->value = fit_evaluate(f, s->judge, start->phi, &v) ? v.value : -INFINITY;
  if (!(start->value > s->top)) return;
  s->top = start->value;
  memcpy(s->best, start->phi, q_size(s->q) * sizeof *s->best);
  if (s->q == &f->q) f->keep_phi = true;
}

/* A few iterations. */
static void advance(Search *s, Start *start, long iterations, double tolerance) {
  PredictiveValue v;
  if (!fit_evaluate(s->f, s->p, start->phi, &v)) return;
  start->ended = fit_lbfgs(s->f, s->p, start->phi, iterations, tolerance, start->name).converged;
  judge(s, start);
}

static void sort_starts(Search *s) {
  for (int k = 1; k < s->n; k++)
    for (int j = k; j > 0 && s->starts[j].value > s->starts[j - 1].value; j--) {
      Start t = s->starts[j];
      s->starts[j] = s->starts[j - 1];
      s->starts[j - 1] = t;
    }
}

/* A rich family needs many draws because it has many numbers with which to exploit them. Where they
 * are few after all (full rank of four parameters has 14), so may be the draws. */
static size_t draws_of_search(const Fitter *f, const Q *q) {
  enum { A_NUMBER = 16 };
  size_t M = fit_draws(f, 2 * EXPLORE_DRAWS), least = fit_draws(f, EXPLORE_DRAWS) / 2;
  if (!fit_is_rich(f)) return M / 2;
  while (M / 2 >= least && M / 2 >= A_NUMBER * q_size(q)) M /= 2;
  return M;
}

/* Few nodes, or few draws; scores with kinks are rounded. The judge is sharp. */
static Search search_make(Fitter *f, const Q *q, double *phi) {
  size_t M = draws_of_search(f, q);
  if (f->o->draws && f->o->draws < M) M = f->o->draws;
  Target rough = f->target;
  rough.nodes = exact_is_sampled(f->train) ? EXPLORE_NODES / 2 : EXPLORE_NODES;
  if (fit_kinked(f)) rough.score_options.smooth = 0.1 * fit_outcome_sd(f);
  NoiseSet explore = {M, fit_seed(f, SEED_EXPLORE)},
           common = {fit_draws(f, JUDGE_DRAWS), fit_seed(f, SEED_JUDGE)};
  Search s = {.f = f, .q = q, .best = phi, .top = -INFINITY};
  s.p = fit_objective_of(f, f->train, &rough, q, explore);
  s.judge = fit_objective_of(f, f->train, &f->target, q, common);
  return s;
}

/* What the starts came to, and a note where one ended in another optimum. */
static void report(const Search *s) {
  Fitter *f = s->f;
  for (int k = 0; k < s->n; k++) {
    FitStart row = {s->starts[k].name, s->starts[k].value};
    PUSH(&f->ctx->arena, f->fit->starts, f->fit->nstarts, f->fit->cap_starts, row);
  }
  for (int k = 1; k < s->n; k++) {
    const Start *other = &s->starts[k];
    if (!other->ended || !(s->top - other->value > 2 * fit_tolerated_gap(f))) continue;
    fit_note(f, arena_format(&f->ctx->arena,
                             "of %d starts the best came to %.7g, and another ended in an optimum "
                             "of %.7g: there is more than one",
                             s->n, s->top, other->value));
    return;
  }
}

/* Is the second of the sorted starts somewhere else than the best? Two of nearly the same value are
 * on their way to the same optimum, or it does not matter which it is; but rich families have many,
 * and which one it is shows only later. */
static bool has_rival(const Search *s) {
  if (s->n < 2) return false;
  const Start *second = &s->starts[1];
  return s->top - second->value > 0.5 * fit_tolerated_gap(s->f) ||
         (fit_is_rich(s->f) && second->climbing);
}

/* The second best goes on for as long as it may still come to the top: not where, at its pace of
 * the last iterations, it would take many times as many. */
static void pursue(Search *s, Start *rival, long most) {
  enum { TIMES = 5 };
  for (long done = 0; done < most && !rival->ended; done += FINAL_ITERATIONS) {
    double before = rival->value;
    advance(s, rival, FINAL_ITERATIONS, 1e-6);
    if (s->top - rival->value > TIMES * (rival->value - before)) return;
  }
}

/* The best q of all starts goes to phi; false: none is finite. */
static bool search(Fitter *f, const Q *q, double *phi) {
  FitMark mark = fit_mark(f);
  Search s = search_make(f, q, phi);
  list_starts(&s);
  for (int k = 0; k < s.n; k++) {
    judge(&s, &s.starts[k]);
    advance(&s, &s.starts[k], EXPLORE_ITERATIONS, 1e-5);
    s.starts[k].climbing = !s.starts[k].ended;
    s.starts[k].ended = false; /* by that tolerance it is not known */
  }
  sort_starts(&s);
  if (has_rival(&s)) {
    bool cheap = predictive_is_exact(s.p) && !exact_is_sampled(f->train);
    long most = cheap ? EXACT_ITERATIONS : FINAL_ITERATIONS;
    advance(&s, &s.starts[0], most, 1e-6);
    pursue(&s, &s.starts[1], most);
  }
  sort_starts(&s);
  if (q == &f->q) report(&s);
  fit_release(f, mark);
  return s.top > -INFINITY;
}

bool fit_explore(Fitter *f, double *phi) {
  bool found = search(f, &f->q, phi);
  f->keep_phi = false;
  return found;
}

void fit_prefer(Fitter *f, Predictive *p, double *phi, const double *other) {
  PredictiveValue a, b;
  bool fa = fit_evaluate(f, p, phi, &a), fb = fit_evaluate(f, p, other, &b);
  if (fb && (!fa || b.value > a.value)) memcpy(phi, other, q_size(&f->q) * sizeof *phi);
}
