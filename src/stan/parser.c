/* parser.c: tokens -> tree; here the program, its blocks and functions, and what all productions
 * share.
 *
 * Each production is one function with the production above it. A syntax error is reported once and
 * starts a *panic*: until parse_recover, every production sees the end of the program as the next
 * token, and so returns quietly. The loop over the statements of the innermost block recovers: it
 * skips to behind the next `;` or before the next `}` and goes on. */
#include "stan/stan_int.h"

#include <string.h>

/* ---- errors ---------------------------------------------------------------------------------- */

void stan_verror(Ctx *c, Loc loc, const char *fmt, va_list ap) {
  if (c->nerrors > MAX_ERRORS) return;
  Text t = text_make(&c->arena);
  text_vprintf(&t, fmt, ap);
  if (c->nerrors < MAX_ERRORS)
    ctx_error(c, loc, "%s", t.s);
  else
    ctx_error(c, NOWHERE, "more than %d errors; the others are not shown", MAX_ERRORS);
}

void stan_error(Ctx *c, Loc loc, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  stan_verror(c, loc, fmt, ap);
  va_end(ap);
}

/* How the message names a token: `x`, "a string". */
static const char *describe(const Parser *p, const Token *t) {
  bool word = t->kind == TOK_IDENT || t->kind == TOK_WORD;
  return word ? arena_format(&p->c->arena, "`%s`", t->text) : token_name(t->kind);
}

void parse_error(Parser *p, Loc loc, const char *fmt, ...) {
  if (p->panic) return;
  va_list ap;
  va_start(ap, fmt);
  stan_verror(p->c, loc, fmt, ap);
  va_end(ap);
  p->panic = true;
}

/* What is missing at the end of a line is missed there, not at the beginning of the next one. */
static Loc loc_missing(const Parser *p) {
  if (p->at == p->first) return p->at->loc;
  Loc last = loc_before(p), next = p->at->loc;
  if (last.source == next.source && last.line == next.line) return next;
  last.column += last.length;
  last.length = 1;
  return last;
}

void syntax_error(Parser *p, const char *expected) {
  parse_error(p, loc_missing(p), "expected %s, but found %s", expected, describe(p, p->at));
}

/* ---- reading tokens -------------------------------------------------------------------------- */

TokenKind tok_peek(const Parser *p) { return p->panic ? TOK_END : p->at->kind; }

TokenKind tok_peek2(const Parser *p) { return tok_peek(p) == TOK_END ? TOK_END : p->at[1].kind; }

bool tok_at_word(const Parser *p, const char *word) {
  return tok_peek(p) == TOK_IDENT && strcmp(p->at->text, word) == 0;
}

bool tok_accept(Parser *p, TokenKind k) {
  if (tok_peek(p) != k || k == TOK_END) return false;
  p->at++;
  return true;
}

Loc loc_before(const Parser *p) { return p->at[-1].loc; }

Loc tok_expect(Parser *p, TokenKind k, const char *where) {
  Loc loc = p->at->loc;
  if (!tok_accept(p, k)) syntax_error(p, arena_format(&p->c->arena, "%s %s", token_name(k), where));
  return loc;
}

/* Words of constraints, which are names nowhere. */
static bool is_modifier(const char *name) {
  static const char *const words[] = {"lower", "upper", "offset", "multiplier"};
  for (size_t k = 0; k < sizeof words / sizeof *words; k++)
    if (!strcmp(words[k], name)) return true;
  return false;
}

static bool is_keyword(TokenKind k) { return k >= TOK_FUNCTIONS && k <= TOK_PROFILE; }

const char *tok_expect_name(Parser *p, Loc *loc, const char *what) {
  *loc = p->at->loc;
  const char *name = p->at->text;
  bool taken = tok_peek(p) == TOK_IDENT && is_modifier(name);
  if (tok_accept(p, TOK_IDENT) && !taken) return name;
  if (taken || is_keyword(tok_peek(p)) || tok_peek(p) == TOK_WORD)
    parse_error(p, *loc, "`%s` is a reserved word and cannot name %s", name, what);
  else
    syntax_error(p, arena_format(&p->c->arena, "a name for %s", what));
  return "?";
}

bool parse_enter(Parser *p) {
  if (p->nesting >= MAX_NESTING || base_stack_left() < STACK_RESERVE)
    parse_error(p, p->at->loc, "nested more than %d deep; simplify the program", p->nesting);
  p->nesting++;
  return !p->panic;
}

void parse_leave(Parser *p) { p->nesting--; }

