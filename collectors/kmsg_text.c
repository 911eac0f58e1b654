/* SPDX-License-Identifier: Apache-2.0 */
#include "collectors/kmsg_text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "diagnose/log_words.h"

#define LAST_LINES 200
#define NOTE_MAX_BYTES 48u /* "# 123 lines left out" */
#define LINE_MAX_BYTES 8192
#define INTEREST_BYTES 512u /* of a line are searched */

/* 6,1234,339178277,-,caller=T1;amdgpu: unknown parameter 'gtt_size' ignored printk_ext_header in
 * kernel/printk/printk.c: facility|level, sequence, microseconds, '-' or 'c' for a line that is
 * continued; '+' in kernels before 4.10. */
struct header {
    uint64_t seq, usec;
    bool continues; /* continues the record before */
    const char *text;
};

/* Not number_take(): the text ends without a NUL. */
static const char *take_number(const char *p, const char *end, uint64_t *ret)
{
    uint64_t v = 0;
    const char *start = p;
    while (p < end && isdigit((unsigned char)*p) && p - start < 20)
        v = v * 10 + (uint64_t)(*p++ - '0');
    *ret = v;
    return p > start && p < end && *p == ',' ? p + 1 : NULL;
}

static bool parse_header(const char *line, const char *end, struct header *ret)
{
    uint64_t priority = 0;
    const char *p = take_number(line, end, &priority);
    if (p != NULL)
        p = take_number(p, end, &ret->seq);
    if (p != NULL)
        p = take_number(p, end, &ret->usec);
    const char *semicolon = p != NULL ? memchr(p, ';', (size_t)(end - p)) : NULL;
    if (semicolon == NULL)
        return false;
    ret->continues = memchr(p, '+', (size_t)(semicolon - p)) != NULL;
    ret->text = semicolon + 1;
    return true;
}

bool kmsg_is_records(const char *text)
{
    struct header h;
    const char *end = strchr(text, '\n');
    return parse_header(text, end != NULL ? end : text + strlen(text), &h);
}

static int hex_value(char c)
{
    if (isdigit((unsigned char)c))
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static void put_stamp(struct buf *out, uint64_t usec)
{
    buf_printf(out, "[%5llu.%06llu] ", (unsigned long long)(usec / 1000000u),
               (unsigned long long)(usec % 1000000u));
}

/* \xNN -> the byte, unless it is a control character: then the escape stays. A \x0a inside a record
 * starts a line with the same stamp. */
static void put_decoded(struct buf *out, const char *p, const char *end, uint64_t usec)
{
    for (; p < end; p++) {
        int byte = (unsigned char)*p;
        bool escape = end - p >= 4 && p[0] == '\\' && p[1] == 'x' && hex_value(p[2]) >= 0 &&
                      hex_value(p[3]) >= 0;
        if (escape)
            byte = hex_value(p[2]) * 16 + hex_value(p[3]);
        if (escape && byte == '\n') {
            buf_putc(out, '\n');
            put_stamp(out, usec);
        } else if ((byte < 0x20 && byte != '\t') || byte == 0x7f) {
            buf_printf(out, "\\x%02x", (unsigned)byte);
        } else {
            buf_putc(out, (char)byte);
        }
        if (escape)
            p += 3;
    }
}

void kmsg_append_records(struct buf *out, const char *text, size_t len, struct kmsg_window *window)
{
    const char *end = text + len;
    bool kept_last = false;
    for (const char *line = text; line < end;) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const char *line_end = newline != NULL ? newline : end;
        struct header h;
        /* " SUBSYSTEM=pci" and " DEVICE=+pci:..." follow their record; readers do not need them. */
        if (*line != ' ' && parse_header(line, line_end, &h)) {
            bool keep = h.seq >= window->first_seq && h.usec >= window->first_usec &&
                        (window->until_usec == 0 || h.usec <= window->until_usec);
            if (keep && h.continues && kept_last && out->len > 0 && !out->failed) {
                out->data[--out->len] = '\0'; /* the newline */
            } else if (keep) {
                put_stamp(out, h.usec);
            }
            if (keep) {
                put_decoded(out, h.text, line_end, h.usec);
                buf_putc(out, '\n');
                if (window->records > 0 && h.seq > window->last_seq + 1)
                    window->lost += h.seq - window->last_seq - 1;
                window->last_seq = h.seq;
                window->records++;
            }
            kept_last = keep;
        }
        line = line_end + 1;
    }
}

/* [  335.611647] some-host kernel: amdgpu: unknown parameter 'gtt_size' ignored */
static void put_journal_line(struct buf *out, const char *line, size_t len)
{
    const char *close = memchr(line, ']', len);
    const char *mark = memmem(line, len, " kernel: ", 9);
    if (line[0] != '[' || close == NULL || mark == NULL || mark < close)
        return; /* "-- Boot ... --", "Hint: ..." */
    buf_append(out, line, (size_t)(close - line) + 2 <= len ? (size_t)(close - line) + 1 : len);
    buf_putc(out, ' ');
    const char *text = mark + 9;
    put_decoded(out, text, line + len, 0);
    buf_putc(out, '\n');
}

