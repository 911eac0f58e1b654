/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The relay with a real target, a real relay process and a supervisor that kills it: every byte arrives once and in
 * order, and the pipe or terminal keeps the properties that target and reader rely on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "record/shared.h"
#include "relay_run.h"
#include "stream_byte.h"
#include "watch/relay.h"
#include "watch/relay_internal.h"

struct check {
    uint64_t at;
    uint64_t wrong_at; /* UINT64_MAX = none */
};

static void check_stream(void *arg, const unsigned char *data, size_t len)
{
    struct check *check = arg;
    for (size_t i = 0; i < len; i++) {
        if (data[i] != stream_byte(check->at + i) && check->wrong_at == UINT64_MAX)
            check->wrong_at = check->at + i;
    }
    check->at += len;
}

/* The whole stream arrived: no byte is lost, doubled or swapped, and the length is what the target wrote. */
static void expect_stream(struct run *run)
{
    struct check check = {.wrong_at = UINT64_MAX};
    assert_int_equal(run_drain(run, check_stream, &check), 0);
    if (check.wrong_at != UINT64_MAX)
        fail_msg("byte %llu is wrong", (unsigned long long)check.wrong_at);
    char count[64];
    run_read_file(run->result, count, sizeof count);
    assert_int_equal(check.at, strtoull(count, NULL, 10));
    assert_int_equal(run_reported(run, "drained"), 1);
}

static void test_every_byte_is_carried(void **state)
{
    (void)state;
    for (int on = ON_PIPE; on <= ON_SOCKET; on++) {
        struct run run;
        run_start(&run, &(struct run_options){.on = (enum run_on)on, .target = {"stream", "7", "50000000", "@"}});
        expect_stream(&run);
        assert_int_equal(run_reported(&run, "way"), RELAY_PIPE);
        assert_int_equal(run_reported(&run, "bytes"), 50000000);
        assert_int_equal(run_reported(&run, "restarts"), 0);
        assert_int_equal(run_reported(&run, "stuck"), 0);
        run_end(&run);
    }
}

static void test_pipe_survives_100_kills(void **state)
{
    (void)state;
    for (int seed = 1; seed <= 3; seed++) {
        char text[8];
        (void)snprintf(text, sizeof text, "%d", seed);
        struct run run;
        run_start(&run, &(struct run_options){.on = ON_PIPE,
                                              .driver = {"--kills", "100", "--seed", text},
                                              .target = {"stream", text, "0", "@"}});
        expect_stream(&run);
        assert_int_equal(run_reported(&run, "restarts"), 100);
        run_end(&run);
    }
}

static void test_terminal_survives_100_kills(void **state)
{
    (void)state;
    struct run run;
    run_start(&run, &(struct run_options){.on = ON_TERMINAL,
                                          .raw = true,
                                          .driver = {"--kills", "100"},
                                          .target = {"stream", "3", "0", "@"}});
    expect_stream(&run);
    assert_int_equal(run_reported(&run, "way"), RELAY_TERMINAL);
    assert_int_equal(run_reported(&run, "restarts"), 100);
    run_end(&run);
}

static void test_stopped_relay_is_noticed(void **state)
{
    (void)state;
    for (int on = ON_PIPE; on <= ON_TERMINAL; on++) {
        struct run run;
        run_start(&run, &(struct run_options){.on = (enum run_on)on,
                                              .raw = true,
                                              .driver = {"--stop"},
                                              .target = {"stream", "5", "0", "@"}});
        expect_stream(&run);
        assert_int_equal(run_reported(&run, "stuck"), 1);
        assert_int_equal(run_reported(&run, "restarts"), 1);
        run_end(&run);
    }
}

#define BLOCKED_MS 1500

/* A reader that takes nothing for longer than relay_stuck() allows must not look like a hang. */
static void test_slow_reader_is_not_a_hang(void **state)
{
    (void)state;
    for (int on = ON_PIPE; on <= ON_TERMINAL; on++) {
        struct run run;
        run_start(&run, &(struct run_options){.on = (enum run_on)on,
                                              .raw = true,
                                              .target = {"stream", "5", "1000000", "@"}});
        (void)usleep(BLOCKED_MS * 1000);
        expect_stream(&run);
        if (on != ON_TERMINAL) /* there it waits within its write, as the program would */
            assert_in_range(run_reported(&run, "age_ms"), 0, BLOCKED_MS - 100); /* its loop runs while it is blocked */
        assert_int_equal(run_reported(&run, "stuck"), 0);
        assert_int_equal(run_reported(&run, "restarts"), 0);
        run_end(&run);
    }
}

