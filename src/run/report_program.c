/* report_program.c: `pvi check`: is there an error in the program, and what does pvi make of it? */
#include "run/reports.h"

#include "data/json.h"
#include "model/reduce.h"
#include "report/table.h"

#include <string.h>

enum { DUMP_TOKENS, DUMP_TREE, DUMP_TYPED, DUMP_GRAPH, DUMP_TAPE };

/* ---- parameters, observations and loops ------------------------------------------------------ */

static void json_loc(JsonWriter *j, Loc loc) {
  json_key(j, "line"), json_integer(j, loc.line);
  json_key(j, "column"), json_integer(j, loc.column);
}

static const char *type_text(Ctx *c, const Decl *d) {
  Text t = text_make(&c->arena);
  stan_print_type(&t, d->type);
  return t.s;
}

static void json_sizes(JsonWriter *j, const Decl *d, const Model *m) {
  for (int o = 0; m && o < m->noutputs; o++) {
    const Output *out = &m->outputs[o];
    if (out->variable != d || out->npath) continue;
    json_key(j, "dims"), json_flat_array(j);
    for (int q = 0; q < out->ndims; q++) json_integer(j, out->dims[q]);
    json_array_end(j);
    json_key(j, "size"), json_integer(j, out->n);
    json_key(j, "unconstrained"), json_integer(j, out->unconstrained);
  }
}

static void json_parameters(Ctx *c, JsonWriter *j, const Program *p, const Model *m) {
  json_key(j, "parameters"), json_array(j);
  const Stmt *block = p ? p->blocks[BLOCK_PARAMETERS] : NULL;
  for (int k = 0; block && k < block->nbody; k++)
    for (int i = 0; i < block->body[k]->ndecls; i++) {
      const Decl *d = block->body[k]->decls[i];
      json_object(j);
      json_key(j, "name"), json_string(j, d->name);
      json_key(j, "type"), json_string(j, type_text(c, d));
      json_loc(j, d->loc);
      json_sizes(j, d, m);
      json_object_end(j);
    }
  json_array_end(j);
}

/* Observations by the statement that makes them: a loop may make several blocks of one. */
typedef struct {
  Loc loc;
  const char *name;
  long long count;
} Statement;

static bool same_place(Loc a, Loc b) {
  return a.source == b.source && a.line == b.line && a.column == b.column;
}

static Statement *statements_of(Ctx *c, const Model *m, int *count) {
  Statement *list = NEW_ARRAY(&c->arena, Statement, m->nblocks + 1);
  *count = 0;
  for (int k = 0; k < m->nblocks; k++) {
    const ObsBlock *b = &m->blocks[k];
    int j = 0;
    while (j < *count && !(same_place(list[j].loc, b->loc) && !strcmp(list[j].name, b->name))) j++;
    if (j == *count) list[(*count)++] = (Statement){b->loc, b->name, 0};
    list[j].count += b->rows;
  }
  return list;
}

static void json_observations(Ctx *c, JsonWriter *j, const Model *m) {
  json_key(j, "observations"), json_array(j);
  int n = 0;
  const Statement *s = m ? statements_of(c, m, &n) : NULL;
  for (int k = 0; k < n; k++) {
    json_object(j);
    json_loc(j, s[k].loc);
    json_key(j, "count"), json_integer(j, s[k].count);
    json_key(j, "name"), json_string(j, s[k].name);
    json_object_end(j);
  }
  json_array_end(j);
}

/* What one observation is, and what else it could be. */
static const ModelUnit *units_of(Ctx *c, const Problem *p, int *n) {
  const Model *m = p->model;
  if (!m->unit) return model_units(c, m, p->data, n);
  ModelUnit *one = NEW(&c->arena, ModelUnit);
  *one = (ModelUnit){.name = m->unit, .count = m->n_obs};
  *n = 1;
  return one;
}

