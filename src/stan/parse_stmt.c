/* parse_stmt.c: statements. */
#include "stan/stan_int.h"

static Stmt *parse_body(Parser *p);

static void end_stmt(Parser *p) { tok_expect(p, TOK_SEMICOLON, "after the statement"); }

static void set_body(Parser *p, Stmt *s, int n, Stmt *a, Stmt *b) {
  s->nbody = n;
  s->body = NEW_ARRAY(&p->c->arena, Stmt *, 2);
  s->body[0] = a;
  s->body[1] = b;
}

/* ---- control --------------------------------------------------------------------------------- */

/* condition = "(" expression ")" */
static Expr *parse_condition(Parser *p, const char *where) {
  tok_expect(p, TOK_LPAREN, where);
  Expr *e = parse_expr(p);
  tok_expect(p, TOK_RPAREN, "after the condition");
  return e;
}

/* if = "if" condition body ["else" body] */
static Stmt *parse_if(Parser *p) {
  Stmt *s = parse_new_stmt(p, ST_IF, p->at++->loc);
  s->e = parse_condition(p, "after `if`");
  Stmt *yes = parse_body(p);
  Stmt *no = tok_accept(p, TOK_ELSE) ? parse_body(p) : NULL;
  set_body(p, s, 2, yes, no);
  return s;
}

/* while = "while" condition body */
static Stmt *parse_while(Parser *p) {
  Stmt *s = parse_new_stmt(p, ST_WHILE, p->at++->loc);
  s->e = parse_condition(p, "after `while`");
  set_body(p, s, 1, parse_body(p), NULL);
  return s;
}

/* for = "for" "(" name "in" expression [":" expression] ")" body */
static Stmt *parse_for(Parser *p) {
  Stmt *s = parse_new_stmt(p, ST_FOREACH, p->at++->loc);
  Decl *var = NEW(&p->c->arena, Decl);
  tok_expect(p, TOK_LPAREN, "after `for`");
  var->name = tok_expect_name(p, &var->loc, "a loop's variable");
  var->is_loop = true;
  var->type = type_basic(TY_INT);
  s->ndecls = 1;
  s->decls = NEW_ARRAY(&p->c->arena, Decl *, 1);
  s->decls[0] = var;
  tok_expect(p, TOK_IN, "after the loop's variable");
  s->e = parse_expr(p);
  if (tok_accept(p, TOK_COLON)) {
    s->kind = ST_FOR;
    s->from = s->e;
    s->to = parse_expr(p);
    s->e = NULL;
  }
  tok_expect(p, TOK_RPAREN, "after the loop's range");
  set_body(p, s, 1, parse_body(p), NULL);
  return s;
}

/* profile = "profile" "(" string ")" braces */
static Stmt *parse_profile(Parser *p) {
  Loc loc = p->at++->loc;
  tok_expect(p, TOK_LPAREN, "after `profile`");
  const char *name = p->at->text;
  tok_expect(p, TOK_STRING, "naming the profile");
  tok_expect(p, TOK_RPAREN, "after the profile's name");
  Stmt *s = parse_braces(p, "the profile");
  s->kind = ST_PROFILE;
  s->loc = loc;
  s->name = name;
  return s;
}

/* return = "return" [expression] ";" */
static Stmt *parse_return(Parser *p) {
  Stmt *s = parse_new_stmt(p, ST_RETURN, p->at++->loc);
  if (tok_peek(p) != TOK_SEMICOLON) s->e = parse_expr(p);
  end_stmt(p);
  return s;
}

/* break = "break" ";" ; continue = "continue" ";" ; skip = ";" */
static Stmt *parse_word(Parser *p, StmtKind kind) {
  Stmt *s = parse_new_stmt(p, kind, p->at->loc);
  if (kind != ST_SKIP) p->at++;
  end_stmt(p);
  return s;
}

