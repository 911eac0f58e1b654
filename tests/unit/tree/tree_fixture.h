/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the tree's tests: the shipped tree, and fact sets out of fixtures. */
#ifndef TREE_FIXTURE_H
#define TREE_FIXTURE_H

struct cJSON;
struct facts;
struct tree;

/* Whole file below the project; fails the test when it cannot be read. Caller frees. */
char *fixture_read(const char *relative_path);
struct cJSON *fixture_json(const char *relative_path);
/* The shipped tree with all its stages as one JSON text. Caller frees. */
char *fixture_tree_text(void);
/* templates/tree.json with its stages and templates/defects.json. */
struct tree *fixture_tree(void);
/* `json` in a form of facts_from_json(); `change` overrides (null removes) names of the short form
 * or replaces the long form; NULL = none. Says that output and kernel log were read. */
struct facts *fixture_facts(const struct cJSON *json, const struct cJSON *change);

#endif
