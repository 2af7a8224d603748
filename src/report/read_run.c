/* read_run.c: files of a run folder again: summary.json as a Summary, draws.csv as Draws. */
#include "data/json.h"
#include "data/number.h"
#include "report/read_json.h"
#include "report/report.h"

#include <math.h>
#include <string.h>

/* ---- summary.json ---------------------------------------------------------------------------- */

const Json *read_member(Ctx *c, const Json *j, const char *key, JsonKind kind) {
  const Json *x = json_get(j, key);
  if (!x) ctx_fail(c, PVI_DATA, j->loc, "this is no summary.json of a run: \"%s\" is missing", key);
  bool null_text = kind == JSON_STRING && x->kind == JSON_NULL;
  bool empty_array = kind == JSON_ARRAY && x->kind == JSON_NUMBERS && x->n == 0;
  if (x->kind != kind && !null_text && !empty_array)
    ctx_fail(c, PVI_DATA, x->loc, "\"%s\" of a summary.json is not %s", key, json_kind_name(x));
  return x;
}

const char *read_text(Ctx *c, const Json *j, const char *key) {
  return read_member(c, j, key, JSON_STRING)->text;
}

double read_number(Ctx *c, const Json *j, const char *key) {
  const Json *x = json_get(j, key), *bad = NULL;
  if (!x) ctx_fail(c, PVI_DATA, j->loc, "this is no summary.json of a run: \"%s\" is missing", key);
  if (x->kind == JSON_NULL) return NAN;
  size_t n;
  const double *v = json_flatten(c, x, &n, &bad);
  if (bad || n != 1) ctx_fail(c, PVI_DATA, x->loc, "\"%s\" of a summary.json is one number", key);
  return v[0];
}

double read_maybe(Ctx *c, const Json *j, const char *key) {
  return json_get(j, key) ? read_number(c, j, key) : NAN;
}

size_t read_count(Ctx *c, const Json *j, const char *key) {
  double x = read_number(c, j, key);
  if (!(x >= 0 && x <= 9007199254740992.0 && x == floor(x)))
    ctx_fail(c, PVI_DATA, j->loc, "\"%s\" of a summary.json is not a whole number", key);
  return (size_t)x;
}

bool read_truth(const Json *j, const char *key) {
  const Json *x = json_get(j, key);
  return x && x->kind == JSON_TRUE;
}

static SummaryPart read_part(Ctx *c, const Json *j) {
  SummaryScore *scores = NEW_ARRAY(&c->arena, SummaryScore, j->count + 1);
  for (size_t k = 0; k < j->count; k++) {
    const Json *s = j->items[k];
    scores[k] = (SummaryScore){j->keys[k], read_number(c, s, "sum"), read_number(c, s, "mean"),
                               read_number(c, s, "se"), (size_t)read_number(c, s, "n")};
  }
  return (SummaryPart){scores, j->count};
}

void read_scores(Ctx *c, const Json *j, SummaryPart *parts) {
  for (int p = 0; p < PART_COUNT; p++) {
    const Json *part = json_get(j, part_names[p]);
    if (part && part->kind == JSON_OBJECT) parts[p] = read_part(c, part);
  }
}

static void read_folds(Ctx *c, const Json *j, Summary *s) {
  if (!j) return;
  s->folds_rule = read_text(c, j, "rule");
  s->folds = read_part(c, read_member(c, j, "scores", JSON_OBJECT));
}

static void read_parameters(Ctx *c, const Json *j, Summary *s) {
  SummaryParameter *rows = NEW_ARRAY(&c->arena, SummaryParameter, j->count + 1);
  for (size_t k = 0; k < j->count; k++) {
    const Json *p = j->items[k];
    bool bayes = json_get(p, "bayes_sd") != NULL;
    rows[k] = (SummaryParameter){.name = read_text(c, p, "name"),
                                 .mean = read_number(c, p, "mean"),
                                 .sd = read_number(c, p, "sd"),
                                 .q5 = read_number(c, p, "q5"),
                                 .q50 = read_number(c, p, "q50"),
                                 .q95 = read_number(c, p, "q95"),
                                 .bayes_mean = bayes ? read_number(c, p, "bayes_mean") : NAN,
                                 .bayes_sd = bayes ? read_number(c, p, "bayes_sd") : NAN,
                                 .corrected = read_maybe(c, p, "corrected_mean")};
  }
  s->parameters = rows;
  s->nparameters = j->count;
}

