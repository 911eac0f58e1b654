/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/json.h"

#include <inttypes.h>
#include <stdio.h>

#include <cjson/cJSON.h>

void probe_add_number(cJSON *object, const char *name, uint64_t value)
{
    char digits[24];
    (void)snprintf(digits, sizeof digits, "%" PRIu64, value);
    (void)cJSON_AddRawToObject(object, name, digits);
}
