/* SPDX-License-Identifier: Apache-2.0 */
/* Streams that are not replaced: files are read while they are written, all others are left alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "relay_run.h"
#include "watch/relay.h"

static void test_file_is_read_not_replaced(void **state)
{
    (void)state;
    for (int on = ON_FILE; on <= ON_FILE_APPEND; on++) {
        struct run run;
        run_start(&run,
                  &(struct run_options){.on = (enum run_on)on,
                                        .both = on == ON_FILE,
                                        .driver = {"--wait-relay"},
                                        .target = {"say", "a\nMemory access fault by GPU node-1"}});
        assert_int_equal(run_wait(&run), 0);
        char text[256];
        run_read_file(run.file, text, sizeof text);
        assert_string_equal(text,
                            "HIP out of memory, long ago\na\nMemory access fault by GPU node-1");
        assert_int_equal(run_reported(&run, "way"), RELAY_FILE);
        assert_int_equal(run_reported(&run, "bytes"), 35);
        assert_int_equal(run_reported(&run, "ring"), 35);
        assert_int_equal(run_reported(&run, "oom"), 0); /* earlier text is not the run's */
        assert_int_equal(run_reported(&run, "fault"), 1);
        assert_int_equal(run_reported(&run, "drained"), 1);
        run_end(&run);
    }
}

/* The target's position in the file counts, not the file's size: older bytes may follow it. */
static void test_file_that_is_written_over(void **state)
{
    (void)state;
    struct run run;
    run_start(&run, &(struct run_options){.on = ON_FILE_OVER,
                                          .driver = {"--wait-relay"},
                                          .target = {"say", "Memory access fault by GPU node-1"}});
    assert_int_equal(run_wait(&run), 0);
    assert_int_equal(run_reported(&run, "bytes"), 33);
    assert_int_equal(run_reported(&run, "ring"), 33);
    assert_int_equal(run_reported(&run, "fault"), 1);
    assert_int_equal(run_reported(&run, "oom"), 0);
    assert_int_equal(run_reported(&run, "hang"), 0);
    run_end(&run);
}

/* A log that is truncated while the program runs (copytruncate of logrotate): the later text is read. */
static void test_file_that_is_truncated(void **state)
{
    (void)state;
    struct run run;
    struct stat st = {.st_size = -1};
    run_start(&run, &(struct run_options){
                        .on = ON_FILE_APPEND,
                        .driver = {"--wait-relay", "--truncate-at", "50"},
                        .target = {"say", "50 bytes of which the relay has read all that is -",
                                   "Memory access fault by GPU node-1"}});
    for (int i = 0; i < 20000 && (stat(run.file, &st) != 0 || st.st_size != 0); i++)
        (void)usleep(1000); /* the polling interval; the driver's cut decides */
    assert_int_equal(st.st_size, 0);
    run_step(&run);
    assert_int_equal(run_wait(&run), 0);
    assert_int_equal(run_reported(&run, "fault"), 1);
    assert_int_equal(run_reported(&run, "ring"), 50 + 33);
    run_end(&run);
}

/* systemd gives a service a socket for its output, and Node.js a child process. */
static void test_socket_is_read(void **state)
{
    (void)state;
    struct run run;
    run_start(&run, &(struct run_options){.on = ON_SOCKET, .target = {"say", "through"}});
    run_expect(&run, "through", 7);
    assert_int_equal(run_wait(&run), 0);
    assert_int_equal(run_reported(&run, "way"), RELAY_PIPE);
    assert_int_equal(run_reported(&run, "bytes"), 7);
    run_end(&run);
}

/* In a pipe in packet mode we would lose the packets' borders. A descriptor that the target may not write to stays so.
 * */
static void test_odd_streams_are_left_alone(void **state)
{
    (void)state;
    struct run run;
    run_start(&run, &(struct run_options){.on = ON_PACKETS, .target = {"say", "one", "two"}});
    run_expect(&run, "one", 3);
    run_step(&run);
    run_expect(&run, "two", 3);
    assert_int_equal(run_wait(&run), 0);
    assert_int_equal(run_reported(&run, "way"), RELAY_NONE);
    run_end(&run);
    run_start(&run, &(struct run_options){.on = ON_FILE_READ_ONLY, .target = {"look", "@"}});
    assert_int_equal(run_wait(&run), 0);
    assert_int_equal(run_reported(&run, "way"), RELAY_NONE);
    run_end(&run);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file_is_read_not_replaced),
        cmocka_unit_test(test_file_that_is_written_over),
        cmocka_unit_test(test_file_that_is_truncated),
        cmocka_unit_test(test_socket_is_read),
        cmocka_unit_test(test_odd_streams_are_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
