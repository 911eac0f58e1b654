/* SPDX-License-Identifier: Apache-2.0 */
/* The shipped templates/changes.tsv, a user's own changes, and the conclusions from findings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/target_change.h"
#include "diagnose/fact.h"
#include "experiment/changes.h"
#include "experiment/conclusion.h"

static char *table;

static int read_table(void **state)
{
    (void)state;
    return fs_read_all(TEST_SOURCE_DIR "/templates/changes.tsv", 1u << 20, &table) > 0 ? 0 : -1;
}

static int free_table(void **state)
{
    (void)state;
    free(table);
    return 0;
}

/* --- choosing --- */

struct fact_row {
    const char *name, *text; /* text NULL: the number */
    int64_t number;
};

static struct facts *facts_of(const struct fact_row *rows)
{
    struct facts *facts = facts_new();
    for (; rows->name != NULL; rows++)
        assert_int_equal(0, rows->text != NULL ? facts_set_text(facts, rows->name, FACT_STATIC, rows->text, "test")
                                               : facts_set_integer(facts, rows->name, FACT_STATIC, rows->number, "test"));
    return facts;
}

static const struct change *chosen(const struct changes *changes, const char *id)
{
    for (size_t i = 0; i < changes->count; i++)
        if (strcmp(changes->change[i].id, id) == 0)
            return &changes->change[i];
    return NULL;
}

static void choose(struct changes *ret, const char *class_name, const char *runner_up, const struct fact_row *rows)
{
    struct rc_err err = {""};
    struct facts *facts = facts_of(rows);
    memset(ret, 0, sizeof *ret);
    int r = changes_choose(ret, CHANGES_MAX, table, class_name, runner_up, facts, &err);
    facts_free(facts);
    if (r != 0)
        fail_msg("%s", err.msg);
}

static const struct fact_row amd[] = {{"f.vendor", "amd", 0}, {"gpu.count", NULL, 2}, {NULL, NULL, 0}};
static const struct fact_row nvidia[] = {{"f.vendor", "nvidia", 0}, {NULL, NULL, 0}};
static const struct fact_row torch_cuda[] = {{"f.vendor", "nvidia", 0}, {"software.torch_version", "2.8.0+cu128", 0},
                                             {"f.alloc.variables", "PYTORCH_CUDA_ALLOC_CONF", 0},
                                             {NULL, NULL, 0}};
static const struct fact_row torch_rocm[] = {{"f.vendor", "amd", 0},
                                             {"software.torch_version", "2.6.0+rocm6.2", 0},
                                             {"software.torch_hip_version", "6.2", 0},
                                             {"f.alloc.variables", "PYTORCH_HIP_ALLOC_CONF", 0},
                                             {NULL, NULL, 0}};
static const struct fact_row torch_new[] = {{"software.torch_version", "2.12.0", 0}, {"software.torch_hip_version", "7.2", 0},
                                            {"f.alloc.variables", "PYTORCH_ALLOC_CONF PYTORCH_CUDA_ALLOC_CONF PYTORCH_HIP_ALLOC_CONF", 0},
                                            {NULL, NULL, 0}};

static const struct fact_row torch_unread[] = {{"software.torch_version", "2.12.0", 0}, {NULL, NULL, 0}};

static void test_the_verdict_chooses(void **state)
{
    struct changes c;
    (void)state;
    choose(&c, "sdma", "", amd);
    assert_non_null(chosen(&c, "sdma-off"));
    assert_true(chosen(&c, "sdma-off")->refutes);
    assert_null(chosen(&c, "one-gpu-hip")); /* for other classes */
    choose(&c, "sdma", "collective", amd);
    assert_non_null(chosen(&c, "one-gpu-hip"));
    assert_string_equal(c.change[0].id, "sdma-off"); /* the changes for the verdict's class come first */
    choose(&c, "page-fault", NULL, nvidia);
    assert_null(chosen(&c, "sdma-off"));
    assert_non_null(chosen(&c, "blocking-cuda"));
    choose(&c, "capacity", NULL, amd);
    assert_int_equal(c.count, 0);
}

