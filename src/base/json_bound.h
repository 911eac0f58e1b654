/* SPDX-License-Identifier: Apache-2.0 */
/* A parser takes some 80 bytes for each value of a JSON text, and somebody else's text can have a value
 * in every two bytes. */
#ifndef BASE_JSON_BOUND_H
#define BASE_JSON_BOUND_H

#include <stdbool.h>
#include <stddef.h>

#define JSON_VALUES_MAX 1000000u

/* The name ends in ".json". */
bool json_is_named(const char *name);

/* May the file be read? A file named ".json" has at most that many values; any other file may have anything.
 * Asked before parsing; text that is no JSON may have either answer. */
bool json_file_is_bounded(const char *name, const char *text, size_t len);

#endif
