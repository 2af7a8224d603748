/* cmdstan_summary.c: CmdStan's tools for files of draws: stansummary, the table of all variables,
 * and diagnose, what stands against the draws in words (cmdstan_run.h). */
#include "run/cmdstan_run.h"

#include "infer/ess.h"
#include "report/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The chains of one run: so many draws of each. */
typedef struct {
  Ctx *c;
  CmdstanTable **chain;
  size_t chains, cap, n;
  double *x; /* a column: chain after chain */
  EssWork *work;
} Chains;

static const char *value_of(const char *arg, const char *name) {
  size_t n = strlen(name);
  arg += strspn(arg, "-");
  return !strncmp(arg, name, n) && arg[n] == '=' ? arg + n + 1 : NULL;
}

/* All arguments that are no options are files. */
static Chains read_chains(Ctx *c, int argc, const char *const *argv) {
  Chains s = {.c = c};
  for (int k = 0; k < argc; k++)
    if (argv[k][0] != '-') PUSH(&c->arena, s.chain, s.chains, s.cap, cmdstan_table(c, argv[k]));
  if (!s.chains) ctx_fail(c, PVI_USAGE, NOWHERE, "no CSV file of draws was given");
  s.n = s.chain[0]->n - s.chain[0]->warm;
  for (size_t k = 1; k < s.chains; k++) {
    size_t n = s.chain[k]->n - s.chain[k]->warm;
    if (n < s.n) s.n = n;
    if (s.chain[k]->ncols != s.chain[0]->ncols)
      ctx_fail(c, PVI_DATA, NOWHERE, "'%s' and '%s' have different columns", s.chain[0]->path,
               s.chain[k]->path);
  }
  if (!s.n)
    ctx_fail(c, PVI_DATA, NOWHERE, "'%s' has no draws behind its warm-up", s.chain[0]->path);
  s.x = NEW_ARRAY(&c->arena, double, s.chains *s.n + 1);
  s.work = ess_work(&c->arena, s.chains, s.n);
  return s;
}

static void take_column(const Chains *s, size_t column) {
  for (size_t k = 0; k < s->chains; k++)
    for (size_t i = 0; i < s->n; i++) {
      const CmdstanTable *t = s->chain[k];
      s->x[k * s->n + i] = t->values[(t->warm + i) * t->ncols + column];
    }
}

static DrawsQuality quality_of(const Chains *s) {
  if (s->n >= 4) return ess_quality(s->work, s->x);
  return (DrawsQuality){NAN, NAN, NAN, NAN, NAN};
}

/* ---- stansummary ----------------------------------------------------------------------------- */

typedef struct {
  double levels[64];
  size_t nlevels;
  int digits;
  const char *csv;
} SummaryOptions;

