/* cmdstan_stanc.c: stanc as CmdStan's tools call it: it checks a program, describes its variables
 * as JSON (--info), indents it (--auto-format), or makes a model executable of it (--executable).
 *
 * A model executable is a script that calls pvi with its own name, followed by the program's text
 * with all it includes: it needs the program's file no longer, and may be copied. Nothing is
 * translated to C++; --o writes a file that says so, because some callers read it.
 */
#include "run/cmdstan_run.h"

#include "data/json.h"

#include <string.h>
#include <sys/stat.h>

typedef struct {
  Ctx *c;
  const Console *out;
  const char *file, *name, *shown, *cpp, *executable, *pvi;
  bool info, format, version, threads, unchecked, pedantic;
  bool includes;     /* included files in their places when it is formatted */
  bool undefined;    /* functions without a body are taken where nothing is run */
  const char **dirs; /* of includes */
  size_t ndirs, cap_dirs;
  const char **included;
  size_t nincluded, cap_included;
} Stanc;

/* ---- options --------------------------------------------------------------------------------- */

/* --name=value or --name value: the value, or NULL where it is another option. */
static const char *value_of(const char *name, int argc, const char *const *argv, int *k) {
  const char *word = argv[*k] + strspn(argv[*k], "-");
  size_t n = strlen(name);
  if (strncmp(word, name, n) != 0 || (word[n] && word[n] != '=')) return NULL;
  if (word[n]) return word + n + 1;
  return *k + 1 < argc ? argv[++*k] : "";
}

static bool is_flag(const char *arg, const char *name) {
  return arg[0] == '-' && !strcmp(arg + strspn(arg, "-"), name);
}

static void add_dirs(Stanc *s, const char *list) {
  for (size_t n; *list; list += n + (list[n] == ',')) {
    n = strcspn(list, ",");
    if (n) PUSH(&s->c->arena, s->dirs, s->ndirs, s->cap_dirs, arena_text(&s->c->arena, list, n));
  }
}

/* Options without a meaning here: how C++ would be made, and warnings that every check gives. */
static bool is_ignored(const char *arg) {
  static const char *const names[] = {
      "O",
      "O0",
      "O1",
      "Oexperimental",
      "use-opencl",
      "print-cpp",
      "warn-uninitialized",
      "standalone-functions",
      "tag-version",
      "debug-lex",
      "debug-parse",
      "debug-ast",
      "debug-mir",
  };
  for (size_t k = 0; k < sizeof names / sizeof *names; k++)
    if (is_flag(arg, names[k])) return true;
  return false;
}

static void read_option(Stanc *s, int argc, const char *const *argv, int *k) {
  const struct {
    const char *name, **to;
  } texts[] = {{"o", &s->cpp},
               {"name", &s->name},
               {"filename-in-msg", &s->shown},
               {"executable", &s->executable},
               {"pvi", &s->pvi}};
  const char *arg = argv[*k], *value;
  if (arg[0] != '-') {
    s->file = arg;
    return;
  }
  for (size_t t = 0; t < sizeof texts / sizeof *texts; t++)
    if ((value = value_of(texts[t].name, argc, argv, k))) {
      *texts[t].to = value;
      return;
    }
  if ((value = value_of("include-paths", argc, argv, k)) ||
      (value = value_of("include_paths", argc, argv, k)))
    add_dirs(s, value);
  else if (is_flag(arg, "info"))
    s->info = true;
  else if (is_flag(arg, "version"))
    s->version = true;
  else if (is_flag(arg, "threads"))
    s->threads = true;
  else if (is_flag(arg, "no-range-checks"))
    s->unchecked = true;
  else if (is_flag(arg, "warn-pedantic"))
    s->pedantic = true;
  else if (is_flag(arg, "allow-undefined"))
    s->undefined = true;
  else if (is_flag(arg, "auto-format") || is_flag(arg, "print-canonical"))
    s->format = true;
  else if ((value = value_of("canonicalize", argc, argv, k)))
    s->includes |= strstr(value, "includes") != NULL;
  else if (!is_ignored(arg) && !value_of("max-line-length", argc, argv, k))
    ctx_fail(s->c, PVI_USAGE, NOWHERE, "stanc: unknown option '%s'", arg);
}

/* ---- the program ----------------------------------------------------------------------------- */

static const char *folder_of(Arena *a, const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? arena_text(a, path, (size_t)(slash - path) + 1) : "";
}

static Program *check_program(Stanc *s, const char *text, size_t n) {
  StanOptions o = {.include_dirs = s->dirs,
                   .ninclude_dirs = (int)s->ndirs,
                   .old_syntax = true,
                   .undefined = s->undefined && !s->executable};
  const char *name = s->shown ? s->shown : s->file;
  Program *p = stan_parse_text(s->c, name, text, n, &o);
  if (s->c->nerrors) ctx_fail(s->c, PVI_PROGRAM, NOWHERE, "Syntax error in '%s'", name);
  stan_check(s->c, p);
  if (s->c->nerrors) ctx_fail(s->c, PVI_PROGRAM, NOWHERE, "Semantic error in '%s'", name);
  return p;
}

