/* print.c: every stage as text. Tokens one a line; trees as s-expressions, one statement a line;
 * types and expressions as Stan source. In a typed tree each expression is followed by :type, with
 * a ! when parameters may reach it. */
#include "stan/stan_int.h"

#include <stdlib.h>
#include <string.h>

/* ---- tokens ---------------------------------------------------------------------------------- */

void stan_print_tokens(Ctx *c, Text *out, const char *name, const char *text, size_t n) {
  Source *s = NEW(&c->arena, Source);
  *s = (Source){.name = name, .text = text, .length = n};
  Tokens tokens = lex_all(c, s, NULL);
  for (size_t k = 0; k < tokens.count; k++) {
    const Token *t = &tokens.at[k];
    text_printf(out, "%u:%u %s", t->loc.line, t->loc.column, token_name(t->kind));
    if (t->kind == TOK_IDENT || t->kind == TOK_WORD || t->kind == TOK_STRING)
      text_printf(out, " %s", t->text);
    if (t->kind == TOK_INT) text_printf(out, " %ld", t->ivalue);
    if (t->kind == TOK_REAL || t->kind == TOK_IMAG || t->kind == TOK_DOTNUM)
      text_printf(out, " %g", t->rvalue);
    text_puts(out, "\n");
  }
}

/* ---- types ----------------------------------------------------------------------------------- */

static const char *const kind_names[] = {
    "<error>",        "void",       "int",      "real",           "complex",
    "vector",         "row_vector", "matrix",   "complex_vector", "complex_row_vector",
    "complex_matrix", "tuple",      "function", "string",
};

static void print_items(Text *out, const Type *t) {
  text_puts(out, "(");
  for (int k = 0; k < t->nitems; k++) {
    if (k) text_puts(out, ", ");
    if (t->data_only && t->data_only[k]) text_puts(out, "data ");
    stan_print_type(out, t->items[k]);
  }
  text_puts(out, ")");
}

void stan_print_type(Text *out, const Type *t) {
  if (t->array_dims) {
    text_puts(out, "array[");
    for (int k = 1; k < t->array_dims; k++) text_puts(out, ",");
    text_puts(out, "] ");
  }
  if (t->kind == TY_FUNCTION && t->result) {
    print_items(out, t);
    text_puts(out, " => ");
    stan_print_type(out, t->result);
    return;
  }
  text_puts(out, kind_names[t->kind]);
  if (t->kind == TY_TUPLE) print_items(out, t);
}

/* ---- expressions as source ------------------------------------------------------------------- */

/* clang-format off */
static const char *const op_names[] = {
    [OP_ADD] = "+",     [OP_SUB] = "-",     [OP_MUL] = "*",      [OP_DIV] = "/",
    [OP_IDIV] = "%/%", [OP_MOD] = "%",
    [OP_LDIV] = "\\",   [OP_POW] = "^",     [OP_ELT_MUL] = ".*", [OP_ELT_DIV] = "./",
    [OP_ELT_POW] = ".^", [OP_OR] = "||",
    [OP_AND] = "&&",    [OP_EQ] = "==",     [OP_NE] = "!=",      [OP_LT] = "<",
    [OP_LE] = "<=",    [OP_GT] = ">",
    [OP_GE] = ">=",     [OP_NOT] = "!",     [OP_NEG] = "-",      [OP_PLUS] = "+",
    [OP_TRANSPOSE] = "'",
};
/* clang-format on */

const char *stan_op_name(Operator op) { return op_names[op]; }

/* The shortest decimal that reads back as x, always with a point or an exponent. */
static void print_real(Text *out, double x) {
  char s[40];
  for (int digits = 15; digits <= 17; digits++) {
    snprintf(s, sizeof s, "%.*g", digits, x);
    if (strtod(s, NULL) == x) break;
  }
  text_puts(out, s);
  if (!strpbrk(s, ".einf")) text_puts(out, ".0");
}

static void print_exprs(Text *out, Expr *const *args, int n, const char *separator) {
  for (int k = 0; k < n; k++) {
    if (k) text_puts(out, separator);
    stan_print_expr(out, args[k]);
  }
}

static void print_index(Text *out, const Index *ix) {
  if (ix->kind == IX_TO || ix->kind == IX_ALL) text_puts(out, ":");
  if (ix->a) stan_print_expr(out, ix->a);
  if (ix->kind == IX_RANGE || ix->kind == IX_FROM) text_puts(out, ":");
  if (ix->b) stan_print_expr(out, ix->b);
}

static void print_call(Text *out, const Expr *e) {
  text_printf(out, "%s(", e->name);
  if (e->bar) {
    stan_print_expr(out, e->args[0]);
    text_puts(out, e->nargs > 1 ? " | " : " |");
    print_exprs(out, e->args + 1, e->nargs - 1, ", ");
  } else {
    print_exprs(out, e->args, e->nargs, ", ");
  }
  text_puts(out, ")");
}

