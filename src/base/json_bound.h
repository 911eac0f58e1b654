/* SPDX-License-Identifier: Apache-2.0 */
/* A parser takes some 80 bytes for each value of a JSON text, and somebody else's text can have a value
 * in every two bytes. */
#ifndef BASE_JSON_BOUND_H
#define BASE_JSON_BOUND_H

#include <stdbool.h>
#include <stddef.h>

#define JSON_VALUES_MAX 1000000u

/* At most that many values. Asked before parsing; text that is no JSON may have either answer. */
bool json_is_bounded(const char *text, size_t len);

#endif
