/* cmdstan_args.h: CmdstanArgs, what CmdStan was asked for: read from a command line such as
 *
 *     id=2 random seed=7 data file=d.json output file=o.csv method=sample adapt delta=0.9
 *
 * or filled in by a run of ours, and written as CmdStan does at the head of its files. The rows are
 * in cmdstan_args.def.
 */
#ifndef PVI_CMDSTAN_ARGS_H
#define PVI_CMDSTAN_ARGS_H

#include "base/base.h"

/* The version whose command line, transforms and formats we follow. */
#define CMDSTAN_MAJOR "2"
#define CMDSTAN_MINOR "35"
#define CMDSTAN_PATCH "0"

typedef enum {
#define ARG(id, depth, name, kind, standard, least, most) ARG_##id,
#include "report/cmdstan_args.def"
#undef ARG
  ARG_COUNT
} CmdstanArg;

typedef struct {
  Arena *arena;
  const char *value[ARG_COUNT]; /* as text */
} CmdstanArgs;

CmdstanArgs *cmdstan_args(Arena *a); /* all defaults */
/* Reads a command line; ends with PVI_USAGE and CmdStan's words where it is wrong. */
void cmdstan_read(Ctx *c, CmdstanArgs *args, int argc, const char *const *argv);
void cmdstan_set(CmdstanArgs *args, CmdstanArg k, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
bool cmdstan_is(const CmdstanArgs *args, CmdstanArg k, const char *word);
double cmdstan_number(const CmdstanArgs *args, CmdstanArg k);
long cmdstan_whole(const CmdstanArgs *args, CmdstanArg k);
bool cmdstan_flag(const CmdstanArgs *args, CmdstanArg k);

/* Our own settings behind CmdStan's. */
typedef struct {
  const char *key, *value;
} ReportKey;

/* Who ran, and our own settings. */
typedef struct {
  const char *model, *start; /* start: date and time; NULL: left out */
  const ReportKey *keys;
  size_t nkeys;
} CmdstanTitle;

/* The settings, one a line behind `mark` ("# " or ""), or as JSON. title NULL: none. */
void cmdstan_print(Text *out, const CmdstanArgs *args, const CmdstanTitle *title, const char *mark);
void cmdstan_json(Text *out, const CmdstanArgs *args, const CmdstanTitle *title);
/* All arguments with their defaults, for people. */
void cmdstan_help(Text *out);

#endif
