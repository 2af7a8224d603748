/* manual.c: the tables of commands and options as a manual page, as Markdown, and as completions.
 */
#include "cli/cli.h"

#include <string.h>

/* ---- what all forms share -------------------------------------------------------------------- */

typedef void EachOption(FILE *to, const pvi_option *o);

static void each_option(FILE *to, const Command *c, EachOption *put) {
  for (size_t k = 0; k < pvi_option_count(); k++) {
    pvi_option o = pvi_option_at(k);
    if (args_takes(&o, c)) put(to, &o);
  }
}

static bool is_many(const pvi_option *o) {
  return !strcmp(o->kind, "names") || !strcmp(o->kind, "list");
}

static const struct {
  int code;
  const char *meaning;
} exit_codes[] = {{0, "ok"},
                  {1, "failure: memory, files, numbers"},
                  {2, "usage: an option or argument is wrong"},
                  {3, "data: a data, split, points or run file is wrong"},
                  {4, "program: the Stan program is wrong"},
                  {5, "the fit did not converge"},
                  {130, "interrupted by Ctrl-C; the run folder can be resumed"},
                  {143, "interrupted by SIGTERM; the run folder can be resumed"}};
enum { NCODES = sizeof exit_codes / sizeof *exit_codes };

/* ---- manual page ----------------------------------------------------------------------------- */

/* roff's own characters are escaped: dashes are to be copied as dashes. */
static void put_roff(FILE *to, const char *s) {
  for (const char *p = s; *p; p++) {
    if (*p == '\\')
      fputs("\\e", to);
    else if (*p == '-')
      fputs("\\-", to);
    else if ((p == s || p[-1] == '\n') && (*p == '.' || *p == '\''))
      fprintf(to, "\\&%c", *p);
    else
      fputc(*p, to);
  }
}

static void roff_option(FILE *to, const pvi_option *o) {
  fputs(".TP\n\\fB\\-\\-", to);
  put_roff(to, o->name);
  fputs("\\fR", to);
  if (o->value) {
    fputs(" \\fI", to);
    put_roff(to, o->value);
    fputs("\\fR", to);
  }
  fputc('\n', to);
  put_roff(to, o->help);
  if (is_many(o)) fputs("; may be repeated", to);
  if (*o->byself) {
    fputs(" (default ", to);
    put_roff(to, o->byself);
    fputc(')', to);
  }
  fputc('\n', to);
}

static void roff_command(FILE *to, const Command *c) {
  fprintf(to, ".SS \"pvi %s ", c->name);
  put_roff(to, c->usage);
  fputs("\"\n", to);
  put_roff(to, c->description);
  fputc('\n', to);
  each_option(to, c, roff_option);
  fputs(".PP\nExamples:\n.nf\n", to);
  put_roff(to, c->examples);
  fputs(".fi\n", to);
}

void manual_page(FILE *to) {
  fprintf(to,
          ".TH PVI 1 \"\" \"pvi %s\" \"User commands\"\n.SH NAME\npvi \\- predictive variational "
          "inference "
          "for Stan programs\n.SH SYNOPSIS\n",
          pvi_version());
  for (size_t k = 0; k < ncommands; k++) {
    fprintf(to, "\\fBpvi %s\\fR ", commands[k].name);
    put_roff(to, commands[k].usage);
    fputs(k + 1 < ncommands ? "\n.br\n" : "\n", to);
  }
  fputs(".SH DESCRIPTION\nFinds the distribution of a Stan program's parameters whose predictions "
        "are best "
        "under a proper scoring rule, next to ordinary variational inference.\n.SH COMMANDS\n",
        to);
  for (size_t k = 0; k < ncommands; k++) roff_command(to, &commands[k]);
  fputs(".SH EXIT STATUS\n", to);
  for (int k = 0; k < NCODES; k++)
    fprintf(to, ".TP\n%d\n%s\n", exit_codes[k].code, exit_codes[k].meaning);
}

/* ---- Markdown -------------------------------------------------------------------------------- */

static void markdown_cell(FILE *to, const char *s) {
  for (; *s; s++) {
    if (*s == '|') fputc('\\', to);
    fputc(*s, to);
  }
}

static void markdown_option(FILE *to, const pvi_option *o) {
  fprintf(to, "| `--%s", o->name);
  if (o->value) {
    fputc(' ', to);
    markdown_cell(to, o->value);
  }
  fprintf(to, "` | %s%s%s | ", *o->byself ? "`" : "", o->byself, *o->byself ? "`" : "");
  markdown_cell(to, o->help);
  fprintf(to, "%s |\n", is_many(o) ? "; may be repeated" : "");
}

static bool has_options(const Command *c) {
  for (size_t k = 0; k < pvi_option_count(); k++) {
    pvi_option o = pvi_option_at(k);
    if (args_takes(&o, c)) return true;
  }
  return false;
}

