/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: a condition as somebody types it, or as a file of settings has it. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "telemetry/condition.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct condition_list list = {.count = 0};
    struct rc_err err = {""};
    char *text = strndup((const char *)data, size);
    if (text == NULL)
        abort();
    int r = conditions_parse(text, &list, &err);
    if ((r == 0) != (err.msg[0] == '\0') || (r == 0 && (list.count == 0 || list.count > CONDITIONS_MAX)))
        abort();
    for (unsigned i = 0; r == 0 && i < list.count; i++)
        if (!isfinite(list.list[i].threshold) || list.list[i].threshold < 0)
            abort();
    (void)conditions_idle_ms(&list);
    free(text);
    return 0;
}
