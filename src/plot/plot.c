/* plot.c: see plot.h. Marks are kept until the ranges are known; then axes first, marks above them.
 */
#include "plot/plot.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 480, HEIGHT = 300, LEFT = 60, RIGHT = 14, TOP = 26, BOTTOM = 46 };
enum { MANY = 300 }; /* dots: so many are smaller, and let each other through */

#define LETTER 6.3 /* the width of one, about */

typedef enum {
  MARK_LINE,
  MARK_STEPS,
  MARK_DOTS,
  MARK_BAND,
  MARK_WHISKERS,
  MARK_SPANS,
  MARK_BARS
} MarkKind;

typedef struct {
  MarkKind kind;
  PlotStyle style;
  const double *x, *y, *high; /* high: of bands and whiskers, and of spans, along x */
  size_t n;
  double width; /* of bars */
} Mark;

typedef struct {
  double low, high;
  bool set, log;     /* log: low and high are decimal logarithms once the range is usable */
  double start, end; /* where these are in the figure */
} Range;

typedef struct {
  PlotStyle style;
  const char *text;
} Label;

struct Plot {
  Arena *arena;
  PlotText text;
  Range x, y;
  Mark *marks;
  size_t nmarks, cap_marks;
  Label *labels;
  size_t nlabels, cap_labels;
  const char *const *names, *const *rows; /* of positions on the x axis, and on the y axis */
  size_t nnames, nrows;
};

static const char *const classes[PLOT_STYLES] = {"first", "second", "quiet", "band"};

Plot *plot_make(Arena *a, const PlotText *text) {
  Plot *p = NEW(a, Plot);
  *p = (Plot){.arena = a, .text = *text};
  p->x = p->y = (Range){.low = INFINITY, .high = -INFINITY};
  return p;
}

void plot_x_range(Plot *p, double low, double high) {
  p->x = (Range){.low = low, .high = high, .set = true};
}
void plot_y_range(Plot *p, double low, double high) {
  p->y = (Range){.low = low, .high = high, .set = true};
}

void plot_x_log(Plot *p) { p->x.log = true; }

void plot_x_names(Plot *p, const char *const *names, size_t n) {
  p->names = names;
  p->nnames = n;
  plot_x_range(p, -0.5, (double)n - 0.5);
}

void plot_y_names(Plot *p, const char *const *names, size_t n) {
  p->rows = names;
  p->nrows = n;
  plot_y_range(p, (double)n - 0.5, -0.5); /* the first is at the top */
}

/* ---- marks ----------------------------------------------------------------------------------- */

static void reach(Range *r, double v) {
  if (r->set || !isfinite(v)) return;
  r->low = fmin(r->low, v);
  r->high = fmax(r->high, v);
}

static double *copy(Plot *p, const double *v, size_t n) {
  double *to = NEW_ARRAY(p->arena, double, n + 1);
  if (n) memcpy(to, v, n * sizeof *v);
  return to;
}

static void add(Plot *p, Mark m) {
  m.x = copy(p, m.x, m.n);
  m.y = copy(p, m.y, m.n);
  if (m.high) m.high = copy(p, m.high, m.n);
  for (size_t k = 0; k < m.n; k++) {
    reach(&p->x, m.x[k] - m.width / 2), reach(&p->x, m.x[k] + m.width / 2);
    reach(&p->y, m.y[k]);
    if (m.high) reach(m.kind == MARK_SPANS ? &p->x : &p->y, m.high[k]);
    if (m.kind == MARK_BARS) reach(&p->y, 0);
  }
  PUSH(p->arena, p->marks, p->nmarks, p->cap_marks, m);
}

void plot_line(Plot *p, PlotStyle s, const PlotPoints *d) {
  add(p, (Mark){MARK_LINE, s, d->x, d->y, NULL, d->n, 0});
}
void plot_steps(Plot *p, PlotStyle s, const PlotPoints *d) {
  add(p, (Mark){MARK_STEPS, s, d->x, d->y, NULL, d->n, 0});
}
void plot_dots(Plot *p, PlotStyle s, const PlotPoints *d) {
  add(p, (Mark){MARK_DOTS, s, d->x, d->y, NULL, d->n, 0});
}
void plot_band(Plot *p, PlotStyle s, const double *x, const double *low, const double *high,
               size_t n) {
  add(p, (Mark){MARK_BAND, s, x, low, high, n, 0});
}
void plot_whiskers(Plot *p, PlotStyle s, const double *x, const double *low, const double *high,
                   size_t n) {
  add(p, (Mark){MARK_WHISKERS, s, x, low, high, n, 0});
}
void plot_spans(Plot *p, PlotStyle s, const double *y, const double *low, const double *high,
                size_t n) {
  add(p, (Mark){MARK_SPANS, s, low, y, high, n, 0});
}
void plot_bars(Plot *p, PlotStyle s, const PlotPoints *d, double width) {
  add(p, (Mark){MARK_BARS, s, d->x, d->y, NULL, d->n, width});
}
void plot_label(Plot *p, PlotStyle s, const char *label) {
  Label l = {s, label};
  PUSH(p->arena, p->labels, p->nlabels, p->cap_labels, l);
}

