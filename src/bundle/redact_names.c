/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names that a redactor knows: those of this machine and its users, and those that it learned from the
 * texts.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "bundle/redact_internal.h"

#define NAMES_MAX 20000   /* pseudonyms of one redactor; later ones share a name without number */
#define LITERALS_MAX 4000 /* looked for everywhere: 30 KB each in the automaton */
#define ENCODED_MAX 1000  /* of them, in base64 */
#define FILES_MAX 1000    /* ... for the names of files */
#define JOINED_MIN 10u    /* of words joined to a name */
#define SHORT_USER 2      /* initials of three letters are a name, "vm" and "box" are not */
#define SHORT_HOST 3
#define SHORT_LEARNED 4
#define SECRET_LEARNED_MIN 8u
#define SECRET_LEARNED_MAX 400u
#define ENCODED_MIN 12u /* of a secret in base64; shorter ones may be any word */

/* --- names --- */

static uint32_t bucket_of(enum redact_kind kind, const char *value, size_t len)
{
    uint64_t hash = redact_hash_step(REDACT_HASH, (char)kind);
    for (size_t i = 0; i < len; i++)
        hash = redact_hash_step(hash, (char)tolower((unsigned char)value[i]));
    return (uint32_t)((hash ^ hash >> 32) % NAME_BUCKETS);
}

static struct redact_name *find_name(const struct redactor *r, enum redact_kind kind,
                                     const char *value, size_t len)
{
    for (uint32_t i = r->buckets[bucket_of(kind, value, len)]; i != 0; i = r->names[i - 1].next) {
        struct redact_name *name = &r->names[i - 1];
        if (name->kind == kind && name->len == len && strncasecmp(name->value, value, len) == 0)
            return name;
    }
    return NULL;
}

enum redact_kind redact_kind_known_as(const struct redactor *r, enum redact_kind guess,
                                      const char *value, size_t len)
{
    static const enum redact_kind kinds[] = {REDACT_USER, REDACT_HOST, REDACT_PROJECT,
                                             REDACT_ACCOUNT};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const struct redact_name *name = find_name(r, kinds[i], value, len);
        if (name != NULL && name->number != 0 && !r->kept[kinds[i]])
            return kinds[i];
    }
    return guess;
}

struct redact_name *redact_name_of(struct redactor *r, enum redact_kind kind, const char *value,
                                   size_t len)
{
    struct redact_name *known = find_name(r, kind, value, len);
    if (known != NULL)
        return known;
    uint32_t bucket = bucket_of(kind, value, len);
    if (r->count >= NAMES_MAX)
        return NULL;
    if (r->count == r->capacity) {
        size_t capacity = r->capacity ? r->capacity * 2 : 64;
        struct redact_name *grown = realloc(r->names, capacity * sizeof *grown);
        if (grown == NULL)
            return NULL;
        r->names = grown;
        r->capacity = capacity;
    }
    char *copy = malloc(len + 1);
    if (copy == NULL)
        return NULL;
    memcpy(copy, value, len);
    copy[len] = '\0';
    struct redact_name *name = &r->names[r->count++];
    *name = (struct redact_name){.kind = kind,
                                 .number = ++r->last_number[kind],
                                 .len = len,
                                 .value = copy,
                                 .next = r->buckets[bucket]};
    r->buckets[bucket] = (uint32_t)r->count;
    return name;
}

void redact_numbers_back(struct redactor *r, size_t known)
{
    for (size_t i = known; i < r->count; i++) {
        r->last_number[r->names[i].kind] -= r->names[i].number != 0;
        r->names[i].number = 0;
    }
}

static int make_literal(struct redactor *r, struct redact_name *name)
{
    if (name == NULL)
        return -ENOMEM;
    if (name->literal)
        return 0;
    name->literal = true;
    r->literals++;
    r->scan_stale = true;
    return 0;
}

int redactor_add(struct redactor *r, enum redact_kind kind, const char *value)
{
    size_t len = value != NULL ? strlen(value) : 0;
    if (kind == REDACT_SECRET || kind >= REDACT_KIND_MAX)
        return -EINVAL;
    while (kind == REDACT_HOME && len > 1 && value[len - 1] == '/')
        len--;
    if (len < 2 || (kind != REDACT_HOME && redact_is_common(value)))
        return 0;
    struct redact_name *name = redact_name_of(r, kind, value, len);
    int e = make_literal(r, name);
    if (e < 0)
        return e;
    name->learned = false;
    name->weak = (kind == REDACT_USER && redact_is_weak(value, SHORT_USER)) ||
                 (kind == REDACT_HOST && redact_is_weak(value, SHORT_HOST));
    return 0;
}