Loc loc_join(Loc from, Loc to) {
  if (from.source == to.source && from.line == to.line && to.column + to.length > from.column)
    from.length = to.column + to.length - from.column;
  return from;
}

/* ---- recovery -------------------------------------------------------------------------------- */

/* The block a token begins, or BLOCK_COUNT. */
static BlockId block_at(const Token *t) {
  switch (t->kind) {
  case TOK_FUNCTIONS: return BLOCK_FUNCTIONS;
  case TOK_DATA: return BLOCK_DATA;
  case TOK_PARAMETERS: return BLOCK_PARAMETERS;
  case TOK_MODEL: return BLOCK_MODEL;
  case TOK_GENERATED: return BLOCK_GENERATED;
  case TOK_TRANSFORMED:
    return t[1].kind == TOK_PARAMETERS ? BLOCK_TRANSFORMED_PARAMETERS : BLOCK_TRANSFORMED_DATA;
  default: return BLOCK_COUNT;
  }
}

/* Does a new block begin here? Only `data` begins something else as well: a function's argument. */
static bool at_block(const Token *t) {
  BlockId b = block_at(t);
  return b != BLOCK_COUNT && (b != BLOCK_DATA || t[1].kind == TOK_LBRACE);
}

/* Skips to behind the next `;`, or behind the brace that closes one opened on the way, or before
 * `}` or a new block. */
