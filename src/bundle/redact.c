/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The redactor: known names, pseudonyms, and the walk over the text. Forms are in redact_forms.c.
 *
 * One pass; at each place the matchers of that place are asked in a fixed order and the first says
 * how many bytes it takes. Runs in the finisher.
 */
#include "bundle/redact.h"

#include <ctype.h>
#include <errno.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "bundle/redact_forms.h"

#define NAMES_MAX 4096 /* pseudonyms of one redactor; later ones share a name without number */
#define INSIDE_WORDS_FROM 5
#define SHORT_USER 2 /* initials of three letters are a name, "vm" and "box" are not */
#define SHORT_HOST 3

struct name {
    enum redact_kind kind;
    unsigned number;
    bool literal; /* given by redactor_add(): looked for everywhere */
    bool weak;    /* ... where it stands as a host or a user */
    size_t len;
    char *value;
};

struct redactor {
    struct name *names;
    size_t count, capacity;
    unsigned last_number[REDACT_KIND_MAX];
    uint64_t counts[REDACT_KIND_MAX];
    uint64_t secret_counts[REDACT_SECRETS_MAX];
    bool first[256]; /* lower-case first bytes of literals */
};

static const char *const kind_names[REDACT_KIND_MAX] = {
    [REDACT_SECRET] = "secret", [REDACT_HOME] = "home",   [REDACT_USER] = "user",
    [REDACT_HOST] = "host",     [REDACT_IP] = "ip",       [REDACT_MAC] = "mac",
    [REDACT_ID] = "id",         [REDACT_EMAIL] = "email",
};

struct redactor *redactor_new(void)
{
    return calloc(1, sizeof(struct redactor));
}

void redactor_free(struct redactor *r)
{
    if (r == NULL)
        return;
    for (size_t i = 0; i < r->count; i++)
        free(r->names[i].value);
    free(r->names);
    free(r);
}