static void test_options_that_this_pytorch_has(void **state)
{
    struct changes c;
    (void)state;
    choose(&c, "fragmentation", NULL, torch_cuda);
    assert_string_equal(chosen(&c, "expandable")->name, "PYTORCH_CUDA_ALLOC_CONF");
    choose(&c, "fragmentation", NULL, torch_rocm); /* ROCm builds have it since 2.12 */
    assert_null(chosen(&c, "expandable"));
    assert_string_equal(chosen(&c, "max-split")->name, "PYTORCH_HIP_ALLOC_CONF");
    choose(&c, "fragmentation", NULL, torch_new);
    assert_string_equal(chosen(&c, "expandable")->name, "PYTORCH_ALLOC_CONF");
    assert_int_equal(0, setenv("PYTORCH_HIP_ALLOC_CONF", "backend:native", 1)); /* the variable that is set */
    choose(&c, "fragmentation", NULL, torch_new);
    assert_string_equal(chosen(&c, "expandable")->name, "PYTORCH_HIP_ALLOC_CONF");
    assert_int_equal(0, unsetenv("PYTORCH_HIP_ALLOC_CONF"));
    choose(&c, "fragmentation", NULL, torch_unread);
    assert_null(chosen(&c, "expandable")); /* no variable is known */
}

/* A change to a value that is already set is not tried: the run would be wasted. */
static void test_no_change_is_not_tried(void **state)
{
    struct changes c;
    (void)state;
    assert_int_equal(0, setenv("HSA_ENABLE_SDMA", "0", 1));
    choose(&c, "sdma", NULL, amd);
    assert_null(chosen(&c, "sdma-off"));
    assert_int_equal(0, unsetenv("HSA_ENABLE_SDMA"));
}

static void test_wrong_tables(void **state)
{
    static const char *const wrong[] = {"a\tb\n", "a\t*\tgpu.count >\tenv\tA=1\t-\tno\tx\n", "a\t*\ttrue\twish\tA=1\t-\tno\tx\n",
                                        "a\t*\ttrue\tlimit\tfiles=1\t-\tno\tx\n"};
    (void)state;
    struct facts *facts = facts_of(amd);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct changes c = {.count = 0};
        struct rc_err err = {""};
        assert_int_equal(-22, changes_choose(&c, 1, wrong[i], "sdma", NULL, facts, &err));
        assert_non_null(strstr(err.msg, "line 1"));
    }
    facts_free(facts);
}

/* --- making a change --- */

static void add(struct changes *c, enum change_kind kind, const char *text, bool good)
{
    struct rc_err err = {""};
    assert_int_equal(changes_add(c, kind, text, &err), good ? 0 : -22);
}

static void test_what_a_user_names(void **state)
{
    struct changes c = {.count = 0};
    (void)state;
    add(&c, CHANGE_ENV, "A=b=c", true);
    add(&c, CHANGE_ENV, "A", false);
    add(&c, CHANGE_ENV, "=b", false);
    add(&c, CHANGE_UNSET, "A", true);
    add(&c, CHANGE_UNSET, "A=1", false);
    add(&c, CHANGE_LIMIT, "nofile=1024", true);
    add(&c, CHANGE_LIMIT, "nofile=hard", true);
    add(&c, CHANGE_LIMIT, "nofile=many", false);
    add(&c, CHANGE_LIMIT, "colour=1", false);
    add(&c, CHANGE_ARG, "", false);
    assert_int_equal(c.count, 4);
    assert_string_equal(c.change[0].value, "b=c");
    assert_string_equal(c.change[1].what, "");
}

static void check_command(const char *argument, const char *want)
{
    static char program[] = "train", one[] = "--size", two[] = "64", three[] = "--lr=1";
    char *const command[] = {program, one, two, three, NULL};
    char got[256] = "";
    struct changes c = {.count = 0};
    add(&c, CHANGE_ARG, argument, true);
    char **changed = change_command(&c.change[0], command);
    for (size_t i = 0; changed[i] != NULL; i++)
        (void)snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", i > 0 ? " " : "", changed[i]);
    assert_string_equal(got, want);
    if (changed[3] != NULL && changed[3] != three && strchr(changed[3], '=') != NULL)
        free(changed[3]); /* "--lr=2" was made anew */
    free(changed);
}

static void test_arguments(void **state)
{
    (void)state;
    check_command("--size 16", "train --size 16 --lr=1");
    check_command("--size=16", "train --size 16 --lr=1");
    check_command("--lr 2", "train --size 64 --lr=2");
    check_command("--no-mmap", "train --size 64 --lr=1 --no-mmap");
    check_command("--depth 3", "train --size 64 --lr=1 --depth 3");
    check_command("more", "train --size 64 --lr=1 more");
}

