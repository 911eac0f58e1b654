/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch's memory in use at two moments, and what grew between them: by call site if stacks were
 * recorded (--torch-history), else by size of the block. The early moments are marks that
 * inject/python wrote while the program ran; the late one is the snapshot of the failure.
 */
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "collectors/lib/cleantext.h"
#include "collectors/lib/torch_snapshot.h"

#define CELLS 5

void torch_class_names(struct torch_class *classes)
{
    static const char *const names[TORCH_CLASSES] = {"up to 1 MiB", "up to 10 MiB", "up to 100 MiB",
                                                     "up to 1 GiB", "above 1 GiB"};
    for (size_t i = 0; i < TORCH_CLASSES; i++)
        classes[i].name = names[i];
}

void torch_live_release(struct torch_live *live)
{
    for (size_t i = 0; i < live->site_count; i++)
        free(live->sites[i].where);
    free(live->sites);
    *live = (struct torch_live){0};
}

/* --- marks --- */

/* 12290510677263,0,2,1048576000,25,          in use in blocks of the third class
 * 12290510677263,0,,943718400,12,train.py:31 step          in use from one call site */
struct mark_row {
    uint64_t time_ns;
    int64_t device, size_class, bytes, blocks; /* size_class -1: of a call site */
    const char *where;                         /* `where_len` bytes */
    size_t where_len;
};

static bool parse_mark(const char *line, const char *end, struct mark_row *ret)
{
    int64_t cells[CELLS];
    const char *at = line;
    for (int i = 0; i < CELLS; i++) {
        cells[i] = at < end && *at != ',' ? 0 : -1;
        for (; at < end && *at != ','; at++) {
            if (*at < '0' || *at > '9' || cells[i] > INT64_MAX / 10 - 1)
                return false;
            cells[i] = cells[i] * 10 + (*at - '0');
        }
        if (at == end)
            return false;
        at++;
    }
    *ret = (struct mark_row){(uint64_t)cells[0], cells[1], cells[2], cells[3], cells[4],
                             at, (size_t)(end - at)};
    return cells[0] > 0 && cells[1] >= 0 && cells[3] >= 0 && cells[4] >= 0 &&
           cells[2] < TORCH_CLASSES && (cells[2] >= 0) == (ret->where_len == 0);
}

/* The next row of the device; false: no more. */
static bool next_mark(const char **at, const char *end, int device, struct mark_row *ret)
{
    while (*at < end) {
        const char *newline = memchr(*at, '\n', (size_t)(end - *at));
        const char *line = *at;
        if (newline == NULL)
            return false; /* torn: the process was killed while it wrote */
        *at = newline + 1;
        if (parse_mark(line, newline, ret) && (device < 0 || ret->device == device))
            return true;
    }
    return false;
}

bool torch_live_times(const char *text, size_t len, int device, uint64_t *ret_first,
                      uint64_t *ret_last)
{
    struct mark_row row;
    bool any = false;
    for (const char *at = text; next_mark(&at, text + len, device, &row); any = true) {
        if (!any)
            *ret_first = row.time_ns;
        *ret_last = row.time_ns;
    }
    return any;
}

static bool take_row(struct torch_live *live, const struct mark_row *row)
{
    if (row->size_class >= 0) {
        struct torch_class *class = &live->classes[row->size_class];
        class->bytes = number_sum(class->bytes, row->bytes);
        class->blocks = number_sum(class->blocks, row->blocks);
        return true;
    }
    if (live->site_count == TORCH_SITES_MAX)
        return true;
    struct torch_site *site = &live->sites[live->site_count];
    *site = (struct torch_site){strndup(row->where, row->where_len), row->bytes, row->blocks};
    if (site->where == NULL)
        return false;
    live->site_count++;
    /* The rows of a mark begin with the largest site; small sites are left out. */
    live->unlisted_bytes = row->bytes;
    return true;
}

bool torch_live_of_marks(const char *text, size_t len, int device, uint64_t until_ns,
                         struct torch_live *ret)
{
    struct mark_row row;
    uint64_t chosen = 0;
    *ret = (struct torch_live){0};
    for (const char *at = text; next_mark(&at, text + len, device, &row);)
        if (chosen == 0 || row.time_ns <= until_ns)
            chosen = row.time_ns;
    if (chosen == 0 || (ret->sites = calloc(TORCH_SITES_MAX, sizeof *ret->sites)) == NULL)
        return false;
    torch_class_names(ret->classes);
    ret->time_ns = chosen;
    for (const char *at = text; next_mark(&at, text + len, device, &row);)
        if (row.time_ns == chosen && !take_row(ret, &row)) {
            torch_live_release(ret);
            return false;
        }
    if (ret->site_count < TORCH_MARK_SITES)
        ret->unlisted_bytes = 0; /* all of them are there */
    return true;
}

/* --- what grew --- */

static const struct torch_site *find_site(const struct torch_live *live, const char *where)
{
    for (size_t i = 0; i < live->site_count; i++)
        if (live->sites[i].where != NULL && strcmp(live->sites[i].where, where) == 0)
            return &live->sites[i];
    return NULL;
}

static void find_grower(const struct torch_live *before, const struct torch_live *after,
                        struct torch_grown *ret)
{
    for (size_t i = 0; i < after->site_count; i++) {
        const struct torch_site *site = &after->sites[i];
        if (site->where == NULL)
            continue;
        const struct torch_site *was = find_site(before, site->where);
        int64_t bytes = site->bytes - (was != NULL ? was->bytes : before->unlisted_bytes);
        if (bytes <= ret->site_bytes)
            continue;
        ret->site_bytes = bytes;
        ret->site_blocks = was != NULL ? site->blocks - was->blocks : site->blocks;
        cleantext_copy(ret->site, sizeof ret->site, site->where, strlen(site->where));
    }
}

struct torch_grown torch_live_growth(const struct torch_live *before,
                                     const struct torch_live *after)
{
    struct torch_grown g = {0};
    torch_class_names(g.classes);
    for (size_t i = 0; i < TORCH_CLASSES; i++) {
        g.classes[i].bytes = after->classes[i].bytes - before->classes[i].bytes;
        g.classes[i].blocks = after->classes[i].blocks - before->classes[i].blocks;
        g.bytes = number_sum(g.bytes, g.classes[i].bytes);
    }
    /* Without call sites at the early moment every later site would seem to have grown. */
    if (before->site_count > 0)
        find_grower(before, after, &g);
    return g;
}
