/* watch.c: while a fit runs: one line of progress, and Ctrl-C that ends it in order.
 *
 * The line is on stderr, rewritten in place, at most ten times a second, and only on a terminal.
 * The first signal asks the fit to stop at its next evaluation; a second one ends the program at
 * once.
 */
#include "cli/cli.h"

#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* A signal handler gets no argument, so what it needs is kept here. */
static pvi_context *volatile watched;
static volatile sig_atomic_t came;

static struct {
  const char *label;
  double last;
  bool shown;
} line;

static void on_signal(int signal_number) {
  came = signal_number;
  pvi_cancel(watched);
}

static void handle(int signal_number) {
  struct sigaction a = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
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

void watch_begin(Cli *cli, const char *label) {
  came = 0;
  watched = cli->c;
  line.label = label;
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
