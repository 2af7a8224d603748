/* picture.c: see picture.h: q over Bayes, as two intervals on one axis:
 *
 *   sigma
 *     Bayes           |=o=|
 *     q         |--------o-----------------|
 *               0.31                    2.40
 *
 * and the course of a fit as a sparkline.
 */
#include "report/picture.h"

#include "num/stats.h"
#include "report/report.h"
#include "report/table.h"

#include <math.h>
#include <string.h>

enum { MOST_PICTURES = 3, LABEL = 10, WIDEST = 60, NARROWEST = 16 };

#define NORMAL_95 1.6448536269514722

typedef struct {
  double low, middle, high;
} Interval;

static Interval of_q(const SummaryParameter *p) { return (Interval){p->q5, p->q50, p->q95}; }

/* Of Bayes mean and sd are known; its marginals are near normal more often than not. */
static Interval of_bayes(const SummaryParameter *p) {
  double reach = NORMAL_95 * p->bayes_sd;
  return (Interval){p->bayes_mean - reach, p->bayes_mean, p->bayes_mean + reach};
}

/* What is worth a picture: half as wide again, or as much shifted as a standard deviation. */
static bool is_worth_it(const SummaryParameter *p) {
  return fabs(log(p->sd / p->bayes_sd)) > log(1.5) || fabs(p->mean - p->bayes_mean) > p->bayes_sd;
}

/* The column of x, from 0 to columns - 1. */
static size_t column_of(double x, Interval axis, size_t columns) {
  double share = (x - axis.low) / (axis.high - axis.low);
  return (size_t)(fmin(fmax(share, 0), 1) * (double)(columns - 1) + 0.5);
}

static void put_interval(Text *out, const char *label, char body, Interval i, Interval axis,
                         size_t columns) {
  size_t low = column_of(i.low, axis, columns), high = column_of(i.high, axis, columns),
         middle = column_of(i.middle, axis, columns);
  text_printf(out, "  %-*s", LABEL - 2, label);
  for (size_t k = 0; k <= high; k++) {
    char at = k < low ? ' ' : k == middle ? 'o' : k == low || k == high ? '|' : body;
    text_add(out, &at, 1);
  }
  text_puts(out, "\n");
}

static void put_axis(Text *out, Interval axis, size_t columns) {
  char low[32], high[32];
  table_format(low, sizeof low, axis.low, 3);
  size_t end = table_format(high, sizeof high, axis.high, 3);
  text_printf(out, "%*s%-*s%s\n", LABEL, "", (int)(columns > end ? columns - end : 0), low, high);
}

static void put_parameter(Text *out, const SummaryParameter *p, size_t columns) {
  Interval q = of_q(p), bayes = of_bayes(p),
           axis = {fmin(q.low, bayes.low), 0, fmax(q.high, bayes.high)};
  text_printf(out, "%s\n", p->name);
  put_interval(out, "Bayes", '=', bayes, axis, columns);
  put_interval(out, "q", '-', q, axis, columns);
  put_axis(out, axis, columns);
}

void picture_moved(Text *out, const Summary *s, size_t width) {
  const SummaryParameter *best[MOST_PICTURES];
  size_t n = 0, columns = width < LABEL + NARROWEST ? NARROWEST : width - LABEL;
  if (columns > WIDEST) columns = WIDEST;
  for (size_t k = 0; k < s->nparameters; k++) {
    const SummaryParameter *p = &s->parameters[k];
    if (!is_worth_it(p)) continue;
    size_t at = n < MOST_PICTURES ? n++ : MOST_PICTURES;
    while (at > 0 && summary_moved(best[at - 1]) < summary_moved(p)) {
      if (at < MOST_PICTURES) best[at] = best[at - 1];
      at--;
    }
    if (at < MOST_PICTURES) best[at] = p;
  }
  if (n) text_puts(out, "\nwhat moved most: 5% to 95% under Bayes and under q\n");
  for (size_t k = 0; k < n; k++) put_parameter(out, best[k], columns);
}

/* ---- the course ------------------------------------------------------------------------------ */

/* Most of what is finite: the objective of a stage before may be another one, far below. */
static Interval main_range(Arena *a, const double *y, size_t n) {
  double *sorted = NEW_ARRAY(a, double, n + 1);
  size_t finite = 0;
  for (size_t k = 0; k < n; k++)
    if (isfinite(y[k])) sorted[finite++] = y[k];
  if (!finite) return (Interval){0, 0, 0};
  stat_sort(sorted, finite);
  return (Interval){sorted[finite / 10], 0, sorted[finite - 1]};
}

void picture_course(Text *out, const double *objective, size_t n, size_t width) {
  static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  enum { LEVELS = sizeof blocks / sizeof *blocks, FEWEST = 4 };
  size_t from = trace_last_run(out->arena, objective, n);
  const double *y = objective + from;
  size_t shown = n - from, columns = width < 2 + NARROWEST ? NARROWEST : width - 2;
  Interval range = main_range(out->arena, y, shown);
  if (shown < FEWEST || !(range.low < range.high)) return;
  if (columns > WIDEST) columns = WIDEST;
  if (columns > shown) columns = shown;
  text_puts(out, "\n");
  text_wrap(out, width, 2,
            arena_format(out->arena, "objective of the last %zu iterations, up to %.6g:", shown,
                         range.high));
  text_puts(out, "  ");
  for (size_t k = 0; k < columns; k++) { /* the last iteration of each stretch */
    double x = y[(k + 1) * shown / columns - 1];
    text_puts(out, isfinite(x) ? blocks[column_of(x, range, LEVELS)] : " ");
  }
  text_puts(out, "\n");
}
