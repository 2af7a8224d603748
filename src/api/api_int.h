/* api_int.h: what the calls of include/pvi.h share. */
#ifndef PVI_API_INT_H
#define PVI_API_INT_H

#include "pvi.h"

#include "model/density.h"

struct pvi_context {
  Ctx ctx;
  char *error; /* of the last call */
  size_t nerror;
};

struct pvi_model {
  const Program *program;
  Data *data;
  const Model *model;
  const char **names; /* of the unconstrained parameters */
  Density *density;   /* made when first needed */
};

/* Runs a step under a trap of its own: a jump out of it becomes the status, and the messages become
 * text. */
typedef void ApiStep(pvi_context *c, void *arg);
int api_run(pvi_context *c, ApiStep *step, void *arg);

#endif
