/* example.h: what the example programs share: random numbers, data as JSON text, options, stopping on errors. */
#ifndef PVI_EXAMPLE_H
#define PVI_EXAMPLE_H

#include <math.h>
#include <pvi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNUSED __attribute__((unused))

/* ---- random numbers: a state that the caller seeds ---------------------------------------------------------------- */

UNUSED static double random_uniform(uint64_t *state) { /* splitmix64; in (0, 1) */
  uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
  return ((double)((z ^ z >> 31) >> 12) + 0.5) * 0x1p-52;
}

UNUSED static double random_normal(uint64_t *state) { /* Box and Muller */
  double r = sqrt(-2 * log(random_uniform(state))), a = 2 * M_PI * random_uniform(state);
  return r * cos(a);
}

/* Bailey (1994): Student's t from two uniforms. */
UNUSED static double random_student_t(uint64_t *state, double df) {
  double u = random_uniform(state), a = 2 * M_PI * random_uniform(state);
  return sqrt(df * (pow(u, -2 / df) - 1)) * cos(a);
}

/* ---- data as JSON ------------------------------------------------------------------------------------------------- */

typedef struct {
  FILE *f;
  char *text;
  size_t length;
  int items;
} Json;

UNUSED static Json *json_begin(void) {
  Json *j = calloc(1, sizeof *j);
  j->f = open_memstream(&j->text, &j->length);
  fputc('{', j->f);
  return j;
}
UNUSED static void json_name(Json *j, const char *name) { fprintf(j->f, "%s\"%s\": ", j->items++ ? ", " : "", name); }
UNUSED static void json_int(Json *j, const char *name, size_t x) {
  json_name(j, name);
  fprintf(j->f, "%zu", x);
}
/* rows x cols numbers, row by row; a flat array when cols is 0 */
UNUSED static void json_rows(Json *j, const double *x, size_t rows, size_t cols) {
  size_t each = cols ? cols : 1;
  fputc('[', j->f);
  for (size_t r = 0; r < rows; r++) {
    fputs(r ? "," : "", j->f);
    if (cols) fputc('[', j->f);
    for (size_t k = 0; k < each; k++) fprintf(j->f, "%s%.9g", k ? "," : "", x[r * each + k]);
    if (cols) fputc(']', j->f);
  }
  fputc(']', j->f);
}
UNUSED static void json_array(Json *j, const char *name, const double *x, size_t rows, size_t cols) {
  json_name(j, name);
  json_rows(j, x, rows, cols);
}
/* The text; json_free frees it. */
UNUSED static const char *json_end(Json *j) {
  fputs("}\n", j->f);
  fclose(j->f);
  return j->text;
}
UNUSED static void json_free(Json *j) {
  free(j->text);
  free(j);
}

/* ---- programs, errors, options ------------------------------------------------------------------------------------ */

_Noreturn UNUSED static void stop(const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  vfprintf(stderr, fmt, ap);
  va_end(ap);
  fputc('\n', stderr);
  exit(1);
}

UNUSED static char *read_text(const char *path) { /* the caller frees it */
  FILE *f = fopen(path, "r");
  if (!f) stop("cannot read %s: run this program from the root of the repository", path);
  char *text = calloc(1, 1 << 16);
  size_t n = fread(text, 1, (1 << 16) - 1, f);
  fclose(f);
  text[n] = 0;
  return text;
}

/* A program file with data made here. */
UNUSED static pvi_model *load(pvi_context *c, const char *program_file, Json *data) {
  pvi_model *m;
  char *program = read_text(program_file);
  if (pvi_load_text(c, program, json_end(data), &m)) stop("%s", pvi_error(c));
  free(program);
  json_free(data);
  return m;
}

/* A fit that did not converge is counted; any other trouble stops the program. */
UNUSED static pvi_result fit(pvi_context *c, pvi_model *m, const pvi_options *o, int *unconverged) {
  pvi_result r;
  int status = pvi_fit(c, m, o, &r);
  if (status && status != PVI_STATUS_NOT_CONVERGED) stop("%s", pvi_error(c));
  *unconverged += status == PVI_STATUS_NOT_CONVERGED;
  if (status && getenv("VERBOSE")) fprintf(stderr, "%s\n", r.reason);
  return r;
}

/* The value of --name=X or --name X; otherwise `usual`. */
UNUSED static double option(int argc, char **argv, const char *name, double usual) {
  size_t n = strlen(name);
  for (int k = 1; k < argc; k++) {
    if (strncmp(argv[k], "--", 2) != 0 || strncmp(argv[k] + 2, name, n) != 0) continue;
    if (argv[k][n + 2] == '=') return atof(argv[k] + n + 3);
    if (!argv[k][n + 2] && k + 1 < argc) return atof(argv[k + 1]);
  }
  return usual;
}

UNUSED static double *numbers(size_t n) {
  double *x = calloc(n ? n : 1, sizeof *x);
  if (!x) stop("no memory");
  return x;
}

/* ---- means and deviations ----------------------------------------------------------------------------------------- */

UNUSED static double mean_of(const double *x, size_t n) {
  double s = 0;
  for (size_t k = 0; k < n; k++) s += x[k];
  return s / (double)n;
}
UNUSED static double sd_of(const double *x, size_t n) {
  double m = mean_of(x, n), s = 0;
  for (size_t k = 0; k < n; k++) s += (x[k] - m) * (x[k] - m);
  return n > 1 ? sqrt(s / (double)(n - 1)) : 0;
}

#endif
