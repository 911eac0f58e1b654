/* SPDX-License-Identifier: Apache-2.0 */
/* The watchdog of the helpers: which are replaced, and how often. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "launch/helpers.h"
#include "record/shared.h"

#define SECOND UINT64_C(1000000000)

struct world {
    struct helpers helpers;
    struct shared *shared;
    pid_t sampler;
};

/* A sampler that began its present work `late_ns` ago. Its replacement ends at once, because its parent is not the
 * supervisor, so it never reports that it has begun. */
static void begin(struct world *w, uint64_t late_ns)
{
    int fd = -1;
    *w = (struct world){.helpers = {.relays = {RELAY_INIT, RELAY_INIT}}};
    w->shared = shared_create(&fd, NULL);
    assert_non_null(w->shared);
    w->helpers.shared = w->shared;
    w->shared->target_state = TARGET_RUNNING;
    w->helpers.pids[HELPER_RECORDER] = 1; /* a pid of no process, so that no helper is started */
    w->sampler = fork();
    assert_true(w->sampler >= 0);
    if (w->sampler == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            (void)pause();
    }
    w->helpers.pids[HELPER_SAMPLER] = w->sampler;
    w->shared->helpers[HELPER_SAMPLER].work_pending_ns = clock_mono_ns() - late_ns;
}

static void watch_for(struct world *w, uint64_t ns)
{
    uint64_t end_ns = clock_mono_ns() + ns;
    do
        helpers_watch(&w->helpers);
    while (poll(NULL, 0, 1) == 0 && clock_mono_ns() < end_ns);
}

static void end(struct world *w)
{
    (void)kill(w->sampler, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0)
        ;
}

static void test_hung_sampler_is_replaced_once(void **state)
{
    (void)state;
    struct world w;
    begin(&w, 5 * SECOND);
    watch_for(&w, SECOND / 2);
    assert_int_equal(w.shared->helpers[HELPER_SAMPLER].generation, 1);
    assert_int_not_equal(w.helpers.pids[HELPER_SAMPLER], w.sampler);
    /* It has not begun any work within the time limit of work. */
    watch_for(&w, SECOND);
    assert_int_equal(w.shared->helpers[HELPER_SAMPLER].generation, 2);
    end(&w);
}

static void test_sampler_that_was_frozen_goes_on(void **state)
{
    (void)state;
    struct world w;
    begin(&w, 5 * SECOND);
    helpers_watch(&w.helpers);
    w.shared->helpers[HELPER_SAMPLER].work_pending_ns = 0;
    watch_for(&w, SECOND / 5);
    assert_int_equal(w.shared->helpers[HELPER_SAMPLER].generation, 0);
    assert_int_equal(waitpid(w.sampler, NULL, WNOHANG), 0);
    end(&w);
}

static void test_tracer_is_killed_when_it_stays_late(void **state)
{
    (void)state;
    struct world w;
    begin(&w, 0);
    w.shared->helpers[HELPER_SAMPLER].work_pending_ns = 0;
    w.helpers.pids[HELPER_TRACER] = w.sampler;
    w.shared->held_budget_ms = 50;
    w.shared->held_since_ns = clock_mono_ns() - SECOND;
    helpers_watch(&w.helpers);
    assert_int_equal(w.shared->watchdog_kills, 0);
    watch_for(&w, SECOND / 5);
    assert_true(w.shared->watchdog_kills > 0);
    assert_int_equal(waitpid(w.sampler, NULL, 0), w.sampler);
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hung_sampler_is_replaced_once),
        cmocka_unit_test(test_sampler_that_was_frozen_goes_on),
        cmocka_unit_test(test_tracer_is_killed_when_it_stays_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
