/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher's variables that are kept, and how many ranks they say share this machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "record/job_variables.h"

static int without_launcher(void **state)
{
    (void)state;
    for (size_t i = 0; i < JOB_NUMBERS; i++)
        for (const char *const *variable = job_numbers[i].variables; *variable != NULL; variable++)
            (void)unsetenv(*variable);
    for (size_t i = 0; i < JOB_LAUNCHERS; i++)
        (void)unsetenv(job_launchers[i].variable);
    return unsetenv("SLURM_STEP_TASKS_PER_NODE");
}

static void test_kept(void **state)
{
    char lines[256];
    (void)state;
    job_variables_keep(lines, sizeof lines);
    assert_string_equal(lines, "");
    (void)setenv("RANK", "12", 1);
    (void)setenv("SLURM_JOB_ID", "4711", 1);
    (void)setenv("TORCHELASTIC_RUN_ID", "a name", 1);
    (void)setenv("PBS_JOBID", "1234.host", 1);
    job_variables_keep(lines, sizeof lines);
    assert_non_null(strstr(lines, "RANK=12\n"));
    assert_non_null(strstr(lines, "SLURM_JOB_ID=4711\n"));
    assert_non_null(strstr(lines, "TORCHELASTIC_RUN_ID=\n"));
    assert_non_null(strstr(lines, "PBS_JOBID=\n"));
    const char **list = job_variables_list(lines);
    assert_non_null(list);
    assert_string_equal(list[0], "RANK=12");
    size_t count = 0;
    while (list[count] != NULL)
        count++;
    assert_true(count >= 4);
    free(list);
}

/* Half a line would be another number. */
static void test_what_does_not_fit(void **state)
{
    char lines[10];
    (void)state;
    (void)setenv("RANK", "12345", 1);
    (void)setenv("LOCAL_RANK", "3", 1);
    job_variables_keep(lines, sizeof lines);
    assert_string_equal(lines, "");
    (void)setenv("RANK", "123", 1);
    job_variables_keep(lines, sizeof lines);
    assert_string_equal(lines, "RANK=123\n");
}

static void test_ranks_here(void **state)
{
    static const struct {
        const char *variable, *value;
        unsigned ranks;
    } rows[] = {
        {"RANK", "3", 1},
        {"LOCAL_WORLD_SIZE", "8", 8},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "32", 32},
        {"SLURM_STEP_TASKS_PER_NODE", "8(x4)", 8},
        {"SLURM_STEP_TASKS_PER_NODE", "4,3(x2)", 4},
        {"LOCAL_WORLD_SIZE", "", 1},
        {"LOCAL_WORLD_SIZE", "many", 1},
        {"LOCAL_WORLD_SIZE", "-1", 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        (void)without_launcher(state);
        (void)setenv(rows[i].variable, rows[i].value, 1);
        assert_int_equal(job_ranks_here(), rows[i].ranks);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_kept, without_launcher, without_launcher),
        cmocka_unit_test_setup_teardown(test_what_does_not_fit, without_launcher, without_launcher),
        cmocka_unit_test_setup_teardown(test_ranks_here, without_launcher, without_launcher),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
