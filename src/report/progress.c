/* progress.c: the line of progress as text. Fixed buffers only: it is called from inside
 * iterations. */
#include "report/table.h"

#include <string.h>

/* 65 s: "1:05"; 3700 s: "1:01:40". */
static void format_time(char *out, size_t size, double seconds) {
  long s = seconds < 0 ? 0 : seconds > 1e7 ? 10000000 : (long)(seconds + 0.5);
  if (s >= 3600)
    snprintf(out, size, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
  else
    snprintf(out, size, "%ld:%02ld", s / 60, s % 60);
}

/* Cuts a UTF-8 text to so many characters. */
static size_t cut(char *s, size_t columns) {
  size_t n = 0, k = 0;
  for (; s[k]; k++) {
    bool starts = ((unsigned char)s[k] & 0xC0) != 0x80;
    if (starts && n++ == columns) break;
  }
  s[k] = 0;
  return k;
}

size_t progress_line(char *out, size_t size, size_t columns, const ProgressState *p) {
  char percent[32] = "", left[48] = "", clock[32];
  size_t done = p->done, total = p->total;
  if (total)
    snprintf(percent, sizeof percent, "  %3.0f%%",
             100.0 * (double)(done < total ? done : total) / (double)total);
  bool eta = total && done && done < total;
  format_time(clock, sizeof clock,
              eta ? p->seconds * (double)(total - done) / (double)done : p->seconds);
  snprintf(left, sizeof left, eta ? "  %s left" : "  %s", clock);
  snprintf(out, size, "%s%s%s%s%s", p->label, percent, p->detail[0] ? "  " : "", p->detail, left);
  return cut(out, columns);
}
