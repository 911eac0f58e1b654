/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A new folder below TMPDIR for what a test writes: tests/run sets TMPDIR inside the checkout, so that a test that dies
 * leaves nothing elsewhere.
 */
#ifndef TEST_TEMP_FOLDER_H
#define TEST_TEMP_FOLDER_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define TEMP_FOLDER_MAX 256

static inline bool temp_folder(char *out, size_t size, const char *prefix)
{
    const char *base = getenv("TMPDIR");
    int n = snprintf(out, size, "%s/%s-XXXXXX", base != NULL && base[0] == '/' ? base : "/tmp", prefix);
    return n > 0 && (size_t)n < size && mkdtemp(out) != NULL;
}

#endif
