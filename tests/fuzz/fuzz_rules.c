/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: rule files of doctor and diff that somebody wrote, and the telemetry and environment
 * of a stranger's bundle. What is accepted is used; a refusal has a reason.
 */
#include <cjson/cJSON.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "diagnose/diff.h"
#include "diagnose/doctor.h"
#include "diagnose/fact.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must_say_why(const void *parsed, const struct rc_err *err)
{
    if (parsed == NULL && err->msg[0] == '\0')
        abort();
}

/* Facts that every rule can be asked of; the text is the value of what is parsed further. */
static struct facts *machine(const char *text)
{
    static const char *const texts[] = {"env.PYTORCH_ALLOC_CONF",
                                        "env.PYTORCH_HIP_ALLOC_CONF",
                                        "env.HSA_OVERRIDE_GFX_VERSION",
                                        "env.HIP_VISIBLE_DEVICES",
                                        "software.torch_version",
                                        "software.torch_targets",
                                        "gpu.0.gfx",
                                        "host.kernel"};
    struct facts *f = facts_new();
    if (f == NULL)
        abort();
    (void)facts_set_integer(f, "gpu.count", FACT_STATIC, 2, "fuzz");
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        (void)facts_set_text(f, texts[i], FACT_STATIC, text, "fuzz");
    return f;
}

static void doctor(const char *text, size_t size)
{
    struct rc_err err = {""};
    struct doctor_report report = {.rules = 0};
    struct doctor_rules *rules = doctor_rules_parse(text, size, "fuzz.json", &err);
    must_say_why(rules, &err);
    if (rules == NULL)
        return;
    struct facts *f = machine(text);
    if (doctor_examine(f, NULL, rules, &report, &err) == 0)
        cJSON_Delete(doctor_report_to_json(&report));
    doctor_report_release(&report);
    facts_free(f);
    doctor_rules_free(rules);
}

static void diff(const char *text, size_t size)
{
    struct rc_err err = {""};
    struct diff_result result = {.count = 0};
    struct diff_rules *rules = diff_rules_parse(text, size, "fuzz.json", &err);
    must_say_why(rules, &err);
    if (rules == NULL)
        return;
    struct diff_side a = {machine(text), "capacity"};
    struct diff_side b = {machine("x"), "leak"};
    if (diff_compare(&a, &b, rules, &result, &err) == 0)
        cJSON_Delete(diff_to_json(&result, 0, result.count));
    diff_release(&result);
    facts_free((struct facts *)(uintptr_t)a.facts);
    facts_free((struct facts *)(uintptr_t)b.facts);
    diff_rules_free(rules);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = strndup((const char *)data, size);
    struct facts *f = text != NULL ? machine(text) : NULL;
    if (f == NULL)
        abort();
    doctor_features(f);
    (void)diff_curve_facts(f, (const char *)data, size);
    facts_free(f);
    doctor(text, strlen(text));
    diff(text, strlen(text));
    free(text);
    return 0;
}