static SummaryOptions read_summary_options(int argc, const char *const *argv) {
  SummaryOptions o = {.digits = 2};
  const char *value, *levels = "5,50,95";
  for (int k = 0; k < argc; k++) {
    if ((value = value_of(argv[k], "percentiles"))) levels = value;
    if ((value = value_of(argv[k], "sig_figs"))) o.digits = atoi(value);
    if ((value = value_of(argv[k], "csv_filename"))) o.csv = value;
  }
  for (char *end; *levels && o.nlevels < 64; levels = end + (*end == ',')) {
    o.levels[o.nlevels] = strtod(levels, &end);
    if (end == levels) break;
    o.nlevels++;
  }
  return o;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double quantile(const double *sorted, size_t n, double p) {
  double at = p * (double)(n - 1);
  size_t k = (size_t)at;
  return k + 1 < n ? sorted[k] + (at - (double)k) * (sorted[k + 1] - sorted[k]) : sorted[n - 1];
}

/* Mean, MCSE, StdDev, quantiles, N_Eff, N_Eff/s, R_hat of the column that was taken. */
static void summarise(const Chains *s, const SummaryOptions *o, double *row) {
  size_t n = s->chains * s->n, at = 0;
  double mean = 0, square = 0, seconds = 0;
  DrawsQuality q = quality_of(s);
  for (size_t i = 0; i < n; i++) mean += s->x[i] / (double)n;
  for (size_t i = 0; i < n; i++) square += (s->x[i] - mean) * (s->x[i] - mean);
  for (size_t k = 0; k < s->chains; k++) seconds += s->chain[k]->seconds;
  qsort(s->x, n, sizeof *s->x, by_size);
  row[at++] = mean;
  row[at++] = q.mcse;
  row[at++] = n > 1 ? sqrt(square / (double)(n - 1)) : 0;
  for (size_t k = 0; k < o->nlevels; k++) row[at++] = quantile(s->x, n, o->levels[k] / 100);
  row[at++] = q.ess_bulk;
  row[at++] = seconds > 0 ? q.ess_bulk / seconds : NAN;
  row[at++] = q.rhat;
}

/* The table: `nhead` headers, and n rows of a name and numbers behind it. */
typedef struct {
  const char **headers, **names;
  double *rows; /* [n x nhead] */
  size_t nhead, n;
} SummaryTable;

static void write_summary(Ctx *c, const SummaryOptions *o, const SummaryTable *t) {
  OutFile *f = file_begin(c, o->csv);
  file_digits(f, o->digits);
  file_puts(f, "name");
  for (size_t k = 1; k < t->nhead; k++)
    file_puts(f, arena_format(&c->arena, ",\"%s\"", t->headers[k]));
  for (size_t i = 0; i < t->n; i++) {
    file_puts(f, arena_format(&c->arena, "\n\"%s\"", t->names[i]));
    for (size_t k = 1; k < t->nhead; k++) {
      file_puts(f, ",");
      file_number(f, t->rows[i * t->nhead + k]);
    }
  }
  file_puts(f, "\n");
  file_commit(f);
}

static const char **summary_headers(Ctx *c, const SummaryOptions *o, size_t *n) {
  const char **headers = NEW_ARRAY(&c->arena, const char *, o->nlevels + 7);
  const char *const front[] = {"name", "Mean", "MCSE", "StdDev"}, *const back[] = {
                                                                      "N_Eff", "N_Eff/s", "R_hat"};
  memcpy(headers, front, sizeof front);
  for (size_t k = 0; k < o->nlevels; k++)
    headers[4 + k] = arena_format(&c->arena, "%g%%", o->levels[k]);
  memcpy(headers + 4 + o->nlevels, back, sizeof back);
  *n = o->nlevels + 7;
  return headers;
}

void stansummary_call(Ctx *c, const Console *out, int argc, const char *const *argv) {
  SummaryOptions o = read_summary_options(argc, argv);
  Chains s = read_chains(c, argc, argv);
  size_t nhead, ncols = s.chain[0]->ncols;
  const char **headers = summary_headers(c, &o, &nhead),
             **names = NEW_ARRAY(&c->arena, const char *, ncols + 1);
  double *rows = NEW_ARRAY(&c->arena, double, ncols *nhead + 1);
  Table *table = table_make(&c->arena, nhead, headers);
  for (size_t k = 0; k < ncols; k++) {
    names[k] = draws_pretty_name(&c->arena, s.chain[0]->names[k]);
    take_column(&s, k);
    summarise(&s, &o, rows + k * nhead + 1);
    table_word(table, names[k]);
    for (size_t j = 1; j < nhead; j++) table_number(table, rows[k * nhead + j], o.digits);
  }
  if (o.csv) {
    write_summary(c, &o, &(SummaryTable){headers, names, rows, nhead, ncols});
    return;
  }
  Text t = text_make(&c->arena);
  text_printf(&t, "Inference for Stan model: %s\n%zu chain%s, %zu draws each\n\n",
              s.chain[0]->model ? s.chain[0]->model : "unknown", s.chains, s.chains > 1 ? "s" : "",
              s.n);
  table_print(table, SIZE_MAX, &t);
  out->print(out->self, t.s);
}

/* ---- diagnose -------------------------------------------------------------------------------- */

/* How many draws of a column reach a value; SIZE_MAX: there is no such column. */
static size_t count_of(const Chains *s, const char *name, double least) {
  size_t column = cmdstan_column(s->chain[0], name), count = 0;
  if (column == s->chain[0]->ncols) return SIZE_MAX;
  take_column(s, column);
  for (size_t i = 0; i < s->chains * s->n; i++) count += s->x[i] >= least;
  return count;
}

static double least_bfmi(const Chains *s) {
  size_t column = cmdstan_column(s->chain[0], "energy__");
  double least = NAN;
  if (column == s->chain[0]->ncols) return least;
  take_column(s, column);
  for (size_t k = 0; k < s->chains; k++) least = fmin(least, ess_bfmi(s->x + k * s->n, s->n));
  return least;
}

/* How good draws are, by one number that is CmdStan's to name, and from where on they are bad. */
typedef struct {
  const char *name, *why;
  bool (*is_bad)(const DrawsQuality *q, size_t chains);
} Check;

static bool has_few(const DrawsQuality *q, size_t chains) {
  return q->ess_bulk < 10 * (double)chains;
}

static bool has_apart(const DrawsQuality *q, size_t chains) {
  (void)chains;
  return q->rhat > RHAT_MOST;
}

static const Check checks[] = {
    {"effective sample size", "has fewer than 10 draws a chain, too few to know a mean by",
     has_few},
    {"R-hat values", "are above 1.01: the chains have not come together; run them longer",
     has_apart}};

/* Variables that are bad, with a line each; how many. */
static size_t worst_variables(const Chains *s, const Check *check, Text *t) {
  size_t bad = 0;
  for (size_t k = 0; k < s->chain[0]->ncols; k++) {
    const char *name = s->chain[0]->names[k];
    size_t n = strlen(name);
    if (n > 2 && !strcmp(name + n - 2, "__")) continue;
    take_column(s, k);
    DrawsQuality q = quality_of(s);
    if (!check->is_bad(&q, s->chains)) continue;
    if (bad++ < 20)
      text_printf(t, "  %s: R-hat %.3f, %.0f effective draws\n",
                  draws_pretty_name(&s->c->arena, name), q.rhat, q.ess_bulk);
  }
  return bad;
}

static double percent(size_t k, size_t n) { return 100 * (double)k / (double)n; }

static void say_depth(Text *t, size_t deep, size_t total, double limit) {
  text_puts(t, "Checking sampler transitions treedepth.\n");
  if (deep)
    text_printf(
        t,
        "%zu of %zu (%.2f%%) transitions hit the maximum treedepth limit of %g, or 2^%g "
        "leapfrog steps.\nTrajectories that are prematurely terminated due to this limit "
        "will result in slow exploration.\nFor optimal performance, increase this limit.\nThe "
        "draws are right, but slow.\n\n",
        deep, total, percent(deep, total), limit, limit);
  else
    text_puts(t, "Treedepth satisfactory for all transitions.\n\n");
}

static void say_divergences(Text *t, size_t divergent, size_t total) {
  text_puts(t, "Checking sampler transitions for divergences.\n");
  if (divergent)
    text_printf(t,
                "%zu of %zu (%.2f%%) transitions ended with a divergence.\nMeans may be off: raise "
                "adapt delta towards 1, or write a hierarchy non-centred.\n\n",
                divergent, total, percent(divergent, total));
  else
    text_puts(t, "No divergent transitions found.\n\n");
}

static size_t say_check(const Chains *s, const Check *check, Text *t) {
  Text worst = text_make(&s->c->arena);
  size_t bad = worst_variables(s, check, &worst);
  text_printf(t, "Rank-normalized split %s %s%s\n%s\n", check->name,
              bad ? check->why : "satisfactory for all parameters.", bad ? ":" : "",
              worst.s ? worst.s : "");
  return bad;
}

void cmdstan_diagnose_call(Ctx *c, const Console *out, int argc, const char *const *argv) {
  Chains s = read_chains(c, argc, argv);
  Text t = text_make(&c->arena);
  size_t total = s.chains * s.n, deep = count_of(&s, "treedepth__", s.chain[0]->max_depth),
         divergent = count_of(&s, "divergent__", 1);
  double bfmi = least_bfmi(&s);
  if (deep != SIZE_MAX) say_depth(&t, deep, total, s.chain[0]->max_depth);
  if (divergent != SIZE_MAX) say_divergences(&t, divergent, total);
  if (isfinite(bfmi))
    text_printf(
        &t, "Checking E-BFMI - sampler transitions HMC potential energy.\nE-BFMI %s (%.2f).\n\n",
        bfmi < 0.3 ? "is below 0.3: heavy tails may not have been explored" : "satisfactory", bfmi);
  size_t bad = 0;
  for (size_t k = 0; k < sizeof checks / sizeof *checks; k++) bad += say_check(&s, &checks[k], &t);
  bool fine = !bad && !(bfmi < 0.3) && (divergent == 0 || divergent == SIZE_MAX);
  text_puts(&t, fine ? "Processing complete, no problems detected.\n" : "Processing complete.\n");
  out->print(out->self, t.s);
}
