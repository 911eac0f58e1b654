/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The closed vocabulary: words that are evidence, and words that identify nobody. Nobody can list the names
 * that people give to machines, projects and themselves. The words of error messages can be listed. Where a
 * name is likely to stand, a rule hides what is not in this list.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bundle/redact_rules.h"

#define NAME_MIN 5u  /* of a name; programs abbreviate their words to fewer letters */
#define CONSONANTS_MAX 4u /* of a name in a row */
#define WORDED_MIN 4u     /* of a word that random letters do not make */
#define ACRONYM_MAX 5u
#define SENTENCE_MIN 3u
#define FIRST_UNPARTED 0xe3u /* the first byte of Chinese, Japanese and Korean characters is at least that */
#define CHARACTER 3u         /* bytes of one */
#define UNPARTED_MAX 120u    /* bytes of a run of them that is looked at */
#define SHORT_CONSONANTS_MAX 2u /* of a name with one vowel: "Fjord", not "hsakmt" */

struct word {
    char text[REDACT_WORD_MAX];
    unsigned char len;
    unsigned char level; /* enum redact_known; KNOWN_NONE = a free place */
    unsigned char list; /* enum list: a word may be in each of them */
};

enum list { LIST_WORDS, LIST_NAMES, LIST_LIFE, LIST_SPEECH, LIST_FILLING };

static enum list list_of(enum redact_known level)
{
    return level == KNOWN_NAME      ? LIST_NAMES
           : level == KNOWN_LIFE    ? LIST_LIFE
           : level == KNOWN_SPEECH  ? LIST_SPEECH
           : level == KNOWN_FILLING ? LIST_FILLING
                                    : LIST_WORDS;
}

struct redact_vocabulary {
    struct word *table;
    size_t size; /* a power of two, at most three quarters full */
    size_t count;
};

struct redact_vocabulary *redact_vocabulary_new(void)
{
    struct redact_vocabulary *v = calloc(1, sizeof *v);
    if (v == NULL)
        return NULL;
    v->size = 65536; /* room for the words of the rules that are built in */
    v->table = calloc(v->size, sizeof *v->table);
    if (v->table == NULL) {
        free(v);
        return NULL;
    }
    return v;
}

void redact_vocabulary_free(struct redact_vocabulary *v)
{
    if (v == NULL)
        return;
    free(v->table);
    free(v);
}

/* The place of the word, or the free one where it belongs. `word` is in lower case. */
static struct word *place_of(const struct redact_vocabulary *v, enum list list, const char *word,
                             size_t len)
{
    uint64_t hash = REDACT_HASH;
    for (size_t i = 0; i < len; i++)
        hash = redact_hash_step(hash, word[i]);
    size_t at = hash & (v->size - 1);
    while (v->table[at].level != KNOWN_NONE &&
           (v->table[at].list != list || v->table[at].len != len ||
            memcmp(v->table[at].text, word, len) != 0))
        at = (at + 1) & (v->size - 1);
    return &v->table[at];
}

static int grow(struct redact_vocabulary *v)
{
    struct redact_vocabulary larger = {.size = v->size * 2};
    larger.table = calloc(larger.size, sizeof *larger.table);
    if (larger.table == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < v->size; i++) {
        if (v->table[i].level != KNOWN_NONE)
            *place_of(&larger, v->table[i].list, v->table[i].text, v->table[i].len) =
                v->table[i];
    }
    free(v->table);
    v->table = larger.table;
    v->size = larger.size;
    return 0;
}

int redact_vocabulary_add(struct redact_vocabulary *v, enum redact_known level, const char *word,
                          size_t len)
{
    if (len == 0 || len >= REDACT_WORD_MAX)
        return 0;
    if (v->count * 4 >= v->size * 3 && grow(v) < 0)
        return -ENOMEM;
    struct word *place = place_of(v, list_of(level), word, len);
    v->count += place->level == KNOWN_NONE;
    if (place->level == KNOWN_NONE || place->level > level) {
        memcpy(place->text, word, len);
        place->len = (unsigned char)len;
        place->level = (unsigned char)level;
        place->list = (unsigned char)list_of(level);
    }
    return 0;
}

