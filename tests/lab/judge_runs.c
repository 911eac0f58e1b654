/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Test driver of the laboratory: the files of a run -> facts -> verdict, one line of JSON a run.
 *
 *   judge_runs TEMPLATES [--facts]      folders on stdin, one a line
 *
 * A folder holds hook/ (what the Python hook wrote), output (what the program printed), facts.json
 * (the driver's counters) and window ("START END", ns). Its facts come in the order in which the
 * finisher has them: the hook's, then the output's. --facts: print the facts instead.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "collect/collector.h"
#include "diagnose/computed.h"
#include "diagnose/fact.h"
#include "diagnose/verdict.h"
#include "sink.h"

#define INPUT_MAX ((size_t)8 << 20)

extern const struct collector collector_hook;

static char *read_of(const char *folder, const char *name, size_t *ret_len)
{
    char path[FS_PATH_MAX];
    char *text = NULL;
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    ssize_t n = fs_read_all(path, INPUT_MAX, &text);
    if (n < 0) {
        (void)fprintf(stderr, "judge_runs: %s: %s\n", path, strerror((int)-n));
        exit(1);
    }
    if (ret_len != NULL)
        *ret_len = (size_t)n;
    return text;
}

static void add_facts_of_hook(const char *folder, struct collect_out *out)
{
    static const char *const nothing[] = {NULL};
    unsigned long long start = 0;
    unsigned long long end = 0;
    RC_AUTO_FREE char *window = read_of(folder, "window", NULL);
    char *rest = NULL;
    start = strtoull(window, &rest, 10);
    end = strtoull(rest, NULL, 10);
    struct collect_ctx ctx = {.run_dir = folder,
                              .argv = nothing,
                              .cwd = "",
                              .maps = "",
                              .fds = "",
                              .environ_at_impact = nothing,
                              .start_mono_ns = start,
                              .end_mono_ns = end,
                              .deadline_mono_ns = UINT64_MAX};
    enum collect_status status = collector_hook.run(&ctx, out);
    if (status != COLLECT_OK) {
        (void)fprintf(stderr, "judge_runs: %s: the collector says: %s\n", folder, out->reason);
        exit(1);
    }
}

static void add_facts_of_machine(const char *folder, struct facts *facts)
{
    struct rc_err err = {""};
    RC_AUTO_FREE char *text = read_of(folder, "facts.json", NULL);
    cJSON *json = cJSON_Parse(text);
    if (json == NULL || facts_from_json(facts, json, &err) < 0) {
        (void)fprintf(stderr, "judge_runs: %s/facts.json: %s\n", folder, err.msg);
        exit(1);
    }
    cJSON_Delete(json);
}

static void print_json(cJSON *json)
{
    char *text = cJSON_PrintUnformatted(json);
    (void)printf("%s\n", text != NULL ? text : "{}");
    (void)fflush(stdout);
    cJSON_free(text);
    cJSON_Delete(json);
}

static void judge(const struct tree *tree, const char *folder, bool facts_only)
{
    struct collect_out *out = sink_new();
    struct verdict verdict = {0};
    struct rc_err err = {""};
    size_t len = 0;
    RC_AUTO_FREE char *output = read_of(folder, "output", &len);
    add_facts_of_hook(folder, out);
    messages_to_facts(out->facts, output, len, "output");
    add_facts_of_machine(folder, out->facts);
    if (diagnose(out->facts, tree, &verdict, &err) < 0) {
        (void)fprintf(stderr, "judge_runs: %s: %s\n", folder, err.msg);
        exit(1);
    }
    print_json(facts_only ? facts_to_json(out->facts) : verdict_to_json(&verdict, out->facts));
    verdict_release(&verdict);
    sink_free(out);
}

static struct tree *load(const char *templates)
{
    char path[FS_PATH_MAX];
    struct rc_err err = {""};
    RC_AUTO_FREE char *defects = read_of(templates, "defects.json", NULL);
    (void)snprintf(path, sizeof path, "%s/tree.json", templates);
    struct tree *tree = tree_read(path, &err);
    (void)snprintf(path, sizeof path, "%s/computed.json", templates);
    struct computed *computed = tree != NULL ? computed_read(path, &err) : NULL;
    if (computed == NULL ||
        tree_add_defects(tree, defects, strlen(defects), "defects.json", &err) < 0) {
        (void)fprintf(stderr, "judge_runs: %s\n", err.msg);
        exit(1);
    }
    tree_take_computed(tree, computed);
    return tree;
}

int main(int argc, char **argv)
{
    char folder[FS_PATH_MAX];
    if (argc < 2) {
        (void)fprintf(stderr, "usage: %s TEMPLATES [--facts]\n", argv[0]);
        return 2;
    }
    struct tree *tree = load(argv[1]);
    while (fgets(folder, sizeof folder, stdin) != NULL) {
        folder[strcspn(folder, "\n")] = '\0';
        judge(tree, folder, argc > 2 && strcmp(argv[2], "--facts") == 0);
    }
    tree_free(tree);
    return 0;
}
