/* parse_type.c: types and declarations.
 *
 * A type is held as a Decl without a name: its unsized Type, its sizes (array sizes first), its
 * constraint, and for tuples one such Decl an item. Matrices always carry two sizes: corr_matrix[K]
 * has K twice, the same expression. */
#include "stan/stan_int.h"

#include <string.h>

/* The words that are types: the type, how many sizes follow, and the constraint that the word
 * itself implies. */
static const struct {
  TokenKind token;
  TypeKind kind;
  int min_sizes, max_sizes;
  ConstraintKind con;
} type_words[] = {
    {TOK_KW_INT, TY_INT, 0, 0, CON_NONE},
    {TOK_KW_REAL, TY_REAL, 0, 0, CON_NONE},
    {TOK_COMPLEX, TY_COMPLEX, 0, 0, CON_NONE},
    {TOK_VECTOR, TY_VECTOR, 1, 1, CON_NONE},
    {TOK_ROW_VECTOR, TY_ROW_VECTOR, 1, 1, CON_NONE},
    {TOK_MATRIX, TY_MATRIX, 2, 2, CON_NONE},
    {TOK_COMPLEX_VECTOR, TY_COMPLEX_VECTOR, 1, 1, CON_NONE},
    {TOK_COMPLEX_ROW_VECTOR, TY_COMPLEX_ROW_VECTOR, 1, 1, CON_NONE},
    {TOK_COMPLEX_MATRIX, TY_COMPLEX_MATRIX, 2, 2, CON_NONE},
#define TYPE_WORD(id, type, least, most, numbers) {TOK_##id, TY_##type, least, most, CON_##id},
#include "stan/constraints.def"
};

enum { NTYPES = sizeof type_words / sizeof *type_words };

static int type_word(TokenKind k) {
  for (int i = 0; i < NTYPES; i++)
    if (type_words[i].token == k) return i;
  return -1;
}

bool parse_at_type(const Parser *p) {
  TokenKind k = tok_peek(p);
  return k == TOK_ARRAY || k == TOK_TUPLE || type_word(k) >= 0;
}

static void add_size(Parser *p, Decl *d, Expr *size) {
  Expr **sizes = NEW_ARRAY(&p->c->arena, Expr *, d->nsizes + 1);
  if (d->nsizes) memcpy(sizes, d->sizes, (size_t)d->nsizes * sizeof *sizes);
  sizes[d->nsizes++] = size;
  d->sizes = sizes;
}

/* ---- constraints ----------------------------------------------------------------------------- */

/* The constraint whose argument in brackets the next token names, and which of the two it is. */
static ConstraintKind named_bound(const Parser *p, int *argument) {
  for (int k = CON_NONE + 1; k < CON_COUNT; k++)
    for (*argument = 0; *argument < 2; ++*argument) {
      const char *name = con_argument((ConstraintKind)k, *argument);
      if (name && tok_at_word(p, name)) return (ConstraintKind)k;
    }
  return CON_NONE;
}

/* bound = ("lower" | "upper" | "offset" | "multiplier") "=" expression without comparisons */
static void parse_one_bound(Parser *p, Constraint *con) {
  int argument;
  ConstraintKind kind = named_bound(p, &argument);
  if (kind == CON_NONE) {
    syntax_error(p, "`lower`, `upper`, `offset` or `multiplier`");
    return;
  }
  Loc loc = p->at++->loc;
  const char *name = con_argument(kind, argument);
  if (con->kind != CON_NONE && con->kind != kind)
    parse_error(p, loc, "bounds and offset or multiplier cannot be combined");
  else if (con->args[argument])
    parse_error(p, loc, "`%s` is given twice", name);
  con->kind = kind;
  tok_expect(p, TOK_ASSIGN, arena_format(&p->c->arena, "after `%s`", name));
  con->args[argument] = parse_bound(p);
}

/* bounds = "<" bound ["," bound] ">" */
static void parse_bounds(Parser *p, Decl *d) {
  if (!tok_accept(p, TOK_LT)) return;
  if (d->con.kind != CON_NONE)
    parse_error(p, loc_before(p), "this type has its constraint already and takes no bounds");
  do parse_one_bound(p, &d->con);
  while (tok_accept(p, TOK_COMMA));
  tok_expect(p, TOK_GT, "after the bounds");
}

