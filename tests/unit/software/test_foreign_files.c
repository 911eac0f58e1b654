/* SPDX-License-Identifier: Apache-2.0 */
/* The collectors "python" and "software" where a user laid out links to a FIFO, and to files that only root reads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "sink.h"
#include "software_input.h"

#define NOBODY 65534
#define GROUP 60124 /* one of the target's */
#define SITE "venv/lib/python3.11/site-packages"

extern const struct collector collector_python;
extern const struct collector collector_software;

static void link_to(const char *from, const char *to)
{
    (void)unlink(from);
    assert_int_equal(symlink(to, from), 0);
}

static struct collect_out *run_python(pid_t pid)
{
    enum collect_status status;
    char program[300];
    (void)snprintf(program, sizeof program, "%s", temp_path("venv/bin/python"));
    const char *const argv[] = {program, NULL};
    return run_collector_on(pid, &collector_python, "", argv, NULL, &status);
}

/* The version that the files beside a mapped runtime tell; NULL = none. */
static bool runtime_version_is(pid_t pid, const char *version)
{
    enum collect_status status;
    struct buf maps = BUF_INIT;
    map_line(&maps, temp_path("tree/lib/libamdhip64.so"));
    struct collect_out *out = run_collector_on(pid, &collector_software, buf_str(&maps), NULL, NULL, &status);
    const char *found = sink_text(out, "software.rocm_version");
    bool is = version == NULL ? found == NULL : found != NULL && strcmp(found, version) == 0;
    sink_free(out);
    buf_release(&maps);
    return is;
}

static int make_files(void **state)
{
    (void)state;
    write_text(temp_path("venv/pyvenv.cfg"), "home = /nowhere/bin\nversion = 3.11.7\n");
    write_text(temp_path("venv/bin/python"), "");
    write_text(temp_path(SITE "/plain-1.0.dist-info/METADATA"), "Name: plain\nVersion: 1.0\n");
    write_text(temp_path(SITE "/torch/version.py"), "__version__ = '2.5.1'\n");
    write_text(temp_path("tree/lib/libamdhip64.so"), "");
    write_text(temp_path("tree/.info/version"), "6.2.0-66\n");
    write_text(temp_path("private/metadata"), "Name: stolen\nVersion: 6.6.6\n");
    write_text(temp_path("private/version.py"), "__version__ = '9.9.9'\n");
    write_text(temp_path("private/version"), "9.9.9-1\n");
    return chmod(temp_path("venv/bin/python"), 0755);
}

static void test_fifo_is_not_opened(void **state)
{
    (void)state;
    const char *const links[] = {SITE "/torch/version.py", SITE "/pipe-2.0.dist-info/METADATA",
                                 SITE "/pipe-2.0.dist-info/INSTALLER", "venv/pyvenv.cfg", "tree/.info/version"};
    char fifo[300];
    char events[1024];
    (void)snprintf(fifo, sizeof fifo, "%s", temp_path("fifo"));
    assert_int_equal(mkfifo(fifo, 0666), 0);
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++)
        link_to(temp_path("%s", links[i]), fifo);
    RC_AUTO_CLOSE int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    assert_true(inotify_add_watch(watch, fifo, IN_OPEN) >= 0);
    struct collect_out *out = run_python(0);
    assert_string_equal(sink_file(out, "requirements.txt"), "pipe==2.0\nplain==1.0\n");
    assert_null(sink_text(out, "software.torch_version"));
    sink_free(out);
    assert_true(runtime_version_is(0, NULL));
    assert_int_equal(read(watch, events, sizeof events), -1);
    assert_int_equal(errno, EAGAIN);
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++)
        (void)unlink(temp_path("%s", links[i]));
    assert_int_equal(rmdir(temp_path(SITE "/pipe-2.0.dist-info")), 0);
    (void)make_files(NULL);
}

/* As in an ordinary environment: everybody gets there. */
static void open_folders(void)
{
    static const char *const folders[] = {"",
                                          "venv",
                                          "venv/bin",
                                          "venv/lib",
                                          "venv/lib/python3.11",
                                          SITE,
                                          SITE "/torch",
                                          SITE "/plain-1.0.dist-info",
                                          SITE "/bait-1.dist-info",
                                          "tree",
                                          "tree/lib",
                                          "tree/.info",
                                          "private"};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        assert_int_equal(chmod(temp_path("%s/.", folders[i]), 0755), 0);
}

