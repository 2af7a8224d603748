/* cmdstan_api.c: CmdStan's command lines. */
#include "api/api_int.h"

#include "run/cmdstan_run.h"

#include <string.h>

typedef struct {
  pvi_context *c;
  Console out;
  const char *executable;
  int argc;
  const char *const *argv;
  bool done;
} CmdstanApiArgs;

static void call_model(Ctx *ctx, void *arg) {
  CmdstanApiArgs *a = arg;
  RunHooks h = api_hooks(a->c);
  h.progress = NULL;
  a->done = cmdstan_call(ctx, &a->out, a->executable, a->argc, a->argv, &h);
}

/* The tools beside the models. */
typedef void ToolCall(Ctx *c, const Console *out, int argc, const char *const *argv);
static const struct {
  const char *name;
  ToolCall *call;
} tools[] = {
    {"stanc", stanc_call}, {"stansummary", stansummary_call}, {"diagnose", cmdstan_diagnose_call}};

static void call_tool(Ctx *ctx, void *arg) {
  CmdstanApiArgs *a = arg;
  for (size_t k = 0; k < sizeof tools / sizeof *tools; k++)
    if (!strcmp(tools[k].name, a->executable)) {
      tools[k].call(ctx, &a->out, a->argc, a->argv);
      a->done = true;
    }
}

static int call(CmdstanApiArgs *a, ApiStep *step) {
  if (!a->c) return PVI_STATUS_USAGE;
  NEED(a->c, a->out.print);
  for (int k = 0; k < a->argc; k++) {
    NEED(a->c, a->argv);
    NEED(a->c, a->argv[k]);
  }
  int status = api_call(a->c, NULL, step, a);
  atomic_store(&a->c->cancelled, false);
  return status ? status : a->done ? PVI_STATUS_OK : PVI_STATUS_NOT_CONVERGED;
}

int pvi_cmdstan_model(pvi_context *c, const char *executable, int argc, const char *const *argv,
                      pvi_printer print, void *self) {
  if (!c) return PVI_STATUS_USAGE;
  NEED(c, executable);
  return call(
      &(CmdstanApiArgs){
          .c = c, .out = {print, self}, .executable = executable, .argc = argc, .argv = argv},
      call_model);
}

int pvi_cmdstan_tool(pvi_context *c, const char *tool, int argc, const char *const *argv,
                     pvi_printer print, void *self) {
  const char *names[sizeof tools / sizeof *tools];
  bool known = false;
  if (!c) return PVI_STATUS_USAGE;
  NEED(c, tool);
  for (size_t k = 0; k < sizeof tools / sizeof *tools; k++)
    known |= !strcmp(names[k] = tools[k].name, tool);
  if (!known) return pvi_unknown(c, "tool", tool, names, sizeof names / sizeof *names);
  return call(
      &(CmdstanApiArgs){
          .c = c, .out = {print, self}, .executable = tool, .argc = argc, .argv = argv},
      call_tool);
}
