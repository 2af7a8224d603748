/* bench_loading.c: what it costs to read a data file, against a plain read of its bytes.
 *
 *   bench_loading FOLDER [ROWS]   two columns of ROWS numbers (1e6), as JSON and as CSV, are
 * written to FOLDER, read, and removed
 *
 * Each reading is a process of its own, so that its times and its peak memory are its own. Memory
 * is told in units of the numbers themselves: the text is as large as they are, about.
 */
#include "data/data.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATH = 4096, COLUMNS = 2 };

typedef struct {
  double user, system, memory; /* seconds; bytes at most */
} Cost;

static double seconds(struct timeval t) { return (double)t.tv_sec + 1e-6 * (double)t.tv_usec; }

static void read_plain(const char *path) {
  static char piece[1 << 20];
  int f = open(path, O_RDONLY);
  if (f < 0) exit(1);
  while (read(f, piece, sizeof piece) > 0) continue;
  close(f);
}

static void read_data(const char *path) {
  Ctx c;
  jmp_buf trap;
  ctx_init(&c);
  c.trap = &trap;
  if (setjmp(trap)) exit(1);
  data_read(&c, path, NULL);
}

static Cost cost_of(void (*reading)(const char *), const char *path) {
  struct rusage u;
  int status;
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    reading(path);
    _exit(0);
  }
  if (child < 0 || wait4(child, &status, 0, &u) < 0 || status != 0) {
    fprintf(stderr, "bench_loading: %s cannot be read\n", path);
    exit(1);
  }
  return (Cost){seconds(u.ru_utime), seconds(u.ru_stime), 1024.0 * (double)u.ru_maxrss};
}

/* The least of a few readings, each number by itself. */
static Cost least_cost(void (*reading)(const char *), const char *path) {
  Cost least = cost_of(reading, path);
  for (int k = 0; k < 4; k++) {
    Cost c = cost_of(reading, path);
    if (c.user < least.user) least.user = c.user;
    if (c.system < least.system) least.system = c.system;
    if (c.memory < least.memory) least.memory = c.memory;
  }
  return least;
}

static double number(size_t row, size_t column) {
  return (double)(row * 7919 + column * 104729) / 1e4 - 20 * (double)(row % 391);
}

static void write_json(FILE *f, size_t rows) {
  fprintf(f, "{\"N\": %zu", rows);
  for (size_t k = 0; k < COLUMNS; k++) {
    fprintf(f, ",\n\"x%zu\": [", k);
    for (size_t r = 0; r < rows; r++) fprintf(f, "%s%.4f", r ? "," : "", number(r, k));
    fprintf(f, "]");
  }
  fprintf(f, "}\n");
}

static void write_csv(FILE *f, size_t rows) {
  fprintf(f, "x0,x1\n");
  for (size_t r = 0; r < rows; r++) fprintf(f, "%.4f,%.4f\n", number(r, 0), number(r, 1));
}

static void compare(const char *folder, const char *name, void (*write)(FILE *, size_t),
                    size_t rows) {
  char path[PATH];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = fopen(path, "w");
  if (!f) {
    perror(path);
    exit(1);
  }
  write(f, rows);
  fclose(f);
  Cost plain = least_cost(read_plain, path), data = least_cost(read_data, path);
  double all = plain.user + plain.system, numbers = (double)(rows * COLUMNS) * sizeof(double);
  remove(path);
  printf("  %-10s %.3f s user, %.3f s system, %.0f times a plain read; memory %.2f times that of "
         "the numbers\n",
         name, data.user, data.system, (data.user + data.system) / (all > 0 ? all : 1e-3),
         (data.memory - plain.memory) / numbers);
}

int main(int argc, char **argv) {
  size_t rows = argc > 2 ? (size_t)atof(argv[2]) : 1000000;
  if (argc < 2) {
    fprintf(stderr, "usage: bench_loading FOLDER [ROWS]\n");
    return 2;
  }
  printf("reading %d columns of %zu numbers\n", COLUMNS, rows);
  compare(argv[1], "data.json", write_json, rows);
  compare(argv[1], "data.csv", write_csv, rows);
  return 0;
}
