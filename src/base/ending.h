/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_ENDING_H
#define BASE_ENDING_H

#include <stdbool.h>
#include <string.h>

/* Is `ending` the end of the text? Any text ends with "". */
static inline bool ends_with(const char *text, const char *ending)
{
    size_t len = strlen(text), want = strlen(ending);
    return len >= want && strcmp(text + len - want, ending) == 0;
}

#endif
