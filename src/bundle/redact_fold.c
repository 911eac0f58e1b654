/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A third form of a text: it joins tokens that are cut by something that is no part of them: a terminal's
 * colour or an invisible character in the middle, a line that was wrapped at the screen's edge (the next line may have the log's prefix again, or an indent), %2F or \u002f for
 * "/", the NULs of UTF-16. It has only the lines with such a cut. Runs in the finisher.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "bundle/redact_internal.h"

#define WRAP_MIN 60u        /* columns; nobody's terminal is narrower */
#define WRAP_NEIGHBOURS 12u /* a wrapped line is as long as the longest of this many around it */
#define WORD_MIN 4u
#define REST_MIN 8u /* of a token, with text behind it */
#define LINE_MAX_BYTES 4096u
#define UTF16_PAIRS 8u
#define COMMAND_MAX 1024u
#define TOKEN_MAX 256u  /* bytes that are looked at for the head of a known token */
#define PREFIX_MAX 128u /* bytes of a log's prefix, or of an indent */
#define BORDER "\xe2\x94\x82" /* the box of Rich's tracebacks */

struct fold {
    const struct redact_rules *rules;
    const struct redact_text *t;
    struct redact_folded *out;
    size_t capacity;
    size_t removed; /* in the line that is being copied */
    bool failed;
};

static bool is_token(char c)
{
    return isalnum((unsigned char)c) || (c != '\0' && strchr("_-.~+/=%", c) != NULL);
}

static void put(struct fold *f, char c, size_t place)
{
    struct redact_folded *out = f->out;
    if (out->len == f->capacity && !f->failed) {
        size_t capacity = f->capacity ? f->capacity * 2 : 1024;
        char *p = realloc(out->p, capacity);
        if (p != NULL)
            out->p = p;
        uint32_t *places = realloc(out->place, capacity * sizeof *places);
        if (places != NULL)
            out->place = places;
        f->failed = p == NULL || places == NULL;
        f->capacity = f->failed ? f->capacity : capacity;
    }
    if (f->failed)
        return;
    out->p[out->len] = c;
    out->place[out->len++] = (uint32_t)place;
}

/* ESC[1;31m, also as repr(), JSON or bash write the first byte. 0 = none. */
static size_t one_colour_at(const struct redact_text *t, size_t at)
{
    static const char *const escapes[] = {"\x1b", "\\x1b", "\\u001b", "\\033", "\\e"};
    size_t i = 0;
    for (size_t k = 0; k < sizeof escapes / sizeof escapes[0] && i == 0; k++) {
        size_t n = strlen(escapes[k]);
        if (t->len - at > n && strncasecmp(t->p + at, escapes[k], n) == 0)
            i = at + n;
    }
    if (i == 0 || redact_at(t, i) != '[')
        return 0;
    for (i++; i < at + 32 && (isdigit((unsigned char)redact_at(t, i)) || redact_at(t, i) == ';');)
        i++;
    return isalpha((unsigned char)redact_at(t, i)) ? i + 1 - at : 0;
}

static size_t colour_at(const struct redact_text *t, size_t at)
{
    size_t n = 0;
    for (size_t one; at + n < t->len && (one = one_colour_at(t, at + n)) > 0;)
        n += one;
    return n;
}

/* Bytes of an invisible character, which a page or the summary leaves out: the token is whole there. 0 = none. */
static size_t hidden_at(const struct redact_text *t, size_t at)
{
    unsigned char c = (unsigned char)t->p[at];
    uint32_t point = 0;
    if ((c >= 0x20 && c < 0x7f) || strchr("\t\n\r\x1b", c) != NULL) /* NUL parts arguments, and is in UTF-16 */
        return 0;
    size_t n = utf8_decode((const unsigned char *)t->p + at, t->len - at, &point);
    return n > 0 && utf8_is_hidden(point) ? n : 0;
}

/* "ESC ] 8;;ADDRESS ESC \\": a link, a title. 0 = none. */
static size_t command_at(const struct redact_text *t, size_t at)
{
    if (t->p[at] != 0x1b || redact_at(t, at + 1) != ']')
        return 0;
    for (size_t i = at + 2; i < t->len && i < at + COMMAND_MAX && t->p[i] != '\n'; i++)
        if (t->p[i] == 0x1b || t->p[i] == 0x07)
            return i + 1 - at + (t->p[i] == 0x1b && redact_at(t, i + 1) == '\\');
    return 0;
}

