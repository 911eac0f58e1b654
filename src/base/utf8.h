/* SPDX-License-Identifier: Apache-2.0 */
/* Well-formed UTF-8 (RFC 3629): no surrogates, no overlong forms, nothing above U+10FFFF. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes (1 to 4) of the character at p, of which `left` can be read; 0 = no complete character. A NUL is a
 * character. */
size_t utf8_length(const unsigned char *p, size_t left);
/* The same, and stores the character if there is one. */
size_t utf8_decode(const unsigned char *p, size_t left, uint32_t *ret_point);
/* A control, or an invisible character that hides, joins or reorders its neighbours. */
bool utf8_is_hidden(uint32_t point);

#endif
