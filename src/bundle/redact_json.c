/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Redaction of a JSON document value by value: it stays well-formed, and what is our own vocabulary
 * (names of facts, moments, statuses, classes) stays as it is, whatever a user is called.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "bundle/redact_forms.h"

struct walk {
    struct redactor *redactor;
    const char *const *keep; /* keys whose values are ours */
};

static bool is_kept(const struct walk *w, const char *key)
{
    for (size_t i = 0; key != NULL && w->keep != NULL && w->keep[i] != NULL; i++) {
        if (strcmp(w->keep[i], key) == 0)
            return true;
    }
    return false;
}

/* What gives the value away: {"name": "env.HF_TOKEN", "value": "..."}, ["--token", "..."]. */
static const char *name_of_value(const cJSON *parent, const cJSON *item)
{
    const char *key = item->string;
    if (parent != NULL && cJSON_IsArray(parent) && item != parent->child && cJSON_IsString(item->prev) &&
        item->prev->valuestring[0] == '-')
        return item->prev->valuestring;
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(parent, "name"));
    return key != NULL && strcmp(key, "value") == 0 && name != NULL ? name : key;
}

static bool given_away(const char *name, const char *value, struct redact_match *ret)
{
    struct buf line = BUF_INIT;
    buf_printf(&line, "%s=%s", name, value);
    const struct redact_text t = {buf_str(&line), line.len};
    *ret = redact_match_named(&t, 0);
    bool whole = !buf_failed(&line) && ret->len > 0 && ret->skip == strlen(name) + 1;
    ret->len = strlen(value);
    buf_release(&line);
    return whole;
}

/* The value of the string or number item. */
static int redact_value(const struct walk *w, const cJSON *parent, cJSON *item)
{
    char number[40];
    const char *value = item->valuestring;
    struct redact_match named;
    struct buf out = BUF_INIT;
    int r = 0;
    if (cJSON_IsNumber(item)) {
        (void)snprintf(number, sizeof number, "%.17g", item->valuedouble);
        value = number;
    }
    const char *name = name_of_value(parent, item);
    if (name != NULL && given_away(name, value, &named))
        redact_pseudonym(w->redactor, &named, value, &out);
    else if (cJSON_IsString(item))
        r = redact_text(w->redactor, value, strlen(value), &out);
    else
        return 0;
    if (r == 0 && buf_failed(&out))
        r = -ENOMEM;
    if (r == 0 && strcmp(buf_str(&out), value) != 0) {
        char *copy = cJSON_malloc(out.len + 1);
        if (copy == NULL) {
            r = -ENOMEM;
        } else {
            memcpy(copy, buf_str(&out), out.len + 1);
            cJSON_free(item->valuestring);
            item->valuestring = copy;
            item->type = (item->type & ~0xff) | cJSON_String;
        }
    }
    buf_release(&out);
    return r;
}

/* {"/home/alice/x": ...}: a key that is a path. */
static int redact_key(const struct walk *w, cJSON *item)
{
    if (item->string == NULL || strpbrk(item->string, "/@\\") == NULL)
        return 0;
    struct buf out = BUF_INIT;
    int r = redact_text(w->redactor, item->string, strlen(item->string), &out);
    char *copy = r == 0 ? cJSON_malloc(out.len + 1) : NULL;
    if (copy != NULL) {
        memcpy(copy, buf_str(&out), out.len + 1);
        if ((item->type & cJSON_StringIsConst) == 0)
            cJSON_free(item->string);
        item->type &= ~cJSON_StringIsConst;
        item->string = copy;
    }
    buf_release(&out);
    return r < 0 ? r : copy == NULL ? -ENOMEM : 0;
}

/* As deep as cJSON's parser goes (CJSON_NESTING_LIMIT, 1000). */
static int walk(const struct walk *w, const cJSON *parent,
                cJSON *item) /* NOLINT(misc-no-recursion) */
{
    int r = redact_key(w, item);
    if (r < 0 || is_kept(w, item->string))
        return r;
    if (cJSON_IsString(item) || cJSON_IsNumber(item))
        return redact_value(w, parent, item);
    for (cJSON *child = item->child; r == 0 && child != NULL; child = child->next)
        r = walk(w, item, child);
    return r;
}

int redact_json(struct redactor *redactor, struct cJSON *document, const char *const keep[])
{
    const struct walk w = {redactor, keep};
    return walk(&w, NULL, document);
}
