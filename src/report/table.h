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
void table_written(Table *t, const char *s); /* a number in the caller's own digits, or nothing */
void table_print(const Table *t, size_t width, Text *out); /* no line longer than `width` */

/* A number to so many significant digits as a person would write it: 0.00123, 1.50, 12346, 1.2e+09.
 * Returns the length. */
size_t table_format(char *out, size_t size, double x, int digits);

/* A sentence, broken at words so that no line is longer than `width`; lines after the first are
 * indented. Ends in a newline. */
void text_wrap(Text *out, size_t width, size_t indent, const char *sentence);
void text_number(Text *out, double x); /* shortest round trip; nan inf -inf */

/* ---- progress -------------------------------------------------------------------------------- */

typedef struct {
  const char *label, *detail;
  size_t done, total; /* total 0: unknown, then no ETA */
  double seconds;     /* so far */
} ProgressState;

/* `label  42%  detail  1:05 left`, cut to `columns`. Returns its length in bytes. No memory is
 * allocated. */
size_t progress_line(char *out, size_t size, size_t columns, const ProgressState *p);

#endif
