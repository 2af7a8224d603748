/* file.c: folders and files that are whole or absent. A file is written as .NAME.PID.tmp in the
 * folder of its final name, synced, renamed over it, and the folder synced; the first error sticks
 * and is told when the file is committed. */
#include "data/number.h"
#include "report/report.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER = 1 << 16 };

struct OutFile {
  Closer closer;
  Ctx *c;
  TempArena *memory; /* its own: a long run writes many files */
  const char *path, *temporary, *folder;
  int fd;
  int error; /* errno of the first failure, or 0 */
  size_t n;
  int digits;
  char buffer[BUFFER];
};

/* ---- files ----------------------------------------------------------------------------------- */

static void split_path(OutFile *f, const char *path) {
  Arena *a = &f->memory->arena;
  const char *slash = strrchr(path, '/');
  const char *name = slash ? slash + 1 : path;
  f->path = arena_text(a, path, strlen(path));
  f->folder = slash ? arena_text(a, path, (size_t)(slash - path) + (slash == path)) : ".";
  f->temporary = arena_format(a, "%.*s.%s.%ld.tmp", (int)(name - path), path, name, (long)getpid());
}

static void abandon_open(Closer *self) { file_abandon((OutFile *)self); }

OutFile *file_begin(Ctx *c, const char *path) {
  TempArena *memory = temp_open(c);
  OutFile *f = NEW(&memory->arena, OutFile);
  f->c = c;
  f->memory = memory;
  split_path(f, path);
  f->fd = open(f->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (f->fd < 0) ctx_fail(c, PVI_FAILURE, NOWHERE, "cannot write '%s': %s", path, strerror(errno));
  ctx_opened(c, &f->closer, abandon_open);
  return f;
}

static void flush(OutFile *f) {
  const char *p = f->buffer;
  while (f->n && !f->error) {
    ssize_t k = write(f->fd, p, f->n);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) {
      f->error = k < 0 ? errno : EIO;
      break;
    }
    p += k;
    f->n -= (size_t)k;
  }
  f->n = 0;
}

void file_put(OutFile *f, const char *s, size_t n) {
  while (n) {
    size_t room = BUFFER - f->n, k = n < room ? n : room;
    memcpy(f->buffer + f->n, s, k);
    f->n += k;
    s += k;
    n -= k;
    if (f->n == BUFFER) flush(f);
  }
}

void file_puts(OutFile *f, const char *s) { file_put(f, s, strlen(s)); }

void file_digits(OutFile *f, int digits) { f->digits = digits; }

void file_number(OutFile *f, double x) {
  char s[NUMBER_CHARS];
  size_t n = f->digits > 0 && isfinite(x) ? (size_t)snprintf(s, sizeof s, "%.*g", f->digits, x)
                                          : number_write(s, x);
  file_put(f, s, n);
}

void file_integer(OutFile *f, long long k) {
  char s[NUMBER_CHARS];
  file_put(f, s, (size_t)snprintf(s, sizeof s, "%lld", k));
}

static void close_file(OutFile *f) {
  ctx_closed(&f->closer);
  if (close(f->fd) && !f->error) f->error = errno;
}

void file_abandon(OutFile *f) {
  close_file(f);
  unlink(f->temporary);
  temp_close(f->memory);
}

/* The rename itself survives a power cut only when the folder is synced. Not every file system can;
 * that is no failure. */
static void sync_folder(const char *folder) {
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd);
  close(fd);
}

void file_commit(OutFile *f) {
  flush(f);
  if (!f->error && fsync(f->fd) && errno != EINVAL && errno != EROFS) f->error = errno;
  close_file(f);
  if (!f->error && rename(f->temporary, f->path)) f->error = errno;
  if (f->error) {
    unlink(f->temporary);
    ctx_fail(f->c, PVI_FAILURE, NOWHERE, "cannot write '%s': %s", f->path, strerror(f->error));
  }
  sync_folder(f->folder);
  temp_close(f->memory);
}

/* ---- folders --------------------------------------------------------------------------------- */

static bool is_folder(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Why it could not be made; 0: it is there. */
static int make_folder(const char *path) {
  int failed = mkdir(path, 0777) ? errno : 0;
  if (!failed || is_folder(path)) return 0;
  return failed == EEXIST ? ENOTDIR : failed;
}

/* mkdir -p: every prefix that ends before a slash, then the whole. */
static int make_folders(char *path) {
  for (char *p = path + 1; *p; p++) {
    if (*p != '/') continue;
    *p = 0;
    int failed = make_folder(path);
    *p = '/';
    if (failed) return failed;
  }
  return make_folder(path);
}

#define ELSEWHERE "; name one that you may write to (of a run with " OPTION("out") ")"

RunDir *run_open(Ctx *c, const char *dir) {
  if (!dir[0]) ctx_fail(c, PVI_FAILURE, NOWHERE, "the name of the run's folder is empty");
  char *path = arena_text(&c->arena, dir, strlen(dir));
  for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--) path[n - 1] = 0;
  int error = make_folders(path);
  if (error)
    ctx_fail(c, PVI_FAILURE, NOWHERE, "cannot make the folder '%s': %s" ELSEWHERE, path,
             strerror(error));
  if (faccessat(AT_FDCWD, path, W_OK | X_OK, AT_EACCESS))
    ctx_fail(c, PVI_FAILURE, NOWHERE, "cannot write into the folder '%s': %s" ELSEWHERE, path,
             strerror(errno));
  RunDir *r = NEW(&c->arena, RunDir);
  *r = (RunDir){c, path};
  return r;
}

const char *run_path(const RunDir *r, const char *name) {
  return arena_format(&r->c->arena, "%s/%s", r->path, name);
}

void run_write(RunDir *r, const char *name, const Text *t) {
  OutFile *f = file_begin(r->c, run_path(r, name));
  file_put(f, t->s, t->n);
  file_commit(f);
}
