/* SPDX-License-Identifier: Apache-2.0 */
/* What private things look like in text. Pure; used by redact.c. */
#ifndef BUNDLE_REDACT_FORMS_H
#define BUNDLE_REDACT_FORMS_H

#include <stdbool.h>
#include <stddef.h>

#include "bundle/redact.h"

enum redact_secret {
    SECRET_TOKEN, /* of a known issuer, by its prefix */
    SECRET_JWT,
    SECRET_KEY,   /* PRIVATE KEY block */
    SECRET_AUTH,  /* Authorization, Cookie */
    SECRET_URL,   /* scheme://user:password@ */
    SECRET_NAMED, /* PASSWORD=..., --token X */
    REDACT_SECRETS_MAX,
};

extern const char *const redact_secret_names[REDACT_SECRETS_MAX];

struct redact_text {
    const char *p;
    size_t len;
};

/* What to take out: `skip` bytes stay, then `len` bytes go. len 0 = nothing here. */
struct redact_match {
    size_t skip, len;
    enum redact_kind kind;
    enum redact_secret secret;
};

struct redact_match redact_match_form(const struct redact_text *t, size_t at);

/* redact_named.c: a value that its name gives away, name at `at`. */
struct redact_match redact_match_named(const struct redact_text *t, size_t at);
/* redact_address.c: IPv4, IPv6, MAC, UUID, GPU-<16 hex>, mail addresses. */
struct redact_match redact_match_address(const struct redact_text *t, size_t at);

/* redact.c: count it, and write what stands for it. */
void redact_pseudonym(struct redactor *, const struct redact_match *, const char *value,
                      struct buf *out);

/* redact_place.c: where a known name stands. */

/* Says nothing about anybody ("root", "localhost", digits): never hidden. */
bool redact_is_common(const char *value);
/* A word of the trade, or of so few letters that it may be any: hidden only where it is meant. */
bool redact_is_weak(const char *value, size_t short_up_to);
/* Inside a path below /proc or /sys, which the kernel named (but for control groups). */
bool redact_in_kernel_path(const struct redact_text *t, size_t at);
bool redact_in_efivars(const struct redact_text *t, size_t at);
/* A part of a longer name, joined by '_', '.' or '-'. */
bool redact_is_joined(const struct redact_text *t, size_t at, size_t len);
bool redact_stands_as_host(const struct redact_text *t, size_t at, size_t len);
bool redact_stands_as_user(const struct redact_text *t, size_t at, size_t len);

/* Byte at i, or NUL beyond the ends. */
static inline char redact_at(const struct redact_text *t, size_t i)
{
    return i < t->len ? t->p[i] : '\0';
}

#endif
