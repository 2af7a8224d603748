/* factors.c: into which observations the increments of a loop fall.
 *
 * A loop adds to the log density whatever its iterations add. Where an outcome has elements of its
 * own the density is a product, and every factor is an observation; where several statements say
 * one thing together (a mixture spelled out, states that are summed over, the first half of a
 * hurdle) they are one observation, that of the iteration around them. Which it is can be read off
 * the program, and must not depend on how the loop is run, so it is decided here, on the tree, when
 * an outermost loop begins.
 *
 * An increment is *plain* when it is a density of a data variable: y[n] ~ normal(...). A plain one
 * is an observation for each element of its outcome and for each iteration of the loops around it,
 * down to the innermost loop
 *
 *   - whose iterations have different outcomes (y[n] in a loop over k has the same in all),
 *   - whose iterations do not hand anything on that depends on outcomes (shocks += y[t]),
 *   - in which the outcome is not a predictor as well (y[t - 1]).
 *
 * Any other increment with data, or without any density, is glue: what stands in the same
 * iteration, in loops further inside too, belongs to it.
 */
#include "model/model_int.h"

/* The loops around a statement, innermost first. */
typedef struct Around {
  const Stmt *loop;
  const struct Around *outer;
  int depth; /* 1: the outermost */
} Around;

typedef struct {
  Factor factor;
  const Around *around;
  bool glue;
} Increment;

typedef struct {
  Eval *E;
  const Stmt *loop; /* the outermost */
  Increment *items;
  int n, cap;
} Walk;

/* ---- changes --------------------------------------------------------------------------------- */

static bool assigns(const Expr *lhs, const Decl *d) {
  if (lhs->kind != EX_TUPLE) return stan_root(lhs) == d;
  for (int k = 0; k < lhs->nargs; k++)
    if (assigns(lhs->args[k], d)) return true;
  return false;
}

/* Is the variable another one, or another value, after the statement? */
static bool changes(const Stmt *s, const Decl *d) {
  if (!s) return false;
  if (s->kind == ST_ASSIGN && assigns(s->lhs, d)) return true;
  for (int k = 0; k < s->ndecls; k++)
    if (s->decls[k] == d) return true;
  for (int k = 0; k < s->nbody; k++)
    if (changes(s->body[k], d)) return true;
  return false;
}

/* The loop inside of s whose variable d is. */
static const Stmt *loop_of(const Stmt *s, const Decl *d) {
  if (!s || ((s->kind == ST_FOR || s->kind == ST_FOREACH) && s->decls[0] == d)) return s;
  const Stmt *found = NULL;
  for (int k = 0; k < s->nbody && !found; k++) found = loop_of(s->body[k], d);
  return found;
}

static bool varies(const Expr *e, const Stmt *loop);

/* The variable of a loop further inside varies with this one only where its range does. */
static bool variable_varies(const Decl *d, const Stmt *loop) {
  const Stmt *own = d->is_loop ? loop_of(loop, d) : NULL;
  if (!own || own == loop) return changes(loop, d);
  return own->kind == ST_FOR ? varies(own->from, loop) || varies(own->to, loop)
                             : varies(own->e, loop);
}

/* Does the expression differ between the iterations of the loop? It does as soon as a variable in
 * it does. */
static bool varies(const Expr *e, const Stmt *loop) {
  if (e->kind == EX_VAR) return e->decl && variable_varies(e->decl, loop);
  for (int k = 0; k < e->nargs; k++)
    if (varies(e->args[k], loop)) return true;
  for (int k = 0; k < e->nindexes; k++)
    if ((e->indexes[k].a && varies(e->indexes[k].a, loop)) ||
        (e->indexes[k].b && varies(e->indexes[k].b, loop)))
      return true;
  return false;
}

/* ---- data ------------------------------------------------------------------------------------ */

/* In functions the declaration does not tell what is data; the value that the argument has does. */
static bool variable_is_data(const Walk *w, const Decl *d) {
  if (d->data_only) return true;
  if (changes(w->loop, d)) return false;
  const Var *var = &w->E->frame[d->slot];
  return var->decl == d && var->value && value_has_data(w->E, var->value);
}

