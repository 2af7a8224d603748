/* problem.c: files or texts -> Problem. */
#include "run/problem.h"

#include "num/rng.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- hashes ---------------------------------------------------------------------------------- */

/* Eight bytes at a time: data files may be large. It tells changed files apart; it is no cipher. */
static uint64_t hash_bytes(uint64_t h, const char *s, size_t n) {
  size_t k = 0;
  for (; k + 8 <= n; k += 8) {
    uint64_t word;
    memcpy(&word, s + k, 8);
    h = (h ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    h ^= h >> 29;
  }
  for (; k < n; k++) h = (h ^ (unsigned char)s[k]) * UINT64_C(0x100000001B3);
  return rng_mix(h ^ n);
}

static void put_hash(char *out, uint64_t h) {
  snprintf(out, HASH_CHARS, "%016llx", (unsigned long long)h);
}

/* The text, and the program as it was understood: so that what it includes counts too. */
static uint64_t hash_program(Ctx *c, const Program *p) {
  TempArena *temp = temp_open(c);
  Text tree = text_make(&temp->arena);
  stan_print_tree(&tree, p, false);
  uint64_t h = hash_bytes(1, p->source->text, p->source->length);
  h = hash_bytes(h, tree.s ? tree.s : "", tree.n);
  temp_close(temp);
  return h;
}

/* ---- origins --------------------------------------------------------------------------------- */

static const char *absolute(Ctx *c, const char *path) {
  char room[PATH_MAX]; /* of its own, so that nothing is lost where memory ends */
  const char *real = realpath(path, room);
  if (!real) real = path;
  return arena_text(&c->arena, real, strlen(real));
}

/* What comes out of a pipe cannot be read again. */
static bool is_file(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static Origin origin_of(Ctx *c, const char *given, bool text, const char *word, uint64_t hash) {
  Origin o = {.shown = text ? word : arena_text(&c->arena, given, strlen(given)),
              .path = text || !is_file(given) ? NULL : absolute(c, given)};
  put_hash(o.hash, hash);
  return o;
}

const char *problem_base_name(Arena *a, const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path,
             *dot = strrchr(name, '.');
  return arena_text(a, name, dot && dot != name ? (size_t)(dot - name) : strlen(name));
}

/* ---- loading --------------------------------------------------------------------------------- */

StanOptions problem_stan_options(const Options *o) {
  return (StanOptions){.include_dirs = o->include.items,
                       .ninclude_dirs = (int)o->include.count,
                       .old_syntax = o->old_syntax};
}

bool problem_is_program(const char *path) {
  size_t n = strlen(path);
  return n > 5 && !strcmp(path + n - 5, ".stan");
}

/* Both are files: were they given in the wrong order? */
static void check_order(Ctx *c, const ProblemSource *s) {
  if (s->text || !s->data || !problem_is_program(s->data)) return;
  ctx_fail(
      c, PVI_USAGE, NOWHERE,
      problem_is_program(s->program)
          ? "%s is a Stan program, but stands where the data belong: the last file has the data"
          : "%s is a Stan program, but stands where the data belong: the program comes first",
      s->data);
}

Program *problem_program(Ctx *c, const ProblemSource *s, const Options *o) {
  check_order(c, s);
  StanOptions so = problem_stan_options(o);
  size_t n = strlen(s->program);
  Program *p = s->text ? stan_parse_text(c, s->name ? s->name : "program",
                                         arena_text(&c->arena, s->program, n), n, &so)
                       : stan_parse(c, s->program, &so);
  if (!c->nerrors) stan_check(c, p);
  if (c->nerrors) ctx_jump(c, PVI_PROGRAM);
  return p;
}

static const char **data_names(Arena *a, const Program *p, size_t *n) {
  const Stmt *block = p->blocks[BLOCK_DATA];
  const char **names = NEW_ARRAY(a, const char *, 1);
  size_t cap = 1;
  *n = 0;
  for (int k = 0; block && k < block->nbody; k++)
    for (int j = 0; j < block->body[k]->ndecls; j++)
      PUSH(a, names, *n, cap, block->body[k]->decls[j]->name);
  return names;
}

static bool data_is_text(const ProblemSource *s) { return s->text && !s->data_is_file; }

static Data *load_data(Ctx *c, const ProblemSource *s, const Options *o, const Program *p) {
  DataOptions d = {.sets = o->set.items, .nsets = (int)o->set.count};
  d.declared = data_names(&c->arena, p, &d.ndeclared);
  if (!s->data) return data_from_sets(c, &d);
  return data_is_text(s) ? data_read_text(c, "data", s->data, &d) : data_read(c, s->data, &d);
}

/* The lines of the program whose increments are observations, because the user says so. */
static void read_lines(Ctx *c, const Options *o, ModelOptions *m) {
  long *lines = NEW_ARRAY(&c->arena, long, o->observe.count + 1);
  for (size_t k = 0; k < o->observe.count; k++) {
    char *end;
    lines[k] = strtol(o->observe.items[k], &end, 10);
    if (*end || lines[k] < 1)
      ctx_fail(c, PVI_USAGE, NOWHERE,
               OPTION("observe") " is the number of a line of the program, not \"%s\"",
               o->observe.items[k]);
  }
  m->observe = lines;
  m->nobserve = (int)o->observe.count;
}

/* Where no density of data stands in the program: what else it adds that depends on data. */
static Model *guess_observations(Ctx *c, const Program *p, const Data *d, ModelOptions *m) {
  m->guess = stan_possible_observations(&c->arena, p, &m->nguess);
  return m->nguess ? model_make(c, p, d, m) : NULL;
}

/* Bytes are hashed as they were read, once. */
static void note_origins(Ctx *c, const ProblemSource *s, Problem *p) {
  size_t n;
  const char *bytes = data_bytes(p->data, &n);
  p->program_origin = origin_of(c, s->program, s->text, "program", hash_program(c, p->program));
  if (s->data)
    p->data_origin = origin_of(c, s->data, data_is_text(s), "data", hash_bytes(2, bytes, n));
}

static ModelOptions model_options(Ctx *c, const Options *o) {
  ModelOptions m = {.simulate = o->simulate, .observed = o->observed, .unit = o->unit};
  read_lines(c, o, &m);
  return m;
}

Problem *problem_with(Ctx *c, const Problem *p, const Options *o, const Decl *variable,
                      const double *values) {
  Problem *q = NEW(&c->arena, Problem);
  ModelOptions m = model_options(c, o);
  m.replaced = variable;
  m.values = values;
  *q = *p;
  q->model = p->model->guessed ? guess_observations(c, p->program, p->data, &m)
                               : model_make(c, p->program, p->data, &m);
  return q;
}

Problem *problem_of_text(Ctx *c, const Problem *p, const Options *o, const char *text) {
  Problem *q = NEW(&c->arena, Problem);
  ModelOptions m = model_options(c, o);
  *q = *p;
  q->program = problem_program(c, &(ProblemSource){.program = text, .text = true}, o);
  q->model = model_make(c, q->program, p->data, &m);
  return q;
}

_Noreturn void problem_no_observations(Ctx *c, const Problem *p) {
  const Stmt *block = p->program->blocks[BLOCK_DATA];
  for (int k = 0; block && k < block->nbody; k++)
    for (int j = 0; j < block->body[k]->ndecls; j++) {
      const Decl *d = block->body[k]->decls[j];
      const DataVar *v = data_find(p->data, d->name);
      if (v && v->ndims && !v->n && stan_is_outcome(p->program, d))
        ctx_fail(c, PVI_DATA, v->loc, "nothing was observed: %s is empty", v->name);
    }
  ctx_fail(c, PVI_PROGRAM, NOWHERE,
           "the program makes no observation: nothing that it adds to the log density is a density "
           "of data; " OPTION("observe") " LINE names a statement whose increments are "
                                         "observations; VI (" OPTION("score") " elbo) needs none");
}

Problem *problem_load(Ctx *c, const ProblemSource *s, const Options *o) {
  Problem *p = NEW(&c->arena, Problem);
  ModelOptions m = model_options(c, o);
  m.outcomes_may_be_missing = s->outcomes_may_be_missing;
  m.seed = s->seed;
  p->name = s->text ? s->name ? problem_base_name(&c->arena, s->name) : "model"
                    : problem_base_name(&c->arena, s->program);
  p->program = problem_program(c, s, o);
  Data *data = load_data(c, s, o, p->program);
  p->data = data;
  note_origins(c, s, p);
  const Model *guess = NULL;
  p->model = model_make(c, p->program, data, &m);
  if (!p->model->n_obs && !m.nobserve) guess = guess_observations(c, p->program, data, &m);
  if (guess && guess->n_obs) p->model = guess;
  data_forget_text(data);
  return p;
}
