/* table.c: aligned tables. A numeric cell has a part before and a part from the decimal point on; a
 * column is as wide as its widest two parts, so that points stand under each other. Widths count
 * UTF-8 characters, not bytes. A table that is too wide has its headers broken at words and, where
 * that is not enough, is printed in panels below each other, each with the first column. */
#include "report/table.h"

#include "data/number.h"

#include <math.h>
#include <string.h>

typedef struct {
  const char *text;
  size_t before; /* characters before the decimal point; all of them when there is none */
  size_t after;  /* from the point on */
  bool number;
} Cell;

struct Table {
  Arena *arena;
  size_t ncols;
  const char *const *headers;
  Cell *cells; /* row-major */
  size_t n, cap;
};

Table *table_make(Arena *a, size_t ncols, const char *const *headers) {
  Table *t = NEW(a, Table);
  *t = (Table){.arena = a, .ncols = ncols, .headers = headers};
  return t;
}

static size_t characters(const char *s) {
  size_t n = 0;
  for (; *s; s++) n += ((unsigned char)*s & 0xC0) != 0x80;
  return n;
}

/* ---- numbers --------------------------------------------------------------------------------- */

size_t table_format(char *out, size_t size, double x, int digits) {
  int n;
  double magnitude = fabs(x);
  if (isnan(x))
    n = snprintf(out, size, "nan");
  else if (isinf(x))
    n = snprintf(out, size, x < 0 ? "-inf" : "inf");
  else if (x == 0)
    n = snprintf(out, size, "0");
  else if (magnitude >= 1e7 || magnitude < 1e-4)
    n = snprintf(out, size, "%.*e", digits - 1, x);
  else {
    int decimals = digits - 1 - (int)floor(log10(magnitude));
    n = snprintf(out, size, "%.*f", decimals > 0 ? decimals : 0, x);
  }
  return n > 0 ? (size_t)n : 0;
}

/* ---- cells ----------------------------------------------------------------------------------- */

static void add_cell(Table *t, Cell cell) { PUSH(t->arena, t->cells, t->n, t->cap, cell); }

void table_word(Table *t, const char *s) {
  add_cell(t, (Cell){arena_text(t->arena, s, strlen(s)), characters(s), 0, false});
}

static void add_number(Table *t, const char *s, size_t n) {
  size_t before = strcspn(s, ".e");
  bool word = strspn(s, "0123456789-.e+") != n || !n;
  add_cell(t, (Cell){arena_text(t->arena, s, n), word ? n : before, word ? 0 : n - before, true});
}

void table_number(Table *t, double x, int digits) {
  char s[64];
  add_number(t, s, table_format(s, sizeof s, x, digits));
}

void table_written(Table *t, const char *s) { add_number(t, s, strlen(s)); }

void table_integer(Table *t, long long k) {
  char s[32];
  int n = snprintf(s, sizeof s, "%lld", k);
  add_number(t, s, (size_t)n);
}

/* ---- printing -------------------------------------------------------------------------------- */

typedef struct {
  size_t before, after, width;
  bool number;
} Column;

/* The widest word of a header. */
static size_t longest_word(const char *s) {
  size_t most = 0;
  while (*s) {
    size_t n = strcspn(s, " "), shown = 0;
    for (size_t k = 0; k < n; k++) shown += ((unsigned char)s[k] & 0xC0) != 0x80;
    if (shown > most) most = shown;
    s += n + strspn(s + n, " ");
  }
  return most;
}

/* The headers are broken at words to about `most` characters. */
static Column measure(const Table *t, size_t col, size_t most) {
  Column c = {0};
  size_t words = 0;
  for (size_t k = col; k < t->n; k += t->ncols) {
    const Cell *cell = &t->cells[k];
    if (!cell->number) {
      if (cell->before > words) words = cell->before;
      continue;
    }
    c.number = true;
    if (cell->before > c.before) c.before = cell->before;
    if (cell->after > c.after) c.after = cell->after;
  }
  size_t header = characters(t->headers[col]), word = longest_word(t->headers[col]);
  if (header > most) header = most > word ? most : word;
  c.width = c.before + c.after;
  if (words > c.width) c.width = words;
  if (header > c.width) c.width = header;
  return c;
}

static void spaces(Text *out, size_t n) {
  while (n--) text_puts(out, " ");
}

/* The text of a field and the blanks before it; blanks after are held back in *pending until
 * something follows. */
static void put(Text *out, size_t *pending, size_t before, const char *s, size_t n, size_t after) {
  if (!n) {
    *pending += before + after;
    return;
  }
  spaces(out, *pending + before);
  text_add(out, s, n);
  *pending = after;
}

/* What of s stands on one line of `room` characters, in bytes: as many words as fit, or a word cut
 * where not even one does. *shown are its characters. */
static size_t piece(const char *s, size_t room, size_t *shown) {
  size_t n = 0, count = 0, fits = 0;
  for (*shown = 0; s[n]; count++) {
    if (s[n] == ' ') fits = n, *shown = count;
    if (count == room) break;
    do n++;
    while (((unsigned char)s[n] & 0xC0) == 0x80);
  }
  if (!s[n] || !fits) fits = n, *shown = count;
  return fits;
}

/* Line `line` of a text that is broken to `room`; NULL: it has fewer. */
static const char *line_of(const char *s, size_t room, size_t line, size_t *n, size_t *shown) {
  for (size_t k = 0;; k++) {
    *n = piece(s, room, shown);
    if (k == line) return s;
    s += *n + strspn(s + *n, " ");
    if (!*s) return NULL;
  }
}