/* Bytes of all such sequences in a row. */
static size_t unseen_at(const struct redact_text *t, size_t at)
{
    size_t n = 0;
    for (size_t one = 1; one > 0 && at + n < t->len; n += one) {
        char c = t->p[at + n];
        one = c == 0x1b || c == '\\' ? one_colour_at(t, at + n) : hidden_at(t, at + n);
        if (one == 0)
            one = command_at(t, at + n);
    }
    return n;
}

static int hex_value(char c)
{
    return isdigit((unsigned char)c) ? c - '0' : isxdigit((unsigned char)c) ? (c | 32) - 'a' + 10 : -1;
}

/* "%2F", "\\x2f" or "\\u002f" -> '/', and its bytes; 0 = it is no printable character. */
static char escaped_at(const struct redact_text *t, size_t at, size_t *ret_bytes)
{
    static const char *const begins[] = {"%", "\\x", "\\u00"};
    for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++) {
        size_t n = strlen(begins[i]);
        if (t->len - at < n + 2 || strncasecmp(t->p + at, begins[i], n) != 0)
            continue;
        int high = hex_value(redact_at(t, at + n));
        int low = hex_value(redact_at(t, at + n + 1));
        int c = high * 16 + low;
        *ret_bytes = n + 2;
        return high < 0 || low < 0 || c <= 0x20 || c > 0x7e ? '\0' : (char)c;
    }
    return '\0';
}

static bool pair_at(const struct redact_text *t, size_t at)
{
    return at + 1 < t->len && t->p[at + 1] == '\0' && (unsigned char)t->p[at] < 0x80 &&
           t->p[at] != '\0';
}

/* Bytes of the run of UTF-16 (of ASCII characters) that begins here; 0 = none. */
static size_t utf16_at(const struct redact_text *t, size_t at)
{
    size_t n = 0;
    while (pair_at(t, at + n))
        n += 2;
    return n >= 2 * UTF16_PAIRS ? n : 0;
}

/* --- lines that were wrapped --- */

static size_t line_end(const struct redact_text *t, size_t from)
{
    const char *end = from < t->len ? memchr(t->p + from, '\n', t->len - from) : NULL;
    return end != NULL ? (size_t)(end - t->p) : t->len;
}

/* Width in characters, without sequences that do not move the cursor. */
static size_t columns(const struct redact_text *t, size_t from, size_t to)
{
    size_t n = 0;
    for (size_t i = from; i < to; i++) {
        size_t colour = t->p[i] == 0x1b || t->p[i] == '\\' ? colour_at(t, i) : 0;
        if (colour > 0)
            i += colour - 1;
        else
            n += ((unsigned char)t->p[i] & 0xc0) != 0x80 && t->p[i] != '\r';
    }
    return n;
}

/* As wide as screens are (Rich takes 80 where there is none). */
static bool is_screen_wide(size_t width)
{
    static const size_t screens[] = {79, 80, 100, 120, 132, 160, 200};
    for (size_t i = 0; i < sizeof screens / sizeof screens[0]; i++)
        if (width == screens[i])
            return true;
    return false;
}

/* No line near it is longer: the screen may have cut it. */
static bool is_longest(const struct redact_text *t, size_t from, size_t to)
{
    size_t width = columns(t, from, to);
    size_t at = from;
    if (width < WRAP_MIN || to - from > LINE_MAX_BYTES)
        return false;
    for (size_t i = 0; i < WRAP_NEIGHBOURS && at > 0; i++) {
        size_t end = at - 1;
        size_t begin = end;
        while (begin > 0 && t->p[begin - 1] != '\n' && end - begin <= LINE_MAX_BYTES)
            begin--;
        if (columns(t, begin, end) > width)
            return false;
        at = begin;
    }
    at = to;
    for (size_t i = 0; i < WRAP_NEIGHBOURS && at < t->len; i++) {
        size_t end = line_end(t, at + 1);
        if (end - at > LINE_MAX_BYTES || columns(t, at + 1, end) > width)
            return false;
        at = end;
    }
    return true;
}

/* "region = eu-west-1", "User-Agent: git", "torch.OutOfMemoryError: HIP": a line of its own, not the end of a word. */
static bool is_key_at(const struct redact_text *t, size_t at)
{
    size_t end = at;
    while (isalnum((unsigned char)redact_at(t, end)) || (redact_at(t, end) != '\0' && strchr("_-.", redact_at(t, end)) != NULL))
        end++;
    size_t sign = end;
    while (redact_at(t, sign) == ' ')
        sign++;
    return end > at && (redact_at(t, sign) == '=' || redact_at(t, sign) == ':') &&
           redact_at(t, sign + 1) == ' ';
}

