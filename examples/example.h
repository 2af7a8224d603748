/* example.h: what the example programs share: random numbers, data as JSON text, options, stopping
 * on errors. */
#ifndef PVI_EXAMPLE_H
#define PVI_EXAMPLE_H

#include <math.h>
#include <pvi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNUSED __attribute__((unused))

/* ---- random numbers: a state that the caller seeds ------------------------------------------- */

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

/* ---- data as JSON ---------------------------------------------------------------------------- */

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
UNUSED static void json_name(Json *j, const char *name) {
  fprintf(j->f, "%s\"%s\": ", j->items++ ? ", " : "", name);
}
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
UNUSED static void json_array(Json *j, const char *name, const double *x, size_t rows,
                              size_t cols) {
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

/* ---- programs, errors, options --------------------------------------------------------------- */

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

/* An option by name, its value formatted as printf does. */
__attribute__((format(printf, 3, 4))) UNUSED static void set(pvi_options *o, const char *name,
                                                             const char *fmt, ...) {
  char value[256];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(value, sizeof value, fmt, ap);
  va_end(ap);
  if (pvi_set(o, name, value)) stop("option %s: %s is not allowed", name, value);
}

/* The same where 0 is the library's own default. */
UNUSED static void set_count(pvi_options *o, const char *name, size_t value) {
  if (value) set(o, name, "%zu", value);
}

/* A program file with data made here. o: options of loading, or NULL. */
UNUSED static pvi_model *load(pvi_context *c, const char *program_file, Json *data,
                              const pvi_options *o) {
  pvi_model *m;
  char *program = read_text(program_file);
  if (pvi_load_text(c, program, json_end(data), o, &m)) stop("%s", pvi_error(c));
  free(program);
  json_free(data);
  return m;
}

/* A fit that did not converge is counted; any other trouble stops the program. */
UNUSED static pvi_run *fit(pvi_context *c, const pvi_model *m, const pvi_options *o,
                           const pvi_split *split, int *unconverged) {
  pvi_run *r;
  int status = pvi_fit(c, m, o, split, &r);
  if (status && status != PVI_STATUS_NOT_CONVERGED) stop("%s", pvi_error(c));
  *unconverged += status == PVI_STATUS_NOT_CONVERGED;
  return r;
}

/* A row of a program's options, all of them numbers. NAN is spelled "all". */
enum { REAL, WHOLE };
typedef struct {
  const char *name;
  double *value; /* the default, until read_options */
  double least, most;
  int kind;
  const char *meaning;
} Option;

UNUSED static void print_options(const char *program, const Option *o, size_t count) {
  printf("%s [options], from the root of the repository\n", program);
  for (size_t k = 0; k < count; k++) {
    char text[32];
    snprintf(text, sizeof text, isnan(*o[k].value) ? "all" : "%g", *o[k].value);
    printf("  --%s=%-*s %s\n", o[k].name, (int)(16 - strlen(o[k].name)), text, o[k].meaning);
  }
}

_Noreturn UNUSED static void misused(const char *program, const char *argument, const char *why) {
  fprintf(stderr, "%s: %s: %s (--help lists the options)\n", program, argument, why);
  exit(2);
}

UNUSED static void read_option(const char *program, const char *argument, const char *text,
                               const Option *o) {
  char *end, why[96];
  if (isnan(*o->value) && !strcmp(text, "all")) return;
  double x = strtod(text, &end);
  if (!*text || *end || !isfinite(x))
    misused(program, argument, "a number is expected, as in --name=1");
  snprintf(why, sizeof why, "must be %s from %g to %g",
           o->kind == WHOLE ? "a whole number" : "a number", o->least, o->most);
  if (x < o->least || x > o->most || (o->kind == WHOLE && x != floor(x)))
    misused(program, argument, why);
  *o->value = x;
}

/* --name=X, as the rows say; --help prints them. */
UNUSED static void read_options(int argc, char **argv, const Option *o, size_t count) {
  const char *slash = strrchr(argv[0], '/'), *program = slash ? slash + 1 : argv[0];
  for (int a = 1; a < argc; a++)
    if (!strcmp(argv[a], "--help")) print_options(program, o, count), exit(0);
  for (int a = 1; a < argc; a++) {
    size_t k = 0, n = strcspn(argv[a], "=");
    while (k < count && (strncmp(argv[a], "--", 2) || n != strlen(o[k].name) + 2 ||
                         strncmp(argv[a] + 2, o[k].name, n - 2)))
      k++;
    if (k == count) misused(program, argv[a], "there is no such option");
    read_option(program, argv[a], argv[a][n] ? argv[a] + n + 1 : "", &o[k]);
  }
}
#define READ_OPTIONS(argc, argv, rows) read_options(argc, argv, rows, sizeof(rows) / sizeof *(rows))

UNUSED static double *numbers(size_t n) {
  double *x = calloc(n ? n : 1, sizeof *x);
  if (!x) stop("no memory");
  return x;
}

/* ---- means and deviations -------------------------------------------------------------------- */

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
