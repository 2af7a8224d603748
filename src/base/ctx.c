/* ctx.c: one run's messages and its way out. Messages print as
 *
 *   model.stan:3:10: error: what is wrong; how to mend it
 *     3 |   y ~ norml(mu, sigma);
 *       |       ^~~~~
 */
#include "base/base.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

void ctx_init(Ctx *c) {
  *c = (Ctx){.alloc_left = -1};
  c->arena.ctx = c;
}

void ctx_opened(Ctx *c, Closer *x, void (*close)(Closer *self)) {
  *x = (Closer){close, c->open, &c->open};
  if (x->next) x->next->at = &x->next;
  c->open = x;
}

void ctx_closed(Closer *x) {
  *x->at = x->next;
  if (x->next) x->next->at = x->at;
}

void ctx_close(Ctx *c) {
  while (c->open) c->open->close(c->open);
}

static void temp_closer(Closer *self) { temp_close((TempArena *)self); }

TempArena *temp_open(Ctx *c) {
  Arena own = arena_make(c);
  TempArena *t = NEW(&own, TempArena); /* lives in itself */
  t->arena = own;
  ctx_opened(c, &t->closer, temp_closer);
  return t;
}

void temp_close(TempArena *t) {
  Arena own = t->arena;
  ctx_closed(&t->closer);
  arena_free(&own);
}

void ctx_free(Ctx *c) {
  ctx_close(c);
  arena_free(&c->arena);
  c->messages = NULL;
  c->nmessages = c->cap_messages = c->nerrors = 0;
}

void ctx_recycle(Ctx *c) {
  ctx_close(c);
  arena_recycle(&c->arena);
  *c = (Ctx){.arena = c->arena, .alloc_left = -1};
}

const char *ctx_words(Ctx *c, const char *text, const char *prefix) {
  if (!strchr(text, '\x1f')) return text;
  Text t = text_make(&c->arena);
  for (const char *mark; (mark = strchr(text, '\x1f')); text = mark + 1) {
    text_add(&t, text, (size_t)(mark - text));
    text_puts(&t, prefix ? prefix : "");
  }
  text_puts(&t, text);
  return t.s;
}

static void record(Ctx *c, MsgKind kind, Loc loc, const char *fmt, va_list ap) {
  Text t = text_make(&c->arena);
  text_vprintf(&t, fmt, ap);
  Message m = {kind, loc, ctx_words(c, t.s, c->option_prefix)};
  PUSH(&c->arena, c->messages, c->nmessages, c->cap_messages, m);
  if (kind == MSG_ERROR) c->nerrors++;
}

#define RECORD(kind)                                                                               \
  do {                                                                                             \
    va_list ap;                                                                                    \
    va_start(ap, fmt);                                                                             \
    record(c, kind, loc, fmt, ap);                                                                 \
    va_end(ap);                                                                                    \
  } while (0)

void ctx_error(Ctx *c, Loc loc, const char *fmt, ...) { RECORD(MSG_ERROR); }
void ctx_warn(Ctx *c, Loc loc, const char *fmt, ...) { RECORD(MSG_WARNING); }
void ctx_note(Ctx *c, Loc loc, const char *fmt, ...) { RECORD(MSG_NOTE); }

void ctx_fail(Ctx *c, Status s, Loc loc, const char *fmt, ...) {
  c->alloc_left = -1; /* the message itself must find room */
  RECORD(MSG_ERROR);
  ctx_jump(c, s);
}

void ctx_jump(Ctx *c, Status s) {
  c->status = s;
  if (!c->trap) {
    ctx_print(c, stderr);
    abort();
  }
  longjmp(*c->trap, 1);
}

bool ctx_try(Ctx *c, void (*step)(Ctx *c, void *arg), void *arg, Message *why) {
  jmp_buf here, *outer = c->trap;
  size_t messages = c->nmessages, errors = c->nerrors;
  volatile bool failed = false;
  if (!setjmp(here)) {
    c->trap = &here;
    step(c, arg);
  } else {
    failed = true;
    *why = c->nmessages > messages ? c->messages[c->nmessages - 1] : (Message){.text = ""};
    c->nmessages = messages;
    c->nerrors = errors;
  }
  c->trap = outer;
  return !failed;
}

