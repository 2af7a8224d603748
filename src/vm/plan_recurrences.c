/* plan_recurrences.c: loops that hand one number on (GARCH, moving averages), found among the
 * global instructions: each becomes one kernel call that keeps the number in a register.
 *
 * A step is FMA or FNMA of one element, a factor that all steps share times what the step before
 * made; or that and y minus it. Its instructions follow each other. They stay where they are, with
 * their places: the first tells the way forward to take all of them together, the last the way
 * back.
 */
#include "vm/plan_int.h"

enum { LEAST_STEPS = 8 };

/* One step, or what may be one: which operand of its product is shared is not seen from it alone.
 */
typedef struct {
  RowPlace factor[2], c, y;
  size_t v, x;
  bool minus, apart;
} Step;

static RowPlace place_of(const Operand *o) {
  if (o->place == IN_DATA) return (RowPlace){o->data, 0};
  return (RowPlace){NULL, o->base + (o->access == AT_INDEX ? (size_t)o->index[0] : 0)};
}

static bool is_place(const RowPlace *p, size_t element) {
  return !p->data && p->element == element;
}

static bool same_place(const RowPlace *p, const RowPlace *q) {
  return p->data || q->data ? p->data == q->data : p->element == q->element;
}

static bool is_single(const Instr *i) {
  for (int k = 0; k < i->nargs; k++)
    if (i->in[k].place == IN_DATA && i->in[k].access != AT_ONE) return false;
  return i->n == 1;
}

/* The step that begins with instruction c of those before `end`: how many instructions it has; 0:
 * none. */
static int read_step(const Tape *t, int c, int end, Step *s) {
  const Instr *i = &t->code[c], *next = i + 1;
  if ((i->op != IR_FMA && i->op != IR_FNMA) || !is_single(i)) return 0;
  *s = (Step){.factor = {place_of(&i->in[0]), place_of(&i->in[1])},
              .c = place_of(&i->in[2]),
              .v = i->out,
              .x = i->out,
              .minus = i->op == IR_FNMA};
  if (c + 1 == end || next->op != IR_SUB || !is_single(next)) return 1;
  RowPlace taken = place_of(&next->in[1]);
  s->y = place_of(&next->in[0]);
  if (!is_place(&taken, s->v) || is_place(&s->y, s->v)) return 1;
  s->x = next->out;
  s->apart = true;
  return 2;
}

/* Does s go on where `before` ended? which: its shared factor. */
static bool follows(const Step *s, const Step *before, int which) {
  return s->minus == before->minus && s->apart == before->apart &&
         is_place(&s->factor[1 - which], before->x);
}

/* The steps from instruction c on, all with the factor a. */
typedef struct {
  int end; /* behind the last instruction */
  size_t steps;
} Stretch;

static Stretch stretch_from(const Tape *t, int c, int end, const RowPlace *a, Step *steps) {
  Stretch s = {c, 0};
  for (Step next;;) {
    int n = s.end < end ? read_step(t, s.end, end, &next) : 0;
    if (!n) return s;
    int which = same_place(&next.factor[0], a) ? 0 : 1;
    if (!same_place(&next.factor[which], a)) return s;
    if (s.steps && !follows(&next, &steps[s.steps - 1], which)) return s;
    if (!s.steps && which) {
      RowPlace first = next.factor[0];
      next.factor[0] = next.factor[1];
      next.factor[1] = first;
    }
    steps[s.steps++] = next;
    s.end += n;
  }
}

static const Recurrence *made(Arena *a, const Step *steps, size_t n) {
  Recurrence *r = NEW(a, Recurrence);
  RowPlace *c = NEW_ARRAY(a, RowPlace, n), *y = NEW_ARRAY(a, RowPlace, n);
  size_t *v = NEW_ARRAY(a, size_t, n), *x = NEW_ARRAY(a, size_t, n);
  for (size_t k = 0; k < n; k++) {
    c[k] = steps[k].c, y[k] = steps[k].y;
    v[k] = steps[k].v, x[k] = steps[k].x;
  }
  *r = (Recurrence){.steps = n,
                    .minus = steps->minus,
                    .apart = steps->apart,
                    .a = steps->factor[0],
                    .first = steps->factor[1],
                    .c = c,
                    .y = y,
                    .v = v,
                    .x = x};
  return r;
}

/* The longer stretch from instruction c on, by either factor. */
static Stretch longest_from(const Tape *t, int c, int end, Step *steps) {
  Step s;
  Stretch best = {c, 0};
  if (!read_step(t, c, end, &s)) return best;
  for (int which = 0; which < 2 && best.steps < LEAST_STEPS; which++)
    best = stretch_from(t, c, end, &s.factor[which], steps);
  return best;
}

static void find_between(Planner *p, int from, int end) {
  Tape *t = p->tape;
  Step *steps = NEW_ARRAY(p->temp, Step, end - from + 1);
  for (int c = from; c < end;) {
    Stretch s = longest_from(t, c, end, steps);
    if (s.steps < LEAST_STEPS) {
      c++;
      continue;
    }
    Instr *first = &t->code[c], *last = &t->code[s.end - 1];
    first->recurrence = last->recurrence = made(p->arena, steps, s.steps);
    first->together = last->together = s.end - c;
    c = s.end;
  }
}

/* Those that serve tiles and those that serve only roots are not always run together. */
void plan_recurrences(Planner *p) {
  find_between(p, 0, p->tape->shared);
  find_between(p, p->tape->shared, p->tape->count);
}
