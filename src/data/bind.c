/* bind.c: Data x declaration -> values, or an error that names both sides. */
#include "data/data_int.h"

#include <math.h>
#include <string.h>

/* ---- words for messages ---------------------------------------------------------------------- */

static const char *kind_name(TypeKind k) {
  switch (k) {
  case TY_INT: return "int";
  case TY_REAL: return "real";
  case TY_COMPLEX: return "complex";
  case TY_VECTOR: return "vector";
  case TY_ROW_VECTOR: return "row_vector";
  case TY_MATRIX: return "matrix";
  case TY_COMPLEX_VECTOR: return "complex_vector";
  case TY_COMPLEX_ROW_VECTOR: return "complex_row_vector";
  case TY_COMPLEX_MATRIX: return "complex_matrix";
  case TY_TUPLE: return "tuple";
  default: return "?";
  }
}

static void put_dims(Text *t, int n, const long *dims) {
  text_puts(t, "[");
  for (int k = 0; k < n; k++) text_printf(t, "%s%ld", k ? "," : "", dims[k]);
  text_puts(t, "]");
}

const char *data_type_text(Ctx *c, const Type *type, int ndims, const long *dims) {
  Text t = text_make(&c->arena);
  int narray = type->array_dims < ndims ? type->array_dims : ndims;
  if (narray) {
    text_puts(&t, "array");
    put_dims(&t, narray, dims);
    text_puts(&t, " ");
  }
  text_puts(&t, kind_name(type->kind));
  if (ndims > narray) put_dims(&t, ndims - narray, dims + narray);
  return t.s;
}

static const char *declared_at(Ctx *c, const Decl *decl) {
  if (!decl->loc.source) return "";
  return arena_format(&c->arena, " (declared at %s:%u:%u)", decl->loc.source->name, decl->loc.line,
                      decl->loc.column);
}

/* What the file has: "a number", "5 numbers", "a 3 x 2 array of integers". */
static const char *has_text(Ctx *c, const DataVar *v) {
  const char *kind = v->is_int ? "integer" : "number";
  if (v->is_tuple) return "a tuple";
  if (v->ndims == 0) return v->is_int ? "an integer" : "a number";
  if (v->ndims == 1)
    return arena_format(&c->arena, "an array of %ld %s%s", v->dims[0], kind,
                        v->dims[0] == 1 ? "" : "s");
  Text t = text_make(&c->arena);
  text_puts(&t, "an array of ");
  for (int k = 0; k < v->ndims; k++) text_printf(&t, "%s%ld", k ? " x " : "", v->dims[k]);
  text_printf(&t, " %ss", kind);
  return t.s;
}

const char *data_element_name(Ctx *c, const char *name, int ndims, const long *dims, size_t i) {
  long index[64];
  if (ndims == 0 || ndims > 64) return name;
  for (int k = ndims; k-- > 0; i /= (size_t)dims[k]) index[k] = (long)(i % (size_t)dims[k]) + 1;
  Text t = text_make(&c->arena);
  text_puts(&t, name);
  put_dims(&t, ndims, index);
  return t.s;
}

/* ---- errors ---------------------------------------------------------------------------------- */

/* What a declaration asks for, in words and in numbers. */
typedef struct {
  const char *type;
  int ndims;
  const long *dims;
} Shape;

/* Something else is meant by what has its own place in the program. */
static bool is_declared(const Data *d, const char *name) {
  for (size_t k = 0; k < d->ndeclared; k++)
    if (!strcmp(d->declared[k], name)) return true;
  return false;
}

/* What to do about a variable without a value: another name is meant; a table has no single
 * numbers; or else what there is. */
static const char *missing_remedy(Ctx *c, const Data *d, const char *name, const Decl *decl) {
  enum { FEW = 12 };
  const char **names = NEW_ARRAY(&c->arena, const char *, d->vars.count + 1);
  size_t n = 0;
  for (size_t k = 0; k < d->vars.count; k++)
    if (!is_declared(d, d->vars.items[k].key)) names[n++] = d->vars.items[k].key;
  const char *near = text_nearest(name, names, n);
  if (near) return arena_format(&c->arena, "; did you mean its '%s'?", near);
  bool scalar =
      !decl->type->array_dims && (decl->type->kind == TY_INT || decl->type->kind == TY_REAL);
  if (scalar && d->rows >= 0)
    return arena_format(
        &c->arena,
        "; a table has columns, no single numbers: give it with " OPTION("set") " %s=NUMBER", name);
  if (!d->source || !d->vars.count || d->vars.count > FEW) return "";
  Text t = text_make(&c->arena);
  text_puts(&t, ", which has");
  for (size_t k = 0; k < d->vars.count; k++)
    text_printf(&t, "%s %s", k ? "," : "", d->vars.items[k].key);
  return t.s;
}