/* The file that an #include names, in the folders where the parser found it. */
static char *read_included(Stanc *s, const char *folder, const char *name, const char **path) {
  const char *why;
  size_t length;
  char *text = NULL;
  name += strspn(name, "/");
  *path = arena_format(&s->c->arena, "%s%s", folder, name);
  text = text_read_file(&s->c->arena, *path, &length, &why);
  for (size_t k = 0; !text && k < s->ndirs; k++) {
    *path = arena_format(&s->c->arena, "%s/%s", s->dirs[k], name);
    text = text_read_file(&s->c->arena, *path, &length, &why);
  }
  return text;
}

/* The text with included files in their places; which they are is noted. */
static void expand(Stanc *s, const char *text, const char *folder, Text *out) {
  enum { MOST_INCLUDED = 1000 };
  for (size_t n; *text; text += n) {
    n = strcspn(text, "\n");
    const char *at = text + strspn(text, " \t"), *path;
    bool include = !strncmp(at, "#include", 8) && strchr(" \t\"<", at[8]) && at[8];
    at += include ? 8 + strspn(at + 8, " \t\"<") : 0;
    char *inner =
        include && s->nincluded < MOST_INCLUDED
            ? read_included(s, folder, arena_text(&s->c->arena, at, strcspn(at, " \t\">\r\n")),
                            &path)
            : NULL;
    if (inner) {
      PUSH(&s->c->arena, s->included, s->nincluded, s->cap_included, path);
      expand(s, inner, folder_of(&s->c->arena, path), out);
    } else {
      text_add(out, text, n);
    }
    text_puts(out, "\n");
    n += text[n] == '\n';
  }
}

/* ---- --info ---------------------------------------------------------------------------------- */

static const char *element_of(TypeKind k) {
  switch (k) {
  case TY_INT: return "int";
  case TY_COMPLEX:
  case TY_COMPLEX_VECTOR:
  case TY_COMPLEX_ROW_VECTOR:
  case TY_COMPLEX_MATRIX: return "complex";
  default: return "real";
  }
}

static int dims_of(const Type *t) {
  bool matrix = t->kind == TY_MATRIX || t->kind == TY_COMPLEX_MATRIX;
  bool vector = t->kind == TY_VECTOR || t->kind == TY_ROW_VECTOR || t->kind == TY_COMPLEX_VECTOR ||
                t->kind == TY_COMPLEX_ROW_VECTOR;
  return t->array_dims + (matrix ? 2 : vector);
}

static void put_type(JsonWriter *w, const Type *t) {
  json_object(w);
  json_key(w, "type");
  if (t->kind == TY_TUPLE) {
    json_array(w);
    for (int k = 0; k < t->nitems; k++) put_type(w, t->items[k]);
    json_array_end(w);
  } else {
    json_string(w, element_of(t->kind));
  }
  json_key(w, "dimensions");
  json_integer(w, dims_of(t));
  json_object_end(w);
}

static void put_block(JsonWriter *w, const char *key, const Stmt *block) {
  json_key(w, key);
  json_object(w);
  for (int k = 0; block && k < block->nbody; k++)
    for (int j = 0; block->body[k]->kind == ST_DECL && j < block->body[k]->ndecls; j++) {
      json_key(w, block->body[k]->decls[j]->name);
      put_type(w, block->body[k]->decls[j]->type);
    }
  json_object_end(w);
}

static void say_info(const Stanc *s, const Program *p) {
  Text t = text_make(&s->c->arena);
  JsonWriter w = json_writer(&t, true);
  json_object(&w);
  put_block(&w, "inputs", p->blocks[BLOCK_DATA]);
  put_block(&w, "parameters", p->blocks[BLOCK_PARAMETERS]);
  put_block(&w, "transformed parameters", p->blocks[BLOCK_TRANSFORMED_PARAMETERS]);
  put_block(&w, "generated quantities", p->blocks[BLOCK_GENERATED]);
  json_key(&w, "functions");
  json_flat_array(&w);
  for (int k = 0; k < p->nfunctions; k++) json_string(&w, p->functions[k]->name);
  json_array_end(&w);
  json_key(&w, "distributions");
  json_flat_array(&w);
  json_array_end(&w);
  json_key(&w, "included_files");
  json_flat_array(&w);
  for (size_t k = 0; k < s->nincluded; k++) json_string(&w, s->included[k]);
  json_array_end(&w);
  json_object_end(&w);
  text_puts(&t, "\n");
  s->out->print(s->out->self, t.s);
}

/* ---- --auto-format --------------------------------------------------------------------------- */

/* Where the formatter stands in the text. */
typedef struct {
  int braces, brackets;
  bool comment; /* of several lines */
} Nesting;

