/* signatures.c: the little language in which functions.def, dists.def and operators.def write their
 * types (described at the head of functions.def): text -> Sig, and matching arguments against it. A
 * row is parsed when it is first asked for. */
#include "stan/stan_int.h"

#include <assert.h>
#include <string.h>

/* ---- the tables ------------------------------------------------------------------------------ */

static const char *const function_texts[FUN_COUNT] = {
#define FUN(id, signatures, code) signatures,
#include "stan/functions.def"
#undef FUN
};

static const char *const dist_texts[DIST_COUNT] = {
#define DIST(id, signature, flags, support, code) signature,
#include "stan/dists.def"
#undef DIST
};

static const char *const operator_texts[] = {
#define OPERATOR(op, signatures) [op] = signatures,
#include "stan/operators.def"
#undef OPERATOR
};

static const unsigned flags_of[DIST_COUNT] = {
#define DIST(id, signature, flags, support, code) flags,
#include "stan/dists.def"
#undef DIST
};

const char *const stan_fun_names[FUN_COUNT] = {
#define FUN(id, signatures, code) #id,
#include "stan/functions.def"
#undef FUN
};

const char *const stan_dist_names[DIST_COUNT] = {
#define DIST(id, signature, flags, support, code) #id,
#include "stan/dists.def"
#undef DIST
};

const char *sig_text(FunId f) { return function_texts[f]; }
unsigned stan_dist_flags(DistId d) { return flags_of[d]; }

bool stan_dist_is_elementwise(DistId d) {
  for (const char *at = dist_texts[d]; *at && *at != ';'; at++) {
    size_t n = strspn(at, "abcdefghijklmnopqrstuvwxyz_");
    if (n && strncmp(at, "ints", n) != 0 && strncmp(at, "reals", n) != 0) return false;
    at += n ? n - 1 : 0;
  }
  return true;
}

/* ---- reading --------------------------------------------------------------------------------- */

enum { MAX_SIZES = 10 };

typedef struct {
  Arena *a;
  const char *at;
} Reader;

static Sig *read_args(Reader *r, Sig *s, char close);

static void blanks(Reader *r) { r->at += strspn(r->at, " "); }

static bool take(Reader *r, const char *text) {
  blanks(r);
  size_t n = strlen(text);
  if (strncmp(r->at, text, n) != 0) return false;
  r->at += n;
  return true;
}

static size_t word_length(const char *s) { return strspn(s, "abcdefghijklmnopqrstuvwxyz_T"); }

static bool take_word(Reader *r, const char *word) {
  blanks(r);
  size_t n = word_length(r->at);
  if (n != strlen(word) || strncmp(r->at, word, n) != 0) return false;
  r->at += n;
  return true;
}

/* Words that abbreviate alternatives; those that are containers have n elements everywhere. */
static const char *abbreviation(Reader *r) {
  if (take_word(r, "reals")) return "real/array[n] real/vector[n]/row_vector[n]";
  if (take_word(r, "ints")) return "int/array[n] int";
  if (take_word(r, "vectors"))
    return "vector[k]/row_vector[k]/array[n] vector[k]/array[n] row_vector[k]";
  return NULL;
}

static void read_word(Reader *r, Pattern *p) {
  static const char *const types[] = {
      "int",           "real",   "complex",        "vector",
      "row_vector",    "matrix", "complex_vector", "complex_row_vector",
      "complex_matrix"};
  static const char *const vars[] = {"map", "imap", "cmap", "box", "cbox", "vec", "cvec", "T"};
  for (int i = 0; i < 9; i++)
    if (take_word(r, types[i])) {
      p->type = (TypeKind)(TY_INT + i);
      return;
    }
  int v = 0;
  while (v < VAR_COUNT && !take_word(r, vars[v])) v++;
  assert(v < VAR_COUNT);
  p->kind = PAT_VARIABLE;
  p->var = (Variable)v;
}

