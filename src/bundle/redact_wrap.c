/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether a token that ends with its line goes on in the next line: the screen's edge cut it, or the log's prefix or a mark
 * stands between its pieces. The next line may also be one of its own ("HIP out of memory"). It is joined only if the first
 * line looks cut and the next line looks like the rest of a token. For redact_fold.c. Runs in the finisher.
 */
#include <ctype.h>
#include <string.h>

#include "bundle/redact_internal.h"

#define WRAP_MIN 60u        /* columns; nobody's terminal is narrower */
#define WRAP_NEIGHBOURS 12u /* a wrapped line is as long as the longest of this many around it */
#define WORD_MIN 4u
#define REST_MIN 10u /* of a token, with text behind it */
#define RUN_MIN 3u   /* letters; fewer are no word */
#define FITS_MIN 5u  /* characters in which each kind of letter should be seen */
#define TURNS_MIN 2u  /* "a7x" turns twice from one kind of character to another */
#define TURNS_WORD 8u /* nothing that turns more often is a word or a number */
#define TURNS_NUMBER 3u
#define HEX_MIN 8u /* digits */
#define UNIT_MAX 4u /* letters in a number: "GiB/s" */
#define LINE_MAX_BYTES 4096u
#define TOKEN_MAX 256u  /* bytes that are looked at for the head of a known token */
#define PREFIX_MAX 128u /* bytes of a log's prefix, or of an indent */
#define BORDER "\xe2\x94\x82" /* the box of Rich's tracebacks */
#define PADDING_MAX 2u        /* blanks before the border */

bool redact_is_token(char c)
{
    return isalnum((unsigned char)c) || redact_is_one_of(c, "_-.~+/=%");
}

static size_t token_end(const struct redact_text *t, size_t at)
{
    while (redact_is_token(redact_at(t, at)))
        at++;
    return at;
}

static size_t token_begin(const struct redact_text *t, size_t from, size_t stop)
{
    while (stop > from && (redact_is_token(t->p[stop - 1]) || t->p[stop - 1] == '@'))
        stop--;
    return stop;
}

/* --- the width of lines --- */

