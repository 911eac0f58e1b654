/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text as people paste it: lines that a terminal, an e-mail or a form wrapped are joined again. Pure.
 */
#ifndef DIAGNOSE_TEXT_REPAIR_H
#define DIAGNOSE_TEXT_REPAIR_H

#include <stddef.h>

/* The text with its wrapped lines joined; behind a joined line stand as many empty ones as it took, so
 * that all keep their numbers. NULL: nothing was wrapped, it is too long for that (256 KiB), or memory
 * is short. free() it; *ret_len without the NUL. */
char *text_unwrap(const char *data, size_t len, size_t *ret_len);

#endif