/* size = [letter ["+" (letter | digit)] | "min(" letter "," letter ")"] [">0"] */
static Size read_size(Reader *r) {
  Size z = {0};
  if (take(r, "min(")) {
    z = (Size){.a = r->at[0], .b = r->at[2], .sign = 'm'};
    r->at += strlen("a,b)");
  } else if (word_length(r->at) == 1) {
    z.a = *r->at++;
    if (take(r, "+")) {
      z.sign = '+';
      z.b = *r->at++;
    }
  }
  z.positive = take(r, ">0");
  return z;
}

/* sizes = [size {"," size}] "]" */
static void read_sizes(Reader *r, Pattern *p) {
  Size sizes[MAX_SIZES] = {0};
  int n = 0;
  do {
    assert(n < MAX_SIZES);
    sizes[n++] = read_size(r);
  } while (take(r, ","));
  take(r, "]");
  int all = p->nsizes + n;
  Size *list = NEW_ARRAY(r->a, Size, all);
  if (p->nsizes) memcpy(list, p->sizes, (size_t)p->nsizes * sizeof *list);
  memcpy(list + p->nsizes, sizes, (size_t)n * sizeof *list);
  p->sizes = list;
  p->nsizes = all;
}

/* tuple = "tuple(" args ")" */
static bool read_tuple(Reader *r, Pattern *p) {
  if (!take(r, "tuple(")) return false;
  p->kind = PAT_TUPLE;
  p->fun = read_args(r, NEW(r->a, Sig), ')');
  return true;
}

/* dims = ["array[" (sizes | "...]")] */
static void read_dims(Reader *r, Pattern *p) {
  if (!take(r, "array[")) return;
  if (take(r, "...]")) {
    p->dims = ANY_DIMS;
    return;
  }
  read_sizes(r, p);
  p->dims = p->nsizes;
}

/* Does a single letter follow, the name of an int? */
static bool at_name(Reader *r) {
  blanks(r);
  return word_length(r->at) == 1 && *r->at != 'T';
}

/* type = dims (tuple | word) ["[" sizes | size] ["(" args ")"] */
static Pattern *read_type(Reader *r) {
  Pattern *p = NEW(r->a, Pattern);
  read_dims(r, p);
  if (!read_tuple(r, p)) read_word(r, p);
  if (take(r, "["))
    read_sizes(r, p);
  else if (at_name(r))
    p->value = read_size(r);
  if (*r->at != '(') return p;
  r->at++;
  Sig *fun = NEW(r->a, Sig);
  fun->result = p;
  Pattern *f = NEW(r->a, Pattern);
  f->kind = PAT_FUNCTION;
  f->fun = read_args(r, fun, ')');
  return f;
}

/* arg = ["data"] type {"/" type} */
static Pattern *read_arg(Reader *r) {
  bool data = take_word(r, "data");
  const char *text = abbreviation(r);
  Reader sub = {r->a, text};
  Reader *from = text ? &sub : r;
  Pattern *first = read_type(from);
  for (Pattern *p = first; p; p = p->other) {
    p->data = data;
    if (take(from, "/")) p->other = read_type(from);
  }
  return first;
}

/* args = [arg {("," | "|") arg}] up to close */
static Sig *read_args(Reader *r, Sig *s, char close) {
  const char end[2] = {close, 0};
  while (!take(r, end)) {
    if (!*r->at || *r->at == ';') break;
    if (take(r, "..."))
      s->rest = true;
    else if (!take(r, ",") && !take(r, "|")) {
      Pattern *p = read_arg(r);
      PUSH(r->a, s->args, s->nargs, s->cap, p);
    }
  }
  return s;
}

/* signature = result "(" args ")" */
static Sig *read_signature(Reader *r) {
  Pattern *p = read_type(r);
  assert(p->kind == PAT_FUNCTION);
  return (Sig *)p->fun;
}

static const Sig *read_row(Checker *k, const char *text) {
  Reader r = {&k->c->arena, text};
  Sig *first = read_signature(&r);
  for (Sig *s = first; take(&r, ";"); s = s->next) s->next = read_signature(&r);
  return first;
}

