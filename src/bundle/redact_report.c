/* SPDX-License-Identifier: Apache-2.0 */
/* redaction.json: how much was hidden, by kind, rule and file; never what. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bundle/redact_internal.h"

static cJSON *add_counts(cJSON *to, const char *key, const uint64_t counts[REDACT_KIND_MAX],
                         bool zeros)
{
    cJSON *object = cJSON_AddObjectToObject(to, key);
    for (int kind = 0; kind < REDACT_KIND_MAX; kind++) {
        if (zeros || counts[kind] > 0)
            (void)cJSON_AddNumberToObject(object, redact_kind_names[kind], (double)counts[kind]);
    }
    return object;
}

static bool any(const uint64_t counts[REDACT_KIND_MAX])
{
    uint64_t sum = 0;
    for (int kind = 0; kind < REDACT_KIND_MAX; kind++)
        sum += counts[kind];
    return sum > 0;
}

#define ID_SIZE 17

static const char *rules_id(const struct redactor *r, char id[ID_SIZE])
{
    (void)snprintf(id, ID_SIZE, "%016" PRIx64, r->rules_id);
    return id;
}

struct cJSON *redactor_report(const struct redactor *r)
{
    cJSON *report = cJSON_CreateObject();
    (void)cJSON_AddNumberToObject(report, "format", 1);
    (void)add_counts(report, "counts", r->counts, true);
    cJSON *secrets = cJSON_AddObjectToObject(report, "secrets");
    for (size_t i = 0; i < r->rules->count; i++) {
        if (r->rule_counts[i] > 0)
            (void)cJSON_AddNumberToObject(secrets, r->rules->list[i].name,
                                          (double)r->rule_counts[i]);
    }
    if (r->other_secrets > 0)
        (void)cJSON_AddNumberToObject(secrets, "other", (double)r->other_secrets);
    cJSON *files = cJSON_AddObjectToObject(report, "files");
    for (size_t i = 0; i < r->file_count; i++) {
        if (any(r->files[i].counts))
            (void)add_counts(files, r->files[i].name, r->files[i].counts, false);
    }
    cJSON *kept = cJSON_AddArrayToObject(report, "kept");
    for (int kind = 0; kind < REDACT_KIND_MAX; kind++) {
        if (r->kept[kind])
            (void)cJSON_AddItemToArray(kept, cJSON_CreateString(redact_kind_names[kind]));
    }
    char id[ID_SIZE];
    const cJSON *rules = cJSON_AddStringToObject(report, "rules", rules_id(r, id));
    if (secrets != NULL && files != NULL && kept != NULL && rules != NULL)
        return report;
    cJSON_Delete(report);
    return NULL;
}

bool redactor_made(const struct redactor *r, const struct cJSON *report)
{
    char id[ID_SIZE];
    const char *rules = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(report, "rules"));
    const cJSON *kept = cJSON_GetObjectItemCaseSensitive(report, "kept");
    return rules != NULL && strcmp(rules, rules_id(r, id)) == 0 && cJSON_IsArray(kept) && cJSON_GetArraySize(kept) == 0;
}
