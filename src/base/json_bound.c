/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_bound.h"

#include <string.h>

/* Each value but the first stands behind one of these. */
static bool begins_value(char c)
{
    return c == ',' || c == '[' || c == '{';
}

static bool is_bounded(const char *text, size_t len)
{
    size_t count = 1;
    bool in_string = false;
    for (size_t i = 0; i < len && count <= JSON_VALUES_MAX; i++) {
        if (in_string && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            in_string = !in_string;
        else if (!in_string && begins_value(text[i]))
            count++;
    }
    return count <= JSON_VALUES_MAX;
}

bool json_is_named(const char *name)
{
    size_t len = strlen(name), end = strlen(".json");
    return len >= end && strcmp(name + len - end, ".json") == 0;
}

bool json_file_is_bounded(const char *name, const char *text, size_t len)
{
    return !json_is_named(name) || is_bounded(text, len);
}
