/* coordinates.h: Coordinates, the space in which chains move: the program's unconstrained
 * parameters, or those of hierarchies partly non-centred (model/centring.h).
 *
 * Which share of each is best is seen from draws (coordinates_choose). What comes of sampling is in
 * the program's coordinates, whatever chains have moved in.
 */
#ifndef PVI_COORDINATES_H
#define PVI_COORDINATES_H

#include "infer/archive.h"
#include "infer/observed.h"
#include "model/centring.h"

typedef struct {
  const Centring *centring;
  double *share; /* c of each parameter of centring; all 0: the program's coordinates */
  bool moved;    /* some are above 0 */
  /* location and log scale, each once, and which of them a parameter has */
  Work *work;
  size_t lanes, dim;
  int32_t *location, *scale;
  size_t nlocations, nscales;
  double *moving; /* [dim x lanes] */
} Coordinates;

/* The program's. NULL: there are no others. */
Coordinates *coordinates_make(Arena *a, const Model *m);
void coordinates_state(Coordinates *x, Archive *a);

/* A point, and the log density there, which changes with the coordinates; NULL: it is not known. */
typedef struct {
  double *theta, *lp;
} MovedPoint;
void coordinates_leave(const Coordinates *x, const MovedPoint *p, size_t n); /* to the program's */
void coordinates_enter(const Coordinates *x, const MovedPoint *p, size_t n); /* and from there */

/* The shares by draws in the program's coordinates; a parameter is moved where that makes its draws
 * more like a normal, by `least` nats each. False: all stay as they are. */
bool coordinates_choose(Arena *work, Coordinates *x, const MovedPoint *draws, size_t n,
                        double least);
/* The observations of the posterior in these coordinates. */
const Observed *coordinates_observed(Arena *a, const Coordinates *x, const Observed *o);

#endif
