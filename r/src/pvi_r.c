/* pvi_r.c: pvi.h for .Call. A Session holds a context and what was made with it; R frees it when
 * nobody refers to it any more. An R error leaves these functions by a long jump, so whatever they
 * hold is in the session or R's own. */
#include <R.h>
#include <R_ext/Rdynload.h>
#include <Rinternals.h>
#include <stdio.h>
#include <string.h>

#include "pvi.h"

typedef struct {
  pvi_context *c;
  pvi_options *o;
  pvi_model *m;
  pvi_run *run;
  pvi_draws *draws;
  pvi_posterior *posterior;
  pvi_predictions *predictions;
} Session;

static void session_free(SEXP x) {
  Session *s = R_ExternalPtrAddr(x);
  if (!s) return;
  R_ClearExternalPtr(x);
  pvi_predictions_free(s->predictions);
  pvi_posterior_free(s->posterior);
  pvi_draws_free(s->draws);
  pvi_run_free(s->run);
  pvi_model_free(s->m);
  pvi_options_free(s->o);
  if (s->c) pvi_close(s->c);
  free(s);
}

static Session *session_of(SEXP x) {
  Session *s = TYPEOF(x) == EXTPTRSXP ? R_ExternalPtrAddr(x) : NULL;
  if (!s) Rf_error("this fit belongs to another R session; fit it again");
  return s;
}

/* What the library says becomes R's error, which has a beginning of its own. */
static void fail(const Session *s) {
  static const char begins[] = "pvi: error: ";
  const char *why = pvi_error(s->c);
  if (!strncmp(why, begins, strlen(begins))) why += strlen(begins);
  Rf_errorcall(R_NilValue, "%.*s", (int)(strlen(why) - (*why && why[strlen(why) - 1] == '\n')),
               why);
}

/* Warnings of the library become R's. */
static void warn(const Session *s) {
  for (size_t k = 0; k < pvi_messages(s->c); k++) {
    pvi_message m = pvi_message_at(s->c, k);
    if (!strcmp(m.kind, "warning")) Rf_warning("%s", m.text);
  }
}

/* ---- interrupts ------------------------------------------------------------------------------ */

static void check_interrupt(void *unused) {
  (void)unused;
  R_CheckUserInterrupt();
}

/* Is Ctrl-C waiting? Asked where a jump cannot leave the fit half done. */
static int progress(void *self, const pvi_progress *p) {
  (void)self;
  (void)p;
  return !R_ToplevelExec(check_interrupt, NULL);
}

/* ---- arguments ------------------------------------------------------------------------------- */

static const char *text_of(SEXP x) {
  return TYPEOF(x) == STRSXP && XLENGTH(x) == 1 && STRING_ELT(x, 0) != NA_STRING
             ? CHAR(STRING_ELT(x, 0))
             : NULL;
}

static void set_options(Session *s, SEXP names, SEXP values) {
  for (R_xlen_t k = 0; k < XLENGTH(names); k++)
    if (pvi_set(s->o, CHAR(STRING_ELT(names, k)), CHAR(STRING_ELT(values, k)))) fail(s);
}

/* A session whose options are those of one command. */
static Session *begin(SEXP *pointer, const char *command, SEXP names, SEXP values) {
  Session *s = calloc(1, sizeof *s);
  if (!s) Rf_error("there is no memory left");
  *pointer = PROTECT(R_MakeExternalPtr(s, R_NilValue, R_NilValue));
  R_RegisterCFinalizerEx(*pointer, session_free, TRUE);
  s->c = pvi_open();
  s->o = s->c ? pvi_options_new(s->c) : NULL;
  if (!s->o) Rf_error("there is no memory left");
  if (pvi_options_for(s->o, command)) fail(s);
  set_options(s, names, values);
  return s;
}

/* places: a list of a program's file, its text, the data's file, their text; NULL where not given.
 */
static void load(Session *s, SEXP places) {
  const char *of[4];
  for (int k = 0; k < 4; k++) of[k] = text_of(VECTOR_ELT(places, k));
  int status = of[1] ? pvi_load_text(s->c, of[1], of[3], s->o, &s->m)
                     : pvi_load(s->c, of[0], of[2], s->o, &s->m);
  if (status) fail(s);
  warn(s);
}

/* ---- results --------------------------------------------------------------------------------- */

static SEXP matrix_of(const double *x, size_t rows, size_t cols, const char *const *names) {
  SEXP m = PROTECT(Rf_allocMatrix(REALSXP, (int)rows, (int)cols));
  for (size_t i = 0; i < rows; i++)
    for (size_t k = 0; k < cols; k++) REAL(m)[k * rows + i] = x[i * cols + k];
  if (names) {
    SEXP both = PROTECT(Rf_allocVector(VECSXP, 2)),
         of = PROTECT(Rf_allocVector(STRSXP, (R_xlen_t)cols));
    for (size_t k = 0; k < cols; k++) SET_STRING_ELT(of, (R_xlen_t)k, Rf_mkChar(names[k]));
    SET_VECTOR_ELT(both, 1, of);
    Rf_setAttrib(m, R_DimNamesSymbol, both);
    UNPROTECT(2);
  }
  UNPROTECT(1);
  return m;
}

