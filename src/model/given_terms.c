/* given_terms.c: what an affine function of theta, given the scales, is made of: a list of terms
 * coefficient times parameter, one of each term an element. The coefficients are data times a node
 * that depends on scales alone. Each rule below is that of one op.
 */
#include "model/condition_int.h"

#include <string.h>

enum { MOST_TERMS = 256, MOST_INNER = 64, MOST_SOURCES = 16 };

static bool is_free(const GivenReader *r, Node id) { return (r->mask[id] & ~r->scales) != 0; }

static Node map2(Graph *g, unsigned op, Node a, Node b) { return ir_map(g, op, (Node[]){a, b}); }

static Node times_scale(Graph *g, Node a, Node b) {
  return a == NO_NODE ? b : b == NO_NODE ? a : map2(g, IR_MUL, a, b);
}

static GivenTerm new_term(GivenReader *r, int32_t n) {
  return (GivenTerm){NEW_ARRAY(r->temp, double, n), NEW_ARRAY(r->temp, int32_t, n), NO_NODE};
}

/* ---- lists ----------------------------------------------------------------------------------- */

static bool same_index(const GivenTerm *a, const GivenTerm *b, int32_t n) {
  for (int32_t e = 0; e < n; e++)
    if (a->index[e] != b->index[e] && a->data[e] != 0 && b->data[e] != 0) return false;
  return true;
}

/* Where only one of two terms is there, the index is that one's. */
static void join_index(GivenTerm *a, const GivenTerm *b, int32_t n) {
  for (int32_t e = 0; e < n; e++)
    if (a->data[e] == 0) a->index[e] = b->index[e];
}

static Node coefficient(GivenReader *r, const GivenTerm *t, int32_t n) {
  Node data = ir_const(r->g, t->data, n);
  return t->scale == NO_NODE ? data : map2(r->g, IR_MUL, data, t->scale);
}

/* Terms of the same parameters become one. */
static void add_term(GivenReader *r, GivenTerms *to, GivenTerm t) {
  int32_t n = to->n;
  bool none = true;
  for (int32_t e = 0; none && e < n; e++) none = t.data[e] == 0;
  for (int k = 0; !none && k < to->count; k++) {
    GivenTerm *old = &to->term[k];
    if (!same_index(old, &t, n)) continue;
    if (old->scale == t.scale) {
      join_index(old, &t, n);
      for (int32_t e = 0; e < n; e++) old->data[e] += t.data[e];
      return;
    }
    if (memcmp(old->index, t.index, (size_t)n * sizeof *t.index) != 0) continue;
    old->scale = map2(r->g, IR_ADD, coefficient(r, old, n), coefficient(r, &t, n));
    for (int32_t e = 0; e < n; e++) old->data[e] = 1;
    return;
  }
  if (none) return;
  if (to->count == MOST_TERMS) {
    r->why = "a predictor has too many terms";
    return;
  }
  if (!to->term) to->term = NEW_ARRAY(r->temp, GivenTerm, MOST_TERMS);
  to->term[to->count++] = t;
}

/* Elements at[e] of a term, times factor[e] where there is one; at[e] < 0: nothing. */
static GivenTerm pick(GivenReader *r, const GivenTerm *t, const int32_t *at, int32_t n,
                      const double *factor) {
  GivenTerm k = new_term(r, n);
  int32_t *from = NEW_ARRAY(r->temp, int32_t, n);
  for (int32_t e = 0; e < n; e++) {
    from[e] = at[e] < 0 ? 0 : at[e];
    k.data[e] = at[e] < 0 ? 0 : t->data[at[e]] * (factor ? factor[e] : 1);
    k.index[e] = t->index[from[e]];
  }
  k.scale = t->scale;
  if (t->scale != NO_NODE && ir_size(r->g, t->scale) > 1)
    k.scale = ir_gather(r->g, t->scale, from, n);
  return k;
}

static void add_picked(GivenReader *r, GivenTerms *to, const GivenTerms *from, const int32_t *at,
                       const double *factor) {
  for (int k = 0; from && k < from->count; k++)
    add_term(r, to, pick(r, &from->term[k], at, to->n, factor));
}

