/* page.h: pieces of an HTML page that needs nothing else: no network, light or dark, printable.
 *
 *   Page *p = page_begin(c, "pvi report", folder of figures or NULL);
 *   page_put(p, "<h1>", text, "</h1>\n"); page_table(p, caption, heads, n); page_row(p, cells, n);
 *   page_end(p, path);
 */
#ifndef PVI_PAGE_H
#define PVI_PAGE_H

#include "report/report.h"
#include "run/pointwise.h"

/* The table under way: columns are aligned when all of it is known. */
typedef struct {
  const char *caption, **cells; /* the heads first, then row by row */
  size_t ncols, n, cap;
} PageTable;

typedef struct {
  Ctx *c;
  Text text;
  RunDir *plots; /* where figures go as files, too; NULL: nowhere */
  PageTable table;
} Page;

Page *page_begin(Ctx *c, const char *title, const char *plots);
void page_end(Page *p, const char *path); /* writes the file */

void page_put(Page *p, const char *before, const char *text, const char *after); /* text escaped */
void page_raw(Page *p, const char *html);
/* A table: its caption and heads, rows, the end. Words align left, numbers at the decimal point. */
void page_table(Page *p, const char *caption, const char *const *heads, size_t n);
void page_row(Page *p, const char *const *cells, size_t n);
void page_table_end(Page *p);
const char *page_number(Page *p, double x, int digits); /* nothing where it is not known */
/* Figures side by side, below a heading and how to read them; nothing where there are none. What is
 * put before the end, a table, stands beside them. */
void page_figures_begin(Page *p, const char *heading, const char *reading, const FigureList *l);
void page_figures_end(Page *p, const FigureList *l);
void page_figures(Page *p, const char *heading, const char *reading, const FigureList *l);
void page_add_figure(Page *p, FigureList *l, Figure f); /* a figure without a plot is left out */

#endif
