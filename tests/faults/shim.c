// Preloaded into a program: counts the calls by which it changes (or reads) files in one folder, and makes one of them
// fail, stop short, or be the last thing that the process does. The README lists the variables.
//
// Calls that the C library makes for itself (those of stdio) do not come by here; tests/faults/coverage.py compares
// what is counted with what strace sees.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

enum action { NOTHING, KILL_BEFORE, KILL_AFTER, KILL_AT, FAIL, FAIL_FROM, SHORT };

static struct {
    const char* under;  // NULL: nothing is counted
    size_t under_length;
    enum action action;
    bool reads;   // calls that read are counted, instead of those that change something
    long number;  // of the call that gets the fault, from 1
    long value;   // errno, or bytes
    int log;
} plan = {.log = -1};
static atomic_long counted;

// "ACTION:NUMBER[:VALUE]"
static void parse(char* text) {
    static const struct {
        const char* name;
        enum action action;
    } kActions[] = {{"kill-before", KILL_BEFORE}, {"kill-after", KILL_AFTER},
                    {"kill-at", KILL_AT},         {"fail", FAIL},
                    {"fail-from", FAIL_FROM},     {"short", SHORT}};
    char* rest = NULL;
    const char* action = strtok_r(text, ":", &rest);
    const char* number = strtok_r(NULL, ":", &rest);
    const char* value = strtok_r(NULL, ":", &rest);
    for (size_t i = 0; action && number && i < sizeof kActions / sizeof *kActions; ++i) {
        if (strcmp(action, kActions[i].name) == 0) plan.action = kActions[i].action;
    }
    if (plan.action == NOTHING) {
        static const char kWrong[] = "fault shim: FAULT is not ACTION:NUMBER[:VALUE]\n";
        syscall(SYS_write, STDERR_FILENO, kWrong, sizeof kWrong - 1);
        _exit(99);
    }
    plan.number = atol(number);
    plan.value = value ? atol(value) : 0;
}

__attribute__((constructor)) static void begin(void) {
    const char *under = getenv("FAULT_UNDER"), *log = getenv("FAULT_LOG"), *calls = getenv("FAULT_CALLS");
    const char *of = getenv("FAULT_RANK"), *rank = getenv("OMPI_COMM_WORLD_RANK"), *fault = getenv("FAULT");
    if (under == NULL || (of != NULL && (rank == NULL || strcmp(of, rank) != 0))) return;
    plan.under_length = strlen(under);
    plan.reads = calls != NULL && strcmp(calls, "reads") == 0;
    if (log != NULL)
        plan.log = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fault != NULL) parse(strdup(fault));
    plan.under = under;
}

static void die(void) {
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;) pause();
}

// ---- Which files are meant

static bool path_of(int fd, char* out) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const long n = syscall(SYS_readlink, link, out, PATH_MAX - 1);
    if (n < 0) return false;
    out[n] = '\0';
    return true;
}

static bool meant(const char* absolute) {
    return plan.under != NULL && strncmp(absolute, plan.under, plan.under_length) == 0 &&
           (absolute[plan.under_length] == '/' || absolute[plan.under_length] == '\0');
}

static bool meant_fd(int fd, char* path) {
    return plan.under != NULL && path_of(fd, path) && meant(path);
}

// `path` as seen from the folder `fd`, made absolute.
static bool meant_at(int fd, const char* path, char* absolute) {
    if (plan.under == NULL || path == NULL) return false;
    if (path[0] == '/') {
        snprintf(absolute, PATH_MAX, "%s", path);
    } else {
        char folder[PATH_MAX];
        if (fd == AT_FDCWD ? syscall(SYS_getcwd, folder, sizeof folder) < 0 : !path_of(fd, folder)) return false;
        if (snprintf(absolute, PATH_MAX, "%s/%s", folder, path) >= PATH_MAX) return false;
    }
    return meant(absolute);
}

// ---- What happens to a call

// Counts a call and says what it has to do: true for the fault, which is `plan.action`.
static bool hit(const char* name, const char* path, long long offset, long long size) {
    const long n = atomic_fetch_add(&counted, 1) + 1;
    if (plan.log >= 0) {
        char line[PATH_MAX + 128];
        const int length = snprintf(line, sizeof line, "%ld\t%s\t%s\t%lld\t%lld\n", n, name, path, offset, size);
        syscall(SYS_write, plan.log, line, (size_t)length);
    }
    switch (plan.action) {
        case NOTHING:
            return false;
        case FAIL_FROM:
            // What frees room does not fail for want of it.
            return n == plan.number || (n > plan.number && strcmp(name, "unlink") != 0 && strcmp(name, "close") != 0);
        default:
            return n == plan.number;
    }
}

