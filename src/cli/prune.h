/* SPDX-License-Identifier: Apache-2.0 */
/* `list --prune`: removes old bundles and runs of a list, after a question. A bundle is the user's: none is
 * removed unasked. */
#ifndef CLI_PRUNE_H
#define CLI_PRUNE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct rc_err;

enum prune_kind {
    PRUNE_BUNDLE,
    PRUNE_RANK_RECORD, /* goes with the bundles of its job */
    PRUNE_RUN,         /* unfinished */
};

struct prune_item {
    char *path;
    uint64_t bytes;
    time_t made_s;     /* by its name; else, and of a record of a rank, that of the file */
    time_t modified_s;
    enum prune_kind kind;
    bool is_gone;
};

struct prune_list {
    struct prune_item *items;
    size_t count;
};

/* How much stays: this many of the newest, or the newest that take this many bytes together. */
struct prune_limit {
    uint64_t count, bytes; /* UINT64_MAX = no limit */
    time_t since_s;        /* what is older goes, too */
};

/* "20", or "500M" with K, M, G or T. 0 or -EINVAL with *err. */
int prune_limit_read(const char *value, struct prune_limit *ret, struct rc_err *err);
/* Only what the effective user owns is added. Without memory the item is not in the list, and stays. */
void prune_add(struct prune_list *list, const char *path, uint64_t bytes, time_t made_s, enum prune_kind kind);
void prune_release(struct prune_list *list);
/* First bundles, then the records of ranks, then runs: lists what will be removed, asks on the terminal (unless
 * `yes`), removes. The limit is not for records: those go that are clearly older than every bundle that is
 * left, because `fleet` counts a rank without a record as missing. Returns 0 also when the answer is no;
 * -EINVAL where there is no terminal to ask on; another -errno when something could not be removed. */
int prune_ask(struct prune_list *list, const struct prune_limit *limit, bool yes, struct rc_err *err);

#endif
