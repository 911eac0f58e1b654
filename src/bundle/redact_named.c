/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values that their names give away: PASSWORD=x, "api_key": "x", --token x, Authorization: ...,
 * Serial Number: x. The trap is the trade's own vocabulary: "EOS token = 151645", "max_tokens:
 * 512", "tokenizer.ggml.bos_token_id u32 = 1" are facts and stay.
 */
#include "bundle/redact_forms.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define KEY_MAX 120

enum value_rule {
    VALUE_NONE,
    VALUE_ANY,    /* whatever stands there */
    VALUE_SECRET, /* when it looks like one: letters and digits, long */
    VALUE_LINE,   /* the rest of the line */
    VALUE_ID,     /* digits or hex: an identity, not a secret */
};

/* How the name ends, in words joined by one space ("AWS_SECRET_ACCESS_KEY" = "aws secret access
 * key"). */
static const struct {
    const char *ending;
    enum value_rule rule;
} endings[] = {
    {"authorization", VALUE_LINE}, {"cookie", VALUE_LINE},
    {"password", VALUE_ANY},       {"passwd", VALUE_ANY},
    {"passphrase", VALUE_ANY},     {"secret", VALUE_ANY},
    {"secret key", VALUE_ANY},     {"client secret", VALUE_ANY},
    {"api key", VALUE_ANY},        {"apikey", VALUE_ANY},
    {"access key", VALUE_ANY},     {"account key", VALUE_ANY},
    {"private key", VALUE_ANY},    {"auth key", VALUE_ANY},
    {"signing key", VALUE_ANY},    {"encryption key", VALUE_ANY},
    {"access token", VALUE_ANY},   {"auth token", VALUE_ANY},
    {"api token", VALUE_ANY},      {"hf token", VALUE_ANY},
    {"refresh token", VALUE_ANY},  {"bot token", VALUE_ANY},
    {"session token", VALUE_ANY},  {"token", VALUE_SECRET},
    {"credential", VALUE_SECRET},  {"credentials", VALUE_SECRET},
    {"signature", VALUE_SECRET},   {"sig", VALUE_SECRET},
    {"bearer", VALUE_SECRET},      {"db pass", VALUE_ANY},
    {"db pwd", VALUE_ANY},         {"key id", VALUE_SECRET},
    {"serial number", VALUE_ID},   {"serial", VALUE_ID},
    {"serialno", VALUE_ID},        {"unique id", VALUE_ID},
    {"uniqueid", VALUE_ID},        {"machine id", VALUE_ID},
    {"boot id", VALUE_ID},         {"uuid", VALUE_ID},
};

/* Lower case, camelCase and separators as single spaces. */
static void normalise(const char *key, size_t len, char out[KEY_MAX + 1])
{
    size_t at = 0;
    for (size_t i = 0; i < len && at + 2 < KEY_MAX; i++) {
        unsigned char c = (unsigned char)key[i];
        bool hump = i > 0 && isupper(c) && islower((unsigned char)key[i - 1]);
        if ((!isalnum(c) || hump) && at > 0 && out[at - 1] != ' ')
            out[at++] = ' ';
        if (isalnum(c))
            out[at++] = (char)tolower(c);
    }
    while (at > 0 && out[at - 1] == ' ')
        at--;
    out[at] = '\0';
}

/* "DBPASSWORD", "CLIENTSECRET", "AccountKEY": the ending without its spaces, grown together. Only
 * for endings long enough not to be the tail of another word. */
static bool ends_joined(const char *words, const char *ending)
{
    char joined[KEY_MAX + 1];
    size_t at = 0;
    for (const char *p = ending; *p != '\0' && at < KEY_MAX; p++) {
        if (*p != ' ')
            joined[at++] = *p;
    }
    joined[at] = '\0';
    size_t have = strlen(words);
    return at >= 6 && have >= at && strcmp(words + have - at, joined) == 0;
}

static enum value_rule rule_of(const char *key, size_t len)
{
    char words[KEY_MAX + 1];
    normalise(key, len, words);
    size_t have = strlen(words);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        size_t want = strlen(endings[i].ending);
        if (have >= want && strcmp(words + have - want, endings[i].ending) == 0 &&
            (have == want || words[have - want - 1] == ' '))
            return endings[i].rule;
        if (endings[i].rule == VALUE_ANY && ends_joined(words, endings[i].ending))
            return VALUE_ANY;
    }
    return VALUE_NONE;
}

static bool key_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.';
}

/* What may stand between a name and its value, the sign apart. */
static bool separates(const struct redact_text *t, size_t at, bool lists, bool sign)
{
    char c = t->p[at];
    bool arrow = sign && c == '>' && t->p[at - 1] == '='; /* key => value */
    bool in_list = lists && (c == ',' || c == '\0');
    return arrow || in_list || (c != '\0' && strchr(" \t\"'\\`", c) != NULL);
}