/* Width in characters, without sequences that do not move the cursor. */
static size_t columns(const struct redact_text *t, size_t from, size_t to)
{
    size_t n = 0;
    for (size_t i = from; i < to; i++) {
        size_t colour = t->p[i] == 0x1b || t->p[i] == '\\' ? redact_colour_at(t, i) : 0;
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

/* Is no line near [from, to) longer? *ret_others: how many are as long. */
static bool is_longest(const struct redact_text *t, size_t from, size_t to, size_t *ret_others)
{
    size_t width = columns(t, from, to);
    size_t at = from;
    *ret_others = 0;
    if (width < WRAP_MIN || to - from > LINE_MAX_BYTES)
        return false;
    for (size_t i = 0; i < WRAP_NEIGHBOURS && at > 0; i++) {
        size_t end = at - 1;
        size_t begin = end;
        while (begin > 0 && t->p[begin - 1] != '\n' && end - begin <= LINE_MAX_BYTES)
            begin--;
        size_t other = columns(t, begin, end);
        if (other > width)
            return false;
        *ret_others += other == width;
        at = begin;
    }
    at = to;
    for (size_t i = 0; i < WRAP_NEIGHBOURS && at < t->len; i++) {
        size_t end = redact_line_end(t, at + 1);
        size_t other = columns(t, at + 1, end);
        if (end - at > LINE_MAX_BYTES || other > width)
            return false;
        *ret_others += other == width;
        at = end;
    }
    return true;
}

/* Sure: the line is as wide as screens are, or as others near it and none is wider. */
enum cut { CUT_NONE, CUT_MAYBE, CUT_SURE };

static enum cut cut_of(const struct redact_text *t, size_t from, size_t to)
{
    size_t others = 0;
    if (is_screen_wide(columns(t, from, to)))
        return CUT_SURE;
    if (!is_longest(t, from, to, &others))
        return CUT_NONE;
    return others > 0 ? CUT_SURE : CUT_MAYBE;
}

/* --- words and pieces of tokens --- */

/* "region = eu-west-1", "User-Agent: git", "torch.OutOfMemoryError: HIP": a line of its own, not the end of a word. */
static bool is_key_at(const struct redact_text *t, size_t at)
{
    size_t end = at;
    while (isalnum((unsigned char)redact_at(t, end)) || redact_is_one_of(redact_at(t, end), "_-."))
        end++;
    size_t sign = end;
    while (redact_at(t, sign) == ' ')
        sign++;
    return end > at && (redact_at(t, sign) == '=' || redact_at(t, sign) == ':') &&
           redact_at(t, sign + 1) == ' ';
}

struct letters {
    bool digit, upper, lower;
    size_t count;
    size_t turns; /* from one kind of character to another */
    size_t run;   /* the most letters of one word in a row */
};

static struct letters letters_of(const struct redact_text *t, size_t from, size_t to)
{
    struct letters l = {.digit = false};
    size_t run = 0;
    int last = 0;
    for (size_t i = from; i < to; i++) {
        unsigned char c = (unsigned char)t->p[i];
        int kind = isdigit(c) ? 1 : isupper(c) ? 2 : islower(c) ? 3 : 0;
        l.digit = l.digit || kind == 1;
        l.upper = l.upper || kind == 2;
        l.lower = l.lower || kind == 3;
        l.count += kind > 1;
        l.turns += last != 0 && kind != 0 && kind != last;
        bool hump = kind == 2 && last == 3;
        run = kind > 1 && !hump ? run + 1 : kind > 1;
        l.run = run > l.run ? run : l.run;
        last = kind;
    }
    return l;
}

/* "Traceback", "RuntimeError", "HIP", "ok": letters, and those in lower case stand in runs of three at least, or alone. */
static bool is_words(const struct redact_text *t, size_t from, size_t to)
{
    struct letters l = letters_of(t, from, to);
    size_t run = 0;
    if (l.digit)
        return false;
    if (!l.upper || !l.lower)
        return true;
    for (size_t i = from; i < to; i++) {
        bool lower = islower((unsigned char)t->p[i]) != 0;
        if (!lower && run > 0 && run < RUN_MIN)
            return false;
        run = lower ? run + 1 : 0;
    }
    return run == 0 || run >= RUN_MIN || to - from == run + 1;
}

/* "GPU0", "E1124", "x86_64", "i9-14900K": what stands between signs turns once at most. */
static bool is_numbered(const struct redact_text *t, size_t from, size_t to)
{
    for (size_t at = from, end; at < to; at = end + 1) {
        end = at;
        while (end < to && !redact_is_one_of(t->p[end], "._-/+"))
            end++;
        struct letters l = letters_of(t, at, end);
        if (l.turns > 1 || (l.upper && l.lower))
            return false;
    }
    return true;
}

/* "-0.31", "3.0e-04", "12.5GiB/s", "2026-11-24T10", "0x7f3a". */
static bool is_number(const struct redact_text *t, size_t from, size_t to)
{
    size_t at = from;
    while (at < to && redact_is_one_of(t->p[at], "+-"))
        at++;
    if (at == to || !isdigit((unsigned char)t->p[at]))
        return false;
    bool hex = t->p[at] == '0' && redact_is_one_of(redact_at(t, at + 1), "xX");
    struct letters l = letters_of(t, from, to);
    return hex || (l.turns <= TURNS_NUMBER && l.count <= UNIT_MAX);
}

/* "bf255ed376c7": no word is so. */
static bool is_hexadecimal(const struct redact_text *t, size_t from, size_t to)
{
    size_t at = from;
    while (at < to && isxdigit((unsigned char)t->p[at]))
        at++;
    struct letters l = letters_of(t, from, to);
    return at == to && at - from >= HEX_MIN && l.digit && l.turns > TURNS_MIN;
}

/* Does a line of its own begin with that? Nobody can tell the end of a key from it. */
static bool is_own_word(const struct redact_rules *rules, const struct redact_text *t, size_t from, size_t to)
{
    struct letters l = letters_of(t, from, to);
    if (l.turns > TURNS_WORD || is_hexadecimal(t, from, to))
        return is_number(t, from, to);
    if ((!l.upper && !l.lower) || is_words(t, from, to) || is_numbered(t, from, to) || is_number(t, from, to))
        return true;
    bool of_words = l.run >= RUN_MIN && 2 * l.count >= to - from;
    return of_words && redact_is_known(rules->vocabulary, KNOWN_WORDS, t->p + from, to - from);
}

/* --- the first piece --- */

/* Does a known token begin at p? *ret_whole: the bytes that such a token has, 0 = it may have any number. */
static bool begins_with_head(const struct redact_rules *rules, const char *p, size_t len, size_t *ret_whole)
{
    for (size_t i = len > 0 ? rules->heads_of[(unsigned char)p[0]] : 0; i > 0; i = rules->heads[i - 1].next) {
        size_t n = strlen(rules->heads[i - 1].word);
        size_t whole = rules->heads[i - 1].length;
        *ret_whole = whole > 0 ? n + whole : 0;
        if (n <= len && memcmp(p, rules->heads[i - 1].word, n) == 0)
            return true;
    }
    return false;
}

/* The rules of Stripe and the like are near the second letter ("k_live_" of sk_live_ and rk_live_). */
static bool is_head_at(const struct redact_rules *rules, const char *p, size_t len, size_t *ret_whole)
{
    return begins_with_head(rules, p, len, ret_whole) || begins_with_head(rules, p + 1, len > 0 ? len - 1 : 0, ret_whole);
}

/* Bytes of the token at the end that begins like a known one; 0 = none. Also in "TOKEN=hf_...", but not in a path: "a/sk-b". */
static size_t known_token(const struct redact_rules *rules, const char *p, size_t len, size_t *ret_whole)
{
    size_t first = len > TOKEN_MAX ? len - TOKEN_MAX : 0;
    for (size_t at = len; at > first && redact_is_token(p[at - 1]); at--) {
        char before = at > 1 ? p[at - 2] : ' ';
        bool begins = !isalnum((unsigned char)before) && (before == '\0' || !redact_is_one_of(before, "_-.~+/%"));
        bool in_address = before == '/' && at > 2 && p[at - 3] == '/';
        if ((begins || in_address) && is_head_at(rules, p + at - 1, len - (at - 1), ret_whole))
            return len - (at - 1);
    }
    return 0;
}

bool redact_ends_in_token(const struct redact_rules *rules, const char *p, size_t len)
{
    size_t whole = 0;
    return known_token(rules, p, len, &whole) > 0;
}

/* "jane@example.org": an address with its domain is never continued. */
static bool is_whole_address(const struct redact_text *t, size_t from, size_t to)
{
    const char *sign = memchr(t->p + from, '@', to - from);
    size_t letters = to;
    while (letters > from && isalpha((unsigned char)t->p[letters - 1]))
        letters--;
    return sign != NULL && sign > t->p + from && to - letters >= 2 && letters > from &&
           t->p[letters - 1] == '.' && sign + 2 < t->p + letters;
}

/* The token that ends with its line. */
struct piece {
    size_t from, to;
    bool known;     /* its head tells its issuer */
    bool whole;     /* nothing is missing */
    size_t missing; /* bytes; 0 = unknown */
};

static struct piece piece_of(const struct redact_rules *rules, const struct redact_text *t, size_t from, size_t stop)
{
    struct piece piece = {.from = token_begin(t, from, stop), .to = stop};
    size_t whole = 0;
    size_t len = known_token(rules, t->p + from, stop - from, &whole);
    piece.known = len > 0;
    piece.missing = len > 0 && whole > len ? whole - len : 0;
    piece.whole = (len > 0 && whole > 0 && len >= whole) || is_whole_address(t, piece.from, stop);
    return piece;
}

static bool piece_has(const struct redact_text *t, const struct piece *piece, char c)
{
    return memchr(t->p + piece->from, c, piece->to - piece->from) != NULL;
}

/* The rest has no kind of letter that the first piece lacks, and those in lower case are there as well. A few characters tell nothing. */
static bool fits(const struct redact_text *t, const struct piece *piece, size_t at, size_t end)
{
    struct letters first = letters_of(t, piece->from, piece->to);
    struct letters rest = letters_of(t, at, end);
    bool lacks = first.lower && !rest.lower && end - at >= FITS_MIN;
    return piece->to - piece->from < FITS_MIN || (!lacks && (first.upper || !rest.upper));
}

/* --- the rest --- */

enum redact_mark redact_mark_at(const struct redact_text *t, size_t from, size_t to, size_t *ret_stop)
{
    static const char marks[] = "|\\=\"'";
    static const enum redact_mark kinds[] = {REDACT_MARK_FRAME, REDACT_MARK_BACKSLASH, REDACT_MARK_EQUALS,
                                             REDACT_MARK_QUOTE, REDACT_MARK_QUOTE};
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
        return REDACT_MARK_NONE;
    stop--;
    if (*mark == '|' && stop > from && t->p[stop - 1] == ' ')
        stop--;
    *ret_stop = stop;
    return kinds[mark - marks];
}

/* Past the quotes and brackets that close behind a token, and the blanks. */
static size_t past_closing(const struct redact_text *t, size_t end)
{
    while (redact_is_one_of(redact_at(t, end), "\"'`,;)]}\\| \r"))
        end++;
    return end;
}

static bool is_line_end(const struct redact_text *t, size_t at)
{
    return at >= t->len || t->p[at] == '\n';
}

/* With text behind it, a rest must look like a piece of a key ("GPU-0 fault" does not). */
static bool looks_made(const struct redact_text *t, const struct piece *piece, size_t at, size_t end)
{
    struct letters l = letters_of(t, at, end);
    return l.digit && (l.upper || l.lower) && l.turns >= TURNS_MIN && end - at >= REST_MIN &&
           redact_at(t, end) != ':' && (piece->known || fits(t, piece, at, end));
}

/* "loss=3.25" */
static bool is_assignment(const struct redact_text *t, size_t at, size_t end)
{
    const char *sign = memchr(t->p + at, '=', end - at);
    return sign != NULL && isalnum((unsigned char)redact_at(t, (size_t)(sign - t->p) + 1));
}

/* The length of the token tells: exactly what is missing stands there. */
static bool is_missing_part(const struct redact_text *t, const struct piece *piece, size_t at)
{
    size_t end = at;
    while (isalnum((unsigned char)redact_at(t, end)) || redact_is_one_of(redact_at(t, end), "_-"))
        end++;
    return piece->missing > 0 && end - at == piece->missing;
}

/* A mark may say that the token goes on. Then the rest may be shorter. */
static bool is_rest_behind(const struct redact_rules *rules, const struct redact_text *t, const struct piece *piece,
                           size_t at, enum redact_mark mark)
{
    size_t end = token_end(t, at);
    if (piece->whole)
        return false;
    if (is_missing_part(t, piece, at))
        return true;
    if (is_own_word(rules, t, at, end) || is_assignment(t, at, end))
        return false;
    if (is_line_end(t, past_closing(t, end)))
        return true;
    if (mark == REDACT_MARK_FRAME || redact_at(t, end) == ':')
        return false;
    struct letters l = letters_of(t, at, end);
    return mark == REDACT_MARK_NONE ? looks_made(t, piece, at, end) : l.digit && (l.upper || l.lower);
}

/* The first word at `at`, of a path or a domain, is in no vocabulary. */
static bool is_unknown_word_at(const struct redact_rules *rules, const struct redact_text *t, size_t at)
{
    size_t end = at;
    while (isalpha((unsigned char)redact_at(t, end)))
        end++;
    return end - at >= RUN_MIN && !redact_is_known(rules->vocabulary, KNOWN_WORDS, t->p + at, end - at);
}

/* The rest of a path or of an address, which consist of words: "ice/run", "ple.org", "oe@example". */
static bool is_rest_of_words(const struct redact_rules *rules, const struct redact_text *t, const struct piece *piece,
                             size_t at, size_t end)
{
    bool joint = memchr(t->p + at, '.', end - at) != NULL || memchr(t->p + at, '/', end - at) != NULL;
    if (redact_at(t, end) == '@')
        return !is_own_word(rules, t, piece->from, piece->to) || is_unknown_word_at(rules, t, piece->from);
    return joint && (piece_has(t, piece, '@') || piece_has(t, piece, '/')) && is_unknown_word_at(rules, t, at);
}

/* Is it the rest of a token that only the line's end cuts? */
static bool is_rest_at(const struct redact_rules *rules, const struct redact_text *t, const struct piece *piece,
                       size_t at, enum cut cut)
{
    size_t end = token_end(t, at);
    if (piece->whole || cut == CUT_NONE || t->p[at] == '/')
        return false;
    if (is_missing_part(t, piece, at))
        return true;
    struct letters first = letters_of(t, piece->from, piece->to);
    bool odd = first.digit && (first.upper || first.lower) && !piece_has(t, piece, '/') && !piece_has(t, piece, '@');
    if (cut == CUT_MAYBE && !piece->known && !odd)
        return false;
    if (cut == CUT_SURE && is_rest_of_words(rules, t, piece, at, end))
        return true;
    if (is_own_word(rules, t, at, end) || is_assignment(t, at, end))
        return false;
    if (is_line_end(t, past_closing(t, end)))
        return piece->known || fits(t, piece, at, end);
    bool closed = redact_is_one_of(redact_at(t, end), "\"'`)]}");
    bool made = looks_made(t, piece, at, end);
    return cut == CUT_SURE ? closed || made : closed && made;
}

/* --- the two pieces --- */

/* Steps over the end of a box: the border, and the padding on both sides of it. False: there is none that the text reaches. */
static bool step_over_border(const struct redact_text *t, size_t from, size_t *stop, size_t *go_on)
{
    static const size_t border = sizeof BORDER - 1;
    size_t at = *stop;
    size_t next = *go_on;
    if (at < from + border || memcmp(t->p + at - border, BORDER, border) != 0)
        return false;
    at -= border;
    size_t padding = at;
    while (at > from && t->p[at - 1] == ' ')
        at--;
    if (padding - at > PADDING_MAX)
        return false;
    while (redact_at(t, next) == ' ')
        next++;
    /* The last line may lack its line end. */
    if (next < t->len && t->len - next > border && memcmp(t->p + next, BORDER, border) == 0)
        next += border;
    while (redact_at(t, next) == ' ')
        next++;
    *stop = at;
    *go_on = next;
    return true;
}

/* In a box, the border of the rest's line stands behind the rest. */
static bool is_rest_in_box(const struct redact_rules *rules, const struct redact_text *t, const struct piece *piece, size_t at)
{
    size_t end = token_end(t, at);
    size_t behind = past_closing(t, end);
    if (t->len - behind >= sizeof BORDER - 1 && memcmp(t->p + behind, BORDER, sizeof BORDER - 1) == 0)
        return !piece->whole && (is_missing_part(t, piece, at) || !is_own_word(rules, t, at, end));
    return is_rest_at(rules, t, piece, at, CUT_SURE);
}

bool redact_goes_on(const struct redact_rules *rules, const struct redact_text *t, size_t from, size_t to,
                    size_t *ret_stop, size_t *ret_go_on)
{
    size_t stop = to;
    size_t go_on = to + 1;
    bool boxed = false;
    while (stop > from && (t->p[stop - 1] == '\r' || t->p[stop - 1] == ' '))
        stop--;
    while (step_over_border(t, from, &stop, &go_on))
        boxed = true;
    if (stop <= from || go_on >= t->len || !redact_is_token(t->p[stop - 1]) || !redact_is_token(t->p[go_on]) ||
        is_key_at(t, go_on))
        return false;
    struct piece piece = piece_of(rules, t, from, stop);
    *ret_stop = stop;
    *ret_go_on = go_on;
    if (boxed)
        return is_rest_in_box(rules, t, &piece, go_on);
    return columns(t, from, to) >= WRAP_MIN && is_rest_at(rules, t, &piece, go_on, cut_of(t, from, to));
}

/* --- a prefix or a mark between the pieces: anything may stand there, so only tokens that their head tells are joined --- */

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

/* `next` is past the prefix: skips what opens a string, if the line before closed one. False: nothing opens it. */
static bool opens_string(const struct redact_text *t, char quote, size_t *next)
{
    size_t at = *next;
    if (redact_at(t, at) == '+')
        at++;
    while (redact_at(t, at) == ' ')
        at++;
    if (redact_is_one_of(redact_at(t, at), "bfru"))
        at++;
    *next = at + 1;
    return redact_at(t, at) == quote;
}

bool redact_goes_on_behind(const struct redact_rules *rules, const struct redact_text *t, size_t from, size_t to,
                           size_t stop, enum redact_mark mark, size_t *ret_go_on)
{
    size_t next = to + 1;
    size_t at = next + shared_prefix(t, from, stop, next);
    if (mark == REDACT_MARK_FRAME && (at == next || memchr(t->p + next, '|', at - next) == NULL))
        return false;
    size_t prefix = at - next;
    while (at - next < PREFIX_MAX && (redact_at(t, at) == ' ' || redact_at(t, at) == '\t'))
        at++;
    if (mark == REDACT_MARK_QUOTE && !opens_string(t, t->p[stop], &at))
        return false;
    struct piece piece = piece_of(rules, t, from, stop);
    if ((mark == REDACT_MARK_NONE && at == next) || at >= t->len || !redact_is_token(t->p[at]) || t->p[at] == '/' ||
        is_key_at(t, at) || !is_rest_behind(rules, t, &piece, at, mark))
        return false;
    *ret_go_on = at;
    if (mark == REDACT_MARK_BACKSLASH || mark == REDACT_MARK_QUOTE)
        return true;
    size_t width = columns(t, from, to);
    if (mark == REDACT_MARK_EQUALS) /* quoted-printable, at 76 at most */
        return width >= WRAP_MIN;
    return is_screen_wide(width - prefix) || cut_of(t, from, to) != CUT_NONE;
}
