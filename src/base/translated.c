/* SPDX-License-Identifier: Apache-2.0 */
#include "base/translated.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

#define PHRASES_MAX 1024
#define PHRASE_MAX_BYTES 160u
#define BEGIN_BYTES 5u /* of a phrase, hashed: in a text of another script, no letter is rare */
#define SLOTS 1024u
#define BEGINS 4096u

extern const char translations_rows[];

static struct phrase {
    uint16_t at, row;    /* in translations_rows */
    uint16_t next;       /* index + 1 of the next one in this slot */
    unsigned char len;   /* bytes */
} phrases[PHRASES_MAX];
static uint16_t slots[SLOTS]; /* index + 1 of the last phrase whose beginning has this hash */
static bool known_begins[BEGINS]; /* a phrase begins with two bytes of this hash */
static size_t phrase_count;

static uint16_t *slot_of(const char *text)
{
    uint32_t hash = 0;
    for (size_t i = 0; i < BEGIN_BYTES; i++)
        hash = hash * 31 + (unsigned char)text[i];
    return &slots[hash * 2654435761u >> 22];
}

static bool *begin_of(const char *text)
{
    return &known_begins[((unsigned char)text[0] << 5 ^ (unsigned char)text[1]) % BEGINS];
}

static void add_phrases(const char *row, const char *end)
{
    const char *tab = memchr(row, '\t', (size_t)(end - row));
    if (tab == NULL)
        return;
    for (const char *p = tab; p < end && phrase_count < PHRASES_MAX;) {
        const char *from = p + 1;
        size_t len = strcspn(from, "|\n");
        p = from + len;
        if (len < BEGIN_BYTES || len > UINT8_MAX)
            continue;
        uint16_t *slot = slot_of(from);
        phrases[phrase_count++] = (struct phrase){.at = (uint16_t)(from - translations_rows),
                                                  .row = (uint16_t)(row - translations_rows),
                                                  .next = *slot,
                                                  .len = (unsigned char)len};
        *slot = (uint16_t)phrase_count;
        *begin_of(from) = true;
    }
}

static void index_rows(void)
{
    for (const char *row = translations_rows; *row != '\0' && phrase_count < PHRASES_MAX;) {
        const char *end = row + strcspn(row, "\n");
        if (*row != '#')
            add_phrases(row, end);
        row = *end == '\n' ? end + 1 : end;
    }
}

/* A letter of two bytes in UTF-8: Latin, Greek, Cyrillic. Scripts that write words without blanks have three. */
static bool is_letter_lead(char c)
{
    return isalnum((unsigned char)c) || ((unsigned char)c >= 0xc3 && (unsigned char)c < 0xe0);
}

static bool ends_letter(const char *text, size_t at)
{
    return isalnum((unsigned char)text[at]) ||
           (at > 0 && ((unsigned char)text[at] & 0xc0) == 0x80 && is_letter_lead(text[at - 1]));
}

static bool is_whole_word(const char *text, size_t len, size_t from, size_t to)
{
    bool before = from > 0 && is_letter_lead(text[from]) && ends_letter(text, from - 1);
    bool after = to < len && ends_letter(text, to - 1) && is_letter_lead(text[to]);
    return !before && !after;
}

/* No message begins inside a character, or between two ASCII letters: most places need no more than this. */
static bool is_inside_word(const char *text, size_t at)
{
    return ((unsigned char)text[at] & 0xc0) == 0x80 ||
           (at > 0 && isalnum((unsigned char)text[at]) && isalnum((unsigned char)text[at - 1]));
}

/* "./run.sh: line 3: 4711 Killed     python3 x.py", "Killed", "zsh: Killed (core dumped)" */
static bool is_whole_message(const char *text, size_t len, size_t from, size_t to)
{
    size_t before = from, after = to;
    while (before > 0 && (text[before - 1] == ' ' || text[before - 1] == '\t'))
        before--;
    while (after < len && (text[after] == ' ' || text[after] == '\t'))
        after++;
    bool begins = before == 0 || text[before - 1] == '\n' ||
                  (before < from && (isdigit((unsigned char)text[before - 1]) || text[before - 1] == ':'));
    bool ends = after == len || strchr("\r\n", text[after]) != NULL || after - to >= 2 ||
                (after > to && text[after] == '(');
    return begins && ends;
}

static bool fits(const struct phrase *p, const char *text, size_t len, size_t at)
{
    if (p->len > len - at || memcmp(text + at, translations_rows + p->at, p->len) != 0)
        return false;
    if (translations_rows[p->row] == '~')
        return is_whole_message(text, len, at, at + p->len);
    return is_whole_word(text, len, at, at + p->len);
}

size_t translated_may_begin(const char *text, size_t len, size_t at)
{
    if (phrase_count == 0)
        index_rows();
    while (at + BEGIN_BYTES <= len && !*begin_of(text + at))
        at++;
    return at + BEGIN_BYTES <= len ? at : len;
}

bool translated_at(const char *text, size_t len, size_t at, struct translated *ret)
{
    const struct phrase *best = NULL;
    if (phrase_count == 0)
        index_rows();
    if (len - at < BEGIN_BYTES || !*begin_of(text + at) || is_inside_word(text, at))
        return false;
    for (size_t i = *slot_of(text + at); i > 0; i = phrases[i - 1].next) {
        const struct phrase *p = &phrases[i - 1];
        if ((best == NULL || p->len > best->len) && fits(p, text, len, at))
            best = p;
    }
    if (best == NULL)
        return false;
    const char *english = translations_rows + best->row;
    english += *english == '~';
    *ret = (struct translated){best->len, english, strcspn(english, "\t")};
    return true;
}

bool translated_covers(const char *text, size_t len, size_t from, size_t to)
{
    struct translated found;
    for (size_t at = from + 1; at-- > 0 && from - at < PHRASE_MAX_BYTES;) {
        if (translated_at(text, len, at, &found) && at + found.len >= to)
            return true;
        if (at > 0 && text[at - 1] == '\n')
            break;
    }
    return false;
}
