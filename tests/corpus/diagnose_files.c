/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Test driver: files of one report -> facts -> verdict -> one line of JSON.
 *
 *   diagnose_files TREE DEFECTS [--stderr F] [--dmesg F] [--smi F] [--env F] [--facts F] [--dump]
 *   diagnose_files TREE DEFECTS --batch [--drop FACT]... [--starve]
 *                                   paths of such argument files on stdin, one a line
 *
 * An argument file holds one argument a line. Used by score.py; what it does is `triage`.
 * --drop takes a fact away before judging. The verdict's JSON has "facts" more, the names of what
 * was read; with --starve also "starved": the answers without each one of them.
 */
#include "base/err.h"
#include "base/fs.h"
#include "diagnose/computed.h"
#include "diagnose/fact.h"
#include "diagnose/verdict.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_MAX ((size_t)8 << 20)
#define ARGS_MAX 64

typedef void (*reader)(struct facts *, const char *, size_t, const char *);

static int read_text(struct facts *facts, const char *path, reader read, const char *source)
{
    char *text = NULL;
    ssize_t n = fs_read_all(path, INPUT_MAX, &text);
    if (n < 0) {
        (void)fprintf(stderr, "cannot read '%s'\n", path);
        return -1;
    }
    read(facts, text, (size_t)n, source);
    free(text);
    return 0;
}

static int read_facts(struct facts *facts, const char *path)
{
    char *text = NULL;
    struct rc_err err = {""};
    ssize_t n = fs_read_all(path, INPUT_MAX, &text);
    cJSON *json = n >= 0 ? cJSON_Parse(text) : NULL;
    int r = json != NULL ? facts_from_json(facts, json, &err) : -1;
    if (r < 0)
        (void)fprintf(stderr, "%s: %s\n", path, err.msg[0] != '\0' ? err.msg : "not JSON");
    cJSON_Delete(json);
    free(text);
    return r;
}

static int add_option(struct facts *facts, const char *option, const char *path)
{
    if (strcmp(option, "--stderr") == 0) {
        return read_text(facts, path, any_text_to_facts, "stderr");
    }
    if (strcmp(option, "--dmesg") == 0) {
        (void)facts_set_boolean(facts, "kmsg.readable", FACT_STATIC, true, "kernel log");
        return read_text(facts, path, kernel_text_to_facts, "kernel log");
    }
    if (strcmp(option, "--smi") == 0)
        return read_text(facts, path, any_text_to_facts, "further text");
    if (strcmp(option, "--env") == 0)
        return read_text(facts, path, environment_to_facts, "environment");
    if (strcmp(option, "--facts") == 0)
        return read_facts(facts, path);
    (void)fprintf(stderr, "unknown option '%s'\n", option);
    return -1;
}

static void print_json(cJSON *json)
{
    char *text = json != NULL ? cJSON_PrintUnformatted(json) : NULL;
    (void)printf("%s\n", text != NULL ? text : "{}");
    cJSON_free(text);
    cJSON_Delete(json);
}

/* The facts but for those of one name. */
static struct facts *facts_without(const struct facts *all, const char *name)
{
    struct facts *left = facts_new();
    cJSON *json = facts_to_json(all);
    cJSON *list = cJSON_GetObjectItemCaseSensitive(json, "facts");
    for (cJSON *item = list != NULL ? list->child : NULL; item != NULL;) {
        cJSON *next = item->next;
        const char *own = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "name"));
        if (own != NULL && strcmp(own, name) == 0)
            cJSON_Delete(cJSON_DetachItemViaPointer(list, item));
        item = next;
    }
    if (left != NULL && facts_from_json(left, json, NULL) < 0) {
        facts_free(left);
        left = NULL;
    }
    cJSON_Delete(json);
    return left;
}

static cJSON *name_list(const struct facts *facts)
{
    cJSON *list = cJSON_CreateArray();
    for (size_t i = 0; i < facts_count(facts); i++)
        cJSON_AddItemToArray(list, cJSON_CreateString(facts_at(facts, i)->name));
    return list;
}

static cJSON *starved_list(const struct facts *facts, const struct tree *tree)
{
    cJSON *list = cJSON_CreateArray();
    for (size_t i = 0; i < facts_count(facts); i++) {
        struct verdict v = {0};
        const char *name = facts_at(facts, i)->name;
        struct facts *left = facts_without(facts, name);
        if (left != NULL && diagnose(left, tree, &v, NULL) == 0) {
            cJSON *row = cJSON_CreateObject();
            (void)cJSON_AddStringToObject(row, "without", name);
            (void)cJSON_AddStringToObject(row, "class", v.class_name);
            (void)cJSON_AddStringToObject(row, "confidence", v.confidence);
            cJSON_AddItemToArray(list, row);
        }
        verdict_release(&v);
        facts_free(left);
    }
    return list;
}

