/* cmdstan_table.c: CmdStan's CSV files read again, of any method: the columns, the rows, and what
 * of the settings readers need (report.h). */
#include "data/json.h"
#include "report/report.h"

#include <stdlib.h>
#include <string.h>

/* # key = value (Default): the number behind a key, if it is the line's. */
static void take(const char *line, const char *key, double *to) {
  size_t n = strlen(key);
  line += strspn(line, "# \t");
  if (strncmp(line, key, n) != 0 || strncmp(line + n, " = ", 3) != 0) return;
  *to = strtod(line + n + 3, NULL);
}

static void read_comment(Ctx *c, CmdstanTable *t, const char *line) {
  if (!strncmp(line, "# model = ", 10))
    t->model = arena_text(&c->arena, line + 10, strcspn(line + 10, "\r\n"));
  take(line, "save_warmup", &t->save_warmup);
  take(line, "num_warmup", &t->num_warmup);
  take(line, "thin", &t->thin);
  take(line, "max_depth", &t->max_depth);
  take(line, "pvi_chains", &t->chains);
  const char *seconds = strstr(line, "seconds (Sampling)");
  size_t n = strcspn(line, "\n");
  if (seconds && seconds < line + n) t->seconds = strtod(line + strspn(line, "# \t"), NULL);
}

static const char *next_line(const char *at) {
  at += strcspn(at, "\n");
  return at + (*at != 0);
}

static void read_header(Ctx *c, CmdstanTable *t, const char *at) {
  size_t cap = 0;
  while (*at && *at != '\n' && *at != '\r') {
    size_t length = strcspn(at, ",\r\n");
    PUSH(&c->arena, t->names, t->ncols, cap, arena_text(&c->arena, at, length));
    at += length + (at[length] == ',');
  }
}

/* One line of numbers; false: it is none. */
static bool read_row(const char *at, size_t n, double *row) {
  for (size_t k = 0; k < n; k++) {
    char *end;
    row[k] = strtod(at, &end);
    if (end == at || (k + 1 < n && *end != ',')) return false;
    at = end + (k + 1 < n);
  }
  return *at == 0 || *at == '\n' || *at == '\r';
}

CmdstanTable *cmdstan_table(Ctx *c, const char *path) {
  CmdstanTable *t = NEW(&c->arena, CmdstanTable);
  const char *text = source_read(c, path, "file of draws")->text;
  size_t lines = 1;
  for (const char *at = text; *at; at++) lines += *at == '\n';
  *t = (CmdstanTable){.path = path, .thin = 1, .max_depth = 10, .chains = 1};
  for (const char *at = text; *at; at = next_line(at)) {
    if (*at == '#') {
      read_comment(c, t, at);
    } else if (*at != '\n' && *at != '\r' && !t->ncols) {
      read_header(c, t, at);
      t->values = NEW_ARRAY(&c->arena, double, lines * t->ncols + 1);
    } else if (*at != '\n' && *at != '\r') {
      if (!read_row(at, t->ncols, t->values + t->n * t->ncols))
        ctx_fail(c, PVI_DATA, NOWHERE, "'%s': row %zu does not have %zu numbers", path, t->n + 1,
                 t->ncols);
      t->n++;
    }
  }
  if (!t->n) ctx_fail(c, PVI_DATA, NOWHERE, "'%s' has no draws", path);
  if (t->save_warmup > 0) t->warm = (size_t)((t->num_warmup + t->thin - 1) / t->thin);
  if (t->warm > t->n) t->warm = t->n;
  return t;
}

size_t cmdstan_column(const CmdstanTable *t, const char *name) {
  size_t k = 0;
  while (k < t->ncols && strcmp(t->names[k], name) != 0) k++;
  return k;
}