/* print = ("print" | "reject" | "fatal_error") "(" printable {"," printable} ")" ";" */
static Stmt *parse_print(Parser *p, StmtKind kind) {
  Stmt *s = parse_new_stmt(p, kind, p->at++->loc);
  tok_expect(p, TOK_LPAREN, "before what is to be printed");
  int cap = 0;
  do {
    Expr *e = parse_printable(p);
    PUSH(&p->c->arena, s->args, s->nargs, cap, e);
  } while (tok_accept(p, TOK_COMMA));
  tok_expect(p, TOK_RPAREN, "after what is to be printed");
  end_stmt(p);
  return s;
}

/* ---- statements that begin with an expression ------------------------------------------------ */

/* increment = ("target" | "jacobian") "+=" expression ";" */
static Stmt *parse_increment(Parser *p, StmtKind kind) {
  Stmt *s = parse_new_stmt(p, kind, p->at->loc);
  p->at += 2;
  s->e = parse_expr(p);
  end_stmt(p);
  return s;
}

/* truncation = "T" "[" [expression] "," [expression] "]" */
static void parse_truncation(Parser *p, Stmt *s) {
  p->at++;
  s->truncated = true;
  tok_expect(p, TOK_LBRACK, "after `T`");
  if (tok_peek(p) != TOK_COMMA) s->lower = parse_expr(p);
  tok_expect(p, TOK_COMMA, "between the truncation points");
  if (tok_peek(p) != TOK_RBRACK) s->upper = parse_expr(p);
  tok_expect(p, TOK_RBRACK, "after the truncation points");
}

/* tilde = expression "~" name "(" args ")" [truncation] ";" */
static Stmt *parse_tilde(Parser *p, Expr *outcome) {
  Stmt *s = parse_new_stmt(p, ST_TILDE, outcome->loc);
  Expr args = {0};
  p->at++;
  s->lhs = outcome;
  s->name = tok_expect_name(p, &s->loc, "a distribution");
  tok_expect(p, TOK_LPAREN, "before the distribution's parameters");
  parse_args(p, TOK_RPAREN, &args);
  tok_expect(p, TOK_RPAREN, "after the distribution's parameters");
  s->args = args.args;
  s->nargs = args.nargs;
  if (tok_at_word(p, "T")) parse_truncation(p, s);
  end_stmt(p);
  return s;
}

/* lvalue = name | lvalue "[" indexes "]" | lvalue ".1" | "(" lvalue "," lvalue {"," lvalue} ")" */
static bool is_lvalue(const Expr *e) {
  if (e->kind == EX_INDEX || e->kind == EX_FIELD)
    return e->args[0]->kind != EX_TUPLE && is_lvalue(e->args[0]);
  if (e->kind != EX_TUPLE) return e->kind == EX_VAR;
  for (int k = 0; k < e->nargs; k++)
    if (!is_lvalue(e->args[k])) return false;
  return true;
}

/* The operator of a compound assignment. */
static bool compound_op(TokenKind k, Operator *op) {
  switch (k) {
  case TOK_ADD_ASSIGN: *op = OP_ADD; return true;
  case TOK_SUB_ASSIGN: *op = OP_SUB; return true;
  case TOK_MUL_ASSIGN: *op = OP_MUL; return true;
  case TOK_DIV_ASSIGN: *op = OP_DIV; return true;
  case TOK_ELT_MUL_ASSIGN: *op = OP_ELT_MUL; return true;
  case TOK_ELT_DIV_ASSIGN: *op = OP_ELT_DIV; return true;
  default: return false;
  }
}

/* assignment = lvalue ("=" | "+=" | "-=" | "*=" | "/=" | ".*=" | "./=") expression ";" */
static Stmt *parse_assign(Parser *p, Expr *lhs) {
  Stmt *s = parse_new_stmt(p, ST_ASSIGN, lhs->loc);
  s->has_op = compound_op(tok_peek(p), &s->op);
  if (!is_lvalue(lhs))
    parse_error(p, lhs->loc,
                "cannot assign to this: the left side must be a variable or a part of one");
  else
    p->at++;
  s->lhs = lhs;
  s->e = parse_expr(p);
  end_stmt(p);
  return s;
}

