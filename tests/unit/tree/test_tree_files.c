/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong tree files: the error has the file, the right line and a reason. */
#include "temp_folder.h"
#include "tree_fixture.h"

#include "base/err.h"
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

#include <cmocka.h>

#define LAST                                                                                       \
    "{\"id\": \"Z\", \"question\": \"?\", \"test\": \"true\", \"class\": \"unknown\","             \
    " \"sentence\": \"s\"}"
/* line 1: format; line 2: nodes; line 3: the node under test; then the last node */
#define NODE(body) "{\"format\": 1,\n\"nodes\": [\n" body ",\n" LAST "]}"
#define GOOD "\"id\": \"A\", \"question\": \"q\", \"test\": \"true\", \"class\": \"leak\", "

static const struct {
    const char *text;
    const char *message;
} wrong[] = {
    {"", "w.json:1: not valid JSON here"},
    {"{\"format\": 1,\n\"nodes\": [}", "w.json:2: not valid JSON here"},
    {"[]", "w.json:1: must be a JSON object"},
    {"{\"nodes\": []}", "'format' must be 1"},
    {"{\"format\": 2,\n\"nodes\": []}", "w.json:1: 'format' must be 1"},
    {"{\"format\": 1,\n\"node\": []}", "w.json:2: 'node' is not a key that belongs here"},
    {"{\"format\": 1,\n\"nodes\": {}}", "w.json:2: 'nodes' must be a list"},
    {"{\"format\": 1,\n\"nodes\": []}", "w.json:2: the last node must have class 'unknown'"},
    {NODE("{" GOOD "\"sentence\": \"s\",\n\"tset\": \"\"}"),
     "w.json:4: node 'A': 'tset' is not a key that belongs here"},
    {NODE("{\"question\": \"q\"}"), "a node: 'id' is missing"},
    {NODE("{\"id\": \"A\"}"), "w.json:3: node 'A': 'question' is missing"},
    {NODE("{" GOOD "\"sentence\": \"{speed}\"}"),
     "w.json:3: node 'A': 'sentence': no such placeholder"},
    {NODE("{" GOOD "\"sentence\": \"s\",\n\"why\": \"{oom.x\"}"),
     "w.json:4: node 'A': 'why': no such placeholder"},
    {NODE("{\"id\": \"A\", \"question\": \"q\", \"class\": \"leek\",\n\"sentence\": \"s\", "
          "\"test\": \"true\"}"),
     "w.json:3: node 'A': no such class 'leek'"},
    {NODE("{\"id\": \"A\", \"question\": \"q\", \"class\": \"leak\", \"sentence\": \"s\",\n\n"
          "\"test\": \"oom.total_bytes >\"}"),
     "w.json:5: node 'A': 'test': column 18: the expression ends too early"},
    {NODE("{" GOOD "\"sentence\": \"s\",\n\"confidence\": {\n\"hihg\": \"true\"}}"),
     "w.json:5: node 'A': 'hihg' is not a key"},
    {NODE("{" GOOD "\"sentence\": \"s\",\n\"advice\": [{\"if\": \"true\"}]}"),
     "node 'A': 'say' is missing"},
    {NODE("{" GOOD "\"sentence\": \"s\",\n\"against\": [{\"say\": \"x\", \"lowers\": 1}]}"),
     "w.json:4: node 'A': 'lowers' must be true or false"},
    {NODE("{" GOOD "\"sentence\": \"s\"},\n{" GOOD "\"sentence\": \"s\"}"),
     "this id was used before"},
    {NODE("{" GOOD "\"sentence\": 5}"), "'sentence' must be a text or a list of texts"},
    {"{\"format\": 1, \"terms\": {\n\"short\": \"true\"},\n\"nodes\": [" LAST "]}",
     "w.json:2: 'short' must begin with 't.'"},
    {"{\"format\": 1, \"terms\": {\n\"t.a\": \"t.b\", \"t.b\": \"true\"},\n\"nodes\": [" LAST "]}",
     "w.json:2: 't.a': column 1: no such term"},
    {"{\"format\": 1, \"labels\": {\n\"speed\": \"x\"},\n\"nodes\": [" LAST "]}",
     "w.json:2: 'speed' is not the name of a fact"},
    {"{\"format\": 1,\n\"stages\": [\"a.json\"]}",
     "w.json:2: 'stages' can be read only from a file"},
    {"{\"format\": 1,\n\"stages\": [\"../a.json\"]}",
     "w.json:2: 'stages' must be a list of files below"},
    {"{\"format\": 1,\n\"stages\": 5}",
     "w.json:2: 'stages' must be a list of files below"},
    {"{\"format\": 1,\n\"yields\": \"true\",\n\"nodes\": [" LAST "]}", "w.json:2: 'yields' must be {\"low\""},
    {"{\"format\": 1,\n\"yields\": {\"high\": \"true\"},\n\"nodes\": [" LAST "]}", "w.json:2: 'high' is not a key that belongs here"},
    {"{\"format\": 1,\n\"yields\": {\"low\": \"t.x\"},\n\"nodes\": [" LAST "]}", "w.json:2: 'low': column 1: no such term"},
    {"{\"format\": 1,\n\"at_most\": [5],\n\"nodes\": [" LAST "]}", "w.json:2: 'at_most' must be a list"},
    {"{\"format\": 1,\n\"at_most\": [{\"high\": \"true\", \"say\": \"x\"}],\n\"nodes\": [" LAST "]}", "w.json:2: 'high' is not a key that belongs here"},
    {"{\"format\": 1,\n\"at_most\": [{\"low\": \"true\"}],\n\"nodes\": [" LAST "]}", "'say'"},
    {"{\"format\": 1, \"inputs\": [\n\"speed\"],\n\"nodes\": [" LAST "]}",
     "w.json:2: 'inputs' holds"},
    {NODE("{" GOOD "\"sentence\": \"s\",\n\"against\": [\"c.x\"]}"),
     "w.json:4: node 'A': 'against': no such clause 'c.x'"},
    {"{\"format\": 1, \"clauses\": {\"c.x\": 5},\n\"nodes\": [{" GOOD "\"sentence\": \"s\",\n\"against\": [\"c.x\"]}, " LAST "]}",
     "w.json:3: node 'A': 'against' must be a list"},
    {"{\"format\": 1,\n\"clauses\": [],\n\"nodes\": [" LAST "]}", "w.json:2: 'clauses' must be"},
    {NODE("5"), "must be an object"},
};