static void error_missing(Ctx *c, const Data *d, const char *name, const Decl *decl,
                          const char *type) {
  const char *where = d->source ? arena_format(&c->arena, "in '%s'", d->source->name)
                                : "because no data are given: a file of them (JSON, CSV or a dump "
                                  "of R) follows the program";
  ctx_error(c, decl->loc, "the data variable '%s' (%s) has no value %s%s", name, type, where,
            missing_remedy(c, d, name, decl));
}

static void error_real(Ctx *c, const DataVar *v, const char *name, const Decl *decl,
                       const char *type) {
  ctx_error(c, v->real_at,
            "'%s' is declared %s%s, but this value is not an integer (digits only, without '.' or "
            "exponent, of 32 bits)",
            name, type, declared_at(c, decl));
}

/* The two slips that are made most: R writes a number as an array of one, and a matrix is given by
 * its columns. */
static const char *shape_remedy(const DataVar *v, int ndims, const long *dims) {
  if (ndims == 0 && v->ndims == 1 && v->n == 1)
    return "; write the number without brackets (jsonlite does with auto_unbox = TRUE)";
  if (ndims == 1 && v->ndims == 0 && dims[0] == 1)
    return "; write it with brackets, as an array of one";
  if (ndims == 2 && v->ndims == 2 && dims[0] == v->dims[1] && dims[1] == v->dims[0])
    return "; its transpose would fit: in JSON a matrix is an array of its rows";
  return "";
}

static void error_shape(Ctx *c, const DataVar *v, const char *name, const Decl *decl,
                        const Shape *s) {
  ctx_error(c, v->loc, "'%s' is declared %s%s, but the data have %s%s", name, s->type,
            declared_at(c, decl), has_text(c, v), shape_remedy(v, s->ndims, s->dims));
}

/* Stan takes them, so they are no error: a program may look at some elements only. */
static void warn_nan(Ctx *c, const DataVar *v, const char *name) {
  size_t first = 0, more = 0;
  while (first < v->n && !isnan(v->values[first])) first++;
  for (size_t k = first + 1; k < v->n; k++) more += isnan(v->values[k]);
  const char *rest = more ? arena_format(&c->arena, " (as are %zu more)", more) : "";
  ctx_warn(c, v->nan_at,
           "%s is NaN%s, and so is every density that is computed from it: leave such rows out, or "
           "make missing values parameters",
           data_element_name(c, name, v->ndims, v->dims, first), rest);
}

/* ---- binding --------------------------------------------------------------------------------- */

static bool is_complex(TypeKind k) {
  return k == TY_COMPLEX || k == TY_COMPLEX_VECTOR || k == TY_COMPLEX_ROW_VECTOR ||
         k == TY_COMPLEX_MATRIX;
}

static bool is_empty(int ndims, const long *dims) {
  for (int k = 0; k < ndims; k++)
    if (dims[k] == 0) return true;
  return false;
}

/* Declared dims, complex numbers having a last one of 2, against the file's. A size of zero
 * anywhere is satisfied by any value that is itself empty; a CSV of one row gives scalars. */
static bool shape_fits(const Data *d, const DataVar *v, const Decl *decl, int ndims,
                       const long *dims) {
  bool complex = is_complex(decl->type->kind);
  if (v->is_tuple) return false;
  if (is_empty(ndims, dims)) return v->n == 0;
  if (d->rows == 1 && ndims == 0 && v->ndims == 1) return v->n == 1;
  if (v->ndims != ndims + complex) return false;
  for (int k = 0; k < ndims; k++)
    if (v->dims[k] != dims[k]) return false;
  return !complex || v->dims[ndims] == 2;
}

const double *data_bind_as(Ctx *c, const Data *d, const char *name, const Decl *decl, int ndims,
                           const long *dims) {
  const DataVar *v = data_find(d, name);
  const char *type = data_type_text(c, decl->type, ndims, dims);
  if (!v && is_empty(ndims, dims)) return NEW_ARRAY(&c->arena, double, 1);
  if (!v) {
    error_missing(c, d, name, decl, type);
  } else if (v->problem) {
    ctx_error(c, v->problem_at, "'%s'%s: %s", name, declared_at(c, decl), v->problem);
  } else if (!shape_fits(d, v, decl, ndims, dims)) {
    error_shape(c, v, name, decl, &(Shape){type, ndims, dims});
  } else if (decl->type->kind == TY_INT && !v->is_int) {
    error_real(c, v, name, decl, type);
  } else {
    if (v->nan_at.source) warn_nan(c, v, name);
    return v->values;
  }
  return NULL;
}

const double *data_bind(Ctx *c, const Data *d, const Decl *decl, int ndims, const long *dims) {
  return data_bind_as(c, d, decl->name, decl, ndims, dims);
}
