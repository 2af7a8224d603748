/* table.c: aligned tables. A numeric cell has a part before and a part from the decimal point on; a
 * column is as wide as its widest two parts, so that points stand under each other. Widths count
 * UTF-8 characters, not bytes. */
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
  bool word = strspn(s, "0123456789-.e+") != n;
  add_cell(t, (Cell){arena_text(t->arena, s, n), word ? n : before, word ? 0 : n - before, true});
}

void table_number(Table *t, double x, int digits) {
  char s[64];
  add_number(t, s, table_format(s, sizeof s, x, digits));
}

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

static Column measure(const Table *t, size_t col) {
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
  size_t header = characters(t->headers[col]);
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
static void put(Text *out, size_t *pending, size_t before, const char *s, size_t after) {
  spaces(out, *pending + before);
  text_puts(out, s);
  *pending = after;
}

static void print_header(const Table *t, const Column *cols, Text *out) {
  size_t pending = 0;
  for (size_t k = 0; k < t->ncols; k++) {
    size_t room = cols[k].width - characters(t->headers[k]);
    put(out, &pending, cols[k].number ? room : 0, t->headers[k], 2 + (cols[k].number ? 0 : room));
  }
  text_puts(out, "\n");
}

static void print_cell(const Cell *cell, const Column *col, Text *out, size_t *pending) {
  size_t room = col->width - cell->before - cell->after;
  if (!cell->number) { /* a word among numbers keeps to their side */
    put(out, pending, col->number ? room : 0, cell->text, 2 + (col->number ? 0 : room));
    return;
  }
  size_t after = cell->after || cell->before <= col->before ? col->after - cell->after : 0;
  put(out, pending, room - after, cell->text, 2 + after);
}

void table_print(const Table *t, Text *out) {
  Column *cols = NEW_ARRAY(t->arena, Column, t->ncols + 1);
  for (size_t k = 0; k < t->ncols; k++) cols[k] = measure(t, k);
  print_header(t, cols, out);
  size_t pending = 0;
  for (size_t k = 0; k < t->n; k++) {
    print_cell(&t->cells[k], &cols[k % t->ncols], out, &pending);
    if ((k + 1) % t->ncols && k + 1 < t->n) continue;
    text_puts(out, "\n");
    pending = 0;
  }
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
