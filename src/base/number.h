/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers at a place in a text: the fields of a /proc line, the number in a file's name. Nothing
 * before them is skipped (no blanks, no sign, no "0x"). A number that does not fit is an error. A
 * whole text that is one number: fs_parse_u64().
 */
#ifndef BASE_NUMBER_H
#define BASE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* The digits at *at, base 10 or 16; *at moves past them. False if there are none or they do not
 * fit 64 bits; then *at and *ret are unchanged. */
bool number_take(const char **at, unsigned base, uint64_t *ret);

/* The same with a character that must follow. *at moves past it, too. */
bool number_take_before(const char **at, unsigned base, char behind, uint64_t *ret);

/* A field of a line: blanks, digits, then white space or the end. */
bool number_of_field(const char *text, uint64_t *ret);

/* "6.14.0-1014-oem" -> 61400 (major*10000 + minor*100 + patch). */
bool number_of_version(const char *release, int64_t *ret);

/* "renderD128" with "renderD" -> 128; -1 if the name is anything else than the prefix and digits,
 * or the number exceeds INT32_MAX. */
int64_t number_in_name(const char *name, const char *prefix);

/* Rounds towards zero. A value out of range becomes the nearest one in range, NaN becomes 0. For
 * figures from foreign files: a plain cast is undefined for them. */
int64_t number_from_real(double value);
/* Stops at the ends instead of wrapping. */
int64_t number_sum(int64_t a, int64_t b);

#endif