static void print_between(Text *out, const char *open, const Expr *e, const char *close) {
  text_puts(out, open);
  print_exprs(out, e->args, e->nargs, ", ");
  text_puts(out, close);
}

static void print_unary(Text *out, const Expr *e) {
  if (e->op != OP_TRANSPOSE) text_puts(out, op_names[e->op]);
  stan_print_expr(out, e->args[0]);
  if (e->op == OP_TRANSPOSE) text_puts(out, "'");
}

static void print_indexed(Text *out, const Expr *e) {
  stan_print_expr(out, e->args[0]);
  text_puts(out, "[");
  for (int k = 0; k < e->nindexes; k++) {
    if (k) text_puts(out, ", ");
    print_index(out, &e->indexes[k]);
  }
  text_puts(out, "]");
}

void stan_print_expr(Text *out, const Expr *e) {
  switch (e->kind) {
  case EX_INT: text_printf(out, "%ld", e->ivalue); break;
  case EX_REAL: print_real(out, e->rvalue); break;
  case EX_IMAG:
    print_real(out, e->rvalue);
    text_puts(out, "i");
    break;
  case EX_STRING: text_printf(out, "\"%s\"", e->name); break;
  case EX_VAR: text_puts(out, e->name); break;
  case EX_UNARY: print_unary(out, e); break;
  case EX_BINARY:
    stan_print_expr(out, e->args[0]);
    text_printf(out, " %s ", op_names[e->op]);
    stan_print_expr(out, e->args[1]);
    break;
  case EX_TERNARY:
    stan_print_expr(out, e->args[0]);
    text_puts(out, " ? ");
    print_exprs(out, e->args + 1, 2, " : ");
    break;
  case EX_CALL: print_call(out, e); break;
  case EX_INDEX: print_indexed(out, e); break;
  case EX_FIELD:
    stan_print_expr(out, e->args[0]);
    text_printf(out, ".%d", e->field);
    break;
  case EX_ARRAY: print_between(out, "{", e, "}"); break;
  case EX_ROW: print_between(out, "[", e, "]"); break;
  case EX_TUPLE: print_between(out, "(", e, e->nargs == 1 ? ",)" : ")"); break;
  case EX_PAREN: print_between(out, "(", e, ")"); break;
  case EX_TARGET: text_puts(out, "target()"); break;
  }
}

/* ---- trees ----------------------------------------------------------------------------------- */

typedef struct {
  Text *out;
  bool typed;
  int indent;
} Printer;

static void tree_expr(Printer *pr, const Expr *e);

static void tree_exprs(Printer *pr, Expr *const *args, int n) {
  for (int k = 0; k < n; k++) {
    text_puts(pr->out, " ");
    tree_expr(pr, args[k]);
  }
}

static void tree_list(Printer *pr, const char *head, const Expr *e) {
  text_printf(pr->out, "(%s", head);
  tree_exprs(pr, e->args, e->nargs);
  text_puts(pr->out, ")");
}

static void tree_index(Printer *pr, const Index *ix) {
  static const char *const names[] = {
      [IX_ALL] = "all", [IX_FROM] = "from", [IX_TO] = "to", [IX_RANGE] = "range"};
  if (ix->kind == IX_ONE) {
    tree_expr(pr, ix->a);
    return;
  }
  Expr *const ends[] = {ix->a, ix->b};
  text_printf(pr->out, "(%s", names[ix->kind]);
  tree_exprs(pr, ends, (ix->a != NULL) + (ix->b != NULL));
  text_puts(pr->out, ")");
}

static void tree_indexed(Printer *pr, const Expr *e) {
  text_puts(pr->out, "(index ");
  tree_expr(pr, e->args[0]);
  for (int k = 0; k < e->nindexes; k++) {
    text_puts(pr->out, " ");
    tree_index(pr, &e->indexes[k]);
  }
  text_puts(pr->out, ")");
}

static const char *call_kind(CallKind k) {
  static const char *const names[] = {"call", "user", "function", "dist", "variable"};
  return names[k];
}

static void tree_bare(Printer *pr, const Expr *e) {
  switch (e->kind) {
  case EX_UNARY:
  case EX_BINARY: tree_list(pr, op_names[e->op], e); break;
  case EX_TERNARY: tree_list(pr, "?", e); break;
  case EX_CALL:
    text_printf(pr->out, "(%s %s", call_kind(e->call), e->name);
    tree_exprs(pr, e->args, e->nargs);
    text_puts(pr->out, ")");
    break;
  case EX_INDEX: tree_indexed(pr, e); break;
  case EX_FIELD:
    text_printf(pr->out, "(field %d ", e->field);
    tree_expr(pr, e->args[0]);
    text_puts(pr->out, ")");
    break;
  case EX_ARRAY: tree_list(pr, "array", e); break;
  case EX_ROW: tree_list(pr, "row", e); break;
  case EX_TUPLE: tree_list(pr, "tuple", e); break;
  case EX_PAREN: tree_expr(pr, e->args[0]); break;
  default: stan_print_expr(pr->out, e); break;
  }
}