/* ---- types ----------------------------------------------------------------------------------- */

/* base = word [bounds] ["[" size {"," size} "]"] */
static void parse_base(Parser *p, Decl *d, bool sized) {
  int w = type_word(tok_peek(p));
  if (w < 0) {
    syntax_error(p, "a type");
    d->type = type_basic(TY_ERROR);
    return;
  }
  Loc loc = p->at->loc;
  const char *word = token_name(p->at++->kind);
  d->type = type_basic(type_words[w].kind);
  d->con.kind = type_words[w].con;
  if (!sized) {
    if (d->con.kind != CON_NONE)
      stan_error(p->c, loc, "%s cannot be the type of an argument or a result; write `%s`", word,
                 type_text(&p->c->arena, d->type));
    return;
  }
  parse_bounds(p, d);
  if (type_words[w].max_sizes == 0) return;
  tok_expect(p, TOK_LBRACK, arena_format(&p->c->arena, "and a size after %s", word));
  int n = 0;
  do {
    add_size(p, d, parse_expr(p));
    n++;
  } while (n < type_words[w].max_sizes && tok_accept(p, TOK_COMMA));
  if (n < type_words[w].min_sizes) syntax_error(p, "`,` and the number of columns");
  tok_expect(p, TOK_RBRACK,
             arena_format(&p->c->arena, "after the size%s of %s", n > 1 ? "s" : "", word));
  if (n < type_own_dims(type_words[w].kind)) add_size(p, d, d->sizes[d->nsizes - 1]);
}

/* tuple = "tuple" "(" type "," [type {"," type}] ")" */
static void parse_tuple_type(Parser *p, Decl *d, bool sized) {
  Arena *a = &p->c->arena;
  p->at++;
  tok_expect(p, TOK_LPAREN, "after `tuple`");
  int cap = 0;
  do {
    if (d->nitems == 1 && tok_peek(p) == TOK_RPAREN) break;
    Decl *item = parse_type(p, sized);
    PUSH(a, d->items, d->nitems, cap, item);
    if (d->nitems == 1 && tok_peek(p) != TOK_COMMA)
      syntax_error(p, "`,` after the tuple's first type");
  } while (tok_accept(p, TOK_COMMA));
  tok_expect(p, TOK_RPAREN, "after the tuple's types");
  const Type **items = NEW_ARRAY(a, const Type *, d->nitems);
  for (int k = 0; k < d->nitems; k++) items[k] = d->items[k]->type;
  d->type = type_tuple(a, items, d->nitems);
}

enum {
  MOST_DIMS = 64
}; /* no program needs them; whoever writes a million must not fill the memory */

/* Many sizes: all are read, and the name that follows them is told with the error. */
static void too_many_dims(Parser *p, Loc loc) {
  const Token *t = p->at;
  while (t->kind != TOK_END && t->kind != TOK_IDENT && t->kind != TOK_SEMICOLON) t++;
  parse_error(p, loc, "%s has more than %d dimensions",
              t->kind == TOK_IDENT ? arena_format(&p->c->arena, "`%s`", t->text) : "this array",
              MOST_DIMS);
}

/* dims = "[" size {"," size} "]" when sized, "[" {","} "]" when not; returns how many */
static int parse_dims(Parser *p, Decl *d, bool sized) {
  int dims = 0;
  Loc loc = p->at->loc;
  tok_expect(p, TOK_LBRACK, "after `array`");
  do {
    Expr *size = sized ? parse_expr(p) : NULL;
    if (sized && dims < MOST_DIMS) add_size(p, d, size);
    dims++;
  } while (tok_accept(p, TOK_COMMA));
  if (!sized && tok_peek(p) != TOK_RBRACK && tok_peek(p) != TOK_END)
    parse_error(p, p->at->loc,
                "arguments and results are declared without sizes: write `array[%.*s]`",
                dims < 8 ? dims - 1 : 0, ",,,,,,,");
  tok_expect(p, TOK_RBRACK, "after the array's sizes");
  if (dims > MOST_DIMS) too_many_dims(p, loc);
  return dims;
}