/* ---- scales ---------------------------------------------------------------------------------- */

/* A range that can be drawn: finite, and not a point. */
static Range usable(Range r, double margin) {
  if (!r.set && !(r.low <= r.high)) r.low = r.log ? 1 : 0, r.high = 1;
  if (r.log) r.low = log10(r.low), r.high = log10(r.high);
  double size = fabs(r.high - r.low);
  if (!(size > 0)) size = fabs(r.low) > 0 ? fabs(r.low) : 1;
  if (!r.set || r.low == r.high) r.low -= margin * size, r.high += margin * size;
  return r;
}

/* Many rows need more height. */
static double height_of(const Plot *p) {
  return fmax(p->rows ? TOP + BOTTOM : HEIGHT, TOP + BOTTOM + 20.0 * (double)p->nrows);
}

static double x_of(Range r, double v) {
  double at = r.log ? log10(v) : v;
  return r.start + (at - r.low) / (r.high - r.low) * (r.end - r.start);
}
static double y_of(Range r, double v) { return x_of(r, v); }

/* The distance of ticks: 1, 2 or 5 times a power of ten, about five of them. */
static double tick_step(Range r) {
  double rough = (r.high - r.low) / 5, power = pow(10, floor(log10(rough))), digit = rough / power;
  return power * (digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10);
}

static const char *tick_text(const Plot *p, double v, double step) {
  return arena_format(p->arena, "%.6g", fabs(v) < 1e-9 * step ? 0 : v);
}

/* What stands left of the y axis needs room: names of rows, or numbers and the axis' own name. */
static double left_of(const Plot *p, Range y) {
  size_t longest = 0;
  for (size_t k = 0; k < p->nrows; k++)
    if (strlen(p->rows[k]) > longest) longest = strlen(p->rows[k]);
  if (p->rows) return fmin(fmax(LEFT, 14 + LETTER * (double)longest), WIDTH / 2.0);
  double step = tick_step(y);
  for (double v = ceil(y.low / step) * step; v <= y.high + 1e-9 * step; v += step) {
    size_t n = strlen(tick_text(p, v, step));
    if (n > longest) longest = n;
  }
  return fmax(LEFT, 26 + LETTER * (double)longest);
}

/* ---- printing -------------------------------------------------------------------------------- */

void plot_escape(Text *out, const char *text) {
  for (; *text; text++)
    if (*text == '<')
      text_puts(out, "&lt;");
    else if (*text == '>')
      text_puts(out, "&gt;");
    else if (*text == '&')
      text_puts(out, "&amp;");
    else if (*text == '"')
      text_puts(out, "&quot;");
    else
      text_add(out, text, 1);
}

static void put_text(Text *out, double x, double y, const char *class, const char *text) {
  text_printf(out, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\">", x, y, class);
  plot_escape(out, text);
  text_puts(out, "</text>\n");
}

/* Where names would run into each other, every second one stands lower. */
static void put_names(const Plot *p, Range r, double bottom, Text *out) {
  size_t longest = 0;
  for (size_t k = 0; k < p->nnames; k++)
    if (strlen(p->names[k]) > longest) longest = strlen(p->names[k]);
  bool crowded = LETTER * (double)(longest + 1) > x_of(r, 1) - x_of(r, 0);
  for (size_t k = 0; k < p->nnames; k++)
    put_text(out, x_of(r, (double)k), bottom + (crowded ? 13 + 11 * (double)(k % 2) : 16),
             "tick mid", p->names[k]);
}

static void put_x_tick(const Plot *p, Range r, double v, double step, Text *out) {
  double bottom = height_of(p) - BOTTOM;
  text_printf(out, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" class=\"grid\"/>\n",
              x_of(r, v), x_of(r, v), (double)TOP, bottom);
  put_text(out, x_of(r, v), bottom + 16, "tick mid", tick_text(p, v, step));
}

