/* data_int.h: what the files of this folder share. */
#ifndef PVI_DATA_INT_H
#define PVI_DATA_INT_H

#include "data/data.h"

Data *data_new(Ctx *c, const Source *source);
void data_add(Ctx *c, Data *d, const DataVar *v); /* replaces one of the same name */

/* Adds the members of an object of Stan JSON; collects errors. */
void data_add_json(Ctx *c, Data *d, const char *prefix, const Json *object);
void data_add_value(Ctx *c, Data *d, const char *name, Loc loc, const Json *value);

/* The columns of a CSV; ctx_fail when it is none. */
void data_add_csv(Ctx *c, Data *d, const Source *source);

/* What R's dump() writes, as Stan JSON in a's memory; ctx_fail with the place when it is none
 * (rdump.c). */
const char *rdump_json(Ctx *c, Arena *a, const Source *source);

/* Element i (row-major) of an array as "x[2,1]". */
const char *data_element_name(Ctx *c, const char *name, int ndims, const long *dims, size_t i);

#endif
