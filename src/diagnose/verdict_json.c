/* SPDX-License-Identifier: Apache-2.0 */
/* verdict.json: the verdict with its path, for machines and for later. */
#include "diagnose/verdict.h"

#include "diagnose/account.h"
#include "diagnose/signature.h"

#include <cjson/cJSON.h>

static bool add_list(cJSON *object, const char *key, const struct verdict_list *list)
{
    cJSON *array = cJSON_AddArrayToObject(object, key);
    for (size_t i = 0; array != NULL && i < list->count; i++) {
        cJSON *text = cJSON_CreateString(list->text[i]);
        if (text == NULL || !cJSON_AddItemToArray(array, text))
            return false;
    }
    return array != NULL;
}

static bool add_text(cJSON *object, const char *key, const char *text)
{
    return cJSON_AddStringToObject(object, key, text != NULL ? text : "") != NULL;
}

static bool add_path(cJSON *object, const struct verdict *v)
{
    cJSON *path = cJSON_AddArrayToObject(object, "path");
    if (path == NULL)
        return false;
    for (size_t i = 0; i < v->steps; i++) {
        cJSON *step = cJSON_CreateObject();
        if (step == NULL || !cJSON_AddItemToArray(path, step))
            return false;
        if (!add_text(step, "node", v->path[i].node) ||
            !add_text(step, "question", v->path[i].question) ||
            !add_text(step, "answer", v->path[i].answer) ||
            !add_text(step, "numbers", v->path[i].numbers))
            return false;
    }
    return true;
}

struct cJSON *verdict_to_json(const struct verdict *v, const struct facts *facts)
{
    cJSON *o = cJSON_CreateObject();
    if (o == NULL)
        return NULL;
    bool ok = add_text(o, "class", v->class_name) && add_text(o, "subclass", v->subclass) &&
              add_text(o, "vendor", v->vendor) && add_text(o, "confidence", v->confidence) &&
              add_text(o, "sentence", v->sentence) &&
              add_text(o, "runner_up", v->runner_up) && add_text(o, "decides", v->decides) && add_list(o, "also", &v->also) &&
              add_list(o, "why", &v->why) && add_list(o, "against", &v->against) &&
              add_list(o, "missing", &v->missing) && add_list(o, "lacks", &v->lacks) && add_list(o, "advice", &v->advice) &&
              add_text(o, "verify", v->verify) && add_text(o, "file_at", v->file_at) &&
              signature_to_json(v, facts, o) && add_path(o, v) && account_to_json(facts, o);
    if (!ok) {
        cJSON_Delete(o);
        return NULL;
    }
    return o;
}
