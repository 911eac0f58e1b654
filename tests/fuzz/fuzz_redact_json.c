/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: redaction of JSON. A document with a token in one of its strings (the first two bytes
 * choose which, and where in it) is well-formed afterwards, without the token, and of the same shape.
 */
#include <cjson/cJSON.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "bundle/redact.h"

#define TOKEN "hf_q7Zk2Xw9Lr4Tn8Vb1Hd6Js3Gm5Py0CfQeRu"
#define NEW_EVERY 100u /* names are remembered, and would make later inputs slower */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static cJSON *nth_string(cJSON *item, unsigned *n)
{
    if (cJSON_IsString(item) && (*n)-- == 0)
        return item;
    for (cJSON *child = item->child; child != NULL; child = child->next) {
        cJSON *found = nth_string(child, n);
        if (found != NULL)
            return found;
    }
    return NULL;
}

static size_t count_items(const cJSON *item)
{
    size_t count = 1;
    for (const cJSON *child = item->child; child != NULL; child = child->next)
        count += count_items(child);
    return count;
}

static void plant(cJSON *json, uint8_t which, uint8_t place)
{
    unsigned n = which;
    cJSON *item = nth_string(json, &n);
    if (item == NULL)
        return;
    size_t len = strlen(item->valuestring);
    size_t at = len * place / 255;
    struct buf text = BUF_INIT;
    buf_append(&text, item->valuestring, at);
    buf_puts(&text, TOKEN);
    buf_puts(&text, item->valuestring + at);
    (void)cJSON_SetValuestring(item, buf_str(&text));
    buf_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const keep[] = {"when", "status", NULL};
    static struct redactor *r;
    static unsigned used;
    if (size < 3 || size > 1 << 15 || memmem(data, size, "q7Zk", 4) != NULL ||
        memmem(data, size, "when", 4) != NULL || memmem(data, size, "status", 6) != NULL ||
        memmem(data, size, "\\u", 2) != NULL) /* these spell a kept key, or the token's middle */
        return 0;
    cJSON *json = cJSON_ParseWithLength((const char *)data + 2, size - 2);
    if (json == NULL)
        return 0;
    plant(json, data[0], data[1]);
    size_t items = count_items(json);
    if (r == NULL || ++used % NEW_EVERY == 0) {
        redactor_free(r);
        r = redactor_new();
    }
    if (r == NULL || redactor_learn_json(r, json) < 0 || redact_json(r, json, keep) < 0)
        abort();
    char *text = cJSON_PrintUnformatted(json);
    cJSON *back = text != NULL ? cJSON_Parse(text) : NULL;
    if (back == NULL || count_items(back) != items || strstr(text, &TOKEN[3]) != NULL)
        abort();
    cJSON_Delete(back);
    cJSON_Delete(json);
    free(text);
    return 0;
}
