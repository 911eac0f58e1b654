/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: one expression of the tree over facts that somebody gave: it ends, and is decided by
 * what is there or says what is not. An expression, 0xff, facts in the short form, 0xff, a template. */
#include <cjson/cJSON.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/err.h"
#include "diagnose/fact.h"
#include "diagnose/tree.h"
#include "pieces.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rc_err err = {""};
    struct facts *facts = facts_new();
    char *text = pieces_next(&data, &size);
    char *facts_text = pieces_next(&data, &size);
    char *words = pieces_next(&data, &size);
    cJSON *json = cJSON_Parse(facts_text);
    struct expr *e = expr_parse(text, NULL, &err);
    if (facts == NULL || (e == NULL && err.msg[0] == '\0'))
        abort();
    if (json != NULL)
        (void)facts_from_json(facts, json, &err);
    if (e != NULL) {
        struct eval ev = {.facts = facts};
        struct eval again = {.facts = facts};
        enum answer answer = eval_answer(&ev, e);
        if (answer != eval_answer(&again, e) || ev.used_count > EVAL_NAMES_MAX ||
            ev.missing_count > EVAL_NAMES_MAX ||
            (answer != ANSWER_UNDECIDED && ev.missing_count != 0))
            abort();
    }
    char bad[64];
    (void)template_check(words, bad, sizeof bad);
    free(template_fill(words, facts, true));
    expr_free(e);
    cJSON_Delete(json);
    facts_free(facts);
    free(text);
    free(facts_text);
    free(words);
    return 0;
}
