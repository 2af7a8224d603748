/* number.h: numbers as text and back, exactly.
 *
 * Reading is correctly rounded, writing is the shortest text that reads back as the same double,
 * and neither depends on the locale of the process. Both are used by every reader and writer of
 * files.
 */
#ifndef PVI_NUMBER_H
#define PVI_NUMBER_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
  double value;
  bool is_int;     /* no dot, no exponent, fits 32 bits */
  const char *end; /* one past the number; the start when there is none */
} Number;

/* [sign] digits [. digits] [e [sign] digits]. `strict` is JSON's grammar: no '+', no leading zeros,
 * digits around the dot. The text must end in a byte that is no part of a number (a NUL will do).
 * On failure end == s. */
Number number_read(const char *s, bool strict);

enum { NUMBER_CHARS = 32 }; /* room for any number_write */

/* Shortest round-trip text; non-finite as nan, inf, -inf. Returns the length. */
size_t number_write(char out[NUMBER_CHARS], double x);

#endif