int redactor_add_domain(struct redactor *r, const char *domain)
{
    if (strchr(domain, '.') == NULL)
        return 0;
    struct redact_name *name = redact_name_of(r, REDACT_HOST, domain, strlen(domain));
    int e = make_literal(r, name);
    if (e == 0)
        name->domain = true;
    return e;
}

/* --- folders --- */

/* Folders of programs and of the system. What people keep there lies deeper. */
static bool is_system_folder(const char *path, size_t len)
{
    static const char *const folders[] = {
        "/usr",  "/lib",  "/lib32", "/lib64", "/libx32", "/bin",  "/sbin",  "/etc",   "/proc",
        "/sys",  "/dev",  "/run",   "/boot",  "/snap",   "/nix",  "/var",   "/opt",   "/tmp",
        "/home", "/root", "/srv",   "/mnt",   "/media",  "/gnu",  "/cvmfs", "/cdrom", "/lost+found"};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        if (strlen(folders[i]) == len && memcmp(folders[i], path, len) == 0)
            return true;
    }
    return false;
}

static size_t first_folder(const char *path)
{
    return 1 + strcspn(path + 1, "/");
}

/* Length without slashes at the end; 0 = not a path as getcwd() returns it. */
static size_t path_len(const char *path)
{
    size_t len = path != NULL && path[0] == '/' ? strlen(path) : 0;
    while (len > 1 && path[len - 1] == '/')
        len--;
    return len > 1 && strstr(path, "//") == NULL && strstr(path, "/./") == NULL &&
                   strstr(path, "/../") == NULL
               ? len
               : 0;
}

static struct redact_name *folder_of(struct redactor *r, enum redact_kind kind, const char *path,
                                     size_t len)
{
    size_t known = r->count;
    struct redact_name *name = redact_name_of(r, kind, path, len);
    if (make_literal(r, name) < 0)
        return NULL;
    redact_numbers_back(r, known);
    return name;
}

/* The end of the home that the path lies in, 0 = in none. */
static size_t end_of_home(const struct redactor *r, const char *path, size_t len)
{
    for (size_t i = 0; i < r->count; i++) {
        const struct redact_name *home = &r->names[i];
        if (home->kind == REDACT_HOME && home->literal && !home->homes && home->len <= len &&
            memcmp(home->value, path, home->len) == 0 &&
            (home->len == len || path[home->len] == '/'))
            return home->len;
    }
    return 0;
}

int redact_add_place(struct redactor *r, const char *path)
{
    size_t len = path_len(path);
    size_t home = len > 0 ? end_of_home(r, path, len) : 0;
    size_t first = len > 0 ? first_folder(path) : 0;
    if (len == 0 || home == len || is_system_folder(path, len))
        return 0;
    if (home == 0 && !is_system_folder(path, first)) {
        struct redact_name *all = folder_of(r, REDACT_PROJECT, path, first);
        if (all == NULL)
            return -ENOMEM;
        all->below = first;
    }
    struct redact_name *name = folder_of(r, REDACT_PROJECT, path, len);
    const char *last = path + len;
    while (last[-1] != '/')
        last--;
    size_t tail = len - (size_t)(last - path);
    if (name == NULL)
        return -ENOMEM;
    name->below = home > 0 ? home : first;
    name->tail = redact_is_given_name(r, last, tail) ? tail : 0;
    return 0;
}

int redact_add_above(struct redactor *r, const char *path)
{
    size_t len = path_len(path);
    size_t home = len > 0 ? end_of_home(r, path, len) : 0;
    size_t below = home > 0 ? home : len > 0 ? first_folder(path) : 0;
    while (len > below) {
        while (path[len - 1] != '/')
            len--;
        if (--len <= below || is_system_folder(path, len))
            return 0;
        struct redact_name *name = folder_of(r, REDACT_PROJECT, path, len);
        if (name == NULL)
            return -ENOMEM;
        name->below = below;
    }
    return 0;
}

int redact_add_homes(struct redactor *r, const char *path)
{
    size_t len = path_len(path);
    if (len == 0 || is_system_folder(path, first_folder(path)))
        return 0;
    struct redact_name *name = folder_of(r, REDACT_HOME, path, len);
    if (name == NULL)
        return -ENOMEM;
    name->homes = true;
    return 0;
}

/* --- learning --- */

