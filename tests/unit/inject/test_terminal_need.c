/* SPDX-License-Identifier: Apache-2.0 */
/* The programs that get the terminal itself. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "inject/preload.h"
#include "inject/terminal_need.h"
#include "temp_folder.h"

#define NEED(program, ...) terminal_need_of(program, (char *const *)(uintptr_t)(const char *const[]){__VA_ARGS__, NULL}, &room)

static char folder[TEMP_FOLDER_MAX];
static struct preload_room room;

static const char *place(const char *name)
{
    static char path[TEMP_FOLDER_MAX + 64];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    (void)unlink(path);
    return path;
}

static const char *script(const char *interpreter)
{
    const char *path = place("train");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void)fprintf(file, "#!%s\n", interpreter);
    assert_int_equal(fclose(file), 0);
    return path;
}

static int make_folder(void **state)
{
    (void)state;
    return temp_folder(folder, sizeof folder, "rc-need") ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    (void)unlink(place("train"));
    (void)unlink(place("tput"));
    return rmdir(folder);
}

static void test_who_draws(void **state)
{
    (void)state;
    assert_int_equal(NEED(DRAWS, "draws", "-c", "x"), TERMINAL_TO_DRAW);
    assert_int_equal(NEED(script(DRAWS), "train"), TERMINAL_TO_DRAW);
    assert_int_equal(NEED(ASKS, "asks"), TERMINAL_NOT_NEEDED);
    assert_int_equal(NEED("/bin/cat", "cat"), TERMINAL_NOT_NEEDED);
    assert_int_equal(NEED(script("/bin/cat"), "train"), TERMINAL_NOT_NEEDED);
    assert_int_equal(NEED("/no/such/file", "cat"), TERMINAL_NOT_NEEDED);
}

static void test_tools_of_scripts(void **state)
{
    (void)state;
    const char *tput = place("tput");
    assert_int_equal(symlink(DRAWS, tput), 0);
    assert_int_equal(NEED(tput, "tput", "bold"), TERMINAL_NOT_NEEDED);
}

/* bash is linked with libtinfo, too. */
static void test_shells(void **state)
{
    (void)state;
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(master >= 0 && unlockpt(master) == 0);
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    int before = dup(STDIN_FILENO);
    for (int has_terminal = 0; has_terminal < 2; has_terminal++) {
        int need = has_terminal ? TERMINAL_FOR_A_PROMPT : TERMINAL_NOT_NEEDED;
        int in = has_terminal ? slave : open("/dev/null", O_RDONLY);
        assert_true(dup2(in, STDIN_FILENO) == 0);
        assert_int_equal(NEED("/bin/bash", "bash"), need);
        assert_int_equal(NEED("/bin/bash", "-bash"), need);
        assert_int_equal(NEED("/bin/bash", "other", "--norc", "-li"), need);
        assert_int_equal(NEED("/bin/sh", "/bin/sh", "-ic", "x"), need);
        assert_int_equal(NEED("/bin/bash", "bash", "train.sh"), TERMINAL_NOT_NEEDED);
        assert_int_equal(NEED("/bin/bash", "bash", "-ec", "x"), TERMINAL_NOT_NEEDED);
        assert_int_equal(NEED(script("/bin/bash"), "train", "-i"), TERMINAL_NOT_NEEDED);
        assert_int_equal(NEED(script("/usr/bin/env bash"), "train"), TERMINAL_NOT_NEEDED);
    }
    (void)dup2(before, STDIN_FILENO);
    (void)close(master);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_draws),
        cmocka_unit_test(test_tools_of_scripts),
        cmocka_unit_test(test_shells),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
