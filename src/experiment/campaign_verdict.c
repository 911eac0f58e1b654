/* SPDX-License-Identifier: Apache-2.0 */
#include "experiment/campaign_verdict.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "experiment/conclusion.h"

static const char *text_of(const cJSON *object, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    return text != NULL ? text : "";
}

cJSON *campaign_shown(const struct experiment *e, const struct conclusion *conclusion)
{
    cJSON *shown = cJSON_CreateObject();
    char change[512] = "";
    if (conclusion->status == CONCLUSION_CONFIRMED)
        change_text(&e->changes.change[conclusion->cell - 1], change, sizeof change);
    bool ok = cJSON_AddStringToObject(shown, "status", conclusion_name(conclusion->status)) != NULL &&
              cJSON_AddStringToObject(shown, "sentence", conclusion->sentence) != NULL &&
              cJSON_AddNumberToObject(shown, "error", e->campaign.error) != NULL &&
              cJSON_AddStringToObject(shown, "class", conclusion->class_name) != NULL;
    if (ok && change[0] != '\0') {
        const struct cell *cell = &e->campaign.cell[conclusion->cell];
        ok = cJSON_AddStringToObject(shown, "change", change) != NULL &&
             cJSON_AddStringToObject(shown, "finding", finding_name(cell->finding)) != NULL;
    }
    if (!ok) {
        cJSON_Delete(shown);
        return NULL;
    }
    return shown;
}

static bool has_status(const cJSON *shown, enum conclusion_status status)
{
    return strcmp(text_of(shown, "status"), conclusion_name(status)) == 0;
}

bool campaign_decides(const cJSON *shown)
{
    return has_status(shown, CONCLUSION_CONFIRMED) || has_status(shown, CONCLUSION_REFUTED);
}

static void set_text(cJSON *json, const char *key, const char *text)
{
    cJSON_DeleteItemFromObjectCaseSensitive(json, key);
    (void)cJSON_AddStringToObject(json, key, text);
}

static void add_advice(cJSON *verdict, const cJSON *shown)
{
    struct buf advice = BUF_INIT;
    cJSON *list = cJSON_AddArrayToObject(verdict, "advice");
    const char *change = text_of(shown, "change");
    bool cures = strcmp(text_of(shown, "finding"), finding_name(FINDING_CURES)) == 0;
    if (change[0] != '\0') {
        buf_printf(&advice, "Keep this change: %s", change);
        (void)cJSON_AddItemToArray(list, cJSON_CreateString(buf_str(&advice)));
        (void)cJSON_AddStringToObject(verdict, "verify", cures ? "the command does not fail with it"
                                                               : "the command fails less often with it");
    }
    buf_release(&advice);
}

void campaign_verdict_apply(cJSON *verdict, const cJSON *shown)
{
    static const char *const of_one_run[] = {"runner_up", "decides", "also", "verify", "file_at", "signature", "advice"};
    const char *class_name = text_of(shown, "class");
    cJSON_DeleteItemFromObjectCaseSensitive(verdict, "experiment");
    (void)cJSON_AddItemToObject(verdict, "experiment", cJSON_Duplicate(shown, true));
    if (!campaign_decides(shown))
        return;
    if (class_name[0] != '\0' && strcmp(class_name, text_of(verdict, "class")) != 0) {
        set_text(verdict, "class", class_name);
        set_text(verdict, "subclass", "");
    }
    set_text(verdict, "sentence", text_of(shown, "sentence"));
    for (size_t i = 0; i < sizeof of_one_run / sizeof of_one_run[0]; i++)
        cJSON_DeleteItemFromObjectCaseSensitive(verdict, of_one_run[i]);
    if (has_status(shown, CONCLUSION_REFUTED))
        set_text(verdict, "confidence", "low");
    else if (class_name[0] != '\0')
        set_text(verdict, "confidence", "high");
    add_advice(verdict, shown);
}

void campaign_headline(const cJSON *verdict, struct buf *out)
{
    const char *sentence = text_of(verdict, "sentence");
    const char *end = strstr(sentence, "; ");
    buf_append(out, sentence, end != NULL ? (size_t)(end - sentence) : strlen(sentence));
    buf_printf(out, " (%s, %s confidence)", text_of(verdict, "class"), text_of(verdict, "confidence"));
}
