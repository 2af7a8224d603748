/* lexer.c: text -> tokens. The whole program is read into one array, included files in their place,
 * so that the parser can look ahead as far as it likes. Each token keeps the source it came from.
 */
#include "stan/stan_int.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
  Ctx *c;
  const StanOptions *o;
  Tokens *out;
  const Source *source;
  const char *at, *end;
  const char *line_start;
  uint32_t line;
} Lexer;

static void lex_source(Lexer *lx);

/* ---- tables ---------------------------------------------------------------------------------- */

static const struct {
  const char *word;
  TokenKind kind;
} words[] = {
#define KEYWORD(id, word) {word, TOK_##id},
#define RESERVED(word) {word, TOK_WORD},
#include "stan/tokens.def"
};

static const struct {
  const char *spelling;
  TokenKind kind;
} puncts[] = {
#define PUNCT(id, spelling) {spelling, TOK_##id},
#include "stan/tokens.def"
};

const char *token_name(TokenKind k) {
  static const char *const names[TOK_COUNT] = {
#define CLASS(id, what) [TOK_##id] = what,
#define KEYWORD(id, word) [TOK_##id] = "`" word "`",
#define PUNCT(id, spelling) [TOK_##id] = "`" spelling "`",
#include "stan/tokens.def"
  };
  return names[k];
}

/* ---- characters and places ------------------------------------------------------------------- */