/* "outcome | parameters" alternatives become real(outcome, parameters); what follows "rng" is the
 * generator's signature. */
static void read_dist(Checker *k, DistId d) {
  Reader r = {&k->c->arena, dist_texts[d]};
  Pattern *real = NEW(r.a, Pattern);
  real->type = TY_REAL;
  Sig *first = NULL, **end = &first;
  do {
    if (take_word(&r, "rng")) {
      k->sigs.rngs[d] = read_signature(&r);
      continue;
    }
    Sig *s = NEW(r.a, Sig);
    s->result = real;
    *end = read_args(&r, s, ';');
    end = &s->next;
    if (r.at[-1] == ';') r.at--;
  } while (take(&r, ";"));
  k->sigs.densities[d] = first;
}

const Sig *sig_function(Checker *k, FunId f) {
  if (!k->sigs.functions[f]) k->sigs.functions[f] = read_row(k, function_texts[f]);
  return k->sigs.functions[f];
}

const Sig *sig_operator(Checker *k, Operator op) {
  if (!k->sigs.operators[op]) k->sigs.operators[op] = read_row(k, operator_texts[op]);
  if (op == OP_LDIV) sig_function(k, FUN_mdivide_left); /* which do their work */
  if (op == OP_DIV) sig_function(k, FUN_mdivide_right);
  return k->sigs.operators[op];
}

const Sig *sig_density(Checker *k, DistId d) {
  if (!k->sigs.densities[d]) read_dist(k, d);
  return k->sigs.densities[d];
}

/* ---- matching -------------------------------------------------------------------------------- */

/* What a signature's words stand for in one call. */
typedef struct {
  Checker *k;
  const Args *args;
  int nfixed; /* how many of them come before the "..." */
  const Type *var[VAR_COUNT];
  int any_dims;  /* what "..." between brackets stands for, plus one; 0: nothing yet */
  int rest_cost; /* promotions of those behind */
} Binding;

static int match_types(Binding *b, const Pattern *p, const Type *t);

static bool is_kind(TypeKind k, TypeKind a, TypeKind b, TypeKind c) {
  return k == a || k == b || k == c;
}

/* The type as a word would have it: itself, promoted to complex, or NULL when it is none of the
 * word's. */
static const Type *as_variable(Arena *a, Variable v, const Type *t) {
  TypeKind k = t->kind;
  bool real_box = is_kind(k, TY_VECTOR, TY_ROW_VECTOR, TY_MATRIX);
  bool complex_box = is_kind(k, TY_COMPLEX_VECTOR, TY_COMPLEX_ROW_VECTOR, TY_COMPLEX_MATRIX);
  TypeKind to = k;
  switch (v) {
  case VAR_MAP: to = k == TY_INT || k == TY_REAL ? TY_REAL : real_box ? k : TY_ERROR; break;
  case VAR_IMAP: to = k == TY_INT ? k : TY_ERROR; break;
  case VAR_CBOX:
  case VAR_CVEC:
  case VAR_CMAP:
    if (real_box)
      to = k - TY_VECTOR + TY_COMPLEX_VECTOR;
    else if (v == VAR_CMAP && is_kind(k, TY_INT, TY_REAL, TY_COMPLEX))
      to = TY_COMPLEX;
    else if (!complex_box)
      to = TY_ERROR;
    if (v == VAR_CVEC && to == TY_COMPLEX_MATRIX) to = TY_ERROR;
    if (v != VAR_CMAP && t->array_dims) to = TY_ERROR;
    break;
  case VAR_BOX: to = real_box && !t->array_dims ? k : TY_ERROR; break;
  case VAR_VEC: to = real_box && k != TY_MATRIX && !t->array_dims ? k : TY_ERROR; break;
  case VAR_T: to = k == TY_VOID || k == TY_FUNCTION || k == TY_STRING ? TY_ERROR : k; break;
  case VAR_COUNT: break;
  }
  if (to == TY_ERROR) return NULL;
  return to == k ? t : type_array(a, type_basic(to), t->array_dims);
}

