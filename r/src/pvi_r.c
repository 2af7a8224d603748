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
    if (pvi_set(s->o, CHAR(STRING_ELT(names, k)), CHAR(STRING_ELT(values, k))))
      Rf_error("%s", pvi_error(s->c));
}

static Session *begin(SEXP *pointer, SEXP names, SEXP values) {
  Session *s = calloc(1, sizeof *s);
  if (!s) Rf_error("there is no memory left");
  *pointer = PROTECT(R_MakeExternalPtr(s, R_NilValue, R_NilValue));
  R_RegisterCFinalizerEx(*pointer, session_free, TRUE);
  s->c = pvi_open();
  s->o = s->c ? pvi_options_new(s->c) : NULL;
  if (!s->o) Rf_error("there is no memory left");
  set_options(s, names, values);
  return s;
}

/* The program is a file; the data a file, or JSON text. */
static void load(Session *s, SEXP program, SEXP program_text, SEXP data, SEXP data_text) {
  int status = text_of(program_text)
                   ? pvi_load_text(s->c, text_of(program_text), text_of(data_text), s->o, &s->m)
                   : pvi_load(s->c, text_of(program), text_of(data), s->o, &s->m);
  if (status) Rf_error("%s", pvi_error(s->c));
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
  if (status == PVI_STATUS_NOT_CONVERGED || status == PVI_STATUS_INTERRUPTED)
    Rf_warning("%s: %s", status == PVI_STATUS_INTERRUPTED ? "interrupted" : "not converged", why);
  else if (status)
    Rf_error("%s", pvi_error(s->c));
}

/* summary.json, as text. */
static SEXP summary_of(Session *s) {
  const char *text = "";
  pvi_set(s->o, "json", "true");
  int status = pvi_fit_report(s->c, s->run, s->o, &text);
  SEXP out = Rf_mkString(text);
  pvi_set(s->o, "json", NULL);
  if (status) Rf_error("%s", pvi_error(s->c));
  return out;
}

SEXP pvi_r_fit(SEXP program, SEXP program_text, SEXP data, SEXP data_text, SEXP names, SEXP values,
               SEXP ndraws) {
  SEXP pointer;
  Session *s = begin(&pointer, names, values);
  load(s, program, program_text, data, data_text);
  pvi_on_progress(s->c, progress, NULL);
  int status = pvi_fit(s->c, s->m, s->o, NULL, &s->run);
  pvi_on_progress(s->c, NULL, NULL);
  judge(s, status, s->run ? pvi_result_of(s->run)->reason : "");
  unsigned long long seed = strtoull(pvi_get(s->o, "seed"), NULL, 10);
  if (pvi_draw(s->c, s->run, (size_t)Rf_asReal(ndraws), seed, &s->draws))
    Rf_error("%s", pvi_error(s->c));
  const pvi_draws *d = s->draws;
  const pvi_result *r = pvi_result_of(s->run);
  static const char *const of[] = {"draws",  "log_p__",   "log_g__", "converged",
                                   "reason", "objective", "summary", "session"};
  SEXP items[] = {PROTECT(matrix_of(d->values, d->n, d->ncols, d->names)),
                  PROTECT(matrix_of(d->log_p, d->n, 1, NULL)),
                  PROTECT(matrix_of(d->log_q, d->n, 1, NULL)),
                  PROTECT(Rf_ScalarLogical(r->converged)),
                  PROTECT(Rf_mkString(r->reason)),
                  PROTECT(Rf_ScalarReal(r->objective)),
                  PROTECT(summary_of(s)),
                  pointer};
  SEXP out = list_of(8, of, items);
  UNPROTECT(8);
  return out;
}

SEXP pvi_r_sample(SEXP program, SEXP program_text, SEXP data, SEXP data_text, SEXP names,
                  SEXP values) {
  SEXP pointer;
  Session *s = begin(&pointer, names, values);
  load(s, program, program_text, data, data_text);
  pvi_on_progress(s->c, progress, NULL);
  int status = pvi_sample(s->c, s->m, s->o, NULL, &s->posterior);
  pvi_on_progress(s->c, NULL, NULL);
  judge(s, status, s->posterior ? s->posterior->verdict : "");
  const pvi_posterior *p = s->posterior;
  static const char *const of[] = {"draws",    "chains", "lp__",        "rhat",    "ess_bulk",
                                   "ess_tail", "mcse",   "divergences", "verdict", "session"};
  SEXP items[] = {PROTECT(matrix_of(p->values, p->chains * p->draws, p->ncols, p->names)),
                  PROTECT(Rf_ScalarInteger((int)p->chains)),
                  PROTECT(matrix_of(p->lp, p->chains * p->draws, 1, NULL)),
                  PROTECT(matrix_of(p->rhat, 1, p->ncols, p->names)),
                  PROTECT(matrix_of(p->ess_bulk, 1, p->ncols, p->names)),
                  PROTECT(matrix_of(p->ess_tail, 1, p->ncols, p->names)),
                  PROTECT(matrix_of(p->mcse, 1, p->ncols, p->names)),
                  PROTECT(Rf_ScalarInteger((int)p->divergences)),
                  PROTECT(Rf_mkString(p->verdict)),
                  pointer};
  SEXP out = list_of(10, of, items);
  UNPROTECT(10);
  return out;
}