struct text {
    char data[1 << 18];
    size_t len;
};

static void collect(void *arg, const unsigned char *data, size_t len)
{
    struct text *text = arg;
    if (len > sizeof text->data - 1 - text->len)
        len = sizeof text->data - 1 - text->len;
    memcpy(text->data + text->len, data, len);
    text->len += len;
    text->data[text->len] = '\0';
}

static void test_order_of_stdout_and_stderr(void **state)
{
    (void)state;
    static struct text got, want;
    for (int on = ON_PIPE; on <= ON_TERMINAL; on++) {
        got.len = want.len = 0;
        for (int i = 0; i < 5000; i++) {
            char line[64];
            int n = snprintf(line, sizeof line, "o%d\ne%d\n", i, i);
            collect(&want, (unsigned char *)line, (size_t)n);
        }
        struct run run;
        run_start(&run, &(struct run_options){.on = (enum run_on)on,
                                              .both = true,
                                              .raw = true,
                                              .target = {"alternate", "5000"}});
        assert_int_equal(run_drain(&run, collect, &got), 0);
        assert_string_equal(got.data, want.data);
        assert_int_equal(run_reported(&run, "both"), 1);
        run_end(&run);
    }
}

static void test_target_sees_the_same_kind(void **state)
{
    (void)state;
    static const struct {
        struct run_options options;
        const char *want;
    } cases[] = {
        {{.on = ON_TERMINAL, .both = true}, "tty1=1 tty2=1 size=33x101 nonblock1=0 nonblock2=0"},
        {{.on = ON_TERMINAL}, "tty1=0 tty2=1 size=33x101 nonblock1=0 nonblock2=0"},
        {{.on = ON_PIPE, .both = true}, "tty1=0 tty2=0 size=0x0 nonblock1=0 nonblock2=0"},
        {{.on = ON_PIPE, .both = true, .nonblock = true},
         "tty1=0 tty2=0 size=0x0 nonblock1=1 nonblock2=1"},
        {{.on = ON_PIPE, .both = true, .nonblock_1 = true},
         "tty1=0 tty2=0 size=0x0 nonblock1=1 nonblock2=0"},
        {{.on = ON_SOCKET, .both = true, .nonblock = true},
         "tty1=0 tty2=0 size=0x0 nonblock1=1 nonblock2=1"},
        {{.on = ON_FILE}, "tty1=0 tty2=0 size=0x0 nonblock1=0 nonblock2=0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct run_options options = cases[i].options;
        options.target[0] = "look";
        options.target[1] = "@";
        struct run run;
        run_start(&run, &options);
        assert_int_equal(run_wait(&run), 0);
        char got[512];
        run_read_file(run.result, got, sizeof got);
        if (strncmp(got, cases[i].want, strlen(cases[i].want)) != 0)
            fail_msg("case %zu: %s", i, got);
        assert_null(strstr(got, "leaked"));
        run_end(&run);
    }
}

static void test_target_that_closes_its_stderr(void **state)
{
    (void)state;
    for (int on = ON_PIPE; on <= ON_TERMINAL; on++) {
        struct run run;
        run_start(&run, &(struct run_options){.on = (enum run_on)on,
                                              .both = true,
                                              .driver = {"--wait-relay"},
                                              .target = {"close2"}});
        run_expect(&run, "last", 4);
        run_step(&run);
        assert_int_equal(run_wait(&run), 3);
        assert_int_equal(run_reported(&run, "done"), 1);
        assert_int_equal(run_reported(&run, "restarts"), 0);
        run_end(&run);
    }
}

/* The relay outlives target and supervisor as long as a grandchild may still write. */
static void test_tree_that_outlives_the_target(void **state)
{
    (void)state;
    for (int on = ON_PIPE; on <= ON_TERMINAL; on++) {
        struct run run;
        run_start(&run, &(struct run_options){.on = (enum run_on)on, .target = {"linger", "late"}});
        assert_int_equal(run_wait(&run), 0);
        assert_true(run_reported(&run, "helper") > 0);
        run_step(&run);
        run_expect(&run, "late", 4);
        if (on == ON_PIPE)
            run_expect_eof(&run); /* and then the relay ends */
        run_end(&run);
    }
}

static void count_bytes(void *arg, const unsigned char *data, size_t len)
{
    (void)data;
    *(uint64_t *)arg += len;
}

static void test_reader_that_goes_away(void **state)
{
    (void)state;
    struct run run;
    for (int on = ON_PIPE; on <= ON_SOCKET; on++) {
        run_start(&run, &(struct run_options){.on = (enum run_on)on, .target = {"flood"}});
        run_expect(&run, "flood", 5);
        run_close_reader(&run);
        assert_int_equal(run_wait(&run), 128 + SIGPIPE);
        assert_int_equal(run_reported(&run, "closed"), 1);
        assert_int_equal(run_reported(&run, "restarts"), 0);
        run_end(&run);
    }
}

/* It is noticed although no byte is on its way: the next write of the target gets the signal. */
static void check_silence(enum run_on on, const char *driver_option)
{
    struct run run;
    run_start(&run, &(struct run_options){
                        .on = on, .driver = {driver_option}, .target = {"say", "one", "two"}});
    run_expect(&run, "one", 3);
    run_close_reader(&run);
    if (!run_relay_is_gone(&run)) {
        run_step(&run);
        run_end(&run);
        print_message("skipped: no children list in /proc\n");
        skip();
    }
    run_step(&run);
    assert_int_equal(run_wait(&run), 128 + SIGPIPE);
    run_end(&run);
}

static void test_reader_that_goes_away_in_silence(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++)
        check_silence(i < 10 ? ON_PIPE : ON_SOCKET, NULL);
}