void kmsg_append_journal(struct buf *out, const char *text, size_t len)
{
    const char *end = text + len;
    for (const char *line = text; line < end;) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const char *line_end = newline != NULL ? newline : end;
        put_journal_line(out, line, (size_t)(line_end - line));
        line = line_end + 1;
    }
}

/* --- selection --- */

static bool is_of_interest(const char *line, size_t len)
{
    return (log_words_in(line, len < INTEREST_BYTES ? len : INTEREST_BYTES, LOG_WORDS_KERNEL_INTEREST) &
            LOG_WORDS_KERNEL_INTEREST) != 0;
}

struct line {
    const char *start;
    size_t len; /* with its newline */
    bool keep;
};

static struct line *split(const char *text, size_t len, size_t *ret_count)
{
    size_t count = 0;
    for (size_t i = 0; i < len; i++)
        count += text[i] == '\n' || i == len - 1;
    struct line *lines = calloc(count != 0 ? count : 1, sizeof *lines);
    if (lines == NULL)
        return NULL;
    size_t n = 0;
    for (const char *p = text, *end = text + len; p < end && n < count;) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        const char *next = newline != NULL ? newline + 1 : end;
        lines[n].start = p;
        lines[n++].len = (size_t)(next - p);
        p = next;
    }
    *ret_count = n;
    return lines;
}

/* The bytes that a line needs, including the note about lines left out before it. */
static size_t cost(const struct line *lines, size_t i)
{
    if (!lines[i].keep)
        return 0;
    return lines[i].len + (i > 0 && !lines[i - 1].keep ? NOTE_MAX_BYTES : 0);
}

/* Keep the first third and the last two thirds of the lines that matter: the first fault is the cause, the
 * last lines are the end. */
static void keep_ends(struct line *lines, size_t count, size_t max_bytes)
{
    size_t used = 0;
    size_t head = 0;
    max_bytes -= max_bytes < (size_t)2 * NOTE_MAX_BYTES ? max_bytes : (size_t)2 * NOTE_MAX_BYTES;
    for (; head < count && used + cost(lines, head) <= max_bytes / 3; head++)
        used += cost(lines, head);
    size_t tail = count;
    while (tail > head) {
        size_t more = cost(lines, tail - 1);
        if (used + more > max_bytes)
            break;
        used += more;
        tail--;
    }
    for (size_t i = head; i < tail; i++)
        lines[i].keep = false;
}

static size_t put_lines(struct buf *out, const struct line *lines, size_t count)
{
    size_t left_out = 0;
    size_t run = 0;
    for (size_t i = 0; i <= count; i++) {
        if (i < count && !lines[i].keep) {
            run++;
            continue;
        }
        if (run > 0)
            buf_printf(out, "# %zu lines left out\n", run);
        left_out += run;
        run = 0;
        if (i < count)
            buf_append(out, lines[i].start, lines[i].len);
    }
    return left_out;
}

static uint64_t later_usec(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

void kmsg_window_cap(struct kmsg_window *window, uint64_t start_usec, uint64_t end_usec, uint64_t now_usec)
{
    const uint64_t span_usec = KMSG_CLAIMED_WINDOW_S * UINT64_C(1000000);
    if (end_usec == 0 || end_usec > now_usec)
        end_usec = now_usec;
    uint64_t drift_usec = KMSG_CLAIMED_BEFORE_S * UINT64_C(1000000) + end_usec / 20000;
    uint64_t oldest_usec = end_usec > span_usec ? end_usec - span_usec : 0;
    uint64_t began_usec = start_usec > drift_usec ? start_usec - drift_usec : 0;
    window->first_usec = later_usec(window->first_usec, later_usec(oldest_usec, began_usec));
}

static size_t select_lines(struct buf *out, const char *text, size_t len, size_t max_bytes,
                           size_t last_lines)
{
    size_t count = 0;
    struct line *lines = split(text, len, &count);
    if (lines == NULL) {
        buf_append(out, text + len - max_bytes, max_bytes);
        return 1;
    }
    size_t kept_bytes = 0;
    for (size_t i = 0; i < count; i++) {
        lines[i].keep = count - i <= last_lines || is_of_interest(lines[i].start, lines[i].len);
        if (lines[i].len > LINE_MAX_BYTES)
            lines[i].keep = false;
        kept_bytes += cost(lines, i);
    }
    kept_bytes += NOTE_MAX_BYTES; /* after the last */
    if (kept_bytes > max_bytes)
        keep_ends(lines, count, max_bytes);
    size_t left_out = put_lines(out, lines, count);
    free(lines);
    return left_out;
}

size_t kmsg_select(struct buf *out, const char *text, size_t len, size_t max_bytes)
{
    if (len > max_bytes)
        return select_lines(out, text, len, max_bytes, LAST_LINES);
    buf_append(out, text, len);
    return 0;
}

size_t kmsg_select_relevant(struct buf *out, const char *text, size_t len, size_t max_bytes)
{
    return select_lines(out, text, len, max_bytes, 0);
}
