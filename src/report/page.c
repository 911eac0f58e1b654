/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SUMMARY.md for a terminal: headings, lists and tables that fit its width, no markup. Understands
 * only the markup that templates/summary.md and the escape functions write; any other text comes out
 * unchanged. Control characters were removed before.
 */
#include "report/report.h"

#include "base/buf.h"
#include "base/utf8.h"
#include "report/internal.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define BOLD "\x1b[1m"
#define PLAIN "\x1b[0m"
#define TABLE_ROWS_MAX 512
#define TABLE_CELLS_MAX 8
#define CELL_MIN 8u
#define CELL_WORD_MAX 24u /* a longer word (a path) is broken, apart from the names in the first column */
#define ENTITY_MAX 10
#define UTF8_BYTES_MAX 4
#define CODE_INDENT 2u
#define CODE_INNER_MAX 8u
#define DETAILS "## Details"

struct page {
    const struct report_style *style;
    struct buf *out;
    bool is_shown; /* the current section is shown */
    bool wants_all;
    const char *section; /* show only this section; NULL = every section */
    bool is_blank;       /* the last line was blank */
    bool dropped_sources;
};

/* --- text within a line --- */

static size_t entity(const char *at, size_t left, char *ret)
{
    static const struct {
        const char *name;
        char c;
    } names[] = {{"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'}, {"&quot;", '"'}};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        size_t len = strlen(names[i].name);
        if (left >= len && strncmp(at, names[i].name, len) == 0) {
            *ret = names[i].c;
            return len;
        }
    }
    char *end = NULL;
    if (left < 4 || at[1] != '#' || !isdigit((unsigned char)at[2]))
        return 0;
    unsigned long c = strtoul(at + 2, &end, 10);
    if (*end != ';' || (size_t)(end - at) >= ENTITY_MAX || c < 0x20 || c > 0x7e)
        return 0;
    *ret = (char)c;
    return (size_t)(end - at) + 1;
}

/* `bold`: ** becomes bold text; otherwise it is removed. */
static void inline_text(const char *text, size_t len, bool bold, struct buf *out)
{
    bool in_code = false;
    bool in_bold = false;
    for (size_t i = 0; i < len;) {
        char c = text[i];
        size_t used = c == '&' && !in_code ? entity(text + i, len - i, &c) : 0;
        if (used > 0) {
            buf_putc(out, c);
            i += used;
        } else if (c == '`') {
            in_code = !in_code;
            i++;
        } else if (c == '\\' && i + 1 < len && ispunct((unsigned char)text[i + 1]) &&
                   (!in_code || text[i + 1] == '|')) {
            buf_putc(out, text[i + 1]);
            i += 2;
        } else if (!in_code && c == '*' && i + 1 < len && text[i + 1] == '*') {
            in_bold = !in_bold;
            if (bold)
                buf_puts(out, in_bold ? BOLD : PLAIN);
            i += 2;
        } else {
            buf_putc(out, c);
            i++;
        }
    }
    if (in_bold && bold)
        buf_puts(out, PLAIN);
}

/* Width in columns, without our escape sequences. */
static size_t width_of(const char *text, size_t bytes)
{
    size_t width = 0;
    uint32_t c = 0;
    for (size_t at = 0; at < bytes;) {
        if (text[at] == '\x1b') {
            while (at < bytes && text[at] != 'm')
                at++;
            at += at < bytes;
            continue;
        }
        size_t n = utf8_decode((const unsigned char *)text + at, bytes - at, &c);
        at += n > 0 ? n : 1;
        width++;
    }
    return width;
}

static void end_line(struct page *p)
{
    buf_puts(p->out, p->style->line_end);
    p->is_blank = false;
}

static void blank_line(struct page *p)
{
    if (!p->is_blank)
        buf_puts(p->out, p->style->line_end);
    p->is_blank = true;
}

/* Wraps words; lines below the first begin at `indent`. */
static void put_words(struct page *p, const char *words, size_t indent)
{
    size_t column = indent;
    bool first = true;
    for (const char *at = words; *at != '\0';) {
        size_t n = strcspn(at, " ");
        size_t width = width_of(at, n);
        if (!first && p->style->columns > 0 && column + 1 + width > p->style->columns) {
            end_line(p);
            for (column = 0; column < indent; column++)
                buf_putc(p->out, ' ');
        } else if (!first) {
            buf_putc(p->out, ' ');
            column++;
        }
        buf_append(p->out, at, n);
        column += width;
        at += n + strspn(at + n, " ");
        first = false;
    }
    end_line(p);
}

static void wrapped(struct page *p, const char *text, size_t len, size_t indent)
{
    struct buf words = BUF_INIT;
    inline_text(text, len, p->style->colour, &words);
    put_words(p, buf_str(&words), indent);
    buf_release(&words);
}

/* --- tables --- */

struct table {
    size_t rows, columns;
    char *cell[TABLE_ROWS_MAX][TABLE_CELLS_MAX];
    size_t width[TABLE_CELLS_MAX];
    size_t word[TABLE_CELLS_MAX]; /* the longest one of the column */
};

static size_t longest_word(const char *text)
{
    size_t longest = 0;
    for (size_t n; *text != '\0'; text += n + strspn(text + n, " ")) {
        n = strcspn(text, " ");
        size_t width = width_of(text, n);
        longest = width > longest ? width : longest;
    }
    return longest;
}

static void add_row(struct table *t, const char *line, size_t len)
{
    size_t column = 0;
    bool in_code = false;
    for (size_t i = 1, from = 1; i < len && column < TABLE_CELLS_MAX; i++) {
        in_code = in_code != (line[i] == '`');
        if (line[i] != '|' || line[i - 1] == '\\')
            continue;
        while (from < i && line[from] == ' ')
            from++;
        size_t to = i;
        while (to > from && line[to - 1] == ' ')
            to--;
        struct buf text = BUF_INIT;
        inline_text(line + from, to - from, false, &text);
        size_t width = width_of(buf_str(&text), text.len);
        t->cell[t->rows][column] = strdup(buf_str(&text));
        size_t word = longest_word(buf_str(&text));
        if (column > 0 && word > CELL_WORD_MAX)
            word = CELL_WORD_MAX;
        t->width[column] = width > t->width[column] ? width : t->width[column];
        t->word[column] = word > t->word[column] ? word : t->word[column];
        buf_release(&text);
        column++;
        from = i + 1;
    }
    t->columns = column > t->columns ? column : t->columns;
    t->rows++;
}

static size_t total_width(const struct table *t)
{
    size_t sum = 0;
    for (size_t i = 0; i < t->columns; i++)
        sum += t->width[i] + (i > 0 ? 2 : 0);
    return sum;
}

/* The sources are in facts.json, too: that column is dropped first, then the widest columns shrink. False: it does
 * not fit without a break within a word. */
static bool fit(struct page *p, struct table *t, size_t columns)
{
    if (total_width(t) > columns && !p->style->keeps_sources && t->columns > 2 &&
        t->cell[0][t->columns - 1] != NULL && strcmp(t->cell[0][t->columns - 1], "source") == 0) {
        t->columns--;
        p->dropped_sources = true;
    }
    while (total_width(t) > columns) {
        size_t widest = TABLE_CELLS_MAX;
        for (size_t i = 0; i < t->columns; i++)
            if (t->width[i] > t->word[i] && (widest == TABLE_CELLS_MAX || t->width[i] > t->width[widest]))
                widest = i;
        if (widest == TABLE_CELLS_MAX)
            return false;
        t->width[widest]--;
    }
    return true;
}

/* Bytes of `text` that fit `width` columns, up to the end of a word if possible. */
static size_t piece(const char *text, size_t width)
{
    size_t bytes = 0;
    size_t word_end = 0;
    size_t lead = strspn(text, " ");
    for (size_t column = 0; column < width && text[bytes] != '\0'; column++) {
        size_t n = utf8_length((const unsigned char *)text + bytes, strnlen(text + bytes, UTF8_BYTES_MAX));
        if (text[bytes] == ' ' && bytes > lead)
            word_end = bytes;
        bytes += n > 0 ? n : 1;
    }
    return text[bytes] == '\0' || text[bytes] == ' ' || word_end == 0 ? bytes : word_end;
}

/* One line of a row; the rest of each cell stays in rest[], for the line below. */
static bool put_part(struct page *p, const struct table *t, const char *rest[TABLE_CELLS_MAX])
{
    bool more = false;
    for (size_t k = 0; k < t->columns; k++) {
        size_t bytes = piece(rest[k], t->width[k]);
        size_t width = width_of(rest[k], bytes);
        buf_puts(p->out, k > 0 ? "  " : "");
        buf_append(p->out, rest[k], bytes);
        for (; width < t->width[k] && k + 1 < t->columns; width++)
            buf_putc(p->out, ' ');
        rest[k] += bytes + strspn(rest[k] + bytes, " ");
        more = more || *rest[k] != '\0';
    }
    end_line(p);
    return more;
}

static void put_row(struct page *p, struct table *t, size_t row)
{
    const char *rest[TABLE_CELLS_MAX];
    for (size_t k = 0; k < TABLE_CELLS_MAX; k++)
        rest[k] = t->cell[row][k] != NULL ? t->cell[row][k] : "";
    while (put_part(p, t, rest))
        ;
    for (size_t k = 0; k < TABLE_CELLS_MAX; k++)
        free(t->cell[row][k]);
}

/* A row of a table that is too wide: its first cell, and below it the others behind their headings. */
static void put_record(struct page *p, const struct table *t, size_t row)
{
    put_words(p, t->cell[row][0], 0);
    for (size_t k = 1; k < t->columns; k++) {
        struct buf line = BUF_INIT;
        const char *heading = t->cell[0][k] != NULL ? t->cell[0][k] : "";
        if (t->cell[row][k] != NULL && t->cell[row][k][0] != '\0') {
            buf_printf(&line, "%s: %s", heading, t->cell[row][k]);
            buf_puts(p->out, "    ");
            put_words(p, buf_str(&line), 4);
        }
        buf_release(&line);
    }
}

static void put_records(struct page *p, struct table *t)
{
    for (size_t row = 1; row < t->rows; row++)
        if (t->cell[row][0] != NULL)
            put_record(p, t, row);
    for (size_t row = 0; row < t->rows; row++)
        for (size_t k = 0; k < TABLE_CELLS_MAX; k++)
            free(t->cell[row][k]);
}

static void put_table(struct page *p, struct table *t)
{
    if (p->style->columns > 0 && !fit(p, t, p->style->columns)) {
        put_records(p, t);
        return;
    }
    for (size_t row = 0; row < t->rows; row++) {
        if (row == 0 && p->style->colour)
            buf_puts(p->out, BOLD);
        put_row(p, t, row);
        if (row == 0 && p->style->colour)
            buf_puts(p->out, PLAIN);
    }
}

/* The lines from `text` on that begin with '|'; returns the text after them. */
static const char *read_table(struct page *p, const char *text)
{
    struct table *t = calloc(1, sizeof(*t));
    while (*text == '|') {
        size_t len = strcspn(text, "\n");
        bool is_rule = strncmp(text, "|---", 4) == 0;
        if (t != NULL && p->is_shown && !is_rule && t->rows < TABLE_ROWS_MAX)
            add_row(t, text, len);
        text += len + (text[len] == '\n');
    }
    if (t != NULL && p->is_shown)
        put_table(p, t);
    free(t);
    return text;
}

/* --- lines --- */

static bool holds(const char *text, size_t len, const char *word)
{
    size_t n = strlen(word);
    for (size_t i = 0; i + n <= len; i++) {
        if (strncasecmp(text + i, word, n) == 0)
            return true;
    }
    return false;
}

static void heading(struct page *p, const char *text, size_t len, char rule)
{
    bool is_details = len == strlen(DETAILS) - 3 && strncmp(text, DETAILS + 3, len) == 0;
    if (p->section != NULL)
        p->is_shown = rule != '=' && holds(text, len, p->section);
    else if (!p->wants_all && is_details)
        p->is_shown = false;
    if (!p->is_shown || is_details)
        return;
    if (p->out->len > 0)
        blank_line(p);
    if (p->style->colour)
        buf_puts(p->out, BOLD);
    struct buf plain = BUF_INIT;
    inline_text(text, len, false, &plain);
    wrapped(p, text, len, 0);
    if (p->style->colour)
        buf_puts(p->out, PLAIN);
    size_t width = width_of(buf_str(&plain), plain.len);
    for (size_t i = 0; !p->style->colour && i < width && (p->style->columns == 0 || i < p->style->columns);
         i++)
        buf_putc(p->out, rule);
    if (!p->style->colour)
        end_line(p);
    buf_release(&plain);
}

/* A line of a code block. A long line continues below with more indent, and breaks between words. */
static void code_line(struct page *p, const char *text, size_t len)
{
    size_t indent = len > 0 ? CODE_INDENT : 0;
    size_t inner = strspn(text, " ");
    while (true) {
        size_t room = p->style->columns > indent + CELL_MIN ? p->style->columns - indent : SIZE_MAX;
        size_t bytes = width_of(text, len) > room ? piece(text, room) : len;
        for (size_t i = 0; i < indent; i++)
            buf_putc(p->out, ' ');
        buf_append(p->out, text, bytes);
        end_line(p);
        size_t used = bytes + (bytes < len ? strspn(text + bytes, " ") : 0);
        if (used >= len)
            return;
        text += used;
        len -= used;
        indent = CODE_INDENT + (inner < CODE_INNER_MAX ? inner : CODE_INNER_MAX) + CODE_INDENT;
    }
}

/* A code block; the flowchart is left out. Returns the text after it. */
static const char *read_block(struct page *p, const char *text)
{
    bool is_drawing = strncmp(text, "```mermaid", 10) == 0;
    text += strcspn(text, "\n");
    text += *text == '\n';
    while (*text != '\0' && strncmp(text, "```", 3) != 0) {
        size_t len = strcspn(text, "\n");
        if (p->is_shown && !is_drawing)
            code_line(p, text, len);
        text += len + (text[len] == '\n');
    }
    text += strcspn(text, "\n");
    return text + (*text == '\n');
}

/* "`[UUU---...]`", one character a share: on a narrow terminal with fewer of them. */
static bool put_bar(struct page *p, const char *line, size_t len)
{
    size_t room = p->style->columns;
    if (room < CELL_MIN || len <= room + 2 || strncmp(line, "`[", 2) != 0 || strncmp(line + len - 2, "]`", 2) != 0 ||
        memchr(line, ' ', len) != NULL)
        return false;
    buf_putc(p->out, '[');
    for (size_t i = 0; i < room - 2; i++)
        buf_putc(p->out, line[2 + i * (len - 4) / (room - 2)]);
    buf_putc(p->out, ']');
    end_line(p);
    return true;
}

static void one_line(struct page *p, const char *line, size_t len)
{
    static const char folded[] = "<details><summary>";
    static const char folded_end[] = "</summary>";
    size_t left = sizeof(folded) - 1;
    size_t right = sizeof(folded_end) - 1;
    if (len > 2 && strncmp(line, "# ", 2) == 0)
        heading(p, line + 2, len - 2, '=');
    else if (len > 3 && strncmp(line, "## ", 3) == 0)
        heading(p, line + 3, len - 3, '-');
    else if (len > left + right && strncmp(line, folded, left) == 0)
        heading(p, line + left, len - left - right, '-');
    else if (!p->is_shown || (len >= 10 && strncmp(line, "</details>", 10) == 0))
        return;
    else if (len == 0)
        blank_line(p);
    else if (len > 2 && strncmp(line, "- ", 2) == 0) {
        buf_puts(p->out, "- ");
        wrapped(p, line + 2, len - 2, 2);
    } else if (!put_bar(p, line, len))
        wrapped(p, line, len, 0);
}

/* A block of sparklines begins with a block character or with the dot of a gap. */
static const char *find_sparklines(const char *markdown)
{
    static const char fence[] = "```text\n";
    const char *memory = strstr(markdown, "\n## Memory");
    for (const char *at = memory != NULL ? strstr(memory, fence) : NULL; at != NULL; at = strstr(at + 1, fence)) {
        const char *first = at + sizeof(fence) - 1;
        if (strncmp(first, "▁", 2) == 0 || strncmp(first, "·", 2) == 0)
            return at;
    }
    return NULL;
}

void report_with_charts(const char *markdown, const char *charts, struct buf *out)
{
    static const char end[] = "\n```";
    const char *from = find_sparklines(markdown);
    const char *to = from != NULL ? strstr(from + 1, end) : NULL;
    if (to != NULL) {
        to += sizeof(end) - 1;
    } else {
        from = strstr(markdown, "\n## What to try");
        to = from;
    }
    if (from == NULL) {
        buf_puts(out, markdown);
        return;
    }
    buf_append(out, markdown, (size_t)(from - markdown));
    buf_printf(out, "%s```text\n%s```%s%s", from == to ? "\n" : "", charts, from == to ? "\n" : "", to);
}

void report_page(const char *markdown, bool all, const char *section,
                 const struct report_style *style, struct buf *out)
{
    struct page page = {.style = style,
                        .out = out,
                        .is_shown = section == NULL,
                        .wants_all = all,
                        .section = section};
    for (const char *at = markdown; *at != '\0';) {
        if (strncmp(at, "```", 3) == 0) {
            at = read_block(&page, at);
        } else if (*at == '|') {
            at = read_table(&page, at);
        } else {
            size_t len = strcspn(at, "\n");
            one_line(&page, at, len);
            at += len + (at[len] == '\n');
        }
    }
    static const char note[] = "Source of each figure: 'rocmcrash show --raw'";
    if (page.dropped_sources)
        wrapped(&page, note, sizeof note - 1, 0);
}
