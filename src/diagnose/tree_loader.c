/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/tree_loader.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "diagnose/tree.h"

static int line_of(const struct loader *l, const char *anchor)
{
    const char *at = anchor != NULL && anchor[0] != '\0' ? strstr(l->near, anchor) : NULL;
    if (at == NULL)
        at = l->near;
    int line = 1;
    for (const char *s = l->text; s < at; s++)
        line += *s == '\n';
    return line;
}

int loader_wrong(const struct loader *l, const char *anchor, const char *fmt, ...)
{
    char reason[192];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(reason, sizeof(reason), fmt, ap);
    va_end(ap);
    return rc_err_set(l->err, -EINVAL, "%s:%d: %s%s%s", l->file, line_of(l, anchor),
                      l->item != NULL ? l->item : "", l->item != NULL ? ": " : "", reason);
}

int loader_wrong_key(const struct loader *l, const char *key, const char *reason)
{
    char quoted[80];
    (void)snprintf(quoted, sizeof(quoted), "\"%s\"", key);
    return loader_wrong(l, quoted, "'%s' %s", key, reason);
}

int loader_text(const struct loader *l, const cJSON *object, const char *key, bool required,
                char **ret)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    *ret = NULL;
    if (item == NULL)
        return required ? loader_wrong(l, NULL, "'%s' is missing", key) : 0;
    if (cJSON_IsString(item)) {
        *ret = strdup(item->valuestring);
        return *ret != NULL ? 0 : -ENOMEM;
    }
    if (!cJSON_IsArray(item))
        return loader_wrong_key(l, key, "must be a text or a list of texts");
    struct buf joined = BUF_INIT;
    const cJSON *part = NULL;
    cJSON_ArrayForEach(part, item)
    {
        if (!cJSON_IsString(part)) {
            buf_release(&joined);
            return loader_wrong_key(l, key, "must be a text or a list of texts");
        }
        if (joined.len > 0)
            buf_putc(&joined, ' ');
        buf_puts(&joined, part->valuestring);
    }
    *ret = buf_failed(&joined) ? NULL : strdup(buf_str(&joined));
    buf_release(&joined);
    return *ret != NULL ? 0 : -ENOMEM;
}

int loader_template(const struct loader *l, const cJSON *object, const char *key, bool required,
                    char **ret)
{
    char bad[80];
    int r = loader_text(l, object, key, required, ret);
    if (r < 0 || *ret == NULL || template_check(*ret, bad, sizeof(bad)) == NULL)
        return r;
    free(*ret);
    *ret = NULL;
    return loader_wrong(l, bad, "'%s': no such placeholder '%s'", key, bad);
}

int loader_expr(const struct loader *l, const cJSON *object, const char *key, bool required,
                struct expr **ret)
{
    char *text = NULL;
    struct rc_err inner = {""};
    int r = loader_text(l, object, key, required, &text);
    *ret = NULL;
    if (r < 0 || text == NULL)
        return r;
    *ret = expr_parse(text, l->tree != NULL ? &l->tree->terms : NULL, &inner);
    if (*ret == NULL) {
        char anchor[40];
        (void)snprintf(anchor, sizeof(anchor), "%s", text);
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
        if (cJSON_IsArray(item) && item->child != NULL && item->child->valuestring != NULL)
            (void)snprintf(anchor, sizeof(anchor), "%s", item->child->valuestring);
        r = loader_wrong(l, anchor, "'%s': %s", key, inner.msg);
    }
    free(text);
    return r;
}

int loader_check_keys(const struct loader *l, const cJSON *object, const char *const *allowed)
{
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, object)
    {
        bool known = item->string[0] == '#'; /* a remark */
        for (size_t i = 0; allowed[i] != NULL && !known; i++)
            known = strcmp(item->string, allowed[i]) == 0;
        if (!known)
            return loader_wrong_key(l, item->string, "is not a key that belongs here");
    }
    return 0;
}

void loader_go_to(struct loader *l, const char *id)
{
    char quoted[80];
    (void)snprintf(quoted, sizeof(quoted), "\"%s\"", id);
    for (const char *at = l->near; (at = strstr(at, "\"id\"")) != NULL; at += 4) {
        const char *value = strchr(at + 4, '"');
        if (value != NULL && strncmp(value, quoted, strlen(quoted)) == 0) {
            l->near = at;
            return;
        }
    }
}

cJSON *loader_json(struct loader *l, size_t len)
{
    const char *end = NULL;
    cJSON *root = cJSON_ParseWithLengthOpts(l->text, len + 1, &end, true);
    if (root == NULL) {
        l->near = end != NULL && end >= l->text && end <= l->text + len ? end : l->text;
        (void)loader_wrong(l, NULL, "not valid JSON here");
    } else if (!cJSON_IsObject(root)) {
        (void)loader_wrong(l, NULL, "must be a JSON object");
        cJSON_Delete(root);
        root = NULL;
    }
    return root;
}

int loader_check_format(const struct loader *l, const cJSON *root)
{
    const cJSON *format = cJSON_GetObjectItemCaseSensitive(root, "format");
    if (!cJSON_IsNumber(format) || format->valueint != 1)
        return loader_wrong(l, "\"format\"", "'format' must be 1");
    return 0;
}
