/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command that is run once more: one that the user names after "--", or that of a bundle with the
 * names behind its pseudonyms where they are known. A bundle may be a stranger's: what it names is shown
 * and is not run unasked.
 */
#ifndef CLI_AGAIN_H
#define CLI_AGAIN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/fs.h"

struct buf;
struct cJSON;
struct rc_err;

#define AGAIN_ARGUMENTS_MAX 4096

struct again {
    bool yes;           /* the user wants it run unasked */
    const char *bundle; /* for error messages, as long as it may be wrong; else NULL */
    char **command;     /* ends with NULL */
    char cwd[FS_PATH_MAX]; /* of the bundle's run; "" = stay here */
    struct cJSON *run;  /* run.json of the bundle, which holds the strings of `command` */
};

/* argv[at] is the bundle, or what follows "--". `usage` is for complaints. 0; -EINVAL: the command
 * line is wrong, or no command can be had of it; -ECANCELED: the user does not want it; other -errno.
 * *err says why. Release in every case. */
int again_choose(struct again *again, int argc, char *argv[], int at, const char *usage,
                 struct rc_err *err);
void again_release(struct again *again);
/* Appends the word quoted so that a shell reads the same word that a person sees: 'a b', 'it'\''s'; where a byte is no
 * printable ASCII $'\xe2\x80\x8b', which bash, zsh and ksh know. */
void again_quote(struct buf *out, const char *text);

#define AGAIN_BUNDLE_MS 90000
#define AGAIN_ENDING_MS 5000 /* at most, once go_on() says that the wait is to end */

/* Before the run: what the command's rocmcrash leaves behind becomes our child. */
void again_adopt_orphans(void);

struct again_wait {
    unsigned milliseconds;        /* at most */
    bool (*go_on)(void *context); /* asked a few times a second; NULL = it is waited in any case */
    void *context;
};

/* After the end of the run's rocmcrash, whose finisher goes on: the bundle of `folder` is there when it has
 * its final name. Ends early where no child is left that could make one. Reaps all children. 0 or
 * -ETIMEDOUT: there is none. */
int again_wait_for_bundle(const char *folder, const struct again_wait *wait, char *out, size_t size);

#endif