/* The relay has no thread that watches the reader. */
static void test_no_memory_for_the_relay(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    print_message("skipped: the sanitizer wants memory\n");
    skip();
#endif
    check_silence(ON_PIPE, "--no-memory");
    struct run run;
    run_start(&run, &(struct run_options){.on = ON_PIPE,
                                          .driver = {"--no-memory", "--wait-relay"},
                                          .target = {"tail", "20000000"}});
    uint64_t bytes = 0;
    assert_int_equal(run_drain(&run, count_bytes, &bytes), 0);
    assert_int_equal(bytes, 20000024 + 4000);
    assert_int_equal(run_reported(&run, "oom"), 1);
    run_end(&run);
}

/* Nothing is put in front of stderr, and the reason is given. */
static void test_no_memory_for_the_plan(void **state)
{
    (void)state;
    struct relay relay;
    struct rc_err err = {""};
    struct rlimit before, none;
    int ends[2], stderr_before = dup(STDERR_FILENO);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
    int r = relay_plan(&relay, FOLLOW_STDERR, &err);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_int_equal(dup2(stderr_before, STDERR_FILENO), STDERR_FILENO);
    assert_int_equal(r, -ENOMEM);
    assert_int_equal(relay.way, RELAY_NONE);
    assert_non_null(strstr(err.msg, "no memory"));
    (void)close(ends[0]);
    (void)close(ends[1]);
    (void)close(stderr_before);
}

static void test_messages_reach_the_shared_memory(void **state)
{
    (void)state;
    for (int on = ON_PIPE; on <= ON_TERMINAL; on++) {
        struct run run;
        run_start(&run, &(struct run_options){.on = (enum run_on)on,
                                              .raw = true,
                                              .target = {"say", "HIP out of mem", "ory. Tried",
                                                         "HW Exception by GPU"}});
        run_expect(&run, "HIP out of mem", 14);
        run_step(&run);
        run_expect(&run, "ory. Tried", 10);
        run_step(&run);
        run_expect(&run, "HW Exception by GPU", 19);
        assert_int_equal(run_wait(&run), 0);
        assert_int_equal(run_reported(&run, "oom"), 1);
        assert_int_equal(run_reported(&run, "hang"), 1);
        assert_int_equal(run_reported(&run, "fault"), 0);
        assert_int_equal(run_reported(&run, "first"), 1);
        assert_int_equal(run_reported(&run, "ring"), 43);
        run_end(&run);
    }
}