/* call = name "(" args ")" ";" */
static Stmt *parse_call_stmt(Parser *p, Expr *e) {
  Stmt *s = parse_new_stmt(p, ST_CALL, e->loc);
  bool arrow = e->kind == EX_BINARY && e->op == OP_LT && e->args[1]->kind == EX_UNARY &&
               e->args[1]->op == OP_NEG;
  if (arrow)
    parse_error(p, e->loc, "`<-` is no longer assignment: write `=`");
  else if (tok_peek(p) != TOK_SEMICOLON)
    syntax_error(p, "`=`, `~` or `;`");
  else if (e->kind != EX_CALL)
    parse_error(p, e->loc, "this expression is not a statement: its value is not used");
  s->e = e;
  end_stmt(p);
  return s;
}

/* assignment, tilde or call, by what follows the expression */
static Stmt *parse_expr_stmt(Parser *p) {
  Expr *e = parse_expr(p);
  Operator op;
  if (tok_peek(p) == TOK_TILDE) return parse_tilde(p, e);
  if (tok_peek(p) == TOK_ASSIGN || compound_op(tok_peek(p), &op)) return parse_assign(p, e);
  return parse_call_stmt(p, e);
}

/* ---- all ------------------------------------------------------------------------------------- */

/* Is the brace here an array's, as in {1, 2} ~ normal(0, 1)? Then no `;` comes before its `}`, and
 * `~` comes behind. */
static bool at_array(const Parser *p) {
  int open = 0;
  for (const Token *t = p->at; t->kind != TOK_END && t->kind != TOK_SEMICOLON; t++) {
    if (t->kind == TOK_LBRACE) open++;
    if (t->kind == TOK_RBRACE && --open == 0) return t[1].kind == TOK_TILDE;
  }
  return false;
}

static Stmt *parse_one(Parser *p) {
  if (parse_at_type(p)) return parse_decl(p);
  switch (tok_peek(p)) {
  case TOK_LBRACE: return at_array(p) ? parse_expr_stmt(p) : parse_braces(p, "the block");
  case TOK_IF: return parse_if(p);
  case TOK_FOR: return parse_for(p);
  case TOK_WHILE: return parse_while(p);
  case TOK_PROFILE: return parse_profile(p);
  case TOK_BREAK: return parse_word(p, ST_BREAK);
  case TOK_CONTINUE: return parse_word(p, ST_CONTINUE);
  case TOK_SEMICOLON: return parse_word(p, ST_SKIP);
  case TOK_RETURN: return parse_return(p);
  case TOK_PRINT: return parse_print(p, ST_PRINT);
  case TOK_REJECT: return parse_print(p, ST_REJECT);
  case TOK_FATAL_ERROR: return parse_print(p, ST_FATAL);
  case TOK_ELSE:
    syntax_error(p, "a statement; this `else` has no `if`");
    return parse_new_stmt(p, ST_SKIP, p->at->loc);
  default: break;
  }
  if (tok_peek2(p) == TOK_ADD_ASSIGN && tok_peek(p) == TOK_TARGET)
    return parse_increment(p, ST_TARGET);
  if (tok_peek2(p) == TOK_ADD_ASSIGN && tok_peek(p) == TOK_JACOBIAN)
    return parse_increment(p, ST_JACOBIAN);
  return parse_expr_stmt(p);
}

/* statement = block | if | for | while | profile | break | continue | skip | return | print |
 * increment | tilde | assignment
 *           | call | declaration */
Stmt *parse_stmt(Parser *p) {
  Stmt *s = parse_enter(p) ? parse_one(p) : parse_new_stmt(p, ST_SKIP, p->at->loc);
  parse_leave(p);
  return s;
}

/* body = statement; a lone declaration is a block of its own */
static Stmt *parse_body(Parser *p) {
  Stmt *s = parse_stmt(p);
  if (s->kind != ST_DECL) return s;
  Stmt *block = parse_new_stmt(p, ST_BLOCK, s->loc);
  set_body(p, block, 1, s, NULL);
  return block;
}
