/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/streams.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "diagnose/kernel_lines.h"
#include "diagnose/log_words.h"

#define MARK_MAX 80
/* Each writer has some lines, and together they have most. */
#define LINES_MIN 3
#define MOST_PERCENT 70

static bool is_of_name(char c)
{
    return isalnum((unsigned char)c) || strchr("._-/@", c) != NULL;
}

/* Length of "[...]" or "(...)" with a number in it; 0 = there is none. A time is no mark. */
static size_t bracket_length(struct text line)
{
    struct text inside;
    if (!text_before(text_first(line, MARK_MAX), line.at[0] == '[' ? "]" : ")", &inside) || !text_has_digit(inside) || text_has(inside, ":") || klog_stamp(line) >= 0)
        return 0;
    size_t n = inside.len + 1;
    struct text rest = text_skip(line, n);
    if (text_starts(rest, "<stderr>") || text_starts(rest, "<stdout>"))
        n += strlen("<stderr>");
    return n;
}

/* Length of "node01:" or "worker-2  |". */
static size_t name_length(struct text line)
{
    size_t n = 0;
    while (n < line.len && n < MARK_MAX && is_of_name(line.at[n]))
        n++;
    if (!text_has_digit(text_first(line, n)))
        return 0;
    struct text rest = text_skip(line, n);
    if (text_starts(rest, ": "))
        return n + 1;
    rest = text_trim(rest);
    return text_starts(rest, "|") ? (size_t)(rest.at - line.at) + 1 : 0;
}

/* Length of "2026-03-02T10:00:00.1Z " or "10:00:00 "; 0 = there is none. */
static size_t stamp_length(struct text line)
{
    size_t n = 0;
    while (n < line.len && (isdigit((unsigned char)line.at[n]) || strchr("-:.,+TZ", line.at[n]) != NULL))
        n++;
    bool is_time = n >= strlen("10:00:00") && line.at[n - 1] != ':' && text_has(text_first(line, n), ":");
    return is_time && n < line.len && line.at[n] == ' ' ? n + 1 : 0;
}

/* Length of "node1 trainer[4711]:", as the system's log has it. */
static size_t program_length(struct text line)
{
    struct text rest = line, host, program;
    bool both = text_next_word(&rest, &host) && text_next_word(&rest, &program) && program.at[program.len - 1] == ':';
    return both && program.at == host.at + host.len + 1 ? (size_t)(rest.at - line.at) : 0;
}

static struct text mark_of(struct text line)
{
    size_t stamp = stamp_length(line), n = 0;
    line = text_skip(line, stamp);
    if (line.len > 0)
        n = line.at[0] == '[' || line.at[0] == '(' ? bracket_length(line) : name_length(line);
    return text_first(line, n == 0 && stamp > 0 ? program_length(line) : n);
}

/* The stream with this mark, a new one, or NULL. */
static struct stream *stream_of(struct streams *s, struct text mark)
{
    for (unsigned i = 0; i < s->count; i++)
        if (text_same(s->list[i].mark, mark))
            return &s->list[i];
    if (s->count == STREAMS_MAX)
        return NULL;
    s->list[s->count] = (struct stream){.mark = mark};
    return &s->list[s->count++];
}

const struct stream *stream_of_line(const struct streams *s, struct text line)
{
    struct text mark = mark_of(line);
    for (unsigned i = 0; s != NULL && mark.len > 0 && i < s->count; i++)
        if (text_same(s->list[i].mark, mark))
            return &s->list[i];
    return NULL;
}

/* Without those that have few lines; returns the lines of the others. */
static unsigned drop_small(struct streams *s)
{
    unsigned kept = 0, lines = 0;
    for (unsigned i = 0; i < s->count; i++) {
        if (s->list[i].lines < LINES_MIN)
            continue;
        lines += s->list[i].lines;
        s->list[kept++] = s->list[i];
    }
    s->count = kept;
    return lines;
}

void streams_find(struct text all, struct streams *ret)
{
    struct text rest = all, line;
    unsigned lines = 0;
    ret->count = 0;
    while (text_next_line(&rest, &line)) {
        struct text mark = mark_of(line);
        lines += text_trim(line).len > 0;
        struct stream *of = mark.len > 0 ? stream_of(ret, mark) : NULL;
        if (mark.len > 0 && of == NULL) {
            ret->count = 0;
            return;
        }
        if (of == NULL)
            continue;
        of->lines++;
        of->fails |= !of->fails && log_words_in(line.at, line.len, LOG_WORDS_FAILURE_RARE | LOG_WORDS_FAILURE_COMMON) != 0;
    }
    unsigned of_streams = drop_small(ret);
    if (ret->count < 2 || of_streams < lines / 100.0 * MOST_PERCENT)
        ret->count = 0;
}

char *stream_own(struct text all, struct text mark, size_t *ret_len)
{
    char *out = malloc(all.len + 1);
    struct text rest = all, line;
    size_t n = 0;
    while (out != NULL && text_next_line(&rest, &line)) {
        struct text own = mark_of(line);
        if (text_same(own, mark)) {
            size_t skip = (size_t)(own.at - line.at) + own.len;
            skip += text_starts(text_skip(line, skip), ":");
            skip += text_starts(text_skip(line, skip), " ");
            memcpy(out + n, line.at + skip, line.len - skip);
            n += line.len - skip;
        }
        if (rest.at[-1] == '\n')
            out[n++] = '\n';
    }
    *ret_len = n;
    return out;
}
