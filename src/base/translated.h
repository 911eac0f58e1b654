/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of the C library and the shell in the user's language: templates/translations.tsv, built in. Pure,
 * and not for threads: the table is indexed at the first call.
 */
#ifndef BASE_TRANSLATED_H
#define BASE_TRANSLATED_H

#include <stdbool.h>
#include <stddef.h>

struct translated {
    size_t len;          /* bytes of the text that are the message */
    const char *english; /* not terminated; never freed */
    size_t english_len;
};

/* The first place from `at` where one may begin; `len` = none. */
size_t translated_may_begin(const char *text, size_t len, size_t at);
/* Does a translated message begin at text[at]? The longest one. */
bool translated_at(const char *text, size_t len, size_t at, struct translated *ret);

/* Does text[from, to) lie in such a message? */
bool translated_covers(const char *text, size_t len, size_t from, size_t to);

#endif
