/* expand.c: see expand.h. A variable b that varies becomes, wherever the model uses it, b plus
 * something that differs between observations (a variable with a lower bound: b times the
 * exponential of it): the effect of a group, a multiple of a column, or a number of each
 * observation's own. A scale of normal noise may instead have heavier tails than normal. */
#include "run/expand.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

typedef enum { BY_GROUP, BY_COLUMN, BY_OBSERVATION } How;

typedef struct {
  Edits e;
  const Problem *p;
  const Varying *v;
  How how;
  const char *stem; /* of new names: beta_2 */
  const char *loop; /* the variable of the innermost loop; NULL: outside of loops */
  const char *size; /* how many observations there are, as Stan */
  int uses;
  bool failed; /* it cannot be written down */
} Rewrite;

static bool is_bounded(const Decl *d) { return d->con.kind == CON_bounds && d->con.args[0]; }

static bool is_vector(const Expr *e) {
  return !e->type->array_dims && (e->type->kind == TY_VECTOR || e->type->kind == TY_ROW_VECTOR);
}

/* ---- words of the new program ---------------------------------------------------------------- */

static const char *stem_of(Arena *a, const char *name) {
  char *s = arena_text(a, name, strlen(name));
  size_t n = 0;
  for (size_t k = 0; s[k]; k++)
    if (isalnum((unsigned char)s[k]) || s[k] == '_')
      s[n++] = s[k];
    else if (n && s[n - 1] != '_' && s[k + 1])
      s[n++] = '_';
  s[n] = 0;
  return s;
}

/* A number of the data block that is n, or n itself. */
static const char *size_of(Arena *a, const Problem *p, size_t n) {
  const Stmt *block = p->program->blocks[BLOCK_DATA];
  for (int k = 0; block && k < block->nbody; k++)
    for (int j = 0; j < block->body[k]->ndecls; j++) {
      const Decl *d = block->body[k]->decls[j];
      const DataVar *v = data_find(p->data, d->name);
      if (d->type->kind == TY_INT && !d->type->array_dims && v && v->n == 1 &&
          v->values[0] == (double)n)
        return d->name;
    }
  return arena_format(a, "%zu", n);
}

/* A scale for a prior, with two digits. */
static const char *rounded(Arena *a, double x) {
  if (!(x > 0) || !isfinite(x)) x = 1;
  return arena_format(a, "%.2g", x);
}

static bool is_declared(const Rewrite *w, const char *name, bool *ints) {
  const Decl *d = stan_find_decl(w->p->program, BLOCK_DATA, name);
  if (d) *ints = d->type->kind == TY_INT;
  return d != NULL;
}

/* What differs between observations, where the program stands now. */
static const char *effect(const Rewrite *w) {
  Arena *a = w->e.arena;
  const char *s = w->stem, *x = w->v->column;
  bool ints = false;
  if (w->how == BY_OBSERVATION)
    return w->loop ? arena_format(a, "%s_sd * %s_z[%s]", s, s, w->loop)
                   : arena_format(a, "%s_sd * %s_z", s, s);
  if (w->how == BY_GROUP)
    return w->loop ? arena_format(a, "%s_sd * %s_z[%s[%s]]", s, s, x, w->loop)
                   : arena_format(a, "%s_sd * %s_z[%s]", s, s, x);
  is_declared(w, x, &ints);
  return w->loop ? arena_format(a, "%s_%s * %s[%s]", s, x, x, w->loop)
         : ints  ? arena_format(a, "%s_%s * to_vector(%s)", s, x, x)
                 : arena_format(a, "%s_%s * %s", s, x, x);
}

/* ---- uses of the variable -------------------------------------------------------------------- */

static bool is_use(const Rewrite *w, const Expr *e) {
  if (!w->v->element) return e->kind == EX_VAR && e->decl == w->v->variable;
  const Index *i = e->indexes;
  return e->kind == EX_INDEX && stan_inside(e->args[0])->kind == EX_VAR &&
         stan_root(e) == w->v->variable && e->nindexes == 1 && i->kind == IX_ONE &&
         i->a->kind == EX_INT && i->a->ivalue == w->v->element;
}

/* A product in which the vector takes part as a whole: X * beta, x[n] * beta. */
static bool is_product(const Rewrite *w, const Expr *e) {
  if (!w->v->element || e->kind != EX_BINARY || e->op != OP_MUL) return false;
  const Expr *right = stan_inside(e->args[1]);
  TypeKind left = e->args[0]->type->kind;
  return right->kind == EX_VAR && right->decl == w->v->variable && !e->args[0]->type->array_dims &&
         (left == TY_MATRIX || left == TY_ROW_VECTOR);
}

