/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers at a place in a text: the fields of a /proc line, the number in a file's name. Nothing is
 * skipped before them (no blanks, no sign, no "0x"), nothing wraps: what does not fit is no number.
 * A whole text that is one number: fs_parse_u64().
 */
#ifndef BASE_NUMBER_H
#define BASE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* The digits at *at, base 10 or 16; *at moves behind them. False, and *at and *ret as they were,
 * when there are none or they say more than 64 bits. */
bool number_take(const char **at, unsigned base, uint64_t *ret);

/* The same with the character that must follow, which is passed over too. */
bool number_take_before(const char **at, unsigned base, char behind, uint64_t *ret);

/* A field of a line: blanks, digits, then white space or the end. */
bool number_of_field(const char *text, uint64_t *ret);

/* "renderD128" with "renderD" -> 128; -1 when the name is not the prefix and digits alone, or when
 * they say more than INT32_MAX. */
int64_t number_in_name(const char *name, const char *prefix);

/* The whole number next to zero; what does not fit is the nearest that does, NaN is 0. For figures
 * out of files that somebody else wrote: the cast alone is undefined there. */
int64_t number_from_real(double value);
/* Stops at the ends instead of wrapping. */
int64_t number_sum(int64_t a, int64_t b);

#endif
