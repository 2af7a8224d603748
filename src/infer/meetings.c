/* meetings.c: who meets whom.
 *
 * Whatever does not see a number is computed as before, to the last bit, when that is moved. So to
 * move one number after the other tells all, in as many gradients as there are numbers
 * (one_by_one). Where they are many and most meet few, a small part of these will do (in_groups):
 *
 *   1. A few numbers are moved alone. Those that meet several of them meet many: they are common,
 *      and moved alone as well.
 *   2. Of the others groups at random are moved. A number that sees nothing of it meets none of the
 *      group; the others remain its candidates. Who keeps many candidates is common after all.
 *   3. The candidates are moved in groups of which every number has one candidate at most: so each
 *      is seen by itself.
 *
 * Common numbers tell by themselves whom they meet; that others meet them follows by symmetry.
 */
#include "infer/meetings.h"

#include "num/rng.h"

#include <math.h>
#include <string.h>

#define FAR 0.01 /* of a number's unit */
enum {
  SEVERAL_HUNDRED = 256, /* fewer numbers are moved one by one */
  SAMPLE = 16,           /* numbers moved first; */
  SEVERAL = 3,           /* who meets so many of them is common */
  MOST_MET = 16,         /* by those that are not, for groups to pay */
  SEED = 5
};

typedef struct {
  Arena *arena; /* for the time of the search */
  const Gradient *probe;
  const double *phi, *unit;
  size_t n, words;
  double *base, *at, *slope;
  int32_t *met;        /* [n] room */
  uint64_t *group;     /* [words] the numbers moved */
  bool *common;        /* [n] */
  int32_t **column;    /* [n] of a number that was moved alone: whom it meets; NULL: not yet */
  size_t *count;       /* [n] how many */
  uint64_t *candidate; /* [n x words] of whom number i may see a move */
} Search;

static bool is_in(const uint64_t *set, size_t k) { return set[k / 64] >> k % 64 & 1; }
static void put_in(uint64_t *set, size_t k) { set[k / 64] |= (uint64_t)1 << k % 64; }

static uint64_t *candidates_of(const Search *s, size_t i) { return s->candidate + i * s->words; }

static bool is_changed(const Search *s, size_t i) { return s->slope[i] != s->base[i]; }

/* The gradient where the numbers of the group are moved. */
static bool move_group(Search *s) {
  for (size_t k = 0; k < s->n; k++)
    s->at[k] = s->phi[k] + (is_in(s->group, k) ? FAR * s->unit[k] : 0);
  return s->probe->at(s->probe->self, s->at, s->slope);
}

static void clear_group(Search *s) { memset(s->group, 0, s->words * sizeof *s->group); }

static bool move_alone(Search *s, size_t k) {
  if (s->column[k]) return true;
  clear_group(s);
  put_in(s->group, k);
  if (!move_group(s)) return false;
  for (size_t i = 0; i < s->n; i++)
    if (i == k || is_changed(s, i)) s->met[s->count[k]++] = (int32_t)i;
  s->column[k] = NEW_ARRAY(s->arena, int32_t, s->count[k]);
  memcpy(s->column[k], s->met, s->count[k] * sizeof *s->met);
  return true;
}

/* ---- one by one ------------------------------------------------------------------------------ */

static bool one_by_one(Search *s, size_t most) {
  size_t many = 0;
  for (size_t k = 0; k < s->n && many <= most; k++) {
    if (!move_alone(s, k)) return false;
    many += s->count[k] > most;
  }
  return many <= most;
}

/* ---- in groups ------------------------------------------------------------------------------- */

/* What a step of the search ends with: it goes on, groups do not pay, or there is no answer. */
typedef enum { GOES_ON, NO_USE, FAILED } Step;

static size_t count_common(const Search *s) {
  size_t n = 0;
  for (size_t k = 0; k < s->n; k++) n += s->common[k];
  return n;
}

static Step move_common(Search *s, size_t most) {
  if (count_common(s) > most) return NO_USE;
  for (size_t k = 0; k < s->n; k++)
    if (s->common[k] && !move_alone(s, k)) return FAILED;
  return GOES_ON;
}

