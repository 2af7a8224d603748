/* csv.c: a table as Data: a header row of names, then rows of numbers; every column is a variable
 * of `rows` values.
 *
 * Fields may be quoted ("" inside quotes is a quote). The separator is the comma, or what the
 * header has instead: a tab or a semicolon. A row of another length than the header is an error at
 * once. A cell that is no number (a name, NA, nothing) is remembered with its column and reported
 * when the program wants that column, since tables often carry columns of words. Columns x.1, x.2,
 * ... x.K also give x, an array of rows x K. A column without a name (R writes row names so) is
 * left out.
 */
#include "data/data_int.h"
#include "data/number.h"

#include <ctype.h>
#include <math.h>
#include <string.h>
#include <strings.h>

typedef struct {
  Ctx *c;
  const Source *source;
  const char *p, *end, *line_start;
  uint32_t line;
  char separator;
} Csv;

typedef struct {
  const char *s; /* trimmed, unquoted */
  size_t n;
  Loc loc;
} Field;

/* ---- fields and lines ------------------------------------------------------------------------ */

static Loc loc_of(const Csv *t, const char *p, size_t n) {
  return (Loc){t->source, t->line, (uint32_t)(p - t->line_start) + 1, (uint32_t)n};
}

static bool at_line_end(const Csv *t) {
  return t->p >= t->end || *t->p == '\n' ||
         (*t->p == '\r' && (t->p + 1 == t->end || t->p[1] == '\n'));
}

static void next_line(Csv *t) {
  if (t->p < t->end && *t->p == '\r') t->p++;
  if (t->p < t->end && *t->p == '\n') t->p++;
  t->line++;
  t->line_start = t->p;
}

static Field quoted_field(Csv *t) {
  const char *start = t->p++;
  Text text = text_make(&t->c->arena);
  for (;; t->p++) {
    if (t->p >= t->end || *t->p == '\n')
      ctx_fail(t->c, PVI_DATA, loc_of(t, start, 1), "this quote is never closed on its line");
    if (*t->p == '"' && t->p[1] != '"') break;
    if (*t->p == '"') t->p++;
    text_add(&text, t->p, 1);
  }
  t->p++;
  Field f = {text.n ? text.s : "", text.n, loc_of(t, start, (size_t)(t->p - start))};
  while (*t->p == ' ') t->p++;
  if (!at_line_end(t) && *t->p != t->separator)
    ctx_fail(t->c, PVI_DATA, loc_of(t, t->p, 1),
             "expected '%c' or the end of the line after a quoted field", t->separator);
  return f;
}

static bool is_blank(char ch, char separator) {
  return ch == ' ' || (ch == '\t' && separator != '\t');
}

static Field next_field(Csv *t) {
  while (is_blank(*t->p, t->separator)) t->p++;
  if (*t->p == '"') return quoted_field(t);
  const char *start = t->p;
  while (!at_line_end(t) && *t->p != t->separator) t->p++;
  size_t n = (size_t)(t->p - start);
  while (n && is_blank(start[n - 1], t->separator)) n--;
  return (Field){start, n, loc_of(t, start, n)};
}

static bool next_separator(Csv *t) {
  if (at_line_end(t)) return false;
  t->p++;
  return true;
}

static char guess_separator(const Csv *t) {
  size_t n = strcspn(t->p, "\r\n");
  if (memchr(t->p, ',', n)) return ',';
  if (memchr(t->p, '\t', n)) return '\t';
  return memchr(t->p, ';', n) ? ';' : ',';
}

/* ---- header ---------------------------------------------------------------------------------- */

