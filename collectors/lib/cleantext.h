/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cleans text from foreign files for JSON and reports: valid UTF-8, no control characters, cut at a
 * character.
 */
#ifndef COLLECTORS_LIB_CLEANTEXT_H
#define COLLECTORS_LIB_CLEANTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cJSON;

/* At most size-1 bytes of `in`; invalid UTF-8 and control characters become '?'. */
void cleantext_copy(char *out, size_t size, const void *in, size_t len);

/* cJSON keeps numbers as double: exact 64-bit values travel as raw text. */
void cleantext_json_u64(struct cJSON *object, const char *name, uint64_t value);
/* Adds a cleaned copy; omits an empty one. */
void cleantext_json_text(struct cJSON *object, const char *name, const char *text);

/* Does `text` end with / begin with ...? */
bool cleantext_ends(const char *text, const char *suffix);
bool cleantext_starts(const char *text, const char *prefix);
/* The part after the last '/'. */
const char *cleantext_base(const char *path);
/* Exactly n lower-case hex digits? */
bool cleantext_is_hex(const char *text, size_t n);

#endif