/* A password of letters alone may be any word: hiding it everywhere would hide facts. */
static bool worth_learning(const char *p, size_t len)
{
    size_t digits = 0, letters = 0;
    for (size_t i = 0; i < len; i++) {
        digits += isdigit((unsigned char)p[i]) != 0;
        letters += isalpha((unsigned char)p[i]) != 0;
        if ((unsigned char)p[i] <= ' ' || p[i] == 0x7f)
            return false;
    }
    if (len < SECRET_LEARNED_MIN || len > SECRET_LEARNED_MAX || strchr("/<$~%{[(-", p[0]) != NULL ||
        letters < 2 || (len >= 3 && strncasecmp(p, "gfx", 3) == 0) ||
        (len >= 2 && strncasecmp(p, "0x", 2) == 0))
        return false;
    return (digits >= 1 && redact_entropy(p, len) > 2.5) ||
           (len >= 16 && redact_entropy(p, len) > 3.2);
}

/* The characters of base64 that encode only these bytes, when `shift` other bytes precede them. */
static size_t base64_core(const char *p, size_t len, size_t shift, char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t n = 0;
    size_t bits = 8 * (shift + len);
    for (size_t bit = shift == 0 ? 0 : shift == 1 ? 12 : 18; bit + 6 <= bits; bit += 6) {
        unsigned value = 0;
        for (size_t k = bit; k < bit + 6; k++) {
            unsigned char byte = (unsigned char)p[k / 8 - shift];
            value = value << 1 | (byte >> (7 - k % 8) & 1u);
        }
        out[n++] = digits[value];
    }
    return n;
}

/* Another text for a secret that is known. */
static int learn_spelling(struct redactor *r, const char *text, size_t len, const char *label)
{
    struct redact_name *name = redact_name_of(r, REDACT_SECRET, text, len);
    if (make_literal(r, name) < 0)
        return -ENOMEM;
    name->label = label;
    return 0;
}

/* "Authorization: Basic ...", a Kubernetes secret, a docker config: the same secret, written so that
 * no rule knows it. */
static int learn_encoded(struct redactor *r, const char *p, size_t len, const char *label)
{
    char core[SECRET_LEARNED_MAX * 4 / 3 + 8];
    for (size_t shift = 0; shift < 3; shift++) {
        size_t n = base64_core(p, len, shift, core);
        if (n < ENCODED_MIN || r->literals >= ENCODED_MAX)
            continue;
        if (learn_spelling(r, core, n, label) < 0)
            return -ENOMEM;
    }
    return 0;
}

/* The same value as JSON, an address or HTML spells it, where that is another text. */
static int learn_spelled(struct redactor *r, const char *value, size_t len, const char *label)
{
    char text[SECRET_LEARNED_MAX * 4];
    for (unsigned way = 0; way < REDACT_SPELLINGS; way++) {
        size_t n = redact_spelled(way, value, len, text, sizeof text);
        bool same = n == len && memcmp(text, value, len) == 0;
        if (n == 0 || same || r->literals >= LITERALS_MAX)
            continue;
        if (learn_spelling(r, text, n, label) < 0)
            return -ENOMEM;
    }
    return 0;
}

static int learn_secret(struct redactor *r, const char *p, size_t len, const char *label)
{
    static const char between[] = " \t\r\n:;,=&\"'\\`<>@";
    for (size_t at = 0; at < len;) {
        size_t n = 0;
        while (at + n < len && p[at + n] != '\0' && strchr(between, p[at + n]) == NULL)
            n++;
        if (n > 0 && r->literals < LITERALS_MAX && worth_learning(p + at, n)) {
            struct redact_name *name = redact_name_of(r, REDACT_SECRET, p + at, n);
            if (make_literal(r, name) < 0)
                return -ENOMEM;
            if (name->label == NULL) {
                name->label = label;
                if (learn_spelled(r, p + at, n, label) < 0 || learn_encoded(r, p + at, n, label) < 0)
                    return -ENOMEM;
            }
        }
        at += n + 1;
    }
    return 0;
}

/* One word of letters alone may be any word, and a number any number. */
static bool is_worth_whole(const char *value, size_t len)
{
    size_t letters = 0, digits = 0;
    for (size_t i = 0; i < len; i++) {
        letters += isalpha((unsigned char)value[i]) != 0;
        digits += isdigit((unsigned char)value[i]) != 0;
    }
    return len >= SECRET_LEARNED_MIN && len <= SECRET_LEARNED_MAX && letters < len && digits < len;
}