static SEXP list_of(int n, const char *const *names, const SEXP *items) {
  SEXP l = PROTECT(Rf_allocVector(VECSXP, n)), of = PROTECT(Rf_allocVector(STRSXP, n));
  for (int k = 0; k < n; k++) {
    SET_VECTOR_ELT(l, k, items[k]);
    SET_STRING_ELT(of, k, Rf_mkChar(names[k]));
  }
  Rf_setAttrib(l, R_NamesSymbol, of);
  UNPROTECT(2);
  return l;
}

/* NOT_CONVERGED and INTERRUPTED come with a result, and are warnings; other failures have none. */
static void judge(const Session *s, int status, const char *why) {
  if (!status) warn(s);
  if (status == PVI_STATUS_NOT_CONVERGED || status == PVI_STATUS_INTERRUPTED)
    Rf_warning("%s: %s", status == PVI_STATUS_INTERRUPTED ? "interrupted" : "not converged", why);
  else if (status)
    fail(s);
}

/* summary.json, as text. */
static SEXP summary_of(Session *s) {
  const char *text = "";
  pvi_set(s->o, "json", "true");
  int status = pvi_fit_report(s->c, s->run, s->o, &text);
  SEXP out = Rf_mkString(text);
  pvi_set(s->o, "json", NULL);
  if (status) fail(s);
  return out;
}

typedef int FitFunction(pvi_context *c, const pvi_model *m, const pvi_options *o,
                        const pvi_split *split, pvi_run **out);
static const struct {
  const char *command;
  FitFunction *fit;
} fits[] = {{"fit", pvi_fit}, {"npe", pvi_npe}, {"nre", pvi_nre}};

/* What there is of a fit, with draws of its q. */
static SEXP fit_of(Session *s, SEXP pointer, int status, double ndraws) {
  judge(s, status, s->run ? pvi_result_of(s->run)->reason : "");
  SEXP summary = PROTECT(summary_of(s));
  static const char key[] = "\"seed\": ";
  const char *at = strstr(CHAR(STRING_ELT(summary, 0)), key);
  unsigned long long seed = at ? strtoull(at + strlen(key), NULL, 10) : 1;
  if (pvi_draw(s->c, s->run, (size_t)ndraws, seed, &s->draws)) fail(s);
  const pvi_draws *d = s->draws;
  const pvi_result *r = pvi_result_of(s->run);
  static const char *const of[] = {"draws",     "log_p__", "log_g__", "converged", "reason",
                                   "objective", "summary", "folder",  "session"};
  SEXP items[] = {PROTECT(matrix_of(d->values, d->n, d->ncols, d->names)),
                  PROTECT(matrix_of(d->log_p, d->n, 1, NULL)),
                  PROTECT(matrix_of(d->log_q, d->n, 1, NULL)),
                  PROTECT(Rf_ScalarLogical(r->converged)),
                  PROTECT(Rf_mkString(r->reason)),
                  PROTECT(Rf_ScalarReal(r->objective)),
                  summary,
                  PROTECT(r->folder ? Rf_mkString(r->folder) : R_NilValue),
                  pointer};
  SEXP out = list_of(9, of, items);
  UNPROTECT(9); /* eight items, and the pointer */
  return out;
}

SEXP pvi_r_fit(SEXP command, SEXP places, SEXP names, SEXP values, SEXP ndraws) {
  SEXP pointer;
  Session *s = begin(&pointer, text_of(command), names, values);
  int status = PVI_STATUS_USAGE;
  load(s, places);
  pvi_on_progress(s->c, progress, NULL);
  for (size_t k = 0; k < sizeof fits / sizeof *fits; k++)
    if (!strcmp(fits[k].command, text_of(command)))
      status = fits[k].fit(s->c, s->m, s->o, NULL, &s->run);
  pvi_on_progress(s->c, NULL, NULL);
  return fit_of(s, pointer, status, Rf_asReal(ndraws));
}

/* A run folder of draws of the posterior, to predict from. */
SEXP pvi_r_open(SEXP folder) {
  SEXP pointer, none = PROTECT(Rf_allocVector(STRSXP, 0));
  Session *s = begin(&pointer, "predict", none, none);
  if (pvi_read(s->c, text_of(folder), NULL, &s->run)) fail(s);
  UNPROTECT(2);
  return pointer;
}

