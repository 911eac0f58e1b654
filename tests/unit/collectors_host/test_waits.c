/* SPDX-License-Identifier: Apache-2.0 */
/* Finding out what threads wait for (collectors/waits_text.h), from lines as launch/tasks.c writes them and from
 * garbage. */
#include "collectors/waits_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include <cmocka.h>

static const char fds[] = "0 /dev/pts/3\n3 pipe:[881]\n4 socket:[882]\n5 /dev/kfd\n6 /mnt/data/a.bin\n"
                          "7 anon_inode:[eventfd]\n8 /dev/dri/renderD128\n";
static const char maps[] = "1000-2000 rw-p 00000000 00:00 0\n2000-3000 rw-s 00000000 00:01 7 /dev/shm/sem.x\n";

struct row {
    const char *state;
    long call;
    const char *args; /* six hexadecimal words */
    const char *wchan, *lock;
};

static void print_line(char *out, size_t size, int tid, const struct row *row)
{
    size_t n = strlen(out);
    char call[128];
    if (row->call < 0)
        (void)snprintf(call, sizeof call, "%s", row->args);
    else
        (void)snprintf(call, sizeof call, "%ld %s 0x7ffd0 0x7f00", row->call, row->args);
    (void)snprintf(out + n, size - n, "%d\t%s\t5000\t%s\t%s\t%s\tpython3 x\n", tid, row->state,
                   row->wchan != NULL ? row->wchan : "-", call, row->lock != NULL ? row->lock : "-");
}