static void read_notes(Ctx *c, const Json *j, Summary *s) {
  const char **notes = NEW_ARRAY(&c->arena, const char *, j->count + 1);
  for (size_t k = 0; k < j->count; k++) notes[k] = j->items[k]->text ? j->items[k]->text : "";
  s->notes = notes;
  s->nnotes = j->count;
}

static void read_path(Ctx *c, const Json *j, Summary *s) {
  if (!j || j->kind != JSON_ARRAY) return;
  SummaryLambda *path = NEW_ARRAY(&c->arena, SummaryLambda, j->count + 1);
  s->best = j->count;
  for (size_t k = 0; k < j->count; k++) {
    const Json *x = j->items[k];
    path[k] = (SummaryLambda){!strcmp(read_text(c, x, "regularizer"), "prior"),
                              read_number(c, x, "lambda"), read_number(c, x, "heldout"),
                              read_number(c, x, "gain"), read_number(c, x, "se")};
    if (read_truth(x, "chosen")) s->best = k;
  }
  s->path = path;
  s->npath = j->count;
}

static const SummaryFreed *read_variables(Ctx *c, const Json *list, size_t *n) {
  SummaryFreed *out = NEW_ARRAY(&c->arena, SummaryFreed, list->count + 1);
  for (size_t k = 0; k < list->count; k++) {
    const Json *x = list->items[k];
    out[k] =
        (SummaryFreed){read_text(c, x, "name"), read_number(c, x, "gain"), read_number(c, x, "se")};
  }
  *n = list->count;
  return out;
}

static void read_freed(Ctx *c, const Json *j, Summary *s) {
  if (!json_get(j, "verdict")) return;
  s->verdict = read_text(c, j, "verdict");
  s->freed = read_variables(c, read_member(c, j, "freed", JSON_ARRAY), &s->nfreed);
  if (json_get(j, "tried")) /* runs of earlier versions have none */
    s->tried = read_variables(c, read_member(c, j, "tried", JSON_ARRAY), &s->ntried);
  s->freeing = read_truth(j, "freeing");
}

static void read_exact(Ctx *c, const Json *j, Summary *s) {
  if (!j) return;
  SummaryExact *x = NEW(&c->arena, SummaryExact);
  *x = (SummaryExact){read_text(c, j, "score"),         read_number(c, j, "heldout"),
                      read_number(c, j, "over_vi"),     read_number(c, j, "over_vi_se"),
                      read_number(c, j, "fit_over_it"), read_number(c, j, "fit_over_it_se"),
                      read_number(c, j, "rhat")};
  s->exact_bayes = x;
}

static void read_certificate(Ctx *c, const Json *j, Summary *s) {
  if (!j) return;
  s->has_certificate = true;
  s->limited = read_truth(j, "limited");
  s->bound_slope = read_maybe(c, j, "slope_bound");
  s->bound_at_q = read_maybe(c, j, "bound");
  s->gain_found = read_maybe(c, j, "gain_found");
  s->gain_at_most = read_maybe(c, j, "gain_at_most");
}

