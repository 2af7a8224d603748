/* page.c: see page.h. */
#include "run/page.h"

#include "report/table.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const char style[] =
    ":root { color-scheme: light dark; --ink: #1b1f24; --soft: #59636e; --paper: #ffffff; "
    "--line: #d6dce2; --mark: #eaf2fb; --prior: #fbf3ea }\n"
    "@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #a5b0bb; "
    "--paper: #0f1419; --line: #39424c; --mark: #16283c; --prior: #33261a } }\n"
    "body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); "
    "max-width: 76rem; margin: 0 auto; padding: 1rem; overflow-wrap: anywhere }\n"
    "h1 { font-size: 1.5rem; margin: 0.5rem 0 } h3 { font-size: 1rem; margin: 1.2rem 0 0.3rem } "
    "h2 { font-size: 1.15rem; margin: 2rem 0 0.3rem; border-bottom: 1px solid var(--line) }\n"
    ".verdict { font-size: 1.1rem; border-left: 4px solid var(--line); padding: 0.2rem 0.8rem } "
    "p { max-width: 60rem } .soft, figcaption { color: var(--soft) }\n"
    ".figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), "
    "1fr)); gap: 1rem; align-items: start } figure { margin: 0 } figcaption { font-size: 0.9rem } "
    ".figures > * { min-width: 0 }\n"
    /* A table scrolls by itself: its first column stays, and so do the heads of a long one. */
    ".wide { overflow: auto; max-width: 100%; margin-bottom: 0.8rem } .tall { max-height: 36rem } "
    "table { min-width: "
    "min(100%, 26rem); border-collapse: separate; border-spacing: 0; font-size: 0.92rem; "
    "font-variant-numeric: tabular-nums }\n"
    "th, td { padding: 0.2rem 0.7rem; text-align: right; white-space: pre; border-bottom: 1px "
    "solid "
    "var(--line) } .word { text-align: left } thead th { vertical-align: bottom; white-space: "
    "normal; overflow-wrap: normal } "
    ".tall thead th { position: sticky; top: 0; background: var(--paper); z-index: 2 }\n"
    "tbody th { font-weight: normal; text-align: left; position: sticky; left: 0; background: "
    "var(--paper); z-index: 1 } caption { text-align: left; color: var(--soft); padding: 0.3rem 0 "
    "} "
    "caption span { display: inline-block; position: sticky; left: 0; max-width: min(60rem, "
    "calc(100vw - 2rem)) }\n"
    "pre { overflow-x: auto; font-size: 0.85rem; line-height: 1.45; border: 1px solid var(--line); "
    "padding: 0.6rem } .command { white-space: pre-wrap }\n"
    ".obs { background: var(--mark) } .prior { background: var(--prior) } .gutter { color: "
    "var(--soft); user-select: none }\n"
    "@media (max-width: 40rem) { .program { font-size: 0.72rem } th, td { padding: "
    "0.2rem 0.4rem } }\n"
    "@media print { body { max-width: none } figure, tr { break-inside: avoid } .wide, pre { "
    "overflow: visible; max-height: none } .program { white-space: pre-wrap } }\n";

void page_raw(Page *p, const char *html) { text_puts(&p->text, html); }

void page_put(Page *p, const char *before, const char *text, const char *after) {
  text_puts(&p->text, before);
  plot_escape(&p->text, text);
  text_puts(&p->text, after);
}

