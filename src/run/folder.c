/* folder.c: run folders: where a fit goes, what it was asked, its checkpoint, its files.
 *
 * A folder holds one fit. fit.json (with split.json, where not all observations train), written
 * before the fit begins, says which: program, data, split and options, and a hash of them all, its
 * identity. Beside it stands checkpoint.bin while the fit is unfinished; the files of `files` below
 * are written when it ends. So a folder tells at any moment what it holds: nothing, an unfinished
 * fit, or a finished one.
 */
#include "run/tune.h"

#include "data/json.h"
#include "num/rng.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ASKED_FILE "fit.json"
#define RUNS_FOLDER "pvi-runs"
#define CHECKPOINT_FILE "checkpoint.bin"
#define SPLIT_FILE "split.json"

/* ---- the files of a finished run ------------------------------------------------------------- */

static void write_draws(Ctx *c, RunDir *d, const Run *r) {
  const Summary *s = r->summary;
  ReportKey keys[] = {{"score", s->score},
                      {"family", s->family},
                      {"regularizer", s->regularizer},
                      {"lambda", arena_format(&c->arena, "%g", s->lambda)},
                      {"objective", arena_format(&c->arena, "%.10g", s->objective)}};
  CmdstanRun run = {.model = arena_format(&c->arena, "%s_model", r->problem->name),
                    .data_file = s->data,
                    .seed = s->seed,
                    .predictive = r->score != SCORE_elbo,
                    .keys = keys,
                    .nkeys = sizeof keys / sizeof *keys};
  /* Readers of these files know no other families. */
  const char *algorithm = r->q.family == FAMILY_meanfield ? "meanfield" : "fullrank";
  CmdstanVariational v = {.algorithm = algorithm, .grad_samples = s->exact ? 0 : s->draws};
  cmdstan_write_variational(d, "draws", r->draws, &run, &v);
}

static void write_trace(Ctx *c, RunDir *d, const Run *r) {
  (void)c;
  trace_write(d, r->fit->trace, r->fit->ntrace);
}

/* The columns: every score and, with folds, the same when the observation was held out; and, where
 * lambda was chosen, the score that it was chosen by, held out, under Bayes. */
static void score_columns(Ctx *c, const Run *r, ScoreTable *t) {
  const ScoreList *l = &r->scores->list;
  const Scores *bayes = r->tuned ? r->tuned->bayes_scores : NULL;
  size_t n = l->count, own = r->folds ? 2 * n : n, each = own + (bayes != NULL);
  const char **names = NEW_ARRAY(&c->arena, const char *, each);
  double *values = NEW_ARRAY(&c->arena, double, t->n *each + 1);
  for (size_t k = 0; k < own; k++)
    names[k] = k < n ? l->names[k] : arena_format(&c->arena, "%s_heldout", l->names[k - n]);
  for (size_t i = 0; i < t->n; i++)
    for (size_t k = 0; k < own; k++)
      values[i * each + k] = k < n ? r->scores->by_obs[i * n + k] : r->folds->by_obs[i * n + k - n];
  if (bayes) {
    names[own] = arena_format(&c->arena, "%s_bayes_heldout", bayes->list.names[0]);
    for (size_t i = 0; i < t->n; i++) values[i * each + own] = bayes->by_obs[i];
  }
  t->nscores = each;
  t->names = names;
  t->values = values;
}

/* What observations are, beside their scores. */
static void add_sites(Ctx *c, const Run *r, ScoreTable *t) {
  const Model *m = r->problem->model;
  ScoreSite *sites = NEW_ARRAY(&c->arena, ScoreSite, m->nblocks + 1);
  uint32_t *site = NEW_ARRAY(&c->arena, uint32_t, m->n_obs);
  for (int b = 0; b < m->nblocks; b++) {
    sites[b] = (ScoreSite){m->blocks[b].name, m->blocks[b].loc.line};
    for (int32_t k = 0; k < m->blocks[b].rows; k++) site[m->blocks[b].obs[k]] = (uint32_t)b;
  }
  t->n = m->n_obs;
  t->sites = sites;
  t->site = site;
  t->part = r->scores->part;
}