static bool is_repeated(Variable v) { return v == VAR_MAP || v == VAR_IMAP || v == VAR_CMAP; }

static bool is_single(const Type *t) { return !t->array_dims && !type_own_dims(t->kind); }

static int match_variable(Binding *b, Variable v, const Type *t) {
  Arena *a = &b->k->c->arena;
  const Type *as = as_variable(a, v, t), **bound = &b->var[v];
  if (!as) return -1;
  int cost =
      v == VAR_MAP ? 0 : type_promotions(t, as); /* Stan lists such functions for int as well */
  if (is_repeated(v) && *bound && is_single(as)) return cost;
  if (!*bound || (is_repeated(v) && is_single(*bound)))
    *bound = as;
  else if (v == VAR_T)
    *bound = type_common(a, *bound, as);
  else if (!type_equal(*bound, as))
    return -1;
  return *bound ? cost + type_promotions(as, *bound) : -1;
}

/* The arguments behind nfixed are handed on to f, which takes them behind its own first `own`. */
static bool match_rest(Binding *b, const Type *f, int own) {
  const Args *args = b->args;
  b->rest_cost = 0;
  if (args->n - b->nfixed != f->nitems - own) return false;
  for (int i = b->nfixed, j = own; i < args->n; i++, j++) {
    int cost = type_promotions(args->types[i], f->items[j]);
    if (cost < 0 || (f->data_only[j] && args->data && !args->data[i])) return false;
    b->rest_cost += cost;
  }
  return true;
}

/* A function argument must have exactly the types asked for; what it takes beyond them is the
 * "...". */
static bool match_function(Binding *b, const Sig *want, const FunDef *f) {
  const Type *t = f->type;
  if (match_types(b, want->result, t->result) != 0) return false;
  if (want->rest ? t->nitems < want->nargs : t->nitems != want->nargs) return false;
  for (int i = 0; i < want->nargs; i++)
    if (match_types(b, want->args[i], t->items[i]) != 0 ||
        (t->data_only[i] && !want->args[i]->data))
      return false;
  return !want->rest || match_rest(b, t, want->nargs);
}

/* Functions that draw random numbers or touch the target cannot be handed on. */
static bool is_pure(const char *name) {
  Suffix s = suffix_of(name, &(size_t){0});
  return s != SUFFIX_RNG && s != SUFFIX_LP && s != SUFFIX_JACOBIAN;
}

/* The one of the user's functions with that name that has the right type; when there are several,
 * the best for the "...". */
static int match_name(Binding *b, const Sig *want, Expr *e) {
  Overloads *o = e && e->kind == EX_VAR && !e->decl
                     ? scope_functions(b->k, suffix_defined_name(b->k, e->name))
                     : NULL;
  Binding best = {0};
  bool unique = false;
  for (int i = 0; o && is_pure(e->name) && i < o->n; i++) {
    Binding attempt = *b;
    if (!match_function(&attempt, want, o->defs[i])) continue;
    if (best.k && attempt.rest_cost >= best.rest_cost) {
      unique &= attempt.rest_cost > best.rest_cost;
      continue;
    }
    best = attempt;
    unique = true;
    e->user = o->defs[i];
    e->type = o->defs[i]->type;
  }
  if (!unique) return -1;
  *b = best;
  return 0;
}

static int dims_of(Binding *b, const Pattern *p, const Type *t) {
  if (p->dims != ANY_DIMS) return p->dims;
  if (!b->any_dims) b->any_dims = t->array_dims + 1;
  return b->any_dims - 1;
}

/* The number of promotions from t to the pattern, or -1. */
static int match_types(Binding *b, const Pattern *p, const Type *t) {
  if (type_is_error(t)) return 0;
  int dims = dims_of(b, p, t);
  if (p->kind == PAT_TYPE) {
    Type want = {.kind = p->type, .array_dims = dims};
    return type_promotions(t, &want);
  }
  if (p->kind != PAT_VARIABLE || t->array_dims < dims) return -1;
  return match_variable(b, p->var, type_array(&b->k->c->arena, t, -dims));
}