static bool is_digit(char ch) { return ch >= '0' && ch <= '9'; }
static bool is_letter(char ch) { return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z'); }
static bool is_name(char ch) { return is_letter(ch) || is_digit(ch) || ch == '_'; }
static bool is_foreign(char ch) {
  return (unsigned char)ch >= 0x80;
} /* part of a letter beyond ASCII */
static bool is_blank(char ch) {
  return ch == ' ' || ch == '\t' || ch == '\r' || ch == '\f' || ch == '\v';
}

static char char_at(const Lexer *lx, size_t ahead) {
  return (size_t)(lx->end - lx->at) > ahead ? lx->at[ahead] : 0;
}

static bool starts(const Lexer *lx, const char *s) {
  size_t n = strlen(s);
  return (size_t)(lx->end - lx->at) >= n && memcmp(lx->at, s, n) == 0;
}

static Loc loc_from(const Lexer *lx, const char *start) {
  return (Loc){lx->source, lx->line, (uint32_t)(start - lx->line_start) + 1,
               (uint32_t)(lx->at - start)};
}

static void newline(Lexer *lx) {
  lx->at++;
  lx->line++;
  lx->line_start = lx->at;
}

static Token *emit(Lexer *lx, TokenKind kind, const char *start) {
  Token t = {.kind = kind, .loc = loc_from(lx, start)};
  PUSH(&lx->c->arena, lx->out->at, lx->out->count, lx->out->cap, t);
  return &lx->out->at[lx->out->count - 1];
}

/* ---- comments and includes ------------------------------------------------------------------- */

static void skip_line(Lexer *lx) {
  while (lx->at < lx->end && *lx->at != '\n') lx->at++;
}

static void skip_comment(Lexer *lx) {
  lx->at += 2;
  Loc open = loc_from(lx, lx->at - 2);
  while (lx->at < lx->end && !starts(lx, "*/")) {
    if (*lx->at == '\n')
      newline(lx);
    else
      lx->at++;
  }
  if (lx->at == lx->end)
    stan_error(lx->c, open, "this comment does not end: `*/` is missing");
  else
    lx->at += 2;
}

/* The folder of a file, with its slash: "" for the current one. */
static const char *folder_of(Arena *a, const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? arena_text(a, path, (size_t)(slash - path) + 1) : "";
}

static char *read_in(Lexer *lx, const char *folder, const char *name, const char **path,
                     size_t *length) {
  const char *why;
  *path = arena_format(&lx->c->arena, "%s%s", folder, name);
  return text_read_file(&lx->c->arena, *path, length, &why);
}

/* The text of the file an #include names: beside the including file, else in one of the include
 * directories. A name that begins with a slash is meant from an include directory on, as in Stan's
 * own compiler; failing that it may be a path. */
static char *find_include(Lexer *lx, const char *given, const char **path, size_t *length) {
  Arena *a = &lx->c->arena;
  const char *name = given + strspn(given, "/"), *here = folder_of(a, lx->source->name);
  char *text = name == given ? read_in(lx, here, name, path, length) : NULL;
  for (int k = 0; !text && lx->o && k < lx->o->ninclude_dirs; k++)
    text = read_in(lx, arena_format(a, "%s/", lx->o->include_dirs[k]), name, path, length);
  if (!text && name != given) text = read_in(lx, here, name, path, length);
  if (!text && name != given) text = read_in(lx, "", given, path, length);
  return text;
}

static bool includes_itself(const Source *s, const char *path) {
  for (int depth = 0; s; s = s->from)
    if (strcmp(s->name, path) == 0 || ++depth > MAX_INCLUDES) return true;
  return false;
}

static void include_file(Lexer *lx, const char *name, Loc loc) {
  size_t length;
  const char *path;
  char *text = find_include(lx, name, &path, &length);
  if (!text) {
    stan_error(lx->c, loc,
               "cannot find \"%s\", neither beside this file nor in an include directory", name);
    return;
  }
  if (includes_itself(lx->source, path)) {
    stan_error(lx->c, loc, "\"%s\" includes itself", name);
    return;
  }
  Source *s = NEW(&lx->c->arena, Source);
  *s = (Source){
      .name = path, .text = text, .length = length, .from = lx->source, .from_line = lx->line};
  Lexer inner = {.c = lx->c, .o = lx->o, .out = lx->out, .source = s};
  lex_source(&inner);
}

/* include = "#include" (name | "<" name ">" | '"' name '"') */
static void lex_include(Lexer *lx) {
  const char *start = lx->at;
  lx->at += strlen("#include");
  while (is_blank(char_at(lx, 0))) lx->at++;
  char quote = char_at(lx, 0);
  char close = quote == '<' ? '>' : quote == '"' ? '"' : 0;
  if (close) lx->at++;
  const char *name = lx->at;
  while (lx->at < lx->end && *lx->at != '\n' && (close ? *lx->at != close : !is_blank(*lx->at)))
    lx->at++;
  char *file = arena_text(&lx->c->arena, name, (size_t)(lx->at - name));
  if (close && char_at(lx, 0) == close) lx->at++;
  Loc loc = loc_from(lx, start);
  if (!*file)
    stan_error(lx->c, loc, "#include needs a file name");
  else
    include_file(lx, file, loc);
}

static void lex_hash(Lexer *lx) {
  const char *start = lx->at;
  if (starts(lx, "#include") && !is_name(char_at(lx, 8))) {
    lex_include(lx);
    return;
  }
  lx->at++;
  stan_error(lx->c, loc_from(lx, start), "comments begin with `//`, no longer with `#`");
  skip_line(lx);
}

/* ---- tokens with a value --------------------------------------------------------------------- */

/* digits = digit {digit} {"_" digit {digit}} */
static bool skip_digits(Lexer *lx) {
  if (!is_digit(char_at(lx, 0))) return false;
  while (is_digit(char_at(lx, 0)) || (char_at(lx, 0) == '_' && is_digit(char_at(lx, 1)))) lx->at++;
  return true;
}

/* exponent = ("e" | "E") ["+" | "-"] digits */
static bool skip_exponent(Lexer *lx) {
  char ch = char_at(lx, 0);
  size_t sign = char_at(lx, 1) == '+' || char_at(lx, 1) == '-';
  if ((ch != 'e' && ch != 'E') || !is_digit(char_at(lx, 1 + sign))) return false;
  lx->at += 1 + sign;
  return skip_digits(lx);
}

static char *without_underscores(Lexer *lx, const char *s, const char *end) {
  char *copy = arena_text(&lx->c->arena, s, (size_t)(end - s)), *to = copy;
  for (const char *from = copy; *from; from++)
    if (*from != '_') *to++ = *from;
  *to = 0;
  return copy;
}

static long int_value(Lexer *lx, const char *digits, Loc loc) {
  long v = strtol(digits, NULL, 10);
  if (v <= INT32_MAX) return v;
  stan_error(lx->c, loc, "the integer %s is larger than 2147483647; write a real number", digits);
  return INT32_MAX;
}

/* number = digits | [digits] "." [digits] [exponent] | digits exponent, then "i" when imaginary */
static void lex_number(Lexer *lx) {
  const char *start = lx->at;
  bool whole = skip_digits(lx), point = char_at(lx, 0) == '.';
  if (point) {
    lx->at++;
    skip_digits(lx);
  }
  bool exponent = skip_exponent(lx);
  char *digits = without_underscores(lx, start, lx->at);
  TokenKind kind = !point && !exponent ? TOK_INT : whole || exponent ? TOK_REAL : TOK_DOTNUM;
  if (char_at(lx, 0) == 'i' && !is_name(char_at(lx, 1))) {
    lx->at++;
    kind = TOK_IMAG;
  }
  Token *t = emit(lx, kind, start);
  t->rvalue = strtod(digits, NULL);
  if (kind == TOK_INT) t->ivalue = int_value(lx, digits, t->loc);
  if (kind == TOK_DOTNUM) t->ivalue = int_value(lx, digits + 1, t->loc);
}

static void lex_word(Lexer *lx) {
  const char *start = lx->at;
  bool foreign = false;
  for (; is_name(char_at(lx, 0)) || is_foreign(char_at(lx, 0)); lx->at++)
    foreign |= is_foreign(*lx->at);
  const char *word = arena_text(&lx->c->arena, start, (size_t)(lx->at - start));
  Token *t = emit(lx, TOK_IDENT, start);
  if (foreign)
    stan_error(lx->c, t->loc, "`%s`: letters beyond ASCII may stand only in comments and strings",
               word);
  t->text = word;
  for (size_t k = 0; k < sizeof words / sizeof *words; k++)
    if (strcmp(word, words[k].word) == 0) t->kind = words[k].kind;
}

static void lex_string(Lexer *lx) {
  const char *start = lx->at++;
  while (lx->at < lx->end && *lx->at != '"' && *lx->at != '\n') lx->at++;
  const char *text = arena_text(&lx->c->arena, start + 1, (size_t)(lx->at - start - 1));
  if (char_at(lx, 0) == '"')
    lx->at++;
  else
    stan_error(lx->c, loc_from(lx, start), "this string does not end on its line: `\"` is missing");
  emit(lx, TOK_STRING, start)->text = text;
}

/* ---- all tokens ------------------------------------------------------------------------------ */

static bool lex_punct(Lexer *lx) {
  for (size_t k = 0; k < sizeof puncts / sizeof *puncts; k++)
    if (starts(lx, puncts[k].spelling)) {
      const char *start = lx->at;
      lx->at += strlen(puncts[k].spelling);
      emit(lx, puncts[k].kind, start);
      return true;
    }
  return false;
}

static bool starts_token(const Lexer *lx) {
  char ch = *lx->at;
  if (is_name(ch) || is_foreign(ch) || is_blank(ch) || ch == '\n' || ch == '"' || ch == '#')
    return ch != '_';
  for (size_t k = 0; k < sizeof puncts / sizeof *puncts; k++)
    if (ch == puncts[k].spelling[0]) return true;
  return false;
}

/* A run of characters that begin no token makes one message. */
static void lex_bad(Lexer *lx) {
  const char *start = lx->at;
  do lx->at++;
  while (lx->at < lx->end && !starts_token(lx));
  unsigned char ch = (unsigned char)*start;
  Loc loc = loc_from(lx, start);
  if (ch == '_')
    stan_error(lx->c, loc, "a name or number cannot begin with or end in `_` here");
  else if (ch < ' ' || ch == 0x7f)
    stan_error(lx->c, loc, "stray byte 0x%02x", ch);
  else
    stan_error(lx->c, loc, "stray character `%c`", ch);
}

static void lex_one(Lexer *lx) {
  char ch = *lx->at;
  if (ch == '\n')
    newline(lx);
  else if (is_blank(ch))
    lx->at++;
  else if (starts(lx, "//"))
    skip_line(lx);
  else if (starts(lx, "/*"))
    skip_comment(lx);
  else if (ch == '#')
    lex_hash(lx);
  else if (ch == '"')
    lex_string(lx);
  else if (is_letter(ch) || is_foreign(ch))
    lex_word(lx);
  else if (is_digit(ch) || (ch == '.' && is_digit(char_at(lx, 1))))
    lex_number(lx);
  else if (!lex_punct(lx))
    lex_bad(lx);
}

static void lex_source(Lexer *lx) {
  lx->at = lx->line_start = lx->source->text;
  lx->end = lx->at + lx->source->length;
  lx->line = 1;
  if (starts(lx, "\xEF\xBB\xBF")) lx->at += 3; /* a byte order mark */
  while (lx->at < lx->end) lex_one(lx);
}

Tokens lex_all(Ctx *c, const Source *s, const StanOptions *o) {
  Tokens out = {0};
  Lexer lx = {.c = c, .o = o, .out = &out, .source = s};
  lex_source(&lx);
  emit(&lx, TOK_END, lx.at);
  return out;
}