/* "error: invalid key", "httpx 0.28.1", "WARNING! Using": a word in lower or in upper case, with more text
 * after it. The rest of a cut key stands alone on its line, or mixes both cases. */
static bool is_prose_at(const struct redact_text *t, size_t at)
{
    size_t end = at;
    while (isupper((unsigned char)redact_at(t, end)))
        end++;
    if (end <= at + 1)
        while (islower((unsigned char)redact_at(t, end)))
            end++;
    char next = redact_at(t, end);
    size_t behind = end + (next != '\0' && strchr(":,;.!", next) != NULL);
    return end - at >= WORD_MIN && redact_at(t, behind) == ' ' && isgraph((unsigned char)redact_at(t, behind + 1));
}

/* Finds the two parts of a word that a line's end cuts in two: where the first stops, and where the second goes
 * on. The lines of a box around the text are skipped. False: no word was cut. */
static bool wrap_at(const struct redact_text *t, size_t from, size_t to, size_t *ret_stop,
                    size_t *ret_go_on)
{
    static const size_t border = sizeof BORDER - 1;
    size_t stop = to;
    size_t go_on = to + 1;
    while (stop > from && (t->p[stop - 1] == '\r' || t->p[stop - 1] == ' '))
        stop--;
    while (stop >= from + border && memcmp(t->p + stop - border, BORDER, border) == 0) {
        stop -= border;
        while (stop > from && t->p[stop - 1] == ' ')
            stop--;
        while (redact_at(t, go_on) == ' ')
            go_on++;
        /* The last line may lack its line end. */
        if (go_on < t->len && t->len - go_on > border && memcmp(t->p + go_on, BORDER, border) == 0)
            go_on += border;
        while (redact_at(t, go_on) == ' ')
            go_on++;
    }
    if (stop <= from || go_on >= t->len || !is_token(t->p[stop - 1]) || !is_token(t->p[go_on]) ||
        (stop == to && columns(t, from, to) < WRAP_MIN))
        return false;
    if (is_key_at(t, go_on))
        return false;
    *ret_stop = stop;
    *ret_go_on = go_on;
    /* A path begins there: tables of mounts end their lines with one, and begin them with one. */
    bool is_own_line = is_prose_at(t, go_on) || t->p[go_on] == '/';
    return is_screen_wide(columns(t, from, to)) || (!is_own_line && is_longest(t, from, to));
}

/* --- lines that were wrapped, and whose next line has a prefix or whose end has a mark --- */

/* Anything may stand before the rest of a token there, so only tokens that their head tells are joined. The rules of Stripe
 * and the like are near the second letter ("k_live_" of sk_live_ and rk_live_). */
static bool is_head_at(const struct redact_rules *rules, const char *p, size_t len)
{
    for (size_t i = 0; i < rules->head_count; i++) {
        const char *head = rules->heads[i];
        size_t n = strlen(head);
        if (p[0] == head[0] && n <= len && memcmp(p, head, n) == 0)
            return true;
        if (n < len && p[1] == head[0] && memcmp(p + 1, head, n) == 0)
            return true;
    }
    return false;
}

/* Does the token that was copied last begin like a known one? In "TOKEN=hf_...", too, but not in a path: "a/sk-b". */
static bool ends_in_known_token(const struct redact_rules *rules, const struct redact_folded *out)
{
    size_t first = out->len > TOKEN_MAX ? out->len - TOKEN_MAX : 0;
    for (size_t at = out->len; at > first && is_token(out->p[at - 1]); at--) {
        char before = at > 1 ? out->p[at - 2] : ' ';
        bool begins = !isalnum((unsigned char)before) && (before == '\0' || strchr("_-.~+/%", before) == NULL);
        bool in_address = before == '/' && at > 2 && out->p[at - 3] == '/';
        if ((begins || in_address) && is_head_at(rules, out->p + at - 1, out->len - (at - 1)))
            return true;
    }
    return false;
}

/* Bytes at the beginning of the line `next` that the line `from` has as well, up to the last blank: a time, a level,
 * "[rank0]: ", "> ". Numbers may differ. */
static size_t shared_prefix(const struct redact_text *t, size_t from, size_t to, size_t next)
{
    size_t a = from, b = next, n = 0;
    while (a < to && b < t->len && b - next < PREFIX_MAX) {
        if (isdigit((unsigned char)t->p[a]) && isdigit((unsigned char)t->p[b])) {
            while (a < to && isdigit((unsigned char)t->p[a]))
                a++;
            while (isdigit((unsigned char)redact_at(t, b)))
                b++;
            continue;
        }
        if (t->p[a] != t->p[b] || t->p[b] == '\n')
            break;
        a++;
        b++;
        if (t->p[b - 1] == ' ' || t->p[b - 1] == '\t')
            n = b - next;
    }
    return n;
}

