/* run_q.c: a run's q as q.json, and back: family, shape, which parameters are points, phi. */
#include "run/run.h"

#include <string.h>
#include <sys/stat.h>

/* ---- writing --------------------------------------------------------------------------------- */

/* The names of the parameters' output columns, as people write them. */
static const char *const *columns_of(Ctx *c, const Run *r, size_t *n) {
  *n = 0;
  if (!r->problem) return NULL; /* a simulator's */
  const Model *m = r->problem->model;
  while (*n < model_output_count(m) && model_output_is_parameter(m, *n)) ++*n;
  const char **names = NEW_ARRAY(&c->arena, const char *, *n + 1);
  for (size_t k = 0; k < *n; k++) names[k] = model_output_name(m, &c->arena, k, false);
  return names;
}

static QArray scalar(Ctx *c, const char *name, double x) {
  double *v = NEW(&c->arena, double);
  *v = x;
  return (QArray){name, Q_SCALAR, 1, 1, v};
}

static QArrays shape_arrays(Ctx *c, const Shape *shape) {
  QArray *a = NEW_ARRAY(&c->arena, QArray, SHAPE_FIELDS);
  Shape s = *shape;
  for (int k = 0; k < SHAPE_FIELDS; k++)
    a[k] = scalar(c, shape_fields[k].name, (double)*shape_number(&s, k));
  return (QArrays){a, SHAPE_FIELDS};
}

static Shape shape_from(const QArrays *g, size_t dim) {
  Shape s = {.dim = dim};
  for (int k = 0; k < SHAPE_FIELDS; k++)
    *shape_number(&s, k) = (size_t)q_number(g, shape_fields[k].name, 0);
  return s;
}

static QArrays scoring_arrays(Ctx *c, const ScoringPlan *s) {
  QArray *a = NEW_ARRAY(&c->arena, QArray, 5);
  a[0] = scalar(c, "integrate", s->integrate);
  a[1] = scalar(c, "draws", (double)s->draws);
  a[2] = scalar(c, "metric_draws", (double)s->metric_draws);
  a[3] = scalar(c, "seed", (double)s->seed);
  a[4] = scalar(c, "alpha", s->alpha);
  return (QArrays){a, 5};
}

/* The family's slices of phi, behind means and standard deviations for readers; then the parameters
 * estimated as points: which they are, counted from 1, and their values. */
static QArrays parameter_arrays(Ctx *c, const Run *r) {
  const Q *q = &r->q;
  QArray *a = NEW_ARRAY(&c->arena, QArray, FAMILY_PARTS + 4);
  double *mean = NEW_ARRAY(&c->arena, double, q->dim + 1);
  double *sd = NEW_ARRAY(&c->arena, double, q->dim + 1);
  q_moments(q, r->phi, mean, sd);
  a[0] = (QArray){"means", Q_VECTOR, q->dim, 1, mean};
  a[1] = (QArray){"sds", Q_VECTOR, q->dim, 1, sd};
  size_t n = 2;
  FamilyPart parts[FAMILY_PARTS];
  int nparts = family_of(q->family)->parts(&q->shape, parts);
  for (int k = 0; k < nparts; k++)
    a[n++] = (QArray){parts[k].name, parts[k].cols == 1 ? Q_VECTOR : Q_MATRIX, parts[k].rows,
                      parts[k].cols, r->phi + parts[k].offset};
  if (q->npoint) {
    double *index = NEW_ARRAY(&c->arena, double, q->npoint);
    for (size_t k = 0; k < q->npoint; k++) index[k] = (double)q->point[k] + 1;
    a[n++] = (QArray){"points", Q_VECTOR, q->npoint, 1, r->phi + q_size(q) - q->npoint};
    a[n++] = (QArray){"point_index", Q_VECTOR, q->npoint, 1, index};
  }
  return (QArrays){a, n};
}

