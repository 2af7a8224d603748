/* parse_expr.c: expressions. Binary operators by precedence climbing over the table below;
 * everything else one production a function. From loose to tight:
 *
 *   ? :   ||   &&   == !=   < <= > >=   + -   * / % .* ./   %/%   \   (prefix) ! - +   ^ .^
 * (postfix) ' [ ] .1 ( )
 *
 * All binary operators associate to the left but ^ and .^, which bind tighter than a prefix on
 * their left and looser than one on their right: -a^-b is -(a^(-b)). */
#include "stan/stan_int.h"

enum { LOOSEST = 1, BOUND = 5 /* no comparisons, as in <lower=...> */ };

static const struct {
  TokenKind token;
  Operator op;
  int level;
} binary_ops[] = {
    /* clang-format off */
    {TOK_OR, OP_OR, 1},
    {TOK_AND, OP_AND, 2},
    {TOK_EQ, OP_EQ, 3},   {TOK_NE, OP_NE, 3},
    {TOK_LT, OP_LT, 4},   {TOK_LE, OP_LE, 4},   {TOK_GT, OP_GT, 4},   {TOK_GE, OP_GE, 4},
    {TOK_ADD, OP_ADD, 5}, {TOK_SUB, OP_SUB, 5},
    {TOK_MUL, OP_MUL, 6}, {TOK_DIV, OP_DIV, 6}, {TOK_MOD, OP_MOD, 6},
    {TOK_ELT_MUL, OP_ELT_MUL, 6}, {TOK_ELT_DIV, OP_ELT_DIV, 6},
    {TOK_IDIV, OP_IDIV, 7},
    {TOK_LDIV, OP_LDIV, 8},
    /* clang-format on */
};

enum { NBINARY = sizeof binary_ops / sizeof *binary_ops };

static Expr *parse_unary(Parser *p);

/* ---- nodes ----------------------------------------------------------------------------------- */

static Expr *new_expr(Parser *p, ExprKind kind, Loc loc) {
  Expr *e = NEW(&p->c->arena, Expr);
  e->kind = kind;
  e->loc = loc;
  e->height = 1;
  return e;
}

static void raise_height(Parser *p, Expr *e, const Expr *child) {
  if (!child || child->height < e->height) return;
  e->height = child->height + 1;
  if (e->height > p->most_height)
    parse_error(p, e->loc, "this expression is more than %d operations deep; split it",
                p->most_height);
}

/* A node with n children. */
static Expr *node(Parser *p, ExprKind kind, Loc loc, int n, Expr *const *children) {
  Expr *e = new_expr(p, kind, loc);
  e->nargs = n;
  e->args = NEW_ARRAY(&p->c->arena, Expr *, n);
  for (int k = 0; k < n; k++) raise_height(p, e, e->args[k] = children[k]);
  return e;
}

static Expr *unary(Parser *p, Operator op, Loc loc, Expr *of) {
  Expr *e = node(p, EX_UNARY, loc, 1, &of);
  e->op = op;
  return e;
}

static Expr *binary(Parser *p, Operator op, Expr *left, Expr *right) {
  Expr *e = node(p, EX_BINARY, loc_join(left->loc, right->loc), 2, (Expr *[]){left, right});
  e->op = op;
  return e;
}

/* args = [expression {"," expression}] */
void parse_args(Parser *p, TokenKind close, Expr *owner) {
  int cap = 0;
  Expr **args = NULL;
  int n = 0;
  for (int k = 0; k < owner->nargs; k++) PUSH(&p->c->arena, args, n, cap, owner->args[k]);
  if (tok_peek(p) != close && tok_peek(p) != TOK_END) do {
      Expr *e = parse_expr(p);
      PUSH(&p->c->arena, args, n, cap, e);
      raise_height(p, owner, e);
    } while (tok_accept(p, TOK_COMMA));
  owner->args = args;
  owner->nargs = n;
}

/* ---- primaries ------------------------------------------------------------------------------- */

/* number = int | real | imaginary | "." digits */
static Expr *parse_number(Parser *p) {
  const Token *t = p->at++;
  ExprKind kind = t->kind == TOK_INT ? EX_INT : t->kind == TOK_IMAG ? EX_IMAG : EX_REAL;
  Expr *e = new_expr(p, kind, t->loc);
  e->ivalue = t->ivalue;
  e->rvalue = t->rvalue;
  return e;
}