bool redact_vocabulary_has(const struct redact_vocabulary *v, enum redact_known level, const char *word, size_t len)
{
    const struct word *place = place_of(v, list_of(level), word, len);
    return place->level != KNOWN_NONE && place->level <= level;
}

static bool is_letter(char c)
{
    return isalpha((unsigned char)c) || (unsigned char)c >= 0x80;
}

/* The end of the word that begins at `from`: "OutOfMemory" is three, "HIPError" two. */
static size_t word_end(const char *p, size_t len, size_t from)
{
    size_t end = from + 1;
    while (end < len && is_letter(p[end])) {
        bool capital = isupper((unsigned char)p[end]);
        bool after_small = !isupper((unsigned char)p[end - 1]);
        bool before_small = end + 1 < len && islower((unsigned char)p[end + 1]);
        if (capital && (after_small || before_small))
            break;
        end++;
    }
    return end;
}

/* A digest or a commit is nobody's name. */
static bool is_digest(const char *p, size_t len)
{
    size_t n = 0;
    while (n < len && isxdigit((unsigned char)p[n]))
        n++;
    return n == len && len >= 32;
}

/* The end of a name's part that begins at `from`. */
static size_t part_end(const char *p, size_t len, size_t from, enum redact_known level)
{
    while (from < len && p[from] != '-' && (level != KNOWN_SINGLE || p[from] != '_'))
        from++;
    return from;
}

/* Is it a part of a joined name? A version or a letter with a number ("8b", "v2") is not. */
static bool is_part(const char *p, size_t len, enum redact_known level)
{
    size_t letters = 0;
    while (letters < len && is_letter(p[letters]))
        letters++;
    return letters >= 2 || (level == KNOWN_SINGLE && len > 0);
}

/* Does the name begin with a word of that level? A version may follow ("qwen3"). */
static bool begins_with(const struct redact_vocabulary *v, enum redact_known level, const char *p,
                        size_t len)
{
    char word[REDACT_WORD_MAX];
    size_t n = 0;
    while (n < len && n < REDACT_WORD_MAX && is_letter(p[n])) {
        word[n] = (char)tolower((unsigned char)p[n]);
        n++;
    }
    return n > 0 && n < REDACT_WORD_MAX && redact_vocabulary_has(v, level, word, n);
}

/* Is the name listed: as a whole, without an "s" at its end, or without the part from its first digit on
 * ("us-east" of "us-east-1")? */
static bool is_listed(const struct redact_vocabulary *v, const char *p, size_t len)
{
    char word[REDACT_WORD_MAX];
    size_t digit = 0;
    if (len == 0 || len >= REDACT_WORD_MAX)
        return false;
    for (size_t i = 0; i < len; i++)
        word[i] = (char)tolower((unsigned char)p[i]);
    if (redact_vocabulary_has(v, KNOWN_PLAIN, word, len) || (word[len - 1] == 's' && redact_vocabulary_has(v, KNOWN_PLAIN, word, len - 1)))
        return true;
    while (digit < len && !isdigit((unsigned char)p[digit]))
        digit++;
    while (digit > 0 && !is_letter(p[digit - 1]))
        digit--;
    return digit > 0 && digit < len && memchr(p, '-', digit) != NULL && redact_vocabulary_has(v, KNOWN_PLAIN, word, digit);
}

/* Known words can be joined to a name that nobody has listed ("gpu-batch-prod"). Such a name is evidence
 * only if one of its words is a product, or if it is listed as a whole. */
static bool is_known_joined(const struct redact_vocabulary *v, enum redact_known level, const char *p,
                            size_t len)
{
    size_t parts = 0;
    bool joining = false;
    for (size_t at = 0; at < len; at++) {
        size_t end = part_end(p, len, at, level);
        parts += is_part(p + at, end - at, level);
        joining = joining || begins_with(v, KNOWN_JOINING, p + at, end - at);
        at = end;
    }
    return parts < 2 || (joining && level != KNOWN_SINGLE) || is_listed(v, p, len);
}

/* True if one of the words is a product: the name of a model or a library that everybody has. */
static bool is_of_product(const struct redact_vocabulary *v, const char *p, size_t len)
{
    size_t words = 0;
    for (size_t at = 0; at < len; at++) {
        size_t end = at;
        while (end < len && is_letter(p[end]))
            end++;
        words += end - at >= 3;
        if (end > at && begins_with(v, KNOWN_PRODUCT, p + at, end - at))
            return true;
        at = end;
    }
    return words < 2 || is_listed(v, p, len);
}

