/* row_blocks.h: loops over blocks of rows by vectors of lanes that are held in registers, for files
 * that are compiled per instruction set. */
#ifndef PVI_NUM_ROW_BLOCKS_H
#define PVI_NUM_ROW_BLOCKS_H

#include "num/vmath.h"

enum {
  ROWS_AT_ONCE = VL == 8 ? 8 : 4
}; /* with two vectors of lanes each they fill the registers */

/* All rows i < R and vectors v < C of a block. */
#define BLOCK(i, v) V_UNROLL for (int i = 0; i < R; i++) V_UNROLL for (int v = 0; v < C; v++)

/* Runs step(R, C) over all rows i and lanes j: as many rows at once as fit, then four, then one. */
#define IN_BLOCKS(rows, n, i, j, step)                                                             \
  for (size_t j = 0; j < (n);) {                                                                   \
    size_t i = 0;                                                                                  \
    if ((n)-j >= 2 * VL) {                                                                         \
      for (; i + ROWS_AT_ONCE <= (rows); i += ROWS_AT_ONCE) step(ROWS_AT_ONCE, 2);                 \
      for (; i + 4 <= (rows); i += 4) step(4, 2);                                                  \
      for (; i < (rows); i++) step(1, 2);                                                          \
      j += 2 * VL;                                                                                 \
    } else {                                                                                       \
      for (; i + ROWS_AT_ONCE <= (rows); i += ROWS_AT_ONCE) step(ROWS_AT_ONCE, 1);                 \
      for (; i + 4 <= (rows); i += 4) step(4, 1);                                                  \
      for (; i < (rows); i++) step(1, 1);                                                          \
      j += VL;                                                                                     \
    }                                                                                              \
  }

#endif