/* call = name "(" args ")" | name "(" expression "|" args ")" */
static Expr *parse_call(Parser *p, const Token *name) {
  Expr *e = new_expr(p, EX_CALL, name->loc);
  e->name = name->text;
  p->at++;
  parse_args(p, TOK_RPAREN, e);
  if (tok_peek(p) == TOK_BAR) {
    if (e->nargs != 1)
      parse_error(p, p->at->loc, "`|` must follow the first argument, and stand there only once");
    e->bar = true;
    p->at++;
    parse_args(p, TOK_RPAREN, e);
    if (tok_peek(p) == TOK_BAR)
      parse_error(p, p->at->loc, "`|` must follow the first argument, and stand there only once");
  }
  tok_expect(p, TOK_RPAREN, "after the arguments");
  e->loc = loc_join(name->loc, loc_before(p));
  return e;
}

/* variable = name */
static Expr *parse_name(Parser *p) {
  const Token *name = p->at++;
  if (tok_peek(p) == TOK_LPAREN) return parse_call(p, name);
  Expr *e = new_expr(p, EX_VAR, name->loc);
  e->name = name->text;
  return e;
}

/* target = "target" "(" ")" */
static Expr *parse_target(Parser *p) {
  Expr *e = new_expr(p, EX_TARGET, p->at++->loc);
  tok_expect(p, TOK_LPAREN, "after `target` to read it, or `+=` to add to it");
  tok_expect(p, TOK_RPAREN, "after `target(`");
  return e;
}

/* paren = "(" expression ")" ; tuple = "(" expression "," args ")" */
static Expr *parse_paren(Parser *p) {
  Loc open = p->at++->loc;
  Expr *e = node(p, EX_PAREN, open, 1, (Expr *[]){parse_expr(p)});
  if (tok_accept(p, TOK_COMMA)) {
    e->kind = EX_TUPLE;
    parse_args(p, TOK_RPAREN, e);
  }
  tok_expect(p, TOK_RPAREN,
             e->kind == EX_TUPLE ? "after the tuple's items" : "after the expression");
  e->loc = loc_join(open, loc_before(p));
  return e;
}

/* array = "{" args "}" ; row = "[" args "]" */
static Expr *parse_list(Parser *p, ExprKind kind, TokenKind close) {
  Loc open = p->at++->loc;
  Expr *e = new_expr(p, kind, open);
  parse_args(p, close, e);
  tok_expect(p, close,
             kind == EX_ARRAY ? "after the array's elements" : "after the row's elements");
  e->loc = loc_join(open, loc_before(p));
  return e;
}

static Expr *no_expr(Parser *p) {
  if (tok_peek(p) == TOK_STRING)
    parse_error(p, p->at->loc, "a string can stand only in print, reject and fatal_error");
  else if (tok_peek(p) == TOK_JACOBIAN)
    parse_error(p, p->at->loc, "`jacobian` can only be added to: `jacobian += ...`");
  else
    syntax_error(p, "an expression");
  return new_expr(p, EX_INT, p->at->loc);
}

/* primary = number | variable | call | target | paren | tuple | array | row */
static Expr *parse_primary(Parser *p) {
  switch (tok_peek(p)) {
  case TOK_INT:
  case TOK_REAL:
  case TOK_IMAG:
  case TOK_DOTNUM: return parse_number(p);
  case TOK_IDENT: return parse_name(p);
  case TOK_TARGET: return parse_target(p);
  case TOK_LPAREN: return parse_paren(p);
  case TOK_LBRACE: return parse_list(p, EX_ARRAY, TOK_RBRACE);
  case TOK_LBRACK: return parse_list(p, EX_ROW, TOK_RBRACK);
  default: return no_expr(p);
  }
}

/* ---- postfix --------------------------------------------------------------------------------- */

/* index = [":"] | expression [":" [expression]] | ":" expression */
static Index parse_index(Parser *p) {
  Index ix = {.kind = IX_ALL, .loc = p->at->loc};
  bool from = tok_peek(p) != TOK_COLON && tok_peek(p) != TOK_COMMA && tok_peek(p) != TOK_RBRACK;
  if (from) ix.a = parse_expr(p);
  bool colon = tok_accept(p, TOK_COLON);
  if (colon && tok_peek(p) != TOK_COMMA && tok_peek(p) != TOK_RBRACK) ix.b = parse_expr(p);
  if (from && !colon)
    ix.kind = IX_ONE;
  else if (from)
    ix.kind = ix.b ? IX_RANGE : IX_FROM;
  else if (ix.b) {
    ix.kind = IX_TO;
    ix.a = ix.b;
    ix.b = NULL;
  }
  return ix;
}

