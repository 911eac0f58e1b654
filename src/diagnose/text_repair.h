/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pasted text: joins lines that a terminal, an e-mail or a form has wrapped. Pure.
 */
#ifndef DIAGNOSE_TEXT_REPAIR_H
#define DIAGNOSE_TEXT_REPAIR_H

#include <stddef.h>

/* The text with its wrapped lines joined. A joined line is followed by empty lines for those it took,
 * so that all lines keep their numbers. NULL: nothing was wrapped, the text is too long (256 KiB), or
 * memory is short. free() it; *ret_len without the NUL. */
char *text_unwrap(const char *data, size_t len, size_t *ret_len);

#endif
