/* expand.h: larger programs for a variable that varies: what a statistician would try next.
 *
 * The user's text is edited, not rewritten, so the suggestion is the program as it was with
 * a few changed lines. Nothing is taken on trust: whoever asks checks and fits what comes of it.
 */
#ifndef PVI_EXPAND_H
#define PVI_EXPAND_H

#include "run/problem.h"

/* What varies, and how. */
typedef struct {
  const char *name; /* sigma, beta[2] */
  const Decl *variable;
  int element;        /* of a vector, 1-based; 0: the variable is one number */
  const char *column; /* of the data, one value an observation, which goes with it; NULL: none */
  bool groups;        /* its values are groups, 1, 2, ..; else it is a quantity */
  double width;       /* by how much it varies, and by how much the column does */
  double column_sd;
} Varying;

typedef struct {
  const char *what; /* "student_t noise instead of normal noise" */
  const char *text; /* the whole program */
} Expansion;

enum { MOST_EXPANSIONS = 3 };
/* How many there are; they are not checked yet. */
int expand(Ctx *c, const Problem *p, const Varying *v, Expansion *out);
/* Lines of the text that the program does not have. */
const char *expand_changes(Ctx *c, const Program *p, const char *text);

#endif