Summary *summary_read(Ctx *c, const char *path) {
  const Json *j = json_read_file(c, path, JSON_PLAIN);
  Summary *s = NEW(&c->arena, Summary);
  *s = (Summary){.version = read_text(c, j, "version"),
                 .program = read_text(c, j, "program"),
                 .data = read_text(c, j, "data"),
                 .seed = (uint64_t)read_number(c, j, "seed"),
                 .score = read_text(c, j, "score"),
                 .family = read_text(c, j, "family"),
                 .regularizer = read_text(c, j, "regularizer"),
                 .lambda = read_number(c, j, "lambda"),
                 .optimizer = read_text(c, j, "optimizer"),
                 .converged = read_truth(j, "converged"),
                 .interrupted = read_truth(j, "interrupted"),
                 .reason = read_text(c, j, "reason"),
                 .objective = read_number(c, j, "objective"),
                 .evaluations = (long)read_number(c, j, "evaluations"),
                 .iterations = (long)read_number(c, j, "iterations"),
                 .seconds = read_number(c, j, "seconds"),
                 .n_obs = (size_t)read_number(c, j, "n_obs"),
                 .dim = (size_t)read_number(c, j, "dim"),
                 .has_khat = json_get(j, "khat") != NULL,
                 .khat = read_maybe(c, j, "khat")};
  s->exact = !strcmp(read_text(c, j, "integration"), "exact");
  s->draws = (long)read_number(c, j, s->exact ? "nodes" : "draws");
  read_scores(c, read_member(c, j, "scores", JSON_OBJECT), s->parts);
  read_folds(c, json_get(j, "folds"), s);
  read_parameters(c, read_member(c, j, "parameters", JSON_ARRAY), s);
  read_notes(c, read_member(c, j, "notes", JSON_ARRAY), s);
  read_certificate(c, json_get(j, "certificate"), s);
  read_path(c, json_get(j, "lambda_path"), s);
  read_exact(c, json_get(j, "exact_bayes"), s);
  read_freed(c, j, s);
  return s;
}

/* ---- draws.csv ------------------------------------------------------------------------------- */

/* The lines of a text, one after the other, without their ends; comments are left out. */
typedef struct {
  const char *at, *end;
} Lines;

static bool next_line(Lines *l, const char **line, size_t *n) {
  while (l->at < l->end) {
    const char *stop = memchr(l->at, '\n', (size_t)(l->end - l->at));
    if (!stop) stop = l->end;
    *line = l->at;
    *n = (size_t)(stop - l->at);
    l->at = stop < l->end ? stop + 1 : stop;
    if (*n && **line != '#') return true;
  }
  return false;
}

static size_t count_fields(const char *line, size_t n) {
  size_t fields = 1;
  for (size_t k = 0; k < n; k++) fields += line[k] == ',';
  return fields;
}

static const char **read_header(Arena *a, const char *line, size_t n, size_t ncols) {
  const char **names = NEW_ARRAY(a, const char *, ncols + 1);
  for (size_t k = 0; k < ncols; k++) {
    const char *stop = memchr(line, ',', n);
    size_t length = stop ? (size_t)(stop - line) : n;
    names[k] = arena_text(a, line, length);
    line += length + 1;
    n -= length + (stop != NULL);
  }
  return names;
}

/* A number as file_number writes it. */
static Number field_at(const char *s) {
  static const struct {
    const char *word;
    double value;
  } words[] = {{"nan", NAN}, {"inf", INFINITY}, {"-inf", -INFINITY}};
  for (size_t k = 0; k < sizeof words / sizeof *words; k++)
    if (!strncmp(s, words[k].word, strlen(words[k].word)))
      return (Number){words[k].value, false, s + strlen(words[k].word)};
  return number_read(s, false);
}

static void read_row(Ctx *c, const char *path, const char *line, size_t ncols, double *out) {
  for (size_t k = 0; k < ncols; k++) {
    Number x = field_at(line);
    bool last = k + 1 == ncols;
    if (x.end == line || (*x.end != (last ? '\n' : ',') && !(last && !*x.end)))
      ctx_fail(c, PVI_DATA, NOWHERE, "%s: column %zu of a row is not a number", path, k + 1);
    out[k] = x.value;
    line = x.end + 1;
  }
}

