/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Translates messages of the C library and the shell into English, which the readers of messages know.
 * Pure.
 */
#ifndef DIAGNOSE_TEXT_TRANSLATE_H
#define DIAGNOSE_TEXT_TRANSLATE_H

#include <stddef.h>

/* The text with these messages in English, line by line. NULL: the text has no such message, or memory is
 * short. free() it; *ret_len without the NUL. */
char *text_translate(const char *data, size_t len, size_t *ret_len);

#endif
