/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The figures of PyTorch's out-of-memory message, in every wording since 0.x.
 *
 * Pure. The message may be cut at its beginning (a UI lost the first words) or its end, wrapped
 * within a sentence or a word, quoted with '#' or '|', and repeated in one log. So it is
 * not matched as a whole: we search for anchors, remove the line ends in a window around each, and
 * search for every clause by itself.
 */
#include "diagnose/messages.h"

#include <string.h>

/* The longest message with six holders is about 1200 bytes; wrapping and quoting add to it. */
#define WINDOW_MAX 2400
#define ANCHORS 8
#define STRONG 3

static const char *const anchors[ANCHORS] = {
    "Tried to allocate ", /* strong: begins a message; also wrapped after "allocate" */
    "Tried to\n",
    "Currently allocated ", /* backend:cudaMallocAsync */
    " total capac",
    " already allocated",
    "reserved in total by",
    " reserved by PyTorch but",
    " allowed;",
};

/* Line ends, and the marks that UIs put at line starts, become one space, or nothing. */
static struct text unwrap(struct text in, const char *joint, char *out, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < in.len && n + 2 < size; i++) {
        char c = in.at[i];
        if (c != '\n' && c != '\r') {
            if (!(c == ' ' && n > 0 && out[n - 1] == ' '))
                out[n++] = c;
            continue;
        }
        while (i + 1 < in.len && strchr(" \t\r\n#|>", in.at[i + 1]) != NULL && in.at[i + 1] != '\0')
            i++;
        if (*joint != '\0' && n > 0 && out[n - 1] != ' ')
            out[n++] = *joint;
    }
    return (struct text){out, n};
}

/* "Process 655 has 118.51 GiB memory in use." once per holder: we name the largest. */
static void read_holders(struct oom *o, struct text in)
{
    struct text rest = in;
    while (text_after(rest, "Process ", &rest)) {
        uint64_t pid;
        int64_t bytes;
        struct text t = rest;
        if (!text_take_u64(&t, &pid) || pid > INT32_MAX || !text_starts(t, " has "))
            continue;
        t = text_skip(t, 5);
        if (!text_take_size(&t, TEXT_SIZE_BINARY | TEXT_SIZE_NEEDS_UNIT, &bytes) ||
            !text_starts(t, " memory in use"))
            continue;
        if (!oom_has(o, OOM_HOLDER_BYTES) || bytes > o->value[OOM_HOLDER_BYTES]) {
            oom_set(o, OOM_HOLDER_PID, (int64_t)pid);
            oom_set(o, OOM_HOLDER_BYTES, bytes);
        }
    }
}

static struct oom read_window(struct text in)
{
    struct oom o = {.framework = "pytorch"};
    struct rule_takes takes = {.count = 0};
    rule_take(RULE_TORCH_MESSAGE, in, &takes);
    oom_take(&o, &takes);
    read_holders(&o, in);
    /* "cached" of 1.0-1.3 was reserved minus allocated, "reserved in total" of 1.4-2.0 is not. */
    if (!oom_has(&o, OOM_UNALLOCATED) && oom_has(&o, OOM_RESERVED)) {
        int64_t reserved = o.value[OOM_RESERVED];
        bool cached = text_has(in, " cached)");
        if (cached)
            oom_set(&o, OOM_UNALLOCATED, reserved);
        else if (oom_has(&o, OOM_ALLOCATED) && reserved >= o.value[OOM_ALLOCATED])
            oom_set(&o, OOM_UNALLOCATED, reserved - o.value[OOM_ALLOCATED]);
        if (cached)
            o.known &= ~(1u << OOM_RESERVED);
    }
    return o;
}

static unsigned figures(const struct oom *o)
{
    return (unsigned)__builtin_popcount(o->known & ~(1u << OOM_DEVICE));
}

/* Reads a window as wrapped at words, and as wrapped within words; takes the reading with more
 * figures. */
static struct oom read_wrapped(struct text window)
{
    char flat[WINDOW_MAX + 2];
    struct oom spaced = read_window(unwrap(window, " ", flat, sizeof flat));
    if (memchr(window.at, '\n', window.len) == NULL)
        return spaced;
    struct oom joined = read_window(unwrap(window, "", flat, sizeof flat));
    return figures(&joined) > figures(&spaced) ? joined : spaced;
}

struct anchor_search {
    struct text all;
    size_t at[ANCHORS]; /* next place of each, all.len when there is none */
};

/* Next anchor at or after `from`; each part of the text is searched once for each anchor. */
static size_t next_anchor(struct anchor_search *s, size_t from, bool strong_only, bool *ret_strong)
{
    size_t best = s->all.len;
    for (size_t i = 0; i < (strong_only ? STRONG : ANCHORS); i++) {
        if (s->at[i] < from || from == 0) {
            ptrdiff_t hit = text_find(text_skip(s->all, from), anchors[i]);
            s->at[i] = hit < 0 ? s->all.len : from + (size_t)hit;
        }
        if (s->at[i] < best) {
            best = s->at[i];
            *ret_strong = i < STRONG;
        }
    }
    return best;
}

static size_t line_start(struct text all, size_t at, size_t floor)
{
    size_t low = at > 400 ? at - 400 : 0;
    if (low < floor)
        low = floor;
    while (at > low && all.at[at - 1] != '\n')
        at--;
    return at;
}

/* Length up to the advice and the link that end a message: later figures belong to another
 * message. */
static size_t message_length(struct text window)
{
    static const char *const ends[] = {"If reserved", "See documentation", "See  documentation"};
    size_t len = window.len;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        ptrdiff_t at = text_find(text_first(window, len), ends[i]);
        if (at > 0)
            len = (size_t)at;
    }
    return len;
}

/* The words before the figures: "HIP out of memory." on this line or the one before. */
static bool named(struct text all, size_t at)
{
    size_t from = at > 120 ? at - 120 : 0;
    return text_ifind(text_first(text_skip(all, from), at - from), "out of memory") >= 0;
}

void torch_messages(struct oom_log *log, struct text all, unsigned line)
{
    struct anchor_search s = {.all = all};
    size_t counted = 0;
    for (size_t from = 0; from < all.len;) {
        bool strong = false;
        size_t at = next_anchor(&s, from, false, &strong);
        if (at >= all.len)
            break;
        size_t begin = strong ? at : line_start(all, at, from);
        size_t limit = begin + WINDOW_MAX < all.len ? begin + WINDOW_MAX : all.len;
        bool ignored;
        size_t next = next_anchor(&s, at + 1, true, &ignored);
        if (next < limit)
            limit = next;
        struct text window = text_first(text_skip(all, begin), limit - begin);
        size_t len = message_length(window);
        struct oom o = read_wrapped(text_first(window, len));
        for (; counted < at; counted++)
            line += all.at[counted] == '\n';
        o.line = line;
        o.headless = !strong || !named(all, at);
        if (oom_has(&o, OOM_REQUESTED) ? figures(&o) >= 1 : figures(&o) >= 2)
            oom_log_add(log, &o);
        from = begin + len > at + 1 ? begin + len : at + 1;
    }
}
