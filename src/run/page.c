/* page.c: see page.h. */
#include "run/page.h"

#include <math.h>

static const char style[] =
    ":root { color-scheme: light dark; --ink: #1b1f24; --soft: #59636e; --paper: #ffffff; --line: "
    "#d6dce2; "
    "--mark: #eaf2fb; --prior: #fbf3ea }\n"
    "@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #a5b0bb; --paper: "
    "#0f1419; --line: "
    "#39424c; --mark: #16283c; --prior: #33261a } }\n"
    "body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); "
    "max-width: 76rem; "
    "margin: 0 auto; padding: 1rem }\n"
    "h1 { font-size: 1.5rem; margin: 0.5rem 0 } h2 { font-size: 1.15rem; margin: 2rem 0 0.3rem; "
    "border-bottom: 1px "
    "solid var(--line) }\n"
    "h3 { font-size: 1rem; margin: 1.2rem 0 0.3rem } .verdict { font-size: 1.1rem; border-left: "
    "4px solid var(--line); padding: 0.2rem 0.8rem } "
    ".soft, figcaption "
    "{ color: var(--soft) }\n"
    ".figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), "
    "1fr)); gap: 1rem } "
    "figure { margin: 0 } figcaption { font-size: 0.9rem }\n"
    "td { white-space: nowrap } .wide { overflow-x: auto } table { min-width: min(100%, 26rem); "
    "border-collapse: collapse; "
    "font-size: 0.92rem } th, td { "
    "padding: 0.2rem "
    "0.7rem; text-align: right; border-bottom: 1px solid var(--line) } "
    "th:first-child, "
    "td:first-child { text-align: "
    "left } caption { text-align: left; color: var(--soft); padding: 0.3rem 0 }\n"
    "pre { overflow-x: auto; font-size: 0.85rem; line-height: 1.45; border: 1px solid var(--line); "
    "padding: 0.6rem } "
    ".obs { background: var(--mark) } .prior { background: var(--prior) } .gutter { color: "
    "var(--soft); user-select: "
    "none }\n"
    "@media print { body { max-width: none } figure, tr { break-inside: avoid } }\n";

void page_raw(Page *p, const char *html) { text_puts(&p->text, html); }

void page_put(Page *p, const char *before, const char *text, const char *after) {
  text_puts(&p->text, before);
  plot_escape(&p->text, text);
  text_puts(&p->text, after);
}

Page *page_begin(Ctx *c, const char *title, const char *plots) {
  Page *p = NEW(&c->arena, Page);
  *p = (Page){c, text_make(&c->arena), plots ? run_open(c, plots) : NULL};
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

static void put_cells(Page *p, bool head, const char *const *words, size_t n) {
  page_raw(p, "<tr>");
  for (size_t k = 0; k < n; k++) {
    page_raw(p, head ? "<th scope=\"col\">" : "<td>");
    plot_escape(&p->text, words[k]);
    page_raw(p, head ? "</th>" : "</td>");
  }
  page_raw(p, "</tr>\n");
}

void page_table(Page *p, const char *caption, const char *const *heads, size_t n) {
  page_put(p, "<div class=\"wide\" tabindex=\"0\"><table><caption>", caption, "</caption>\n");
  put_cells(p, true, heads, n);
}

void page_row(Page *p, const char *const *cells, size_t n) { put_cells(p, false, cells, n); }

void page_table_end(Page *p) { page_raw(p, "</table></div>\n"); }

const char *page_number(Page *p, double x, int digits) {
  return isnan(x) ? "" : arena_format(&p->c->arena, "%.*g", digits, x);
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

void page_figures(Page *p, const char *heading, const char *reading, const FigureList *l) {
  if (!l->n) return;
  page_put(p, "<h2>", heading, "</h2>\n");
  page_put(p, "<p class=\"soft\">", reading, "</p>\n<div class=\"figures\">\n");
  for (size_t k = 0; k < l->n; k++) {
    page_raw(p, "<figure>\n");
    plot_svg(l->items[k].plot, &p->text);
    page_put(p, "<figcaption>", l->items[k].caption, "</figcaption>\n</figure>\n");
    if (p->plots) put_file(p, &l->items[k]);
  }
  page_raw(p, "</div>\n");
}
