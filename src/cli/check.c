/* check.c: pvi check: the errors of a program, and what pvi makes of it. */
#include "cli/cli.h"

#include "model/reduce.h"

#include <string.h>

static const Command command = {
    "check", "MODEL [DATA] [options]",
    "Checks a program; with data also says how its log density splits into prior and observations, "
    "what\n"
    "became of its loops, and whether exact integration applies. --dump prints a stage: tokens, "
    "tree and typed need no data, "
    "graph and tape do.",
    "  pvi check model.stan\n"
    "  pvi check examples/golf/logistic.stan examples/golf/golf.csv --dump=graph\n"
    "  pvi check model.stan data.json --json\n"};

enum { DUMP_TOKENS, DUMP_TREE, DUMP_TYPED, DUMP_GRAPH, DUMP_TAPE };

/* ---- parameters, observations and loops as rows ---------------------------------------------- */

static void json_loc(JsonWriter *j, Loc loc) {
  json_key(j, "line"), json_integer(j, loc.line);
  json_key(j, "column"), json_integer(j, loc.column);
}

static const char *type_text(Ctx *c, const Decl *d) {
  Text t = text_make(&c->arena);
  stan_print_type(&t, d->type);
  return t.s;
}

static void json_parameters(Ctx *c, JsonWriter *j, const Program *p, const Model *m) {
  json_key(j, "parameters"), json_array(j);
  const Stmt *block = p->blocks[BLOCK_PARAMETERS];
  for (int k = 0; block && k < block->nbody; k++)
    for (int i = 0; i < block->body[k]->ndecls; i++) {
      const Decl *d = block->body[k]->decls[i];
      json_object(j);
      json_key(j, "name"), json_string(j, d->name);
      json_key(j, "type"), json_string(j, type_text(c, d));
      json_loc(j, d->loc);
      for (int o = 0; m && o < m->noutputs; o++) {
        const Output *out = &m->outputs[o];
        if (out->decl != d) continue;
        json_key(j, "dims"), json_flat_array(j);
        for (int q = 0; q < out->ndims; q++) json_integer(j, out->dims[q]);
        json_array_end(j);
        json_key(j, "size"), json_integer(j, out->n);
        json_key(j, "unconstrained"), json_integer(j, out->unconstrained);
      }
      json_object_end(j);
    }
  json_array_end(j);
}

static void json_observations(JsonWriter *j, const Model *m) {
  json_key(j, "observations"), json_array(j);
  for (int k = 0; m && k < m->nblocks; k++) {
    json_object(j);
    json_loc(j, m->blocks[k].loc);
    json_key(j, "count"), json_integer(j, m->blocks[k].rows);
    json_key(j, "name"), json_string(j, m->blocks[k].name);
    json_object_end(j);
  }
  json_array_end(j);
}

static void json_loops(JsonWriter *j, const Model *m) {
  json_key(j, "loops"), json_array(j);
  for (size_t k = 0; m && k < m->nloops; k++) {
    const LoopInfo *l = &m->loops[k];
    json_object(j);
    json_loc(j, l->loc);
    json_key(j, "iterations"), json_integer(j, l->iterations);
    json_key(j, "lifted"), json_bool(j, l->lifted);
    if (!l->lifted) json_key(j, "reason"), json_string(j, l->why);
    json_object_end(j);
  }
  json_array_end(j);
}

/* Does exact integration apply, and why not? */
static void json_exact(Ctx *c, JsonWriter *j, const Model *m) {
  const char *why = NULL;
  Arena *a = &c->arena;
  ModelRows all = model_rows(a, m, NULL, 0);
  const Reduction *r = reduce_observations(a, m, &all, &why),
                  *prior = r ? reduce_prior(a, m, &why) : NULL;
  json_key(j, "exact_integration"), json_object(j);
  json_key(j, "observations"), json_bool(j, r != NULL);
  json_key(j, "prior"), json_bool(j, prior != NULL);
  if (why) json_key(j, "reason"), json_string(j, why);
  json_key(j, "how"), json_array(j);
  for (int k = 0; r && k < r->nblocks; k++) json_string(j, reduced_text(&r->blocks[k]));
  json_array_end(j);
  json_object_end(j);
}

static void print_exact(Ctx *c, const Model *m) {
  const char *why = NULL;
  Arena *a = &c->arena;
  ModelRows all = model_rows(a, m, NULL, 0);
  const Reduction *r = reduce_observations(a, m, &all, &why);
  if (!r) {
    printf("exact integration: no: %s\n", why);
    return;
  }
  puts("exact integration, for normal q and mixtures of normals:");
  for (int k = 0; k < r->nblocks; k++)
    printf("  line %u: %s\n", m->blocks[k].loc.line, reduced_text(&r->blocks[k]));
  if (!reduce_prior(a, m, &why)) printf("  but only with --lambda 0: %s\n", why);
}

static void print_json(Ctx *c, const Program *p, const Model *m) {
  Text out = text_make(&c->arena);
  JsonWriter j = json_writer(&out, true);
  json_object(&j);
  json_key(&j, "ok"), json_bool(&j, c->nerrors == 0);
  json_key(&j, "errors"), json_array(&j);
  for (size_t k = 0; k < c->nmessages; k++) {
    const Message *e = &c->messages[k];
    if (e->kind != MSG_ERROR) continue;
    json_object(&j);
    if (e->loc.source) json_key(&j, "file"), json_string(&j, e->loc.source->name);
    json_loc(&j, e->loc);
    json_key(&j, "message"), json_string(&j, e->text);
    json_object_end(&j);
  }
  json_array_end(&j);
  if (m) {
    json_key(&j, "dim"), json_integer(&j, (long long)m->dim);
    json_key(&j, "n_obs"), json_integer(&j, (long long)m->n_obs);
  }
  if (p) json_parameters(c, &j, p, m);
  if (!p) json_key(&j, "parameters"), json_array(&j), json_array_end(&j);
  json_observations(&j, m);
  json_loops(&j, m);
  if (m) json_exact(c, &j, m);
  json_object_end(&j);
  puts(out.s);
}