static void json_units(Ctx *c, JsonWriter *j, const Problem *p) {
  int n;
  const ModelUnit *u = units_of(c, p, &n);
  json_key(j, "unit"), json_string(j, u[0].name);
  json_key(j, "units"), json_array(j);
  for (int k = 0; k < n; k++) {
    json_object(j);
    json_key(j, "name"), json_string(j, u[k].name);
    json_key(j, "count"), json_integer(j, (long long)u[k].count);
    json_object_end(j);
  }
  json_array_end(j);
}

/* Of two groups, those with an event and those without, nobody makes two observations. */
static void text_units(Ctx *c, const Problem *p, size_t width, Text *out) {
  int n, told = 0;
  const ModelUnit *u = units_of(c, p, &n);
  Text t = text_make(&c->arena);
  text_printf(&t, "  one observation is a %s", u[0].name);
  for (int k = 1; k < n; k++) {
    if (u[k].count <= 2) continue;
    if (told)
      text_puts(&t, ",");
    else
      text_printf(&t, "; %sunit could make it", c->option_prefix ? c->option_prefix : "");
    text_printf(&t, " %s (%zu)", u[k].name, u[k].count);
    told++;
  }
  if (told || p->model->unit) text_wrap(out, width, 4, t.s);
}

/* What is unusual about the observations, in words; NULL: nothing. */
static const char *observations_note(Ctx *c, const Model *m) {
  if (m->joint)
    return "the likelihood is one joint density of all the data: it does not factorise into "
           "observations, so the data can be predicted only as a whole, and no part of them can "
           "be held out; VI fits it, a predictive score needs observations";
  if (m->guessed)
    return arena_format(&c->arena,
                        "no density of data stands in the program by name; these statements depend "
                        "on data, and count as observations; %sobserve LINE names others",
                        c->option_prefix ? c->option_prefix : "");
  return NULL;
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

/* ---- exact integration ----------------------------------------------------------------------- */

/* Does it apply to the observations and to the prior? If not, why. */
typedef struct {
  const Reduction *observations, *prior;
  const char *why;
} Exactness;

static Exactness exactness(Ctx *c, const Model *m) {
  Exactness e = {.why = NULL};
  ModelRows all = model_rows(&c->arena, m, NULL, 0);
  e.observations = reduce_observations(&c->arena, m, &all, true, &e.why);
  if (e.observations) e.prior = reduce_prior(&c->arena, m, &e.why);
  return e;
}

static void json_exact(Ctx *c, JsonWriter *j, const Model *m) {
  Exactness e = exactness(c, m);
  json_key(j, "exact_integration"), json_object(j);
  json_key(j, "observations"), json_bool(j, e.observations != NULL);
  json_key(j, "prior"), json_bool(j, e.prior != NULL);
  if (e.why) json_key(j, "reason"), json_string(j, e.why);
  json_key(j, "how"), json_array(j);
  for (int k = 0; e.observations && k < e.observations->nblocks; k++)
    json_string(j, reduced_text(&e.observations->blocks[k]));
  json_array_end(j);
  json_object_end(j);
}

static void text_exact(Ctx *c, const Model *m, size_t width, Text *out) {
  Exactness e = exactness(c, m);
  if (!e.observations) {
    text_wrap(out, width, 2,
              arena_format(&c->arena, "exact integration: not available, because %s", e.why));
    return;
  }
  text_wrap(out, width, 2, "exact integration, for normal q and mixtures of normals:");
  const char *last = NULL;
  for (int k = 0; k < e.observations->nblocks; k++) {
    const char *how = reduced_text(&e.observations->blocks[k]);
    bool again = last && !strcmp(last, how) && same_place(m->blocks[k].loc, m->blocks[k - 1].loc);
    if (!again)
      text_wrap(out, width, 4,
                arena_format(&c->arena, "  line %u: %s", m->blocks[k].loc.line, how));
    last = how;
  }
  if (!e.prior)
    text_wrap(out, width, 4,
              arena_format(&c->arena, "  but only with lambda 0, because %s", e.why));
}

/* ---- both forms ------------------------------------------------------------------------------ */

static void json_errors(Ctx *c, JsonWriter *j) {
  json_key(j, "errors"), json_array(j);
  for (size_t k = 0; k < c->nmessages; k++) {
    const Message *e = &c->messages[k];
    if (e->kind != MSG_ERROR) continue;
    json_object(j);
    if (e->loc.source) json_key(j, "file"), json_string(j, e->loc.source->name);
    json_loc(j, e->loc);
    json_key(j, "message"), json_string(j, e->text);
    json_object_end(j);
  }
  json_array_end(j);
}

static void json_calls(JsonWriter *j, const Model *m) {
  json_key(j, "functions_by_draw");
  json_array(j);
  for (size_t k = 0; k < m->ncalls; k++) json_string(j, m->calls[k].name);
  json_array_end(j);
}

static void json_form(Ctx *c, const Program *p, const Problem *problem, Text *out) {
  const Model *m = problem ? problem->model : NULL;
  JsonWriter j = json_writer(out, true);
  json_object(&j);
  json_key(&j, "ok"), json_bool(&j, c->nerrors == 0);
  json_errors(c, &j);
  if (m) {
    json_key(&j, "dim"), json_integer(&j, (long long)m->dim);
    json_key(&j, "n_obs"), json_integer(&j, (long long)m->n_obs);
    json_units(c, &j, problem);
    json_key(&j, "joint"), json_bool(&j, m->joint);
    json_key(&j, "by_draw"), json_bool(&j, m->by_draw != NULL);
    json_calls(&j, m);
    if (observations_note(c, m)) json_key(&j, "note"), json_string(&j, observations_note(c, m));
  }
  json_parameters(c, &j, p, m);
  json_observations(c, &j, m);
  json_loops(&j, m);
  if (m && m->n_obs) json_exact(c, &j, m);
  json_object_end(&j);
  text_puts(out, "\n");
}

static void text_loops(Ctx *c, const Model *m, size_t width, Text *out) {
  if (m->nloops) text_puts(out, "loops:\n");
  for (size_t k = 0; k < m->nloops; k++) {
    const LoopInfo *l = &m->loops[k];
    text_wrap(out, width, 4,
              arena_format(&c->arena, "  line %u: %ld iterations, %s%s", l->loc.line, l->iterations,
                           l->lifted ? "vectorized" : "one by one, because ",
                           l->lifted ? "" : l->why));
  }
}

static void text_observations(Ctx *c, const Problem *p, size_t width, Text *out) {
  const Model *m = p->model;
  int n;
  const Statement *s = statements_of(c, m, &n);
  const char *note = observations_note(c, m);
  text_wrap(out, width, 2,
            arena_format(&c->arena, "%zu unconstrained parameter%s; %zu observation%s:", m->dim,
                         m->dim == 1 ? "" : "s", m->n_obs, m->n_obs == 1 ? "" : "s"));
  for (int k = 0; k < n; k++)
    text_printf(out, "  line %u: %lld by %s\n", s[k].loc.line, s[k].count, s[k].name);
  text_units(c, p, width, out);
  if (note) text_wrap(out, width, 4, arena_format(&c->arena, "  %s", note));
}

static void text_by_draw(Ctx *c, const Model *m, size_t width, Text *out) {
  if (!m->by_draw) return;
  const char *place =
      m->by_draw_loc.source ? arena_format(&c->arena, " (line %u)", m->by_draw_loc.line) : "";
  text_wrap(out, width, 2,
            arena_format(&c->arena,
                         "evaluated draw by draw, which is slower, because the course of the "
                         "program depends on its parameters%s: %s",
                         place, m->by_draw));
}

static void text_calls(Ctx *c, const Model *m, size_t width, Text *out) {
  for (size_t k = 0; k < m->ncalls; k++) {
    const CallInfo *i = &m->calls[k];
    text_wrap(out, width, 2,
              arena_format(&c->arena,
                           "line %u: %s is evaluated draw by draw, which is slower, because its "
                           "course depends on its arguments (line %u): %s",
                           i->loc.line, i->name, i->where.line, i->why));
  }
}

static void text_form(Ctx *c, const Program *p, const Problem *problem, size_t width, Text *out) {
  const Model *m = problem ? problem->model : NULL;
  const Stmt *block = p->blocks[BLOCK_PARAMETERS];
  text_printf(out, "%s: no errors\nparameters:\n", p->source->name);
  for (int k = 0; block && k < block->nbody; k++)
    for (int i = 0; i < block->body[k]->ndecls; i++)
      text_printf(out, "  %-20s %s\n", block->body[k]->decls[i]->name,
                  type_text(c, block->body[k]->decls[i]));
  if (!m) return;
  text_observations(c, problem, width, out);
  text_by_draw(c, m, width, out);
  text_calls(c, m, width, out);
  text_loops(c, m, width, out);
  text_exact(c, m, width, out);
}

/* ---- single stages --------------------------------------------------------------------------- */

static Status dump_text(Ctx *c, const ProblemSource *s, const Options *o, Text *out) {
  if (o->dump == DUMP_TOKENS) {
    const Source *source = source_read(c, s->program, "program");
    stan_print_tokens(c, out, s->program, source->text, source->length);
  } else {
    StanOptions so = problem_stan_options(o);
    Program *p = stan_parse(c, s->program, &so);
    if (o->dump == DUMP_TYPED && !c->nerrors) stan_check(c, p);
    if (!c->nerrors) stan_print_tree(out, p, o->dump == DUMP_TYPED);
  }
  return c->nerrors ? PVI_PROGRAM : PVI_OK;
}

static void dump_model(Ctx *c, const Model *m, int stage, Text *out) {
  if (stage == DUMP_GRAPH) {
    ir_print(out, m->graph);
    text_printf(out, "prior %%%d, Jacobian %%%d\n", m->prior, m->jacobian);
    for (int k = 0; k < m->nblocks; k++)
      text_printf(out, "observations of line %u: %%%d\n", m->blocks[k].loc.line, m->blocks[k].root);
  } else {
    ModelRows all = model_rows(&c->arena, m, NULL, 0);
    vm_print(out, model_tape(&c->arena, m, &all, WANT_LL));
  }
}

/* ---- the report ------------------------------------------------------------------------------ */

/* The stages in turn; where one fails, what was made before is kept. */
typedef struct {
  const ProblemSource *source;
  const Options *o;
  const Program *program;
  const Problem *problem;
} Loading;

static void run_stages(Ctx *c, Loading *s) {
  bool data = s->source->data || s->o->set.count;
  if (!data) {
    s->program = problem_program(c, s->source, s->o);
    return;
  }
  const Problem *p = problem_load(c, s->source, s->o);
  s->program = p->program;
  s->problem = p;
  if (!p->model->n_obs && s->o->dump < 0) problem_no_observations(c, p);
}

static Status run_trapped(Ctx *c, Loading *s) {
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

Status report_program(Ctx *c, const ProblemSource *source, const Options *o, Text *out) {
  if (o->dump >= 0 && o->dump <= DUMP_TYPED) return dump_text(c, source, o, out);
  Loading *s = NEW(&c->arena, Loading);
  *s = (Loading){.source = source, .o = o};
  Status status = run_trapped(c, s);
  if (o->dump >= 0 && status == PVI_OK && !s->problem)
    ctx_fail(c, PVI_USAGE, NOWHERE, OPTION("dump") " graph and tape need data");
  if (o->json) {
    json_form(c, s->program, s->problem, out);
  } else if (status == PVI_OK && o->dump >= 0) {
    dump_model(c, s->problem->model, o->dump, out);
  } else if (status == PVI_OK) {
    text_form(c, s->program, s->problem, report_width(o), out);
  }
  return status;
}