/* A run folder again; or an interrupted fit, which goes on. */
SEXP pvi_r_read(SEXP folder, SEXP resume, SEXP ndraws) {
  SEXP pointer, none = PROTECT(Rf_allocVector(STRSXP, 0));
  Session *s = begin(&pointer, "fit", none, none);
  pvi_on_progress(s->c, progress, NULL);
  int status = Rf_asLogical(resume) ? pvi_resume(s->c, text_of(folder), NULL, &s->run)
                                    : pvi_read(s->c, text_of(folder), NULL, &s->run);
  pvi_on_progress(s->c, NULL, NULL);
  SEXP out = fit_of(s, pointer, status, Rf_asReal(ndraws));
  UNPROTECT(1);
  return out;
}

/* folder: of interrupted sampling, which goes on; NULL: a program and its data. */
SEXP pvi_r_sample(SEXP places, SEXP folder, SEXP names, SEXP values) {
  SEXP pointer;
  Session *s = begin(&pointer, "sample", names, values);
  if (!text_of(folder)) load(s, places);
  pvi_on_progress(s->c, progress, NULL);
  int status = text_of(folder) ? pvi_resume_sample(s->c, text_of(folder), NULL, &s->posterior)
                               : pvi_sample(s->c, s->m, s->o, NULL, &s->posterior);
  pvi_on_progress(s->c, NULL, NULL);
  judge(s, status, s->posterior ? s->posterior->verdict : "");
  const pvi_posterior *p = s->posterior;
  static const char *const of[] = {"draws",    "chains",   "lp__",   "rhat",
                                   "ess_bulk", "ess_tail", "mcse",   "divergences",
                                   "verdict",  "folder",   "session"};
  SEXP items[] = {PROTECT(matrix_of(p->values, p->chains * p->draws, p->ncols, p->names)),
                  PROTECT(Rf_ScalarInteger((int)p->chains)),
                  PROTECT(matrix_of(p->lp, p->chains * p->draws, 1, NULL)),
                  PROTECT(matrix_of(p->rhat, 1, p->ncols, p->names)),
                  PROTECT(matrix_of(p->ess_bulk, 1, p->ncols, p->names)),
                  PROTECT(matrix_of(p->ess_tail, 1, p->ncols, p->names)),
                  PROTECT(matrix_of(p->mcse, 1, p->ncols, p->names)),
                  PROTECT(Rf_ScalarInteger((int)p->divergences)),
                  PROTECT(Rf_mkString(p->verdict)),
                  PROTECT(p->folder ? Rf_mkString(p->folder) : R_NilValue),
                  pointer};
  SEXP out = list_of(11, of, items);
  UNPROTECT(11); /* ten items, and the pointer */
  return out;
}

SEXP pvi_r_predict(SEXP session, SEXP new_data, SEXP names, SEXP values) {
  Session *s = session_of(session);
  if (!s->run) Rf_error("there is no fit to predict from");
  pvi_options *asked = pvi_options_new(s->c);
  if (!asked) Rf_error("there is no memory left");
  pvi_options_for(asked, "predict");
  for (R_xlen_t k = 0; k < XLENGTH(names); k++)
    if (pvi_set(asked, CHAR(STRING_ELT(names, k)), CHAR(STRING_ELT(values, k)))) {
      pvi_options_free(asked);
      fail(s);
    }
  pvi_predictions_free(s->predictions);
  s->predictions = NULL;
  int status = pvi_predict(s->c, s->run, text_of(new_data), asked, &s->predictions);
  pvi_options_free(asked);
  if (status) fail(s);
  const pvi_predictions *p = s->predictions;
  static const char *const of[] = {"mean", "sd", "levels", "quantiles", "scores", "outcomes"};
  SEXP items[] = {PROTECT(matrix_of(p->mean, p->n, 1, NULL)),
                  PROTECT(matrix_of(p->sd, p->n, 1, NULL)),
                  PROTECT(matrix_of(p->levels, p->nlevels, 1, NULL)),
                  PROTECT(matrix_of(p->quantiles, p->n, p->nlevels, NULL)),
                  PROTECT(matrix_of(p->scores, p->n, p->nscores, p->names)),
                  PROTECT(matrix_of(p->outcomes, p->outcomes ? p->n : 0,
                                    p->outcomes ? p->noutcomes : 0, NULL))};
  SEXP out = list_of(6, of, items);
  UNPROTECT(6);
  return out;
}

/* What a command says of a program and its data. */
typedef int ModelReport(pvi_context *c, const pvi_model *m, const pvi_options *o,
                        const char **text);
static const struct {
  const char *command;
  ModelReport *report;
} model_reports[] = {{"diagnose", pvi_diagnose_report}, {"bag", pvi_bag_report}};

