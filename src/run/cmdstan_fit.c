/* cmdstan_fit.c: method=variational and method=pathfinder: VI as pvi fits it (cmdstan_run.h).
 *
 * Pathfinder's place is taken by VI's q in the family that suits the number of parameters; its
 * draws are importance resampled with Pareto smoothed weights, as Pathfinder's are.
 */
#include "run/cmdstan_run.h"

#include "infer/psis.h"
#include "num/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STREAM = 10 };

/* The options of a VI fit, as `pvi fit --score elbo` would have them. */
static Options *options_of(const CmdstanCall *k, size_t draws) {
  Ctx *c = k->c;
  Options *o = options_make(&c->arena);
  options_set(c, o, "score", "elbo");
  options_set(c, o, "seed", k->args->value[ARG_seed]);
  options_set(c, o, "save", "all");
  options_set(c, o, "save-draws", arena_format(&c->arena, "%zu", draws ? draws : 1));
  options_set(c, o, "threads", arena_format(&c->arena, "%d", pool_threads(k->pool)));
  options_set(c, o, "init", cmdstan_init(k, (size_t)cmdstan_whole(k->args, ARG_id)));
  return o;
}

static void warn(const CmdstanCall *k, const Run *r) {
  if (!r->fit->converged)
    console_say(k->out, k->c,
                "Informational Message: The algorithm may not have converged.\n(%s)\n",
                r->summary->reason);
}

/* diagnostic_file: how the ELBO rose. Here it is known where it ended. */
static void write_course(const CmdstanCall *k, const Run *r) {
  const char *path = k->args->value[ARG_diagnostic_file];
  if (!*path) return;
  OutFile *f = file_begin(k->c, path);
  file_puts(f, arena_format(&k->c->arena, "iter,time_in_seconds,ELBO\n%ld,%g,%.10g\n",
                            r->summary->evaluations, r->summary->seconds, r->summary->objective));
  file_commit(f);
}

bool cmdstan_variational(CmdstanCall *k) {
  const CmdstanArgs *a = k->args;
  size_t n = (size_t)cmdstan_whole(a, ARG_output_samples);
  Options *o = options_of(k, n);
  options_set(k->c, o, "family", a->value[ARG_vi_algorithm]);
  if (!cmdstan_is(a, ARG_vi_iter, "10000"))
    options_set(k->c, o, "iterations", a->value[ARG_vi_iter]);
  console_say(k->out, k->c,
              "EXPERIMENTAL ALGORITHM:\n  a normal distribution in the place of the posterior, by "
              "pvi's VI; do not trust its sds before you have compared them with method=sample\n");
  const Run *r = run_fit(k->c, k->problem, o, NULL, &k->hooks);
  warn(k, r);
  Draws d = *r->draws;
  d.ndraws = n;
  CmdstanVariational v = {.algorithm = a->value[ARG_vi_algorithm]};
  console_say(k->out, k->c,
              "Drawing a sample of size %zu from the approximate posterior... \nCOMPLETED.\n", n);
  cmdstan_write_variational(k->dir, k->base, &d, &k->run, &v);
  write_course(k, r);
  return !r->fit->interrupted;
}

/* ---- pathfinder ------------------------------------------------------------------------------ */

static bool is_resampled(const CmdstanCall *k) {
  return cmdstan_flag(k->args, ARG_psis_resample) && cmdstan_flag(k->args, ARG_calculate_lp);
}

/* n of the draws, by their smoothed weights p / q; as they are where they are not to be resampled.
 */
static size_t *choose(const CmdstanCall *k, const Draws *d, size_t n) {
  Arena *a = &k->c->arena;
  size_t *from = NEW_ARRAY(a, size_t, n + 1), m = d->ndraws, at = 0;
  for (size_t i = 0; i < n; i++) from[i] = i % m;
  if (!is_resampled(k)) return from;
  double *w = NEW_ARRAY(a, double, m);
  for (size_t i = 0; i < m; i++) w[i] = d->log_p[i] - d->log_g[i];
  double shape = psis_smooth(psis_work(a, m), w), sum = exp(w[0]);
  if (shape > PSIS_GOOD)
    console_say(k->out, k->c,
                "Pareto k value (%.2g) is greater than 0.7. Importance resampling was not able to "
                "improve the approximation, which may indicate that the approximation itself is "
                "poor.\n",
                shape);
  Rng key = rng_make(k->seed, STREAM);
  for (size_t i = 0; i < n; i++) {
    double u = ((double)i + rng_uniform(key, i, 0)) / (double)n;
    while (at + 1 < m && sum < u) sum += exp(w[++at]);
    from[i] = at;
  }
  return from;
}