/* ---- rules ----------------------------------------------------------------------------------- */

static const int32_t *broadcast(GivenReader *r, int32_t from, int32_t n) {
  int32_t *at = NEW_ARRAY(r->temp, int32_t, n);
  for (int32_t e = 0; e < n; e++) at[e] = from == 1 ? 0 : e;
  return at;
}

/* a + sign b */
static void of_sum(GivenReader *r, GivenTerms *to, Node a, double sign) {
  double *factor = NEW_ARRAY(r->temp, double, to->n);
  for (int32_t e = 0; e < to->n; e++) factor[e] = sign;
  if (is_free(r, a))
    add_picked(r, to, given_terms(r, a), broadcast(r, ir_size(r->g, a), to->n), factor);
}

/* f times c, or over it */
static void of_product(GivenReader *r, GivenTerms *to, Node f, Node c, bool over) {
  const GivenTerms *from = is_free(r, c) ? NULL : given_terms(r, f);
  if (is_free(r, c)) r->why = "a predictor is not affine";
  const int32_t *at = broadcast(r, ir_size(r->g, f), to->n);
  double *factor = NEW_ARRAY(r->temp, double, to->n);
  const IrNode *by = ir_node(r->g, c);
  bool data = by->op == IR_CONST;
  for (int32_t e = 0; e < to->n; e++) {
    double x = data ? by->u.values[by->n == 1 ? 0 : e] : 1;
    factor[e] = over ? 1 / x : x;
  }
  for (int k = 0; from && k < from->count; k++) {
    GivenTerm t = pick(r, &from->term[k], at, to->n, factor);
    if (!data && over) t.scale = times_scale(r->g, t.scale, ir_map(r->g, IR_INV, &c));
    if (!data && !over) t.scale = times_scale(r->g, t.scale, c);
    add_term(r, to, t);
  }
}

/* out[r] = sum of a[r W .. r W + W) */
static void of_reduction(GivenReader *r, GivenTerms *to, const IrNode *x) {
  const GivenTerms *from = given_terms(r, x->args[0]);
  if (x->attr > MOST_TERMS) r->why = "a predictor is a long sum";
  for (int32_t w = 0; from && !r->why && w < x->attr; w++) {
    int32_t *at = NEW_ARRAY(r->temp, int32_t, to->n);
    for (int32_t e = 0; e < to->n; e++) at[e] = e * x->attr + w;
    add_picked(r, to, from, at, NULL);
  }
}

/* out[r] = sum_k A[r, k] b[k] */
static void of_matvec(GivenReader *r, GivenTerms *to, const IrNode *x) {
  const GivenTerms *from = given_terms(r, x->args[1]);
  const double *A = ir_node(r->g, x->args[0])->u.values;
  if (x->attr > MOST_TERMS) r->why = "a predictor has too many terms";
  for (int32_t k = 0; from && !r->why && k < x->attr; k++) {
    int32_t *at = NEW_ARRAY(r->temp, int32_t, to->n);
    double *factor = NEW_ARRAY(r->temp, double, to->n);
    for (int32_t e = 0; e < to->n; e++) {
      at[e] = k;
      factor[e] = A[(size_t)e * (size_t)x->attr + (size_t)k];
    }
    add_picked(r, to, from, at, factor);
  }
}

/* out[i, j] = sum_k a[i, k] b[k, j], of which one depends on scales alone. */
static void of_matmul(GivenReader *r, GivenTerms *to, const IrNode *x) {
  int32_t K = x->attr, C = x->attr2;
  int f = is_free(r, x->args[1]);
  const GivenTerms *from = given_terms(r, x->args[f]);
  if (is_free(r, x->args[!f])) r->why = "a predictor is not affine";
  if (K > MOST_INNER) r->why = "a product of matrices is large";
  for (int32_t k = 0; from && !r->why && k < K; k++) {
    int32_t *at[2];
    for (int side = 0; side < 2; side++) {
      at[side] = NEW_ARRAY(r->temp, int32_t, to->n);
      for (int32_t e = 0; e < to->n; e++) at[side][e] = side ? k * C + e % C : e / C * K + k;
    }
    Node by = ir_gather(r->g, x->args[!f], at[!f], to->n);
    for (int t = 0; t < from->count; t++) {
      GivenTerm picked = pick(r, &from->term[t], at[f], to->n, NULL);
      picked.scale = times_scale(r->g, picked.scale, by);
      add_term(r, to, picked);
    }
  }
}