static SEXP said(Session *s, int status, const char *text) {
  pvi_on_progress(s->c, NULL, NULL);
  if (status && status != PVI_STATUS_NOT_CONVERGED) fail(s);
  SEXP out = Rf_mkString(text);
  UNPROTECT(1); /* the session's pointer */
  return out;
}

SEXP pvi_r_model_report(SEXP command, SEXP places, SEXP names, SEXP values) {
  SEXP pointer;
  Session *s = begin(&pointer, text_of(command), names, values);
  const char *text = "";
  int status = PVI_STATUS_USAGE;
  load(s, places);
  pvi_on_progress(s->c, progress, NULL);
  for (size_t k = 0; k < sizeof model_reports / sizeof *model_reports; k++)
    if (!strcmp(model_reports[k].command, text_of(command)))
      status = model_reports[k].report(s->c, s->m, s->o, &text);
  return said(s, status, text);
}

/* What a command says of files and folders. */
static int check_places(pvi_context *c, const char *const *places, size_t n, const pvi_options *o,
                        const char **text) {
  return pvi_check_report(c, places[0], n > 1 ? places[1] : NULL, o, text);
}

static int export_places(pvi_context *c, const char *const *places, size_t n, const pvi_options *o,
                         const char **text) {
  (void)n;
  return pvi_export_report(c, places[0], o, text);
}

typedef int PlacesReport(pvi_context *c, const char *const *places, size_t n, const pvi_options *o,
                         const char **text);
static const struct {
  const char *command;
  PlacesReport *report;
} places_reports[] = {{"check", check_places},
                      {"compare", pvi_compare_report},
                      {"report", pvi_page_report},
                      {"export", export_places}};

SEXP pvi_r_places_report(SEXP command, SEXP places, SEXP names, SEXP values) {
  SEXP pointer;
  Session *s = begin(&pointer, text_of(command), names, values);
  size_t n = (size_t)XLENGTH(places);
  const char **of = (const char **)R_alloc(n + 1, sizeof *of), *text = "";
  int status = PVI_STATUS_USAGE;
  if (!n) Rf_error("name files or run folders");
  for (size_t k = 0; k < n; k++) of[k] = CHAR(STRING_ELT(places, (R_xlen_t)k));
  pvi_on_progress(s->c, progress, NULL);
  for (size_t k = 0; k < sizeof places_reports / sizeof *places_reports; k++)
    if (!strcmp(places_reports[k].command, text_of(command)))
      status = places_reports[k].report(s->c, of, n, s->o, &text);
  return said(s, status, text);
}

/* Names of the options of a command. */
SEXP pvi_r_options(SEXP command) {
  const char *word = text_of(command);
  size_t n = 0, length = strlen(word);
  SEXP out = PROTECT(Rf_allocVector(STRSXP, (R_xlen_t)pvi_option_count()));
  for (size_t k = 0; k < pvi_option_count(); k++) {
    pvi_option o = pvi_option_at(k);
    for (const char *p = o.commands; *p; p += strcspn(p, " "), p += strspn(p, " "))
      if (strcspn(p, " ") == length && !strncmp(p, word, length))
        SET_STRING_ELT(out, (R_xlen_t)n++, Rf_mkChar(o.name));
  }
  out = Rf_lengthgets(out, (R_xlen_t)n);
  UNPROTECT(1);
  return out;
}

SEXP pvi_r_text(SEXP session) { /* what `pvi fit` prints */
  Session *s = session_of(session);
  const char *text = "";
  if (pvi_fit_report(s->c, s->run, s->o, &text)) fail(s);
  return Rf_mkString(text);
}

SEXP pvi_r_version(void) { return Rf_mkString(pvi_version()); }

static const R_CallMethodDef methods[] = {{"pvi_r_fit", (DL_FUNC)&pvi_r_fit, 5},
                                          {"pvi_r_read", (DL_FUNC)&pvi_r_read, 3},
                                          {"pvi_r_open", (DL_FUNC)&pvi_r_open, 1},
                                          {"pvi_r_sample", (DL_FUNC)&pvi_r_sample, 4},
                                          {"pvi_r_predict", (DL_FUNC)&pvi_r_predict, 4},
                                          {"pvi_r_model_report", (DL_FUNC)&pvi_r_model_report, 4},
                                          {"pvi_r_places_report", (DL_FUNC)&pvi_r_places_report, 4},
                                          {"pvi_r_options", (DL_FUNC)&pvi_r_options, 1},
                                          {"pvi_r_text", (DL_FUNC)&pvi_r_text, 1},
                                          {"pvi_r_version", (DL_FUNC)&pvi_r_version, 0},
                                          {NULL, NULL, 0}};

void R_init_pvi(DllInfo *dll) {
  R_registerRoutines(dll, NULL, methods, NULL, NULL);
  R_useDynamicSymbols(dll, FALSE);
}
