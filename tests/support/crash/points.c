/* Ends the process, or fails, at the n-th file operation below given folders.

   Preloaded (LD_PRELOAD), so that it also sees what RocksDB does. It sleeps until
   crash_points_arm is called. Each operation that changes files is counted, and written to a
   journal (as NOTHING where it failed) from which what a loss of power leaves can be worked out (see journal.py).
   sendfile and copy_file_range are refused: their callers then read and write. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum form { NONE, BEFORE, AFTER, TORN, FAIL_ONCE, FAIL_FROM };
enum kind {
  CREATE = 'C', TRUNCATE = 'T', WRITE = 'W', SYNC = 'S', RENAME = 'R', LINK = 'L',
  UNLINK = 'U', RMDIR = 'D', MKDIR = 'M', OPEN = 'O', READ = 'r', NOTHING = 'N', STOPPED = 'K'
};

static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
static char roots[4][PATH_MAX];
static int root_count, form, failure, reads, journal = -1;
static long point, counter;

struct record {
  uint8_t kind;
  uint8_t padding[7];
  uint64_t inode, offset;
  uint32_t first, second;
};

/* Counts from 1; point 0 is never reached. What was counted so far: crash_points_counted. */
void crash_points_arm(const char *folders, long at, int what, int error, int journal_file,
                      int count_reads) {
  char copy[4 * PATH_MAX], *rest = copy, *each;
  snprintf(copy, sizeof copy, "%s", folders);
  root_count = 0;
  while ((each = strsep(&rest, ":")) && root_count < 4)
    snprintf(roots[root_count++], PATH_MAX, "%s", each);
  point = at, form = what, failure = error, journal = journal_file, reads = count_reads;
  counter = 0;
}

long crash_points_counted(void) { return counter; }

static void put(enum kind kind, uint64_t inode, uint64_t offset, const char *path,
                const void *more, size_t length) {
  struct record record = {kind, {0}, inode, offset, (uint32_t)strlen(path), (uint32_t)length};
  struct iovec parts[3] = {{&record, sizeof record}, {(void *)path, record.first},
                           {(void *)more, length}};
  if (journal >= 0) syscall(SYS_writev, journal, parts, 3);
}

static int below(const char *path) {
  for (int i = 0; i < root_count; i++) {
    size_t n = strlen(roots[i]);
    if (!strncmp(path, roots[i], n) && (!path[n] || path[n] == '/')) return 1;
  }
  return 0;
}

static int of_file(int fd, char *path) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = root_count ? syscall(SYS_readlink, link, path, PATH_MAX - 1) : -1;
  if (n < 0) return 0;
  path[n] = 0;
  return below(path);
}

static int of_path(int folder, const char *name, char *path) {
  char base[PATH_MAX] = "";
  if (!root_count) return 0;
  if (name[0] != '/') {
    if (folder == AT_FDCWD) {
      if (!getcwd(base, sizeof base)) return 0;
    } else {
      of_file(folder, base);
    }
  }
  char whole[PATH_MAX];
  snprintf(whole, PATH_MAX, "%s%s%s", base, name[0] == '/' ? "" : "/", name);
  int n = 0;
  for (char *each = whole; *each; each++)
    if (*each != '/' || !n || path[n - 1] != '/') path[n++] = *each;
  path[n] = 0;
  while (n > 1 && path[n - 1] == '/') path[--n] = 0;
  return below(path);
}

static uint64_t inode_of(const char *path) {
  struct stat found;
  return lstat(path, &found) ? 0 : found.st_ino;
}

static uint64_t inode_of_file(int fd) {
  struct stat found;
  return fstat(fd, &found) ? 0 : found.st_ino;
}

static void die(enum kind kind, const char *path) {
  put(STOPPED, counter, kind, path, "", 0);
  syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
  for (;;) syscall(SYS_pause);
}

/* Takes the lock and counts. 1: fail with errno set. 2: tear this write. 0: go on. */
static int enter(enum kind kind, const char *path, int takes_space) {
  pthread_mutex_lock(&one);
  counter++;
  if (form == BEFORE && counter == point) die(kind, path);
  if (form == TORN && counter == point) {
    if (kind != WRITE) die(kind, path);
    return 2;
  }
  if ((form == FAIL_ONCE && counter == point) ||
      (form == FAIL_FROM && point && counter >= point && takes_space)) {
    put(STOPPED, counter, kind, path, "", 0);
    errno = failure;
    return 1;
  }
  return 0;
}

static void leave(enum kind kind, const char *path) {
  int saved = errno;
  if (form == AFTER && counter == point) die(kind, path);
  pthread_mutex_unlock(&one);
  errno = saved;
}

static int failed(void) {
  int saved = errno;
  pthread_mutex_unlock(&one);
  errno = saved;
  return -1;
}