Page *page_begin(Ctx *c, const char *title, const char *plots) {
  Page *p = NEW(&c->arena, Page);
  *p = (Page){.c = c, .text = text_make(&c->arena), .plots = plots ? run_open(c, plots) : NULL};
  page_raw(p, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
              "name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
  page_put(p, "<title>", title, "</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>\n");
  page_raw(p, style);
  plot_style(&p->text);
  page_raw(p, "</style>\n</head>\n<body>\n<main>\n");
  return p;
}

void page_end(Page *p, const char *path) {
  page_raw(p, "</main>\n</body>\n</html>\n");
  OutFile *f = file_begin(p->c, path);
  file_put(f, p->text.s, p->text.n);
  file_commit(f);
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* A line of heads or cells is in order when the table ends; until then it is kept. */
static void keep(Page *p, const char *const *words) {
  PageTable *t = &p->table;
  for (size_t k = 0; k < t->ncols; k++) PUSH(&p->c->arena, t->cells, t->n, t->cap, words[k]);
}

void page_table(Page *p, const char *caption, const char *const *heads, size_t n) {
  p->table = (PageTable){.caption = caption, .ncols = n};
  keep(p, heads);
}

void page_row(Page *p, const char *const *cells, size_t n) {
  assert(n == p->table.ncols);
  keep(p, cells);
}

static bool is_number(const char *s) {
  return strpbrk(s, "0123456789") && s[strspn(s, "0123456789+-.e%() ")] == 0;
}

/* What stands from the decimal point on; of two numbers in a cell, nothing. */
static size_t decimals(const char *s) {
  const char *point = strchr(s, '.');
  return !point || !is_number(s) || strchr(s, '(') ? 0 : strcspn(point, "e%");
}

/* Words on the left, numbers with their points below each other: what they lack at their ends is
 * filled with spaces that are as wide as a point and a digit. */
typedef struct {
  bool words;
  size_t decimals;
} PageColumn;

static PageColumn column_of(const PageTable *t, size_t col) {
  PageColumn c = {true, 0};
  for (size_t k = t->ncols + col; k < t->n; k += t->ncols) {
    c.words &= !is_number(t->cells[k]);
    if (decimals(t->cells[k]) > c.decimals) c.decimals = decimals(t->cells[k]);
  }
  return c;
}

static void put_cell(Page *p, const char *text, const PageColumn *c, bool head) {
  const char *tag = head ? "th scope=\"col\"" : "td";
  size_t own = decimals(text);
  text_printf(&p->text, "<%s%s>", tag, c->words ? " class=\"word\"" : "");
  plot_escape(&p->text, text);
  if (!head && is_number(text) && !own && c->decimals) page_raw(p, "\xe2\x80\x88"), own++;
  for (; !head && is_number(text) && own < c->decimals; own++) page_raw(p, "\xe2\x80\x87");
  page_raw(p, head ? "</th>" : "</td>");
}

static void put_line(Page *p, const char *const *cells, const PageColumn *columns, bool head) {
  page_raw(p, "<tr>");
  if (head)
    put_cell(p, cells[0], &columns[0], true);
  else
    page_put(p, "<th scope=\"row\">", cells[0], "</th>");
  for (size_t k = 1; k < p->table.ncols; k++) put_cell(p, cells[k], &columns[k], head);
  page_raw(p, "</tr>\n");
}

void page_table_end(Page *p) {
  enum { TALL = 30 };
  PageTable *t = &p->table;
  size_t lines = t->n / t->ncols;
  PageColumn *columns = NEW_ARRAY(&p->c->arena, PageColumn, t->ncols);
  for (size_t k = 0; k < t->ncols; k++) columns[k] = column_of(t, k);
  columns[0].words = true;
  text_printf(&p->text, "<div class=\"wide%s\" tabindex=\"0\" role=\"region\"",
              lines > TALL ? " tall" : "");
  page_put(p, " aria-label=\"", t->caption, "\"><table><caption>");
  page_put(p, "<span>", t->caption, "</span></caption>\n<thead>\n");
  put_line(p, t->cells, columns, true);
  page_raw(p, "</thead>\n<tbody>\n");
  for (size_t k = 1; k < lines; k++) put_line(p, t->cells + k * t->ncols, columns, false);
  page_raw(p, "</tbody></table></div>\n");
}

const char *page_number(Page *p, double x, int digits) {
  char s[64];
  return isnan(x) ? "" : arena_text(&p->c->arena, s, table_format(s, sizeof s, x, digits));
}

/* ---- figures --------------------------------------------------------------------------------- */

void page_add_figure(Page *p, FigureList *l, Figure f) {
  if (f.plot) PUSH(&p->c->arena, l->items, l->n, l->cap, f);
}

static void put_file(Page *p, const Figure *f) {
  Text file = text_make(&p->c->arena);
  plot_file(f->plot, &file);
  run_write(p->plots, arena_format(&p->c->arena, "%s.svg", f->id), &file);
}

void page_figures_begin(Page *p, const char *heading, const char *reading, const FigureList *l) {
  if (!l->n) return;
  page_put(p, "<h2>", heading, "</h2>\n");
  page_put(p, "<p class=\"soft\">", reading, "</p>\n<div class=\"figures\">\n");
  for (size_t k = 0; k < l->n; k++) {
    page_raw(p, "<figure>\n");
    plot_svg(l->items[k].plot, &p->text);
    page_put(p, "<figcaption>", l->items[k].caption, "</figcaption>\n</figure>\n");
    if (p->plots) put_file(p, &l->items[k]);
  }
}

void page_figures_end(Page *p, const FigureList *l) {
  if (l->n) page_raw(p, "</div>\n");
}

void page_figures(Page *p, const char *heading, const char *reading, const FigureList *l) {
  page_figures_begin(p, heading, reading, l);
  page_figures_end(p, l);
}
