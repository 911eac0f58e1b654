/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding words of failure in 100 MB: four letters in a row, case folded, are looked up in a set of
 * bits; what is in there is compared. 0.2 s on 2 GHz, where one search a word takes ten times that.
 */
#include "diagnose/condense.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define HEAD_BYTES ((size_t)512 << 10)
#define TAIL_BYTES ((size_t)3 << 20)
#define LINES_BEFORE 4
#define LINES_AFTER 12
/* A line without end is a progress bar or a dump: this much of it is kept around a word. */
#define LINE_MAX_BYTES ((size_t)16 << 10)
#define SET_BITS 16

enum rank { RANK_NONE, RANK_COMMON, RANK_RARE, RANKS };

/* How much of the lines of a rank is kept: the first half of it, and the last. */
static const size_t rank_bytes[RANKS] = {0, (size_t)1 << 20, (size_t)2 << 20};

static const struct word {
    enum rank rank;
    const char *text; /* lower case, four letters and more */
} words[] = {
    {RANK_RARE, "out of memory"},  {RANK_RARE, "out_of_memory"},    {RANK_RARE, "outofmemory"},
    {RANK_RARE, "allocate"},       {RANK_RARE, "allocation"},       {RANK_RARE, "traceback"},
    {RANK_RARE, "exception"},      {RANK_RARE, "fault"},            {RANK_RARE, "killed"},
    {RANK_RARE, "oom-kill"},       {RANK_RARE, "oom_kill"},         {RANK_RARE, "abort"},
    {RANK_RARE, "hiperror"},       {RANK_RARE, "cuda error"},       {RANK_RARE, "hip error"},
    {RANK_RARE, "status_"},        {RANK_RARE, "_error_"},          {RANK_RARE, "exhausted"},
    {RANK_RARE, "core dumped"},    {RANK_RARE, "terminate called"}, {RANK_RARE, "panic"},
    {RANK_RARE, "assert"},         {RANK_RARE, "undefined symbol"}, {RANK_RARE, "shared object"},
    {RANK_RARE, "not enough"},     {RANK_RARE, "insufficient"},     {RANK_RARE, "gpu reset"},
    {RANK_RARE, " hang"},          {RANK_RARE, "/dev/kfd"},         {RANK_RARE, "watchdog"},
    {RANK_RARE, "illegal"},        {RANK_RARE, "no space"},         {RANK_RARE, "bus error"},
    {RANK_RARE, "devicelost"},     {RANK_RARE, "device_lost"},      {RANK_RARE, "bad_alloc"},
    {RANK_RARE, "no kernel image"},{RANK_RARE, "uncorrectable"},    {RANK_RARE, "wedged"},
    {RANK_COMMON, "error"},        {RANK_COMMON, "fail"},           {RANK_COMMON, "cannot"},
    {RANK_COMMON, "unable"},       {RANK_COMMON, "timeout"},        {RANK_COMMON, "timed out"},
    {RANK_COMMON, "refused"},      {RANK_COMMON, "invalid"},        {RANK_COMMON, "corrupt"},
    {RANK_COMMON, "not found"},    {RANK_COMMON, "no such"},        {RANK_COMMON, "signal"},
    {RANK_COMMON, "denied"},       {RANK_COMMON, "unsupported"},
};

struct line {
    size_t start, end; /* end: behind its newline */
    enum rank rank;    /* of it, or of a neighbour */
    bool kept;
};

struct lines {
    struct line *at;
    size_t count, room;
    bool failed;
};

static uint64_t set[(1u << SET_BITS) / 64];

static uint32_t fold_4(const char *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v | 0x20202020u;
}

static uint32_t slot_of(uint32_t four)
{
    return four * 0x9e3779b1u >> (32 - SET_BITS);
}

static void fill_set(void)
{
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        uint32_t slot = slot_of(fold_4(words[i].text));
        set[slot / 64] |= UINT64_C(1) << (slot % 64);
    }
}

static enum rank rank_at(const char *p, size_t left)
{
    enum rank best = RANK_NONE;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t n = strlen(words[i].text);
        if (words[i].rank > best && n <= left && strncasecmp(p, words[i].text, n) == 0)
            best = words[i].rank;
    }
    return best;
}

static enum rank rank_of(const char *p, size_t len)
{
    enum rank best = RANK_NONE;
    for (size_t i = 0; i + 4 <= len && best < RANK_RARE; i++) {
        uint32_t slot = slot_of(fold_4(p + i));
        if ((set[slot / 64] >> (slot % 64) & 1) == 0)
            continue;
        enum rank here = rank_at(p + i, len - i);
        best = here > best ? here : best;
    }
    return best;
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

/* The lines that a word was found in, with their neighbours. */
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

/* Only the newlines of the text that is left out are kept. */
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
    fill_set();
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
