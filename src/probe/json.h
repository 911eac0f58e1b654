/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers in the JSON of the probe: sizes and masks go beyond 2^53, so a double does not hold them. */
#ifndef PROBE_JSON_H
#define PROBE_JSON_H

#include <stdint.h>

struct cJSON;

/* Adds the number as digits. */
void probe_add_number(struct cJSON *object, const char *name, uint64_t value);

#endif