struct how {
    bool dump, starve;
    size_t drops;
    const char *drop[ARGS_MAX];
};

static int collect(struct facts **facts, int argc, char **argv, struct how *how)
{
    int r = *facts != NULL ? 0 : -1;
    for (int i = 0; i < argc && r == 0; i++) {
        if (strcmp(argv[i], "--dump") == 0)
            how->dump = true;
        else if (i + 1 < argc)
            r = add_option(*facts, argv[i], argv[i + 1]), i++;
    }
    for (size_t i = 0; i < how->drops && r == 0; i++) {
        struct facts *left = facts_without(*facts, how->drop[i]);
        facts_free(*facts);
        *facts = left;
        r = left != NULL ? 0 : -1;
    }
    return r;
}

static int judge(const struct tree *tree, int argc, char **argv, struct how how)
{
    struct facts *facts = facts_new();
    struct verdict verdict = {0};
    struct rc_err err = {""};
    cJSON *names = NULL;
    cJSON *starved = NULL;
    int r = collect(&facts, argc, argv, &how);
    if (r == 0) {
        names = name_list(facts);
        starved = how.starve ? starved_list(facts, tree) : NULL;
        r = diagnose(facts, tree, &verdict, &err);
    }
    if (r == 0) {
        if (how.dump)
            print_json(facts_to_json(facts));
        cJSON *json = verdict_to_json(&verdict, facts);
        cJSON_AddItemToObject(json, "facts", names);
        if (starved != NULL)
            cJSON_AddItemToObject(json, "starved", starved);
        print_json(json);
        (void)fflush(stdout);
    } else {
        (void)fprintf(stderr, "%s\n", err.msg);
    }
    verdict_release(&verdict);
    facts_free(facts);
    return r;
}

static int batch(const struct tree *tree, const struct how *how)
{
    char path[4096];
    while (fgets(path, sizeof(path), stdin) != NULL) {
        char *text = NULL;
        char *args[ARGS_MAX];
        int count = 0;
        path[strcspn(path, "\n")] = '\0';
        if (fs_read_all(path, INPUT_MAX, &text) < 0)
            return -1;
        char *save = NULL;
        for (char *a = strtok_r(text, "\n", &save); a != NULL && count < ARGS_MAX;
             a = strtok_r(NULL, "\n", &save))
            args[count++] = a;
        int r = judge(tree, count, args, *how);
        free(text);
        if (r < 0)
            return r;
    }
    return 0;
}

/* It lies beside the defects. */
static struct computed *read_computed(const char *defects_path, struct rc_err *err)
{
    char path[4096];
    const char *slash = strrchr(defects_path, '/');
    int folder = slash != NULL ? (int)(slash - defects_path) + 1 : 0;
    (void)snprintf(path, sizeof(path), "%.*scomputed.json", folder, defects_path);
    return computed_read(path, err);
}

static struct tree *load(const char *tree_path, const char *defects_path)
{
    struct rc_err err = {""};
    char *defects = NULL;
    struct tree *tree = tree_read(tree_path, &err);
    struct computed *computed = tree != NULL ? read_computed(defects_path, &err) : NULL;
    ssize_t m = fs_read_all(defects_path, INPUT_MAX, &defects);
    if (computed != NULL)
        tree_take_computed(tree, computed);
    if (tree != NULL &&
        (computed == NULL || m < 0 ||
         tree_add_defects(tree, defects, (size_t)m, defects_path, &err) < 0)) {
        tree_free(tree);
        tree = NULL;
    }
    if (tree == NULL)
        (void)fprintf(stderr, "%s\n", err.msg);
    free(defects);
    return tree;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        (void)fprintf(stderr, "usage: %s TREE DEFECTS [options]\n", argv[0]);
        return 2;
    }
    struct tree *tree = load(argv[1], argv[2]);
    if (tree == NULL)
        return 1;
    bool many = argc >= 4 && strcmp(argv[3], "--batch") == 0;
    struct how how = {0};
    for (int i = 4; many && i < argc; i++) {
        if (strcmp(argv[i], "--starve") == 0)
            how.starve = true;
        else if (strcmp(argv[i], "--drop") == 0 && i + 1 < argc && how.drops < ARGS_MAX)
            how.drop[how.drops++] = argv[++i];
    }
    int r = many ? batch(tree, &how) : judge(tree, argc - 3, argv + 3, how);
    tree_free(tree);
    return r == 0 ? 0 : 1;
}
