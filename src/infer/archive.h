/* archive.h: state as bytes. One function lists what a state consists of, by calling the functions
 * below on its members in order; with an archive that writes, the list goes out, and with one that
 * reads, the same list comes back. So the two directions cannot fall out of step.
 *
 * Numbers take eight bytes each, little-endian on every machine. Reading never goes beyond the end:
 * from then on `bad` is set and nothing is changed any more.
 */
#ifndef PVI_ARCHIVE_H
#define PVI_ARCHIVE_H

#include "base/base.h"

typedef struct {
  Text *out;      /* NULL: it reads */
  const char *in; /* what has not been read yet, */
  size_t left;    /* and how many bytes that is */
  bool bad;       /* the bytes do not hold what was asked for */
} Archive;

Archive archive_writer(Text *out);
Archive archive_reader(const char *bytes, size_t n);

void archive_doubles(Archive *a, double *x, size_t n);
void archive_double(Archive *a, double *x);
void archive_long(Archive *a, long *x);
void archive_bool(Archive *a, bool *x);
void archive_word(Archive *a, uint64_t *x);
/* A count; one above `most` is bad when it is read, and then 0, so that it may be used at once. */
void archive_count(Archive *a, size_t *n, size_t most);
/* Bytes of any kind, with their number. When they are read, t is emptied first. */
void archive_bytes(Archive *a, Text *t);

#endif
