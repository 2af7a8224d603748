/* watch.c: while a fit runs: one line of progress, and Ctrl-C that ends it in order.
 *
 * The line is on stderr, rewritten in place, at most ten times a second, and only on a terminal.
 * The first signal asks the fit to stop at its next evaluation; another one, a second later or
 * more, ends the program at once. One that comes sooner is the same once more: timeout(1) and make
 * send theirs to the process and to its group.
 */
#include "cli/cli.h"

#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

/* A signal handler gets no argument, so what it needs is kept here. */
static pvi_context *volatile watched;
static volatile sig_atomic_t came;
static volatile time_t came_at;

static struct {
  const char *label;
  double last;
  bool shown;
} line;

static void on_signal(int signal_number) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (!came) {
    came = signal_number;
    came_at = now.tv_sec;
    pvi_cancel(watched);
  } else if (now.tv_sec > came_at + 1) {
    signal(signal_number, SIG_DFL);
    raise(signal_number);
  }
}

static void handle(int signal_number) {
  struct sigaction a = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  sigemptyset(&a.sa_mask);
  sigaction(signal_number, &a, NULL);
}

static size_t columns(void) {
  struct winsize w;
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 1 ? w.ws_col - 1u : 79;
}

static int show(void *self, const pvi_progress *p) {
  (void)self;
  char text[512];
  double since = p->seconds - line.last; /* negative: another stage, with a clock of its own */
  if (line.shown && since >= 0 && since < 0.1) return 0;
  line.last = p->seconds;
  line.shown = true;
  pvi_progress_line(text, sizeof text, columns(), line.label, p);
  fprintf(stderr, "\r%s\033[K", text);
  fflush(stderr);
  return 0;
}

/* The last part of a path: what is left of the line is for what happens. */
static const char *short_label(const char *path) {
  const char *slash = path ? strrchr(path, '/') : NULL;
  return slash && slash[1] ? slash + 1 : path;
}

void watch_begin(Cli *cli, const char *label) {
  came = 0;
  watched = cli->c;
  line.label = short_label(label);
  line.shown = false;
  handle(SIGINT);
  handle(SIGTERM);
  if (!cli->quiet && isatty(STDERR_FILENO)) pvi_on_progress(cli->c, show, NULL);
}

int watch_end(Cli *cli) {
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  watched = NULL;
  pvi_on_progress(cli->c, NULL, NULL);
  if (line.shown) fputs("\r\033[K", stderr);
  return came ? 128 + came : 0;
}