/* The old `real[,] x` of arguments: says how to write it now, and goes on with what it means. */
static int parse_old_dims(Parser *p, const Decl *d) {
  Loc loc = p->at->loc;
  int dims = 1;
  p->at++;
  while (tok_accept(p, TOK_COMMA)) dims++;
  tok_expect(p, TOK_RBRACK, "after the array's dimensions");
  if (!p->panic && !p->old_syntax)
    stan_error(p->c, loc,
               "array dimensions now stand before the type: write `array[%.*s] %s`, or read the "
               "program with " OPTION("old-syntax"),
               dims < 8 ? dims - 1 : 0, ",,,,,,,", type_text(&p->c->arena, d->type));
  if (dims > MOST_DIMS) too_many_dims(p, loc);
  return dims;
}

/* type = ["array" dims] (base | tuple) */
Decl *parse_type(Parser *p, bool sized) {
  Decl *d = NEW(&p->c->arena, Decl);
  d->loc = p->at->loc;
  d->type = type_basic(TY_ERROR);
  if (parse_enter(p)) {
    int dims = tok_accept(p, TOK_ARRAY) ? parse_dims(p, d, sized) : 0;
    if (tok_peek(p) == TOK_TUPLE)
      parse_tuple_type(p, d, sized);
    else
      parse_base(p, d, sized);
    if (!sized && tok_peek(p) == TOK_LBRACK) dims += parse_old_dims(p, d);
    d->type = type_array(&p->c->arena, d->type, dims);
  }
  parse_leave(p);
  return d;
}

/* ---- declarations ---------------------------------------------------------------------------- */

static void say_modern_array(Parser *p, const Decl *d, const Decl *array, Loc loc) {
  Text t = text_make(&p->c->arena);
  for (int k = 0; k < array->nsizes; k++) {
    if (k) text_puts(&t, ", ");
    stan_print_expr(&t, array->sizes[k]);
  }
  stan_error(p->c, loc,
             "array sizes now stand before the type: write `array[%s] %s ... %s`, or read the "
             "program with " OPTION("old-syntax"),
             t.s, type_text(&p->c->arena, d->type), d->name);
}

/* The old `real x[N]`: says how to write it now, unless it is welcome, and goes on with the array
 * it means. */
static void parse_old_array(Parser *p, Decl *d) {
  Loc loc = p->at->loc;
  Decl array = {0};
  int dims = parse_dims(p, &array, true);
  if (p->panic) return;
  if (!p->old_syntax) say_modern_array(p, d, &array, loc);
  for (int k = 0; k < d->nsizes; k++) add_size(p, &array, d->sizes[k]);
  d->sizes = array.sizes;
  d->nsizes = array.nsizes;
  d->type = type_array(&p->c->arena, d->type, dims);
}

/* declarator = name ["=" expression] */
static Decl *parse_declarator(Parser *p, const Decl *type) {
  Decl *d = NEW(&p->c->arena, Decl);
  *d = *type;
  d->name = tok_expect_name(p, &d->loc, "a variable");
  if (tok_peek(p) == TOK_LBRACK) parse_old_array(p, d);
  if (tok_accept(p, TOK_ASSIGN)) d->init = parse_expr(p);
  return d;
}

/* declaration = type declarator {"," declarator} ";" */
Stmt *parse_decl(Parser *p) {
  Stmt *s = parse_new_stmt(p, ST_DECL, p->at->loc);
  const Decl *type = parse_type(p, true);
  int cap = 0;
  do {
    Decl *d = parse_declarator(p, type);
    PUSH(&p->c->arena, s->decls, s->ndecls, cap, d);
  } while (tok_accept(p, TOK_COMMA));
  tok_expect(p, TOK_SEMICOLON, "after the declaration");
  return s;
}

/* argument = ["data"] type name */
Decl *parse_arg(Parser *p) {
  bool data = tok_accept(p, TOK_DATA);
  Decl *d = parse_type(p, false);
  d->arg_data = data;
  d->is_arg = true;
  d->name = tok_expect_name(p, &d->loc, "an argument");
  return d;
}
