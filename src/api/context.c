/* context.c: contexts: how a call runs, its messages, progress and cancelling. */
#include "api/api_int.h"

#include <stdlib.h>
#include <math.h>
#include <string.h>

const char *pvi_version(void) { return PVI_VERSION; }

/* For the torture build: PVI_FAIL_ALLOC=k lets the k-th allocation of memory fail. */
static long allowed_allocations(void) {
#ifdef PVI_TORTURE
  const char *s = getenv("PVI_FAIL_ALLOC");
  if (s && *s) return strtol(s, NULL, 10);
#endif
  return -1;
}

pvi_context *pvi_open(void) {
  pvi_context *c = calloc(1, sizeof *c);
  if (c) c->alloc_left = allowed_allocations();
  return c;
}

static void forget_messages(pvi_context *c) {
  for (size_t k = 0; k < c->nmessages; k++) {
    free((char *)c->messages[k].file);
    free((char *)c->messages[k].text);
  }
  free(c->messages);
  free(c->error);
  c->messages = NULL;
  c->nmessages = 0;
  c->error = NULL;
}

void pvi_close(pvi_context *c) {
  if (!c) return;
  forget_messages(c);
  free(c->text);
  free(c);
}

/* ---- messages -------------------------------------------------------------------------------- */

const char *pvi_error(const pvi_context *c) { return c && c->error ? c->error : ""; }
size_t pvi_messages(const pvi_context *c) { return c ? c->nmessages : 0; }

pvi_message pvi_message_at(const pvi_context *c, size_t k) {
  return c && k < c->nmessages ? c->messages[k] : (pvi_message){.kind = "", .text = ""};
}

/* Copies: the Ctx may go with the call. Without memory for them there are none. */
static void keep_messages(pvi_context *c, const Ctx *ctx) {
  static const char *const kinds[] = {"error", "warning", "note"};
  size_t length;
  forget_messages(c);
  if (!ctx->nmessages) return;
  FILE *f = open_memstream(&c->error, &length);
  if (f) {
    ctx_print(ctx, f);
    fclose(f);
  }
  c->messages = calloc(ctx->nmessages, sizeof *c->messages);
  for (size_t k = 0; c->messages && k < ctx->nmessages; k++) {
    const Message *m = &ctx->messages[k];
    c->messages[c->nmessages++] =
        (pvi_message){.kind = kinds[m->kind],
                      .file = m->loc.source ? strdup(m->loc.source->name) : NULL,
                      .line = m->loc.line,
                      .column = m->loc.column,
                      .text = strdup(m->text)};
  }
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Under a trap. What a jump leaves open (threads, files half written) is closed, but only after the
 * messages are kept: they show texts that are among it. */
static int run_trapped(pvi_context *c, Ctx *ctx, ApiStep *step, void *arg) {
  jmp_buf here;
  volatile int status = PVI_STATUS_OK;
  ctx->option_prefix = c->option_prefix;
  ctx->alloc_left = c->alloc_left;
  if (setjmp(here)) {
    status = (int)ctx->status;
  } else {
    ctx->trap = &here;
    step(ctx, arg);
  }
  ctx->trap = NULL;
  c->alloc_left = ctx->alloc_left;
  keep_messages(c, ctx);
  if (status) ctx_close(ctx);
  ctx->nmessages = ctx->nerrors = 0;
  return status;
}

int api_call(pvi_context *c, Ctx *ctx, ApiStep *step, void *arg) {
  if (ctx) return run_trapped(c, ctx, step, arg);
  Ctx own;
  ctx_init(&own);
  int status = run_trapped(c, &own, step, arg);
  ctx_free(&own);
  return status;
}

typedef struct {
  pvi_context *c;
  ApiReport *report;
  void *arg;
  Status status;
} ReportCall;

/* The text is copied before the Ctx that made it goes. */
static void make_report(Ctx *ctx, void *self) {
  ReportCall *call = self;
  Text out = text_make(&ctx->arena);
  call->status = call->report(ctx, call->arg, &out);
  free(call->c->text);
  call->c->text = strdup(out.s ? out.s : "");
  if (!call->c->text)
    ctx_fail(ctx, PVI_FAILURE, NOWHERE, "out of memory (%zu bytes wanted)", out.n);
}

int api_report(pvi_context *c, ApiReport *report, void *arg, const char **text) {
  NEED(c, text);
  ReportCall call = {c, report, arg, PVI_OK};
  free(c->text);
  c->text = NULL;
  int status = api_call(c, NULL, make_report, &call);
  *text = c->text ? c->text : "";
  return status ? status : (int)call.status;
}

static void complain(Ctx *ctx, void *what) {
  ctx_fail(ctx, PVI_USAGE, NOWHERE, "the argument %s is NULL", (const char *)what);
}

int api_missing(pvi_context *c, const char *what) {
  return c ? api_call(c, NULL, complain, (void *)what) : PVI_STATUS_USAGE;
}

static void unknown(Ctx *ctx, void *word) { ctx_unknown(ctx, PVI_USAGE, NOWHERE, word); }

int pvi_unknown(pvi_context *c, const char *what, const char *word, const char *const *names,
                size_t n) {
  if (!c) return PVI_STATUS_USAGE;
  NEED(c, what);
  NEED(c, word);
  for (size_t k = 0; k < n; k++) {
    NEED(c, names);
    NEED(c, names[k]);
  }
  return api_call(c, NULL, unknown,
                  &(UnknownWord){.what = what, .word = word, .names = names, .count = n});
}

/* ---- progress -------------------------------------------------------------------------------- */

void pvi_on_progress(pvi_context *c, int (*report)(void *self, const pvi_progress *p), void *self) {
  if (!c) return;
  c->report = report;
  c->report_self = self;
}

void pvi_cancel(pvi_context *c) {
  if (c) atomic_store(&c->cancelled, true);
}

void pvi_option_prefix(pvi_context *c, const char *prefix) {
  if (c) c->option_prefix = prefix;
}

size_t pvi_progress_line(char *out, size_t size, size_t columns, const char *label,
                         const pvi_progress *p) {
  char detail[128];
  if (out && size) out[0] = 0;
  if (!out || !size || !label || !p || !p->stage) return 0;
  snprintf(detail, sizeof detail, isnan(p->objective) ? "%s" : "%s, objective %.6g", p->stage,
           p->objective);
  return progress_line(out, size, columns,
                       &(ProgressState){.label = label,
                                        .detail = detail,
                                        .done = (size_t)p->done,
                                        .total = (size_t)p->total,
                                        .seconds = p->seconds});
}
