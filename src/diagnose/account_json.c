/* SPDX-License-Identifier: Apache-2.0 */
/* The account as a section of verdict.json: {"total_bytes": N, "parts": [{"name", "label",
 * "bytes", "source"}, ...], "figures": {"tax_bytes": N, ...}, "host": {"parts": [...]},
 * "gtt": {"parts": [...]}}; the parts of "host" and "gtt" begin with their total. */
#include "diagnose/account.h"

#include "diagnose/fact.h"

#include <cjson/cJSON.h>
#include <string.h>

static const char prefix[] = "account.";

static bool is_part(const char *name)
{
    for (size_t i = 0; i < account_part_count; i++)
        if (strcmp(account_parts[i].fact, name) == 0)
            return true;
    return strncmp(name, "account.host.", 13) == 0 || strncmp(name, "account.gtt.", 12) == 0;
}

static bool add_part(cJSON *parts, const char *label, const struct fact *f)
{
    cJSON *part = cJSON_CreateObject();
    if (part == NULL || !cJSON_AddItemToArray(parts, part))
        return false;
    return cJSON_AddStringToObject(part, "name", f->name + sizeof prefix - 1) != NULL &&
           cJSON_AddStringToObject(part, "label", label) != NULL &&
           cJSON_AddNumberToObject(part, "bytes", (double)f->integer) != NULL &&
           cJSON_AddStringToObject(part, "source", f->source != NULL ? f->source : "") != NULL;
}

static bool add_if_there(const struct facts *facts, cJSON *parts, const char *name,
                         const char *label)
{
    const struct fact *f = facts_best(facts, name);
    return f == NULL || f->status != FACT_PRESENT || add_part(parts, label, f);
}

/* In the order of the table. */
static bool add_parts(const struct facts *facts, const struct account *a, cJSON *parts)
{
    for (size_t i = 0; i < a->count; i++)
        if (!add_if_there(facts, parts, a->parts[i].fact, a->parts[i].label))
            return false;
    return true;
}

static bool add_account(const struct facts *facts, const struct account *a, cJSON *to)
{
    if (facts_best(facts, a->total) == NULL)
        return true;
    cJSON *object = cJSON_AddObjectToObject(to, a->name);
    cJSON *parts = object != NULL ? cJSON_AddArrayToObject(object, "parts") : NULL;
    return parts != NULL && add_if_there(facts, parts, a->total, "total") &&
           add_parts(facts, a, parts);
}

static bool add_figure(cJSON *figures, const struct fact *f)
{
    const char *name = f->name + sizeof prefix - 1;
    if (f->type == FACT_BOOLEAN)
        return cJSON_AddBoolToObject(figures, name, f->integer != 0) != NULL;
    return cJSON_AddNumberToObject(figures, name,
                                   f->type == FACT_REAL ? f->real : (double)f->integer) != NULL;
}

bool account_to_json(const struct facts *facts, struct cJSON *verdict)
{
    if (facts_best(facts, account_of_gpu.total) == NULL &&
        facts_best(facts, account_of_host.total) == NULL)
        return true;
    cJSON *account = cJSON_AddObjectToObject(verdict, "account");
    cJSON *parts = account != NULL ? cJSON_AddArrayToObject(account, "parts") : NULL;
    cJSON *figures = parts != NULL ? cJSON_AddObjectToObject(account, "figures") : NULL;
    if (figures == NULL || !add_parts(facts, &account_of_gpu, parts) ||
        !add_account(facts, &account_of_host, account) ||
        !add_account(facts, &account_of_gtt, account))
        return false;
    for (size_t i = 0; i < facts_count(facts); i++) {
        const struct fact *f = facts_at(facts, i);
        if (strncmp(f->name, prefix, sizeof prefix - 1) != 0 || f->status != FACT_PRESENT ||
            f->type == FACT_TEXT || is_part(f->name))
            continue;
        if (!add_figure(figures, f))
            return false;
    }
    return true;
}