void folder_write_scores(Ctx *c, RunDir *d, const Run *r, const ScoreTable *columns) {
  ScoreTable t = *columns;
  add_sites(c, r, &t);
  scores_write(d, &t);
}

const ScoreTable *folder_scores(Ctx *c, const Run *r) {
  ScoreTable *t = NEW(&c->arena, ScoreTable);
  t->n = r->problem->model->n_obs;
  score_columns(c, r, t);
  add_sites(c, r, t);
  return t;
}

static void write_scores(Ctx *c, RunDir *d, const Run *r) { scores_write(d, folder_scores(c, r)); }

static void write_summary(Ctx *c, RunDir *d, const Run *r) {
  (void)c;
  summary_write(d, r->summary);
}

/* To add a file, add a row and its function. summary.json is last: where it is, all the others are.
 */
static const struct {
  const char *name;
  void (*write)(Ctx *c, RunDir *d, const Run *r);
} files[] = {
    {"draws.csv", write_draws},   {"q.json", qfile_write},         {"trace.csv", write_trace},
    {"scores.csv", write_scores}, {"summary.json", write_summary},
};
enum { NFILES = sizeof files / sizeof *files };

void folder_write(Ctx *c, RunDir *d, const Run *r) {
  for (int k = 0; k < NFILES; k++) files[k].write(c, d, r);
  if (!r->fit->interrupted) unlink(run_path(d, CHECKPOINT_FILE));
}

/* ---- what was asked -------------------------------------------------------------------------- */

/* Does the option change what a fit finds? Others say only where it goes and how it is shown. */
static bool changes_fit(size_t k) {
  static const enum OptionId rest[] = {OPTION_out,        OPTION_force,   OPTION_resume,
                                       OPTION_checkpoint, OPTION_threads, OPTION_json,
                                       OPTION_quiet,      OPTION_width,   OPTION_report};
  for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
    if (rest[i] == k) return false;
  static const char *const commands[] = {"fit", "sample", "npe", "nre"};
  bool some = false;
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
    some |= option_of_command(option_row(k), commands[i]);
  return some;
}

static uint64_t mix_text(uint64_t h, const char *s) {
  for (; *s; s++) h = rng_mix(h ^ (unsigned char)*s);
  return rng_mix(h ^ 0xFF);
}

static uint64_t mix_split(uint64_t h, const Split *s) {
  for (int p = 0; p < PART_COUNT; p++) {
    h = rng_mix(h ^ s->count[p]);
    for (size_t k = 0; k < s->count[p]; k++) h = rng_mix(h ^ s->rows[p][k]);
  }
  return h;
}

/* One fit, one identity: whatever makes its results differ is in it. */
static const char *identity(Ctx *c, const Run *r) {
  uint64_t h = mix_text(1, PVI_VERSION);
  h = mix_text(h, r->program_origin.hash);
  h = mix_text(h, r->data_origin.hash);
  h = mix_split(h, r->split);
  if (r->sampling) h = mix_text(h, "sample");
  if (r->amortized) h = mix_text(h, r->amortized);
  for (size_t k = 0; k < OPTION_COUNT; k++)
    for (size_t i = 0; changes_fit(k) && i < r->o->given[k].count; i++)
      h = mix_text(mix_text(h, option_row(k)->name), r->o->given[k].items[i]);
  return arena_format(&c->arena, "%016llx", (unsigned long long)h);
}

static void put_origin(JsonWriter *w, const char *key, const Origin *o) {
  json_key(w, key), json_object(w);
  json_key(w, "shown"), json_string(w, o->shown);
  json_key(w, "file"), json_string(w, o->path);
  json_key(w, "hash"), json_string(w, o->hash);
  json_object_end(w);
}

