/* SPDX-License-Identifier: Apache-2.0 */
/* How long a standstill must be before --hang-after=auto takes it for a hang. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/clock.h"
#include "launch/step_length.h"
#include "record/shared.h"

#define SECOND_NS UINT64_C(1000000000)

static struct shared shared; /* too large for a stack */

static struct step_length slot(size_t i, const char *text)
{
    size_t length = strlen(text) < SHARED_STEPS_TEXT ? strlen(text) + 1 : SHARED_STEPS_TEXT; /* perhaps without a NUL */
    memcpy(shared.hook_steps[i], text, length);
    return step_length_read(&shared);
}

static void test_what_the_hook_says(void **state)
{
    (void)state;
    memset(&shared, 0, sizeof shared);
    assert_int_equal(step_length_read(&shared).count, 0);
    assert_int_equal(step_length_last_ns(&shared), 0);
    struct step_length length = slot(3, "4711 20 250000 77\n");
    assert_int_equal(length.count, 20);
    assert_int_equal(length.usual_us, 250000);
    assert_int_equal(length.ended_ns, 77);
    assert_int_equal(slot(5, "4712 400 90000 78\n").usual_us, 250000); /* the longest steps count */
    assert_int_equal(slot(6, "4713 400 900000 79\n").usual_us, 900000);
    assert_int_equal(step_length_last_ns(&shared), 79);
    (void)slot(7, "4714 1 5 80\n"); /* too few steps for a length */
    assert_int_equal(step_length_last_ns(&shared), 80);
    assert_int_equal(step_length_read(&shared).usual_us, 900000);
}

static void test_what_says_nothing(void **state)
{
    static const char *const rows[] = {
        "4711 19 250000 77\n", /* too few */
        "4711 20 250000 77",   /* torn */
        "4711 20 0 77\n",      "4711 20\n", "4711\n", "\n", "x", "-1 -1 -1 -1\n",
        "4711 20 86400000001 77\n", "4711 99999999999999999999 99999999999999999999 1\n",
        "0000000000000000000000000000000000000000000000000000000000000000",
        "\xff\xff\xff",
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        memset(&shared, 0, sizeof shared);
        assert_int_equal(slot(0, rows[i]).count, 0);
    }
}

/* A standstill that began `after_s` seconds after the last step. */
static uint64_t patience_s(uint64_t usual_us, uint64_t after_s, uint64_t longest_s)
{
    const struct step_length length = {
        .count = usual_us > 0 ? 100 : 0, .usual_us = usual_us, .ended_ns = 500 * SECOND_NS};
    return step_length_patience_ms(&length, (500 + after_s) * SECOND_NS, longest_s * 1000) / 1000;
}

static void test_patience(void **state)
{
    (void)state;
    assert_int_equal(patience_s(0, 0, 0), 300);        /* no steps are known */
    assert_int_equal(patience_s(200000, 1, 0), 30);    /* never sooner */
    assert_int_equal(patience_s(2999999, 1, 0), 30);
    assert_int_equal(patience_s(4000000, 1, 0), 40);   /* ten steps */
    assert_int_equal(patience_s(60000000, 1, 0), 600); /* also if that is longer than without steps */
    assert_int_equal(patience_s(200000, 1, 14), 30);
    assert_int_equal(patience_s(200000, 1, 50), 100);  /* it went on after such a standstill */
    assert_int_equal(patience_s(0, 0, 200), 400);
}

static void test_other_phases_take_their_own_time(void **state)
{
    (void)state;
    assert_int_equal(patience_s(200000, 15, 0), 30);
    assert_int_equal(patience_s(200000, 16, 0), 300); /* validation, which stands still at its end */
    assert_int_equal(patience_s(4000000, 40, 0), 40);
    assert_int_equal(patience_s(4000000, 41, 0), 300);
    const struct step_length length = {.count = 100, .usual_us = 200000, .ended_ns = 500 * SECOND_NS};
    assert_true(step_length_holds(&length, 499 * SECOND_NS)); /* reported after the last look */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_the_hook_says),
        cmocka_unit_test(test_what_says_nothing),
        cmocka_unit_test(test_patience),
        cmocka_unit_test(test_other_phases_take_their_own_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