/* indexed = postfix "[" index {"," index} "]" */
static Expr *parse_indexed(Parser *p, Expr *of) {
  Expr *e = node(p, EX_INDEX, of->loc, 1, &of);
  int cap = 0;
  p->at++;
  do {
    Index ix = parse_index(p);
    PUSH(&p->c->arena, e->indexes, e->nindexes, cap, ix);
    raise_height(p, e, ix.a);
    raise_height(p, e, ix.b);
  } while (tok_accept(p, TOK_COMMA));
  tok_expect(p, TOK_RBRACK, "after the index");
  e->loc = loc_join(of->loc, loc_before(p));
  return e;
}

/* field = postfix ".1" */
static Expr *parse_field(Parser *p, Expr *of) {
  Expr *e = node(p, EX_FIELD, loc_join(of->loc, p->at->loc), 1, &of);
  e->field = (int)p->at++->ivalue;
  return e;
}

/* postfix = primary | indexed | field | postfix "'" */
static Expr *parse_postfix(Parser *p) {
  Expr *e = parse_primary(p);
  for (;;) {
    switch (tok_peek(p)) {
    case TOK_LBRACK: e = parse_indexed(p, e); break;
    case TOK_DOTNUM: e = parse_field(p, e); break;
    case TOK_QUOTE: e = unary(p, OP_TRANSPOSE, loc_join(e->loc, p->at++->loc), e); break;
    default: return e;
    }
  }
}

/* ---- operators ------------------------------------------------------------------------------- */

/* power = postfix [("^" | ".^") unary] */
static Expr *parse_power(Parser *p) {
  Expr *base = parse_postfix(p);
  Operator op = tok_peek(p) == TOK_POW ? OP_POW : OP_ELT_POW;
  if (!tok_accept(p, TOK_POW) && !tok_accept(p, TOK_ELT_POW)) return base;
  Expr *exponent = parse_unary(p);
  return binary(p, op, base, exponent);
}

/* unary = ("!" | "-" | "+") unary | power */
static Expr *parse_unary(Parser *p) {
  Loc loc = p->at->loc;
  Operator op = tok_peek(p) == TOK_NOT ? OP_NOT : tok_peek(p) == TOK_SUB ? OP_NEG : OP_PLUS;
  Expr *e;
  if (!parse_enter(p))
    e = new_expr(p, EX_INT, loc);
  else if (tok_accept(p, TOK_NOT) || tok_accept(p, TOK_SUB) || tok_accept(p, TOK_ADD)) {
    Expr *of = parse_unary(p);
    e = unary(p, op, loc_join(loc, of->loc), of);
  } else
    e = parse_power(p);
  parse_leave(p);
  return e;
}

/* The row of binary_ops that comes next and binds at least as tight as level, or -1. */
static int binary_at(const Parser *p, int level) {
  TokenKind k = tok_peek(p);
  for (int i = 0; i < NBINARY; i++)
    if (binary_ops[i].token == k) return binary_ops[i].level >= level ? i : -1;
  return -1;
}

/* binary = unary {operator binary of the next level} */
static Expr *parse_binary(Parser *p, int level) {
  Expr *left = parse_unary(p);
  for (int i; (i = binary_at(p, level)) >= 0;) {
    p->at++;
    Expr *right = parse_binary(p, binary_ops[i].level + 1);
    left = binary(p, binary_ops[i].op, left, right);
  }
  return left;
}

/* expression = binary ["?" expression ":" expression] */
Expr *parse_expr(Parser *p) {
  Expr *cond = parse_binary(p, LOOSEST);
  if (!tok_accept(p, TOK_QUESTION)) return cond;
  parse_enter(p);
  Expr *yes = parse_expr(p);
  tok_expect(p, TOK_COLON, "between the two values of `? :`");
  Expr *no = parse_expr(p);
  parse_leave(p);
  return node(p, EX_TERNARY, loc_join(cond->loc, no->loc), 3, (Expr *[]){cond, yes, no});
}

Expr *parse_bound(Parser *p) { return parse_binary(p, BOUND); }

/* printable = string | expression */
Expr *parse_printable(Parser *p) {
  if (tok_peek(p) != TOK_STRING) return parse_expr(p);
  Expr *e = new_expr(p, EX_STRING, p->at->loc);
  e->name = p->at++->text;
  return e;
}