void qfile_write(Ctx *c, RunDir *d, const Run *r) {
  ReportKey keys[] = {{"score", r->summary->score},
                      {"family", r->summary->family},
                      {"regularizer", r->summary->regularizer},
                      {"lambda", arena_format(&c->arena, "%g", r->summary->lambda)},
                      {"program_hash", r->program_origin.hash},
                      {"data_hash", r->data_origin.hash}};
  QFile f = {.family = family_name(r->q.family),
             .dim = r->q.dim,
             .names = r->parameters,
             .keys = keys,
             .nkeys = sizeof keys / sizeof *keys,
             .shape = shape_arrays(c, &r->q.shape),
             .scoring = scoring_arrays(c, &r->scoring),
             .parameters = parameter_arrays(c, r)};
  f.columns = columns_of(c, r, &f.ncolumns);
  q_write(d, &f);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Which of the dim parameters are points; NULL: none. */
static const bool *point_flags(Ctx *c, const QFile *f, const char *path) {
  const QArray *index = q_array(&f->parameters, "point_index");
  if (!index) return NULL;
  bool *flags = NEW_ARRAY(&c->arena, bool, f->dim + 1);
  for (size_t k = 0; k < q_array_count(index); k++) {
    double x = index->values[k];
    if (!(x >= 1 && x <= (double)f->dim) || x != (double)(size_t)x || flags[(size_t)x - 1])
      ctx_fail(c, PVI_DATA, NOWHERE, "%s: \"point_index\" has %g, which is no parameter", path, x);
    flags[(size_t)x - 1] = true;
  }
  return flags;
}

/* phi from the slices of a file, by name. */
static double *phi_from(Ctx *c, const QFile *f, const Q *q, const char *path) {
  FamilyPart parts[FAMILY_PARTS];
  int n = family_of(q->family)->parts(&q->shape, parts);
  double *phi = NEW_ARRAY(&c->arena, double, q_size(q));
  for (int k = 0; k < n + (q->npoint != 0); k++) {
    FamilyPart p = k < n ? parts[k] : (FamilyPart){"points", q_size(q) - q->npoint, q->npoint, 1};
    const QArray *a = q_array(&f->parameters, p.name);
    if (!a || q_array_count(a) != p.rows * p.cols)
      ctx_fail(c, PVI_DATA, NOWHERE, "%s: \"%s\" must have %zu numbers", path, p.name,
               p.rows * p.cols);
    memcpy(phi + p.offset, a->values, p.rows * p.cols * sizeof *phi);
  }
  return phi;
}

/* A shape that a file may ask for: its numbers are whole and not absurd. */
static void check_shape(Ctx *c, const QFile *f, const char *path) {
  for (size_t k = 0; k < f->shape.count; k++) {
    const QArray *a = &f->shape.items[k];
    double x = a->shape == Q_SCALAR ? a->values[0] : -1;
    if (!(x >= 0 && x <= 1e6 && x == (double)(long)x))
      ctx_fail(c, PVI_DATA, NOWHERE, "%s: \"%s\" of the shape is not a size", path, a->name);
  }
  if (f->dim > 100000000)
    ctx_fail(c, PVI_DATA, NOWHERE, "%s: %zu dimensions are too many", path, f->dim);
}

static FamilyId family_from(Ctx *c, const QFile *f, const char *path) {
  FamilyId family;
  if (!family_find(f->family, &family))
    ctx_fail(c, PVI_DATA, NOWHERE, "%s: \"%s\" is not a family", path, f->family);
  return family;
}

static Q q_from(Ctx *c, const QFile *f, const char *path) {
  check_shape(c, f, path);
  const bool *flags = point_flags(c, f, path);
  size_t points = 0;
  for (size_t k = 0; flags && k < f->dim; k++) points += flags[k];
  return q_make(&c->arena, family_from(c, f, path), shape_from(&f->shape, f->dim - points), f->dim,
                flags);
}

static const char *path_of(Ctx *c, const char *given) {
  struct stat st;
  bool folder = stat(given, &st) == 0 && S_ISDIR(st.st_mode);
  return folder ? arena_format(&c->arena, "%s/q.json", given) : given;
}

void qfile_read(Ctx *c, const char *given, Run *r) {
  const char *path = path_of(c, given);
  const QFile *f = q_read(c, path);
  r->q = q_from(c, f, path);
  r->phi = phi_from(c, f, &r->q, path);
  r->parameters = f->names;
  r->scoring = (ScoringPlan){.integrate = (Integrate)q_number(&f->scoring, "integrate", 0),
                             .draws = (size_t)q_number(&f->scoring, "draws", 16384),
                             .metric_draws = (size_t)q_number(&f->scoring, "metric_draws", 1024),
                             .seed = (uint64_t)q_number(&f->scoring, "seed", 1),
                             .alpha = q_number(&f->scoring, "alpha", 0.1)};
}

const double *qfile_start(Ctx *c, const char *given, const Q *q) {
  const char *path = path_of(c, given);
  const QFile *f = q_read(c, path);
  if (strcmp(f->family, family_name(q->family)) != 0)
    ctx_fail(c, PVI_DATA, NOWHERE,
             "%s holds a %s, but this fit is of a %s; give " OPTION("family") " %s", path,
             f->family, family_name(q->family), f->family);
  return phi_from(c, f, q, path);
}