static void replace_use(Rewrite *w, const Expr *e) {
  size_t at;
  if (!edits_offset(&w->e, e->loc, &at)) {
    w->failed = true;
    return;
  }
  edits_replace(&w->e, at, e->loc.length,
                is_bounded(w->v->variable)
                    ? arena_format(w->e.arena, "(%s * exp(%s))", w->v->name, effect(w))
                    : arena_format(w->e.arena, "(%s + %s)", w->v->name, effect(w)));
  w->uses++;
}

/* X * beta becomes (X * beta + X[, 2] .* effect). */
static void replace_product(Rewrite *w, const Expr *e) {
  Arena *a = w->e.arena;
  size_t from, last;
  Text x = text_make(a);
  const Expr *left = e->args[0], *right = e->args[1];
  bool matrix = left->type->kind == TY_MATRIX,
       plain = left->kind == EX_VAR || left->kind == EX_INDEX;
  if (!edits_offset(&w->e, left->loc, &from) || !edits_offset(&w->e, right->loc, &last)) {
    w->failed = true;
    return;
  }
  stan_print_expr(&x, left);
  const char *column =
      arena_format(a, plain ? "%s[%s%d]" : "(%s)[%s%d]", x.s, matrix ? ", " : "", w->v->element);
  edits_replace(&w->e, from, 0, "(");
  edits_replace(&w->e, last + right->loc.length, 0,
                arena_format(a, " + %s %s (%s))", column, matrix ? ".*" : "*", effect(w)));
  w->uses++;
}

/* The operator between the operands, with a point in front. */
static void point_operator(Rewrite *w, const Expr *e) {
  size_t at;
  if (!edits_offset(&w->e, e->args[0]->loc, &at)) return;
  at = edits_find(&w->e, at + e->args[0]->loc.length, e->op == OP_MUL ? '*' : '/');
  edits_replace(&w->e, at, 0, ".");
}

/* Does the expression, a number before, have one value for every observation now? */
static bool visit(Rewrite *w, const Expr *e) {
  bool now[2] = {false, false}, any = false;
  if (is_use(w, e)) {
    replace_use(w, e);
    return !w->loop;
  }
  if (is_product(w, e)) {
    replace_product(w, e);
    return false;
  }
  for (int k = 0; k < e->nargs; k++) {
    bool changed = visit(w, e->args[k]);
    any |= changed;
    if (k < 2) now[k] = changed;
  }
  if (e->kind == EX_BINARY && (e->op == OP_MUL || e->op == OP_DIV)) {
    bool left = now[0] || is_vector(e->args[0]), right = now[1] || is_vector(e->args[1]);
    if (any && right && (left || e->op == OP_DIV)) point_operator(w, e);
  }
  return any && !is_vector(e);
}

/* ---- statements ------------------------------------------------------------------------------ */

/* The variable's own prior says how b is distributed, not how it varies. */
static bool is_own_prior(const Rewrite *w, const Stmt *s) {
  const Decl *d = w->v->variable;
  if (s->kind == ST_TILDE) return stan_root(s->lhs) == d;
  const Expr *e = s->kind == ST_TARGET ? stan_inside(s->e) : NULL;
  return e && e->kind == EX_CALL && e->bar && stan_root(e->args[0]) == d;
}

static void visit_statement(Rewrite *w, const Stmt *s) {
  const char *outer = w->loop;
  if (!s || is_own_prior(w, s)) return;
  if (s->kind == ST_FOR) w->loop = s->decls[0]->name;
  if (s->kind == ST_DECL)
    for (int k = 0; k < s->ndecls; k++)
      if (s->decls[k]->init) visit(w, s->decls[k]->init);
  if (s->kind == ST_ASSIGN || s->kind == ST_TARGET) visit(w, s->e);
  if (s->kind == ST_TILDE)
    for (int k = 0; k < s->nargs; k++) visit(w, s->args[k]);
  for (int k = 0; k < s->nbody; k++) visit_statement(w, s->body[k]);
  w->loop = outer;
}

static void add(Rewrite *w, BlockId id, const char *statement) {
  if (!edits_append(&w->e, id, statement)) w->failed = true;
}

/* Declarations and priors of what is new. */
static void declare_effect(Rewrite *w) {
  Arena *a = w->e.arena;
  const char *s = w->stem, *x = w->v->column;
  bool ints;
  if (x && !is_declared(w, x, &ints))
    add(w, BLOCK_DATA,
        arena_format(a, w->how == BY_GROUP ? "array[%s] int<lower=1> %s;" : "vector[%s] %s;",
                     w->size, x));
  if (w->how == BY_COLUMN) {
    add(w, BLOCK_PARAMETERS, arena_format(a, "real %s_%s;", s, x));
    add(w, BLOCK_MODEL,
        arena_format(a, "%s_%s ~ normal(0, %s);", s, x,
                     rounded(a, 2.5 * w->v->width / w->v->column_sd)));
    return;
  }
  const char *count = w->how == BY_GROUP ? arena_format(a, "max(%s)", x) : w->size;
  add(w, BLOCK_PARAMETERS, arena_format(a, "real<lower=0> %s_sd;", s));
  add(w, BLOCK_PARAMETERS, arena_format(a, "vector[%s] %s_z;", count, s));
  add(w, BLOCK_MODEL, arena_format(a, "%s_sd ~ normal(0, %s);", s, rounded(a, 2.5 * w->v->width)));
  add(w, BLOCK_MODEL, arena_format(a, "%s_z ~ std_normal();", s));
}