Draws *draws_read(Ctx *c, const char *path) {
  enum { OWN = 3 }; /* lp__, log_p__, log_g__ */
  const Source *text = source_read(c, path, "file of draws");
  Lines l = {text->text, text->text + text->length};
  const char *line;
  size_t n, rows = 0;
  if (!next_line(&l, &line, &n)) ctx_fail(c, PVI_DATA, NOWHERE, "%s has no header", path);
  size_t ncols = count_fields(line, n);
  const char **names = read_header(&c->arena, line, n, ncols);
  if (ncols < OWN || strcmp(names[0], "lp__") != 0)
    ctx_fail(c, PVI_DATA, NOWHERE, "%s is not a file of draws: its first column is not lp__", path);
  for (Lines count = l; next_line(&count, &line, &n);) rows++;
  if (rows < 2) ctx_fail(c, PVI_DATA, NOWHERE, "%s has no draws", path);
  size_t width = ncols - OWN, draws = rows - 1; /* the first row is the mean of q */
  double *all = NEW_ARRAY(&c->arena, double, rows *ncols),
         *values = NEW_ARRAY(&c->arena, double, draws *width + 1);
  double *log_p = NEW_ARRAY(&c->arena, double, draws), *log_g = NEW_ARRAY(&c->arena, double, draws);
  for (size_t k = 0; next_line(&l, &line, &n); k++) read_row(c, path, line, ncols, all + k * ncols);
  for (size_t k = 0; k < draws; k++) {
    const double *row = all + (k + 1) * ncols;
    log_p[k] = row[1];
    log_g[k] = row[2];
    memcpy(values + k * width, row + OWN, width * sizeof *values);
  }
  Draws *d = NEW(&c->arena, Draws);
  *d = (Draws){.ndraws = draws,
               .ncols = width,
               .names = names + OWN,
               .values = values,
               .log_p = log_p,
               .log_g = log_g,
               .mean = all + OWN};
  return d;
}

/* ---- scores.csv ------------------------------------------------------------------------------ */

/* The field at *at, which moves behind it and its comma. Quotes may hold commas; what they enclose
 * is skipped, since only plain fields are wanted. */
static const char *next_field(Arena *a, const char **at, const char *end) {
  const char *from = *at;
  bool quoted = false;
  while (*at < end && (quoted || **at != ',')) {
    quoted ^= **at == '"';
    ++*at;
  }
  const char *field = arena_text(a, from, (size_t)(*at - from));
  *at += *at < end;
  return field;
}

static int part_of(const char *name) {
  for (int p = 0; p < PART_COUNT; p++)
    if (!strcmp(name, part_names[p])) return p;
  return -1;
}

ScoreTable *scores_read(Ctx *c, const char *path) {
  enum { OWN = 4 }; /* observation, site, line, part */
  const Source *text = source_read(c, path, "file of scores");
  TempArena *temp = temp_open(c);
  Lines l = {text->text, text->text + text->length};
  const char *line;
  size_t n, rows = 0;
  if (!next_line(&l, &line, &n) || strncmp(line, "observation,site,line,part", 26) != 0)
    ctx_fail(c, PVI_DATA, NOWHERE, "%s is not a file of scores", path);
  size_t ncols = count_fields(line, n);
  const char **names = read_header(&c->arena, line, n, ncols);
  for (Lines count = l; next_line(&count, &line, &n);) rows++;
  ScoreTable *t = NEW(&c->arena, ScoreTable);
  int *part = NEW_ARRAY(&c->arena, int, rows + 1);
  double *values = NEW_ARRAY(&c->arena, double, rows *(ncols - OWN) + 1);
  for (size_t k = 0; next_line(&l, &line, &n); k++) {
    const char *at = line;
    ArenaMark mark = arena_mark(&temp->arena);
    for (int f = 0; f < OWN; f++) part[k] = part_of(next_field(&temp->arena, &at, line + n));
    arena_reset(&temp->arena, mark);
    read_row(c, path, at, ncols - OWN, values + k * (ncols - OWN));
  }
  *t = (ScoreTable){
      .n = rows, .part = part, .nscores = ncols - OWN, .names = names + OWN, .values = values};
  temp_close(temp);
  return t;
}