/* The pseudonym of a value; NULL when there is no memory or the table is full. */
static struct name *name_of(struct redactor *r, enum redact_kind kind, const char *value,
                            size_t len)
{
    for (size_t i = 0; i < r->count; i++) {
        struct name *name = &r->names[i];
        if (name->kind == kind && name->len == len && strncasecmp(name->value, value, len) == 0)
            return name;
    }
    if (r->count >= NAMES_MAX)
        return NULL;
    if (r->count == r->capacity) {
        size_t capacity = r->capacity ? r->capacity * 2 : 16;
        struct name *grown = realloc(r->names, capacity * sizeof *grown);
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
    r->names[r->count] =
        (struct name){.kind = kind, .number = ++r->last_number[kind], .len = len, .value = copy};
    return &r->names[r->count++];
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
    struct name *name = name_of(r, kind, value, len);
    if (name == NULL)
        return -ENOMEM;
    name->literal = true;
    name->weak = (kind == REDACT_USER && redact_is_weak(value, SHORT_USER)) ||
                 (kind == REDACT_HOST && redact_is_weak(value, SHORT_HOST));
    r->first[tolower((unsigned char)value[0])] = true;
    return 0;
}

/* Not getpwuid(): it asks directory servers, which may not answer. A name that only they know comes
 * from the environment. */
static const struct passwd *passwd_entry(FILE *file, uid_t uid)
{
    struct passwd *entry = NULL;
    while (file != NULL && (entry = fgetpwent(file)) != NULL && entry->pw_uid != uid)
        ;
    return entry;
}

int redactor_add_machine(struct redactor *r)
{
    char host[256] = "";
    char id[64] = "";
    RC_AUTO_FCLOSE FILE *passwd_file = fopen("/etc/passwd", "re");
    const struct passwd *pw = passwd_entry(passwd_file, getuid());
    const char *const users[] = {getenv("USER"), getenv("LOGNAME"), getenv("SUDO_USER"),
                                 pw != NULL ? pw->pw_name : NULL};
    const char *const homes[] = {getenv("HOME"), pw != NULL ? pw->pw_dir : NULL};
    int e = 0;
    for (size_t i = 0; i < 2 && e == 0; i++)
        e = homes[i] != NULL && strlen(homes[i]) > 4 ? redactor_add(r, REDACT_HOME, homes[i]) : 0;
    for (size_t i = 0; i < 4 && e == 0; i++)
        e = redactor_add(r, REDACT_USER, users[i]);
    if (e == 0 && gethostname(host, sizeof host - 1) == 0) {
        e = redactor_add(r, REDACT_HOST, host);
        char *dot = strchr(host, '.');
        if (dot != NULL)
            *dot = '\0';
        if (e == 0 && dot != NULL)
            e = redactor_add(r, REDACT_HOST, host);
    }
    if (e == 0 && fs_read_machine_text("/etc/machine-id", id, sizeof id) == 32)
        e = redactor_add(r, REDACT_ID, id);
    return e;
}

/* Is it the name that stands there, or a part of another word? */
static bool is_meant(const struct name *name, const struct redact_text *t, size_t at)
{
    bool person_or_machine = name->kind == REDACT_USER || name->kind == REDACT_HOST;
    if (person_or_machine && redact_in_kernel_path(t, at))
        return false;
    if (name->weak)
        return name->kind == REDACT_HOST ? redact_stands_as_host(t, at, name->len)
                                         : redact_stands_as_user(t, at, name->len);
    if (name->kind == REDACT_HOME)
        return !isalnum((unsigned char)redact_at(t, at + name->len));
    return name->len >= INSIDE_WORDS_FROM || !redact_is_joined(t, at, name->len);
}

/* A literal at `at`: the longest one that fits. */
static struct redact_match match_literal(const struct redactor *r, const struct redact_text *t,
                                         size_t at)
{
    struct redact_match best = {0};
    if (!r->first[tolower((unsigned char)t->p[at])])
        return best;
    for (size_t i = 0; i < r->count; i++) {
        const struct name *name = &r->names[i];
        if (name->literal && name->len <= t->len - at && name->len > best.len &&
            strncasecmp(t->p + at, name->value, name->len) == 0 && is_meant(name, t, at))
            best = (struct redact_match){.len = name->len, .kind = name->kind};
    }
    return best;
}

void redact_pseudonym(struct redactor *r, const struct redact_match *m, const char *value,
                      struct buf *out)
{
    r->counts[m->kind]++;
    if (m->kind == REDACT_SECRET) {
        r->secret_counts[m->secret]++;
        buf_printf(out, "<secret:%s>", redact_secret_names[m->secret]);
        return;
    }
    const struct name *name = name_of(r, m->kind, value, m->len);
    if (name != NULL)
        buf_printf(out, "<%s%u>", kind_names[m->kind], name->number);
    else
        buf_printf(out, "<%s>", kind_names[m->kind]);
}

int redact_text(struct redactor *r, const char *in, size_t len, struct buf *out)
{
    const struct redact_text t = {in, len};
    size_t done = 0; /* copied up to here */
    for (size_t at = 0; at < len;) {
        struct redact_match m = redact_match_form(&t, at);
        if (m.len == 0)
            m = match_literal(r, &t, at);
        if (m.len == 0) {
            at++;
            continue;
        }
        buf_append(out, in + done, at + m.skip - done);
        redact_pseudonym(r, &m, in + at + m.skip, out);
        at += m.skip + m.len;
        done = at;
    }
    buf_append(out, in + done, len - done);
    return buf_failed(out) ? -ENOMEM : 0;
}

uint64_t redactor_count(const struct redactor *r, enum redact_kind kind)
{
    return kind < REDACT_KIND_MAX ? r->counts[kind] : 0;
}

int redactor_report_json(const struct redactor *r, struct buf *out)
{
    buf_puts(out, "{\"format\": 1, \"counts\": {");
    for (size_t i = 0; i < REDACT_KIND_MAX; i++)
        buf_printf(out, "%s\"%s\": %llu", i > 0 ? ", " : "", kind_names[i],
                   (unsigned long long)r->counts[i]);
    buf_puts(out, "}, \"secrets\": {");
    const char *comma = "";
    for (size_t i = 0; i < REDACT_SECRETS_MAX; i++) {
        if (r->secret_counts[i] == 0)
            continue;
        buf_printf(out, "%s\"%s\": %llu", comma, redact_secret_names[i],
                   (unsigned long long)r->secret_counts[i]);
        comma = ", ";
    }
    buf_puts(out, "}}\n");
    return buf_failed(out) ? -ENOMEM : 0;
}
