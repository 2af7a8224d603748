/* hints.c: what to write instead of a word that another program has for it (hints.def). */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

static const struct {
  const char *word, *write;
} hints[] = {
#define HINT(word, write) {word, write},
#include "cli/hints.def"
#undef HINT
};

/* Up to `n` bytes of the word, underscores being dashes. */
static bool is_word(const char *word, size_t n, const char *of) {
  if (strlen(of) != n) return false;
  for (size_t k = 0; k < n; k++)
    if (word[k] != of[k] && !(word[k] == '_' && of[k] == '-')) return false;
  return true;
}

const char *hint_of(const char *word) {
  size_t n = strcspn(word, "=");
  for (size_t k = 0; k < sizeof hints / sizeof *hints; k++)
    if (is_word(word, n, hints[k].word)) return hints[k].write;
  return NULL;
}
