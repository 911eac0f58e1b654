/* SPDX-License-Identifier: Apache-2.0 */
/* The place of a bundle: the requested one, or a fallback; with hostile files in the way, and with full disks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "bundle/bundle.h"
#include "bundle/internal.h"
#include "help.h"

struct place_case {
    struct place_folders folders;
    bool elsewhere;
    int want;
    const char *path_part, *message_part;
};

static void check_place(const struct place_case *c)
{
    char path[700] = "";
    bool elsewhere = false;
    struct rc_err err = {""};
    int r = place_with_fallbacks(scratch("stage-place"), "p", &c->folders, path, sizeof path,
                                 &elsewhere, &err);
    if (r != c->want)
        fail_msg("%d: %s", r, err.msg);
    if (c->message_part != NULL && strstr(err.msg, c->message_part) == NULL)
        fail_msg("'%s' lacks '%s'", err.msg, c->message_part);
    if (r < 0)
        return;
    assert_int_equal(elsewhere, c->elsewhere);
    if (strstr(path, c->path_part) == NULL)
        fail_msg("'%s' lacks '%s'", path, c->path_part);
    assert_int_equal(bundle_verify(path, &err), 0);
}

static void test_places(void **state)
{
    (void)state;
    make_stage(scratch("stage-place"));
    char good[600], home[600], tmp[600], none[600], file[600];
    (void)snprintf(good, sizeof good, "%s", scratch("good"));
    (void)snprintf(home, sizeof home, "%s", scratch("home/deep/bundles"));
    (void)snprintf(tmp, sizeof tmp, "%s", scratch("tmp"));
    (void)snprintf(none, sizeof none, "%s", scratch("none/such"));
    (void)snprintf(file, sizeof file, "%s", scratch("a-file"));
    put_text(file, "");
    assert_int_equal(mkdir(good, 0755), 0);
    assert_int_equal(mkdir(tmp, 01777), 0);
    const struct place_case cases[] = {
        {{good, home, tmp}, false, 0, "/good/p.tar.gz", NULL},
        {{good, home, tmp}, false, 0, "/good/p-2.tar.gz", NULL}, /* nothing is overwritten */
        {{good, home, tmp}, false, 0, "/good/p-3.tar.gz", NULL},
        {{none, home, tmp}, true, 0, "/home/deep/bundles/p.tar.gz", "none/such"},
        {{file, home, tmp}, true, 0, "/home/deep/bundles/p-2.tar.gz", "Not a directory"},
        {{"/proc", file, tmp}, true, 0, "/tmp/rocmcrash-", "in '/proc'"},
        {{NULL, "", tmp}, true, 0, "/tmp/rocmcrash-", "no folder"},
        {{none, file, none}, true, -ENOENT, NULL, "elsewhere"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_place(&cases[i]);
    assert_int_equal(count_files(good), 3); /* no temporary files */
    char own[600];
    (void)snprintf(own, sizeof own, "%s", scratch("tmp/rocmcrash-%u", (unsigned)geteuid()));
    struct stat st;
    assert_int_equal(stat(own, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    char path[700];
    bool elsewhere = false;
    assert_int_equal(
        bundle_write(scratch("stage-place"), "../x", good, path, sizeof path, &elsewhere, NULL),
        -EINVAL);
    assert_int_equal(bundle_write(none, "x", good, path, sizeof path, &elsewhere, NULL), -ENOENT);
}

/* /tmp/rocmcrash-<uid> is taken: a link, a folder open to all, another user's folder. */
static void test_hostile_tmp(void **state)
{
    (void)state;
    make_stage(scratch("stage-place"));
    char own[600], trap[600];
    for (int kind = 0; kind < 3; kind++) {
        const char *tmp = scratch("hostile%d", kind);
        assert_int_equal(mkdir(tmp, 01777), 0);
        (void)snprintf(own, sizeof own, "%s/rocmcrash-%u", tmp, (unsigned)geteuid());
        (void)snprintf(trap, sizeof trap, "%s", scratch("trap%d", kind));
        assert_int_equal(mkdir(trap, 0700), 0); /* ours: only the link is wrong */
        if (kind == 0)
            assert_int_equal(symlink(trap, own), 0);
        if (kind >= 1)
            assert_int_equal(mkdir(own, 0700), 0);
        if (kind == 1)
            assert_int_equal(chmod(own, 0777), 0);
        if (kind == 2 && chown(own, geteuid() + 1, getegid() + 1) != 0) /* another user, whoever we are */
            continue;
        char path[700] = "";
        bool elsewhere = false;
        struct rc_err err = {""};
        struct place_folders only_tmp = {"", "", tmp};
        assert_int_equal(place_with_fallbacks(scratch("stage-place"), "p", &only_tmp, path,
                                              sizeof path, &elsewhere, &err),
                         0);
        assert_int_equal(count_files(trap), 0);
        assert_null(strstr(path, "/p.tar.gz") == path + strlen(own) ? path : NULL);
        if (kind > 0)
            assert_int_equal(count_files(own), 0);
        *strrchr(path, '/') = '\0';
        struct stat st;
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0700);
    }
}

/* The name is taken: all bundles go to one folder of random name, which somebody else may have tried to guess. */
static void test_hostile_tmp_twice(void **state)
{
    (void)state;
    make_stage(scratch("stage-place"));
    char tmp[600], own[700], first[700] = "", second[700] = "", trap[600];
    (void)snprintf(trap, sizeof trap, "%s", scratch("trap-twice"));
    (void)snprintf(tmp, sizeof tmp, "%s", scratch("hostile-twice"));
    (void)snprintf(own, sizeof own, "%s/rocmcrash-%u", tmp, (unsigned)geteuid());
    size_t n = strlen(own);
    assert_int_equal(mkdir(trap, 0700), 0);
    assert_int_equal(mkdir(tmp, 01777), 0);
    assert_int_equal(symlink(trap, own), 0);
    (void)snprintf(own + n, sizeof own - n, "-000000");
    assert_int_equal(symlink(trap, own), 0);
    (void)snprintf(own + n, sizeof own - n, "-000001"); /* open to others */
    assert_int_equal(mkdir(own, 0700), 0);
    assert_int_equal(chmod(own, 0770), 0);
    (void)snprintf(own + n, sizeof own - n, "-000002"); /* another user's, whoever we are */
    assert_int_equal(mkdir(own, 0700), 0);
    if (chown(own, geteuid() + 1, getegid() + 1) != 0)
        assert_int_equal(rmdir(own), 0);
    struct place_folders only_tmp = {"", "", tmp};
    bool elsewhere = false;
    assert_int_equal(place_with_fallbacks(scratch("stage-place"), "p", &only_tmp, first, sizeof first, &elsewhere, NULL), 0);
    assert_int_equal(place_with_fallbacks(scratch("stage-place"), "p", &only_tmp, second, sizeof second, &elsewhere, NULL), 0);
    assert_int_equal(count_files(trap), 0);
    *strrchr(first, '/') = '\0';
    *strrchr(second, '/') = '\0';
    assert_string_equal(first, second);
    assert_int_equal(count_files(first), 2);
    assert_false(strncmp(first + n, "-00000", 6) == 0);
}

static void test_full_disk(void **state)
{
    (void)state;
    char full[600];
    (void)snprintf(full, sizeof full, "%s", scratch("full"));
    assert_int_equal(mkdir(full, 0755), 0);
    if (mount("none", full, "tmpfs", 0, "size=64k") != 0) {
        print_message("skipped: cannot mount a tmpfs (%s)\n", strerror(errno));
        skip();
    }
    put_noise(scratch("stage-full/noise.bin"), 300000, 9);
    char path[700];
    bool elsewhere = false;
    struct rc_err err = {""};
    assert_int_equal(mkdir(scratch("tmp-full"), 01777), 0);
    struct place_folders then_tmp = {full, "", scratch("tmp-full")};
    int r = place_with_fallbacks(scratch("stage-full"), "f", &then_tmp, path, sizeof path,
                                 &elsewhere, &err);
    size_t left = count_files(full);
    struct rc_err err2 = {""};
    struct place_folders all_full = {full, full, full};
    int r2 = place_with_fallbacks(scratch("stage-full"), "f", &all_full, path + 600, 100,
                                  &elsewhere, &err2);
    size_t left2 = count_files(full);
    (void)umount(full);
    assert_int_equal(r, 0);
    assert_non_null(strstr(err.msg, "No space left"));
    assert_non_null(strstr(path, "tmp-full"));
    assert_int_equal(left, 0);
    assert_int_equal(r2, -ENOSPC);
    assert_in_range(left2, 0, 1); /* at most the empty private folder */
}

static void test_read_only(void **state)
{
    (void)state;
    char ro[600];
    (void)snprintf(ro, sizeof ro, "%s", scratch("ro"));
    assert_int_equal(mkdir(ro, 0755), 0);
    if (mount("none", ro, "tmpfs", MS_RDONLY, "size=64k") != 0) {
        print_message("skipped: cannot mount a tmpfs (%s)\n", strerror(errno));
        skip();
    }
    make_stage(scratch("stage-place"));
    char path[700];
    bool elsewhere = false;
    struct rc_err err = {""};
    struct place_folders folders = {ro, scratch("ro-home"), "/none"};
    int r = place_with_fallbacks(scratch("stage-place"), "r", &folders, path, sizeof path,
                                 &elsewhere, &err);
    (void)umount(ro);
    assert_int_equal(r, 0);
    assert_true(elsewhere);
    assert_non_null(strstr(err.msg, "Read-only file system"));
}

#define NOBODY 65534

/* The exit status of the child of test_not_root(). */
static int place_as_user(const char *stage, const char *closed, const char *tmp)
{
    char path[700] = "", where[64];
    bool elsewhere = false;
    struct rc_err err = {""};
    if (geteuid() == 0 && (setgid(NOBODY) != 0 || setuid(NOBODY) != 0))
        return 10;
    if (access(stage, R_OK | X_OK) != 0)
        return 77;
    (void)snprintf(where, sizeof where, "tmp-nobody/rocmcrash-%u/n.tar.gz", (unsigned)geteuid());
    struct place_folders folders = {closed, "/root/bundles", tmp};
    int r = place_with_fallbacks(stage, "n", &folders, path, sizeof path, &elsewhere, &err);
    bool good = r == 0 && elsewhere && strstr(path, where) != NULL &&
                strstr(err.msg, "Permission denied") != NULL && bundle_verify(path, &err) == 0;
    return good ? 0 : 11;
}

/* As an ordinary user who cannot write to the requested place. */
static void test_not_root(void **state)
{
    (void)state;
    char stage[600], closed[600], tmp[600];
    (void)snprintf(stage, sizeof stage, "%s", scratch("stage-place"));
    make_stage(stage);
    char *said = NULL;
    const char *const open_up[] = {"chmod", "-R", "a+rX", scratch("%s", ""), NULL};
    assert_int_equal(run_program(open_up, &said), 0);
    free(said); /* skip() below does not return */
    (void)snprintf(closed, sizeof closed, "%s", scratch("closed"));
    (void)snprintf(tmp, sizeof tmp, "%s", scratch("tmp-nobody"));
    assert_int_equal(mkdir(closed, 0555), 0);
    assert_int_equal(mkdir(tmp, 0777), 0);
    assert_int_equal(chmod(tmp, 01777), 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(place_as_user(stage, closed, tmp));
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        print_message("skipped: nobody cannot reach %s\n", stage);
        skip();
    }
    assert_int_equal(status, 0);
    assert_int_equal(count_files(closed), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_hostile_tmp),
        cmocka_unit_test(test_hostile_tmp_twice),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_read_only),
        cmocka_unit_test(test_not_root),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
