/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/preload.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "inject/program.h"
#include "inject/raw.h"

#define LD_PRELOAD "LD_PRELOAD="
#define FLAG_NOEXEC 8 /* ST_NOEXEC of statvfs.h */
/* The library takes 10 MiB of address space: a program with so little may need them. */
#define ADDRESS_SPACE_MIN (1ull << 30)

int preload_set_path(struct preload *preload, const char *path)
{
    struct stat st;
    preload->path[0] = '\0';
    /* The loader splits at these characters, and searches for names without a slash. */
    for (const char *p = path; *p != '\0'; p++)
        if (*p == ':' || *p == ' ')
            return -22;
    if (path[0] != '/' || raw_length(path) >= sizeof preload->path)
        return -22;
    long r = raw_call(SYS_newfstatat, AT_FDCWD, path, &st, 0);
    if (r < 0)
        return (int)r;
    preload->device = st.st_dev;
    preload->inode = st.st_ino;
    (void)raw_put(preload->path, sizeof preload->path, path);
    return 0;
}

/* In the current root and namespaces, which are those of the exec. */
static bool library_is_visible(const struct preload *preload)
{
    struct stat st;
    struct statfs fs;
    return raw_call(SYS_newfstatat, AT_FDCWD, preload->path, &st, 0) == 0 &&
           st.st_dev == preload->device && st.st_ino == preload->inode &&
           raw_call(SYS_faccessat, AT_FDCWD, preload->path, 4 /* R_OK */, 0) == 0 &&
           raw_call(SYS_statfs, preload->path, &fs, 0, 0) == 0 && (fs.f_flags & FLAG_NOEXEC) == 0;
}

static bool has_little_space(void)
{
    struct rlimit limit;
    return raw_call(SYS_prlimit64, 0, RLIMIT_AS, NULL, &limit) == 0 &&
           limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < ADDRESS_SPACE_MIN;
}

/* The loader is in secure mode when these differ. */
static bool has_two_identities(void)
{
    return raw_call(SYS_getuid, 0, 0, 0, 0) != raw_call(SYS_geteuid, 0, 0, 0, 0) ||
           raw_call(SYS_getgid, 0, 0, 0, 0) != raw_call(SYS_getegid, 0, 0, 0, 0);
}