SEXP pvi_r_predict(SEXP session, SEXP new_data, SEXP names, SEXP values) {
  Session *s = session_of(session);
  if (!s->run) Rf_error("there is no fit to predict from");
  pvi_options *asked = pvi_options_new(s->c);
  if (!asked) Rf_error("there is no memory left");
  for (R_xlen_t k = 0; k < XLENGTH(names); k++)
    if (pvi_set(asked, CHAR(STRING_ELT(names, k)), CHAR(STRING_ELT(values, k)))) {
      pvi_options_free(asked);
      Rf_error("%s", pvi_error(s->c));
    }
  pvi_predictions_free(s->predictions);
  s->predictions = NULL;
  int status = pvi_predict(s->c, s->run, text_of(new_data), asked, &s->predictions);
  pvi_options_free(asked);
  if (status) Rf_error("%s", pvi_error(s->c));
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

/* What the commands check and diagnose print. */
SEXP pvi_r_report(SEXP what, SEXP program, SEXP program_text, SEXP data, SEXP data_text, SEXP names,
                  SEXP values) {
  SEXP pointer;
  Session *s = begin(&pointer, names, values);
  const char *kind = text_of(what), *text = "";
  int status;
  if (!strcmp(kind, "check")) {
    status = pvi_check_report(s->c, text_of(program), text_of(data), s->o, &text);
  } else {
    load(s, program, program_text, data, data_text);
    pvi_on_progress(s->c, progress, NULL);
    status = pvi_diagnose_report(s->c, s->m, s->o, &text);
  }
  if (status && status != PVI_STATUS_NOT_CONVERGED) Rf_error("%s", pvi_error(s->c));
  SEXP out = Rf_mkString(text);
  UNPROTECT(1);
  return out;
}

SEXP pvi_r_compare(SEXP places, SEXP names, SEXP values) {
  SEXP pointer;
  Session *s = begin(&pointer, names, values);
  size_t n = (size_t)XLENGTH(places);
  const char **of = (const char **)R_alloc(n, sizeof *of), *text = "";
  for (size_t k = 0; k < n; k++) of[k] = CHAR(STRING_ELT(places, (R_xlen_t)k));
  pvi_on_progress(s->c, progress, NULL);
  if (pvi_compare_report(s->c, of, n, s->o, &text)) Rf_error("%s", pvi_error(s->c));
  SEXP out = Rf_mkString(text);
  UNPROTECT(1);
  return out;
}

SEXP pvi_r_text(SEXP session) { /* what `pvi fit` prints */
  Session *s = session_of(session);
  const char *text = "";
  if (pvi_fit_report(s->c, s->run, s->o, &text)) Rf_error("%s", pvi_error(s->c));
  return Rf_mkString(text);
}

SEXP pvi_r_version(void) { return Rf_mkString(pvi_version()); }

static const R_CallMethodDef methods[] = {
    {"pvi_r_fit", (DL_FUNC)&pvi_r_fit, 7},         {"pvi_r_sample", (DL_FUNC)&pvi_r_sample, 6},
    {"pvi_r_predict", (DL_FUNC)&pvi_r_predict, 4}, {"pvi_r_report", (DL_FUNC)&pvi_r_report, 7},
    {"pvi_r_compare", (DL_FUNC)&pvi_r_compare, 3}, {"pvi_r_text", (DL_FUNC)&pvi_r_text, 1},
    {"pvi_r_version", (DL_FUNC)&pvi_r_version, 0}, {NULL, NULL, 0}};

void R_init_pvi(DllInfo *dll) {
  R_registerRoutines(dll, NULL, methods, NULL, NULL);
  R_useDynamicSymbols(dll, FALSE);
}
