/* bench.c: pvi bench: what one evaluation of the objective with its gradient costs. */
#include "cli/cli.h"

#include "infer/timing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const Command command = {
    "bench", "MODEL DATA [options]",
    "Times value and gradient of the objective at the origin (q with standard deviations 0.1): "
    "best of several runs.",
    "  pvi bench examples/golf/logistic.stan examples/golf/golf.csv --score log --draws 100\n"
    "  pvi bench model.stan data.json --score elbo --family meanfield --draws 128 --threads 1 "
    "--json\n"};

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
  for (char *line = strtok(tiles.s, "\n"); line; line = strtok(NULL, "\n"))
    json_string(j, line + strspn(line, " "));
  json_array_end(j);
  json_object_end(j);
}

Status cmd_bench(Ctx *c, int argc, char **argv) {
  const char *place[2], *split_file = NULL, *score_text = "log", *family_text = "meanfield";
  long draws = 100, threads = 1;
  bool json = false;
  int integrate = 0;
  OptionList sets = {.count = 0}, observe = {.count = 0};
  const Option options[] = {
      {"score", OPT_TEXT, "NAME", &score_text, 0, "default log"},
      {"family", OPT_TEXT, "NAME", &family_text, 0, "default meanfield"},
      {"draws", OPT_INT, "M", &draws, 1, "default 100"},
      {"integrate", OPT_CHOICE, "draws|exact", &integrate, 0,
       "by draws (default), or by quadrature over the predictors"},
      {"threads", OPT_INT, "N", &threads, 0, "default 1; 0: one per core"},
      {"split", OPT_TEXT, "FILE", &split_file, 0, "only its train part"},
      {"observe", OPT_LIST, "LINE", &observe, 0,
       "what this line adds to the log density are observations; may be repeated"},
      {"set", OPT_LIST, "NAME=VALUE", &sets, 0, "a data variable given here; may be repeated"},
      {"json", OPT_FLAG, NULL, &json, 0, "machine-readable output"},
  };
  if (!cli_options(c, &command, options, sizeof options / sizeof *options, argc, argv, place, 1, 2))
    return PVI_OK;
  Target target = {
      .regularizer = REG_PRIOR, .lambda = 1, .score_weight = 1, .score_options = {.alpha = 0.1}};
  FamilyId family;
  if (!score_find(score_text, &target.score))
    ctx_fail(c, PVI_USAGE, NOWHERE, "unknown score %s", score_text);
  if (!family_find(family_text, &family))
    ctx_fail(c, PVI_USAGE, NOWHERE, "unknown family %s", family_text);
  const Program *program = cli_program(c, place[0], NULL);
  Data *data = cli_data(c, place[1], &sets);
  const Model *model = cli_model(c, program, data, (ModelOptions){.nobserve = 0}, &observe);
  Split *split = split_file ? split_read(c, split_file, model->n_obs) : split_all(c, model->n_obs);
  Pool *pool = pool_make(c, (int)threads);
  target.integrate = integrate ? INTEGRATE_EXACT : INTEGRATE_DRAWS;
  Timed timed = timing_make(c, model, split, &target, family, (Shape){0}, (size_t)draws, pool);
  const Observed *o = timed.o;
  draws = (long)predictive_lanes(timed.p);
  Timing t = timing_of(&timed);
  Stages stages = time_stages(c, &timed, t.evaluations / 2 + 1);
  int used = pool_threads(pool);
  pool_free(pool);
  double ns = 1e9 * t.best / ((double)o->n * (double)draws);
  VmCost cost = vm_cost(vm_tape(predictive_work(timed.p)));
  if (json) {
    Text out = text_make(&c->arena);
    JsonWriter j = json_writer(&out, true);
    json_object(&j);
    json_key(&j, "score"), json_string(&j, score_text);
    json_key(&j, "family"), json_string(&j, family_text);
    json_key(&j, "integration"), json_string(&j, integrate ? "exact" : "draws");
    json_key(&j, integrate ? "nodes" : "draws"), json_integer(&j, draws);
    json_key(&j, "prior"), json_string(&j, o->prior && q_is_normal(timed.q) ? "exact" : "draws");
    json_key(&j, "observations"), json_integer(&j, (long long)o->n);
    json_key(&j, "dim"), json_integer(&j, (long long)model->dim);
    json_key(&j, "threads"), json_integer(&j, used);
    json_key(&j, "isa"), json_string(&j, kernels_best()->name);
    json_key(&j, "ms"), json_number(&j, 1e3 * t.best);
    json_key(&j, "ms_median"), json_number(&j, 1e3 * t.median);
    json_key(&j, "ns_per_observation_draw"), json_number(&j, ns);
    json_key(&j, "us_per_draw"), json_number(&j, 1e6 * t.best / (double)draws);
    json_key(&j, "evaluations"), json_integer(&j, t.evaluations);
    json_key(&j, "flops"), json_number(&j, cost.flops * (double)draws);
    json_key(&j, "bytes"), json_number(&j, cost.bytes * (double)draws);
    json_key(&j, "gflops_per_second"), json_number(&j, 1e-9 * cost.flops * (double)draws / t.best);
    json_stages(&j, &stages);
    json_plan(c, &j, predictive_work(timed.p));
    json_object_end(&j);
    puts(out.s);
  } else {
    printf("%s, %s, %ld %s, %zu observations, %zu parameters, %d thread%s, %s\n", score_text,
           family_text, draws, integrate ? "nodes" : "draws", o->n, model->dim, used,
           used == 1 ? "" : "s", kernels_best()->name);
    printf("%.4f ms per value and gradient (median %.4f), %.3f ns per observation and draw\n",
           1e3 * t.best, 1e3 * t.median, ns);
    printf("draws %.0f%%, globals %.0f%%, observations %.0f%%, score %.0f%%, adjoints %.0f%%\n",
           100 * stages.draws, 100 * stages.globals, 100 * stages.observations, 100 * stages.score,
           100 * stages.adjoints);
  }
  return PVI_OK;
}
