/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A change: one thing that is different in a run, of templates/changes.tsv or of the user. Pure, but for
 * change_hand_over(), which is called in the child that becomes the run.
 */
#ifndef EXPERIMENT_CHANGES_H
#define EXPERIMENT_CHANGES_H

#include <stdbool.h>
#include <stddef.h>

struct facts;
struct rc_err;

#define CHANGES_MAX 15

enum change_kind { CHANGE_ENV, CHANGE_UNSET, CHANGE_ALLOC, CHANGE_LIMIT, CHANGE_ARG };

struct change {
    char id[32];
    enum change_kind kind;
    char name[64];        /* of the variable or limit; of an argument its option, "" = none */
    char value[256];      /* of ALLOC "option:value" */
    char what[96];        /* in words, "" = no other words than change_text() */
    char class_name[32];  /* the class of the failure if the change helps, "" = none follows */
    bool refutes;         /* when it does not help, it is not that */
};

struct changes {
    size_t count;
    struct change change[CHANGES_MAX];
};

/* Adds those of the table that are for the class or for the runner-up (NULL or "" = none), whose condition
 * holds, and that change something here. At most `max` in all; those for the class first. 0, or -EINVAL
 * with the wrong line in *err. */
int changes_choose(struct changes *changes, size_t max, const char *table, const char *class_name,
                   const char *runner_up, const struct facts *facts, struct rc_err *err);
/* One that the user names: "NAME=VALUE", "NAME", "--batch_size 16", "nofile=4096". 0, or -EINVAL with
 * *err. */
int changes_add(struct changes *changes, enum change_kind kind, const char *text, struct rc_err *err);
/* "HSA_ENABLE_SDMA=0", "HSA_ENABLE_SDMA unset", "nofile=4096", "--batch_size 16" */
void change_text(const struct change *change, char *out, size_t size);

/* Puts the change into the environment of this process, which becomes the run's rocmcrash, for the program alone
 * (base/target_change.h). Not for a change of an argument. 0 or -errno. */
int change_hand_over(const struct change *change);
/* The command with the argument in it, in new memory that holds the same strings and those of the change:
 * "--name=value" and "--name value" get the new value, what is not there is added at the end. NULL: no
 * memory. Other kinds: the same command. */
char **change_command(const struct change *change, char *const command[]);

#endif