/* 1: who is common, and how many the others meet besides, at most. */
static Step find_common(Search *s, size_t most, size_t *met) {
  Rng key = rng_make(SEED, 0);
  size_t *meets = NEW_ARRAY(s->arena, size_t, s->n), of[SAMPLE];
  for (size_t j = 0; j < SAMPLE; j++) {
    of[j] = (size_t)(rng_uniform(key, 0, j) * (double)s->n);
    bool again = s->column[of[j]];
    if (!move_alone(s, of[j])) return FAILED;
    for (size_t e = 0; !again && e < s->count[of[j]]; e++) meets[s->column[of[j]][e]]++;
  }
  for (size_t k = 0; k < s->n; k++) s->common[k] = meets[k] >= SEVERAL;
  *met = 1;
  for (size_t j = 0; j < SAMPLE; j++) {
    size_t rest = 0;
    for (size_t e = 0; e < s->count[of[j]]; e++) rest += !s->common[s->column[of[j]][e]];
    if (!s->common[of[j]] && rest > *met) *met = rest;
  }
  return *met > MOST_MET ? NO_USE : move_common(s, most);
}

/* 2: every number has all as candidates, until groups say that it meets none of theirs. So many
 * groups leave few that are none. */
static Step find_candidates(Search *s, size_t met) {
  size_t groups = (size_t)(2 * (double)(met + 1) * log((double)s->n));
  if (groups > s->n / 4) return NO_USE;
  s->candidate = NEW_ARRAY(s->arena, uint64_t, s->n * s->words);
  for (size_t i = 0; i < s->n; i++)
    for (size_t k = 0; k < s->n; k++)
      if (!s->common[k]) put_in(candidates_of(s, i), k);
  for (size_t g = 1; g <= groups; g++) {
    Rng key = rng_make(SEED, g);
    clear_group(s);
    for (size_t k = 0; k < s->n; k++)
      if (!s->common[k] && rng_uniform(key, 0, k) * (double)(met + 1) < 1) put_in(s->group, k);
    if (!move_group(s)) return FAILED;
    for (size_t i = 0; i < s->n; i++)
      for (size_t w = 0; !is_changed(s, i) && w < s->words; w++)
        candidates_of(s, i)[w] &= ~s->group[w];
  }
  for (size_t k = 0; k < s->n; k++)
    if (!s->common[k]) put_in(candidates_of(s, k), k);
  return GOES_ON;
}

static size_t count_in(const uint64_t *set, size_t words) {
  size_t n = 0;
  for (size_t w = 0; w < words; w++) n += (size_t)__builtin_popcountll(set[w]);
  return n;
}

/* Who kept many candidates. */
static Step find_more_common(Search *s, size_t most, size_t met) {
  for (size_t i = 0; i < s->n; i++)
    if (count_in(candidates_of(s, i), s->words) > 8 * (met + 1)) s->common[i] = true;
  return move_common(s, most);
}

/* Those of whom k is a candidate, among those that are not common. */
typedef struct {
  size_t *first;
  int32_t *by;
} Watchers;

static Watchers watchers_of(const Search *s) {
  size_t all = 0;
  for (size_t i = 0; i < s->n; i++)
    if (!s->common[i]) all += count_in(candidates_of(s, i), s->words);
  Watchers w = {NEW_ARRAY(s->arena, size_t, s->n + 1), NEW_ARRAY(s->arena, int32_t, all + 1)};
  size_t end = 0;
  for (size_t k = 0; k < s->n; k++) {
    for (size_t i = 0; !s->common[k] && i < s->n; i++)
      if (!s->common[i] && is_in(candidates_of(s, i), k)) w.by[end++] = (int32_t)i;
    w.first[k + 1] = end;
  }
  return w;
}

static bool is_watched(const uint64_t *taken, const Watchers *w, size_t k) {
  for (size_t e = w->first[k]; e < w->first[k + 1]; e++)
    if (is_in(taken, (size_t)w->by[e])) return true;
  return false;
}