void ctx_unknown(Ctx *c, Status s, Loc loc, const UnknownWord *w) {
  enum { FEW = 20 };
  const char *near = text_nearest(w->word, w->names, w->count), *mark = w->mark ? w->mark : "";
  Text t = text_make(&c->arena);
  text_printf(&t, "unknown %s \"%s%s\"", w->what, mark, w->word);
  if (near) text_printf(&t, "; did you mean \"%s%s\"?", mark, near);
  if (w->count && w->count <= FEW) text_puts(&t, near ? " The choices are " : "; the choices are ");
  for (size_t k = 0; w->count <= FEW && k < w->count; k++)
    text_printf(&t, "%s%s", k ? ", " : "", w->names[k]);
  ctx_fail(c, s, loc, "%s", t.s);
}

/* The text of a 1-based line, without its end. */
static const char *line_of(const Source *s, uint32_t line, size_t *n) {
  const char *p = s->text, *end = s->text + s->length;
  for (uint32_t k = 1; k < line && p < end; k++) {
    const char *q = memchr(p, '\n', (size_t)(end - p));
    p = q ? q + 1 : end;
  }
  const char *q = memchr(p, '\n', (size_t)(end - p));
  *n = (size_t)((q ? q : end) - p);
  if (*n && p[*n - 1] == '\r') --*n;
  return p;
}

/* Of a long line (a data file on one line) only what surrounds the place is shown. */
static const char *window_of(const char *line, size_t *n, size_t *at) {
  enum { WIDE = 160, BEFORE = 60 };
  if (*n <= WIDE) return line;
  size_t from = *at > BEFORE ? *at - BEFORE : 0;
  while (from < *n && ((unsigned char)line[from] & 0xC0) == 0x80) from++;
  *at -= from;
  *n = *n - from > WIDE / 2 ? WIDE / 2 : *n - from;
  while (*n && ((unsigned char)line[from + *n] & 0xC0) == 0x80) --*n;
  return line + from;
}

static void print_caret(const Loc *loc, FILE *to) {
  if (!loc->source->text) return;
  size_t n, at = loc->column ? loc->column - 1 : 0;
  const char *line = line_of(loc->source, loc->line, &n);
  if (at > n) at = n;
  line = window_of(line, &n, &at);
  fprintf(to, "%5u | %.*s\n      | ", loc->line, (int)n, line);
  for (size_t k = 0; k < at; k++) {
    if (k < n && ((unsigned char)line[k] & 0xC0) == 0x80) continue; /* inside a UTF-8 character */
    fputc(k < n && line[k] == '\t' ? '\t' : ' ', to);
  }
  fputc('^', to);
  for (size_t k = 1; k < loc->length && at + k < n; k++) fputc('~', to);
  fputc('\n', to);
}

void ctx_print(const Ctx *c, FILE *to) {
  static const char *const kinds[] = {"error", "warning", "note"};
  for (size_t k = 0; k < c->nmessages; k++) {
    const Message *m = &c->messages[k];
    if (m->loc.source) {
      fprintf(to, "%s:%u:%u: ", m->loc.source->name, m->loc.line, m->loc.column);
    } else {
      fputs("pvi: ", to);
    }
    fprintf(to, "%s: %s\n", kinds[m->kind], m->text);
    if (!m->loc.source) continue;
    print_caret(&m->loc, to);
    for (const Source *s = m->loc.source; s->from; s = s->from)
      fprintf(to, "      included from %s:%u\n", s->from->name, s->from_line);
  }
}

static double read_clock(clockid_t id) {
  struct timespec t;
  clock_gettime(id, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double base_seconds(void) { return read_clock(CLOCK_MONOTONIC); }
double base_thread_seconds(void) { return read_clock(CLOCK_THREAD_CPUTIME_ID); }