static size_t lines_of(const char *s, size_t room) {
  size_t n, shown, lines = 1;
  while (line_of(s, room, lines, &n, &shown)) lines++;
  return lines;
}

/* The first column, and those from `from` to before `to`: what stands side by side. */
typedef struct {
  const Table *t;
  const Column *cols;
  size_t from, to;
} Panel;

static size_t column_at(const Panel *p, size_t k) { return k ? p->from + k - 1 : 0; }
static size_t columns_in(const Panel *p) { return 1 + p->to - p->from; }

/* Headers end on one line, however many each of them takes. */
static void print_header(const Panel *p, Text *out) {
  size_t most = 1, n, shown;
  for (size_t k = 0; k < columns_in(p); k++) {
    size_t col = column_at(p, k), lines = lines_of(p->t->headers[col], p->cols[col].width);
    if (lines > most) most = lines;
  }
  for (size_t line = 0; line < most; line++) {
    size_t pending = 0;
    for (size_t k = 0; k < columns_in(p); k++) {
      const Column *col = &p->cols[column_at(p, k)];
      const char *header = p->t->headers[column_at(p, k)];
      size_t above = most - lines_of(header, col->width);
      const char *s = line < above ? NULL : line_of(header, col->width, line - above, &n, &shown);
      if (!s) n = shown = 0;
      size_t room = col->width - shown;
      put(out, &pending, col->number ? room : 0, s, n, 2 + (col->number ? 0 : room));
    }
    text_puts(out, "\n");
  }
}

static void print_cell(const Cell *cell, const Column *col, Text *out, size_t *pending) {
  size_t room = col->width - cell->before - cell->after, n = strlen(cell->text);
  if (!cell->number) { /* a word among numbers keeps to their side */
    put(out, pending, col->number ? room : 0, cell->text, n, 2 + (col->number ? 0 : room));
    return;
  }
  size_t after = cell->after || cell->before <= col->before ? col->after - cell->after : 0;
  put(out, pending, room - after, cell->text, n, 2 + after);
}

/* The first cell may take several lines; the others stand beside its last one. */
static void print_row(const Panel *p, const Cell *cells, Text *out) {
  Cell first = cells[0];
  size_t pending = 0, n, shown;
  while (first.before + first.after > p->cols[0].width) {
    n = piece(first.text, p->cols[0].width, &shown);
    text_add(out, first.text, n);
    text_puts(out, "\n");
    first.text += n + strspn(first.text + n, " ");
    first.before = characters(first.text);
    first.after = 0;
  }
  print_cell(&first, &p->cols[0], out, &pending);
  for (size_t k = 1; k < columns_in(p); k++)
    print_cell(&cells[column_at(p, k)], &p->cols[column_at(p, k)], out, &pending);
  text_puts(out, "\n");
}

static void print_panel(const Panel *p, Text *out) {
  print_header(p, out);
  for (size_t k = 0; k < p->t->n; k += p->t->ncols) print_row(p, p->t->cells + k, out);
}

static size_t measure_all(const Table *t, size_t most_header, Column *cols) {
  size_t total = 0;
  for (size_t k = 0; k < t->ncols; k++) {
    cols[k] = measure(t, k, most_header);
    total += cols[k].width + (k ? 2 : 0);
  }
  return total;
}

/* Columns as wide as their cells and headers; where these do not fit side by side, headers are
 * broken as little as it takes, and the first column is left what the widest of the others leaves.
 */
static Column *columns_within(const Table *t, size_t width) {
  enum { LEAST = 8, LONGEST_HEADER = 64 };
  Column *cols = NEW_ARRAY(t->arena, Column, t->ncols + 1);
  size_t widest = 0, most = LONGEST_HEADER;
  if (measure_all(t, SIZE_MAX, cols) > width)
    while (measure_all(t, most, cols) > width && most) most--;
  for (size_t k = 1; k < t->ncols; k++)
    if (cols[k].width + 2 > widest) widest = cols[k].width + 2;
  size_t room = width > widest + LEAST ? width - widest : LEAST;
  if (cols[0].width > room && !cols[0].number) cols[0].width = room;
  return cols;
}

void table_print(const Table *t, size_t width, Text *out) {
  Panel p = {t, columns_within(t, width), 1, 1};
  do {
    size_t used = p.cols[0].width;
    for (p.to = p.from; p.to < t->ncols; p.to++) {
      used += 2 + p.cols[p.to].width;
      if (used > width && p.to > p.from) break;
    }
    if (p.from > 1) text_puts(out, "\n");
    print_panel(&p, out);
    p.from = p.to;
  } while (p.to < t->ncols);
}

/* ---- sentences ------------------------------------------------------------------------------- */

void text_wrap(Text *out, size_t width, size_t indent, const char *sentence) {
  size_t lead = strspn(sentence, " "), column = lead;
  bool first = true; /* on its line */
  spaces(out, lead);
  for (const char *word = sentence + lead; *word;) {
    size_t n = strcspn(word, " "), shown = 0;
    for (size_t k = 0; k < n; k++) shown += ((unsigned char)word[k] & 0xC0) != 0x80;
    if (!first && column + 1 + shown > width) {
      text_puts(out, "\n");
      spaces(out, indent);
      column = indent;
      first = true;
    }
    if (!first) text_puts(out, " ");
    text_add(out, word, n);
    column += shown + !first;
    first = false;
    word += n + strspn(word + n, " ");
  }
  text_puts(out, "\n");
}

void text_number(Text *out, double x) {
  char s[NUMBER_CHARS];
  text_add(out, s, number_write(s, x));
}
