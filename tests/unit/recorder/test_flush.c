/* SPDX-License-Identifier: Apache-2.0 */
/* Copying the shared memory to the run directory, and how often that happens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fs.h"
#include "record/impact_record.h"
#include "record/shared.h"
#include "recorder/flush.h"

static char folder[32];
static struct shared *shared;
static uint64_t passed_ns; /* added to the real clock */
static unsigned syncs;     /* syncs of the folder, the last step of each flush */

int __real_clock_gettime(clockid_t id, struct timespec *ts);
int __wrap_clock_gettime(clockid_t id, struct timespec *ts);
int __real_fsync(int fd);
int __wrap_fsync(int fd);

int __wrap_clock_gettime(clockid_t id, struct timespec *ts)
{
    int r = __real_clock_gettime(id, ts);
    ts->tv_sec += (time_t)(passed_ns / 1000000000u);
    return r;
}

int __wrap_fsync(int fd)
{
    struct stat st, run;
    if (fstat(fd, &st) == 0 && stat(folder, &run) == 0 && st.st_ino == run.st_ino)
        syncs++;
    return __real_fsync(fd);
}

static int set_up(void **state)
{
    (void)state;
    int fd = -1;
    (void)snprintf(folder, sizeof folder, "/tmp/rc-flush-XXXXXX");
    assert_non_null(mkdtemp(folder));
    shared = shared_create(&fd, NULL);
    assert_non_null(shared);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return fs_remove_tree(AT_FDCWD, folder);
}

static void flush(void)
{
    struct rc_err err = {""};
    if (recorder_flush(shared, folder, &err) < 0)
        fail_msg("%s", err.msg);
}

static void write_impact(enum impact_state state, uint64_t bytes)
{
    struct impact_chunk chunk = {.type = CHUNK_STATUS, .length = bytes - sizeof chunk};
    memcpy(shared->arena, &chunk, sizeof chunk);
    shared->impacts[0] =
        (struct shared_impact){.state = state, .pid = 4711, .arena_length = bytes};
    shared->impacts_used = 1;
}

static size_t bytes_on_disk(void)
{
    char path[64];
    struct impact_record record;
    (void)snprintf(path, sizeof path, "%s/impact.0", folder);
    assert_int_equal(impact_record_read(&record, path, NULL), 0);
    size_t bytes = record.size - sizeof record.header;
    assert_int_equal(record.header.pid, 4711);
    impact_record_release(&record);
    return bytes;
}

static void test_impact_is_written_as_it_grows(void **state)
{
    (void)state;
    shared->helpers[HELPER_TRACER].pid = 1;
    write_impact(IMPACT_WRITING, 64);
    flush();
    assert_int_equal(bytes_on_disk(), 64);
    write_impact(IMPACT_COMPLETE, 128);
    flush();
    assert_int_equal(bytes_on_disk(), 128);
    write_impact(IMPACT_COMPLETE, 256); /* no program does this; it shows that the file is not written again */
    flush();
    assert_int_equal(bytes_on_disk(), 128);
}

/* The target may run for days. */
static void test_impact_of_a_tracer_that_was_killed_is_written_once(void **state)
{
    (void)state;
    shared->helpers[HELPER_TRACER].pid = 0;
    write_impact(IMPACT_WRITING, 64);
    flush();
    assert_int_equal(bytes_on_disk(), 64);
    write_impact(IMPACT_WRITING, 128);
    flush();
    assert_int_equal(bytes_on_disk(), 64);
}

/* A minute of a quiet run with a turn every two seconds: it syncs at 2 s, then every 10 s, and at once after a failure
 * is noticed. */
static void test_how_often_the_disk_is_waited_for(void **state)
{
    (void)state;
    unsigned before = syncs;
    for (int second = 0; second <= 60; second += 2, passed_ns += UINT64_C(2000000000))
        flush();
    assert_int_equal(syncs - before, 6);
    shared->oom_matches = 1;
    flush();
    assert_int_equal(syncs - before, 7);
    shared->oom_matches = 0;
}

/* Each line has its number and its end, also if the ring was overwritten. */
static unsigned check_lines(const char *name, unsigned *ret_last)
{
    char path[64];
    char *text = NULL;
    unsigned first = 0, count = 0;
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_true(fs_read_all(path, 1 << 20, &text) > 0);
    for (char *line = text; *line != '\0'; count++) {
        char wanted[32];
        unsigned number = (unsigned)strtoul(line + 8, NULL, 10);
        first = count == 0 ? number : first;
        assert_int_equal(number, first + count);
        int len = snprintf(wanted, sizeof wanted, "message %u of many\n", number);
        assert_memory_equal(line, wanted, (size_t)len);
        line += len;
    }
    *ret_last = first + count - 1;
    free(text);
    return first;
}

static void write_lines(unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++) {
        char line[32];
        int len = snprintf(line, sizeof line, "message %u of many\n", i);
        ring_write(&shared->found, line, (size_t)len);
    }
}

static void test_first_and_last_lines_are_whole(void **state)
{
    (void)state;
    unsigned last;
    write_lines(0, 10);
    flush();
    assert_int_equal(check_lines("output.first", &last), 0);
    assert_int_equal(last, 9);
    write_lines(10, 2500);
    flush();
    write_lines(2500, 5000); /* together more than fits into the file of the first messages */
    flush();
    assert_int_equal(check_lines("output.first", &last), 0);
    assert_in_range(last, 3000, 4999);
    write_lines(5000, 100000); /* more than fits into the ring */
    flush();
    unsigned kept_from = check_lines("output.last", &last);
    assert_int_equal(last, 99999);
    assert_in_range(last - kept_from, 2500, 4000);
    assert_int_equal(check_lines("output.first", &last), 0);
}

/* The target writes these bytes: full slots without a NUL, invalid UTF-8, control characters. */
static void test_troubles_of_the_hook_are_text(void **state)
{
    (void)state;
    char path[64];
    char all[SHARED_HOOK_TEXT + 1] = "";
    char *text = NULL;
    shared->target_state = TARGET_ENDED; /* until then, counters alone wait */
    flush();
    (void)snprintf(path, sizeof path, "%s/run.json", folder);
    assert_true(fs_read_all(path, 1 << 20, &text) > 0);
    assert_non_null(strstr(text, "\"hook_trouble\": [],"));
    free(text);
    memset(shared->hook_trouble[1], 'x', SHARED_HOOK_TEXT);
    memset(all, 'x', SHARED_HOOK_TEXT);
    memcpy(shared->hook_trouble[7], "7 \"a\"\n\xff", 8);
    flush();
    assert_true(fs_read_all(path, 1 << 20, &text) > 0);
    char *list = strstr(text, "\"hook_trouble\": [\"");
    assert_non_null(list);
    assert_memory_equal(list + 18, all, SHARED_HOOK_TEXT);
    assert_memory_equal(list + 18 + SHARED_HOOK_TEXT, "\", \"7 \\\"a\\\"\\u000a\\ufffd\"],\n", 27);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_impact_is_written_as_it_grows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_troubles_of_the_hook_are_text, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_impact_of_a_tracer_that_was_killed_is_written_once,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_how_often_the_disk_is_waited_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_first_and_last_lines_are_whole, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
