/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds functions in the mapped objects of the target without dlsym(). dlsym() depends on its
 * caller, does not see libraries of a local scope, and may itself be replaced. Runs in the target.
 */
#ifndef INJECT_NEXT_H
#define INJECT_NEXT_H

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>

struct next_object {
    const char *name; /* the path it was loaded by; "" for the program */
    uintptr_t base, start, end;
    const Elf64_Phdr *headers;
    unsigned header_count;
    const Elf64_Dyn *dynamic;
};

/* Return true to stop. */
typedef bool (*next_object_fn)(const struct next_object *object, void *context);

/* Every mapped object in the order of loading. Takes the loader's lock. */
void next_objects(next_object_fn fn, void *context);
/* How many objects have been loaded since the start; changes when one is. */
uint64_t next_loads(void);
/* The default definition in that object, or NULL. */
void *next_in(const struct next_object *object, const char *name);
/* The functions after ours in the order of lookup: those that the program called, and those called for it. libc's execv()
 * makes its own system call, whatever other libraries have put before execve(). */
#define NEXT_EACH(X)                                                                               \
    X(ioctl, ioctl)                                                                                \
    X(mmap, mmap)                                                                                  \
    X(mmap64, mmap64)                                                                              \
    X(fstat, fstat)                                                                                \
    X(dlsym, dlsym)                                                                                \
    X(tcdrain, tcdrain)                                                                            \
    X(tcflush, tcflush)                                                                            \
    X(tcgetattr, tcgetattr)                                                                        \
    X(tcsetattr, tcsetattr)                                                                        \
    X(open, open)                                                                                  \
    X(open64, open64)                                                                              \
    X(openat, openat)                                                                              \
    X(openat64, openat64)                                                                          \
    X(__open_2, __open_2)                                                                          \
    X(__open64_2, __open64_2)                                                                      \
    X(__openat_2, __openat_2)                                                                      \
    X(__openat64_2, __openat64_2)                                                                  \
    X(fopen, fopen)                                                                                \
    X(fopen64, fopen64)                                                                            \
    X(execve, execve)                                                                              \
    X(execv, execve)                                                                               \
    X(execl, execve)                                                                               \
    X(execle, execve)                                                                              \
    X(execvpe, execvpe)                                                                            \
    X(execvp, execvpe)                                                                             \
    X(execlp, execvpe)                                                                             \
    X(fexecve, fexecve)                                                                            \
    X(execveat, execveat)                                                                          \
    X(posix_spawn, posix_spawn)                                                                    \
    X(posix_spawnp, posix_spawnp)

enum next_function {
#define NEXT_ENUM(called, wanted) NEXT_##called,
    NEXT_EACH(NEXT_ENUM)
#undef NEXT_ENUM
        NEXT_FUNCTIONS,
};

/* Looks up all of them at the start: a forked child must not need the loader's lock. */
void next_resolve(void);
/* NULL = there is none. Looks it up if the constructor has not run yet. */
void *next_function(enum next_function function);
/* NULL = there is none, or the constructor has not run. */
void *next_if_resolved(enum next_function function);
/* The path of this library as it was loaded. */
const char *next_own_path(void);
/* Is the object this library itself? */
bool next_is_own(const struct next_object *object);
/* clock_gettime() of the vDSO, which no library replaces; or NULL. */
void *next_clock(void);
/* An address of the dynamic section: glibc has relocated it, musl has not. */
uintptr_t next_address(const struct next_object *object, Elf64_Addr value);

#endif