/* The output is too fast to search every byte, but the end is always searched. */
static void test_long_line_in_bounded_memory(void **state)
{
    (void)state;
    struct run run;
    run_start(&run, &(struct run_options){.on = ON_PIPE,
                                          .driver = {"--wait-relay"},
                                          .target = {"longline", "100000000"}});
    uint64_t bytes = 0;
    assert_int_equal(run_drain(&run, count_bytes, &bytes), 0);
    assert_int_equal(bytes, 100000024);
    assert_int_equal(run_reported(&run, "oom"), 1);
    run_end(&run);
#ifndef __SANITIZE_ADDRESS__
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_CHILDREN, &usage), 0);
    assert_in_range(usage.ru_maxrss, 1, 16 * 1024); /* KiB */
#endif
}

/* The end is the last 32 KiB, in however many pieces it came. */
static void test_end_in_small_pieces(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        struct run run;
        run_start(&run, &(struct run_options){.on = ON_PIPE, .driver = {"--wait-relay"}, .target = {"tail", "20000000"}});
        uint64_t bytes = 0;
        assert_int_equal(run_drain(&run, count_bytes, &bytes), 0);
        assert_int_equal(bytes, 20000024 + 4000);
        assert_int_equal(run_reported(&run, "oom"), 1);
        run_end(&run);
    }
}

/* The target has ended, and the relay's peek pipes are full of bytes that reads left there: then tee(2) does not report
 * the end. */
static int run_carrier_with_full_pipes(bool waits_by_tee)
{
    static struct carrier c;
    static struct relay relay = RELAY_INIT;
    static const char page[4096];
    int shared_fd, from[2], down[2];
    struct shared *shared = shared_create(&shared_fd, NULL);
    if (shared == NULL || pipe(from) != 0 || pipe(down) != 0)
        return 1;
    (void)close(from[1]);
    relay.way = RELAY_PIPE;
    relay.from = from[0];
    relay.down = down[1];
    c = (struct carrier){
        .relay = &relay,
        .shared = shared,
        .me = &shared->helpers[HELPER_RELAY],
        .carried = &shared->stderr_carried,
        .null_fd = -1,
    };
    look_init(&c);
    for (int i = 0; i < 2; i++)
        while (write(c.peek[i].write_end, page, sizeof page) > 0)
            continue;
    wait_init(&c);
    if (!waits_by_tee)
        relay_close(&c.bell[0]);
    (void)setrlimit(RLIMIT_CPU, &(struct rlimit){2, 2}); /* its loop would never end */
    carry_run(&c);
}

static void test_end_with_full_pipes(void **state)
{
    (void)state;
    for (int waits_by_tee = 0; waits_by_tee < 2; waits_by_tee++) {
        int status = -1;
        pid_t pid = fork();
        if (pid == 0)
            _exit(run_carrier_with_full_pipes(waits_by_tee != 0));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_byte_is_carried),
        cmocka_unit_test(test_long_line_in_bounded_memory),
        cmocka_unit_test(test_end_in_small_pieces),
        cmocka_unit_test(test_end_with_full_pipes),
        cmocka_unit_test(test_pipe_survives_100_kills),
        cmocka_unit_test(test_terminal_survives_100_kills),
        cmocka_unit_test(test_stopped_relay_is_noticed),
        cmocka_unit_test(test_slow_reader_is_not_a_hang),
        cmocka_unit_test(test_order_of_stdout_and_stderr),
        cmocka_unit_test(test_target_sees_the_same_kind),
        cmocka_unit_test(test_target_that_closes_its_stderr),
        cmocka_unit_test(test_tree_that_outlives_the_target),
        cmocka_unit_test(test_reader_that_goes_away),
        cmocka_unit_test(test_reader_that_goes_away_in_silence),
        cmocka_unit_test(test_no_memory_for_the_relay),
        cmocka_unit_test(test_no_memory_for_the_plan),
        cmocka_unit_test(test_messages_reach_the_shared_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