/* "Traceback", "RuntimeError", "done": letters, and those in lower case stand in runs of three at least. */
static bool is_words(const struct redact_text *t, size_t from, size_t to)
{
    size_t run = 0;
    bool any = false;
    for (size_t i = from; i < to; i++) {
        bool lower = islower((unsigned char)t->p[i]);
        if (isdigit((unsigned char)t->p[i]) || (!lower && run > 0 && run < 3))
            return false;
        run = lower ? run + 1 : 0;
        any = any || lower;
    }
    return any && to - from >= WORD_MIN && (run == 0 || run >= 3);
}

enum mark { MARK_NONE, MARK_FRAME, MARK_BACKSLASH, MARK_EQUALS, MARK_QUOTE };

/* The rest of a cut token stands alone on its line and is no word, or text follows that looks like a key ("GPU-0 fault"
 * does not). Behind a mark that says the token goes on, it may be shorter. */
static bool is_rest_at(const struct redact_text *t, size_t at, enum mark mark)
{
    bool digit = false, upper = false, lower = false;
    size_t end = at;
    for (; is_token(redact_at(t, end)); end++) {
        digit = digit || isdigit((unsigned char)t->p[end]);
        upper = upper || isupper((unsigned char)t->p[end]);
        lower = lower || islower((unsigned char)t->p[end]);
        if (t->p[end] == '=' && isalnum((unsigned char)redact_at(t, end + 1)))
            return false; /* "loss=3.25" */
    }
    size_t behind = end;
    while (redact_at(t, behind) != '\0' && strchr("\"'`,;)]}\\| \r", redact_at(t, behind)) != NULL)
        behind++;
    if (behind >= t->len || t->p[behind] == '\n')
        return !is_words(t, at, end);
    if (mark == MARK_FRAME || t->p[end] == ':')
        return false;
    return mark == MARK_NONE ? digit && upper && lower && end - at >= REST_MIN : digit && (upper || lower);
}

/* Finds the sign between the token and the line's end. */
static enum mark mark_at(const struct redact_text *t, size_t from, size_t to, size_t *ret_stop)
{
    static const char marks[] = "|\\=\"'";
    static const enum mark kinds[] = {MARK_FRAME, MARK_BACKSLASH, MARK_EQUALS, MARK_QUOTE, MARK_QUOTE};
    size_t stop = to;
    while (stop > from && (t->p[stop - 1] == '\r' || t->p[stop - 1] == ' '))
        stop--;
    *ret_stop = stop;
    /* "abc" +, "abc" \: strings that a program joins. */
    size_t last = stop;
    if (last > from && (t->p[last - 1] == '+' || t->p[last - 1] == '\\'))
        for (last--; last > from && t->p[last - 1] == ' ';)
            last--;
    if (last < stop && last > from && (t->p[last - 1] == '"' || t->p[last - 1] == '\''))
        stop = last;
    const char *mark = stop > from && t->p[stop - 1] != '\0' ? strchr(marks, t->p[stop - 1]) : NULL;
    if (mark == NULL)
        return MARK_NONE;
    stop--;
    if (*mark == '|' && stop > from && t->p[stop - 1] == ' ')
        stop--;
    *ret_stop = stop;
    return kinds[mark - marks];
}

/* `next` is past the prefix: skips what opens a string, if the line before closed one. False: nothing opens it. */
static bool opens_string(const struct redact_text *t, char quote, size_t *next)
{
    size_t at = *next;
    if (redact_at(t, at) == '+')
        at++;
    while (redact_at(t, at) == ' ')
        at++;
    if (redact_at(t, at) != '\0' && strchr("bfru", redact_at(t, at)) != NULL)
        at++;
    *next = at + 1;
    return redact_at(t, at) == quote;
}