static int opened(int folder, const char *name, int flags, mode_t mode,
                  int (*real)(int, const char *, int, mode_t)) {
  char path[PATH_MAX];
  if (!(flags & (O_CREAT | O_TRUNC)) || (flags & O_TMPFILE) == O_TMPFILE ||
      !of_path(folder, name, path))
    return real(folder, name, flags, mode);
  struct stat before;
  int there = !stat(path, &before);
  enum kind kind = !there ? CREATE : (flags & O_TRUNC) && before.st_size ? TRUNCATE : OPEN;
  if (kind == OPEN) return real(folder, name, flags, mode);
  if (enter(kind, path, 1)) return failed();
  int fd = real(folder, name, flags, mode);
  put(fd >= 0 ? kind : NOTHING, fd >= 0 ? inode_of_file(fd) : 0, 0, path, "", 0);
  leave(kind, path);
  return fd;
}

static int raw_openat(int folder, const char *name, int flags, mode_t mode) {
  return (int)syscall(SYS_openat, folder, name, flags, mode);
}

#define MODE(flags) \
  mode_t mode = 0; \
  if ((flags) & (O_CREAT | O_TMPFILE)) { \
    va_list rest; \
    va_start(rest, flags); \
    mode = va_arg(rest, mode_t); \
    va_end(rest); \
  }

int open(const char *name, int flags, ...) { MODE(flags); return opened(AT_FDCWD, name, flags, mode, raw_openat); }
int open64(const char *name, int flags, ...) { MODE(flags); return opened(AT_FDCWD, name, flags | O_LARGEFILE, mode, raw_openat); }
int openat(int folder, const char *name, int flags, ...) { MODE(flags); return opened(folder, name, flags, mode, raw_openat); }
int openat64(int folder, const char *name, int flags, ...) { MODE(flags); return opened(folder, name, flags | O_LARGEFILE, mode, raw_openat); }
int creat(const char *name, mode_t mode) { return opened(AT_FDCWD, name, O_CREAT | O_WRONLY | O_TRUNC, mode, raw_openat); }
int creat64(const char *name, mode_t mode) { return creat(name, mode); }

static ssize_t written(int fd, const void *data, size_t size, off_t offset, int at) {
  char path[PATH_MAX];
  if (!of_file(fd, path))
    return at ? syscall(SYS_pwrite64, fd, data, size, offset) : syscall(SYS_write, fd, data, size);
  int how = enter(WRITE, path, 1);
  if (how == 1) return failed();
  if (how == 2) size /= 2;
  if (!at) {
    struct stat found;
    int flags = fcntl(fd, F_GETFL);
    offset = (flags & O_APPEND) && !fstat(fd, &found) ? found.st_size : lseek(fd, 0, SEEK_CUR);
  }
  ssize_t n = at ? syscall(SYS_pwrite64, fd, data, size, offset) : syscall(SYS_write, fd, data, size);
  put(n > 0 ? WRITE : NOTHING, inode_of_file(fd), (uint64_t)offset, path, data, n > 0 ? (size_t)n : 0);
  if (how == 2) die(WRITE, path);
  leave(WRITE, path);
  return n;
}

ssize_t write(int fd, const void *data, size_t size) { return written(fd, data, size, 0, 0); }
ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) { return written(fd, data, size, offset, 1); }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) { return written(fd, data, size, offset, 1); }

ssize_t writev(int fd, const struct iovec *parts, int count) {
  char path[PATH_MAX];
  if (!of_file(fd, path)) return syscall(SYS_writev, fd, parts, count);
  ssize_t done = 0;
  for (int i = 0; i < count; i++) {
    if (!parts[i].iov_len) continue;
    ssize_t n = written(fd, parts[i].iov_base, parts[i].iov_len, 0, 0);
    if (n < 0) return done ? done : -1;
    done += n;
    if ((size_t)n < parts[i].iov_len) break;
  }
  return done;
}

static ssize_t got(int fd, void *data, size_t size, off_t offset, int at) {
  char path[PATH_MAX];
  if (reads && of_file(fd, path)) {
    if (enter(READ, path, 0)) return failed();
    put(READ, 0, 0, path, "", 0);
    leave(READ, path);
  }
  return at ? syscall(SYS_pread64, fd, data, size, offset) : syscall(SYS_read, fd, data, size);
}

ssize_t read(int fd, void *data, size_t size) { return got(fd, data, size, 0, 0); }
ssize_t pread(int fd, void *data, size_t size, off_t offset) { return got(fd, data, size, offset, 1); }
ssize_t pread64(int fd, void *data, size_t size, off64_t offset) { return got(fd, data, size, offset, 1); }

#define ON_FILE(kind, space, call, length) \
  char path[PATH_MAX]; \
  if (!of_file(fd, path)) return call; \
  if (enter(kind, path, space)) return failed(); \
  int result = call; \
  put(result ? NOTHING : kind, inode_of_file(fd), length, path, "", 0); \
  leave(kind, path); \
  return result