static void test_an_option_joins_those_that_are_set(void **state)
{
    struct changes c;
    (void)state;
    choose(&c, "fragmentation", NULL, torch_cuda);
    assert_int_equal(0, setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:False,backend:native", 1));
    assert_int_equal(0, change_hand_over(chosen(&c, "expandable")));
    assert_string_equal(getenv("PYTORCH_CUDA_ALLOC_CONF"), "expandable_segments:False,backend:native");
    assert_string_equal(getenv(TARGET_CHANGE), "set PYTORCH_CUDA_ALLOC_CONF=backend:native,expandable_segments:True");
    assert_int_equal(0, unsetenv(TARGET_CHANGE));
    assert_int_equal(0, unsetenv("PYTORCH_CUDA_ALLOC_CONF"));
}

/* --- conclusions --- */

static void set_cell(struct experiment *e, size_t i, const char *class_name, bool refutes, enum finding finding,
                     unsigned failed)
{
    struct change *c = &e->changes.change[i - 1];
    *c = (struct change){.kind = CHANGE_ENV, .refutes = refutes};
    (void)snprintf(c->name, sizeof c->name, "V%zu", i);
    (void)snprintf(c->value, sizeof c->value, "1");
    (void)snprintf(c->class_name, sizeof c->class_name, "%s", class_name);
    e->campaign.cell[i] = (struct cell){.runs = 6, .failed = failed, .finding = finding, .decided_in = 6};
    e->changes.count = i;
    e->campaign.count = i + 1;
}

static void conclude(struct experiment *e, enum conclusion_status status, const char *class_name, const char *words)
{
    struct conclusion c;
    experiment_conclude(e, &c);
    assert_int_equal(c.status, status);
    assert_string_equal(c.class_name, class_name);
    if (strstr(c.sentence, words) == NULL)
        fail_msg("'%s' is not in '%s'", words, c.sentence);
}

static void test_conclusions(void **state)
{
    static struct experiment e = {.class_name = "gpu-hang"};
    (void)state;
    e.campaign.cell[0] = (struct cell){.runs = 6, .failed = 6};
    set_cell(&e, 1, "sdma", true, FINDING_CURES, 0);
    conclude(&e, CONCLUSION_CONFIRMED, "sdma", "confirmed: with V1=1 0 of 6 runs failed, without it 6 of 6; with it at most 40 % of the runs fail (95 % confidence)");
    assert_true(experiment_has_finding(&e));
    set_cell(&e, 2, "", false, FINDING_CURES, 0); /* two changes help: neither is shown to be the cause */
    conclude(&e, CONCLUSION_CONFIRMED, "", "2 changes help");
    set_cell(&e, 2, "sdma", false, FINDING_CURES, 0); /* both changes are of one kind */
    conclude(&e, CONCLUSION_CONFIRMED, "sdma", "; 2 changes help");
    set_cell(&e, 1, "sdma", true, FINDING_LOWERS, 1);
    set_cell(&e, 2, "", false, FINDING_REFUTED, 6);
    conclude(&e, CONCLUSION_CONFIRMED, "sdma", "fewer, but not none");
    set_cell(&e, 1, "sdma", true, FINDING_REFUTED, 6); /* the verdict was not sdma */
    set_cell(&e, 2, "", false, FINDING_REFUTED, 6);
    conclude(&e, CONCLUSION_NO_HELP, "", "none of 2 changes helps");
    (void)snprintf(e.class_name, sizeof e.class_name, "sdma");
    conclude(&e, CONCLUSION_REFUTED, "unknown", "refuted: sdma: with V1=1 6 of 6 runs failed");
    set_cell(&e, 1, "sdma", true, FINDING_UNDECIDED, 3);
    conclude(&e, CONCLUSION_UNDECIDED, "", "undecided: these runs were too few");
    e.campaign.cell[0].failed = 0;
    conclude(&e, CONCLUSION_NOT_REPRODUCED, "", "none of 6 runs without a change failed");
}

static void test_table(void **state)
{
    static struct experiment e = {.class_name = "sdma"};
    struct buf out = BUF_INIT;
    (void)state;
    set_cell(&e, 1, "sdma", true, FINDING_OTHERWISE, 6);
    (void)snprintf(e.campaign.cell[1].other, sizeof e.campaign.cell[1].other, "exit|2");
    (void)snprintf(e.changes.change[0].value, sizeof e.changes.change[0].value, "@me|#7");
    experiment_table(&e, &out);
    assert_non_null(strstr(buf_str(&out), "| `V1=@me\\|#7` | 6 | 6 | fails otherwise: `exit`\\|`2` |"));
    buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_verdict_chooses),
        cmocka_unit_test(test_options_that_this_pytorch_has),
        cmocka_unit_test(test_no_change_is_not_tried),
        cmocka_unit_test(test_wrong_tables),
        cmocka_unit_test(test_what_a_user_names),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_an_option_joins_those_that_are_set),
        cmocka_unit_test(test_conclusions),
        cmocka_unit_test(test_table),
    };
    return cmocka_run_group_tests(tests, read_table, free_table);
}
