/* bench_scaling.c: how the cost of value and gradient grows with observations, parameters, draws
 * and threads.
 *
 *   bench_scaling EXAMPLES     programs are EXAMPLES/paper/earnings.stan and so on; data are made
 * up here
 *
 * Through the public header alone. Exponents are of time between two sizes; where a bar is missed
 * the line says so.
 */
#include "pvi.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- data: Stan JSON, as text ---------------------------------------------------------------- */

typedef struct {
  char *s;
  size_t n, cap;
} Json;

static void put(Json *j, const char *text) {
  size_t n = strlen(text);
  if (j->n + n + 1 > j->cap) {
    j->cap = 2 * (j->cap + n + 1);
    j->s = realloc(j->s, j->cap);
    if (!j->s) exit(1);
  }
  memcpy(j->s + j->n, text, n + 1);
  j->n += n;
}

static void put_number(Json *j, const char *before, double x) {
  char text[64];
  snprintf(text, sizeof text, x == floor(x) ? "%s%.0f" : "%s%.6g", before, x);
  put(j, text);
}

static uint64_t state = 1;
static double uniform(void) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return ((double)(state >> 11) + 0.5) * 0x1p-53;
}
static double normal(void) {
  return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

static double a_height(void) { return 66 + 4 * normal(); }
static double a_sex(void) { return uniform() < 0.4; }
static double an_income(void) { return exp(9.5 + 0.9 * normal()); }
static double a_county(void) { return 1 + floor(386 * uniform()); }
static double a_floor(void) { return uniform() < 0.2; }
static double a_radon(void) { return 1.3 + 0.8 * normal(); }

static void put_column(Json *j, const char *name, size_t n, double (*draw)(void)) {
  put(j, ", \"");
  put(j, name);
  put(j, "\": [");
  for (size_t i = 0; i < n; i++) put_number(j, i ? "," : "", draw());
  put(j, "]");
}

static char *earnings(size_t n) {
  Json j = {0};
  put_number(&j, "{\"N\": ", (double)n);
  put_column(&j, "earn", n, an_income);
  put_column(&j, "height", n, a_height);
  put_column(&j, "male", n, a_sex);
  put(&j, "}");
  return j.s;
}

static char *radon(size_t n) {
  Json j = {0};
  put_number(&j, "{\"J\": 386, \"N\": ", (double)n);
  put_column(&j, "county_idx", n, a_county);
  put_column(&j, "floor_measure", n, a_floor);
  put_column(&j, "log_radon", n, a_radon);
  put(&j, "}");
  return j.s;
}

/* Four rows of d normals. */
static char *normals(size_t d) {
  Json j = {0};
  put_number(&j, "{\"n\": 4, \"d\": ", (double)d);
  put(&j, ", \"y\": [");
  for (int i = 0; i < 4; i++) {
    put(&j, i ? ",[" : "[");
    for (size_t k = 0; k < d; k++) put_number(&j, k ? "," : "", normal());
    put(&j, "]");
  }
  put(&j, "]}");
  return j.s;
}

/* ---- times ------------------------------------------------------------------------------------
 */

static const char *folder;

static char *read_program(const char *name) {
  char path[1024], *text = calloc(1, 1 << 16);
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = fopen(path, "r");
  if (!f || !text || !fread(text, 1, (1 << 16) - 1, f)) {
    fprintf(stderr, "cannot read %s\n", path);
    exit(1);
  }
  fclose(f);
  return text;
}

typedef struct {
  const char *score;
  size_t draws;
  int threads;
} Setting;

/* Milliseconds of several settings by turns, each the best of `rounds`. */
static void measure(const char *program, char *data, const Setting *s, int count, int rounds,
                    double *ms) {
  pvi_context *c = pvi_open();
  pvi_model *m;
  char *text = read_program(program);
  if (pvi_load_text(c, text, data, NULL, &m)) fprintf(stderr, "%s", pvi_error(c)), exit(1);
  for (int k = 0; k < count; k++) ms[k] = INFINITY;
  for (int r = 0; r < rounds; r++)
    for (int k = 0; k < count; k++) {
      double t;
      char draws[32], threads[32];
      pvi_options *o = pvi_options_new(c);
      snprintf(draws, sizeof draws, "%zu", s[k].draws);
      snprintf(threads, sizeof threads, "%d", s[k].threads);
      pvi_set(o, "score", s[k].score);
      pvi_set(o, "family", "meanfield");
      pvi_set(o, "threads", threads);
      pvi_set(o, "integrate", s[k].draws ? "draws" : "exact");
      if (s[k].draws) pvi_set(o, "draws", draws);
      if (pvi_time(c, m, o, &t)) fprintf(stderr, "%s", pvi_error(c)), exit(1);
      pvi_options_free(o);
      ms[k] = fmin(ms[k], 1e3 * t);
    }
  pvi_model_free(m);
  pvi_close(c);
  free(text);
  free(data);
}

static double time_one(const char *program, char *data, size_t draws, int rounds) {
  double ms;
  measure(program, data, &(Setting){"log", draws, 1}, 1, rounds, &ms);
  return ms;
}

static const char *verdict(bool ok) { return ok ? "" : "  MISSED"; }

static void by_observations(size_t draws) {
  static const size_t n[] = {1000, 10000, 100000, 1000000};
  double ms[4], lanes = draws ? (double)draws : 32;
  printf("observations (earnings, log score, %s, 1 thread)\n",
         draws ? "100 draws" : "exact, 32 nodes");
  for (int k = 0; k < 4; k++) {
    ms[k] = time_one("paper/earnings.stan", earnings(n[k]), draws, k < 3 ? 5 : 4);
    printf("  n %8zu %11.4f ms %8.3f ns per observation and %s\n", n[k], ms[k],
           1e6 * ms[k] / ((double)n[k] * lanes), draws ? "draw" : "node");
  }
  double exponent = log(ms[3] / ms[1]) / log(100);
  printf("  exponent from 1e4 to 1e6: %.3f (bar 0.95 to 1.05)%s\n", exponent,
         verdict(exponent >= 0.95 && exponent <= 1.05));
}

static void by_parameters(size_t draws) {
  static const size_t d[] = {1, 10, 100, 1000, 10000};
  double ms[5];
  printf("parameters (4 d independent normals, mean-field, log score, %s, 1 thread)\n",
         draws ? "100 draws" : "exact");
  for (int k = 0; k < 5; k++) {
    ms[k] = time_one("scalability/normal.stan", normals(d[k]), draws, 5);
    printf("  d %8zu %11.4f ms %8.3f us per parameter\n", d[k], ms[k], 1e3 * ms[k] / (double)d[k]);
  }
  double exponent = log(ms[4] / ms[2]) / log(100);
  printf("  exponent from 1e2 to 1e4: %.3f (bar 1.1)%s\n", exponent, verdict(exponent <= 1.1));
}

static void by_draws(void) {
  static const size_t M[] = {10, 100, 1000, 10000};
  printf("draws (earnings, n 716, log score, 1 thread)\n");
  for (int k = 0; k < 4; k++) {
    double ms = time_one("paper/earnings.stan", earnings(716), M[k], 3);
    printf("  M %8zu %11.4f ms %8.3f ns per observation and draw\n", M[k], ms,
           1e6 * ms / (716 * (double)M[k]));
  }
}

/* Jiffies of all processors so far, and those the host gave to others; 0 where that is not known.
 */
static void read_jiffies(double *all, double *stolen) {
  double x[8] = {0};
  FILE *f = fopen("/proc/stat", "r");
  *all = *stolen = 0;
  if (!f) return;
  if (fscanf(f, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", x, x + 1, x + 2, x + 3, x + 4, x + 5, x + 6,
             x + 7) == 8)
    *stolen = x[7];
  for (int k = 0; k < 8; k++) *all += x[k];
  fclose(f);
}

/* Two threads are as fast as the slower processor: on a virtual machine it matters how much of them
 * the host gave away. */
static void by_threads(void) {
  double ms[2], all[2], stolen[2];
  read_jiffies(&all[0], &stolen[0]);
  measure("paper/radon.stan", radon(12573), (Setting[]){{"log", 100, 1}, {"log", 100, 2}}, 2, 50,
          ms);
  read_jiffies(&all[1], &stolen[1]);
  printf("threads (radon, n 12573, log score, 100 draws)\n  1: %.4f ms, 2: %.4f ms, ratio %.2f "
         "(bar 1.7)%s\n",
         ms[0], ms[1], ms[0] / ms[1], verdict(ms[0] / ms[1] >= 1.7));
  printf("  meanwhile the host took %.1f%% of the processors' time\n",
         100 * (stolen[1] - stolen[0]) / (all[1] - all[0] + 1));
}

static void by_scores(void) {
  double ms[2];
  measure("paper/earnings.stan", earnings(716), (Setting[]){{"log", 100, 1}, {"crps_sim", 100, 1}},
          2, 10, ms);
  printf("scores (earnings, n 716, 100 draws)\n  log %.4f ms, crps_sim %.4f ms, ratio %.2f (bar "
         "10)%s\n",
         ms[0], ms[1], ms[1] / ms[0], verdict(ms[1] / ms[0] <= 10));
}

int main(int argc, char **argv) {
  folder = argc > 1 ? argv[1] : "examples";
  by_observations(100);
  by_observations(0);
  by_parameters(100);
  by_parameters(0);
  by_draws();
  by_threads();
  by_scores();
  return 0;
}
