/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that may hang: a child runs them; the caller does only if fork() fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bounded.h"

#define STEPS 4

struct seen {
    _Atomic uint32_t next;
    pid_t by[STEPS]; /* 0 = this step was not run */
    uint32_t hangs;  /* this step never ends */
};

static struct seen *make_seen(uint32_t hangs)
{
    struct seen *s =
        mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(s != MAP_FAILED);
    s->hangs = hangs;
    return s;
}

static void take(void *context, uint32_t i)
{
    struct seen *s = context;
    s->by[i] = getpid();
    while (i == s->hangs)
        (void)pause();
}

static void test_a_child_takes_each_step(void **state)
{
    (void)state;
    struct seen *s = make_seen(STEPS);
    bounded_steps(take, s, &s->next, STEPS, 60 * 1000);
    for (int i = 0; i < STEPS; i++) {
        assert_int_not_equal(s->by[i], 0);
        assert_int_not_equal(s->by[i], getpid());
    }
    (void)munmap(s, sizeof *s);
}

static void test_the_next_child_goes_on_after_a_step_that_hangs(void **state)
{
    (void)state;
    struct seen *s = make_seen(1);
    bounded_steps(take, s, &s->next, STEPS, 1000);
    assert_int_equal(s->next, STEPS);

    for (int i = 0; i < STEPS; i++)
        assert_int_not_equal(s->by[i], getpid());
    (void)munmap(s, sizeof *s);
}

/* If a child gets no CPU in time, the caller must not run the step in its place. */
static void test_the_caller_takes_no_step_of_a_late_child(void **state)
{
    (void)state;
    struct seen *s = make_seen(0);
    bounded_steps(take, s, &s->next, 1, 0);
    assert_int_not_equal(s->by[0], getpid());
    (void)munmap(s, sizeof *s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_child_takes_each_step),
        cmocka_unit_test(test_the_next_child_goes_on_after_a_step_that_hangs),
        cmocka_unit_test(test_the_caller_takes_no_step_of_a_late_child),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
