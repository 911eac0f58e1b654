/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A site's own rules and collectors: the folder that the variable ROCMCRASH_SITE names (set from the
 * option --site), else /etc/rocmcrash/site.d below the sysroot. Each part may be missing:
 *
 *   tree/ *.json       nodes, asked before ours; ids begin with "site-"
 *   messages.rules     diagnose/site_rules.h
 *   redaction.rules    after ours
 *   collectors/NAME    executables (collectors/site.h)
 *
 * A part that cannot be used, or that others could have written, is left out as a whole, and site_trouble()
 * says so.
 */
#ifndef CLI_SITE_H
#define CLI_SITE_H

#include <stddef.h>

#include "base/err.h"
#include "base/fs.h"

struct collector;
struct facts;
struct rc_err;
struct site_rules;
struct tree;

#define SITE_FILES_MAX 32

struct site {
    char folder[FS_PATH_MAX]; /* "" = none */
    struct site_rules *messages; /* NULL = none */
    char *redaction;             /* the text of checked rules, NULL = none */
    size_t tree_count, collector_count;
    char *tree[SITE_FILES_MAX]; /* paths, sorted */
    const struct collector *collectors[SITE_FILES_MAX + 1]; /* sorted, ends with NULL */
    unsigned troubles;
    struct rc_err trouble; /* the first of them */
};

/* Read once; never NULL. */
struct site *site_get(void);
/* Adds the site's nodes. 0, or -errno with *err; then the tree must not be used. */
int site_add_nodes(const struct site *site, struct tree *tree, struct rc_err *err);
/* Sets the facts that the site's message rules find in a text. */
void site_messages(struct facts *facts, const char *text, size_t len, const char *source);
/* Notes what is wrong, for site_trouble(). */
void site_note(struct site *site, const struct rc_err *err);
/* One line about what is left out; NULL = nothing is. */
const char *site_trouble(const struct site *site);
/* The same on stderr. */
void site_tell(const struct site *site);

#endif