/* Scripts without blanks: is the run made of known words only? "メモリが不足しています" is six. */
static bool is_made_of_known(const struct redact_vocabulary *v, enum redact_known level, const char *p, size_t len)
{
    bool reached[UNPARTED_MAX + 1] = {true};
    if (len > UNPARTED_MAX || len % CHARACTER != 0 || (unsigned char)p[0] < FIRST_UNPARTED)
        return false;
    for (size_t at = 0; at < len; at += CHARACTER)
        for (size_t n = CHARACTER; reached[at] && n < REDACT_WORD_MAX && at + n <= len; n += CHARACTER)
            reached[at + n] = reached[at + n] || redact_vocabulary_has(v, level, p + at, n);
    return reached[len];
}

static bool are_known_words(const struct redact_vocabulary *v, enum redact_known level, const char *p,
                            size_t len)
{
    for (size_t at = 0; at < len;) {
        if (!is_letter(p[at])) {
            at++;
            continue;
        }
        size_t run = at; /* the letters as a whole: "PyTorch", "MIOpen" */
        while (run < len && is_letter(p[run]))
            run++;
        bool whole = redact_is_word(v, level, p + at, run - at) || is_made_of_known(v, level, p + at, run - at);
        for (size_t from = at; !whole && from < run;) {
            size_t end = word_end(p, run, from);
            if (!redact_is_word(v, level, p + from, end - from))
                return false;
            from = end;
        }
        at = run;
    }
    return true;
}

bool redact_is_of_product(const struct redact_vocabulary *v, const char *p, size_t len)
{
    return begins_with(v, KNOWN_PRODUCT, p, len) && are_known_words(v, KNOWN_IDENTIFIER, p, len);
}

static bool is_vowel(char c)
{
    return (unsigned char)c >= 0x80 || strchr("aeiouy", tolower((unsigned char)c)) != NULL;
}

/* "ll", "ng", "st": two letters that are spoken as one. */
static bool is_one_sound(char a, char b)
{
    static const char *const pairs[] = {"ch", "ck", "dt", "gh", "ng", "ph", "sh", "st", "sz", "th", "tz", "zh"};
    char first = (char)tolower((unsigned char)a);
    char second = (char)tolower((unsigned char)b);
    bool one = first == second;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        one = one || (pairs[i][0] == first && pairs[i][1] == second);
    return one;
}

/* Can it be spoken? "memcpyasync" and "lundstrom" can, "hsakmt" and "nvptx" cannot: nobody is called so. */
static bool looks_like_name(const char *p, size_t len)
{
    size_t row = 0, longest = 0, vowels = 0, sounds = 0, most = 0, letters = 0;
    for (size_t i = 0; i < len; i++) {
        letters += ((unsigned char)p[i] & 0xc0) != 0x80;
        bool vowel = is_vowel(p[i]);
        bool joined = row > 0 && is_one_sound(p[i - 1], p[i]);
        row = vowel ? 0 : row + 1;
        sounds = vowel ? 0 : sounds + !joined;
        longest = row > longest ? row : longest;
        most = sounds > most ? sounds : most;
        vowels += vowel;
    }
    return letters >= NAME_MIN && vowels > 0 &&
           (vowels > 1 ? most <= CONSONANTS_MAX : longest <= SHORT_CONSONANTS_MAX);
}

bool redact_private_words(const struct redact_vocabulary *v, const char *text, size_t *from,
                          size_t *to)
{
    size_t first = *to, last = *from;
    for (size_t at = *from; at < *to;) {
        size_t run = at; /* the letters as a whole: "PyTorch", "MIOpen" */
        while (run < *to && is_letter(text[run]))
            run++;
        bool whole = run == at || redact_is_word(v, KNOWN_IDENTIFIER, text + at, run - at);
        for (size_t end; !whole && at < run; at = end) {
            end = at + word_end(text + at, run - at, 0);
            if (!looks_like_name(text + at, end - at) ||
                redact_is_word(v, KNOWN_IDENTIFIER, text + at, end - at))
                continue;
            first = at < first ? at : first;
            last = end;
        }
        at = run > at ? run : at + 1;
    }
    *from = first;
    *to = last;
    return first < last;
}

