/* pages.h: what goes onto pages: a comparison, a diagnosis, a program with its lines marked, the
 * command that does it again. */
#ifndef PVI_PAGES_H
#define PVI_PAGES_H

#include "run/compare.h"
#include "run/diagnose.h"
#include "run/page.h"
#include "run/stacking.h"

/* stack may be NULL. */
void page_comparison(Page *p, const Comparison *r, const Stack *stack, const Options *o);
void page_diagnosis(Page *p, const Diagnosis *d, const Problem *problem);
void page_program(Page *p, const Problem *problem);
/* The options that were given follow the command. */
void page_command(Page *p, const char *command, const Options *o);

#endif