static void print_text(Ctx *c, const Program *p, const Model *m) {
  const Stmt *block = p->blocks[BLOCK_PARAMETERS];
  printf("%s: no errors\nparameters:\n", p->source->name);
  for (int k = 0; block && k < block->nbody; k++)
    for (int i = 0; i < block->body[k]->ndecls; i++)
      printf("  %-20s %s\n", block->body[k]->decls[i]->name,
             type_text(c, block->body[k]->decls[i]));
  if (!m) return;
  printf("%zu unconstrained numbers; %zu observations:\n", m->dim, m->n_obs);
  for (int k = 0; k < m->nblocks; k++)
    printf("  line %u: %d by %s\n", m->blocks[k].loc.line, m->blocks[k].rows, m->blocks[k].name);
  if (m->nloops) puts("loops:");
  for (size_t k = 0; k < m->nloops; k++) {
    const LoopInfo *l = &m->loops[k];
    printf("  line %u: %ld iterations, %s%s\n", l->loc.line, l->iterations,
           l->lifted ? "vectorized" : "run one by one, because ", l->lifted ? "" : l->why);
  }
  if (m->n_obs) print_exact(c, m);
}

/* ---- the command ----------------------------------------------------------------------------- */

static Status dump_text(Ctx *c, const char *path, const OptionList *include, int stage) {
  Text out = text_make(&c->arena);
  if (stage == DUMP_TOKENS) {
    const Source *s = source_read(c, path, "program");
    stan_print_tokens(c, &out, path, s->text, s->length);
  } else {
    StanOptions o = {.include_dirs = include->items, .ninclude_dirs = include->count};
    Program *p = stan_parse(c, path, &o);
    if (stage == DUMP_TYPED && !c->nerrors) stan_check(c, p);
    if (!c->nerrors) stan_print_tree(&out, p, stage == DUMP_TYPED);
  }
  if (out.s) fputs(out.s, stdout);
  return c->nerrors ? PVI_PROGRAM : PVI_OK;
}

static void dump_model(Ctx *c, const Model *m, int stage) {
  Text out = text_make(&c->arena);
  if (stage == DUMP_GRAPH) {
    ir_print(&out, m->graph);
    text_printf(&out, "prior %%%d, Jacobian %%%d\n", m->prior, m->jacobian);
    for (int k = 0; k < m->nblocks; k++)
      text_printf(&out, "observations of line %u: %%%d\n", m->blocks[k].loc.line,
                  m->blocks[k].root);
  } else {
    ModelRows all = model_rows(&c->arena, m, NULL, 0);
    vm_print(&out, model_tape(&c->arena, m, &all, WANT_LL));
  }
  fputs(out.s, stdout);
}

/* The stages in turn; stops where one fails, keeping what was made before. */
typedef struct {
  const char *model, *data;
  OptionList sets, include, observe;
  const Program *program;
  const Model *made;
} Stages;

static void run_stages(Ctx *c, Stages *s) {
  s->program = cli_program(c, s->model, &s->include);
  if (!s->data && !s->sets.count) return;
  Data *data = cli_data(c, s->data, &s->sets);
  s->made = cli_model(c, s->program, data, (ModelOptions){.nobserve = 0}, &s->observe);
}

static Status run_trapped(Ctx *c, Stages *s) {
  jmp_buf here, *outer = c->trap;
  Status status = PVI_OK;
  if (setjmp(here)) {
    status = c->status;
  } else {
    c->trap = &here;
    run_stages(c, s);
  }
  c->trap = outer;
  return status;
}

Status cmd_check(Ctx *c, int argc, char **argv) {
  const char *place[2];
  int dump = -1;
  bool json = false;
  Stages *s = NEW(&c->arena, Stages);
  const Option options[] = {
      {"dump", OPT_CHOICE, "tokens|tree|typed|graph|tape", &dump, 0, "print a stage"},
      {"observe", OPT_LIST, "LINE", &s->observe, 0,
       "what this line adds to the log density are observations; may be repeated"},
      {"set", OPT_LIST, "NAME=VALUE", &s->sets, 0, "a data variable given here; may be repeated"},
      {"include", OPT_LIST, "DIR", &s->include, 0,
       "where #include looks besides the program's own folder"},
      {"json", OPT_FLAG, NULL, &json, 0, "machine-readable output"},
  };
  if (!cli_options(c, &command, options, sizeof options / sizeof *options, argc, argv, place, 1, 2))
    return PVI_OK;
  if (dump >= 0 && dump <= DUMP_TYPED) return dump_text(c, place[0], &s->include, dump);
  s->model = place[0];
  s->data = place[1];
  Status status = run_trapped(c, s);
  if (dump >= 0 && status == PVI_OK && !s->made)
    ctx_fail(c, PVI_USAGE, NOWHERE, "--dump=graph and --dump=tape need DATA");
  if (json) {
    print_json(c, s->program, s->made);
  } else if (status == PVI_OK && dump >= 0) {
    dump_model(c, s->made, dump);
  } else if (status == PVI_OK) {
    print_text(c, s->program, s->made);
  }
  return status;
}