/* The cheapest of the alternatives behind "/". */
static int match_arg(Binding *b, const Pattern *p, const Args *args, int i) {
  int best = -1;
  bool data = !args->data || args->data[i];
  for (; p; p = p->other) {
    if (p->data && !data) continue;
    int cost = p->kind == PAT_FUNCTION ? match_name(b, p->fun, args->exprs ? args->exprs[i] : NULL)
                                       : match_types(b, p, args->types[i]);
    if (cost >= 0 && (best < 0 || cost < best)) best = cost;
  }
  return best;
}

static int total_dims(const Type *t) { return t->array_dims + type_own_dims(t->kind); }

/* Where `map` and `imap` stand side by side, containers must have the same number of dimensions. */
static bool maps_agree(Binding *b) {
  const Type *m = b->var[VAR_MAP], *i = b->var[VAR_IMAP];
  if (!m || !i || is_single(i)) return true;
  if (is_single(m))
    b->var[VAR_MAP] = type_array(&b->k->c->arena, type_basic(TY_REAL), i->array_dims);
  return is_single(m) || total_dims(m) == total_dims(i);
}

static int match_sig(Binding *b, const Sig *s, const Args *args) {
  int sum = 0;
  if (s->rest ? args->n < s->nargs : args->n != s->nargs) return -1;
  b->args = args;
  b->nfixed = s->nargs;
  for (int i = 0; i < s->nargs; i++) {
    int cost = match_arg(b, s->args[i], args, i);
    if (cost < 0) return -1;
    sum += cost;
  }
  return maps_agree(b) ? sum + b->rest_cost : -1;
}

/* What a word stands for in the result; a `map` that no argument bound follows the one that is
 * bound. */
static const Type *bound_type(Binding *b, Variable v) {
  Arena *a = &b->k->c->arena;
  const Type *t = b->var[v], *complex = b->var[VAR_CMAP], *real = b->var[VAR_MAP];
  if (t) return t;
  if (v == VAR_CMAP && real) return as_variable(a, VAR_CMAP, real);
  if (v == VAR_IMAP && real) return type_array(a, type_basic(TY_INT), real->array_dims);
  if (v == VAR_MAP && complex)
    return type_array(a, type_basic(type_real_kind(complex->kind)), complex->array_dims);
  return type_basic(TY_ERROR); /* all arguments were erroneous */
}

static const Type *result_type(Binding *b, const Pattern *p) {
  Arena *a = &b->k->c->arena;
  int dims = p->dims == ANY_DIMS ? b->any_dims - 1 : p->dims;
  if (p->kind == PAT_VARIABLE) return type_array(a, bound_type(b, p->var), dims);
  if (p->kind == PAT_TYPE) return type_array(a, type_basic(p->type), dims);
  const Type **items = NEW_ARRAY(a, const Type *, p->fun->nargs);
  for (int i = 0; i < p->fun->nargs; i++) items[i] = result_type(b, p->fun->args[i]);
  return type_tuple(a, items, p->fun->nargs);
}

const Type *sig_match(Checker *k, const Sig *sigs, const Args *args, int *cost) {
  const Type *result = NULL;
  for (const Sig *s = sigs; s; s = s->next) {
    Binding b = {.k = k};
    int n = match_sig(&b, s, args);
    if (n < 0 || (result && n >= *cost)) continue;
    *cost = n;
    result = result_type(&b, s->result);
  }
  return result;
}

/* One outcome of a distribution whose parameters have these types: an array when one of them is a
 * container. */