static void each_wrong_tree_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct rc_err err = {""};
        struct tree *tree = tree_parse(wrong[i].text, strlen(wrong[i].text), "w.json", &err);
        if (tree != NULL || strstr(err.msg, wrong[i].message) == NULL ||
            strncmp(err.msg, "w.json:", 7) != 0)
            fail_msg("tree %zu: got '%s', not '%s'", i, err.msg, wrong[i].message);
    }
}

static void a_small_tree_is_accepted(void **state)
{
    struct rc_err err = {""};
    static const char text[] = NODE("{" GOOD "\"sentence\": [\"two\", \"lines\"]}");
    (void)state;
    struct tree *tree = tree_parse(text, strlen(text), "w.json", &err);
    if (tree == NULL)
        fail_msg("%s", err.msg);
    tree_free(tree);
}

static void put(const char *folder, const char *name, const char *text)
{
    char path[TEMP_FOLDER_MAX + 20];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    (void)fputs(text, f);
    (void)fclose(f);
}

/* The head names its stages; an error in a stage names that file and its line. */
static void stages_are_read_from_files(void **state)
{
    struct rc_err err = {""};
    char folder[TEMP_FOLDER_MAX];
    char head[TEMP_FOLDER_MAX + 20];
    (void)state;
    assert_true(temp_folder(folder, sizeof(folder), "stages"));
    (void)snprintf(head, sizeof(head), "%s/head.json", folder);
    put(folder, "head.json",
        "{\"format\": 1, \"terms\": {\"t.a\": \"true\"}, \"stages\": [\"1.json\", \"2.json\"]}");
    put(folder, "1.json", "{\"format\": 1, \"terms\": {\"t.b\": \"t.a\"}, \"nodes\": []}");
    put(folder, "2.json", "{\"format\": 1, \"nodes\": [" LAST "]}");
    struct tree *tree = tree_read(head, &err);
    if (tree == NULL)
        fail_msg("%s", err.msg);
    tree_free(tree);
    put(folder, "2.json", "{\"format\": 1,\n\"labels\": {}, \"nodes\": [" LAST "]}");
    assert_null(tree_read(head, &err));
    assert_non_null(strstr(err.msg, "/2.json:2: 'labels' is not a key that belongs here"));
    put(folder, "2.json", "{\"format\": 1, \"nodes\": []}");
    assert_null(tree_read(head, &err));
    assert_non_null(strstr(err.msg, "head.json:1: the last node must have class 'unknown'"));
    (void)snprintf(head, sizeof(head), "rm -r '%s'", folder);
    assert_int_equal(system(head), 0);
}