static void put_options(JsonWriter *w, const Options *o) {
  json_key(w, "options"), json_object(w);
  for (size_t k = 0; k < OPTION_COUNT; k++) {
    if (!o->given[k].count || !changes_fit(k)) continue;
    json_key(w, option_row(k)->name), json_flat_array(w);
    for (size_t i = 0; i < o->given[k].count; i++) json_string(w, o->given[k].items[i]);
    json_array_end(w);
  }
  json_object_end(w);
}

static void write_asked(Ctx *c, RunDir *d, const Run *r) {
  Text t = text_make(&c->arena);
  JsonWriter w = json_writer(&t, true);
  json_object(&w);
  const char *command = r->sampling ? "sample" : r->amortized ? r->amortized : "fit";
  json_key(&w, "format"), json_string(&w, arena_format(&c->arena, "pvi-%s", command));
  json_key(&w, "version"), json_string(&w, PVI_VERSION);
  json_key(&w, "identity"), json_string(&w, identity(c, r));
  put_origin(&w, "program", &r->program_origin);
  put_origin(&w, "data", &r->data_origin);
  put_options(&w, r->o);
  json_object_end(&w);
  text_puts(&t, "\n");
  run_write(d, ASKED_FILE, &t);
}

/* Which observations were for what, as split_read reads it; nothing where all of them train. */
static void write_split(Ctx *c, RunDir *d, const Split *s) {
  if (s->count[PART_TRAIN] == s->n) {
    unlink(run_path(d, SPLIT_FILE));
    return;
  }
  Text t = text_make(&c->arena);
  JsonWriter w = json_writer(&t, true);
  json_object(&w);
  for (int p = 0; p < PART_COUNT; p++) {
    json_key(&w, part_names[p]), json_flat_array(&w);
    for (size_t k = 0; k < s->count[p]; k++) json_integer(&w, (long long)s->rows[p][k] + 1);
    json_array_end(&w);
  }
  json_object_end(&w);
  text_puts(&t, "\n");
  run_write(d, SPLIT_FILE, &t);
}

static bool exists(Ctx *c, const char *folder, const char *name) {
  return access(arena_format(&c->arena, "%s/%s", folder, name), F_OK) == 0;
}

static const char *word_of(Ctx *c, const Json *j, const char *key) {
  const Json *x = json_get(j, key);
  if (x && x->kind == JSON_NULL) return NULL;
  if (!x || x->kind != JSON_STRING)
    ctx_fail(c, PVI_DATA, j->loc, "this is no " ASKED_FILE " of a run: \"%s\" is missing", key);
  return x->text;
}

static Origin read_origin(Ctx *c, const Json *j, const char *key) {
  const Json *x = json_get(j, key);
  if (!x)
    ctx_fail(c, PVI_DATA, j->loc, "this is no " ASKED_FILE " of a run: \"%s\" is missing", key);
  Origin o = {.shown = word_of(c, x, "shown"), .path = word_of(c, x, "file")};
  const char *hash = word_of(c, x, "hash");
  snprintf(o.hash, sizeof o.hash, "%s", hash ? hash : "");
  return o;
}

static Options *read_options(Ctx *c, const Json *j) {
  Options *o = options_make(&c->arena);
  const Json *given = json_get(j, "options");
  for (size_t k = 0; given && given->kind == JSON_OBJECT && k < given->count; k++)
    for (size_t i = 0; i < given->items[k]->count; i++)
      if (given->items[k]->items[i]->kind == JSON_STRING)
        options_set(c, o, given->keys[k], given->items[k]->items[i]->text);
  return o;
}

/* "; there are a, b": the runs in a folder, which may be meant. The text has room of its own, so
 * that nothing is lost where memory ends. */