enum preload_answer preload_check(const struct preload *preload, const char *program,
                                  struct preload_room *room)
{
    char interpreter[256];
    if (has_two_identities())
        return PRELOAD_PRIVILEGED;
    if (has_little_space())
        return PRELOAD_LIMITED;
    for (int depth = 0; depth < PROGRAM_SHEBANG_DEPTH; depth++) {
        long fd = raw_call(SYS_openat, AT_FDCWD, program, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
        if (fd < 0)
            return PRELOAD_NO_FILE;
        enum preload_answer answer =
            program_check((int)fd, interpreter, sizeof interpreter, room->scratch);
        (void)raw_call(SYS_close, fd, 0, 0, 0);
        if (answer == PRELOAD_YES)
            return library_is_visible(preload) ? PRELOAD_YES : PRELOAD_INVISIBLE;
        if (answer != PRELOAD_NOT_ELF || interpreter[0] == '\0')
            return answer;
        program = interpreter;
    }
    return PRELOAD_NOT_ELF;
}

bool preload_names_sanitizer(const char *list)
{
    static const char *const names[] = {"libasan", "libtsan", "liblsan", "libhwasan",
                                        "libclang_rt"};
    for (const char *p = list; *p != '\0'; p++)
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
            if (raw_starts(p, names[i]))
                return true;
    return false;
}

/* "LD_PRELOAD=" with our library, and after it the former value. */
static enum preload_answer make_list(const struct preload *preload, const char *others, char *out,
                                     size_t size)
{
    size_t own = raw_length(preload->path);
    size_t rest = others != NULL ? 1 + raw_length(others) : 0;
    if (others != NULL && preload_names_sanitizer(others))
        return PRELOAD_SANITIZER;
    if (sizeof LD_PRELOAD + own + rest > size)
        return PRELOAD_TOO_LONG;
    size_t n = raw_put(out, size, LD_PRELOAD);
    n += raw_put(out + n, size - n, preload->path);
    if (others != NULL) {
        out[n++] = ':';
        (void)raw_put(out + n, size - n, others);
    }
    return PRELOAD_YES;
}

enum preload_answer preload_environment(const struct preload *preload, char *const environment[],
                                        struct preload_room *room)
{
    size_t n = 0;
    size_t at = SIZE_MAX;
    const char *others = NULL;
    for (size_t i = 0; environment != NULL && environment[i] != NULL; i++) {
        if (n + 3 >= PRELOAD_ENVIRON_MAX)
            return PRELOAD_TOO_LONG;
        if (raw_starts(environment[i], PRELOAD_CONFIG))
            continue;
        if (raw_starts(environment[i], LD_PRELOAD) && at == SIZE_MAX) {
            others = environment[i] + sizeof LD_PRELOAD - 1;
            at = n;
        }
        room->list[n++] = environment[i];
    }
    if (others != NULL && raw_starts(others, preload->path)) { /* passed on explicitly */
        room->list[n] = (char *)(uintptr_t)preload->config;
        room->list[n + 1] = NULL;
        return PRELOAD_YES;
    }
    enum preload_answer answer = make_list(preload, others, room->preload, sizeof room->preload);
    if (answer != PRELOAD_YES)
        return answer;
    room->list[at != SIZE_MAX ? at : n++] = room->preload;
    room->list[n++] = (char *)(uintptr_t)preload->config;
    room->list[n] = NULL;
    return PRELOAD_YES;
}

static bool is_program(const char *path)
{
    struct stat st;
    return raw_call(SYS_faccessat, AT_FDCWD, path, 1 /* X_OK */, 0) == 0 &&
           raw_call(SYS_newfstatat, AT_FDCWD, path, &st, 0) == 0 && S_ISREG(st.st_mode);
}

const char *preload_find(const char *name, const char *path, struct preload_room *room)
{
    char *out = room->found;
    bool slash = false;
    for (const char *p = name; *p != '\0'; p++)
        slash |= *p == '/';
    if (slash || name[0] == '\0')
        return slash ? name : NULL;
    for (const char *p = path != NULL ? path : "/bin:/usr/bin";; p++) {
        size_t n = 0;
        for (; *p != '\0' && *p != ':'; p++)
            if (n + 2 < PRELOAD_PATH_MAX)
                out[n++] = *p;
        if (n == 0)
            out[n++] = '.';
        out[n++] = '/';
        (void)raw_put(out + n, PRELOAD_PATH_MAX - n, name);
        if (is_program(out))
            return out;
        if (*p == '\0')
            return NULL;
    }
}

/* "LD_PRELOAD=ours:other" -> "LD_PRELOAD=other"; true if nothing is left, because ours was alone.
 */
static bool cut_own(char *list, const char *own_path)
{
    size_t own = raw_length(own_path);
    for (char *p = list; *p != '\0'; p++) {
        bool begins = p == list || p[-1] == ':' || p[-1] == ' ';
        if (!begins || !raw_starts(p, own_path) ||
            (p[own] != '\0' && p[own] != ':' && p[own] != ' '))
            continue;
        if (p == list && p[own] == '\0')
            return true;
        char *from = p[own] != '\0' ? p + own + 1 : p + own;
        if (*from == '\0' && p > list && p[own] == '\0')
            p--; /* the colon in front */
        while ((*p++ = *from++) != '\0')
            ;
        return false;
    }
    return false;
}

const char *preload_remove(char **environment, const char *own_path)
{
    const char *config = NULL;
    char **to = environment;
    for (char **from = environment; *from != NULL; from++) {
        if (raw_starts(*from, PRELOAD_CONFIG)) {
            config = *from + sizeof PRELOAD_CONFIG - 1;
            continue;
        }
        if (own_path[0] != '\0' && raw_starts(*from, LD_PRELOAD) &&
            cut_own(*from + sizeof LD_PRELOAD - 1, own_path))
            continue;
        *to++ = *from;
    }
    *to = NULL;
    return config;
}