/* The end of the word, of letters only, that begins at `at`. */
static size_t letters_end(const char *text, size_t at, size_t to)
{
    size_t run = at;
    while (run < to && is_letter(text[run]))
        run++;
    return run == at ? at + 1 : at + word_end(text + at, run - at, 0);
}

bool redact_is_joined_name(const struct redact_vocabulary *v, const char *text, size_t from, size_t to)
{
    size_t words = 0, given = 0;
    for (size_t end; from < to; from = end) {
        end = letters_end(text, from, to);
        bool word = is_letter(text[from]) && end - from >= REDACT_HALF_MIN;
        words += word;
        given += word && !redact_is_word(v, KNOWN_TECHNICAL, text + from, end - from);
    }
    return words > 1 && 2 * given >= words;
}

void redact_trim_technical(const struct redact_vocabulary *v, const char *text, size_t *from, size_t *to)
{
    size_t first = *to, last = *from;
    for (size_t at = *from, end; at < *to; at = end) {
        end = letters_end(text, at, *to);
        if (!is_letter(text[at]) || redact_is_word(v, KNOWN_TECHNICAL, text + at, end - at))
            continue;
        first = at < first ? at : first;
        last = end;
    }
    *from = first;
    *to = last;
}

bool redact_is_worded(const struct redact_vocabulary *v, const char *p, size_t len)
{
    size_t known = 0;
    for (size_t at = 0, end; at < len; at = end) {
        end = letters_end(p, at, len);
        known += end - at >= WORDED_MIN && redact_is_word(v, KNOWN_PLAIN, p + at, end - at) ? end - at : 0;
    }
    return 5 * known >= 3 * len;
}

/* True if one of the words is known. Two letters are no word. */
static bool is_part_known(const struct redact_vocabulary *v, const char *p, size_t len)
{
    for (size_t at = 0; at < len;) {
        size_t end = is_letter(p[at]) ? word_end(p, len, at) : at + 1;
        if (end - at >= 3 && redact_is_word(v, KNOWN_NOBODY, p + at, end - at))
            return true;
        at = end;
    }
    return false;
}

/* Is the word, in any case, in the list of that level? */
static bool is_in(const struct redact_vocabulary *v, enum redact_known level, const char *p, size_t len)
{
    char word[REDACT_WORD_MAX];
    if (len >= REDACT_WORD_MAX)
        return false;
    for (size_t i = 0; i < len; i++)
        word[i] = (char)tolower((unsigned char)p[i]);
    return redact_vocabulary_has(v, level, word, len);
}

static bool is_of_life(const struct redact_vocabulary *v, const char *p, size_t len)
{
    return len >= 2 && is_in(v, KNOWN_LIFE, p, len);
}

static size_t words_of_life(const struct redact_vocabulary *v, const char *p, size_t len)
{
    size_t n = 0;
    for (size_t at = 0, end; at < len; at = end) {
        end = at;
        while (end < len && is_letter(p[end]))
            end++;
        n += is_of_life(v, p + at, end - at);
        end += end == at;
    }
    return n;
}

/* The end of what stands at `at` up to the next blank. A backslash begins an escape ("\\n"): it is a blank, too. */
static size_t blank_after(const char *p, size_t len, size_t at)
{
    while (at < len && !isspace((unsigned char)p[at]) && p[at] != '\\')
        at++;
    return at;
}

/* Narrows a token to its letters: what programs write is empty then ("v_add_u32", "lib.so", "3.1", "hipError"). Signs of a
 * sentence may stand around a word, "'" and "-" in it. */
static void narrow_to_word(const char *p, size_t *from, size_t *to)
{
    while (*from < *to && strchr("\"'`([{*<>,.;:!?-", p[*from]) != NULL)
        ++*from;
    while (*to > *from && strchr("\"'`)]}*<>,.;:!?-", p[*to - 1]) != NULL)
        --*to;
    for (size_t i = *from; i < *to; i++) {
        bool hump = i > *from && isupper((unsigned char)p[i]) && islower((unsigned char)p[i - 1]);
        if ((!is_letter(p[i]) && p[i] != '\'' && p[i] != '-') || hump)
            *to = *from;
    }
}