void manual_markdown(FILE *to) {
  fputs("# Commands and options\n\nMade by `pvi manual markdown` from the tables "
        "`src/cli/commands.def` and "
        "`src/run/options.def`; `make docs` writes it anew.\nThe same names are those of `pvi_set` "
        "in "
        "`pvi.h`.\n",
        to);
  for (size_t k = 0; k < ncommands; k++) {
    const Command *c = &commands[k];
    fprintf(to, "\n## pvi %s\n\n    pvi %s %s\n\n%s\n", c->name, c->name, c->usage, c->description);
    if (has_options(c)) fputs("\n| option | default | meaning |\n|---|---|---|\n", to);
    each_option(to, c, markdown_option);
    fputc('\n', to);
    for (const char *line = c->examples; *line; line += strcspn(line, "\n") + 1)
      fprintf(to, "    %.*s\n", (int)strcspn(line, "\n"), line);
  }
  fputs("\n## Exit codes\n\n| code | meaning |\n|---|---|\n", to);
  for (int k = 0; k < NCODES; k++)
    fprintf(to, "| %d | %s |\n", exit_codes[k].code, exit_codes[k].meaning);
}

/* ---- completions ----------------------------------------------------------------------------- */

static void bash_option(FILE *to, const pvi_option *o) { fprintf(to, " --%s", o->name); }

static void put_words(FILE *to, const char *words) {
  for (; *words; words++) fputc(*words == '|' ? ' ' : *words, to);
}

static void bash_choices(FILE *to) {
  for (size_t k = 0; k < pvi_option_count(); k++) {
    pvi_option o = pvi_option_at(k);
    if (strcmp(o.kind, "choice") != 0) continue;
    fprintf(to, "    --%s) COMPREPLY=($(compgen -W \"", o.name);
    put_words(to, o.value);
    fputs("\" -- \"$word\")); return ;;\n", to);
  }
}

void completion_bash(FILE *to) {
  fputs("# bash completion of pvi; load it with: source <(pvi completion bash)\n_pvi() {\n"
        "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} options=\n"
        "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n    COMPREPLY=($(compgen -W \"",
        to);
  for (size_t k = 0; k < ncommands; k++) fprintf(to, "%s%s", k ? " " : "", commands[k].name);
  fputs(" --help --version\" -- \"$word\"))\n    return\n  fi\n  case $before in\n", to);
  bash_choices(to);
  fputs("  esac\n  case ${COMP_WORDS[1]} in\n", to);
  for (size_t k = 0; k < ncommands; k++) {
    fprintf(to, "    %s) options=\"--help", commands[k].name);
    each_option(to, &commands[k], bash_option);
    fputs("\" ;;\n", to);
  }
  fputs("  esac\n  case $word in\n    -*) COMPREPLY=($(compgen -W \"$options\" -- \"$word\")) ;;\n"
        "    *) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n  esac\n}\ncomplete -o filenames -F "
        "_pvi pvi\n",
        to);
}

/* zsh takes what stands in brackets as the explanation; brackets and quotes in it are escaped. */
static void zsh_text(FILE *to, const char *s) {
  for (; *s; s++) {
    if (*s == '\'')
      fputs("'\\''", to);
    else if (strchr("[]:\\", *s))
      fprintf(to, "\\%c", *s);
    else
      fputc(*s, to);
  }
}

static void zsh_option(FILE *to, const pvi_option *o) {
  bool flag = !strcmp(o->kind, "flag"), choice = !strcmp(o->kind, "choice");
  fprintf(to, "        '%s--%s%s[", is_many(o) ? "*" : "", o->name, flag ? "" : "=");
  zsh_text(to, o->help);
  fputc(']', to);
  if (choice) {
    fprintf(to, ":%s:(", o->name);
    put_words(to, o->value);
    fputc(')', to);
  } else if (!flag) {
    fprintf(to, ":%s:%s", o->name, !strcmp(o->kind, "text") ? "_files" : " ");
  }
  fputs("' \\\n", to);
}

void completion_zsh(FILE *to) {
  fputs("#compdef pvi\n# zsh completion of pvi; write it to a file _pvi in a folder of your "
        "fpath\n_pvi() {\n"
        "  local -a commands\n  commands=(\n",
        to);
  for (size_t k = 0; k < ncommands; k++) {
    fprintf(to, "    '%s:", commands[k].name);
    zsh_text(to, commands[k].summary);
    fputs("'\n", to);
  }
  fputs("  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n    return\n  fi\n"
        "  case $words[2] in\n",
        to);
  for (size_t k = 0; k < ncommands; k++) {
    fprintf(to, "    %s)\n      _arguments \\\n", commands[k].name);
    each_option(to, &commands[k], zsh_option);
    fputs("        '*:file:_files' ;;\n", to);
  }
  fputs("  esac\n}\n_pvi \"$@\"\n", to);
}
