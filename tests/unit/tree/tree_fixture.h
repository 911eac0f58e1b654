/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers shared by the tree's tests: the shipped tree, fact sets from fixtures, and their verdicts. */
#ifndef TREE_FIXTURE_H
#define TREE_FIXTURE_H

#include "diagnose/verdict.h"

#include <stdbool.h>

struct cJSON;
struct facts;
struct tree;

/* A whole file of the project. Fails the test if it cannot be read. The caller frees the text. */
char *fixture_read(const char *relative_path);
struct cJSON *fixture_json(const char *relative_path);
/* The shipped tree with all its stages as one JSON text. Caller frees. */
char *fixture_tree_text(void);
/* templates/tree.json with its stages and templates/defects.json. */
struct tree *fixture_tree(void);
/* The same, as the state of a group of tests. */
int fixture_load_tree(void **state);
int fixture_free_tree(void **state);
/* `json` in a form of facts_from_json(); `change` overrides (null removes) names of the short form
 * or replaces the long form; NULL = none. Sets the facts that output and kernel log were read. */
struct facts *fixture_facts(const struct cJSON *json, const struct cJSON *change);

/* The text under `key`, NULL when there is none. */
const char *fixture_text(const struct cJSON *row, const char *key);
/* JSON in which ' stands for ". Caller deletes it. */
struct cJSON *fixture_quoted(const char *text);
/* The verdict on fixture_facts(json, change), or on the facts of a JSON text. */
struct verdict fixture_judge(struct tree *tree, const struct cJSON *facts_json, const struct cJSON *change);
struct verdict fixture_judge_text(struct tree *tree, const char *json);
/* The node that decided, "" = none. */
const char *fixture_last_node(const struct verdict *v);
/* Does an entry of the list hold the text? */
bool fixture_list_holds(const struct verdict_list *list, const char *part);

#endif
