/* SPDX-License-Identifier: Apache-2.0 */
#include "tree_fixture.h"

#include "base/err.h"
#include "base/fs.h"
#include "diagnose/computed.h"
#include "diagnose/fact.h"
#include "diagnose/verdict.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

char *fixture_read(const char *relative_path)
{
    char path[4096];
    char *text = NULL;
    (void)snprintf(path, sizeof(path), "%s/%s", TEST_SOURCE_DIR, relative_path);
    ssize_t n = fs_read_all(path, (size_t)8 << 20, &text);
    if (n < 0)
        fail_msg("cannot read %s", path);
    return text;
}

cJSON *fixture_json(const char *relative_path)
{
    char *text = fixture_read(relative_path);
    cJSON *json = cJSON_Parse(text);
    if (json == NULL)
        fail_msg("%s is not JSON", relative_path);
    free(text);
    return json;
}

struct tree *fixture_tree(void)
{
    struct rc_err err = {""};
    char *defects = fixture_read("templates/defects.json");
    struct tree *tree = tree_read(TEST_SOURCE_DIR "/templates/tree.json", &err);
    struct computed *computed =
        computed_read(TEST_SOURCE_DIR "/templates/computed.json", &err);
    if (tree == NULL || computed == NULL)
        fail_msg("%s", err.msg);
    tree_take_computed(tree, computed);
    if (tree_add_defects(tree, defects, strlen(defects), "defects.json", &err) < 0)
        fail_msg("%s", err.msg);
    free(defects);
    return tree;
}

int fixture_load_tree(void **state)
{
    *state = fixture_tree();
    return 0;
}

int fixture_free_tree(void **state)
{
    tree_free(*state);
    return 0;
}

/* Moves the items of `from` to the end of `to`. */
static void move_items(cJSON *to, cJSON *from)
{
    while (from != NULL && from->child != NULL) {
        cJSON *item = cJSON_DetachItemViaPointer(from, from->child);
        if (cJSON_IsArray(to))
            cJSON_AddItemToArray(to, item);
        else
            cJSON_AddItemToObject(to, item->string, item);
    }
}

char *fixture_tree_text(void)
{
    cJSON *whole = fixture_json("templates/tree.json");
    cJSON *stages = cJSON_DetachItemFromObject(whole, "stages");
    cJSON *nodes = cJSON_AddArrayToObject(whole, "nodes");
    const cJSON *stage = NULL;
    cJSON_ArrayForEach(stage, stages)
    {
        char path[200];
        (void)snprintf(path, sizeof(path), "templates/%s", stage->valuestring);
        cJSON *part = fixture_json(path);
        move_items(cJSON_GetObjectItem(whole, "terms"), cJSON_GetObjectItem(part, "terms"));
        move_items(nodes, cJSON_GetObjectItem(part, "nodes"));
        cJSON_Delete(part);
    }
    char *text = cJSON_Print(whole);
    cJSON_Delete(stages);
    cJSON_Delete(whole);
    return text;
}

static cJSON *merged(const cJSON *json, const cJSON *change)
{
    if (change != NULL && cJSON_HasObjectItem(change, "facts"))
        return cJSON_Duplicate(change, 1);
    cJSON *out = cJSON_Duplicate(json, 1);
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, change)
    {
        cJSON_DeleteItemFromObjectCaseSensitive(out, item->string);
        cJSON_AddItemToObject(out, item->string, cJSON_Duplicate(item, 1));
    }
    return out;
}

struct facts *fixture_facts(const cJSON *json, const cJSON *change)
{
    static const char *const logs[] = {"log.output_read", "kmsg.readable"};
    struct rc_err err = {""};
    struct facts *facts = facts_new();
    cJSON *all = merged(json, change);
    assert_non_null(facts);
    for (size_t i = 0; i < 2; i++) {
        const cJSON *own = cJSON_GetObjectItemCaseSensitive(all, logs[i]);
        if (own == NULL)
            (void)facts_set_boolean(facts, logs[i], FACT_STATIC, true, "test");
    }
    for (cJSON *item = all->child; item != NULL;) {
        cJSON *next = item->next;
        if (cJSON_IsNull(item))
            cJSON_Delete(cJSON_DetachItemViaPointer(all, item));
        item = next;
    }
    if (facts_from_json(facts, all, &err) < 0)
        fail_msg("%s", err.msg);
    cJSON_Delete(all);
    return facts;
}

const char *fixture_text(const cJSON *row, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(row, key));
}

struct verdict fixture_judge(struct tree *tree, const cJSON *facts_json, const cJSON *change)
{
    struct verdict v = {0};
    struct facts *facts = fixture_facts(facts_json, change);
    assert_int_equal(diagnose(facts, tree, &v, NULL), 0);
    facts_free(facts);
    return v;
}

const char *fixture_last_node(const struct verdict *v)
{
    return v->steps > 0 ? v->path[v->steps - 1].node : "";
}

bool fixture_list_holds(const struct verdict_list *list, const char *part)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strstr(list->text[i], part) != NULL)
            return true;
    }
    return false;
}

cJSON *fixture_quoted(const char *text)
{
    char *copy = strdup(text);
    assert_non_null(copy);
    for (char *p = copy; *p != '\0'; p++)
        *p = *p == '\'' ? '"' : *p;
    cJSON *json = cJSON_Parse(copy);
    assert_non_null(json);
    free(copy);
    return json;
}

struct verdict fixture_judge_text(struct tree *tree, const char *json)
{
    cJSON *facts = cJSON_Parse(json);
    assert_non_null(facts);
    struct verdict v = fixture_judge(tree, facts, NULL);
    cJSON_Delete(facts);
    return v;
}
