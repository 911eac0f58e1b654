/* SPDX-License-Identifier: Apache-2.0 */
/*
 * open() and fopen() of the program. A new descriptor invalidates what is known about its number.
 * Files with the name of a model are noted. Runs in the target.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>

#include "inject/attach.h"
#include "inject/device.h"
#include "inject/next.h"
#include "inject/raw.h"
#include "inject/terminal.h"

#define SMALLEST_MODEL 65536
#define LONGEST_ENDING 12 /* .safetensors */
#define EXPORT __attribute__((visibility("default")))

typedef int (*open_fn)(const char *, int, ...);
typedef int (*openat_fn)(int, const char *, int, ...);
typedef FILE *(*fopen_fn)(const char *, const char *);

/* fortified callers; musl has none of them */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dir, const char *path, int flags);
int __openat64_2(int dir, const char *path, int flags);

/* --- models --- */

static bool ends_with(const char *path, size_t len, const char *end)
{
    size_t n = raw_length(end);
    return len > n && raw_equal(path + len - n, end, n);
}

/* ".bin" alone means nothing; Hugging Face and ggml write these two names. */
static bool is_binary_model(const char *path, size_t len)
{
    size_t at = len;
    while (at > 0 && path[at - 1] != '/')
        at--;
    return raw_starts(path + at, "pytorch_model") || raw_starts(path + at, "ggml-");
}

enum likeness { NO_MODEL, MAYBE_MODEL, SURE_MODEL };

static enum likeness looks_like_model(const char *path)
{
    static const char *const sure[] = {".gguf", ".safetensors", ".onnx", ".ggml"};
    static const char *const maybe[] = {".pth", ".pt", ".ckpt"};
    size_t len = raw_length(path);
    size_t dot = len;
    while (dot > 0 && len - dot < LONGEST_ENDING && path[dot] != '.')
        dot--;
    if (path[dot] != '.') /* nearly every file */
        return NO_MODEL;
    for (size_t i = 0; i < sizeof sure / sizeof sure[0]; i++)
        if (ends_with(path, len, sure[i]))
            return SURE_MODEL;
    for (size_t i = 0; i < sizeof maybe / sizeof maybe[0]; i++)
        if (ends_with(path, len, maybe[i]))
            return MAYBE_MODEL;
    return ends_with(path, len, ".bin") && is_binary_model(path, len) ? MAYBE_MODEL : NO_MODEL;
}

static void note_model(const char *path, enum likeness likeness, int fd, int error)
{
    struct book_actor actor;
    struct stat st = {.st_dev = 0, .st_ino = 0, .st_size = 0};
    char link[LEDGER_MODEL_PATH];
    char number[40] = "/proc/self/fd/";
    if (fd >= 0)
        (void)raw_call(SYS_fstat, fd, &st, 0, 0);
    /* Python's lists of folders end in .pth, too. */
    if ((likeness == MAYBE_MODEL && st.st_size < SMALLEST_MODEL) || !attach_actor(&actor))
        return;
    actor.now_ns = attach_now_ns();
    if (fd >= 0) {
        (void)raw_put_number(number + 14, (uint64_t)fd, 10);
        long n = raw_call(SYS_readlinkat, AT_FDCWD, number, link, sizeof link - 1);
        if (n > 0) {
            link[n] = '\0';
            path = link;
        }
    }
    book_model(&actor, path, error, st.st_dev, st.st_ino);
}

static void opened(const char *path, int fd, int error)
{
    device_forget(fd);
    if (path != NULL && error == 0 && raw_same(path, "/dev/tty"))
        terminal_drain(); /* what is written there comes after what was written to stdout */
    enum likeness likeness = NO_MODEL;
    if (path != NULL && attach_wanted())
        likeness = looks_like_model(path);
    if (likeness != NO_MODEL)
        note_model(path, likeness, fd, error);
}

/* --- open --- */

static int plain_open(int dir, const char *path, int flags, mode_t mode)
{
    long r = raw_call(SYS_openat, dir, path, flags, mode);
    if (r >= 0)
        return (int)r;
    errno = (int)-r;
    return -1;
}

/* The caller gets the errno of an open without us. */
static int note_opened(const char *path, int fd, int errno_before)
{
    int error = fd < 0 ? errno : 0;
    opened(path, fd, error);
    errno = error != 0 ? error : errno_before;
    return fd;
}

static int pass_open(enum next_function function, const char *path, int flags, mode_t mode)
{
    open_fn next;
    int before = errno;
    *(void **)&next = next_function(function);
    int fd = next != NULL ? next(path, flags, mode) : plain_open(AT_FDCWD, path, flags, mode);
    return note_opened(path, fd, before);
}

static int pass_openat(enum next_function function, int dir, const char *path, int flags,
                       mode_t mode)
{
    openat_fn next;
    int before = errno;
    *(void **)&next = next_function(function);
    int fd = next != NULL ? next(dir, path, flags, mode) : plain_open(dir, path, flags, mode);
    return note_opened(path, fd, before);
}

#define MODE_OF(flags, mode)                                                                       \
    mode_t mode = 0;                                                                               \
    if (((flags) & (O_CREAT | __O_TMPFILE)) != 0) {                                                \
        va_list args;                                                                              \
        va_start(args, flags);                                                                     \
        mode = va_arg(args, mode_t);                                                               \
        va_end(args);                                                                              \
    }

#define DEFINE_OPEN(name)                                                                          \
    EXPORT int name(const char *path, int flags, ...)                                              \
    {                                                                                              \
        MODE_OF(flags, mode)                                                                       \
        return pass_open(NEXT_##name, path, flags, mode);                                          \
    }

#define DEFINE_OPENAT(name)                                                                        \
    EXPORT int name(int dir, const char *path, int flags, ...)                                     \
    {                                                                                              \
        MODE_OF(flags, mode)                                                                       \
        return pass_openat(NEXT_##name, dir, path, flags, mode);                                   \
    }

#define DEFINE_OPEN_2(name)                                                                        \
    EXPORT int name(const char *path, int flags)                                                   \
    {                                                                                              \
        return pass_open(NEXT_##name, path, flags, 0);                                             \
    }

#define DEFINE_OPENAT_2(name)                                                                      \
    EXPORT int name(int dir, const char *path, int flags)                                          \
    {                                                                                              \
        return pass_openat(NEXT_##name, dir, path, flags, 0);                                      \
    }

DEFINE_OPEN(open)
DEFINE_OPEN(open64)
DEFINE_OPENAT(openat)
DEFINE_OPENAT(openat64)
DEFINE_OPEN_2(__open_2)
DEFINE_OPEN_2(__open64_2)
DEFINE_OPENAT_2(__openat_2)
DEFINE_OPENAT_2(__openat64_2)

/* --- fopen --- */

static FILE *pass_fopen(enum next_function function, const char *path, const char *mode)
{
    fopen_fn next;
    int before = errno;
    *(void **)&next = next_function(function);
    if (next == NULL) {
        errno = ENOSYS;
        return NULL;
    }
    FILE *file = next(path, mode);
    int error = file == NULL ? errno : 0;
    opened(path, file != NULL ? fileno(file) : -1, error);
    errno = error != 0 ? error : before;
    return file;
}

EXPORT FILE *fopen(const char *path, const char *mode)
{
    return pass_fopen(NEXT_fopen, path, mode);
}

EXPORT FILE *fopen64(const char *path, const char *mode)
{
    return pass_fopen(NEXT_fopen64, path, mode);
}