void parse_recover(Parser *p) {
  if (!p->panic) return;
  p->panic = false;
  for (int open = 0; p->at->kind != TOK_END && !at_block(p->at); p->at++) {
    TokenKind k = p->at->kind;
    if (k == TOK_RBRACE && open == 0) return;
    if (k == TOK_LBRACE) open++;
    if (k == TOK_RBRACE) open--;
    if (open == 0 && (k == TOK_SEMICOLON || k == TOK_RBRACE)) {
      p->at++;
      while (p->at->kind == TOK_ELSE) p->at++; /* of the `if` that was skipped */
      return;
    }
  }
  p->lost = true;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

Stmt *parse_new_stmt(Parser *p, StmtKind kind, Loc loc) {
  Stmt *s = NEW(&p->c->arena, Stmt);
  s->kind = kind;
  s->loc = loc;
  return s;
}

/* Takes `}` of `what`. A new block, or the end, where it should stand means that it was forgotten.
 */
static void close_brace(Parser *p, Loc open, const char *what) {
  if (tok_accept(p, TOK_RBRACE)) return;
  if (tok_peek(p) == TOK_END || at_block(p->at)) {
    if (!p->panic && !p->lost) stan_error(p->c, open, "this `{` of %s is never closed", what);
  } else
    syntax_error(p, "`}`");
}

/* braces = "{" {declaration | statement} "}" */
Stmt *parse_braces(Parser *p, const char *what) {
  Loc open = tok_expect(p, TOK_LBRACE, arena_format(&p->c->arena, "to open %s", what));
  Stmt *s = parse_new_stmt(p, ST_BLOCK, open);
  int cap = 0;
  while (tok_peek(p) != TOK_END && tok_peek(p) != TOK_RBRACE && !at_block(p->at)) {
    Stmt *one = parse_stmt(p);
    PUSH(&p->c->arena, s->body, s->nbody, cap, one);
    parse_recover(p);
  }
  close_brace(p, open, what);
  return s;
}

/* function = ("void" | type) name "(" [argument {"," argument}] ")" (";" | braces) */
static FunDef *parse_function(Parser *p) {
  Arena *a = &p->c->arena;
  FunDef *f = NEW(a, FunDef);
  Type *type = NEW(a, Type);
  type->kind = TY_FUNCTION;
  type->result = tok_accept(p, TOK_VOID) ? type_basic(TY_VOID) : parse_type(p, false)->type;
  f->name = tok_expect_name(p, &f->loc, "a function");
  f->type = type;
  tok_expect(p, TOK_LPAREN, "before the function's arguments");
  int cap = 0;
  while (tok_peek(p) != TOK_RPAREN && tok_peek(p) != TOK_END) {
    Decl *arg = parse_arg(p);
    PUSH(a, f->args, f->nargs, cap, arg);
    if (!tok_accept(p, TOK_COMMA)) break;
  }
  tok_expect(p, TOK_RPAREN, "after the function's arguments");
  type->nitems = f->nargs;
  type->items = NEW_ARRAY(a, const Type *, f->nargs);
  type->data_only = NEW_ARRAY(a, bool, f->nargs);
  for (int k = 0; k < f->nargs; k++) {
    type->items[k] = f->args[k]->type;
    type->data_only[k] = f->args[k]->arg_data;
  }
  if (!tok_accept(p, TOK_SEMICOLON)) f->body = parse_braces(p, "the function's body");
  return f;
}

/* functions = "functions" "{" {function} "}" */
static void parse_functions(Parser *p, Program *prog) {
  Loc open = tok_expect(p, TOK_LBRACE, "to open the functions block");
  int cap = prog->nfunctions;
  while (tok_peek(p) != TOK_END && tok_peek(p) != TOK_RBRACE && !at_block(p->at)) {
    FunDef *f = parse_function(p);
    if (!p->panic) PUSH(&p->c->arena, prog->functions, prog->nfunctions, cap, f);
    parse_recover(p);
  }
  close_brace(p, open, "the functions block");
}

static const char *const block_names[BLOCK_COUNT] = {
    "functions",
    "data",
    "transformed data",
    "parameters",
    "transformed parameters",
    "model",
    "generated quantities",
};

const char *stan_block_name(BlockId b) { return block_names[b]; }

/* The one or two words before a block's brace. */
static void take_block_words(Parser *p, BlockId b) {
  p->at++;
  if (b == BLOCK_TRANSFORMED_PARAMETERS) p->at++;
  if (b == BLOCK_TRANSFORMED_DATA) tok_expect(p, TOK_DATA, "or `parameters` after `transformed`");
  if (b == BLOCK_GENERATED) tok_expect(p, TOK_QUANTITIES, "after `generated`");
}

/* block = words braces */
static void parse_block(Parser *p, Program *prog, BlockId b, BlockId *last) {
  const char *name = block_names[b];
  Loc loc = p->at->loc;
  if (prog->blocks[b] || (b == BLOCK_FUNCTIONS && *last != BLOCK_COUNT)) {
    bool again = prog->blocks[b] || prog->nfunctions;
    if (again)
      stan_error(p->c, loc, "a second %s block; there can be one", name);
    else
      stan_error(p->c, loc, "the functions block must be the first one");
  } else if (*last != BLOCK_COUNT && b < *last) {
    stan_error(p->c, loc, "the %s block must stand before the %s block", name, block_names[*last]);
  }
  take_block_words(p, b);
  if (b == BLOCK_FUNCTIONS) {
    parse_functions(p, prog);
  } else {
    Stmt *body = parse_braces(p, arena_format(&p->c->arena, "the %s block", name));
    if (!prog->blocks[b]) prog->blocks[b] = body;
  }
  *last = b;
}

/* program = {block}, each at most once and in the order of BlockId */
static void parse_program(Parser *p, Program *prog) {
  BlockId last = BLOCK_COUNT;
  while (p->at->kind != TOK_END) {
    BlockId b = block_at(p->at);
    if (b == BLOCK_COUNT) {
      syntax_error(
          p,
          "a block (functions, data, transformed data, parameters, transformed parameters, model, "
          "generated quantities)");
      if (p->at->kind == TOK_RBRACE) p->at++;
    } else
      parse_block(p, prog, b, &last);
    parse_recover(p);
  }
}

/* ---- verbs ----------------------------------------------------------------------------------- */

/* Small stacks allow flatter expressions. */
static int most_height(void) {
  if (base_stack_left() < 2 * STACK_RESERVE) return 100;
  size_t levels = (base_stack_left() - STACK_RESERVE) / LEVEL_BYTES;
  return levels < MAX_HEIGHT ? (int)levels : MAX_HEIGHT;
}

Program *stan_parse_text(Ctx *c, const char *name, const char *text, size_t n,
                         const StanOptions *o) {
  Source *source = NEW(&c->arena, Source);
  *source = (Source){.name = name, .text = text, .length = n};
  Program *prog = NEW(&c->arena, Program);
  prog->source = source;
  size_t before = c->nerrors;
  Tokens tokens = lex_all(c, source, o);
  Parser p = {.c = c,
              .at = tokens.at,
              .first = tokens.at,
              .old_syntax = o && o->old_syntax,
              .most_height = most_height()};
  parse_program(&p, prog);
  prog->broken = c->nerrors > before;
  prog->undefined = o && o->undefined;
  return prog;
}

Program *stan_parse(Ctx *c, const char *path, const StanOptions *o) {
  size_t n;
  const char *why;
  char *text = text_read_file(&c->arena, path, &n, &why);
  if (!text) ctx_fail(c, PVI_PROGRAM, NOWHERE, "cannot read %s: %s", path, why);
  return stan_parse_text(c, path, text, n, o);
}
