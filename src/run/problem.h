/* problem.h: Problem, a program with its data as a Model, and what they were: names, files, hashes.
 *
 * A Problem is never changed once it is made; runs of it, in any thread, share it.
 */
#ifndef PVI_PROBLEM_H
#define PVI_PROBLEM_H

#include "data/data.h"
#include "model/model.h"
#include "run/options.h"

enum { HASH_CHARS = 17 }; /* 64 bits in hexadecimal, and the end of the text */

/* A text that went into a fit. */
typedef struct {
  const char *shown;     /* as the user named it; "program" or "data" for a text from memory */
  const char *path;      /* absolute; NULL: from memory, or nothing */
  char hash[HASH_CHARS]; /* of what it says; "" for nothing */
} Origin;

typedef struct {
  const char *name; /* the program's file without its folder and ending */
  const Program *program;
  const Data *data;
  const Model *model;
  Origin program_origin, data_origin;
} Problem;

/* Where a Problem comes from: two files, or two texts. data may be NULL. */
typedef struct {
  const char *program, *data;
  bool text;
  bool outcomes_may_be_missing; /* for predictions: see ModelOptions */
  bool data_is_file;            /* also where the program is a text */
  uint64_t seed;                /* of transformed data; 0: as always */
  const char *name; /* what a text of a program is called in messages; NULL: "program" */
} ProblemSource;

/* Errors in the program end with PVI_PROGRAM, in the data with PVI_DATA. Everything lives in c. */
Problem *problem_load(Ctx *c, const ProblemSource *s, const Options *o);
/* The same program and data with other values of one known variable, as many as it has. */
Problem *problem_with(Ctx *c, const Problem *p, const Options *o, const Decl *variable,
                      const double *values);
/* Another program's text with the same data. Errors end with PVI_PROGRAM. */
Problem *problem_of_text(Ctx *c, const Problem *p, const Options *o, const char *text);
/* Only the program, parsed and checked; how it is to be read. */
StanOptions problem_stan_options(const Options *o);
Program *problem_program(Ctx *c, const ProblemSource *s, const Options *o);
/* ctx_fail: why there is nothing to predict: an outcome is empty, or no density is of data. */
_Noreturn void problem_no_observations(Ctx *c, const Problem *p);
bool problem_is_program(const char *path); /* by its ending */
/* The name without folder and ending. */
const char *problem_base_name(Arena *a, const char *path);

#endif
