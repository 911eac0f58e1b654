/* SPDX-License-Identifier: Apache-2.0 */
/* The process of a thread, from the kernel, for threads that are in the table and for others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/tracee.h"

/* A child with a second thread. */
struct other {
    pid_t pid;
    pid_t thread;
};

static void *tell(void *fd)
{
    pid_t tid = (pid_t)syscall(SYS_gettid);
    (void)!write(*(int *)fd, &tid, sizeof tid);
    for (;;)
        (void)pause();
    return NULL;
}

static struct other begin_other(void)
{
    struct other other = {.thread = 0};
    int ends[2];
    assert_int_equal(0, pipe(ends));
    other.pid = fork();
    assert_true(other.pid >= 0);
    if (other.pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* it would survive a failed assertion */
        pthread_t thread;
        if (pthread_create(&thread, NULL, tell, &ends[1]) == 0)
            (void)pthread_join(thread, NULL);
        _exit(1);
    }
    assert_int_equal(sizeof other.thread, read(ends[0], &other.thread, sizeof other.thread));
    (void)close(ends[0]);
    (void)close(ends[1]);
    return other;
}

static void end_other(const struct other *other)
{
    assert_int_equal(0, kill(other->pid, SIGKILL));
    assert_int_equal(other->pid, waitpid(other->pid, NULL, 0));
}

static void test_is_thread_of(void **state)
{
    (void)state;
    struct other other = begin_other();
    assert_int_not_equal(other.pid, other.thread);
    assert_true(tracee_is_thread_of(other.pid, other.pid));
    assert_true(tracee_is_thread_of(other.pid, other.thread));
    assert_false(tracee_is_thread_of(other.thread, other.thread));
    assert_false(tracee_is_thread_of(getpid(), other.thread));
    assert_false(tracee_is_thread_of(getpid(), other.pid));
    end_other(&other);
    assert_false(tracee_is_thread_of(other.pid, other.thread));
}

/* The same answer whether the process is in the table or not. */
static void test_process_of_thread(void **state)
{
    (void)state;
    static struct tracees t;
    struct other other = begin_other();
    assert_int_equal(other.pid, tracee_tgid(&t, other.pid));
    assert_int_equal(other.pid, tracee_tgid(&t, other.thread));
    assert_non_null(tracee_add(&t, getpid(), getpid(), 0));
    assert_int_equal(other.pid, tracee_tgid(&t, other.thread));
    assert_non_null(tracee_add(&t, other.pid, other.pid, 0));
    assert_int_equal(other.pid, tracee_tgid(&t, other.thread));
    end_other(&other);
    assert_int_equal(0, tracee_tgid(&t, other.thread));
    assert_int_equal(0, tracee_tgid(&t, other.pid));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_is_thread_of),
        cmocka_unit_test(test_process_of_thread),
    };
    return cmocka_run_group_tests_name("launch_tracee", tests, NULL, NULL);
}
