/* plot.h: Plot, a figure with two axes: marks are added, then it is printed as SVG.
 *
 *   Plot *p = plot_make(a, &(PlotText){"Held-out gain", "lambda", "gain", "The gain rises to
 * ..."}); plot_line(p, PLOT_FIRST, &(PlotPoints){x, y, n}); plot_label(p, PLOT_FIRST, "PVI");
 *   plot_svg(p, out);
 *
 * Ranges follow from what is drawn, unless they are set. Colours are classes of a style sheet
 * (plot_style), so that a page can be light or dark; a figure says in words what it shows, for
 * those who cannot see it.
 */
#ifndef PVI_PLOT_H
#define PVI_PLOT_H

#include "base/base.h"

typedef struct {
  const char *title, *x, *y;
  const char *alternative; /* what the figure shows, in words */
} PlotText;

typedef enum { PLOT_FIRST, PLOT_SECOND, PLOT_QUIET, PLOT_BAND, PLOT_STYLES } PlotStyle;

typedef struct {
  const double *x, *y; /* n; where either is not finite, a line is broken */
  size_t n;
} PlotPoints;

typedef struct Plot Plot;
Plot *plot_make(Arena *a, const PlotText *text);
void plot_x_range(Plot *p, double low, double high);
void plot_y_range(Plot *p, double low, double high);
void plot_x_log(Plot *p); /* by logarithms; all x are positive */
/* Positions on the x axis that have names instead of numbers: 0, 1, ... */
void plot_x_names(Plot *p, const char *const *names, size_t n);
/* The same on the y axis, from the top: rows, which may be many and have long names. */
void plot_y_names(Plot *p, const char *const *names, size_t n);

void plot_line(Plot *p, PlotStyle s, const PlotPoints *d);
void plot_steps(Plot *p, PlotStyle s, const PlotPoints *d); /* a line that moves along x, then y */
void plot_dots(Plot *p, PlotStyle s, const PlotPoints *d);
/* Between low[k] and high[k]: a band, or a whisker at every x. */
void plot_band(Plot *p, PlotStyle s, const double *x, const double *low, const double *high,
               size_t n);
void plot_whiskers(Plot *p, PlotStyle s, const double *x, const double *low, const double *high,
                   size_t n);
/* Along x, between low[k] and high[k] at y[k]. */
void plot_spans(Plot *p, PlotStyle s, const double *y, const double *low, const double *high,
                size_t n);
void plot_bars(Plot *p, PlotStyle s, const PlotPoints *d, double width); /* from zero */
void plot_label(Plot *p, PlotStyle s, const char *label);                /* in the legend */

void plot_svg(const Plot *p, Text *out);
void plot_style(Text *out);                    /* CSS of all figures, light and dark */
void plot_file(const Plot *p, Text *out);      /* an SVG file of its own */
void plot_escape(Text *out, const char *text); /* as XML and HTML want it */

#endif