static void of_pack(GivenReader *r, GivenTerms *to, const IrNode *x) {
  bool *done = NEW_ARRAY(r->temp, bool, x->n);
  int sources = 0;
  for (int32_t first = 0; first < x->n && !r->why; first++) {
    Node from = x->u.picks[first].node;
    if (done[first] || !is_free(r, from)) continue;
    if (++sources > MOST_SOURCES) r->why = "a predictor is put together from many places";
    int32_t *at = NEW_ARRAY(r->temp, int32_t, x->n);
    for (int32_t e = 0; e < x->n; e++) {
      bool own = x->u.picks[e].node == from;
      at[e] = own ? x->u.picks[e].elem : -1;
      done[e] = done[e] || own;
    }
    add_picked(r, to, given_terms(r, from), at, NULL);
  }
}

static void of_input(GivenReader *r, GivenTerms *to, const IrNode *x) {
  GivenTerm t = new_term(r, x->n);
  for (int32_t e = 0; e < x->n; e++) {
    t.data[e] = 1;
    t.index[e] = x->attr + e;
  }
  add_term(r, to, t);
}

static void terms_of(GivenReader *r, GivenTerms *to, const IrNode *x) {
  int f = x->nargs > 1 && is_free(r, x->args[1]);
  switch (x->op) {
  case IR_INPUT: of_input(r, to, x); break;
  case IR_GATHER: add_picked(r, to, given_terms(r, x->args[0]), x->u.index, NULL); break;
  case IR_PACK: of_pack(r, to, x); break;
  case IR_SUM: of_reduction(r, to, x); break;
  case IR_MATVEC: of_matvec(r, to, x); break;
  case IR_MATMUL: of_matmul(r, to, x); break;
  case IR_NEG: of_sum(r, to, x->args[0], -1); break;
  case IR_ADD:
  case IR_SUB:
    of_sum(r, to, x->args[0], 1);
    of_sum(r, to, x->args[1], x->op == IR_ADD ? 1 : -1);
    break;
  case IR_MUL: of_product(r, to, x->args[f], x->args[!f], false); break;
  case IR_DIV: of_product(r, to, x->args[0], x->args[1], true); break;
  default: r->why = "a predictor is not affine";
  }
}

const GivenTerms *given_terms(GivenReader *r, Node id) {
  if (r->why || r->memo[id]) return r->why ? NULL : r->memo[id];
  IrNode x = *ir_node(r->g, id); /* making nodes moves them */
  GivenTerms *to = NEW(r->temp, GivenTerms);
  to->n = x.n;
  terms_of(r, to, &x);
  if (!r->why) r->memo[id] = to;
  return r->memo[id];
}

/* ---- comparing ------------------------------------------------------------------------------- */

static bool same_term(const GivenTerm *a, const GivenTerm *b, int32_t n, double sign) {
  if (a->scale != b->scale || !same_index(a, b, n)) return false;
  for (int32_t e = 0; e < n; e++)
    if (a->data[e] != sign * b->data[e]) return false;
  return true;
}

int given_compare(const GivenTerms *a, const GivenTerms *b) {
  if (a->n != b->n || a->count != b->count) return 0;
  for (int sign = 1; sign >= -1; sign -= 2) {
    bool all = true;
    for (int k = 0; all && k < a->count; k++) {
      bool found = false;
      for (int j = 0; !found && j < b->count; j++)
        found = same_term(&a->term[k], &b->term[j], a->n, sign);
      all = found;
    }
    if (all) return sign;
  }
  return 0;
}
