/* cli.h: the commands, and how they read their command lines. */
#ifndef PVI_CLI_H
#define PVI_CLI_H

#include "base/base.h"
#include "model/model.h"

typedef enum { OPT_FLAG, OPT_TEXT, OPT_INT, OPT_REAL, OPT_CHOICE, OPT_LIST } OptionKind;

/* An option is a row: its name, what it takes, where the value goes, what it means. */
typedef struct {
  const char *name; /* without the dashes */
  OptionKind kind;
  const char *metavar; /* TEXT, INT, REAL, LIST: what to call the value; CHOICE: the words,
                          separated by | */
  void *to;   /* bool *, const char **, long *, double *, int * (index of the word), OptionList * */
  double min; /* INT, REAL: the least value allowed */
  const char *help;
} Option;

typedef struct {
  const char *items[64];
  int count;
} OptionList;

typedef struct {
  const char *name;
  const char *usage;    /* what follows the name */
  const char *summary;  /* one line */
  const char *examples; /* lines */
} Command;

/* Reads argv after the command's name. Positional arguments go to places (at most max; NULL when
 * absent). On --help prints and returns false; a wrong command line ends with PVI_USAGE. */
bool cli_options(Ctx *c, const Command *cmd, const Option *options, int noptions, int argc,
                 char **argv, const char **places, int min, int max);

Program *cli_program(Ctx *c, const char *path,
                     const OptionList *include); /* parsed and checked; PVI_PROGRAM on errors */
Data *cli_data(Ctx *c, const char *path, const OptionList *sets); /* path NULL: only --set */
/* observe: the lines of --observe. The data's text is let go. */
const Model *cli_model(Ctx *c, const Program *p, Data *d, ModelOptions o,
                       const OptionList *observe);

Status cmd_check(Ctx *c, int argc, char **argv);
Status cmd_density(Ctx *c, int argc, char **argv);
Status cmd_fit(Ctx *c, int argc, char **argv);
Status cmd_compare(Ctx *c, int argc, char **argv);
Status cmd_bench(Ctx *c, int argc, char **argv);

#endif