static void wrong_defects_are_refused(void **state)
{
    static const struct {
        const char *text;
        const char *message;
    } rows[] = {
        {"{\"format\": 1}", "'defects' must be a list"},
        {"{\"format\": 1, \"defects\": [\n{\"id\": \"d\"}]}", "d.json:2: 'if' is missing"},
        {"{\"format\": 1, \"defects\": [5]}", "a defect must be an object"},
        {"{\"format\": 1, \"defects\": [{\"id\": \"d\", \"if\": \"true\",\n\"classes\": \"*\","
         " \"say\": \"x\"}]}",
         "'source' is missing"},
        {"{\"format\": 1, \"defects\": [{\"id\": \"d\",\n\"if\": \"oops(\"}]}",
         "d.json:2: 'if': column"},
    };
    struct tree *tree = fixture_tree();
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rc_err err = {""};
        assert_true(tree_add_defects(tree, rows[i].text, strlen(rows[i].text), "d.json", &err) < 0);
        if (strstr(err.msg, rows[i].message) == NULL)
            fail_msg("defects %zu: '%s'", i, err.msg);
    }
    tree_free(tree);
}

static void wrong_computed_facts_are_refused(void **state)
{
    static const struct {
        const char *text;
        const char *message;
    } rows[] = {
        {"{\"format\": 1}", "'computed' must be a list"},
        {"{\"format\": 1, \"computed\": [5]}", "a fact must be an object"},
        {"{\"format\": 1, \"computed\": [\n{\"fact\": \"speed\", \"is\": \"1\"}]}",
         "c.json:2: speed: is not the name of a fact"},
        {"{\"format\": 1, \"computed\": [\n{\"fact\": \"f.x\"}]}", "f.x: 'is' is missing"},
        {"{\"format\": 1, \"computed\": [{\"fact\": \"f.x\",\n\"is\": \"1 +\"}]}",
         "c.json:2: f.x: 'is': column"},
        {"{\"format\": 1, \"computed\": [{\"fact\": \"f.x\", \"is\": [{\"if\": \"true\"}]}]}",
         "'is' is missing"},
        {"{\"format\": 1, \"computed\": [{\"fact\": \"f.x\", \"is\": \"1\", \"iff\": \"1\"}]}",
         "'iff' is not a key"},
        {"{\"format\": 1, \"computed\": [{\"fact\": \"f.x\", \"is\": \"1\", \"absent\": [{}]}]}",
         "'say' is missing"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rc_err err = {""};
        assert_null(computed_parse(rows[i].text, strlen(rows[i].text), "c.json", &err));
        if (strstr(err.msg, rows[i].message) == NULL)
            fail_msg("computed %zu: '%s'", i, err.msg);
    }
}

/* Cut and mangle the shipped tree: refused or accepted, never a crash. */
/* A refused tree has a reason; an accepted tree gives a verdict. */
static bool is_refused_or_works(struct tree *tree, const struct rc_err *err)
{
    struct verdict v = {0};
    struct facts *facts = facts_new();
    bool good = tree == NULL ? err->msg[0] != '\0' : diagnose(facts, tree, &v, NULL) == 0 && v.class_name[0] != '\0';
    verdict_release(&v);
    facts_free(facts);
    tree_free(tree);
    return good;
}

static void mangled_trees_are_refused_or_work(void **state)
{
    char *text = fixture_tree_text();
    size_t len = strlen(text);
    (void)state;
    for (size_t i = 1; i < 60; i++) {
        struct rc_err err = {""};
        assert_null(tree_parse(text, len * i / 60, "cut.json", &err));
        assert_true(strncmp(err.msg, "cut.json", strlen("cut.json")) == 0);
        size_t at = len * i / 61;
        char kept = text[at];
        text[at] = (char)(i * 37);
        err = (struct rc_err){""};
        struct tree *tree = tree_parse(text, len, "mangled.json", &err);
        assert_true(is_refused_or_works(tree, &err));
        text[at] = kept;
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_wrong_tree_is_refused),
        cmocka_unit_test(a_small_tree_is_accepted),
        cmocka_unit_test(stages_are_read_from_files),
        cmocka_unit_test(wrong_defects_are_refused),
        cmocka_unit_test(wrong_computed_facts_are_refused),
        cmocka_unit_test(mangled_trees_are_refused_or_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
