/* journal.c: a journal as bytes. A file is
 *
 *   magic, version, length of the body, body, checksum of all before it
 *
 * each a word of eight bytes but the body, which `body` lists.
 */
#include "infer/journal_int.h"

#include <math.h>
#include <string.h>

static const char magic[8] = {'p', 'v', 'i', ' ', 'j', 'r', 'n', 'l'};
enum { VERSION = 2, WORD = 8, HEAD = 3 * WORD };

Journal *journal_make(Arena *a) {
  Journal *j = NEW(a, Journal);
  *j = (Journal){.arena = a, .run = text_make(a), .memories = text_make(a), .interval = 5};
  return j;
}

void journal_set_turn(Journal *j, size_t turn) { j->turn = turn; }

size_t journal_turn(const Journal *j) { return j->turn; }

void journal_on_save(Journal *j, double seconds, void (*save)(void *self, const Journal *j),
                     void *self) {
  j->interval = seconds;
  j->save = save;
  j->save_self = self;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* An array that is about to be read: there cannot be more of its items than bytes left. */
#define ROOM(j, archive, ptr, count)                                                               \
  do {                                                                                             \
    archive_count(archive, &(count), (archive)->left);                                             \
    if (!(archive)->out) (ptr) = arena_array((j)->arena, (count) + 1, sizeof *(ptr));              \
  } while (0)

static void step_body(Journal *j, Archive *a, JournalStep *s) {
  size_t kind = s->kind, status = s->run.status;
  OptimResult *r = &s->run;
  archive_count(a, &kind, STEP_KINDS - 1);
  s->kind = (StepKind)kind;
  if (s->kind == STEP_EVALUATION) {
    archive_bool(a, &s->finite);
    archive_double(a, &s->value.value);
    archive_double(a, &s->value.score);
    archive_double(a, &s->value.regularizer);
    return;
  }
  ROOM(j, a, r->phi, s->dim);
  archive_doubles(a, r->phi, s->dim);
  archive_double(a, &r->value);
  archive_double(a, &r->gradient_norm);
  archive_long(a, &r->iterations);
  archive_long(a, &r->evaluations);
  archive_long(a, &r->skipped);
  archive_count(a, &status, OPTIM_NOT_FINITE);
  r->status = (OptimStatus)status;
  r->converged = optim_converged(r->status);
  r->reason = optim_reason(r->status);
}

static void trace_body(Archive *a, FitTrace *t) {
  archive_long(a, &t->iteration);
  archive_double(a, &t->seconds);
  archive_double(a, &t->objective);
  archive_double(a, &t->score);
  archive_double(a, &t->regularizer);
  archive_double(a, &t->gradient_norm);
  archive_double(a, &t->step);
  archive_double(a, &t->validation);
}

static void body(Journal *j, Archive *a) {
  archive_word(a, &j->identity);
  archive_count(a, &j->turn, SIZE_MAX);
  archive_double(a, &j->seconds);
  ROOM(j, a, j->steps, j->nsteps);
  for (size_t k = 0; k < j->nsteps && !a->bad; k++) step_body(j, a, &j->steps[k]);
  archive_bytes(a, &j->run);
  archive_bytes(a, &j->memories);
  ROOM(j, a, j->trace, j->ntrace);
  for (size_t k = 0; k < j->ntrace && !a->bad; k++) trace_body(a, &j->trace[k]);
  archive_double(a, &j->best_valid);
  ROOM(j, a, j->best_phi, j->nbest);
  archive_doubles(a, j->best_phi, j->nbest);
}

/* FNV-1a, 64 bits: no change of a single byte leaves it the same. */
static uint64_t checksum(const char *bytes, size_t n) {
  uint64_t h = 0xCBF29CE484222325u;
  for (size_t k = 0; k < n; k++) h = (h ^ (unsigned char)bytes[k]) * 0x100000001B3u;
  return h;
}

static void put_word(Text *out, uint64_t x) {
  Archive a = archive_writer(out);
  archive_word(&a, &x);
}

static uint64_t word_at(const char *bytes) {
  uint64_t x = 0;
  Archive a = archive_reader(bytes, WORD);
  archive_word(&a, &x);
  return x;
}

void journal_write(const Journal *j, Text *out) {
  Journal copy = *j; /* writing changes nothing, but the list of members is that of reading, too */
  copy.nsteps = j->captured;
  Text t = text_make(out->arena);
  Archive a = archive_writer(&t);
  body(&copy, &a);
  size_t begin = out->n;
  text_add(out, magic, sizeof magic);
  put_word(out, VERSION);
  put_word(out, t.n);
  text_add(out, t.s, t.n);
  put_word(out, checksum(out->s + begin, out->n - begin));
}

/* NULL, or what is wrong with the bytes. */
static const char *damage(const char *bytes, size_t n) {
  if (n < HEAD + WORD || memcmp(bytes, magic, sizeof magic) != 0)
    return "it is no journal of a fit";
  if (word_at(bytes + WORD) != VERSION) return "another version of the program wrote it";
  if (word_at(bytes + 2 * WORD) != n - HEAD - WORD) return "it is not complete";
  if (word_at(bytes + n - WORD) != checksum(bytes, n - WORD)) return "it is damaged";
  return NULL;
}

Journal *journal_read(Ctx *c, Arena *a, const char *bytes, size_t n) {
  const char *why = damage(bytes, n);
  Journal *j = journal_make(a);
  if (!why) {
    Archive in = archive_reader(bytes + HEAD, n - HEAD - WORD);
    body(j, &in);
    if (in.bad || in.left) why = "it is damaged";
    j->cap_steps = j->captured = j->nsteps;
    j->cap_trace = j->ntrace;
  }
  if (!why) return j;
  ctx_error(c, NOWHERE, "the fit cannot be resumed from its journal: %s", why);
  return NULL;
}

/* ---- during a fit ---------------------------------------------------------------------------- */

bool journal_open(Journal *j, uint64_t identity) {
  if (j->nsteps + j->run.n > 0 && j->identity != identity) return false;
  j->identity = identity;
  j->replayed = 0;
  j->nsteps = j->captured;
  j->last = base_seconds();
  return true;
}

const JournalStep *journal_next(Journal *j) {
  return j->replayed < j->nsteps ? &j->steps[j->replayed++] : NULL;
}

void journal_add(Journal *j, const JournalStep *s) {
  JournalStep kept = *s;
  if (s->kind == STEP_RUN) {
    kept.run.phi = NEW_ARRAY(j->arena, double, s->dim + 1);
    memcpy(kept.run.phi, s->run.phi, s->dim * sizeof *kept.run.phi);
  }
  PUSH(j->arena, j->steps, j->nsteps, j->cap_steps, kept);
  j->replayed = j->nsteps;
}

/* Saving takes at most a twentieth of the time. An interval of 0 takes every opportunity. */
bool journal_due(const Journal *j) {
  if (!j->save || j->interval <= 0) return j->save;
  return base_seconds() - j->last >= fmax(j->interval, 20 * j->took);
}

void journal_save(Journal *j) {
  double begin = base_seconds();
  if (j->save) j->save(j->save_self, j);
  j->last = base_seconds();
  j->took = j->last - begin;
}
