/* test_sizes.c: the law of sizes. For every builtin and every alternative of its signature, each
 * combination of the sizes 0, 1 and 2 of its arguments' dimensions is accepted or refused; those
 * accepted must be those that the row generates: all values of its letters, of the dimensions of
 * its words, and of the dimensions that it does not name. */
#include "rows.h"

enum { SIZES = 3, MOST_COMBINATIONS = 6561 /* 3^8 */, MOST_KNOBS = 12 };

/* The dimensions of a call, one after the other; -1: the value of an int that is a size. */
typedef struct {
  int n, arg[32], dim[32];
} Dimensions;

static Dimensions dimensions_of(const RowCall *c) {
  Dimensions d = {0};
  for (int k = 0; k < c->n; k++)
    for (int j = c->args[k].pattern->value.a ? -1 : 0; j < c->args[k].ndims && d.n < 32; j++) {
      d.arg[d.n] = k;
      d.dim[d.n++] = j;
    }
  return d;
}

static size_t power(size_t base, int n) {
  size_t r = 1;
  for (int k = 0; k < n; k++) r *= base;
  return r;
}

/* ---- what is accepted ------------------------------------------------------------------------ */

static void set_sizes(RowCall *c, const Dimensions *d, size_t number, double *values) {
  for (int k = 0; k < d->n; k++, number /= SIZES) {
    int32_t size = (int32_t)(number % SIZES);
    if (d->dim[k] < 0)
      values[d->arg[k]] = size;
    else
      c->args[d->arg[k]].dims[d->dim[k]] = size;
  }
}

/* ---- what the row generates ------------------------------------------------------------------ */

/* What may be chosen: a letter, dimension j of a word, or a dimension of the call by itself. */
typedef struct {
  char letter;
  int word, at; /* word -1: none; at: its dimension */
  int dimension;
} Knob;

typedef struct {
  const RowCall *call;
  Dimensions d;
  Knob knobs[MOST_KNOBS];
  int n;
  int value[MOST_KNOBS];
  bool *made;
} Generator;

static int knob(Generator *g, Knob k) {
  for (int i = 0; i < g->n; i++)
    if (g->knobs[i].letter == k.letter && g->knobs[i].word == k.word && g->knobs[i].at == k.at &&
        g->knobs[i].dimension == k.dimension)
      return i;
  assert_true(g->n < MOST_KNOBS);
  g->knobs[g->n] = k;
  return g->n++;
}

static int letter_knob(Generator *g, char c) { return knob(g, (Knob){c, -1, 0, -1}); }

/* The size at dimension k, as the values of knobs have it; finding the knobs by the way. */
static int size_at(Generator *g, int k, bool *fine) {
  const RowArg *a = &g->call->args[g->d.arg[k]];
  const Pattern *p = a->pattern;
  int j = g->d.dim[k];
  const Size *z = j < 0 ? &p->value : j < p->nsizes ? &p->sizes[j] : NULL;
  if (z && z->a) {
    int first = g->value[letter_knob(g, z->a)], second = !z->sign ? 0
                                                         : z->b >= 'a'
                                                             ? g->value[letter_knob(g, z->b)]
                                                             : z->b - '0';
    int size = z->sign == 'm' ? (first < second ? first : second) : first + second;
    *fine &= !(z->positive && size == 0) && size < SIZES;
    return size;
  }
  bool word = p->kind == PAT_VARIABLE && j >= p->dims;
  int group = word ? (p->var == VAR_IMAP ? VAR_MAP : (int)p->var) : -1;
  int size =
      g->value[word ? knob(g, (Knob){0, group, j - p->dims, -1}) : knob(g, (Knob){0, -1, 0, k})];
  *fine &= !(z && z->positive && size == 0);
  return size;
}

/* What an empty array would hold may have any size. */
static bool is_free(const Generator *g, const int *sizes, int k) {
  const RowArg *a = &g->call->args[g->d.arg[k]];
  for (int i = k; i-- > 0 && g->d.arg[i] == g->d.arg[k];)
    if (g->d.dim[i] < a->array_dims && sizes[i] == 0) return true;
  return false;
}

static void mark(Generator *g, int *sizes, int k, size_t number) {
  if (k == g->d.n) {
    g->made[number] = true;
    return;
  }
  size_t unit = power(SIZES, k);
  if (!is_free(g, sizes, k)) {
    mark(g, sizes, k + 1, number + (size_t)sizes[k] * unit);
    return;
  }
  for (size_t any = 0; any < SIZES; any++) mark(g, sizes, k + 1, number + any * unit);
}

/* A size that is refused is none where its array is empty. */
static void generate_one(Generator *g) {
  int sizes[32];
  bool fine = true;
  for (int k = 0; k < g->d.n; k++) {
    bool here = true;
    sizes[k] = size_at(g, k, &here);
    fine &= here || is_free(g, sizes, k);
  }
  if (fine) mark(g, sizes, 0, 0);
}

static void generate(Generator *g) {
  size_at(g, 0, &(bool){true});
  for (int k = 0; k < g->d.n; k++) size_at(g, k, &(bool){true});
  size_t all = power(SIZES, g->n);
  for (size_t number = 0; number < all; number++) {
    size_t rest = number;
    for (int i = 0; i < g->n; i++, rest /= SIZES) g->value[i] = (int)(rest % SIZES);
    generate_one(g);
  }
}

/* Words whose arrays are empty do not bind the others, so the dimensions of T are checked by hand
 * in test_functions.c. */
static bool is_beyond(const RowCall *c) {
  for (int k = 0; k < c->n; k++)
    if (c->args[k].pattern->kind == PAT_VARIABLE && c->args[k].pattern->dims > 0) return true;
  return false;
}

/* ---- the law --------------------------------------------------------------------------------- */

static size_t compare(Ctx *c, const Rows *rows, RowCall call) {
  Generator g = {.call = &call, .d = dimensions_of(&call)};
  size_t all = power(SIZES, g.d.n), accepted = 0, made = 0;
  double values[ROW_ARGS];
  for (int k = 0; k < call.n; k++) values[k] = -1;
  if (!g.d.n || all > MOST_COMBINATIONS || is_beyond(&call)) return 0;
  g.made = NEW_ARRAY(&c->arena, bool, all);
  generate(&g);
  for (size_t number = 0; number < all; number++) {
    set_sizes(&call, &g.d, number, values);
    const char *fault = row_fault(c, rows, &call, values);
    bool fine = !fault;
    accepted += fine;
    made += g.made[number];
    if (fine != g.made[number])
      fail_msg("%s: combination %zu is %s", row_name(c, call.row), number,
               fine ? "accepted" : fault);
  }
  assert_int_equal(accepted, made);
  return all;
}

TEST(sizes) {
  Rows rows = rows_all(c);
  Dice d = {1};
  size_t combinations = 0, calls = 0;
  for (size_t k = 0; k < rows.n; k++)
    for (const Sig *s = rows.at[k].sigs; s; s = s->next)
      for (int times = 0; times < 6 && !row_sig_is_complex(s); times++) {
        ArenaMark here = arena_mark(&c->arena);
        combinations += compare(c, &rows, row_choose(&d, &rows.at[k], s));
        calls++;
        arena_reset(&c->arena, here);
      }
  print_message("# %zu rows, %zu calls, %zu combinations of sizes\n", rows.n, calls, combinations);
  assert_true(combinations > 100000);
}

int main(void) {
  static Suite suite;
  SUITE_ADD(&suite, sizes);
  return suite_run("sizes", &suite);
}
