/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: a tree file that somebody wrote, and a table of defects; what is accepted must be
 * usable: every test is asked over no facts at all.
 */
#include <stdint.h>
#include <stdlib.h>

#include "base/err.h"
#include "diagnose/fact.h"
#include "diagnose/tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rc_err err = {""};
    struct facts *facts = facts_new();
    struct tree *tree = tree_parse((const char *)data, size, "fuzz.json", &err);
    if (facts == NULL || (tree == NULL && err.msg[0] == '\0'))
        abort(); /* a refusal has a reason */
    for (size_t i = 0; tree != NULL && i < tree->node_count; i++) {
        struct eval ev = {.facts = facts};
        (void)eval_answer(&ev, tree->node[i].test);
        free(template_fill(tree->node[i].sentence, facts, true));
    }
    if (tree != NULL)
        (void)tree_add_defects(tree, (const char *)data, size, "fuzz.json", &err);
    tree_free(tree);
    facts_free(facts);
    return 0;
}
