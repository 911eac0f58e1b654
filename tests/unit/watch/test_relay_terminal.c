/* SPDX-License-Identifier: Apache-2.0 */
/* The relay in front of a terminal: bytes, size and modes are those of a terminal without it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "relay_run.h"

/* Each piece is on the screen before the program does anything else; the real terminal turns "\n"
 * into "\r\n", once. */
static void test_progress_bar_is_unchanged_and_unbuffered(void **state)
{
    (void)state;
    struct run run;
    run_start(&run, &(struct run_options){.on = ON_TERMINAL,
                                          .target = {"say", "\r 10%\t|", "\r\033[K 20%", "end\n"}});
    run_expect(&run, "\r 10%\t|", 7);
    run_step(&run);
    run_expect(&run, "\r\033[K 20%", 8);
    run_step(&run);
    run_expect(&run, "end\r\n", 5);
    assert_int_equal(run_wait(&run), 0);
    run_end(&run);
}

static void test_size_follows_the_terminal(void **state)
{
    (void)state;
    struct run run;
    run_start(&run, &(struct run_options){.on = ON_TERMINAL, .target = {"size", "@"}});
    run_expect(&run, "ready", 5);
    struct winsize size = {.ws_row = 50, .ws_col = 132};
    assert_int_equal(ioctl(run.reader, TIOCSWINSZ, &size), 0);
    assert_int_equal(run_wait(&run), 0);
    char got[64];
    run_read_file(run.result, got, sizeof got);
    assert_string_equal(got, "50x132\n");
    assert_int_equal(run_reported(&run, "resizes"), 1);
    run_end(&run);
}

static void test_modes_are_mirrored(void **state)
{
    (void)state;
    struct run run;
    run_start(&run, &(struct run_options){.on = ON_TERMINAL, .both = true, .target = {"modes"}});
    struct termios start, t;
    assert_int_equal(tcgetattr(run.slave, &start), 0);
    run_expect(&run, "curses", 6); /* the modes were set before the first byte was written */
    assert_int_equal(tcgetattr(run.slave, &t), 0);
    assert_int_equal(t.c_lflag & (ICANON | ECHO), 0);
    assert_int_equal(t.c_oflag & ONLCR, 0);
    assert_int_equal(t.c_cc[VMIN], 3);
    assert_int_equal(t.c_oflag & OPOST, OPOST);
    run_step(&run);
    run_expect(&run, "restored", 8);
    assert_int_equal(tcgetattr(run.slave, &t), 0);
    assert_int_equal(t.c_lflag, start.c_lflag);
    assert_int_equal(t.c_oflag, start.c_oflag);
    assert_int_equal(t.c_cc[VMIN], start.c_cc[VMIN]);
    run_step(&run);
    run_expect(&run, "raw", 3);
    assert_int_equal(tcgetattr(run.slave, &t), 0);
    assert_int_equal(t.c_oflag & OPOST, 0);
    assert_int_equal(t.c_iflag & ICRNL, 0);
    run_step(&run); /* only modes change, without output: the periodic check sees it */
    for (int i = 0; i < 3000 && t.c_lflag != start.c_lflag; i++) {
        (void)usleep(1000);
        assert_int_equal(tcgetattr(run.slave, &t), 0);
    }
    assert_int_equal(t.c_lflag, start.c_lflag);
    assert_int_equal(t.c_oflag, start.c_oflag);
    assert_int_equal(t.c_iflag, start.c_iflag);
    run_step(&run);
    assert_int_equal(run_wait(&run), 0);
    run_end(&run);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_progress_bar_is_unchanged_and_unbuffered),
        cmocka_unit_test(test_size_follows_the_terminal),
        cmocka_unit_test(test_modes_are_mirrored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
