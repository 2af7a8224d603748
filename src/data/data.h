/* data.h: Data, the second noun: what the user measured, by name; and Split, which rows are for
 * what.
 *
 *   data_read      a Stan JSON or CSV file, or a dump of R -> Data
 *   data_bind      Data x declaration -> the values of a data-block variable, in its layout
 *   data_check_*   values x what is declared of them -> errors
 *   split_*        parts of the rows: train, valid, test
 *
 * Data is frozen when data_read returns. Values are doubles, row-major; integers are marked as
 * such; whoever binds them shares them. The text of the file is kept for messages until
 * data_forget_text.
 */
#ifndef PVI_DATA_H
#define PVI_DATA_H

#include "base/base.h"
#include "data/json.h"
#include "stan/stan.h"

typedef struct DataVar {
  const char *name; /* item k of a tuple x is the variable "x.k"; of an array of tuples too, the
                       array's dims in front */
  Loc loc;
  bool is_int;   /* every value is an integer of 32 bits written without dot or exponent */
  Loc real_at;   /* the first value that is not */
  Loc nan_at;    /* the first value that is NaN; without a source: none is */
  bool is_tuple; /* no values of its own: see name.1, name.2, ... */
  int ndims;
  long dims[JSON_MAX_DIMS];
  size_t n;
  double *values;      /* row-major */
  const char *problem; /* a CSV column with a cell that is no number: what and where; reported when
                          the column is used */
  Loc problem_at;
} DataVar;

typedef struct DataText DataText;

typedef struct Data {
  const Source *source;        /* NULL: data_empty */
  DataText *text;              /* of the source; NULL: data_empty */
  Map vars;                    /* name -> DataVar */
  long rows;                   /* of a CSV; -1 otherwise */
  const char *const *declared; /* what the program wants; NULL: not known */
  size_t ndeclared;
} Data;

typedef struct {
  const char *const
      *sets; /* "N=19", "x=[1,2]": values given beside the file; they win over the file's */
  int nsets;
  const char *const *declared; /* the variables of the data block; NULL: not known */
  size_t ndeclared;
} DataOptions;

/* .csv, .json and .R by extension, else by content. o may be NULL. ctx_fail(PVI_DATA) when
 * unreadable or malformed. */
Data *data_read(Ctx *c, const char *path, const DataOptions *o);
Data *data_read_text(Ctx *c, const char *name, const char *text,
                     const DataOptions *o); /* the same, from memory */
Data *data_empty(Ctx *c);
Data *data_from_sets(Ctx *c, const DataOptions *o);        /* no file, only --set */
const DataVar *data_find(const Data *d, const char *name); /* NULL when absent */
long data_rows(const Data *d);                             /* of a CSV; -1 otherwise */
/* What was read, byte by byte; NULL: nothing, or it was forgotten. */
const char *data_bytes(const Data *d, size_t *n);
/* All is bound: messages about places in the file will not show its lines. Data and their values
 * stay. */
void data_forget_text(Data *d);

/* The values of a data-block variable whose sizes are dims: array sizes, then those of vector or
 * matrix. Complex types: re, im pairs. On a wrong or missing variable ctx_error (naming variable,
 * type, declaration, what the file has) and NULL. */
const double *data_bind(Ctx *c, const Data *d, const Decl *decl, int ndims, const long *dims);
/* The same for an item of a tuple: name "x.1", decl its item. */
const double *data_bind_as(Ctx *c, const Data *d, const char *name, const Decl *decl, int ndims,
                           const long *dims);

/* ---- do values keep what is declared? (check_values.c) --------------------------------------- */

/* Values of a variable, row-major. */
typedef struct {
  const char *whose; /* for messages: "the data" violate their declaration */
  const char *name;
  const Decl *decl;
  int ndims;
  const long *dims;
  const double *v;
} DataValues;

typedef struct {
  const double *v;
  size_t n; /* 0: there is none; 1: for all; else as many as values, or as each item of an array */
} DataBound;

/* ctx_error when a value is outside of its bounds (NaN always is), naming variable, index, value
 * and bound. */
void data_check_bounds(Ctx *c, const DataValues *x, DataBound lower, DataBound upper);
/* ctx_error when values lack the structure (simplex, ordered, cov_matrix, ...) that decl->con
 * declares. Stan's tolerance (1e-8). */
void data_check_structure(Ctx *c, const DataValues *x);

/* A declared type with its sizes: "array[3] vector[2]". */
const char *data_type_text(Ctx *c, const Type *type, int ndims, const long *dims);

/* ---- splits ---------------------------------------------------------------------------------- */

typedef enum { PART_TRAIN, PART_VALID, PART_TEST, PART_COUNT } Part;
extern const char *const part_names[PART_COUNT]; /* train valid test */

typedef struct Split {
  size_t n; /* rows in all; a row may be in no part */
  size_t count[PART_COUNT];
  size_t *rows[PART_COUNT]; /* 0-based, in the file's order */
} Split;

/* {"train":[1-based rows],"valid":[..],"test":[..]}; ctx_fail(PVI_DATA) on rows outside 1..n,
 * duplicates, overlaps. */
Split *split_read(Ctx *c, const char *path, size_t n);
Split *split_read_text(Ctx *c, const char *name, const char *text, size_t n);
Split *split_all(Ctx *c, size_t n); /* every row trains */
Split *split_holdout(Ctx *c, size_t n, double fraction,
                     uint64_t seed); /* a random test part; the rest trains */
Split *split_fold(Ctx *c, size_t n, size_t folds, size_t k,
                  uint64_t seed); /* fold k (0-based) tests; the rest trains */

#endif