typedef struct {
  bool data, parameters; /* variables of these kinds, other than those of loops, are in it */
} Kinds;

static Kinds kinds_of(const Walk *w, const Expr *e) {
  Kinds k = {false, false};
  if (e->kind == EX_VAR && e->decl) {
    k.data = !e->decl->is_loop && variable_is_data(w, e->decl);
    k.parameters = !e->decl->is_loop && !k.data;
  }
  for (int i = 0; i < e->nargs; i++) {
    Kinds a = kinds_of(w, e->args[i]);
    k.data |= a.data;
    k.parameters |= a.parameters;
  }
  return k; /* what an outcome is indexed with says nothing of it */
}

/* ---- uses of a variable ---------------------------------------------------------------------- */

/* Is a use of a variable, itself or indexed, of a kind that is asked for? */
typedef bool Accept(const Expr *use, const void *self);

typedef struct {
  const Decl *d;
  Accept *accept;
  const void *self;
} Uses;

static bool every_use(const Expr *e, const Uses *u);

static bool every_use_in_indexes(const Expr *e, const Uses *u) {
  for (int k = 0; k < e->nindexes; k++)
    if (!every_use(e->indexes[k].a, u) || !every_use(e->indexes[k].b, u)) return false;
  return true;
}

/* Is every use of the variable in the expression accepted? */
static bool every_use(const Expr *e, const Uses *u) {
  if (!e) return true;
  const Expr *base = e;
  while (base->kind == EX_INDEX) base = base->args[0];
  if (base->kind == EX_VAR && base->decl == u->d) {
    for (base = e; base->kind == EX_INDEX; base = base->args[0])
      if (!every_use_in_indexes(base, u)) return false;
    return u->accept(e, u->self);
  }
  for (int k = 0; k < e->nargs; k++)
    if (!every_use(e->args[k], u)) return false;
  return every_use_in_indexes(e, u);
}

static bool every_use_in_decl(const Decl *d, const Uses *u) {
  for (int k = 0; k < d->nsizes; k++)
    if (!every_use(d->sizes[k], u)) return false;
  return every_use(d->init, u);
}

static bool every_use_in(const Stmt *s, const Uses *u) {
  if (!s) return true;
  const Expr *all[] = {s->lhs, s->e, s->from, s->to, s->lower, s->upper};
  for (size_t k = 0; k < sizeof all / sizeof *all; k++)
    if (!every_use(all[k], u)) return false;
  for (int k = 0; k < s->nargs; k++)
    if (!every_use(s->args[k], u)) return false;
  for (int k = 0; k < s->ndecls; k++)
    if (!every_use_in_decl(s->decls[k], u)) return false;
  for (int k = 0; k < s->nbody; k++)
    if (!every_use_in(s->body[k], u)) return false;
  return true;
}

static bool no_use(const Expr *use, const void *self) {
  (void)use, (void)self;
  return false;
}

/* v[.., i, ..] with i the loop's variable: every iteration has elements of its own. */
static bool is_own(const Expr *use, const void *self) {
  const Stmt *loop = self;
  for (; use->kind == EX_INDEX && loop->kind != ST_WHILE; use = use->args[0])
    for (int k = 0; k < use->nindexes; k++)
      if (use->indexes[k].kind == IX_ONE && use->indexes[k].a->kind == EX_VAR &&
          use->indexes[k].a->decl == loop->decls[0])
        return true;
  return false;
}

static bool is_outcome(const Expr *use, const void *self) { return stan_same_expr(use, self); }

/* ---- what iterations hand on ----------------------------------------------------------------- */

typedef struct {
  const Walk *walk;
  const Stmt *loop;
  const Decl *outcome; /* NULL: any data may be the outcome */
} Chain;