static const Type *rng_result(Checker *k, const Pattern *outcome, const Pattern *const *params,
                              const Args *args) {
  bool many = false, vectors = outcome->type == TY_VECTOR;
  for (int i = 0; i < args->n; i++) {
    bool varies = params[i]->other != NULL;
    many |= varies && (vectors ? args->types[i]->array_dims > 0 : !is_single(args->types[i]));
  }
  return type_array(&k->c->arena, type_basic(outcome->type), many ? 1 : 0);
}

const Type *sig_match_rng(Checker *k, DistId d, const Args *args, int *cost) {
  const Sig *density = sig_density(k, d);
  if (k->sigs.rngs[d]) return sig_match(k, k->sigs.rngs[d], args, cost);
  Sig params = {.result = density->result, .args = density->args + 1, .nargs = density->nargs - 1};
  Binding b = {.k = k};
  *cost = match_sig(&b, &params, args);
  return *cost < 0 ? NULL
                   : rng_result(k, density->args[0], (const Pattern *const *)params.args, args);
}

/* ---- for messages ---------------------------------------------------------------------------- */

enum { SHOWN = 4, SHOWN_LENGTH = 300 };

/* A word of the tables as a user would say it. */
static const char *plain_word(const char *word, size_t n) {
  static const char *const rows[][2] = {
      {"map", "real/container"},
      {"imap", "int/array of int"},
      {"cmap", "complex/container"},
      {"box", "vector/row_vector/matrix"},
      {"cbox", "complex vector/row_vector/matrix"},
      {"vec", "vector/row_vector"},
      {"cvec", "complex vector/row_vector"},
      {"T", "any"},
      {"reals", "real/array[] real/vector/row_vector"},
      {"ints", "int/array[] int"},
      {"vectors", "vector/row_vector/arrays of them"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strlen(rows[i][0]) == n && strncmp(rows[i][0], word, n) == 0) return rows[i][1];
  return NULL;
}

static void describe_words(Text *out, const char *s, const char *end) {
  while (s < end) {
    size_t n = word_length(s);
    const char *plain = plain_word(s, n);
    if (plain)
      text_puts(out, plain);
    else
      text_add(out, s, n ? n : 1);
    s += n ? n : 1;
  }
}

/* Where the arguments of a signature begin: the first bracket that is not within its result. */
static const char *arguments_at(const char *s) {
  size_t depth = 0;
  for (; *s; s++) {
    if (*s == '(' && !depth) return s;
    if (*s == '[') depth++;
    if (*s == ']') depth--;
    if (strncmp(s, "tuple(", strlen("tuple(")) == 0) s += strcspn(s, ")");
  }
  return s;
}

/* "real(vector, int)" -> "real name(vector, int)"; a distribution's "ints | reals" -> "name(ints |
 * reals)" */
static void describe_one(Text *out, const char *name, const char *s, const char *end, bool dist) {
  const char *head = dist ? s : arguments_at(s);
  describe_words(out, s, head);
  text_printf(out, "%s%s%s", head > s ? " " : "", name, dist ? "(" : "");
  describe_words(out, head, end);
  if (dist) text_puts(out, ")");
}

void sig_describe(Text *out, const char *name, const char *signatures, bool dist) {
  size_t start = out->n;
  for (int shown = 0; *signatures && strncmp(signatures, "rng ", 4) != 0; shown++) {
    const char *end = signatures + strcspn(signatures, ";");
    if (out->n) text_puts(out, "; ");
    if (shown == SHOWN || out->n - start > SHOWN_LENGTH) {
      text_puts(out, "...");
      return;
    }
    describe_one(out, name, signatures, end, dist);
    signatures = end + strspn(end, "; ");
  }
}

/* The same for a distribution's function; a generator without a signature of its own takes the
 * parameters. */
void sig_describe_dist(Text *out, const char *name, DistId d, DistFun fun) {
  const char *text = dist_texts[d], *rng = strstr(text, "; rng ");
  if (fun != DF_RNG)
    sig_describe(out, name, text, true);
  else if (rng)
    sig_describe(out, name, rng + strlen("; rng "), false);
  else
    sig_describe(out, name, text + strcspn(text, "|") + 1, true);
}