/* Group g of step 3: of those that are left as many as nobody watches two of. How many. */
static size_t choose_group(Search *s, const Watchers *w, bool *left, uint64_t *taken) {
  size_t n = 0;
  clear_group(s);
  memset(taken, 0, s->words * sizeof *taken);
  for (size_t k = 0; k < s->n; k++) {
    if (!left[k] || is_watched(taken, w, k)) continue;
    for (size_t e = w->first[k]; e < w->first[k + 1]; e++) put_in(taken, (size_t)w->by[e]);
    put_in(s->group, k);
    left[k] = false;
    n++;
  }
  return n;
}

static void read_group(Search *s, const Watchers *w) {
  for (size_t k = 0; k < s->n; k++) {
    if (!is_in(s->group, k)) continue;
    s->column[k] = NEW_ARRAY(s->arena, int32_t, w->first[k + 1] - w->first[k] + 1);
    for (size_t e = w->first[k]; e < w->first[k + 1]; e++) {
      size_t i = (size_t)w->by[e];
      if (i == k || is_changed(s, i)) s->column[k][s->count[k]++] = w->by[e];
    }
  }
}

/* 3 */
static Step move_candidates(Search *s) {
  Watchers w = watchers_of(s);
  bool *left = NEW_ARRAY(s->arena, bool, s->n);
  uint64_t *taken = NEW_ARRAY(s->arena, uint64_t, s->words);
  for (size_t k = 0; k < s->n; k++) left[k] = !s->column[k];
  for (size_t g = 0; choose_group(s, &w, left, taken); g++) {
    if (g > s->n / 4) return NO_USE;
    if (!move_group(s)) return FAILED;
    read_group(s, &w);
  }
  return GOES_ON;
}

static Step in_groups(Search *s, size_t most) {
  size_t met;
  if (s->n < SEVERAL_HUNDRED) return NO_USE;
  Step step = find_common(s, most, &met);
  if (step == GOES_ON) step = find_candidates(s, met);
  if (step == GOES_ON) step = find_more_common(s, most, met);
  return step == GOES_ON ? move_candidates(s) : step;
}

/* ---- both ------------------------------------------------------------------------------------ */

static Search begin(Arena *a, const Gradient *probe, const double *phi, const double *unit) {
  size_t n = probe->dim, words = (n + 63) / 64;
  return (Search){.arena = a,
                  .probe = probe,
                  .phi = phi,
                  .unit = unit,
                  .n = n,
                  .words = words,
                  .base = NEW_ARRAY(a, double, n + 1),
                  .at = NEW_ARRAY(a, double, n + 1),
                  .slope = NEW_ARRAY(a, double, n + 1),
                  .met = NEW_ARRAY(a, int32_t, n + 1),
                  .group = NEW_ARRAY(a, uint64_t, words + 1),
                  .common = NEW_ARRAY(a, bool, n + 1),
                  .column = NEW_ARRAY(a, int32_t *, n + 1),
                  .count = NEW_ARRAY(a, size_t, n + 1)};
}

static void keep(Arena *a, const Search *s, Meetings *m) {
  size_t all = 0;
  for (size_t k = 0; k < s->n; k++) all += s->count[k];
  *m = (Meetings){NEW_ARRAY(a, size_t, s->n + 1), NEW_ARRAY(a, int32_t, all + 1)};
  for (size_t k = 0; k < s->n; k++) {
    memcpy(m->row + m->first[k], s->column[k], s->count[k] * sizeof *m->row);
    m->first[k + 1] = m->first[k] + s->count[k];
  }
}

bool meetings_find(Arena *a, const Gradient *probe, const double *phi, const double *unit,
                   size_t most, Meetings *m) {
  TempArena *temp = temp_open(a->ctx);
  Search s = begin(&temp->arena, probe, phi, unit);
  bool found = probe->at(probe->self, phi, s.base);
  Step step = found ? in_groups(&s, most) : FAILED;
  if (step == NO_USE) step = one_by_one(&s, most) ? GOES_ON : FAILED;
  found = step == GOES_ON;
  if (found) keep(a, &s, m);
  temp_close(temp);
  return found;
}
