/* report_bench.c: `pvi bench`: what one evaluation of the objective with its gradient costs. */
#include "run/reports.h"

#include "data/json.h"
#include "infer/timing.h"
#include "report/table.h"

#include <math.h>
#include <string.h>

/* What is timed, and what came of it. */
typedef struct {
  const char *score, *family;
  bool exact;
  long lanes; /* draws, or nodes */
  int threads;
  const Model *model;
  Timed timed;
  Timing timing;
  Stages stages;
} Bench;

static double all_of(const Stages *s) {
  return s->draws + s->globals + s->observations + s->score + s->adjoints;
}

/* Shares of the stages in the fastest of some evaluations of their own: reading the clock costs a
 * little. */
static Stages time_stages(Ctx *c, const Timed *t, long evaluations) {
  Stages s, best = {.draws = INFINITY};
  PredictiveValue v;
  predictive_time(&c->arena, t->p, &s);
  for (long k = 0; k < evaluations; k++) {
    s = (Stages){0};
    predictive_eval(t->p, t->phi, &v, t->grad);
    if (all_of(&s) < all_of(&best)) best = s;
  }
  predictive_time(&c->arena, t->p, NULL);
  double all = all_of(&best);
  return (Stages){best.draws / all, best.globals / all, best.observations / all, best.score / all,
                  best.adjoints / all};
}

/* Its own defaults, where nothing was given: by draws, 100 of them, mean-field. */
static TimingOptions timing_options(const Options *o) {
  return (TimingOptions){
      .target = {.score = (ScoreId)o->score,
                 .score_options = evaluate_score_options(o),
                 .regularizer = REG_PRIOR,
                 .lambda = 1,
                 .score_weight = 1,
                 .integrate = o->integrate == INTEGRATE_EXACT ? INTEGRATE_EXACT : INTEGRATE_DRAWS},
      .family = o->family < 0 ? FAMILY_meanfield : (FamilyId)o->family,
      .shape = {.components = (size_t)o->components,
                .rank = (size_t)o->rank,
                .knots = (size_t)o->knots,
                .layers = (size_t)o->layers,
                .hidden = (size_t)o->hidden},
      .draws = o->draws ? (size_t)o->draws : 100};
}

/* The objective to be timed, in a pool of one thread unless the user says otherwise. */
static Timed prepare(Ctx *c, const Model *m, const Options *o, const TimingOptions *t,
                     Pool **pool) {
  if (!m->n_obs)
    ctx_fail(c, PVI_DATA, NOWHERE, "there are no observations, so there is nothing to time");
  Split *split = o->split ? split_read(c, o->split, m->n_obs) : split_all(c, m->n_obs);
  *pool = pool_make(c, options_is_given(o, OPTION_threads) ? (int)o->threads : 1);
  return timing_make(c, m, split, t, *pool);
}

double bench_seconds(Ctx *c, const Model *m, const Options *o) {
  Pool *pool;
  TimingOptions t = timing_options(o);
  Timed timed = prepare(c, m, o, &t, &pool);
  double best = timing_of(&timed).best;
  pool_free(pool);
  return best;
}

