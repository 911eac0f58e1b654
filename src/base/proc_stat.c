/* SPDX-License-Identifier: Apache-2.0 */
#include "base/proc_stat.h"

#include <stdlib.h>
#include <string.h>

uint64_t proc_stat_field(const char *line, int number)
{
    const char *at = strrchr(line, ')');
    for (int field = 2; at != NULL && field < number; field++)
        at = strchr(at + 1, ' ');
    return at != NULL ? strtoull(at, NULL, 10) : 0;
}
