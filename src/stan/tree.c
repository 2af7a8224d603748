/* tree.c: small questions about expressions of a checked program. */
#include "stan/stan.h"

#include <string.h>

const Expr *stan_inside(const Expr *e) {
  while (e->kind == EX_PAREN) e = e->args[0];
  return e;
}

const Decl *stan_root(const Expr *e) {
  while (e->kind == EX_INDEX || e->kind == EX_FIELD || e->kind == EX_PAREN) e = e->args[0];
  return e->kind == EX_VAR ? e->decl : NULL;
}

static bool index_mentions(const Index *i, const Decl *d) {
  return (i->a && stan_mentions(i->a, d)) || (i->b && stan_mentions(i->b, d));
}

bool stan_mentions(const Expr *e, const Decl *d) {
  if (e->kind == EX_VAR) return e->decl == d;
  for (int k = 0; k < e->nargs; k++)
    if (stan_mentions(e->args[k], d)) return true;
  for (int k = 0; k < e->nindexes; k++)
    if (index_mentions(&e->indexes[k], d)) return true;
  return false;
}

static bool same_node(const Expr *a, const Expr *b) {
  return a->kind == b->kind && a->nargs == b->nargs && a->nindexes == b->nindexes &&
         a->decl == b->decl && a->op == b->op && a->ivalue == b->ivalue && a->rvalue == b->rvalue &&
         a->field == b->field && a->user == b->user && a->builtin == b->builtin &&
         a->distfun == b->distfun;
}

bool stan_same_expr(const Expr *a, const Expr *b) {
  if (!a || !b) return a == b;
  a = stan_inside(a);
  b = stan_inside(b);
  if (!same_node(a, b)) return false;
  for (int k = 0; k < a->nargs; k++)
    if (!stan_same_expr(a->args[k], b->args[k])) return false;
  for (int k = 0; k < a->nindexes; k++)
    if (a->indexes[k].kind != b->indexes[k].kind ||
        !stan_same_expr(a->indexes[k].a, b->indexes[k].a) ||
        !stan_same_expr(a->indexes[k].b, b->indexes[k].b))
      return false;
  return true;
}

bool stan_has(const Stmt *s, StmtKind kind) {
  if (!s || s->kind == kind) return s != NULL;
  for (int k = 0; k < s->nbody; k++)
    if (stan_has(s->body[k], kind)) return true;
  return false;
}

bool stan_declares(const Stmt *s, const Decl *d) {
  if (!s) return false;
  for (int k = 0; k < s->ndecls; k++)
    if (s->decls[k] == d) return true;
  for (int k = 0; k < s->nbody; k++)
    if (stan_declares(s->body[k], d)) return true;
  return false;
}

const Decl *stan_find_decl(const Program *p, BlockId id, const char *name) {
  const Stmt *block = p->blocks[id];
  for (int k = 0; block && k < block->nbody; k++)
    for (int j = 0; block->body[k]->kind == ST_DECL && j < block->body[k]->ndecls; j++)
      if (!strcmp(block->body[k]->decls[j]->name, name)) return block->body[k]->decls[j];
  return NULL;
}
