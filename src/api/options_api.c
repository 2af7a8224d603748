/* options_api.c: options by name. */
#include "api/api_int.h"

#include <stdlib.h>
#include <string.h>

static void make(Ctx *ctx, void *arg) {
  pvi_options *o = arg;
  o->o = options_make(&ctx->arena);
}

pvi_options *pvi_options_new(pvi_context *c) {
  pvi_options *o = c ? calloc(1, sizeof *o) : NULL;
  if (!o) return NULL;
  ctx_init(&o->ctx);
  o->context = c;
  if (!api_call(c, &o->ctx, make, o)) return o;
  pvi_options_free(o);
  return NULL;
}

void pvi_options_free(pvi_options *o) {
  if (!o) return;
  ctx_free(&o->ctx);
  free(o->got);
  free(o);
}

typedef struct {
  Options *o;
  const char *name, *value;
} SetArgs;

static void set(Ctx *ctx, void *arg) {
  SetArgs *a = arg;
  options_set(ctx, a->o, a->name, a->value);
}

int pvi_set(pvi_options *o, const char *name, const char *value) {
  if (!o) return PVI_STATUS_USAGE;
  NEED(o->context, name);
  return api_call(o->context, &o->ctx, set, &(SetArgs){o->o, name, value});
}

const char *pvi_get(pvi_options *o, const char *name) {
  if (!o || !name) return NULL;
  for (size_t k = 0; k < OPTION_COUNT; k++) {
    if (strcmp(option_row(k)->name, name) != 0) continue;
    const OptionList *given = &o->o->given[k];
    if (!given->count) return option_row(k)->byself;
    size_t n = 1;
    for (size_t i = 0; i < given->count; i++) n += strlen(given->items[i]) + 1;
    free(o->got);
    o->got = calloc(n, 1);
    for (size_t i = 0; o->got && i < given->count; i++) {
      if (i) strcat(o->got, ",");
      strcat(o->got, given->items[i]);
    }
    return o->got;
  }
  return NULL;
}

const Options *api_options(Ctx *ctx, const pvi_options *o) {
  return o ? o->o : options_make(&ctx->arena);
}

size_t pvi_option_count(void) { return OPTION_COUNT; }

pvi_option pvi_option_at(size_t k) {
  static const char *const kinds[] = {"flag",   "whole",  "real",  "text",
                                      "choice", "choice", "names", "list"};
  const OptionRow *r = option_row(k);
  if (!r) return (pvi_option){0};
  return (pvi_option){r->name, kinds[r->kind], r->value,    r->byself, r->least,
                      r->most, r->group,       r->commands, r->help};
}