static const char *runs_inside(Ctx *c, const char *folder) {
  char list[1024] = "", path[1024];
  size_t runs = 0, used = 0;
  struct dirent **found = NULL;
  int n = scandir(folder, &found, NULL, alphasort);
  for (int k = 0; k < n; k++) {
    const char *name = found[k]->d_name;
    snprintf(path, sizeof path, "%s/%s/" ASKED_FILE, folder, name);
    if (name[0] != '.' && !access(path, F_OK) && used < sizeof list)
      used += (size_t)snprintf(list + used, sizeof list - used, "%s %s/%s", runs++ ? "," : "",
                               folder, name);
    free(found[k]);
  }
  free(found);
  if (!runs) return NULL;
  return arena_format(&c->arena, "; there %s%s%s", runs > 1 ? "are" : "is", list,
                      used < sizeof list ? "" : " ...");
}

static _Noreturn void no_run_folder(Ctx *c, const char *folder) {
  const char *runs = runs_inside(c, folder);
  if (!runs) runs = runs_inside(c, RUNS_FOLDER);
  ctx_fail(c, PVI_DATA, NOWHERE,
           access(folder, F_OK) ? "there is no run folder %s%s"
                                : "%s is not a run folder: it has no " ASKED_FILE "%s",
           folder, runs ? runs : "; pvi fit and pvi sample make one, and name it at their end");
}

Asked *folder_asked(Ctx *c, const char *folder) {
  if (!exists(c, folder, ASKED_FILE)) no_run_folder(c, folder);
  const Json *j = json_read_file(c, arena_format(&c->arena, "%s/" ASKED_FILE, folder), JSON_PLAIN);
  Asked *a = NEW(&c->arena, Asked);
  a->version = word_of(c, j, "version");
  a->identity = word_of(c, j, "identity");
  a->program = read_origin(c, j, "program");
  a->data = read_origin(c, j, "data");
  a->options = read_options(c, j);
  a->unfinished = !exists(c, folder, "summary.json") || exists(c, folder, CHECKPOINT_FILE);
  a->has_results = exists(c, folder, "summary.json");
  const char *format = word_of(c, j, "format");
  a->sampling = format && !strcmp(format, "pvi-sample");
  a->amortized = format && !strcmp(format, "pvi-npe")   ? "npe"
                 : format && !strcmp(format, "pvi-nre") ? "nre"
                                                        : NULL;
  return a;
}

/* ---- where a fit goes ------------------------------------------------------------------------ */

/* What the folder holds: nothing of ours, this fit, or another one. */
typedef enum { HOLDS_NOTHING, HOLDS_THIS, HOLDS_ANOTHER } Holds;

static Holds what_it_holds(Ctx *c, const char *folder, const Run *r) {
  bool begun = exists(c, folder, CHECKPOINT_FILE) || exists(c, folder, "summary.json") ||
               exists(c, folder, "q.json");
  if (!begun) return HOLDS_NOTHING; /* also where a fit failed before it had anything to show */
  if (!exists(c, folder, ASKED_FILE)) return HOLDS_ANOTHER;
  const Asked *a = folder_asked(c, folder);
  return a->identity && !strcmp(a->identity, identity(c, r)) ? HOLDS_THIS : HOLDS_ANOTHER;
}

/* A value as a part of a file name: what is neither letter, digit, dot nor sign becomes one dash.
 */
static void add_plain(Text *t, const char *s) {
  for (; *s; s++) {
    bool plain = isalnum((unsigned char)*s) || strchr("._+", *s);
    if (plain || (t->n && t->s[t->n - 1] != '-')) text_add(t, plain ? s : "-", 1);
  }
}

/* -fullrank, -lambda0.1, -interpolate: each option that was given, but the score, which every name
 * has. */
static void add_option(Text *t, const Options *o, size_t k) {
  const OptionRow *row = option_row(k);
  if (k == OPTION_score || !o->given[k].count || !changes_fit(k)) return;
  text_puts(t, "-");
  if (row->kind != OPT_CHOICE && row->kind != OPT_MIX) add_plain(t, row->name);
  for (size_t i = 0; row->kind != OPT_FLAG && i < o->given[k].count; i++) {
    const char *value = o->given[k].items[i], *slash = strrchr(value, '/');
    if (i || row->kind == OPT_TEXT) text_puts(t, "-");
    add_plain(t, slash ? slash + 1 : value);
  }
}

