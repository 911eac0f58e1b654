/* SPDX-License-Identifier: Apache-2.0 */
/* The doctor's report as JSON. */
#include <cjson/cJSON.h>

#include "diagnose/doctor.h"

static bool add_finding(cJSON *list, const struct doctor_finding *f)
{
    cJSON *o = cJSON_CreateObject();
    bool ok = cJSON_AddStringToObject(o, "id", f->id) != NULL &&
              cJSON_AddStringToObject(o, "severity", doctor_severity_name(f->severity)) != NULL &&
              cJSON_AddStringToObject(o, "gpus", f->gpus) != NULL &&
              cJSON_AddStringToObject(o, "say", f->say) != NULL &&
              cJSON_AddStringToObject(o, "mend", f->mend) != NULL &&
              cJSON_AddStringToObject(o, "verify", f->verify) != NULL &&
              cJSON_AddStringToObject(o, "source", f->source) != NULL;
    if (ok && cJSON_AddItemToArray(list, o))
        return true;
    cJSON_Delete(o);
    return false;
}

static bool add_undecided(cJSON *list, const struct doctor_undecided *u)
{
    cJSON *o = cJSON_CreateObject();
    bool ok = cJSON_AddStringToObject(o, "id", u->id) != NULL &&
              cJSON_AddStringToObject(o, "missing", u->missing) != NULL;
    if (ok && cJSON_AddItemToArray(list, o))
        return true;
    cJSON_Delete(o);
    return false;
}

struct cJSON *doctor_report_to_json(const struct doctor_report *report)
{
    bool nothing = doctor_worst(report) == DOCTOR_NOTE;
    cJSON *root = cJSON_CreateObject();
    bool ok =
        cJSON_AddNumberToObject(root, "format", 1) != NULL &&
        cJSON_AddStringToObject(
            root, "status", nothing ? "ok" : doctor_severity_name(doctor_worst(report))) != NULL &&
        cJSON_AddNumberToObject(root, "rules", (double)report->rules) != NULL;
    cJSON *findings = cJSON_AddArrayToObject(root, "findings");
    cJSON *not_asked = cJSON_AddArrayToObject(root, "not_asked");
    for (size_t i = 0; ok && i < report->finding_count; i++)
        ok = add_finding(findings, &report->findings[i]);
    for (size_t i = 0; ok && i < report->undecided_count; i++)
        ok = add_undecided(not_asked, &report->undecided[i]);
    if (ok && findings != NULL && not_asked != NULL)
        return root;
    cJSON_Delete(root);
    return NULL;
}
