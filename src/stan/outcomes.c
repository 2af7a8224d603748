/* outcomes.c: which data variables are nothing but outcomes: predictions can do without their
 * values.
 *
 * A use of a variable is an outcome where it stands, whole or indexed, to the left of ~ or of the
 * bar of a density. The walk below looks for uses that are anything else.
 */
#include "stan/stan.h"

#include <string.h>

static bool other_use(const Expr *e, const Decl *d);

static bool in_indexes(const Expr *e, const Decl *d) {
  for (int k = 0; k < e->nindexes; k++)
    if (other_use(e->indexes[k].a, d) || other_use(e->indexes[k].b, d)) return true;
  return false;
}

/* The variable itself, in parentheses or indexed. */
static bool is_variable(const Expr *e, const Decl *d) {
  while (e->kind == EX_PAREN || e->kind == EX_INDEX) e = e->args[0];
  return e->kind == EX_VAR && e->decl == d;
}

/* An outcome that is the variable: only what it is indexed with is looked at. */
static bool outcome_use(const Expr *e, const Decl *d) {
  if (!is_variable(e, d)) return other_use(e, d);
  for (; e->kind == EX_PAREN || e->kind == EX_INDEX; e = e->args[0])
    if (in_indexes(e, d)) return true;
  return false;
}

static bool is_density(const Expr *e) { return e->kind == EX_CALL && e->bar && e->nargs > 0; }

/* Does the expression use the variable as anything but an outcome? */
static bool other_use(const Expr *e, const Decl *d) {
  if (!e) return false;
  if (e->kind == EX_VAR) return e->decl == d;
  bool density = is_density(e);
  if (density && outcome_use(e->args[0], d)) return true;
  for (int k = density; k < e->nargs; k++)
    if (other_use(e->args[k], d)) return true;
  return in_indexes(e, d);
}

static bool in_declarations(const Stmt *s, const Decl *d) {
  for (int k = 0; k < s->ndecls; k++) {
    const Decl *x = s->decls[k];
    for (int i = 0; i < x->nsizes; i++)
      if (other_use(x->sizes[i], d)) return true;
    if (other_use(x->con.args[0], d) || other_use(x->con.args[1], d) || other_use(x->init, d))
      return true;
  }
  return false;
}

static bool in_statement(const Stmt *s, const Decl *d) {
  if (!s) return false;
  if (s->kind == ST_TILDE ? outcome_use(s->lhs, d) : s->lhs && other_use(s->lhs, d)) return true;
  if (other_use(s->e, d) || other_use(s->from, d) || other_use(s->to, d) ||
      other_use(s->lower, d) || other_use(s->upper, d) || in_declarations(s, d))
    return true;
  for (int k = 0; k < s->nargs; k++)
    if (other_use(s->args[k], d)) return true;
  for (int k = 0; k < s->nbody; k++)
    if (in_statement(s->body[k], d)) return true;
  return false;
}

/* ---- is it an outcome at all? ---------------------------------------------------------------- */

static bool is_outcome_in(const Expr *e, const Decl *d) {
  if (!e) return false;
  if (is_density(e) && stan_mentions(e->args[0], d)) return true;
  for (int k = 0; k < e->nargs; k++)
    if (is_outcome_in(e->args[k], d)) return true;
  return false;
}

static bool is_outcome_of(const Stmt *s, const Decl *d) {
  if (!s) return false;
  if (s->kind == ST_TILDE && stan_mentions(s->lhs, d)) return true;
  if (is_outcome_in(s->e, d)) return true;
  for (int k = 0; k < s->nbody; k++)
    if (is_outcome_of(s->body[k], d)) return true;
  return false;
}

bool stan_is_outcome(const Program *p, const Decl *d) {
  return is_outcome_of(p->blocks[BLOCK_MODEL], d);
}

bool stan_is_only_outcome(const Program *p, const Decl *d) {
  for (int b = 0; b < BLOCK_COUNT; b++)
    if (p->blocks[b] && in_statement(p->blocks[b], d)) return false;
  return true;
}