/* The score, or its parts, as the user wrote it. */
static const char *score_word(const Options *o) {
  const OptionList *given = &o->given[OPTION_score];
  return given->count ? given->items[given->count - 1] : score_name((ScoreId)o->score);
}

const char *folder_default(Ctx *c, const Run *r) {
  enum { LONGEST = 120 };
  Text t = text_make(&c->arena);
  const char *command = r->sampling ? "sample" : r->amortized;
  text_printf(&t, RUNS_FOLDER "/%s-%s", r->problem->name, command ? command : "");
  if (!command) add_plain(&t, score_word(r->o));
  for (size_t k = 0; k < OPTION_COUNT; k++) add_option(&t, r->o, k);
  if (t.n > LONGEST) {
    t.s[LONGEST] = 0;
    t.n = LONGEST;
    text_printf(&t, "-%.8s", identity(c, r));
  }
  const char *name = arena_text(&c->arena, t.s, t.n);
  for (int k = 2; what_it_holds(c, name, r) == HOLDS_ANOTHER; k++)
    name = arena_format(&c->arena, "%s-%d", t.s, k);
  return name;
}

static void remove_results(RunDir *d) {
  for (int k = NFILES - 1; k >= 0; k--) unlink(run_path(d, files[k].name)); /* the summary first */
  unlink(run_path(d, CHECKPOINT_FILE));
  for (int k = 1; k <= SAMPLE_FILES; k++)
    for (int e = 0; e < 3; e++) {
      static const char *const ends[] = {".csv", "_config.json", "_metric.json"};
      unlink(run_path(d, arena_format(&d->c->arena, "draws_%d%s", k, ends[e])));
    }
}

RunDir *folder_open(Ctx *c, const Run *r) {
  const char *path = r->o->out;
  Holds holds = what_it_holds(c, path, r);
  if (holds == HOLDS_ANOTHER && !r->o->force)
    ctx_fail(c, PVI_USAGE, NOWHERE,
             "%s holds another fit; choose another folder, or replace it with " OPTION("force"),
             path);
  RunDir *d = run_open(c, path);
  if (holds == HOLDS_ANOTHER || r->o->force) remove_results(d);
  if (holds != HOLDS_THIS) {
    write_split(c, d, r->split);
    write_asked(c, d, r);
  }
  return d;
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

Journal *folder_checkpoint(Ctx *c, const RunDir *d, Arena *a) {
  const char *path = run_path(d, CHECKPOINT_FILE), *why;
  size_t n;
  TempArena *temp = temp_open(c);
  char *bytes = text_read_file(&temp->arena, path, &n, &why);
  Journal *j = bytes ? journal_read(c, a, bytes, n) : NULL;
  if (bytes && !j)
    ctx_fail(c, PVI_DATA, NOWHERE,
             "%s is damaged or of another version of pvi; begin anew with " OPTION("force"), path);
  temp_close(temp);
  return j;
}

const char *folder_state(Ctx *c, const RunDir *d, size_t *n) {
  const char *why;
  return text_read_file(&c->arena, run_path(d, CHECKPOINT_FILE), n, &why);
}

void folder_save_state(void *self, const Text *state) { run_write(self, CHECKPOINT_FILE, state); }

void folder_forget_state(const RunDir *d) { unlink(run_path(d, CHECKPOINT_FILE)); }

void folder_save_checkpoint(void *self, const Journal *j) {
  RunDir *d = self;
  TempArena *temp = temp_open(d->c);
  Text t = text_make(&temp->arena);
  journal_write(j, &t);
  run_write(d, CHECKPOINT_FILE, &t);
  temp_close(temp);
}