/* Powers of ten and, where there are few of these, two and five times them. */
static void put_log_ticks(const Plot *p, Range r, Text *out) {
  const double digits[] = {1, 2, 5};
  int each = r.high - r.low < 2.5 ? 3 : 1;
  for (double power = floor(r.low); power <= r.high; power++)
    for (int k = 0; k < each; k++) {
      double v = digits[k] * pow(10, power);
      if (log10(v) >= r.low && log10(v) <= r.high) put_x_tick(p, r, v, v, out);
    }
}

static void put_x_ticks(const Plot *p, Range r, Text *out) {
  double step = tick_step(r);
  if (p->names) {
    put_names(p, r, height_of(p) - BOTTOM, out);
    return;
  }
  if (r.log) {
    put_log_ticks(p, r, out);
    return;
  }
  for (double v = ceil(r.low / step) * step; v <= r.high + 1e-9 * step; v += step)
    put_x_tick(p, r, v, step, out);
}

/* Names of rows, those that are too long cut at their end. */
static void put_row_names(const Plot *p, Range r, double left, Text *out) {
  size_t most = (size_t)((left - 14) / LETTER) + 1;
  for (size_t k = 0; k < p->nrows; k++) {
    bool whole = strlen(p->rows[k]) <= most;
    put_text(out, left - 6, y_of(r, (double)k) + 4, "tick end",
             whole ? p->rows[k]
                   : arena_format(p->arena, "%.*s...", (int)(most > 3 ? most - 3 : 1), p->rows[k]));
  }
}

static void put_y_ticks(const Plot *p, Range r, double left, Text *out) {
  if (p->rows) {
    put_row_names(p, r, left, out);
    return;
  }
  double step = tick_step(r);
  for (double v = ceil(r.low / step) * step; v <= r.high + 1e-9 * step; v += step) {
    text_printf(out, "<line x1=\"%.1f\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" class=\"grid\"/>\n", left,
                WIDTH - RIGHT, y_of(r, v), y_of(r, v));
    put_text(out, left - 6, y_of(r, v) + 4, "tick end", tick_text(p, v, step));
  }
}

static void put_axes(const Plot *p, Range x, Range y, Text *out) {
  double bottom = height_of(p) - BOTTOM;
  put_x_ticks(p, x, out);
  put_y_ticks(p, y, x.start, out);
  text_printf(out, "<path d=\"M%.1f %d V%.1f H%d\" class=\"axis\"/>\n", x.start, TOP, bottom,
              WIDTH - RIGHT);
  put_text(out, (x.start + WIDTH - RIGHT) / 2, bottom + BOTTOM - 8, "name mid", p->text.x);
  if (p->rows) return; /* names say what they are */
  text_printf(out, "<text transform=\"translate(13 %.1f) rotate(-90)\" class=\"name mid\">",
              (TOP + bottom) / 2);
  plot_escape(out, p->text.y);
  text_puts(out, "</text>\n");
}

static void put_path(const Mark *m, Range x, Range y, Text *out) {
  bool pen = false;
  text_puts(out, "<path d=\"");
  for (size_t k = 0; k < m->n; k++) {
    if (!isfinite(m->x[k]) || !isfinite(m->y[k])) {
      pen = false;
      continue;
    }
    double px = x_of(x, m->x[k]), py = y_of(y, m->y[k]);
    if (pen && m->kind == MARK_STEPS)
      text_printf(out, "H%.1fV%.1f", px, py);
    else
      text_printf(out, "%c%.1f %.1f", pen ? 'L' : 'M', px, py);
    pen = true;
  }
  text_printf(out, "\" class=\"line %s\"/>\n", classes[m->style]);
}

static void put_band(const Mark *m, Range x, Range y, Text *out) {
  text_puts(out, "<path d=\"");
  for (size_t k = 0; k < m->n; k++)
    text_printf(out, "%c%.1f %.1f", k ? 'L' : 'M', x_of(x, m->x[k]), y_of(y, m->high[k]));
  for (size_t k = m->n; k-- > 0;)
    text_printf(out, "L%.1f %.1f", x_of(x, m->x[k]), y_of(y, m->y[k]));
  text_printf(out, "Z\" class=\"area %s\"/>\n", classes[m->style]);
}