/* Like wrap_at(), for a known token before `stop`. The first line is [from, to). */
static bool goes_on_behind_prefix(const struct redact_text *t, size_t from, size_t to, size_t stop, enum mark mark,
                                  size_t *ret_go_on)
{
    size_t next = to + 1;
    size_t at = next + shared_prefix(t, from, stop, next);
    if (mark == MARK_FRAME && (at == next || memchr(t->p + next, '|', at - next) == NULL))
        return false;
    size_t prefix = at - next;
    while (at - next < PREFIX_MAX && (redact_at(t, at) == ' ' || redact_at(t, at) == '\t'))
        at++;
    if (mark == MARK_QUOTE && !opens_string(t, t->p[stop], &at))
        return false;
    if ((mark == MARK_NONE && at == next) || at >= t->len || !is_token(t->p[at]) || t->p[at] == '/' ||
        is_key_at(t, at) || is_prose_at(t, at) || !is_rest_at(t, at, mark))
        return false;
    *ret_go_on = at;
    if (mark == MARK_BACKSLASH || mark == MARK_QUOTE)
        return true;
    size_t width = columns(t, from, to);
    if (mark == MARK_EQUALS) /* quoted-printable, at 76 at most */
        return width >= WRAP_MIN;
    return is_screen_wide(width) || is_screen_wide(width - prefix) || is_longest(t, from, to);
}

/* --- folding --- */

/* One step of a line: returns where it goes on. */
static size_t step(struct fold *f, size_t at)
{
    const struct redact_text *t = f->t;
    char c = t->p[at];
    size_t n = unseen_at(t, at);
    if (n > 0) {
        bool inside = f->out->len > 0 && is_token(f->out->p[f->out->len - 1]) &&
                      is_token(redact_at(t, at + n));
        if (!inside)
            put(f, ' ', at);
        f->removed += inside;
        return at + n;
    }
    char decoded = escaped_at(t, at, &n);
    if (decoded != '\0') {
        put(f, decoded, at);
        f->removed++;
        return at + n;
    }
    n = pair_at(t, at) ? utf16_at(t, at) : 0;
    for (size_t i = 0; i < n; i += 2)
        put(f, t->p[at + i], at + i);
    if (n > 0) {
        f->removed++;
        return at + n;
    }
    put(f, c, at);
    return at + 1;
}

/* Copies the line up to a known token that goes on behind a prefix, and tells where, or up to the line's end. */
static size_t step_to_prefix(struct fold *f, size_t from, size_t end, size_t at, bool *wrapped, size_t *ret_stop,
                             size_t *ret_go_on)
{
    size_t stop = end;
    enum mark mark = mark_at(f->t, from, end, &stop);
    if (stop <= at || stop > *ret_stop || !is_token(f->t->p[stop - 1]))
        return at;
    while (at < stop)
        at = step(f, at);
    if (at == stop && end < f->t->len && ends_in_known_token(f->rules, f->out) &&
        goes_on_behind_prefix(f->t, from, end, stop, mark, ret_go_on)) {
        *wrapped = true;
        *ret_stop = stop;
    }
    return at;
}

int redact_fold(const struct redact_rules *rules, const struct redact_text *t, struct redact_folded *ret)
{
    struct fold f = {.rules = rules, .t = t, .out = ret};
    *ret = (struct redact_folded){.len = 0};
    if (t->len >= UINT32_MAX)
        return 0;
    for (size_t from = 0; from < t->len && !f.failed;) {
        size_t begun = ret->len;
        size_t end = line_end(t, from);
        f.removed = 0;
        for (size_t at = from; at < t->len;) {
            size_t stop = end;
            size_t go_on = end + 1;
            bool wrapped = wrap_at(t, from, end, &stop, &go_on);
            at = step_to_prefix(&f, from, end, at, &wrapped, &stop, &go_on);
            while (at < stop)
                at = step(&f, at);
            if (at > end || !wrapped) {
                from = at > end ? at : end + 1;
                break;
            }
            f.removed++;
            at = go_on;
            from = end + 1;
            end = line_end(t, from);
        }
        put(&f, '\n', end < t->len ? end : t->len - 1);
        if (f.removed == 0)
            ret->len = begun; /* nothing was cut: the first search has seen these lines */
    }
    if (f.failed || ret->len == 0)
        redact_folded_release(ret);
    return f.failed ? -ENOMEM : 0;
}

void redact_folded_release(struct redact_folded *folded)
{
    free(folded->p);
    free(folded->place);
    *folded = (struct redact_folded){.len = 0};
}

bool redact_folded_place(const struct redact_text *t, const struct redact_folded *folded,
                         struct redact_span *span)
{
    size_t len = span->to - span->from;
    size_t from = folded->place[span->from];
    size_t last = folded->place[span->to - 1];
    size_t bytes = 1;
    if (redact_at(t, last + 1) == '\0' && last + 1 < t->len)
        bytes = 2;
    else if (t->p[last] != folded->p[span->to - 1])
        (void)escaped_at(t, last, &bytes);
    span->from = from;
    span->to = last + bytes;
    return span->to > span->from && span->to - span->from > len;
}
