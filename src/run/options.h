/* options.h: Options, what a user asked for, by name; options.def is the one list of them.
 *
 * An Options is set word by word (options_set), as a command line or pvi_set gives them, and read
 * as plain fields: o->lambda, o->point.items. It remembers which options were given, and as which
 * text, so that a run can write down what it was asked and be asked the same again.
 */
#ifndef PVI_OPTIONS_H
#define PVI_OPTIONS_H

#include "base/base.h"

typedef enum {
  OPT_FLAG,
  OPT_WHOLE,
  OPT_REAL,
  OPT_TEXT,
  OPT_CHOICE,
  OPT_MIX,
  OPT_NAMES,
  OPT_LIST
} OptionKind;

/* A row of options.def. */
typedef struct {
  const char *name;
  OptionKind kind;
  const char *value;  /* what help calls it; of a CHOICE or MIX the words, separated by | */
  const char *byself; /* the default as text; "" where there is none */
  double least, most; /* of numbers */
  const char *group;
  const char *commands; /* separated by blanks */
  const char *help;
} OptionRow;

typedef struct {
  const char **items;
  size_t count, cap;
} OptionList;

/* One word of a MIX, and its weight. */
typedef struct {
  int word;
  double weight;
} OptionPart;

typedef struct {
  OptionPart *items;
  size_t count, cap;
} OptionParts;

#define USUAL_LAMBDA 0.01 /* where it is neither given nor chosen */

enum OptionId {
#define OPT(id, ...) OPTION_##id,
#include "run/options.def"
#undef OPT
  OPTION_COUNT
};

typedef struct {
  Arena *arena; /* of the texts */
  /* One field per option. A CHOICE is the number of its word, -1 where there is no default; of a
   * MIX of several words, the number of words there are. */
#define FIELD_FLAG bool
#define FIELD_WHOLE long
#define FIELD_REAL double
#define FIELD_TEXT const char *
#define FIELD_CHOICE int
#define FIELD_MIX int
#define FIELD_NAMES OptionList
#define FIELD_LIST OptionList
#define OPT(id, name, kind, ...) FIELD_##kind id;
#include "run/options.def"
#undef OPT
#undef FIELD_FLAG
#undef FIELD_WHOLE
#undef FIELD_REAL
#undef FIELD_TEXT
#undef FIELD_CHOICE
#undef FIELD_MIX
#undef FIELD_NAMES
#undef FIELD_LIST
  OptionList given[OPTION_COUNT];  /* the texts that were given, in their order */
  OptionParts parts[OPTION_COUNT]; /* of a MIX of several words; else none */
} Options;

const OptionRow *option_row(size_t k);
const char *option_range(Arena *a, const OptionRow *row); /* "at least 1, at most 1000"; "": any */
bool option_of_command(const OptionRow *row, const char *command);
size_t option_words(Arena *a, const OptionRow *row, const char ***words); /* of a CHOICE */

Options *options_make(Arena *a); /* all defaults */
/* One more value of the option; NULL takes back all that were given. A name or value that is wrong
 * ends with PVI_USAGE. */
void options_set(Ctx *c, Options *o, const char *name, const char *value);
/* Ends with what the option of another program is here, or with the nearest of these names. */
_Noreturn void options_unknown(Ctx *c, const char *name, const char *const *names, size_t count);
Options *options_copy(Arena *a, const Options *o);
bool options_is_given(const Options *o, enum OptionId id);
/* What contradicts itself whatever the program is: ends with PVI_USAGE. */
void options_check_fit(Ctx *c, const Options *o);

#endif