/* Is the whole variable set, whatever happens, before anything else is done with it? */
static bool set_first(const Stmt *body, const Decl *d) {
  Uses none = {d, no_use, NULL};
  for (int k = 0; body->kind == ST_BLOCK && k < body->nbody; k++) {
    const Stmt *s = body->body[k];
    if (s->kind == ST_ASSIGN && !s->has_op && s->lhs->kind == EX_VAR && s->lhs->decl == d)
      return !stan_mentions(s->e, d);
    if (!every_use_in(s, &none)) return false;
  }
  return false;
}

/* What an int counts by: nothing that depends on parameters or on outcomes. */
static bool counts_by(const Chain *c, const Expr *e, const Decl *d) {
  if (e->kind == EX_VAR && e->decl)
    return e->decl == d || e->decl->is_loop ||
           (e->decl->data_only && c->outcome && e->decl != c->outcome);
  for (int k = 0; k < e->nargs; k++)
    if (!counts_by(c, e->args[k], d)) return false;
  return true;
}

/* pos += n[j], in every assignment to it. */
static bool is_counter(const Chain *c, const Stmt *s, const Decl *d) {
  if (!s) return true;
  if (d->type->kind != TY_INT || d->type->array_dims) return false;
  if (s->kind == ST_ASSIGN && assigns(s->lhs, d) && !counts_by(c, s->e, d)) return false;
  for (int k = 0; k < s->nbody; k++)
    if (!is_counter(c, s->body[k], d)) return false;
  return true;
}

static bool hands_on_variable(const Chain *c, const Decl *d) {
  const Stmt *body = c->loop->body[0];
  Uses own = {d, is_own, c->loop};
  if (!d || stan_declares(body, d) || inline_declares_sum(c->walk->E, d)) return false;
  return !every_use_in(body, &own) && !set_first(body, d) && !is_counter(c, body, d);
}

static bool hands_on_any(const Chain *c, const Expr *lhs) {
  if (lhs->kind != EX_TUPLE) return hands_on_variable(c, stan_root(lhs));
  for (int k = 0; k < lhs->nargs; k++)
    if (hands_on_any(c, lhs->args[k])) return true;
  return false;
}

static bool hands_on(const Chain *c, const Stmt *s) {
  if (!s) return false;
  if (s->kind == ST_ASSIGN && hands_on_any(c, s->lhs)) return true;
  for (int k = 0; k < s->nbody; k++)
    if (hands_on(c, s->body[k])) return true;
  return false;
}

/* ---- increments ------------------------------------------------------------------------------ */

/* Are iterations of the loop different observations of what the expression says? plain: it is the
 * outcome of a density. */
static bool separates(const Walk *w, const Stmt *loop, const Expr *e, bool plain) {
  const Decl *outcome = plain ? stan_root(e) : NULL;
  Chain c = {w, loop, outcome};
  Uses predictor = {outcome, is_outcome, e};
  return varies(e, loop) && !hands_on(&c, loop->body[0]) &&
         (!outcome || every_use_in(loop->body[0], &predictor));
}

/* The innermost loop whose iterations, and those of all loops around it, are different
 * observations; 0: not even those of the outermost one are. */
static int level_of(const Walk *w, const Around *a, const Expr *e, bool plain) {
  if (a->depth == 1) return varies(e, a->loop);
  int outer = level_of(w, a->outer, e, plain);
  return outer == a->depth - 1 && separates(w, a->loop, e, plain) ? a->depth : outer;
}

/* An iteration of the outermost loop is an observation in any case. */
static int at_least_1(int level) { return level > 1 ? level : 1; }

static void add(Walk *w, Increment i) { PUSH(w->E->arena, w->items, w->n, w->cap, i); }

/* A density of `outcome`; by ~, or as a term. */
static void add_density(Walk *w, const Stmt *s, const Expr *outcome, const Around *a) {
  Kinds k = kinds_of(w, outcome);
  Increment i = {.factor = {.s = s}, .around = a};
  i.factor.level = at_least_1(level_of(w, a, outcome, true));
  i.factor.elements = varies(outcome, w->loop) && i.factor.level == a->depth;
  i.glue = !k.data && !k.parameters; /* a literal: 1 ~ bernoulli(p) is half of a statement */
  add(w, i);
}

