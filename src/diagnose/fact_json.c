/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts as JSON, both ways.
 *
 * Written by the finisher (facts.json of a bundle). Read by `triage` from bundles of other people
 * and from hand-written files (--facts): the input is not trusted. cJSON keeps numbers as double
 * and prints 15 digits, so an integer of more digits is written as a string with "type": "integer".
 */
#include "base/ending.h"
#include "diagnose/fact.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "diagnose/text.h"

/* cJSON 1.7 prints with 15 digits when that is *almost* the number: stay below 16 digits. */
#define EXACT_IN_DOUBLE INT64_C(999999999999999)

static const char *const when_names[] = {
    [FACT_STATIC] = "static", [FACT_BASELINE] = "baseline", [FACT_PEAK] = "peak",
    [FACT_IMPACT] = "impact", [FACT_AFTER] = "after",       [FACT_LOG] = "log",
};

static const char *const status_names[] = {
    [FACT_PRESENT] = "present",
    [FACT_ABSENT] = "absent",
    [FACT_UNREADABLE] = "unreadable",
    [FACT_BLIND] = "blind",
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static int find_word(const char *const *words, size_t count, const char *word)
{
    for (size_t i = 0; i < count; i++)
        if (strcasecmp(words[i], word) == 0)
            return (int)i;
    return -1;
}

static bool add_value(cJSON *out, const struct fact *fact)
{
    char number[32];
    switch (fact->type) {
    case FACT_BOOLEAN:
        return cJSON_AddBoolToObject(out, "value", fact->integer != 0) != NULL;
    case FACT_TEXT:
        return cJSON_AddStringToObject(out, "value", fact->text) != NULL;
    case FACT_REAL: /* "3" would be read back as an integer */
        return cJSON_AddNumberToObject(out, "value", fact->real) != NULL &&
               (trunc(fact->real) != fact->real ||
                cJSON_AddStringToObject(out, "type", "real") != NULL);
    case FACT_INTEGER:
        break;
    }
    if (fact->integer >= -EXACT_IN_DOUBLE && fact->integer <= EXACT_IN_DOUBLE)
        return cJSON_AddNumberToObject(out, "value", (double)fact->integer) != NULL;
    (void)snprintf(number, sizeof number, "%lld", (long long)fact->integer);
    return cJSON_AddStringToObject(out, "value", number) != NULL &&
           cJSON_AddStringToObject(out, "type", "integer") != NULL;
}

static bool add_fact(cJSON *array, const struct fact *fact)
{
    cJSON *out = cJSON_CreateObject();
    if (out == NULL || !cJSON_AddItemToArray(array, out)) {
        cJSON_Delete(out);
        return false;
    }
    bool ok = cJSON_AddStringToObject(out, "name", fact->name) != NULL;
    if (fact->status == FACT_PRESENT)
        ok = ok && add_value(out, fact);
    else
        ok = ok && cJSON_AddStringToObject(out, "status", status_names[fact->status]) != NULL &&
             cJSON_AddStringToObject(out, "reason", fact->reason) != NULL;
    ok = ok && cJSON_AddStringToObject(out, "when", when_names[fact->when]) != NULL;
    if (fact->source != NULL)
        ok = ok && cJSON_AddStringToObject(out, "source", fact->source) != NULL;
    return ok;
}

cJSON *facts_to_json(const struct facts *f)
{
    cJSON *root = cJSON_CreateObject();
    cJSON *array = NULL;
    bool ok = root != NULL && cJSON_AddNumberToObject(root, "format", 1) != NULL &&
              (array = cJSON_AddArrayToObject(root, "facts")) != NULL;
    for (size_t i = 0; ok && i < facts_count(f); i++)
        ok = add_fact(array, facts_at(f, i));
    if (!ok) {
        cJSON_Delete(root);
        root = NULL;
    }
    return root;
}

static bool starts_with(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* A hand-written fact rarely gives its moment: people describe the moment of the crash. */
static enum fact_when default_when(const char *name)
{
    static const char *const said[] = {"oom.", "msg.", "kmsg.", "report.", "vendor.",
                                       "err.", "quantity.", "series.", "event."};
    static const char *const moving[] = {"used_bytes", "free_bytes", "available_bytes", "_percent"};
    for (size_t i = 0; i < COUNT(said); i++)
        if (starts_with(name, said[i]))
            return FACT_LOG;
    for (size_t i = 0; i < COUNT(moving); i++)
        if (ends_with(name, moving[i]))
            return FACT_IMPACT;
    return starts_with(name, "proc.") || starts_with(name, "others.") ||
                   starts_with(name, "siblings.")
               ? FACT_IMPACT
               : FACT_STATIC;
}

static int set_number(struct facts *f, const char *name, enum fact_when when, double value,
                      bool real, const char *source)
{
    bool integral = value >= -0x1p63 && value < 0x1p63 && trunc(value) == value;
    if (integral && !real)
        return facts_set_integer(f, name, when, (int64_t)value, source);
    return facts_set_real(f, name, when, value, source);
}

/* People write "8 GiB" for a name that ends in _bytes and mean a number. */
static int set_string(struct facts *f, const char *name, enum fact_when when, const char *text,
                      const char *type, const char *source)
{
    int64_t value;
    char *end;
    if (type != NULL && strcmp(type, "integer") == 0) {
        errno = 0;
        value = strtoll(text, &end, 10);
        if (errno != 0 || end == text || *end != '\0')
            return -EINVAL;
        return facts_set_integer(f, name, when, value, source);
    }
    if (type == NULL && ends_with(name, "_bytes") && text_parse_size(text, strlen(text), &value))
        return facts_set_integer(f, name, when, value, source);
    return facts_set_text(f, name, when, text, source);
}

static int set_value(struct facts *f, const char *name, enum fact_when when, const cJSON *value,
                     const char *type, const char *source)
{
    if (cJSON_IsNumber(value))
        return set_number(f, name, when, value->valuedouble,
                          type != NULL && strcmp(type, "real") == 0, source);
    if (cJSON_IsBool(value))
        return facts_set_boolean(f, name, when, cJSON_IsTrue(value), source);
    if (cJSON_IsString(value))
        return set_string(f, name, when, value->valuestring, type, source);
    if (cJSON_IsNull(value))
        return facts_set_missing(f, name, when, FACT_ABSENT, "null in the file of facts", source);
    return -EINVAL;
}

static const char *member_text(const cJSON *object, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
}

/* {"name"?, "value" | "status"+"reason", "when"?, "source"?, "type"?} */
static int read_object(struct facts *f, const char *name, enum fact_when when, const cJSON *item,
                       struct rc_err *err)
{
    const char *when_text = member_text(item, "when");
    if (when_text != NULL) {
        int i = find_word(when_names, COUNT(when_names), when_text);
        if (i < 0)
            return rc_err_set(err, -EINVAL, "fact '%s' has an unknown \"when\" '%s'", name,
                              when_text);
        when = (enum fact_when)i;
    }
    const char *source = member_text(item, "source");
    const char *status_text = member_text(item, "status");
    if (status_text != NULL && strcasecmp(status_text, "present") != 0) {
        int i = find_word(status_names, COUNT(status_names), status_text);
        if (i < 0)
            return rc_err_set(err, -EINVAL, "fact '%s' has an unknown \"status\" '%s'", name,
                              status_text);
        return facts_set_missing(f, name, when, (enum fact_status)i, member_text(item, "reason"),
                                 source);
    }
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(item, "value");
    if (value == NULL)
        return rc_err_set(err, -EINVAL, "fact '%s' has neither \"value\" nor \"status\"", name);
    int r = set_value(f, name, when, value, member_text(item, "type"), source);
    if (r < 0)
        return rc_err_set(err, r, "fact '%s' has a value or name that cannot be used", name);
    return 0;
}

static int read_array(struct facts *f, const cJSON *array, struct rc_err *err)
{
    const cJSON *item;
    unsigned n = 0;
    cJSON_ArrayForEach(item, array)
    {
        const char *name = member_text(item, "name");
        if (name == NULL)
            return rc_err_set(err, -EINVAL, "entry %u of \"facts\" has no \"name\"", n);
        int r = read_object(f, name, FACT_STATIC, item, err);
        if (r < 0)
            return r;
        n++;
    }
    return 0;
}

/* "gpu.0.vram.used_bytes@baseline": the moment after an @, else by the name. */
static int read_short(struct facts *f, const cJSON *item, struct rc_err *err)
{
    char name[256];
    int n = snprintf(name, sizeof name, "%s", item->string);
    if (n < 0 || (size_t)n >= sizeof name)
        return rc_err_set(err, -EINVAL, "fact name '%.60s...' is too long", item->string);
    enum fact_when when = default_when(name);
    char *at = strrchr(name, '@');
    if (at != NULL) {
        int i = find_word(when_names, COUNT(when_names), at + 1);
        if (i < 0)
            return rc_err_set(err, -EINVAL, "fact '%s' has an unknown moment after '@'", name);
        *at = '\0';
        when = (enum fact_when)i;
    }
    if (cJSON_IsObject(item))
        return read_object(f, name, when, item, err);
    int r = set_value(f, name, when, item, NULL, "facts file");
    if (r < 0)
        return rc_err_set(err, r, "fact '%s' has a value or name that cannot be used", name);
    return 0;
}

int facts_from_json(struct facts *f, const cJSON *json, struct rc_err *err)
{
    if (!cJSON_IsObject(json))
        return rc_err_set(err, -EINVAL, "facts are not a JSON object");
    const cJSON *format = cJSON_GetObjectItemCaseSensitive(json, "format");
    const cJSON *array = cJSON_GetObjectItemCaseSensitive(json, "facts");
    if (format != NULL && (!cJSON_IsNumber(format) || format->valueint != 1))
        return rc_err_set(err, -EPROTONOSUPPORT, "facts have an unknown \"format\"");
    if (array != NULL) {
        if (!cJSON_IsArray(array))
            return rc_err_set(err, -EINVAL, "\"facts\" is not an array");
        return read_array(f, array, err);
    }
    const cJSON *item;
    cJSON_ArrayForEach(item, json)
    {
        if (item == format)
            continue;
        int r = read_short(f, item, err);
        if (r < 0)
            return r;
    }
    return 0;
}