// The result of a call without bytes; `call` is made, or is not.
#define PLAIN(name, path, call)                           \
    do {                                                  \
        const bool faulty = hit(name, path, -1, -1);      \
        if (!faulty || plan.action == SHORT) return call; \
        if (plan.action == KILL_AFTER) (void)!(long)call; \
        if (plan.action <= KILL_AT) die();                \
        errno = (int)plan.value;                          \
        return -1;                                        \
    } while (0)

// Of a call that transfers `size` bytes; `some` is how many of them `call` transfers.
#define TRANSFER(name, path, offset, size, call)                         \
    do {                                                                 \
        size_t some = size;                                              \
        if (!hit(name, path, offset, (long long)(size))) return call;    \
        if (plan.action == KILL_BEFORE) die();                           \
        if (plan.action == FAIL || plan.action == FAIL_FROM) {           \
            errno = (int)plan.value;                                     \
            return -1;                                                   \
        }                                                                \
        if (plan.action != KILL_AFTER) {                                 \
            /* SHORT with -1: half of them, rounded up. */               \
            some = plan.value < 0 ? (some + 1) / 2 : (size_t)plan.value; \
            if (some > (size)) some = size;                              \
        }                                                                \
        const ssize_t done = some == 0 ? 0 : call;                       \
        if (plan.action != SHORT) die();                                 \
        return done;                                                     \
    } while (0)

#define REAL(name) ((__typeof__(&name))real(#name))
static void* real(const char* name) {
    void* const found = dlsym(RTLD_NEXT, name);
    if (found == NULL) _exit(99);
    return found;
}

static bool changes(int flags) {
    return (flags & O_ACCMODE) != O_RDONLY || (flags & O_CREAT) != 0;
}

static int open_at(int fd, const char* path, int flags, mode_t mode) {
    char absolute[PATH_MAX];
    const bool counts =
        meant_at(fd, path, absolute) && changes(flags) != plan.reads && (changes(flags) || (flags & O_DIRECTORY) == 0);
    if (!counts) return (int)syscall(SYS_openat, fd, path, flags, mode);
    PLAIN("open", absolute, (int)syscall(SYS_openat, fd, path, flags, mode));
}

#define MODE(flags, mode)                                             \
    mode_t mode = 0;                                                  \
    if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE) { \
        va_list more;                                                 \
        va_start(more, flags);                                        \
        mode = va_arg(more, mode_t);                                  \
        va_end(more);                                                 \
    }

int open(const char* path, int flags, ...) {
    MODE(flags, mode)
    return open_at(AT_FDCWD, path, flags, mode);
}
int open64(const char* path, int flags, ...) {
    MODE(flags, mode)
    return open_at(AT_FDCWD, path, flags, mode);
}
int openat(int fd, const char* path, int flags, ...) {
    MODE(flags, mode)
    return open_at(fd, path, flags, mode);
}
int openat64(int fd, const char* path, int flags, ...) {
    MODE(flags, mode)
    return open_at(fd, path, flags, mode);
}

int mkstemp(char* pattern) {
    char absolute[PATH_MAX];
    if (plan.reads || !meant_at(AT_FDCWD, pattern, absolute)) return REAL(mkstemp)(pattern);
    PLAIN("open", absolute, REAL(mkstemp)(pattern));
}
int mkstemp64(char* pattern) {
    return mkstemp(pattern);
}

// ---- Bytes

ssize_t write(int fd, const void* from, size_t size) {
    char path[PATH_MAX];
    if (plan.reads || !meant_fd(fd, path)) return syscall(SYS_write, fd, from, size);
    TRANSFER("write", path, (long long)syscall(SYS_lseek, fd, 0, SEEK_CUR), size, syscall(SYS_write, fd, from, some));
}
static ssize_t pwrite_at(int fd, const void* from, size_t size, off_t offset) {
    char path[PATH_MAX];
    if (plan.reads || !meant_fd(fd, path)) return syscall(SYS_pwrite64, fd, from, size, offset);
    TRANSFER("pwrite", path, (long long)offset, size, syscall(SYS_pwrite64, fd, from, some, offset));
}
ssize_t pwrite(int fd, const void* from, size_t size, off_t offset) {
    return pwrite_at(fd, from, size, offset);
}
ssize_t pwrite64(int fd, const void* from, size_t size, off64_t offset) {
    return pwrite_at(fd, from, size, offset);
}

