/* SPDX-License-Identifier: Apache-2.0 */
/* templates/computed.json for a group of tests: its set-up and tear-down. */
#ifndef TEST_SHIPPED_COMPUTED_H
#define TEST_SHIPPED_COMPUTED_H

#include <stdio.h>

#include "base/err.h"
#include "diagnose/computed.h"

static struct computed *computed;

static int read_computed(void **state)
{
    struct rc_err err = {""};
    (void)state;
    computed = computed_read(TEST_SOURCE_DIR "/templates/computed.json", &err);
    if (computed == NULL)
        (void)fprintf(stderr, "%s\n", err.msg);
    return computed != NULL ? 0 : -1;
}

static int free_computed(void **state)
{
    (void)state;
    computed_free(computed);
    return 0;
}

#endif