static void put_each(const Mark *m, Range x, Range y, Text *out) {
  const char *class = classes[m->style];
  for (size_t k = 0; k < m->n; k++) {
    if (!isfinite(m->x[k]) || !isfinite(m->y[k])) continue;
    double px = x_of(x, m->x[k]), py = y_of(y, m->y[k]);
    if (m->kind == MARK_DOTS) {
      text_printf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%d\" class=\"dot %s%s\"/>\n", px, py,
                  m->n > MANY ? 2 : 3, class, m->n > MANY ? " many" : "");
    } else if (m->kind == MARK_WHISKERS) {
      text_printf(out, "<path d=\"M%.1f %.1fV%.1f\" class=\"line %s\"/>\n", px, py,
                  y_of(y, m->high[k]), class);
    } else if (m->kind == MARK_SPANS) {
      text_printf(out, "<path d=\"M%.1f %.1fH%.1f\" class=\"line %s\"/>\n", px, py,
                  x_of(x, m->high[k]), class);
    } else {
      double left = x_of(x, m->x[k] - m->width / 2), right = x_of(x, m->x[k] + m->width / 2);
      double zero = y_of(y, fmax(0, y.low)), top = fmin(py, zero);
      text_printf(out,
                  "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" class=\"bar %s\"/>\n",
                  left, top, fmax(right - left, 0.5), fabs(py - zero), class);
    }
  }
}

static void put_marks(const Plot *p, Range x, Range y, Text *out) {
  for (size_t k = 0; k < p->nmarks; k++) {
    const Mark *m = &p->marks[k];
    if (m->kind == MARK_LINE || m->kind == MARK_STEPS)
      put_path(m, x, y, out);
    else if (m->kind == MARK_BAND)
      put_band(m, x, y, out);
    else
      put_each(m, x, y, out);
  }
}

static void put_legend(const Plot *p, double left, Text *out) {
  double x = left;
  for (size_t k = 0; k < p->nlabels; k++) {
    const Label *l = &p->labels[k];
    text_printf(out, "<rect x=\"%.1f\" y=\"8\" width=\"14\" height=\"8\" class=\"key %s\"/>\n", x,
                classes[l->style]);
    put_text(out, x + 19, 16, "tick", l->text);
    x += 34 + LETTER * (double)strlen(l->text);
  }
}

void plot_svg(const Plot *p, Text *out) {
  Range x = usable(p->x, 0.02), y = usable(p->y, 0.06);
  x.start = left_of(p, y), x.end = WIDTH - RIGHT;
  y.start = height_of(p) - BOTTOM, y.end = TOP;
  text_printf(out,
              "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" viewBox=\"0 0 %d %.0f\" "
              "role=\"img\" aria-label=\"",
              WIDTH, height_of(p));
  plot_escape(out, p->text.alternative);
  text_puts(out, "\">\n<title>");
  plot_escape(out, p->text.title);
  text_puts(out, "</title>\n");
  put_axes(p, x, y, out);
  put_marks(p, x, y, out);
  put_legend(p, p->rows ? 6 : LEFT, out);
  text_puts(out, "</svg>\n");
}

void plot_style(Text *out) {
  text_puts(
      out,
      ".plot { --ink: #1b1f24; --soft: #59636e; --grid: #e4e8ec; --first: #0b62b8; --second: "
      "#b3541e; --quiet: #6e7781; --band: #c9d3dd; font: 12px system-ui, sans-serif; width: 100%; "
      "max-width: 640px; height: auto }\n"
      "@media (prefers-color-scheme: dark) { .plot { --ink: #e6edf3; --soft: #a5b0bb; --grid: "
      "#30363d; --first: #6cb6ff; --second: #f2a65e; --quiet: #8d96a0; --band: #3a444e } }\n"
      ".plot text { fill: var(--soft) } .plot .name { fill: var(--ink) } .plot .mid { text-anchor: "
      "middle } .plot .end { text-anchor: end }\n"
      ".plot .grid { stroke: var(--grid) } .plot .axis { stroke: var(--soft); fill: none }\n"
      ".plot .line { fill: none; stroke-width: 1.8 } .plot .line.quiet { stroke-dasharray: 4 3 }\n"
      ".plot .area { stroke: none; opacity: 0.45 } .plot .dot { opacity: 0.75 } .plot .dot.many { "
      "opacity: 0.4 } .plot .bar { "
      "opacity: "
      "0.7 }\n");
  for (int k = 0; k < PLOT_STYLES; k++)
    text_printf(
        out,
        ".plot .line.%s { stroke: var(--%s) } .plot .area.%s, .plot .dot.%s, .plot .bar.%s, "
        ".plot .key.%s { fill: var(--%s) }\n",
        classes[k], classes[k], classes[k], classes[k], classes[k], classes[k], classes[k]);
}

/* The style stands inside of the figure, behind its first line. */
void plot_file(const Plot *p, Text *out) {
  Text body = text_make(p->arena);
  plot_svg(p, &body);
  const char *first = strchr(body.s, '\n') + 1;
  text_puts(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
  text_add(out, body.s, (size_t)(first - body.s));
  text_puts(out, "<style>\n");
  plot_style(out);
  text_puts(out, "</style>\n");
  text_puts(out, first);
}
