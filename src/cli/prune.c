/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/prune.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/say.h"
#include "record/rundir.h"

#define KIB 1024.0
#define OF_ONE_JOB_S 3600 /* a record and a bundle of one job are never further apart */

int prune_limit_read(const char *value, struct prune_limit *ret, struct rc_err *err)
{
    static const char units[] = "KMGT";
    char *end = NULL;
    errno = 0;
    unsigned long long number = isdigit((unsigned char)value[0]) ? strtoull(value, &end, 10) : 0;
    const char *unit = end != NULL && *end != '\0' ? strchr(units, toupper((unsigned char)*end)) : NULL;
    bool is_count = end != NULL && *end == '\0';
    if (errno != 0 || number >= UINT64_MAX >> 40 || (!is_count && (unit == NULL || end[1] != '\0')))
        return rc_err_set(err, -EINVAL, "--prune takes a number of bundles ('20') or a size ('500M'), not '%s'", value);
    *ret = (struct prune_limit){UINT64_MAX, UINT64_MAX, 0};
    if (is_count)
        ret->count = number;
    else
        ret->bytes = (uint64_t)number << (10 * (unit - units + 1));
    return 0;
}

/* Newer files of a neighbour, or links that he lays, must not push out ours. */
void prune_add(struct prune_list *list, const char *path, uint64_t bytes, time_t made_s, enum prune_kind kind)
{
    struct stat st;
    if (lstat(path, &st) != 0 || st.st_uid != geteuid() || S_ISLNK(st.st_mode))
        return;
    struct prune_item *more = realloc(list->items, (list->count + 1) * sizeof *more);
    if (more == NULL)
        return;
    list->items = more;
    more[list->count] = (struct prune_item){strdup(path), bytes, made_s, st.st_mtime, kind, false};
    if (more[list->count].path != NULL)
        list->count++;
}

void prune_release(struct prune_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i].path);
    free(list->items);
    *list = (struct prune_list){NULL, 0};
}

/* The newest first; within one second, the later name first. */
static int by_age(const void *a, const void *b)
{
    const struct prune_item *x = a;
    const struct prune_item *y = b;
    if (x->made_s != y->made_s)
        return x->made_s < y->made_s ? 1 : -1;
    return strcmp(y->path, x->path);
}

/* Whether this one stays, if those before it do. */
static bool stays(const struct prune_item *item, const struct prune_limit *limit, size_t before, uint64_t bytes_with_it)
{
    return before < limit->count && bytes_with_it <= limit->bytes && item->modified_s >= limit->since_s;
}

/* A run that another process works on is left alone, and so is one whose lock cannot be tested. */
static int remove_one(const struct prune_item *item)
{
    if (item->kind != PRUNE_RUN)
        return unlink(item->path) == 0 ? 0 : -errno;
    RC_AUTO_CLOSE int lock = rundir_lock(item->path);
    if (lock < 0)
        return lock == -EWOULDBLOCK ? 0 : lock;
    return fs_remove_tree(AT_FDCWD, item->path);
}

static bool is_wanted(size_t count, double bytes, enum prune_kind kind, bool yes, struct rc_err *err)
{
    char answer[16] = "";
    if (yes)
        return true;
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)) {
        (void)rc_err_set(err, -EINVAL, "nothing is removed without a question: --yes removes these");
        return false;
    }
    if (kind == PRUNE_RUN)
        (void)fprintf(stderr, "rocmcrash: remove these %zu unfinished runs, %.0f KiB ('rocmcrash recover' makes "
                              "bundles of them)? [y/N] ", count, bytes / KIB);
    else if (kind == PRUNE_RANK_RECORD)
        (void)fprintf(stderr, "rocmcrash: remove these %zu records of ranks, %.0f KiB? [y/N] ", count, bytes / KIB);
    else
        (void)fprintf(stderr, "rocmcrash: remove these %zu bundles, %.0f KiB? [y/N] ", count, bytes / KIB);
    return fgets(answer, sizeof answer, stdin) != NULL && (answer[0] | 32) == 'y';
}

static int prune_kind(struct prune_list *list, const struct prune_limit *limit, enum prune_kind kind, bool yes,
                      struct rc_err *err)
{
    size_t kept = 0;
    size_t from = list->count;
    size_t going = 0;
    uint64_t bytes = 0;
    uint64_t freed = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct prune_item *item = &list->items[i];
        if (item->kind != kind)
            continue;
        bytes += item->bytes;
        if (from == list->count && stays(item, limit, kept, bytes)) {
            kept++;
            continue;
        }
        from = from == list->count ? i : from; /* all that are older go, too */
        going++;
        freed += item->bytes;
    }
    for (size_t i = list->count; i-- > from;) /* the oldest first, as names in the table above stand */
        if (list->items[i].kind == kind)
            (void)say_whole(stderr, "rocmcrash: %s: %s", yes ? "removes" : "would be removed", list->items[i].path);
    if (going == 0 || !is_wanted(going, (double)freed, kind, yes, err))
        return going > 0 && err->msg[0] != '\0' ? -EINVAL : 0;
    int result = 0;
    for (size_t i = from; i < list->count; i++) {
        if (list->items[i].kind != kind)
            continue;
        int r = remove_one(&list->items[i]);
        list->items[i].is_gone = r == 0;
        if (r < 0)
            result = rc_err_errno(err, r, "cannot remove '%s'", list->items[i].path);
    }
    return result;
}

/* For records. Without a bundle none of them has a use. */
static struct prune_limit with_bundles(const struct prune_list *list)
{
    struct prune_limit limit = {0, 0, 0};
    for (size_t i = 0; i < list->count; i++) /* the newest first */
        if (list->items[i].kind == PRUNE_BUNDLE && !list->items[i].is_gone)
            limit = (struct prune_limit){UINT64_MAX, UINT64_MAX, list->items[i].modified_s - OF_ONE_JOB_S};
    return limit;
}

int prune_ask(struct prune_list *list, const struct prune_limit *limit, bool yes, struct rc_err *err)
{
    if (list->count > 0)
        qsort(list->items, list->count, sizeof *list->items, by_age);
    int r = prune_kind(list, limit, PRUNE_BUNDLE, yes, err);
    struct prune_limit of_records = with_bundles(list);
    if (r == 0)
        r = prune_kind(list, &of_records, PRUNE_RANK_RECORD, yes, err);
    return r < 0 ? r : prune_kind(list, limit, PRUNE_RUN, yes, err);
}