ssize_t read(int fd, void* to, size_t size) {
    char path[PATH_MAX];
    if (!plan.reads || !meant_fd(fd, path)) return syscall(SYS_read, fd, to, size);
    TRANSFER("read", path, (long long)syscall(SYS_lseek, fd, 0, SEEK_CUR), size, syscall(SYS_read, fd, to, some));
}
static ssize_t pread_at(int fd, void* to, size_t size, off_t offset) {
    char path[PATH_MAX];
    if (!plan.reads || !meant_fd(fd, path)) return syscall(SYS_pread64, fd, to, size, offset);
    TRANSFER("pread", path, (long long)offset, size, syscall(SYS_pread64, fd, to, some, offset));
}
ssize_t pread(int fd, void* to, size_t size, off_t offset) {
    return pread_at(fd, to, size, offset);
}
ssize_t pread64(int fd, void* to, size_t size, off64_t offset) {
    return pread_at(fd, to, size, offset);
}

// ---- What else changes a file

#define OF_FD(name, call)                               \
    char path[PATH_MAX];                                \
    if (plan.reads || !meant_fd(fd, path)) return call; \
    PLAIN(name, path, call)

int fsync(int fd) {
    OF_FD("fsync", (int)syscall(SYS_fsync, fd));
}
int fdatasync(int fd) {
    OF_FD("fdatasync", (int)syscall(SYS_fdatasync, fd));
}
int ftruncate(int fd, off_t size) {
    OF_FD("ftruncate", (int)syscall(SYS_ftruncate, fd, size));
}
int ftruncate64(int fd, off64_t size) {
    return ftruncate(fd, size);
}
int fallocate(int fd, int mode, off_t offset, off_t size) {
    OF_FD("fallocate", (int)syscall(SYS_fallocate, fd, mode, offset, size));
}
int fallocate64(int fd, int mode, off64_t offset, off64_t size) {
    return fallocate(fd, mode, offset, size);
}
// Says what is wrong by its result.
int posix_fallocate(int fd, off_t offset, off_t size) {
    char path[PATH_MAX];
    if (plan.reads || !meant_fd(fd, path)) return REAL(posix_fallocate)(fd, offset, size);
    return fallocate(fd, 0, offset, size) == 0 ? 0 : errno;
}
int posix_fallocate64(int fd, off64_t offset, off64_t size) {
    return posix_fallocate(fd, offset, size);
}

// Of what was open for writing. A call that fails has closed the file nevertheless, as Linux does it.
int close(int fd) {
    char path[PATH_MAX];
    const bool counts =
        plan.under != NULL && !plan.reads && meant_fd(fd, path) && (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY;
    if (!counts) return (int)syscall(SYS_close, fd);
    const bool faulty = hit("close", path, -1, -1);
    if (faulty && plan.action == KILL_BEFORE) die();
    const int result = (int)syscall(SYS_close, fd);
    if (!faulty || plan.action == SHORT) return result;
    if (plan.action <= KILL_AT) die();
    errno = (int)plan.value;
    return -1;
}

// ---- Names

#define OF_NAME(name, fd, path, call)                             \
    char absolute[PATH_MAX];                                      \
    if (plan.reads || !meant_at(fd, path, absolute)) return call; \
    PLAIN(name, absolute, call)

int renameat2(int from_fd, const char* from, int to_fd, const char* to, unsigned flags) {
    OF_NAME("renameat2", to_fd, to, (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, flags));
}
int rename(const char* from, const char* to) {
    OF_NAME("rename", AT_FDCWD, to, (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
int renameat(int from_fd, const char* from, int to_fd, const char* to) {
    OF_NAME("rename", to_fd, to, (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, 0));
}
int link(const char* from, const char* to) {
    OF_NAME("link", AT_FDCWD, to, (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0));
}
int linkat(int from_fd, const char* from, int to_fd, const char* to, int flags) {
    OF_NAME("link", to_fd, to, (int)syscall(SYS_linkat, from_fd, from, to_fd, to, flags));
}
int unlink(const char* path) {
    OF_NAME("unlink", AT_FDCWD, path, (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}
int unlinkat(int fd, const char* path, int flags) {
    OF_NAME("unlink", fd, path, (int)syscall(SYS_unlinkat, fd, path, flags));
}
int rmdir(const char* path) {
    OF_NAME("unlink", AT_FDCWD, path, (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR));
}
int remove(const char* path) {
    OF_NAME("unlink", AT_FDCWD, path, REAL(remove)(path));
}
int mkdir(const char* path, mode_t mode) {
    OF_NAME("mkdir", AT_FDCWD, path, (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}
int mkdirat(int fd, const char* path, mode_t mode) {
    OF_NAME("mkdir", fd, path, (int)syscall(SYS_mkdirat, fd, path, mode));
}
