/* reports.h: what the commands print, as text for people or as JSON for machines (option json). */
#ifndef PVI_REPORTS_H
#define PVI_REPORTS_H

#include "report/sample_summary.h"
#include "run/predict.h"
#include "run/run.h"

/* A program and, with data, what is made of it. Returns PVI_OK, or what is wrong with it; as JSON
 * the errors are in the text too. */
Status report_program(Ctx *c, const ProblemSource *s, const Options *o, Text *out);
void report_density(Ctx *c, const Model *m, const Options *o, Text *out);
void report_bench(Ctx *c, const Model *m, const Options *o, Text *out);
double bench_seconds(Ctx *c, const Model *m, const Options *o); /* of one evaluation, at best */
void report_fit(Ctx *c, const Run *r, const Options *o, Text *out);
/* Tables of the log score and, where it is another one, of the score that was maximised, of every
 * part. */
void report_scores(Ctx *c, const Summary *s, size_t width, Text *out);
void report_summary(Ctx *c, const Run *r, const Options *o, Text *out);
/* What draws of the posterior say, and their folder (NULL: nowhere). */
void report_sample(Ctx *c, const SampleSummary *s, const char *folder, const Options *o, Text *out);
/* How it was had, and what leaving observations out came to: sentences. */
const char *sample_course(Ctx *c, const SampleSummary *s);
const char *sample_loo_words(Ctx *c, const LooSummary *l);
void report_draws(Ctx *c, const Run *r, const Problem *p, const Options *o, Text *out);
void report_predictions(Ctx *c, const Predictions *p, const Options *o, Text *out);
void report_bag(Ctx *c, const Problem *p, const Options *o, const RunHooks *h, Text *out);
void report_diagnosis(Ctx *c, const Problem *p, const Options *o, const RunHooks *h, Text *out);
/* Run folders, or programs with their data. */
void report_comparison(Ctx *c, const char *const *places, size_t n, const Options *o,
                       const RunHooks *h, Text *out);

/* Run folders as one HTML file, whose name is told. */
void report_page(Ctx *c, const char *const *folders, size_t n, const Options *o, Text *out);

/* A run folder as a Zarr store or netCDF files; what was written is told (export.c). */
void report_export(Ctx *c, const char *folder, const Options *o, Text *out);

/* Which of n variables are wanted (option vars), in the order of a table: where they are more than
 * it has rows (option most), scalars before elements of containers. */
const size_t *report_choose(Ctx *c, const char *const *names, size_t n, const Options *o,
                            size_t *chosen);
/* Is it one of the variables asked for? Any is, without a list; else one whose own name, or whose
 * variable's, is in it. */
bool report_wants(const OptionList *vars, const char *name);
/* A difference with its sign and two decimals; nothing where it is not known. */
const char *report_signed(Arena *a, double x);
/* Columns that a text may take. */
static inline size_t report_width(const Options *o) { return o->width ? (size_t)o->width : 100; }

#endif
