/* draws.h: Draws, the last noun: draws of the program's output variables under q (or the
 * posterior), and what goes with each.
 */
#ifndef PVI_DRAWS_H
#define PVI_DRAWS_H

#include "base/base.h"

typedef struct {
  const char *name;     /* ends in __ */
  const double *values; /* ndraws */
} DrawsColumn;

typedef struct Draws {
  size_t ndraws, ncols;
  const char *const *names; /* ncols, as CmdStan dots them: theta.2.1, tuples x:1.2 */
  const double *values;     /* [ndraws x ncols] row-major */
  const double
      *log_p; /* ndraws: log joint on the unconstrained scale with Jacobian (NUTS: lp__); NULL: 0 */
  const double *log_g;        /* ndraws: log q; NULL: 0 */
  const double *mean;         /* ncols: at the mean of q; NULL: the mean of the draws */
  const DrawsColumn *columns; /* NUTS: the method's columns */
  size_t ncolumns;
  const char *footer; /* comments behind the draws; NULL: none */
} Draws;

/* theta.2.1 as people write it: theta[2,1]; x.1:2.3 is x[1].2[3]. */
const char *draws_pretty_name(Arena *a, const char *dotted);

#endif
