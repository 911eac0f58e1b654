/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Can a program load the library? The dynamic loader prints an error if it cannot load a file of
 * LD_PRELOAD (32-bit, other root), AddressSanitizer refuses to start after it, and a static
 * program would only pass the variable on. So the program is examined before each exec, and the
 * variable is set only if it works. Runs in the target, and in the child that becomes it. Uses no
 * libc and only the caller's memory: works between vfork and exec.
 */
#ifndef INJECT_PRELOAD_H
#define INJECT_PRELOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PRELOAD_CONFIG "ROCMCRASH_LEDGER="
#define PRELOAD_PATH_MAX 4096
#define PRELOAD_LIST_MAX 2048
#define PRELOAD_ENVIRON_MAX 1024
#define PRELOAD_SCRATCH 6144

/* Index of ledger.left_out[]. */
enum preload_answer {
    PRELOAD_YES,
    PRELOAD_NO_FILE, /* not found, or may not be read */
    PRELOAD_NOT_ELF,
    PRELOAD_OTHER_CLASS, /* 32-bit, or of another processor */
    PRELOAD_STATIC,
    PRELOAD_OTHER_LOADER, /* not glibc's */
    PRELOAD_SANITIZER,
    PRELOAD_PRIVILEGED, /* set-uid, set-gid, file capabilities: the loader ignores it there */
    PRELOAD_INVISIBLE,  /* the library is not there in the program's root, or not executable */
    PRELOAD_LIMITED,    /* little address space */
    PRELOAD_TOO_LONG,   /* the environment */
    PRELOAD_CROWDED,    /* too many starts a second */
};

/* The library and the ledger. */
struct preload {
    char path[PRELOAD_PATH_MAX]; /* "" = do not inject */
    uint64_t device, inode;      /* of that file */
    char config[128];            /* PRELOAD_CONFIG and where the ledger is */
};

/* Room to examine a program and for its environment, until the exec. Some 20 KiB. */
struct preload_room {
    uint64_t scratch[PRELOAD_SCRATCH / sizeof(uint64_t)]; /* of program.c */
    char found[PRELOAD_PATH_MAX];                         /* of preload_find() */
    char preload[PRELOAD_LIST_MAX];
    char *list[PRELOAD_ENVIRON_MAX];
};

/* Examines the file and stores its name; `path` must not contain a character at which LD_PRELOAD
 * splits. */
int preload_set_path(struct preload *preload, const char *path);
/* Examines the program that execve() would find; follows "#!" lines. */
enum preload_answer preload_check(const struct preload *preload, const char *program,
                                  struct preload_room *room);
/* PRELOAD_YES: room->list is the environment with our two variables. */
enum preload_answer preload_environment(const struct preload *preload, char *const environment[],
                                        struct preload_room *room);
/* True for a value of LD_PRELOAD that brings a sanitizer's runtime. */
bool preload_names_sanitizer(const char *list);
/* The file that execvp() would execute: `name` itself, or room->found; NULL = none. `path` is
 * $PATH or NULL. */
const char *preload_find(const char *name, const char *path, struct preload_room *room);
/* Takes the library and the configuration out of an environment, in place. Returns the
 * configuration's value, NULL = there is none. */
const char *preload_remove(char **environment, const char *own_path);

#endif