/* "ECC", "HBM" */
static bool is_acronym(const char *p, size_t len)
{
    size_t n = 0;
    while (n < len && isupper((unsigned char)p[n]))
        n++;
    return n == len && len <= ACRONYM_MAX;
}

/* Does a word say that somebody speaks? An "i" in small letters may be an index. */
static bool is_of_speech(const struct redact_vocabulary *v, const char *p, size_t len)
{
    if (len == 1 && *p == 'i')
        return false;
    return is_in(v, KNOWN_SPEECH, p, len) || is_of_life(v, p, len) ||
           (!is_acronym(p, len) && !are_known_words(v, KNOWN_PLAIN, p, len));
}

/* Is a word of the token technical, and no word of every sentence ("the", "not", "they")? */
static bool is_technical(const struct redact_vocabulary *v, const char *p, size_t len)
{
    for (size_t at = 0, end; at < len; at = end + 1) {
        end = at;
        while (end < len && is_letter(p[end]))
            end++;
        if (end - at >= REDACT_HALF_MIN && redact_is_word(v, KNOWN_TECHNICAL, p + at, end - at) &&
            !is_in(v, KNOWN_FILLING, p + at, end - at))
            return true;
    }
    return false;
}

/* Does somebody speak to somebody here? A sentence of which less than a third is technical is no message of a program, even
 * if all its words are plain. */
static bool is_spoken(const struct redact_vocabulary *v, const char *p, size_t len)
{
    size_t words = 0, technical = 0;
    for (size_t at = 0, end; at < len; at = end + 1) {
        end = blank_after(p, len, at);
        size_t from = at + (at > 0 && p[at - 1] == '\\' && end > at); /* the letter of an escape */
        size_t to = end;
        words += to > from;
        narrow_to_word(p, &from, &to);
        technical += end > at && (to == from || is_technical(v, p + from, to - from));
        for (size_t word = from; word < to; word++) {
            size_t word_to = word;
            while (word_to < to && is_letter(p[word_to]))
                word_to++;
            if (word_to > word && is_of_speech(v, p + word, word_to - word))
                return true;
            word = word_to;
        }
    }
    return words >= SENTENCE_MIN && 3 * technical < words;
}

bool redact_is_known(const struct redact_vocabulary *v, enum redact_known level, const char *p,
                     size_t len)
{
    if (is_digest(p, len))
        return true;
    if (level == KNOWN_SPEECH)
        return !is_spoken(v, p, len);
    if (level == KNOWN_PART)
        return is_part_known(v, p, len);
    if (level == KNOWN_LIFE || level == KNOWN_LIVES)
        return words_of_life(v, p, len) < (level == KNOWN_LIFE ? 1 : 2);
    enum redact_known word = level == KNOWN_SINGLE                            ? KNOWN_TECHNICAL
                             : level == KNOWN_PRODUCT || level == KNOWN_WORDS ? KNOWN_PLAIN
                                                                              : level;
    if (!are_known_words(v, word, p, len))
        return false;
    if (level == KNOWN_WORDS)
        return true;
    return level == KNOWN_PRODUCT ? is_of_product(v, p, len) : is_known_joined(v, level, p, len);
}

static bool is_of_joined(char c)
{
    return is_letter(c) || isdigit((unsigned char)c) || c == '-';
}

size_t redact_unknown_word(const struct redact_vocabulary *v, const char *text, size_t from, size_t to)
{
    while (from < to) {
        size_t end = from;
        while (end < to && is_letter(text[end]))
            end++;
        if (end > from && (!are_known_words(v, KNOWN_PLAIN, text + from, end - from) ||
                           is_of_life(v, text + from, end - from)))
            return from;
        bool begins = end > from && (from == 0 || !is_of_joined(text[from - 1]));
        size_t joined = end;
        while (begins && joined < to && is_of_joined(text[joined]))
            joined++;
        if (joined > end && !is_known_joined(v, KNOWN_PLAIN, text + from, joined - from))
            return from;
        from = end > from ? end : from + 1;
    }
    return to;
}
