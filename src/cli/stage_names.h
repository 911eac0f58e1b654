/* SPDX-License-Identifier: Apache-2.0 */
/* The names of the files in a stage, "output/stderr.txt". */
#ifndef CLI_STAGE_NAMES_H
#define CLI_STAGE_NAMES_H

#include <stddef.h>

#define STAGE_NAMES_MAX 512

struct stage_names {
    const char *list[STAGE_NAMES_MAX]; /* owned */
    size_t count;
};

/* Files of the stage and of its folders; one that has more is cut. */
void stage_names_read(const char *stage, struct stage_names *ret);
/* A name that is there already is not added again. */
void stage_names_add(struct stage_names *names, const char *name);
/* A folder lists its files in any order; sorted names make the output the same each time. */
void stage_names_sort(struct stage_names *names);
void stage_names_release(struct stage_names *names);

#endif