int redact_learn_whole(struct redactor *r, enum redact_kind kind, const char *value, size_t len, const char *label)
{
    size_t known = r->count;
    if (!is_worth_whole(value, len) || r->literals >= LITERALS_MAX)
        return 0;
    struct redact_name *name = redact_name_of(r, kind, value, len);
    if (make_literal(r, name) < 0)
        return -ENOMEM;
    if (kind != REDACT_SECRET) {
        name->learned = true;
        redact_numbers_back(r, known);
        return 0;
    }
    if (name->label != NULL)
        return 0;
    name->label = label;
    int e = learn_spelled(r, value, len, label);
    return e < 0 ? e : learn_encoded(r, value, len, label);
}

static bool is_name_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.' ||
           (unsigned char)c >= 0x80;
}

static int learn_name(struct redactor *r, enum redact_kind kind, const char *p, size_t len)
{
    char value[128];
    if (len < 3 || len >= sizeof value || r->literals >= LITERALS_MAX)
        return 0;
    for (size_t i = 0; i < len; i++) {
        if (!is_name_char(p[i]))
            return 0;
    }
    memcpy(value, p, len);
    value[len] = '\0';
    if (redact_is_common(value))
        return 0;
    struct redact_name *name = redact_name_of(r, kind, value, len);
    if (name != NULL && name->literal)
        return 0; /* a better source has named it */
    int e = make_literal(r, name);
    if (e == 0) {
        name->learned = true;
        name->weak = kind != REDACT_ID && redact_is_weak(value, SHORT_LEARNED);
    }
    char *dot = kind == REDACT_HOST ? strchr(value, '.') : NULL;
    if (e == 0 && dot != NULL && !isdigit((unsigned char)value[0]))
        e = learn_name(r, kind, value, (size_t)(dot - value));
    return e;
}

/* A repository called "benchmark": a name of letters alone is an ordinary word in any text, except in a path. */
int redact_add_word(struct redactor *r, enum redact_kind kind, const char *value, size_t len)
{
    size_t known = r->count;
    int e = learn_name(r, kind, value, len);
    size_t letters = 0;
    while (letters < len && isalpha((unsigned char)value[letters]))
        letters++;
    for (size_t i = known; i < r->count; i++)
        r->names[i].in_path = kind == REDACT_PROJECT && letters == len;
    return e;
}

/* A name that somebody gave to a part of his program: its classes, files and options have it, too. The name of a user or
 * a host is hidden, or kept, as that. */
static int learn_part(struct redactor *r, const char *p, size_t len)
{
    size_t known = r->count;
    if (find_name(r, REDACT_USER, p, len) != NULL || find_name(r, REDACT_HOST, p, len) != NULL)
        return 0;
    int e = learn_name(r, REDACT_PROJECT, p, len);
    for (size_t i = known; i < r->count; i++) {
        r->names[i].part = true;
        r->names[i].weak = false;
    }
    redact_numbers_back(r, known);
    return e;
}

/* The name of a file is hidden in all texts, where only words joined make it: "merger_plan" can be nothing else. */
static int learn_file(struct redactor *r, const char *p, size_t len)
{
    size_t known = r->count;
    bool joined = len >= JOINED_MIN && (memchr(p, '-', len) != NULL || memchr(p, '_', len) != NULL);
    if (!joined || r->literals >= FILES_MAX || redact_is_known(r->rules->vocabulary, KNOWN_TECHNICAL, p, len))
        return 0;
    int e = learn_name(r, REDACT_PROJECT, p, len);
    redact_numbers_back(r, known);
    return e;
}

int redact_learn_span(struct redactor *r, const struct redact_text *t,
                      const struct redact_span *span)
{
    const char *p = t->p + span->from;
    size_t len = span->to - span->from;
    switch (span->kind) {
    case REDACT_SECRET:
        return learn_secret(r, p, len, span->label);
    case REDACT_USER:
    case REDACT_HOST:
    case REDACT_ACCOUNT:
        return learn_name(r, span->kind, p, len);
    case REDACT_PROJECT:
        if (span->rule->unless_known == KNOWN_FILE)
            return learn_file(r, p, len);
        return span->rule->unless_known == KNOWN_IDENTIFIER ? learn_part(r, p, len) : 0;
    case REDACT_ID:
        return len >= 10 ? learn_name(r, span->kind, p, len) : 0;
    default:
        return 0;
    }
}

int redactor_learn(struct redactor *r, const char *text, size_t len)
{
    const struct redact_text t = {text, len};
    struct redact_spans spans = {0};
    int e = len > 0 ? redact_search(r, &t, true, &spans) : 0;
    for (size_t i = 0; e == 0 && i < spans.count; i++) {
        if (spans.list[i].rule != NULL && spans.list[i].rule->learn)
            e = redact_learn_span(r, &t, &spans.list[i]);
    }
    free(spans.list);
    return e;
}
