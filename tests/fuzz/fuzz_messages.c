/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: text of any kind to facts, and those facts through JSON and back. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cjson/cJSON.h>

#include "diagnose/fact.h"
#include "diagnose/verdict.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct facts *facts = facts_new(), *back = facts_new();
    if (facts == NULL || back == NULL)
        abort();
    any_text_to_facts(facts, (const char *)data, size, "fuzz"); /* every parser of texts */
    cJSON *json = facts_to_json(facts);
    if (json == NULL || facts_from_json(back, json, NULL) < 0 ||
        facts_count(back) != facts_count(facts))
        abort(); /* every fact that a parser makes can be written and read */
    cJSON_Delete(json);
    facts_free(facts);
    facts_free(back);
    return 0;
}
