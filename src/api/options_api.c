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
  pvi_options *o;
  const char *name, *value;
} SetArgs;

static bool takes(const OptionRow *r, const char *command) {
  size_t n = strlen(command);
  for (const char *p = r->commands; *p; p += strcspn(p, " "), p += strspn(p, " "))
    if (strcspn(p, " ") == n && !strncmp(p, command, n)) return true;
  return false;
}

/* Is it one of the command's? Else it fails: with the commands that have it, or the nearest. */
static void check_taken(Ctx *ctx, const char *name, const char *command) {
  const char *names[OPTION_COUNT], *others = NULL, *near;
  size_t n = 0;
  for (size_t k = 0; k < OPTION_COUNT; k++) {
    const OptionRow *r = option_row(k);
    bool own = takes(r, command), same = !strcmp(r->name, name);
    if (own && same) return;
    if (own) names[n++] = r->name;
    if (same) others = r->commands;
  }
  if (others) {
    Text t = text_make(&ctx->arena);
    for (const char *p = others; *p; p++) text_printf(&t, *p == ' ' ? ", " : "%c", *p);
    if ((near = text_nearest(name, names, n))) text_printf(&t, "; did you mean \"%s\"?", near);
    ctx_fail(ctx, PVI_USAGE, NOWHERE, OPTION("%s") " is not an option of %s, but of %s", name,
             command, t.s);
  }
  options_unknown(ctx, name, names, n);
}

static void set(Ctx *ctx, void *arg) {
  SetArgs *a = arg;
  if (a->o->command) check_taken(ctx, a->name, a->o->command);
  options_set(ctx, a->o->o, a->name, a->value);
}

typedef struct {
  pvi_options *o;
  const char *command;
} ForArgs;

static void set_command(Ctx *ctx, void *arg) {
  ForArgs *a = arg;
  bool known = !a->command;
  for (size_t k = 0; k < OPTION_COUNT && !known; k++) known = takes(option_row(k), a->command);
  if (!known) ctx_fail(ctx, PVI_USAGE, NOWHERE, "there is no command %s with options", a->command);
  a->o->command = a->command ? arena_text(&ctx->arena, a->command, strlen(a->command)) : NULL;
}

int pvi_options_for(pvi_options *o, const char *command) {
  if (!o) return PVI_STATUS_USAGE;
  return api_call(o->context, &o->ctx, set_command, &(ForArgs){o, command});
}

int pvi_set(pvi_options *o, const char *name, const char *value) {
  if (!o) return PVI_STATUS_USAGE;
  NEED(o->context, name);
  return api_call(o->context, &o->ctx, set, &(SetArgs){o, name, value});
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