/* Behind the name: quotes, blanks, one of ":=" (a flag also by blanks or list commas alone; an id
 * also by blanks: "unique_id 1234"). Where the value starts, or 0. */
static size_t skip_separator(const struct redact_text *t, size_t at, bool by_blanks)
{
    bool sign = false;
    size_t start = at;
    for (; at < t->len && at < start + 60; at++) {
        char c = t->p[at];
        if ((c == ':' || c == '=') && !sign)
            sign = true;
        else if (!separates(t, at, by_blanks && !sign, sign))
            break;
    }
    return at > start && at < t->len && (sign || by_blanks) ? at : 0;
}

static size_t value_length(const struct redact_text *t, size_t at, bool line)
{
    char quote = at > 0 && (t->p[at - 1] == '"' || t->p[at - 1] == '\'' || t->p[at - 1] == '`')
                     ? t->p[at - 1]
                     : '\0';
    size_t i = at;
    for (; i < t->len; i++) {
        unsigned char c = (unsigned char)t->p[i];
        if (c == '\n' || c == '\r' || c == '\0' || (quote != '\0' && c == (unsigned char)quote))
            break;
        if (quote == '\0' && (c == '"' || c == '\''))
            break;
        if (!line && quote == '\0' && (isspace(c) || strchr(",;&)}]<>", c) != NULL))
            break;
    }
    while (i > at && t->p[i - 1] == '\\') /* of an escaped quote */
        i--;
    return i - at;
}

static bool placeholder(const char *p, size_t len)
{
    static const char *const words[] = {"none", "null",    "true", "false", "unset", "set",
                                        "n/a",  "unknown", "yes",  "no",    "nil",   "not"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strlen(words[i]) == len && strncasecmp(words[i], p, len) == 0)
            return true;
    }
    return len == 0 || p[0] == '<' || strspn(p, "*") >= len;
}

static bool value_fits(enum value_rule rule, const char *p, size_t len)
{
    size_t digits = 0, letters = 0, hex = 0;
    for (size_t i = 0; i < len; i++) {
        digits += isdigit((unsigned char)p[i]) != 0;
        letters += isalpha((unsigned char)p[i]) != 0;
        hex += isxdigit((unsigned char)p[i]) != 0 || p[i] == '-' || p[i] == 'x' || p[i] == 'X';
    }
    if (placeholder(p, len))
        return false;
    if (rule == VALUE_SECRET) /* 0x... is an address, whatever it is called */
        return letters > 0 && ((len >= 8 && digits > 0) || len >= 20) &&
               !(len > 2 && p[0] == '0' && p[1] == 'x');
    if (rule == VALUE_ID)
        return len >= 6 && digits > 0 && hex == len && strspn(p, "0x") < len;
    return true;
}

static struct redact_match match_key(const struct redact_text *t, size_t at, size_t key_len)
{
    struct redact_match m = {0};
    enum value_rule rule = rule_of(t->p + at, key_len);
    if (rule == VALUE_NONE)
        return m;
    bool flag = t->p[at] == '-' && redact_at(t, at + 1) == '-';
    bool bearer = key_len == 6 && strncasecmp(t->p + at, "bearer", 6) == 0;
    size_t value = skip_separator(t, at + key_len, flag || bearer || rule == VALUE_ID);
    if (value == 0)
        return m;
    size_t len = value_length(t, value, rule == VALUE_LINE);
    if (!value_fits(rule, t->p + value, len))
        return m;
    m.skip = value - at;
    m.len = len;
    m.kind = rule == VALUE_ID ? REDACT_ID : REDACT_SECRET;
    m.secret = rule == VALUE_LINE || bearer ? SECRET_AUTH : SECRET_NAMED;
    return m;
}

struct redact_match redact_match_named(const struct redact_text *t, size_t at)
{
    size_t len = 0;
    if (at > 0 && key_char(t->p[at - 1]))
        return (struct redact_match){0};
    while (len < KEY_MAX && key_char(redact_at(t, at + len)))
        len++;
    if (len == 0 || len == KEY_MAX)
        return (struct redact_match){0};
    struct redact_match m = match_key(t, at, len);
    if (m.len > 0 || redact_at(t, at + len) != ' ')
        return m;
    /* Two words: "Serial Number: ...", "API key: ..." */
    size_t second = 0;
    while (second < 20 && key_char(redact_at(t, at + len + 1 + second)))
        second++;
    return second > 0 ? match_key(t, at, len + 1 + second) : m;
}
