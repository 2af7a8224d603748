/* progress.c: a line of progress on a terminal. Fixed buffers only: it is called from inside
 * iterations. */
#include "report/table.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { LINE = 512 };

static size_t terminal_columns(void) {
  struct winsize w;
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0) return w.ws_col;
  return 80;
}

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

size_t progress_line(char *out, size_t size, size_t columns, const char *label, size_t done,
                     size_t total, double seconds, const char *detail) {
  char percent[32] = "", left[48] = "", clock[32];
  const char *gap = detail[0] ? "  " : "";
  if (total)
    snprintf(percent, sizeof percent, "  %3.0f%%",
             100.0 * (double)(done < total ? done : total) / (double)total);
  if (total && done && done < total) {
    format_time(clock, sizeof clock, seconds * (double)(total - done) / (double)done);
    snprintf(left, sizeof left, "  %s left", clock);
  } else {
    format_time(clock, sizeof clock, seconds);
    snprintf(left, sizeof left, "  %s", clock);
  }
  snprintf(out, size, "%s%s%s%s%s", label, percent, gap, detail, left);
  return cut(out, columns);
}

Progress progress_make(const char *label, size_t total) {
  return (Progress){.on = isatty(STDERR_FILENO) != 0,
                    .label = label,
                    .total = total,
                    .start = base_seconds(),
                    .last = -1};
}

void progress_update(Progress *p, size_t done, const char *fmt, ...) {
  double now = base_seconds();
  if (!p->on || (p->last >= 0 && now - p->last < 0.1)) return;
  p->last = now;
  char detail[LINE / 2], line[LINE];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(detail, sizeof detail, fmt, ap);
  va_end(ap);
  progress_line(line, sizeof line, terminal_columns() - 1, p->label, done, p->total, now - p->start,
                detail);
  fprintf(stderr, "\r%s\033[K", line);
  fflush(stderr);
  p->width = strlen(line);
}

void progress_end(Progress *p) {
  if (p->on && p->width) {
    fputs("\r\033[K", stderr);
    fflush(stderr);
  }
  p->width = 0;
}
