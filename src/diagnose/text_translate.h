/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of the C library and the shell in another language, as the readers of messages know them. Pure.
 */
#ifndef DIAGNOSE_TEXT_TRANSLATE_H
#define DIAGNOSE_TEXT_TRANSLATE_H

#include <stddef.h>

/* The text with these messages in English, line by line. NULL: it has none, or memory is short. free() it;
 * *ret_len without the NUL. */
char *text_translate(const char *data, size_t len, size_t *ret_len);

#endif
