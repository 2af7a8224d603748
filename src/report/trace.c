/* trace.c: the small tables of a run: trace.csv, a row an iteration, and scores.csv, a row an
 * observation. */
#include "data/data.h"
#include "num/stats.h"
#include "report/report.h"

#include <math.h>
#include <string.h>

static void put_row(OutFile *f, const FitTrace *r, bool validation) {
  const double columns[] = {r->seconds,       r->objective, r->score,     r->regularizer,
                            r->gradient_norm, r->step,      r->validation};
  size_t n = sizeof columns / sizeof *columns - !validation;
  file_integer(f, r->iteration);
  for (size_t k = 0; k < n; k++) {
    file_puts(f, ",");
    file_number(f, columns[k]);
  }
  file_puts(f, "\n");
}

void trace_write(RunDir *r, const FitTrace *rows, size_t n) {
  OutFile *f = file_begin(r->c, run_path(r, "trace.csv"));
  bool validation = false;
  for (size_t k = 0; k < n; k++) validation |= !isnan(rows[k].validation);
  file_puts(f, "iteration,seconds,objective,score,regularizer,gradient_norm,step");
  file_puts(f, validation ? ",validation\n" : "\n");
  for (size_t k = 0; k < n; k++) put_row(f, &rows[k], validation);
  file_commit(f);
}

/* How much the objective changes from one iteration to the next near the end: the median. */
static double usual_change(Arena *a, const double *y, size_t n) {
  size_t from = 1 + 3 * (n - 1) / 4, count = 0;
  double *changes = NEW_ARRAY(a, double, n + 1);
  for (size_t k = from; k < n; k++)
    if (isfinite(y[k]) && isfinite(y[k - 1])) changes[count++] = fabs(y[k] - y[k - 1]);
  if (!count) return 0;
  stat_sort(changes, count);
  return changes[count / 2];
}

/* An optimizer rises, or wavers by as much as the noise of its draws; where the objective falls by
 * far more, another run of it began. */
size_t trace_last_run(Arena *a, const double *objective, size_t n) {
  double noise = 10 * usual_change(a, objective, n);
  for (size_t k = n; k-- > 1;)
    if (objective[k] < objective[k - 1] - noise - 1e-9 * fabs(objective[k])) return k;
  return 0;
}

/* A field as CSV wants it: quoted when it has a comma, a quote or a line end. */
static void put_field(OutFile *f, const char *s) {
  if (!strpbrk(s, ",\"\r\n")) {
    file_puts(f, s);
    return;
  }
  file_puts(f, "\"");
  for (; *s; s++) {
    if (*s == '"') file_puts(f, "\"");
    file_put(f, s, 1);
  }
  file_puts(f, "\"");
}

static const char *part_name(const ScoreTable *t, size_t i) {
  int part = t->part ? t->part[i] : PART_TRAIN;
  return part < 0 || part >= PART_COUNT ? "none" : part_names[part];
}

static void put_score_row(OutFile *f, const ScoreTable *t, size_t i) {
  const ScoreSite *site = &t->sites[t->site ? t->site[i] : 0];
  file_integer(f, (long long)i + 1);
  file_puts(f, ",");
  put_field(f, site->name);
  file_puts(f, ",");
  file_integer(f, site->line);
  file_puts(f, ",");
  file_puts(f, part_name(t, i));
  for (size_t k = 0; k < t->nscores; k++) {
    file_puts(f, ",");
    file_number(f, t->values[i * t->nscores + k]);
  }
  file_puts(f, "\n");
}

void scores_write(RunDir *r, const ScoreTable *t) {
  OutFile *f = file_begin(r->c, run_path(r, "scores.csv"));
  file_puts(f, "observation,site,line,part");
  for (size_t k = 0; k < t->nscores; k++) {
    file_puts(f, ",");
    put_field(f, t->names[k]);
  }
  file_puts(f, "\n");
  for (size_t i = 0; i < t->n; i++) put_score_row(f, t, i);
  file_commit(f);
}