int fsync(int fd) { ON_FILE(SYNC, 0, (int)syscall(SYS_fsync, fd), 0); }
int fdatasync(int fd) { ON_FILE(SYNC, 0, (int)syscall(SYS_fdatasync, fd), 0); }
int ftruncate(int fd, off_t size) { ON_FILE(TRUNCATE, 0, (int)syscall(SYS_ftruncate, fd, size), (uint64_t)size); }
int ftruncate64(int fd, off64_t size) { return ftruncate(fd, size); }
/* Promises nothing, so the journal has nothing of it. */
int sync_file_range(int fd, off64_t offset, off64_t size, unsigned flags) {
  ON_FILE(NOTHING, 0, (int)syscall(SYS_sync_file_range, fd, offset, size, flags), 0);
}
/* RocksDB keeps the size as it is; anybody else's growth is journalled as such. */
int fallocate(int fd, int mode, off_t offset, off_t size) {
  enum kind kind = mode ? NOTHING : TRUNCATE;
  ON_FILE(kind, 1, (int)syscall(SYS_fallocate, fd, mode, offset, size), (uint64_t)(offset + size));
}
int fallocate64(int fd, int mode, off64_t offset, off64_t size) { return fallocate(fd, mode, offset, size); }

#define ON_PATH(kind, space, folder, call) \
  char path[PATH_MAX]; \
  if (!of_path(folder, name, path)) return call; \
  if (enter(kind, path, space)) return failed(); \
  int result = call; \
  put(result ? NOTHING : kind, inode_of(path), 0, path, "", 0); \
  leave(kind, path); \
  return result

int unlink(const char *name) { ON_PATH(UNLINK, 0, AT_FDCWD, (int)syscall(SYS_unlinkat, AT_FDCWD, name, 0)); }
int unlinkat(int folder, const char *name, int flags) {
  enum kind kind = flags & AT_REMOVEDIR ? RMDIR : UNLINK;
  ON_PATH(kind, 0, folder, (int)syscall(SYS_unlinkat, folder, name, flags));
}
int rmdir(const char *name) { ON_PATH(RMDIR, 0, AT_FDCWD, (int)syscall(SYS_unlinkat, AT_FDCWD, name, AT_REMOVEDIR)); }
int mkdir(const char *name, mode_t mode) { ON_PATH(MKDIR, 1, AT_FDCWD, (int)syscall(SYS_mkdirat, AT_FDCWD, name, mode)); }
int mkdirat(int folder, const char *name, mode_t mode) { ON_PATH(MKDIR, 1, folder, (int)syscall(SYS_mkdirat, folder, name, mode)); }
int remove(const char *name) {
  struct stat found;
  return !lstat(name, &found) && S_ISDIR(found.st_mode) ? rmdir(name) : unlink(name);
}
int truncate(const char *name, off_t size) {
  char path[PATH_MAX];
  if (!of_path(AT_FDCWD, name, path)) return (int)syscall(SYS_truncate, name, size);
  if (enter(TRUNCATE, path, 0)) return failed();
  int result = (int)syscall(SYS_truncate, name, size);
  put(result ? NOTHING : TRUNCATE, inode_of(path), (uint64_t)size, path, "", 0);
  leave(TRUNCATE, path);
  return result;
}
int truncate64(const char *name, off64_t size) { return truncate(name, size); }

static int moved(enum kind kind, int from, const char *a, int to, const char *b, unsigned flags) {
  char first[PATH_MAX], second[PATH_MAX];
  int one_inside = of_path(from, a, first), other = of_path(to, b, second);
  int inside = one_inside || other;
  if (inside && enter(kind, second, 1)) return failed();
  long result = kind == LINK ? syscall(SYS_linkat, from, a, to, b, flags)
                             : syscall(SYS_renameat2, from, a, to, b, flags);
  if (!inside) return (int)result;
  put(result ? NOTHING : kind, inode_of(second), 0, first, second, strlen(second));
  leave(kind, second);
  return (int)result;
}

int rename(const char *a, const char *b) { return moved(RENAME, AT_FDCWD, a, AT_FDCWD, b, 0); }
int renameat(int from, const char *a, int to, const char *b) { return moved(RENAME, from, a, to, b, 0); }
int renameat2(int from, const char *a, int to, const char *b, unsigned flags) { return moved(RENAME, from, a, to, b, flags); }
int link(const char *a, const char *b) { return moved(LINK, AT_FDCWD, a, AT_FDCWD, b, 0); }
int linkat(int from, const char *a, int to, const char *b, int flags) { return moved(LINK, from, a, to, b, (unsigned)flags); }

ssize_t sendfile(int out, int in, off_t *offset, size_t count) {
  char path[PATH_MAX];
  if (of_file(out, path)) { errno = EINVAL; return -1; }
  return syscall(SYS_sendfile, out, in, offset, count);
}
ssize_t sendfile64(int out, int in, off64_t *offset, size_t count) { return sendfile(out, in, offset, count); }
ssize_t copy_file_range(int in, off64_t *at, int out, off64_t *to, size_t count, unsigned flags) {
  char path[PATH_MAX];
  if (of_file(out, path)) { errno = EINVAL; return -1; }
  return syscall(SYS_copy_file_range, in, at, out, to, count, flags);
}
