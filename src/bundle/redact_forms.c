/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets by form: tokens of known issuers, JWTs, private keys, URLs; and home folders in paths. */
#include "bundle/redact_forms.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

const char *const redact_secret_names[REDACT_SECRETS_MAX] = {
    [SECRET_TOKEN] = "token",        [SECRET_JWT] = "jwt", [SECRET_KEY] = "private-key",
    [SECRET_AUTH] = "authorization", [SECRET_URL] = "url", [SECRET_NAMED] = "named",
};

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static size_t run_of(const struct redact_text *t, size_t at, const char *extra)
{
    size_t i = at;
    while (i < t->len &&
           (isalnum((unsigned char)t->p[i]) || (t->p[i] != '\0' && strchr(extra, t->p[i]) != NULL)))
        i++;
    return i - at;
}

static bool has_digit(const char *p, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (isdigit((unsigned char)p[i]))
            return true;
    }
    return false;
}

/* Prefix, then at least so many characters of letters, digits and `extra`, one of them a digit. */
static const struct {
    const char *prefix;
    size_t least;
    const char *extra;
} issuers[] = {
    {"hf_", 20, ""},      {"api_org_", 20, ""},    {"ghp_", 20, ""},       {"gho_", 20, ""},
    {"ghu_", 20, ""},     {"ghs_", 20, ""},        {"ghr_", 20, ""},       {"github_pat_", 20, "_"},
    {"glpat-", 16, "_-"}, {"sk-", 20, "_-"},       {"sk_live_", 16, ""},   {"rk_live_", 16, ""},
    {"AKIA", 16, ""},     {"ASIA", 16, ""},        {"xoxb-", 10, "-"},     {"xoxp-", 10, "-"},
    {"xoxa-", 10, "-"},   {"xoxr-", 10, "-"},      {"xoxs-", 10, "-"},     {"xapp-", 10, "-"},
    {"AIza", 30, "_-"},   {"npm_", 30, ""},        {"pypi-", 30, "_-"},    {"ya29.", 20, "_-"},
    {"dop_v1_", 30, ""},  {"nvapi-", 30, "_-"},    {"gsk_", 20, ""},       {"r8_", 30, ""},
    {"SG.", 30, "_-."},   {"dckr_pat_", 20, "_-"}, {"wandb_v1_", 20, "_"},
};

static struct redact_match match_issuer(const struct redact_text *t, size_t at)
{
    for (size_t i = 0; i < sizeof issuers / sizeof issuers[0]; i++) {
        size_t n = strlen(issuers[i].prefix);
        if (n > t->len - at || strncasecmp(t->p + at, issuers[i].prefix, n) != 0)
            continue;
        size_t body = run_of(t, at + n, issuers[i].extra);
        if (body >= issuers[i].least && has_digit(t->p + at + n, body))
            return (struct redact_match){.len = n + body, .secret = SECRET_TOKEN};
    }
    return (struct redact_match){0};
}

/* eyJ<header>.<payload>.<signature>, each base64url. */
static struct redact_match match_jwt(const struct redact_text *t, size_t at)
{
    if (t->len - at < 20 || strncasecmp(t->p + at, "eyJ", 3) != 0)
        return (struct redact_match){0};
    size_t head = run_of(t, at, "_-");
    if (head < 10 || redact_at(t, at + head) != '.')
        return (struct redact_match){0};
    size_t body = run_of(t, at + head + 1, "_-.");
    if (body < 10)
        return (struct redact_match){0};
    return (struct redact_match){.len = head + 1 + body, .secret = SECRET_JWT};
}