static Bench time_it(Ctx *c, const Model *m, const Options *o) {
  Pool *pool;
  TimingOptions t = timing_options(o);
  Bench b = {.timed = prepare(c, m, o, &t, &pool),
             .score = score_title(&c->arena, t.target.score, &t.target.score_options),
             .family = family_name(t.family),
             .exact = t.target.integrate == INTEGRATE_EXACT,
             .model = m};
  b.threads = pool_threads(pool);
  b.lanes = (long)predictive_lanes(b.timed.p);
  b.timing = timing_of(&b.timed);
  b.stages = time_stages(c, &b.timed, b.timing.evaluations / 2 + 1);
  pool_free(pool);
  return b;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void json_stages(JsonWriter *j, const Stages *s) {
  json_key(j, "stages"), json_object(j);
  json_key(j, "draws"), json_number(j, s->draws);
  json_key(j, "globals"), json_number(j, s->globals);
  json_key(j, "observations"), json_number(j, s->observations);
  json_key(j, "score"), json_number(j, s->score);
  json_key(j, "adjoints"), json_number(j, s->adjoints);
  json_object_end(j);
}

/* The shape of the tape, and its instructions per observation. */
static void json_plan(Ctx *c, JsonWriter *j, const Work *w) {
  const Tape *t = vm_tape(w);
  VmShape shape = vm_shape(t);
  Text tiles = text_make(&c->arena);
  vm_print_tiles(&tiles, t);
  json_key(j, "plan"), json_object(j);
  json_key(j, "global_elements"), json_integer(j, (long long)shape.global_elements);
  json_key(j, "global_ops"), json_integer(j, (long long)shape.global_ops);
  json_key(j, "tile_elements"), json_integer(j, (long long)shape.tile_width);
  json_key(j, "tile_ops"), json_integer(j, (long long)shape.tile_ops);
  json_key(j, "tile_rows"), json_integer(j, (long long)vm_tile_rows(w));
  json_key(j, "chunks"), json_integer(j, (long long)vm_chunks(w));
  json_key(j, "tiles"), json_array(j);
  char *rest = NULL;
  for (char *line = tiles.s ? strtok_r(tiles.s, "\n", &rest) : NULL; line;
       line = strtok_r(NULL, "\n", &rest))
    json_string(j, line + strspn(line, " "));
  json_array_end(j);
  json_object_end(j);
}

static double ns_per_lane(const Bench *b) {
  return 1e9 * b->timing.best / ((double)b->timed.n * (double)b->lanes);
}

static void json_costs(const Bench *b, JsonWriter *j) {
  double lanes = (double)b->lanes, best = b->timing.best;
  VmCost cost = vm_cost(vm_tape(predictive_work(b->timed.p)));
  json_key(j, "ms"), json_number(j, 1e3 * best);
  json_key(j, "ms_median"), json_number(j, 1e3 * b->timing.median);
  json_key(j, "ns_per_observation_draw"), json_number(j, ns_per_lane(b));
  json_key(j, "us_per_draw"), json_number(j, 1e6 * best / lanes);
  json_key(j, "evaluations"), json_integer(j, b->timing.evaluations);
  json_key(j, "flops"), json_number(j, cost.flops * lanes);
  json_key(j, "bytes"), json_number(j, cost.bytes * lanes);
  json_key(j, "gflops_per_second"), json_number(j, 1e-9 * cost.flops * lanes / best);
}

static void json_form(Ctx *c, const Bench *b, Text *out) {
  JsonWriter j = json_writer(out, true);
  const Observed *o = b->timed.o;
  json_object(&j);
  json_key(&j, "score"), json_string(&j, b->score);
  json_key(&j, "family"), json_string(&j, b->family);
  json_key(&j, "integration"), json_string(&j, b->exact ? "exact" : "draws");
  json_key(&j, b->exact ? "nodes" : "draws"), json_integer(&j, b->lanes);
  json_key(&j, "prior"), json_string(&j, o->prior && q_is_normal(b->timed.q) ? "exact" : "draws");
  json_key(&j, "observations"), json_integer(&j, (long long)b->timed.n);
  json_key(&j, "dim"), json_integer(&j, (long long)b->model->dim);
  json_key(&j, "threads"), json_integer(&j, b->threads);
  json_key(&j, "isa"), json_string(&j, kernels_best()->name);
  json_costs(b, &j);
  json_stages(&j, &b->stages);
  json_plan(c, &j, predictive_work(b->timed.p));
  json_object_end(&j);
  text_puts(out, "\n");
}

/* ---- text ------------------------------------------------------------------------------------ */

static void text_form(Ctx *c, const Bench *b, size_t width, Text *out) {
  const Stages *s = &b->stages;
  const char *lines[] = {
      arena_format(&c->arena, "%s, %s, %ld %s, %zu observations, %zu parameters, %d thread%s, %s",
                   b->score, b->family, b->lanes, b->exact ? "nodes" : "draws", b->timed.n,
                   b->model->dim, b->threads, b->threads == 1 ? "" : "s", kernels_best()->name),
      arena_format(&c->arena,
                   "%.4f ms per value and gradient (median %.4f), %.3f ns per observation and draw",
                   1e3 * b->timing.best, 1e3 * b->timing.median, ns_per_lane(b)),
      arena_format(&c->arena,
                   "draws %.0f%%, globals %.0f%%, observations %.0f%%, score %.0f%%, adjoints "
                   "%.0f%%",
                   100 * s->draws, 100 * s->globals, 100 * s->observations, 100 * s->score,
                   100 * s->adjoints)};
  for (size_t k = 0; k < sizeof lines / sizeof *lines; k++) text_wrap(out, width, 2, lines[k]);
}

void report_bench(Ctx *c, const Model *m, const Options *o, Text *out) {
  Bench b = time_it(c, m, o);
  if (o->json)
    json_form(c, &b, out);
  else
    text_form(c, &b, report_width(o), out);
}