/* A process of another user; 0 where root cannot be one, or the user does not get to the test's folder. */
static pid_t start_other(void)
{
    static const gid_t groups[] = {GROUP};
    int pipes[2];
    char ready = 'n';
    if (geteuid() != 0) {
        print_message("skipped: needs root to become another user\n");
        return 0;
    }
    open_folders();
    assert_int_equal(pipe(pipes), 0);
    pid_t parent = getpid();
    char config[PATH_MAX];
    (void)snprintf(config, sizeof config, "%s", temp_path("venv/pyvenv.cfg")); /* makes folders, so not as the other user */
    pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        bool other = setgroups(1, groups) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
                     setresuid(NOBODY, NOBODY, NOBODY) == 0 &&
                     access(config, R_OK) == 0;
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a change of user ended it */
        (void)write(pipes[1], other ? "y" : "n", 1);
        while (getppid() == parent)
            (void)pause();
        _exit(0);
    }
    assert_true(pid > 0);
    (void)close(pipes[1]);
    assert_int_equal(read(pipes[0], &ready, 1), 1);
    (void)close(pipes[0]);
    if (ready == 'y')
        return pid;
    print_message("skipped: an ordinary user does not get to %s\n", temp_dir());
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    return 0;
}

static bool steals(pid_t pid)
{
    struct collect_out *out = run_python(pid);
    const char *torch = sink_text(out, "software.torch_version");
    bool stolen = torch != NULL && strcmp(torch, "9.9.9") == 0;
    assert_int_equal(strstr(sink_file(out, "requirements.txt"), "stolen==6.6.6") != NULL, stolen);
    assert_non_null(strstr(sink_file(out, "requirements.txt"), "plain==1.0"));
    assert_string_equal(sink_text(out, "software.python_version"), "3.11.7");
    sink_free(out);
    assert_true(runtime_version_is(pid, stolen ? "9.9.9" : NULL));
    return stolen;
}

static void test_only_what_the_user_can_read(void **state)
{
    (void)state;
    static const char *const files[] = {"metadata", "version.py", "version"};
    int death = 0;
    pid_t other = start_other();
    if (other == 0)
        skip();
    /* An ordinary environment, first. */
    struct collect_out *out = run_python(other);
    assert_string_equal(sink_file(out, "requirements.txt"), "bait==1\nplain==1.0\n");
    assert_string_equal(sink_text(out, "software.torch_version"), "2.5.1");
    sink_free(out);
    assert_true(runtime_version_is(other, "6.2.0"));

    link_to(temp_path(SITE "/bait-1.dist-info/METADATA"), temp_path("private/metadata"));
    link_to(temp_path(SITE "/torch/version.py"), temp_path("private/version.py"));
    link_to(temp_path("tree/.info/version"), temp_path("private/version"));
    assert_int_equal(prctl(PR_SET_PDEATHSIG, SIGTERM), 0);
    assert_true(steals(getpid())); /* root's own process: root's own files */
    /* A closed folder; then files of root, of root's group, and of one of the user's groups. */
    assert_int_equal(chmod(temp_path("private/."), 0700), 0);
    assert_false(steals(other));
    assert_int_equal(chmod(temp_path("private/."), 0755), 0);
    assert_true(steals(other));
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(chmod(temp_path("private/%s", files[i]), 0600), 0);
    assert_false(steals(other));
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(chmod(temp_path("private/%s", files[i]), 0640), 0);
    assert_false(steals(other));
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(chown(temp_path("private/%s", files[i]), 0, GROUP), 0);
    assert_true(steals(other));

    /* Nothing of the other user is left in this process. */
    assert_int_equal(setfsuid((uid_t)-1), 0);
    assert_int_equal(setfsgid((gid_t)-1), getegid());
    assert_int_equal(prctl(PR_GET_PDEATHSIG, &death), 0);
    assert_int_equal(death, SIGTERM);
    (void)prctl(PR_SET_PDEATHSIG, 0);
    (void)kill(other, SIGKILL);
    (void)waitpid(other, NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fifo_is_not_opened),
        cmocka_unit_test(test_only_what_the_user_can_read),
    };
    return cmocka_run_group_tests(tests, make_files, remove_input);
}