static void each_wait_has_its_kind(void **state)
{
    static const struct {
        struct row row;
        enum wait_kind kind;
        const char *phrase;
    } rows[] = {
        {{"R", -1, "running", NULL, NULL}, WAIT_RUNS, "runs on the CPU"},
        {{"S", SYS_futex, "0x1000 0x80 0x2 0x0 0x0 0x0", NULL, NULL}, WAIT_LOCK, "waits for a lock"},
        {{"S", SYS_clock_nanosleep, "0x0 0x0 0x1 0x0 0x0 0x0", NULL, NULL}, WAIT_SLEEP,
         "sleeps for a set time"},
        {{"S", SYS_ppoll, "0x0 0x0 0x1 0x0 0x0 0x0", NULL, NULL}, WAIT_SLEEP, "sleeps for a set time"},
        {{"S", SYS_ppoll, "0x1 0x2 0x1 0x0 0x0 0x0", NULL, NULL}, WAIT_EVENTS, "waits for events"},
        {{"S", SYS_wait4, "0x1 0x2 0x1 0x0 0x0 0x0", NULL, NULL}, WAIT_CHILD,
         "waits for a child process"},
        {{"S", SYS_restart_syscall, "0x0 0x0 0x0 0x0 0x0 0x0", NULL, NULL}, WAIT_RESUMED,
         "waits for a time, or for something with a time limit"},
        {{"S", SYS_ioctl, "0x5 0x2 0x1 0x0 0x0 0x0", "kfd_wait_on_events", NULL}, WAIT_GPU,
         "waits in ioctl of /dev/kfd (in kfd_wait_on_events)"},
        {{"S", SYS_ioctl, "0x8 0x2 0x1 0x0 0x0 0x0", NULL, NULL}, WAIT_GPU,
         "waits in ioctl of /dev/dri/renderD128"},
        {{"S", SYS_read, "0x3 0x2 0x1 0x0 0x0 0x0", NULL, NULL}, WAIT_PIPE,
         "waits in read of pipe:[881]"},
        {{"S", SYS_read, "0x0 0x2 0x1 0x0 0x0 0x0", NULL, NULL}, WAIT_TERMINAL,
         "waits in read of /dev/pts/3"},
        {{"S", SYS_read, "0x7 0x2 0x1 0x0 0x0 0x0", NULL, NULL}, WAIT_EVENTS,
         "waits in read of anon_inode:[eventfd]"},
        {{"S", SYS_read, "0x6 0x2 0x1 0x0 0x0 0x0", NULL, NULL}, WAIT_FILE,
         "waits in read of /mnt/data/a.bin"},
        {{"S", SYS_read, "0x63 0x2 0x1 0x0 0x0 0x0", NULL, NULL}, WAIT_CALL, "waits in read"},
        {{"S", SYS_recvfrom, "0x4 0x2 0x1 0x0 0x0 0x0", NULL, NULL}, WAIT_SOCKET, "waits in recvfrom"},
        {{"D", SYS_read, "0x6 0x2 0x1 0x0 0x0 0x0", "folio_wait_bit_common", NULL}, WAIT_BLOCKED,
         "is blocked in the kernel, read of /mnt/data/a.bin (in folio_wait_bit_common)"},
        {{"D", -1, "-", NULL, NULL}, WAIT_BLOCKED,
         "is blocked in the kernel, in a page fault or an unknown call"},
        {{"T", -1, "-", NULL, NULL}, WAIT_STOPPED, "is stopped by a signal"},
        {{"S", -1, "-", NULL, NULL}, WAIT_UNKNOWN, "sleeps; what it waits for may not be read"},
        {{"S", -1, "-", "futex_wait_queue", NULL}, WAIT_LOCK, "waits for a lock"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[256] = "";
        char phrase[WAITS_PHRASE_MAX];
        struct wait_threads threads;
        print_line(text, sizeof text, 7, &rows[i].row);
        assert_true(waits_parse(text, &threads));
        assert_int_equal(threads.count, 1);
        assert_string_equal(threads.list[0].name, "python3 x");
        assert_int_equal(threads.list[0].cpu_ns, 5000);
        waits_phrase(&threads.list[0], fds, phrase, sizeof phrase);
        assert_string_equal(phrase, rows[i].phrase);
        assert_int_equal(waits_kind(&threads.list[0], fds), rows[i].kind);
        free(threads.list);
    }
}

/* Both readings have the same rows. */
static enum deadlock deadlock_of(const struct row *rows, size_t count, bool moved)
{
    char first[1024] = "";
    char again[1024] = "";
    char words[400];
    struct wait_threads a;
    struct wait_threads b;
    for (size_t i = 0; i < count; i++) {
        print_line(first, sizeof first, (int)i + 11, &rows[i]);
        print_line(again, sizeof again, (int)i + 11, &rows[i]);
    }
    char *cpu = moved ? strstr(again, "5000") : NULL;
    if (cpu != NULL)
        *cpu = '6';
    assert_true(waits_parse(first, &a) && waits_parse(again, &b));
    enum deadlock found = waits_deadlock(&a, &b, maps, words, sizeof words);
    assert_int_equal(found == DEADLOCK_NONE, words[0] == '\0');
    free(a.list);
    free(b.list);
    return found;
}

#define LOCK(args, words) {"S", SYS_futex, args, NULL, words}
#define PRIVATE "0x1000 0x80 0x2 0x0 0x0 0x0"
#define TIMED "0x1000 0x80 0x2 0x7ffe 0x0 0x0"
#define OWN_MEMORY "0x1800 0x0 0x2 0x0 0x0 0x0"
#define SHARED_MEMORY "0x2800 0x0 0x2 0x0 0x0 0x0"
#define SLEEPS {"S", SYS_clock_nanosleep, "0x0 0x0 0x1 0x0 0x0 0x0", NULL, NULL}

static void a_deadlock_is_a_proof(void **state)
{
    static const struct row circle[] = {LOCK(PRIVATE, "2,12"), LOCK(PRIVATE, "2,11"), SLEEPS};
    static const struct row owner_sleeps[] = {LOCK(PRIVATE, "2,12"), SLEEPS};
    static const struct row not_contended[] = {LOCK(PRIVATE, "1,12"), LOCK(PRIVATE, "2,11"), SLEEPS};
    static const struct row chain_with_time[] = {LOCK(PRIVATE, "2,12"), LOCK(TIMED, "2,11"), SLEEPS};
    static const struct row inside[] = {LOCK(PRIVATE, NULL), LOCK(OWN_MEMORY, NULL)};
    static const struct row with_time[] = {LOCK(PRIVATE, NULL), LOCK(TIMED, NULL)};
    static const struct row with_others[] = {LOCK(PRIVATE, NULL), LOCK(SHARED_MEMORY, NULL)};
    static const struct row one_runs[] = {LOCK(PRIVATE, NULL), {"R", -1, "running", NULL, NULL}};
    (void)state;
    assert_int_equal(deadlock_of(circle, 3, false), DEADLOCK_CIRCLE);
    assert_int_equal(deadlock_of(circle, 3, true), DEADLOCK_NONE); /* one of them ran between the readings */
    assert_int_equal(deadlock_of(owner_sleeps, 2, false), DEADLOCK_NONE);
    assert_int_equal(deadlock_of(not_contended, 3, false), DEADLOCK_NONE);
    assert_int_equal(deadlock_of(chain_with_time, 3, false), DEADLOCK_NONE);
    assert_int_equal(deadlock_of(inside, 2, false), DEADLOCK_INSIDE);
    assert_int_equal(deadlock_of(inside, 2, true), DEADLOCK_NONE);
    assert_int_equal(deadlock_of(with_time, 2, false), DEADLOCK_NONE);
    assert_int_equal(deadlock_of(with_others, 2, false), DEADLOCK_NONE);
    assert_int_equal(deadlock_of(one_runs, 2, false), DEADLOCK_NONE);
    assert_int_equal(deadlock_of(NULL, 0, false), DEADLOCK_NONE);
}

static void garbage_is_no_thread(void **state)
{
    static const char *const texts[] = {"", "\n\n", "x\ty\tz\n", "7\n", "7\tS\t1\t-\n", "\t\t\t\t\t\t\t\n",
                                        "-5\tS\t1\t-\t-\t-\tn\n", "no stacks: x"};
    struct wait_threads threads;
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_true(waits_parse(texts[i], &threads));
        assert_int_equal(threads.count, 0);
        free(threads.list);
    }
    assert_true(waits_parse("7\tS\t1\t-\t999999999999999999999\t,\tn", &threads)); /* no newline: cut */
    free(threads.list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_wait_has_its_kind),
        cmocka_unit_test(a_deadlock_is_a_proof),
        cmocka_unit_test(garbage_is_no_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