typedef struct {
  const CmdstanCall *k;
  size_t id;
} Path;

static void try_start(Ctx *c, void *self) {
  const Path *p = self;
  cmdstan_start(p->k, p->id, NEW_ARRAY(&c->arena, double, p->k->model->dim + 1));
}

/* A start that cannot be is told, as of a path that fails; the first one is the fit's own. CmdStan
 * calls a value outside of its bounds so. */
static void check_starts(const CmdstanCall *k, size_t paths) {
  size_t first = (size_t)cmdstan_whole(k->args, ARG_id);
  for (size_t p = 1; p < paths; p++) {
    Message why;
    if (ctx_try(k->c, try_start, &(Path){k, first + p}, &why)) continue;
    const char *is = strstr(why.text, " is "), *must = is ? strstr(is, ", but must be ") : NULL;
    console_say(k->out, k->c, "Path [%zu] :Exception: %s%.*s%s%s\n", first + p,
                must ? "Bounded variable" : "", must ? (int)(must - is) : 0, must ? is : "",
                must ? ": " : "", why.text);
  }
}

/* Without calculate_lp CmdStan knows the density of the draws that a path's ELBO was made of. */
static bool knows_lp(const CmdstanCall *k, size_t i) {
  return cmdstan_flag(k->args, ARG_calculate_lp) ||
         i % (size_t)cmdstan_whole(k->args, ARG_num_draws) <
             (size_t)cmdstan_whole(k->args, ARG_num_elbo_draws);
}

/* A file for each path, where they are asked for: its share of the draws before any are chosen. Of
 * a course, which CmdStan has in JSON, there is nothing to tell. */
static void write_paths(const CmdstanCall *k, const Draws *all, size_t paths, size_t each) {
  for (size_t p = 0; p < paths; p++) {
    const char *base = arena_format(&k->c->arena, "%s_path_%zu", k->base, p + 1);
    const DrawsColumn columns[] = {{"lp_approx__", all->log_g + p * each},
                                   {"lp__", all->log_p + p * each}};
    Draws d = {.ndraws = each,
               .ncols = all->ncols,
               .names = all->names,
               .values = all->values + p * each * all->ncols,
               .columns = columns,
               .ncolumns = 2};
    cmdstan_write_table(k->dir, base, &k->run, &d);
    Text course = text_make(&k->c->arena);
    text_puts(&course, "{}\n");
    run_write(k->dir, arena_format(&k->c->arena, "%s.json", base), &course);
  }
}

bool cmdstan_pathfinder(CmdstanCall *k) {
  const CmdstanArgs *a = k->args;
  size_t paths = (size_t)cmdstan_whole(a, ARG_num_paths),
         each = (size_t)cmdstan_whole(a, ARG_num_draws), n = paths * each;
  if (paths > 1 && is_resampled(k)) n = (size_t)cmdstan_whole(a, ARG_num_psis_draws);
  Options *o = options_of(k, n > paths * each ? n : paths * each);
  check_starts(k, paths);
  const Run *r = run_fit(k->c, k->problem, o, NULL, &k->hooks);
  warn(k, r);
  const Draws *all = r->draws;
  const size_t *from = choose(k, all, n);
  double *values = NEW_ARRAY(&k->c->arena, double, n * all->ncols + 1),
         *log_p = NEW_ARRAY(&k->c->arena, double, n + 1),
         *log_q = NEW_ARRAY(&k->c->arena, double, n + 1);
  for (size_t i = 0; i < n; i++) {
    memcpy(values + i * all->ncols, all->values + from[i] * all->ncols,
           all->ncols * sizeof *values);
    log_p[i] = knows_lp(k, i) ? all->log_p[from[i]] : NAN;
    log_q[i] = all->log_g[from[i]];
  }
  const DrawsColumn columns[] = {{"lp_approx__", log_q}, {"lp__", log_p}};
  Draws d = {.ndraws = n,
             .ncols = all->ncols,
             .names = all->names,
             .values = values,
             .columns = columns,
             .ncolumns = 2};
  cmdstan_write_table(k->dir, k->base, &k->run, &d);
  if (paths > 1 && cmdstan_flag(a, ARG_save_single_paths)) write_paths(k, all, paths, each);
  console_say(k->out, k->c, "Total log probability function evaluations:%ld\n",
              r->summary->evaluations);
  return !r->fit->interrupted;
}
