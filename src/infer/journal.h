/* journal.h: what a fit has done so far, as bytes that a later process can take up.
 *
 * A fit is a deterministic course of steps: evaluations of objectives and runs of an optimizer. The
 * journal holds the result of every step that is done, and of the run that is under way the
 * optimizer's state. A fit that is given a journal goes through the same course again, but takes
 * the results of its steps from the journal as long as there are some; the run that was under way
 * goes on where it was; what follows is computed as usual. So the course itself need not know that
 * it was interrupted, and it ends with the same bits.
 *
 *   Journal *j = journal_make(arena);               a new one, or
 *   Journal *j = journal_read(ctx, arena, bytes, n);  one from a file
 *   journal_on_save(j, 5, save, self);                save: journal_write to a file
 *   options.journal = j;                              and then fit_run
 */
#ifndef PVI_JOURNAL_H
#define PVI_JOURNAL_H

#include "base/base.h"

typedef struct Journal Journal;

Journal *journal_make(Arena *a);
/* Of a fit that is one of several, made one after the other until one has an optimum: how many came
 * before it. */
void journal_set_turn(Journal *j, size_t turn);
size_t journal_turn(const Journal *j);
/* NULL, with an error among the messages of the context, where the bytes are not a whole journal of
 * this version: cut short, damaged, or of another kind. */
Journal *journal_read(Ctx *c, Arena *a, const char *bytes, size_t n);
/* The journal as it was when it last called `save`. */
void journal_write(const Journal *j, Text *out);
/* During a fit, `save` is called between iterations and evaluations when `seconds` have passed
 * since the last time (less often where saving is slow), and at the end when the fit is
 * interrupted. */
void journal_on_save(Journal *j, double seconds, void (*save)(void *self, const Journal *j),
                     void *self);

#endif
