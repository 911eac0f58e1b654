/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/condense.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "diagnose/log_words.h"

#define HEAD_BYTES ((size_t)512 << 10)
#define TAIL_BYTES ((size_t)3 << 20)
#define LINES_BEFORE 4
#define LINES_AFTER 12
/* A very long line is a progress bar or a dump: only this many bytes around a word are kept. */
#define LINE_MAX_BYTES ((size_t)16 << 10)

enum rank { RANK_NONE, RANK_COMMON, RANK_RARE, RANKS };

/* Bytes kept of the lines of one rank: half from the first lines, half from the last. */
static const size_t rank_bytes[RANKS] = {0, (size_t)1 << 20, (size_t)2 << 20};

struct line {
    size_t start, end; /* end: after its newline */
    enum rank rank;    /* rank of the line, or of a neighbour */
    bool kept;
};

struct lines {
    struct line *at;
    size_t count, room;
    bool failed;
};

static enum rank rank_of(const char *p, size_t len)
{
    uint64_t found = log_words_in(p, len, LOG_WORDS_FAILURE_RARE);
    return (found & LOG_WORDS_FAILURE_RARE) != 0     ? RANK_RARE
           : (found & LOG_WORDS_FAILURE_COMMON) != 0 ? RANK_COMMON
                                                     : RANK_NONE;
}

static struct line *add(struct lines *all, size_t start, size_t end, enum rank rank)
{
    if (all->count == all->room) {
        size_t room = all->room > 0 ? 2 * all->room : 4096;
        struct line *more = realloc(all->at, room * sizeof *more);
        if (more == NULL) {
            all->failed = true;
            return NULL;
        }
        all->at = more;
        all->room = room;
    }
    all->at[all->count] = (struct line){.start = start, .end = end, .rank = rank};
    return &all->at[all->count++];
}

/* The lines that hold a word, with their neighbours. */
static size_t find(const char *data, size_t len, struct lines *all)
{
    size_t before[LINES_BEFORE][2] = {{0}}; /* the last lines that were not added */
    size_t known = 0, after = 0, found = 0;
    enum rank last = RANK_NONE;
    for (size_t at = 0; at < len && !all->failed;) {
        const char *newline = memchr(data + at, '\n', len - at);
        size_t end = newline != NULL ? (size_t)(newline + 1 - data) : len;
        size_t look = end - at < LINE_MAX_BYTES ? end - at : LINE_MAX_BYTES;
        enum rank rank = rank_of(data + at, look);
        if (rank != RANK_NONE) {
            for (size_t i = known < LINES_BEFORE ? 0 : known - LINES_BEFORE; i < known; i++)
                (void)add(all, before[i % LINES_BEFORE][0], before[i % LINES_BEFORE][1], rank);
            known = 0;
            after = LINES_AFTER;
            last = rank;
            found++;
        }
        if (rank != RANK_NONE || after > 0) {
            (void)add(all, at, at + look, rank != RANK_NONE ? rank : last);
            after -= after > 0 && rank == RANK_NONE;
        } else {
            before[known % LINES_BEFORE][0] = at;
            before[known % LINES_BEFORE][1] = at + look;
            known++;
        }
        at = end;
    }
    return found;
}

static void choose_rank(struct lines *all, enum rank rank)
{
    size_t spent = 0;
    for (size_t i = 0; i < all->count && spent < rank_bytes[rank] / 2; i++) {
        if (all->at[i].rank != rank)
            continue;
        all->at[i].kept = true;
        spent += all->at[i].end - all->at[i].start;
    }
    spent = 0;
    for (size_t i = all->count; i > 0 && spent < rank_bytes[rank] / 2; i--) {
        struct line *line = &all->at[i - 1];
        if (line->rank != rank || line->kept)
            continue;
        line->kept = true;
        spent += line->end - line->start;
    }
}

static size_t count_newlines(const char *data, size_t from, size_t to)
{
    size_t n = 0;
    const char *p = data + from;
    while (from < to && (p = memchr(p, '\n', (size_t)(data + to - p))) != NULL) {
        n++;
        p++;
    }
    return n;
}

struct copy {
    const char *data;
    struct condensed *out;
    size_t done; /* of data */
};

/* Keeps only the newlines of the omitted text. */
static void copy_range(struct copy *c, size_t from, size_t to)
{
    if (from < c->done)
        from = c->done;
    if (to <= from)
        return;
    size_t n = count_newlines(c->data, c->done, from);
    memset(c->out->text + c->out->len, '\n', n);
    c->out->len += n;
    memcpy(c->out->text + c->out->len, c->data + from, to - from);
    c->out->len += to - from;
    c->done = to;
}

static size_t line_start(const char *data, size_t at)
{
    size_t look = at < LINE_MAX_BYTES ? at : LINE_MAX_BYTES;
    const char *newline = look > 0 ? memrchr(data + at - look, '\n', look) : NULL;
    return newline != NULL ? (size_t)(newline + 1 - data) : at;
}

int condense(const char *data, size_t len, struct condensed *ret)
{
    struct lines all = {.count = 0};
    struct copy c = {.data = data, .out = ret};
    *ret = (struct condensed){.lines_found = find(data, len, &all)};
    size_t room = HEAD_BYTES + TAIL_BYTES + LINE_MAX_BYTES + count_newlines(data, 0, len) + 1;
    for (enum rank rank = RANK_COMMON; rank < RANKS; rank++) {
        choose_rank(&all, rank);
        room += rank_bytes[rank] + 2 * LINE_MAX_BYTES;
    }
    ret->text = all.failed ? NULL : malloc(room);
    if (ret->text != NULL) {
        size_t tail = line_start(data, len > TAIL_BYTES ? len - TAIL_BYTES : 0);
        copy_range(&c, 0, line_start(data, len < HEAD_BYTES ? len : HEAD_BYTES));
        for (size_t i = 0; i < all.count; i++) {
            const struct line *line = &all.at[i];
            if (line->kept && line->start < tail)
                copy_range(&c, line->start, line->end < tail ? line->end : tail);
            else if (!line->kept && line->start >= c.done && line->start < tail)
                ret->lines_left++;
        }
        copy_range(&c, tail, len);
        ret->text[ret->len] = '\0';
    }
    free(all.at);
    return ret->text != NULL ? 0 : -ENOMEM;
}
