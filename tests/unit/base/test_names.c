/* SPDX-License-Identifier: Apache-2.0 */
/* Our signal and error names against those of the C library, if it has them; closing a range of descriptors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/names.h"

static void test_signals(void **state)
{
    (void)state;
    assert_string_equal(name_of_signal(SIGSEGV), "SEGV");
    assert_null(name_of_signal(0));
    assert_null(name_of_signal(-1));
    assert_null(name_of_signal(SIGRTMIN));
    assert_null(name_of_signal(INT32_MAX));
#if __GLIBC_PREREQ(2, 32)
    for (int signo = 1; signo < NSIG; signo++) {
        const char *theirs = sigabbrev_np(signo);
        assert_true((theirs == NULL) == (name_of_signal(signo) == NULL));
        if (theirs != NULL)
            assert_string_equal(name_of_signal(signo), theirs);
    }
#endif
}

static void test_errors(void **state)
{
    (void)state;
    assert_string_equal(name_of_error(ENOMEM), "ENOMEM");
    assert_null(name_of_error(0));
    assert_null(name_of_error(-ENOMEM));
    assert_null(name_of_error(4095));
#if __GLIBC_PREREQ(2, 32)
    for (int error = 1; error < 200; error++)
        if (name_of_error(error) != NULL)
            assert_string_equal(name_of_error(error), strerrorname_np(error));
#endif
}

static int closed(int fd)
{
    return fcntl(fd, F_GETFD) < 0 && errno == EBADF;
}

static void test_close_descriptors(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        for (int fd = 20; fd < 26; fd++)
            (void)dup2(STDIN_FILENO, fd);
        close_descriptors(21, 22);
        close_descriptors(24, 23); /* nothing */
        if (closed(20) || !closed(21) || !closed(22) || closed(23) || closed(24))
            _exit(1);
        close_descriptors(24, ~0u);
        _exit(closed(23) || !closed(24) || !closed(25));
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signals),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_close_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