static void add_other(Walk *w, const Stmt *s, const Expr *e, const Around *a) {
  Increment i = {
      .factor = {.s = s, .level = at_least_1(level_of(w, a, e, false))}, .around = a, .glue = true};
  add(w, i);
}

static bool is_log_probability(const Expr *e) {
  if (e->kind != EX_CALL || !e->nargs) return false;
  if (e->call == CALL_USER) return eval_is_density_name(e->user->name);
  return e->call == CALL_DIST &&
         (e->distfun == DF_LPDF || e->distfun == DF_LCDF || e->distfun == DF_LCCDF);
}

static void walk_terms(Walk *w, const Stmt *s, const Expr *e, bool minus, const Around *a) {
  e = stan_inside(e);
  if (inline_is_sum(w->E, e)) return;
  if (e->kind == EX_BINARY && (e->op == OP_ADD || e->op == OP_SUB)) {
    walk_terms(w, s, e->args[0], minus, a);
    walk_terms(w, s, e->args[1], minus != (e->op == OP_SUB), a);
  } else if (is_log_probability(e) && !minus) {
    add_density(w, s, e->args[0], a);
  } else if (e->kind != EX_INT && e->kind != EX_REAL) {
    add_other(w, s, e, a);
  }
}

static void walk(Walk *w, const Stmt *s, const Around *a) {
  if (!s) return;
  const Around *inside = a;
  if (s->kind == ST_FOR || s->kind == ST_FOREACH || s->kind == ST_WHILE) {
    Around *next = NEW(w->E->arena, Around);
    *next = (Around){s, a, a ? a->depth + 1 : 1};
    inside = next;
  }
  if (s->kind == ST_TILDE) add_density(w, s, s->lhs, a);
  if (s->kind == ST_TARGET || (s->kind == ST_ASSIGN && inline_is_sum(w->E, s->lhs)))
    walk_terms(w, s, s->e, s->has_op && s->op == OP_SUB, a);
  if (s->kind == ST_CALL) add_other(w, s, s->e, a);
  for (int k = 0; k < s->nbody; k++) walk(w, s->body[k], inside);
}

/* ---- glue ------------------------------------------------------------------------------------ */

static const Stmt *loop_at(const Around *a, int depth) {
  while (a->depth > depth) a = a->outer;
  return a->depth == depth ? a->loop : NULL;
}

/* Everything in the iteration of the glue is one observation with it; true: something changed. */
static bool apply(Walk *w, const Increment *glue) {
  bool changed = false;
  int level = glue->factor.level;
  for (int k = 0; k < w->n; k++) {
    Factor *f = &w->items[k].factor;
    if (loop_at(w->items[k].around, level) != loop_at(glue->around, level)) continue;
    changed |= f->level > level || f->elements;
    if (f->level > level) f->level = level;
    f->elements = false;
  }
  return changed;
}

const Factors *factors_of(Eval *E, const Stmt *loop) {
  Walk w = {.E = E, .loop = loop};
  walk(&w, loop, NULL);
  for (bool changed = true; changed;) {
    changed = false;
    for (int k = 0; k < w.n; k++)
      if (w.items[k].glue) changed |= apply(&w, &w.items[k]);
  }
  Factors *f = NEW(E->arena, Factors);
  f->items = NEW_ARRAY(E->arena, Factor, w.n + 1);
  for (int k = 0; k < w.n; k++) f->items[f->n++] = w.items[k].factor;
  return f;
}

/* Of a statement with several terms the coarsest counts: they are added where they stand. */
Factor factors_find(const Factors *f, const Stmt *s) {
  Factor found = {.s = s, .level = 1};
  bool any = false;
  for (int k = 0; f && k < f->n; k++) {
    const Factor *x = &f->items[k];
    if (x->s != s) continue;
    if (!any) found = *x;
    if (x->level < found.level) found.level = x->level;
    found.elements &= x->elements;
    any = true;
  }
  return found;
}