static void follow_line(Nesting *x, const char *line, size_t n) {
  for (size_t k = 0; k < n; k++) {
    const char *two = line + k;
    bool pair = k + 1 < n;
    if (x->comment) {
      if (pair && !strncmp(two, "*/", 2)) x->comment = false, k++;
    } else if (pair && !strncmp(two, "//", 2)) {
      return;
    } else if (pair && !strncmp(two, "/*", 2)) {
      x->comment = true, k++;
    } else if (line[k] == '"') {
      for (k++; k < n && line[k] != '"'; k++) {
      }
    } else {
      x->braces += (line[k] == '{') - (line[k] == '}');
      x->brackets += (line[k] == '(' || line[k] == '[') - (line[k] == ')' || line[k] == ']');
    }
  }
}

/* Two spaces for each open brace, four more inside of open brackets; no blanks at the ends of
 * lines, and no more than one empty line in a row. What is inside of a comment stays as it is. */
static void format_program(const Stanc *s, const char *text) {
  Text out = text_make(&s->c->arena);
  Nesting x = {0};
  int empty = 0;
  for (size_t n; *text; text += n + (text[n] == '\n')) {
    n = strcspn(text, "\n");
    size_t lead = x.comment ? 0 : strspn(text, " \t"), length = n;
    lead = lead > n ? n : lead;
    while (length > lead && strchr(" \t\r", text[length - 1])) length--;
    empty = length == lead ? empty + 1 : 0;
    if (empty > 1) continue;
    int depth = x.braces - (text[lead] == '}'), more = x.brackets > 0 ? 4 : 0;
    if (!empty && !x.comment) text_printf(&out, "%*s", 2 * (depth > 0 ? depth : 0) + more, "");
    text_add(&out, text + lead, length - lead);
    text_puts(&out, "\n");
    follow_line(&x, text + lead, length - lead);
  }
  s->out->print(s->out->self, out.s ? out.s : "");
}

/* ---- what is written ------------------------------------------------------------------------- */

static void write_file(Ctx *c, const char *path, const char *text, size_t n) {
  OutFile *f = file_begin(c, path);
  file_put(f, text, n);
  file_commit(f);
}

static void write_executable(const Stanc *s, const Text *program) {
  Text t = text_make(&s->c->arena);
  const char *name =
      s->name ? s->name
              : arena_format(&s->c->arena, "%s_model",
                             problem_base_name(&s->c->arena, s->shown ? s->shown : s->file));
  text_puts(&t, "#!/bin/sh\n# A Stan program as an executable, made by pvi cmdstan.\nexec '");
  for (const char *p = s->pvi ? s->pvi : "pvi"; *p; p++) {
    if (*p == '\'')
      text_puts(&t, "'\\''");
    else
      text_add(&t, p, 1);
  }
  text_printf(&t, "' cmdstan model \"$0\" \"$@\"\n#pvi model %s%s%s\n", name,
              s->threads ? " threads" : "", s->unchecked ? " unchecked" : "");
  text_add(&t, program->s ? program->s : "", program->n);
  write_file(s->c, s->executable, t.s, t.n);
  if (chmod(s->executable, 0777))
    ctx_fail(s->c, PVI_FAILURE, NOWHERE, "cannot make '%s' executable", s->executable);
}

static void run_stanc(Stanc *s) {
  const char *why;
  size_t n;
  const char *text = text_read_file(&s->c->arena, s->file, &n, &why);
  if (!text) ctx_fail(s->c, PVI_PROGRAM, NOWHERE, "cannot read '%s': %s", s->file, why);
  const char *folder = folder_of(&s->c->arena, s->file);
  if (s->shown) add_dirs(s, *folder ? folder : ".");
  const Program *p = check_program(s, text, n);
  Text whole = text_make(&s->c->arena);
  expand(s, text, folder, &whole);
  if (s->info) say_info(s, p);
  if (s->pedantic) stan_pedantic(s->c, p);
  if (s->format) format_program(s, s->includes ? whole.s : text);
  static const char cpp[] =
      "// Code generated by stanc: none. pvi runs Stan programs as they are.\n";
  if (s->cpp) write_file(s->c, s->cpp, cpp, sizeof cpp - 1);
  if (s->executable) write_executable(s, &whole);
}

void stanc_call(Ctx *c, const Console *out, int argc, const char *const *argv) {
  Stanc s = {.c = c, .out = out};
  for (int k = 0; k < argc; k++) read_option(&s, argc, argv, &k);
  if (s.version) {
    console_say(out, c,
                "stanc3 v" CMDSTAN_MAJOR "." CMDSTAN_MINOR "." CMDSTAN_PATCH " (pvi " PVI_VERSION
                ")\n");
    return;
  }
  if (!s.file) ctx_fail(c, PVI_USAGE, NOWHERE, "stanc: no program was given");
  run_stanc(&s);
}