static Rewrite rewrite(Ctx *c, const Problem *p, const Varying *v, How how) {
  Arena *a = &c->arena;
  return (Rewrite){.e = edits_make(a, p->program),
                   .p = p,
                   .v = v,
                   .how = how,
                   .stem = stem_of(a, v->name),
                   .size = size_of(a, p, p->model->n_obs)};
}

static const char *with_effect(Ctx *c, const Problem *p, const Varying *v, How how) {
  Rewrite w = rewrite(c, p, v, how);
  visit_statement(&w, p->program->blocks[BLOCK_TRANSFORMED_PARAMETERS]);
  visit_statement(&w, p->program->blocks[BLOCK_MODEL]);
  declare_effect(&w);
  return w.uses && !w.failed ? edits_apply(&w.e) : NULL;
}

/* ---- heavier tails --------------------------------------------------------------------------- */

/* Puts student_t with a parameter nu in the place of normal, whose name stands at loc; its
 * parameters follow behind `opens`. */
static void replace_normal(Rewrite *w, Loc loc, const char *suffix, char opens) {
  size_t at;
  if (!edits_offset(&w->e, loc, &at)) return;
  size_t open = edits_find(&w->e, at, opens);
  edits_replace(&w->e, at, strlen("normal") + strlen(suffix),
                arena_format(w->e.arena, "student_t%s", suffix));
  edits_replace(&w->e, open + 1, 0,
                arena_format(w->e.arena, opens == '|' ? " %s_nu," : "%s_nu, ", w->stem));
  w->uses++;
}

static void visit_noise(Rewrite *w, const Stmt *s) {
  const Decl *d = w->v->variable;
  if (!s) return;
  if (s->kind == ST_TILDE && s->call == CALL_DIST && s->builtin == DIST_normal && !s->truncated &&
      s->nargs == 2 && stan_mentions(s->args[1], d))
    replace_normal(w, s->loc, "", '(');
  const Expr *e = s->kind == ST_TARGET ? stan_inside(s->e) : NULL;
  if (e && e->kind == EX_CALL && e->call == CALL_DIST && e->builtin == DIST_normal && e->bar &&
      e->distfun == DF_LPDF && e->nargs == 3 && stan_mentions(e->args[2], d))
    replace_normal(w, e->loc, e->name + strlen("normal"), '|');
  for (int k = 0; k < s->nbody; k++) visit_noise(w, s->body[k]);
}

static const char *with_tails(Ctx *c, const Problem *p, const Varying *v) {
  Rewrite w = rewrite(c, p, v, BY_OBSERVATION);
  visit_noise(&w, p->program->blocks[BLOCK_MODEL]);
  if (!w.uses) return NULL;
  add(&w, BLOCK_PARAMETERS, arena_format(&c->arena, "real<lower=1> %s_nu;", w.stem));
  add(&w, BLOCK_MODEL, arena_format(&c->arena, "%s_nu ~ gamma(2, 0.1);", w.stem));
  return w.failed ? NULL : edits_apply(&w.e);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static int offer(Expansion *out, int n, const char *text, const char *what) {
  if (!text) return n;
  out[n] = (Expansion){what, text};
  return n + 1;
}

int expand(Ctx *c, const Problem *p, const Varying *v, Expansion *out) {
  Arena *a = &c->arena;
  const char *tails = with_tails(c, p, v);
  int n = offer(out, 0, tails, "student_t noise in place of normal noise");
  if (v->column && v->groups)
    n = offer(out, n, with_effect(c, p, v, BY_GROUP),
              arena_format(a, "%s differs between the groups of %s", v->name, v->column));
  else if (v->column)
    n = offer(out, n, with_effect(c, p, v, BY_COLUMN),
              arena_format(a, "%s depends on %s", v->name, v->column));
  else if (!tails)
    n = offer(out, n, with_effect(c, p, v, BY_OBSERVATION),
              arena_format(a, "%s differs between observations", v->name));
  return n;
}

const char *expand_changes(Ctx *c, const Program *p, const char *text) {
  Text t = text_make(&c->arena);
  for (const char *line = text; *line;) {
    const char *end = strchr(line, '\n');
    size_t n = end ? (size_t)(end - line) : strlen(line);
    const char *copy = arena_text(&c->arena, line, n);
    if (n && !strstr(p->source->text, copy)) text_printf(&t, "%s\n", copy);
    line += n + (end != NULL);
  }
  return t.s;
}
