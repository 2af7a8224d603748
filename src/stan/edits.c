/* edits.c: changes of a program's text that leave the rest of it, comments and all, as it is. */
#include "stan/stan.h"

#include <stdlib.h>
#include <string.h>

Edits edits_make(Arena *a, const Program *p) { return (Edits){.arena = a, .program = p}; }

bool edits_offset(const Edits *e, Loc loc, size_t *at) {
  const Source *s = e->program->source;
  if (loc.source != s || !loc.line) return false;
  size_t k = 0;
  for (uint32_t line = 1; line < loc.line && k < s->length; k++) line += s->text[k] == '\n';
  *at = k + loc.column - 1;
  return *at <= s->length;
}

void edits_replace(Edits *e, size_t at, size_t length, const char *text) {
  Edit x = {at, length, text, e->n};
  PUSH(e->arena, e->items, e->n, e->cap, x);
}

/* Behind a comment or string that begins at k; k itself where none does. */
static size_t skip(const Source *s, size_t k) {
  const char *t = s->text + k, *end;
  if (t[0] == '/' && t[1] == '/')
    end = strchr(t, '\n');
  else if (t[0] == '/' && t[1] == '*')
    end = (end = strstr(t + 2, "*/")) ? end + 2 : NULL;
  else if (t[0] == '"')
    end = (end = strchr(t + 1, '"')) ? end + 1 : NULL;
  else
    return k;
  return end ? (size_t)(end - s->text) : s->length;
}

size_t edits_find(const Edits *e, size_t from, char what) {
  const Source *s = e->program->source;
  for (size_t k = from; k < s->length; k++) {
    size_t next = skip(s, k);
    if (next > k)
      k = next - 1;
    else if (s->text[k] == what)
      return k;
  }
  return s->length;
}

/* The closing brace that belongs to the first one from `from` on. */
static size_t closing_brace(const Edits *e, size_t from) {
  const Source *s = e->program->source;
  size_t k = edits_find(e, from, '{');
  for (int depth = 0; k < s->length; k++) {
    size_t next = skip(s, k);
    if (next > k) {
      k = next - 1;
      continue;
    }
    depth += (s->text[k] == '{') - (s->text[k] == '}');
    if (!depth) return k;
  }
  return s->length;
}

/* Is nothing but blanks between the beginning of the line and k? Then *line is the beginning. */
static bool begins_line(const Source *s, size_t k, size_t *line) {
  while (k > 0 && (s->text[k - 1] == ' ' || s->text[k - 1] == '\t')) k--;
  *line = k;
  return k == 0 || s->text[k - 1] == '\n';
}

bool edits_append(Edits *e, BlockId id, const char *statement) {
  const Stmt *block = e->program->blocks[id];
  const Source *s = e->program->source;
  size_t at, line;
  if (!block || !edits_offset(e, block->loc, &at)) return false;
  at = closing_brace(e, at);
  if (at == s->length) return false;
  if (begins_line(s, at, &line))
    edits_replace(e, line, 0, arena_format(e->arena, "  %s\n", statement));
  else
    edits_replace(e, at, 0, arena_format(e->arena, "%s ", statement));
  return true;
}

static int by_place(const void *a, const void *b) {
  const Edit *x = a, *y = b;
  if (x->at != y->at) return x->at < y->at ? -1 : 1;
  return x->number < y->number ? -1 : x->number > y->number;
}

const char *edits_apply(Edits *e) {
  const Source *s = e->program->source;
  Text t = text_make(e->arena);
  size_t at = 0;
  if (e->n) qsort(e->items, e->n, sizeof *e->items, by_place);
  for (size_t k = 0; k < e->n; k++) {
    const Edit *x = &e->items[k];
    if (x->at < at) return NULL;
    text_add(&t, s->text + at, x->at - at);
    text_puts(&t, x->text);
    at = x->at + x->length;
  }
  text_add(&t, s->text + at, s->length - at);
  return t.s;
}