/* From BEGIN to END; to the end of the text when END was cut off. */
static struct redact_match match_private_key(const struct redact_text *t, size_t at)
{
    static const char begin[] = "-----BEGIN ";
    if (t->len - at < sizeof begin || strncasecmp(t->p + at, begin, sizeof begin - 1) != 0)
        return (struct redact_match){0};
    size_t window = t->len - at < 80 ? t->len - at : 80;
    const char *line = t->p + at;
    const char *key = memmem(line, window, "PRIVATE KEY", 11);
    if (key == NULL)
        key = memmem(line, window, "private key", 11);
    if (key == NULL)
        return (struct redact_match){0};
    const char *end = memmem(key, (size_t)(t->p + t->len - key), "-----END ", 9);
    if (end == NULL)
        end = memmem(key, (size_t)(t->p + t->len - key), "-----end ", 9);
    size_t stop = t->len;
    if (end != NULL) {
        const char *dashes = memmem(end + 9, (size_t)(t->p + t->len - end - 9), "-----", 5);
        stop = dashes != NULL ? (size_t)(dashes + 5 - t->p) : t->len;
    }
    return (struct redact_match){.len = stop - at, .secret = SECRET_KEY};
}

/* "://user:password@" and "://token@". */
static struct redact_match match_url(const struct redact_text *t, size_t at)
{
    if (redact_at(t, at + 1) != '/' || redact_at(t, at + 2) != '/' || at == 0 ||
        !isalnum((unsigned char)t->p[at - 1]))
        return (struct redact_match){0};
    size_t sign = 0;
    for (size_t i = at + 3; i < t->len && i < at + 600; i++) {
        char c = t->p[i];
        if (c == '/' || c == '?' || c == '#' || c == '"' || c == '\'' || c == '<' ||
            isspace((unsigned char)c) || c == '\0')
            break;
        if (c == '@')
            sign = i;
    }
    size_t len = sign > at + 3 ? sign - at - 3 : 0;
    /* git@ in ssh URLs is no secret. */
    if (len == 0 || (len == 3 && strncmp(t->p + at + 3, "git", 3) == 0))
        return (struct redact_match){0};
    return (struct redact_match){.skip = 3, .len = len, .secret = SECRET_URL};
}

/* /home/NAME, /Users/NAME, /var/home/NAME, C:\Users\NAME, /root: the folder itself. */
static struct redact_match match_home(const struct redact_text *t, size_t at)
{
    static const char *const roots[] = {"/var/home/", "/home/", "/Users/", "\\Users\\",
                                        "\\\\Users\\\\"};
    struct redact_match m = {.kind = REDACT_HOME};
    for (size_t i = 0; i < sizeof roots / sizeof roots[0]; i++) {
        size_t n = strlen(roots[i]);
        if (n >= t->len - at || strncasecmp(t->p + at, roots[i], n) != 0)
            continue;
        size_t name = 0;
        for (unsigned char c; (c = (unsigned char)redact_at(t, at + n + name)) != 0; name++) {
            if (!isalnum(c) && c != '.' && c != '_' && c != '-' && c != '@' && c < 0x80)
                break;
        }
        while (name > 0 && t->p[at + n + name - 1] == '.') /* end of a sentence */
            name--;
        m.len = name > 0 ? n + name : 0;
        return m;
    }
    bool root = t->len - at >= 5 && strncmp(t->p + at, "/root", 5) == 0 &&
                !is_word(redact_at(t, at + 5)) && redact_at(t, at + 5) != '-' &&
                (at == 0 || (!is_word(t->p[at - 1]) && t->p[at - 1] != '.'));
    m.len = root ? 5 : 0;
    return m;
}

struct redact_match redact_match_form(const struct redact_text *t, size_t at)
{
    char c = t->p[at];
    struct redact_match m = {0};
    if (c == '/' || c == '\\')
        return match_home(t, at);
    if (c == ':' && (m = match_url(t, at)).len > 0)
        return m;
    if (c == '-' && (m = match_private_key(t, at)).len > 0)
        return m;
    if (at > 0 && is_word(t->p[at - 1])) {
        /* "TOKEN_hf_abc" and "\nhf_abc" printed as "\\nhf_abc": tokens also behind '_' and 'n'. */
        bool escape = at > 1 && t->p[at - 2] == '\\';
        return t->p[at - 1] == '_' || escape ? match_issuer(t, at) : m;
    }
    if ((m = match_issuer(t, at)).len > 0 || (m = match_jwt(t, at)).len > 0)
        return m;
    if ((m = redact_match_named(t, at)).len > 0)
        return m;
    return redact_match_address(t, at);
}