static DataVar *read_header(Csv *t, size_t *ncols) {
  DataVar *cols = NULL;
  size_t cap = 0;
  Map seen = map_make(&t->c->arena);
  *ncols = 0;
  do {
    Field f = next_field(t);
    DataVar v = {
        .name = arena_text(&t->c->arena, f.s, f.n), .loc = f.loc, .is_int = true, .ndims = 1};
    bool number = f.n && number_read(v.name, false).end == v.name + f.n;
    if (number)
      ctx_fail(t->c, PVI_DATA, f.loc,
               "the first row has the names of the columns, but this is the number %s", v.name);
    if (f.n && map_get(&seen, v.name))
      ctx_fail(t->c, PVI_DATA, f.loc, "two columns are called '%s'", v.name);
    if (f.n) map_set(&seen, v.name, t);
    PUSH(&t->c->arena, cols, *ncols, cap, v);
  } while (next_separator(t));
  next_line(t);
  return cols;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static bool is_text(const Field *f, const char *word) {
  return strlen(word) == f->n && strncasecmp(f->s, word, f->n) == 0;
}

static bool read_special(const Field *f, double *x) {
  static const struct {
    const char *word;
    double value;
  } specials[] = {{"nan", NAN},        {"inf", INFINITY},      {"+inf", INFINITY},
                  {"-inf", -INFINITY}, {"infinity", INFINITY}, {"-infinity", -INFINITY}};
  for (size_t k = 0; k < sizeof specials / sizeof *specials; k++) {
    if (!is_text(f, specials[k].word)) continue;
    *x = specials[k].value;
    return true;
  }
  return false;
}

/* 1,5 where a point is meant. */
static bool has_decimal_comma(const Field *f) {
  size_t sign = f->n && (f->s[0] == '-' || f->s[0] == '+');
  size_t whole = strspn(f->s + sign, "0123456789");
  if (!whole || sign + whole + 1 >= f->n || f->s[sign + whole] != ',') return false;
  return sign + whole + 1 + strspn(f->s + sign + whole + 1, "0123456789") >= f->n;
}

static const char *cell_problem(Ctx *c, const Field *f, size_t row) {
  static const char missing[] = "; Stan has no missing values: leave such rows out, or make the "
                                "missing values parameters of the program";
  if (f->n == 0) return arena_format(&c->arena, "row %zu has no value here%s", row, missing);
  if (is_text(f, "NA")) return arena_format(&c->arena, "row %zu is NA%s", row, missing);
  int n = f->n < 24 ? (int)f->n : 24;
  bool word = isalpha((unsigned char)f->s[0]) != 0;
  return arena_format(&c->arena, "row %zu is '%.*s', which is not a number%s", row, n, f->s,
                      has_decimal_comma(f) ? "; write decimals with a point"
                      : word
                          ? "; the levels of a factor are given as 1, 2, 3, ... (in R: "
                            "as.integer(factor(x)), in pandas: x.astype('category').cat.codes + 1)"
                          : "");
}

static double read_cell(Csv *t, const Field *f, DataVar *col, size_t row) {
  Number x = number_read(f->s, false);
  double value = x.value;
  if (f->n && x.end == f->s + f->n) {
    if (!x.is_int && col->is_int) col->is_int = false, col->real_at = f->loc;
    return value;
  }
  if (read_special(f, &value)) {
    if (col->is_int) col->is_int = false, col->real_at = f->loc;
    if (isnan(value) && !col->nan_at.source) col->nan_at = f->loc;
    return value;
  }
  if (!col->problem) {
    col->problem = cell_problem(t->c, f, row);
    col->problem_at = f->loc;
  }
  return NAN;
}

static void read_row(Csv *t, DataVar *cols, size_t ncols, size_t row) {
  size_t k = 0;
  do {
    Field f = next_field(t);
    if (k == ncols)
      ctx_fail(t->c, PVI_DATA, f.loc, "row %zu has more fields than the %zu names of the header",
               row + 1, ncols);
    cols[k].values[row] = read_cell(t, &f, &cols[k], row + 1);
    k++;
  } while (next_separator(t));
  if (k < ncols)
    ctx_fail(t->c, PVI_DATA, loc_of(t, t->p, 1), "row %zu has %zu field%s, the header has %zu",
             row + 1, k, k == 1 ? "" : "s", ncols);
  next_line(t);
}

static size_t count_lines(const Csv *t) {
  size_t n = 1;
  for (const char *p = t->p; (p = memchr(p, '\n', (size_t)(t->end - p))); p++) n++;
  return n;
}

static bool only_blank_remains(const Csv *t) { return t->p + strspn(t->p, " \t\r\n") >= t->end; }

static size_t read_rows(Csv *t, DataVar *cols, size_t ncols) {
  size_t most = count_lines(t), row = 0;
  for (size_t k = 0; k < ncols; k++) cols[k].values = NEW_ARRAY(&t->c->arena, double, most);
  while (!only_blank_remains(t)) read_row(t, cols, ncols, row++);
  return row;
}

/* ---- x.1, x.2, ... as x ---------------------------------------------------------------------- */

static const DataVar *column_of_group(Ctx *c, const Data *d, const char *base, size_t n, size_t k) {
  return data_find(d, arena_format(&c->arena, "%.*s.%zu", (int)n, base, k));
}

static bool is_earlier(const Loc *a, const Loc *b) {
  return a->source &&
         (!b->source || a->line < b->line || (a->line == b->line && a->column < b->column));
}

static void add_group(Ctx *c, Data *d, const DataVar *first, size_t n) {
  const char *name = arena_text(&c->arena, first->name, n);
  if (data_find(d, name)) return;
  size_t ncols = 1, rows = first->n;
  while (column_of_group(c, d, first->name, n, ncols + 1)) ncols++;
  DataVar v = {.name = name,
               .loc = first->loc,
               .is_int = true,
               .ndims = 2,
               .dims = {(long)rows, (long)ncols},
               .n = rows * ncols};
  v.values = NEW_ARRAY(&c->arena, double, v.n ? v.n : 1);
  for (size_t k = 0; k < ncols; k++) {
    const DataVar *col = column_of_group(c, d, first->name, n, k + 1);
    for (size_t i = 0; i < rows; i++) v.values[i * ncols + k] = col->values[i];
    if (!col->is_int && v.is_int) v.is_int = false, v.real_at = col->real_at;
    if (is_earlier(&col->nan_at, &v.nan_at)) v.nan_at = col->nan_at;
    if (col->problem && !v.problem) v.problem = col->problem, v.problem_at = col->problem_at;
  }
  data_add(c, d, &v);
}

static void add_groups(Ctx *c, Data *d, const DataVar *cols, size_t ncols) {
  for (size_t k = 0; k < ncols; k++) {
    size_t n = strlen(cols[k].name);
    if (n > 2 && strcmp(cols[k].name + n - 2, ".1") == 0) add_group(c, d, &cols[k], n - 2);
  }
}

void data_add_csv(Ctx *c, Data *d, const Source *source) {
  Csv t = {
      .c = c, .source = source, .p = source->text, .end = source->text + source->length, .line = 1};
  t.line_start = t.p;
  if (strncmp(t.p, "\xEF\xBB\xBF", 3) == 0) t.p += 3;
  if (only_blank_remains(&t))
    ctx_fail(c, PVI_DATA, NOWHERE, "the data file '%s' is empty", source->name);
  t.separator = guess_separator(&t);
  size_t ncols;
  DataVar *cols = read_header(&t, &ncols);
  size_t rows = read_rows(&t, cols, ncols);
  d->rows = (long)rows;
  for (size_t k = 0; k < ncols; k++) {
    cols[k].n = rows;
    cols[k].dims[0] = (long)rows;
    if (cols[k].name[0]) data_add(c, d, &cols[k]);
  }
  add_groups(c, d, cols, ncols);
}