static void tree_expr(Printer *pr, const Expr *e) {
  tree_bare(pr, e);
  if (!pr->typed || !e->type || e->kind == EX_PAREN) return;
  text_puts(pr->out, ":");
  stan_print_type(pr->out, e->type);
  if (!e->data_only) text_puts(pr->out, "!");
}

static void tree_optional(Printer *pr, const char *head, const Expr *e) {
  if (!e) return;
  text_printf(pr->out, " (%s ", head);
  tree_expr(pr, e);
  text_puts(pr->out, ")");
}

static void new_line(Printer *pr) { text_printf(pr->out, "\n%*s", pr->indent * 2, ""); }

/* (name type (sizes ...) (constraint ...) (init ...)) */
static void tree_decl(Printer *pr, const Decl *d) {
  text_printf(pr->out, " (%s ", d->name ? d->name : "item");
  stan_print_type(pr->out, d->type);
  if (d->nsizes) {
    text_puts(pr->out, " (sizes");
    tree_exprs(pr, d->sizes, d->nsizes);
    text_puts(pr->out, ")");
  }
  if (d->con.kind != CON_NONE) {
    text_printf(pr->out, " (%s", stan_constraint_name(d->con.kind));
    for (int k = 0; k < 2; k++) tree_optional(pr, con_argument(d->con.kind, k), d->con.args[k]);
    text_puts(pr->out, ")");
  }
  for (int k = 0; k < d->nitems; k++) tree_decl(pr, d->items[k]);
  tree_optional(pr, "init", d->init);
  if (pr->typed) text_printf(pr->out, " slot %d%s", d->slot, d->data_only ? " data" : "");
  text_puts(pr->out, ")");
}

static const char *stmt_name(StmtKind k) {
  static const char *const names[] = {
      [ST_BLOCK] = "block",     [ST_DECL] = "declare",      [ST_ASSIGN] = "assign",
      [ST_TARGET] = "target",   [ST_JACOBIAN] = "jacobian", [ST_TILDE] = "tilde",
      [ST_IF] = "if",           [ST_FOR] = "for",           [ST_FOREACH] = "foreach",
      [ST_WHILE] = "while",     [ST_BREAK] = "break",       [ST_CONTINUE] = "continue",
      [ST_RETURN] = "return",   [ST_CALL] = "do",           [ST_PRINT] = "print",
      [ST_REJECT] = "reject",   [ST_FATAL] = "fatal_error", [ST_SKIP] = "skip",
      [ST_PROFILE] = "profile",
  };
  return names[k];
}

/* (kind op name decls lhs e from to args (truncated lower upper) body...), each where the statement
 * has it */
static void tree_stmt(Printer *pr, const Stmt *s) {
  Expr *const parts[] = {s->lhs, s->e, s->from, s->to};
  new_line(pr);
  text_printf(pr->out, "(%s", stmt_name(s->kind));
  if (s->has_op) text_printf(pr->out, " %s=", op_names[s->op]);
  for (int k = 0; k < s->ndecls; k++) tree_decl(pr, s->decls[k]);
  for (int k = 0; k < 4; k++)
    if (parts[k]) tree_exprs(pr, &parts[k], 1);
  if (s->kind == ST_TILDE) text_printf(pr->out, " (%s %s", call_kind(s->call), s->name);
  if (s->kind == ST_PROFILE) text_printf(pr->out, " \"%s\"", s->name);
  tree_exprs(pr, s->args, s->nargs);
  if (s->kind == ST_TILDE) text_puts(pr->out, ")");
  if (s->truncated) {
    text_puts(pr->out, " (truncated");
    tree_optional(pr, "lower", s->lower);
    tree_optional(pr, "upper", s->upper);
    text_puts(pr->out, ")");
  }
  pr->indent++;
  for (int k = 0; k < s->nbody; k++)
    if (s->body[k]) tree_stmt(pr, s->body[k]);
  pr->indent--;
  text_puts(pr->out, ")");
}

static void tree_function(Printer *pr, const FunDef *f) {
  text_printf(pr->out, "(define %s ", f->name);
  stan_print_type(pr->out, f->type->result);
  for (int k = 0; k < f->nargs; k++) tree_decl(pr, f->args[k]);
  pr->indent++;
  if (f->body) tree_stmt(pr, f->body);
  pr->indent--;
  text_puts(pr->out, ")\n");
}

void stan_print_tree(Text *out, const Program *p, bool typed) {
  Printer pr = {.out = out, .typed = typed};
  for (int k = 0; k < p->nfunctions; k++) tree_function(&pr, p->functions[k]);
  for (int b = 0; b < BLOCK_COUNT; b++) {
    if (!p->blocks[b]) continue;
    text_printf(out, "(%s", stan_block_name((BlockId)b));
    pr.indent = 1;
    for (int k = 0; k < p->blocks[b]->nbody; k++) tree_stmt(&pr, p->blocks[b]->body[k]);
    text_puts(out, ")\n");
  }
}
