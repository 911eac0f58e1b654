/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First privacy layer for text that is staged: known names (user, home, host) and things that show
 * themselves by form (tokens, keys, addresses, serials) become stable pseudonyms or "<secret:...>".
 *
 * Numbers, addresses (0x...), sizes, versions, PCI addresses, gfx names and hashes stay as they
 * are: a bundle must judge the same before and after. The map from pseudonym to name never leaves
 * the redactor. Pass whole texts: what is split over two calls is not seen.
 */
#ifndef BUNDLE_REDACT_H
#define BUNDLE_REDACT_H

#include <stddef.h>
#include <stdint.h>

struct buf;
struct cJSON;
struct redactor;

enum redact_kind {
    REDACT_SECRET, /* <secret:what>; no number, nothing to tell apart */
    REDACT_HOME,   /* <home1> */
    REDACT_USER,   /* <user1> */
    REDACT_HOST,   /* <host1> */
    REDACT_IP,     /* <ip1>, IPv4 and IPv6; loopback and "any" stay */
    REDACT_MAC,    /* <mac1> */
    REDACT_ID,     /* <id1>: GPU serials and unique ids, UUIDs, machine-id */
    REDACT_EMAIL,  /* <email1> */
    REDACT_KIND_MAX,
};

struct redactor *redactor_new(void);
void redactor_free(struct redactor *);
/*
 * A known value of HOME, USER, HOST (or any kind but SECRET), found in both cases. Values of five
 * and more characters are found inside other words too, shorter ones as words only. Words of the
 * trade ("torch", "memory") and the shortest names are hidden where they stand as a user
 * or a host ("torch@vm", "host: vm", "vm:29500", a line of syslog), and in home folders; "root" and
 * "localhost" never. Paths below /proc and /sys keep their words. 0, -EINVAL, -ENOMEM.
 */
int redactor_add(struct redactor *, enum redact_kind kind, const char *value);
/* The names of this machine and of whoever runs us: $HOME, $USER, $LOGNAME, $SUDO_USER, passwd
 * entry, host name and its first part, machine-id. 0 or -ENOMEM. */
int redactor_add_machine(struct redactor *);
/* Append `in` to `out`, redacted. 0 or -ENOMEM (then `out` must not be used). */
int redact_text(struct redactor *, const char *in, size_t len, struct buf *out);
/* Every string of a document in place, but those under the keys of `keep` (NULL-terminated, or
 * NULL), which are words of ours. It stays well-formed. 0 or -ENOMEM (then it must not be used). */
int redact_json(struct redactor *, struct cJSON *document, const char *const keep[]);
uint64_t redactor_count(const struct redactor *, enum redact_kind kind);
/* {"format":1,"counts":{"secret":2,...},"secrets":{"github":1,...}}: by kind, no values. */
int redactor_report_json(const struct redactor *, struct buf *out);

#endif
