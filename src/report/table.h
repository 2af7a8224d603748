/* table.h: for terminals: aligned tables, and a line of progress. */
#ifndef PVI_TABLE_H
#define PVI_TABLE_H

#include "base/base.h"

/* A table fills cell by cell, row by row; words align left, numbers at the decimal point. */
typedef struct Table Table;
Table *table_make(Arena *a, size_t ncols, const char *const *headers);
void table_word(Table *t, const char *s);
void table_number(Table *t, double x,
                  int digits); /* significant digits; whole digits are never rounded away */
void table_integer(Table *t, long long k);
void table_print(const Table *t, Text *out);

/* A number to so many significant digits as a person would write it: 0.00123, 1.50, 12346, 1.2e+09.
 * Returns the length. */
size_t table_format(char *out, size_t size, double x, int digits);

/* ---- progress -------------------------------------------------------------------------------- */

/* One line on stderr that is rewritten in place, at most ten times a second, and only when stderr
 * is a terminal. No memory is allocated after progress_make. */
typedef struct Progress {
  bool on;
  const char *label;
  size_t total; /* 0: unknown, then no ETA */
  double start, last;
  size_t width; /* of what stands on the line */
} Progress;

Progress progress_make(const char *label, size_t total);
void progress_update(Progress *p, size_t done, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void progress_end(Progress *p); /* clears the line */

/* The text of the line: `label  42%  detail  1:05 left`, cut to `columns`. Returns its length in
 * bytes. */
size_t progress_line(char *out, size_t size, size_t columns, const char *label, size_t done,
                     size_t total, double seconds, const char *detail);

#endif
