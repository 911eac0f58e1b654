/* SPDX-License-Identifier: Apache-2.0 */
/* The process that a snapshot of several tells of (collectors/waits_subject.h). */
#include "collectors/waits_subject.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include <cmocka.h>

#define PROCESSES_MAX 4
#define LOOKS_APART_NS 1000000000u

struct process {
    int pid, parent;
    char state;
    long call;
    const char *fds;
    unsigned used_ms; /* between the looks */
};

static void put(struct impact_record *record, enum impact_chunk_type type, uint64_t arg, const char *text)
{
    struct impact_chunk chunk = {.type = type, .length = strlen(text), .arg = arg};
    size_t padded = (chunk.length + 7) & ~(size_t)7;
    record->data = realloc(record->data, record->size + sizeof chunk + padded);
    assert_non_null(record->data);
    memcpy(record->data + record->size, &chunk, sizeof chunk);
    memset(record->data + record->size + sizeof chunk, 0, padded);
    memcpy(record->data + record->size + sizeof chunk, text, chunk.length);
    record->size += sizeof chunk + padded;
}

static struct impact_record record_of(const struct process *p)
{
    char text[160];
    struct impact_record record = {.header = {.kind = IMPACT_SNAPSHOT, .pid = p->pid, .time_ns = 5}};
    record.size = sizeof record.header;
    record.data = calloc(1, record.size);
    (void)snprintf(text, sizeof text, "Name:\tx\nPid:\t%d\nPPid:\t%d\n", p->pid, p->parent);
    put(&record, CHUNK_STATUS, 0, text);
    put(&record, CHUNK_FDS, 0, p->fds != NULL ? p->fds : "");
    for (unsigned look = 0; look < 2; look++) {
        (void)snprintf(text, sizeof text, "%d\t%c\t%u\t-\t%ld 0x3 0x0 0x0 0x0 0x0 0x0 0x7ffd0 0x7f00\t-\tx\n", p->pid, p->state,
                       look * p->used_ms * 1000000u, p->call);
        put(&record, look == 0 ? CHUNK_TASKS : CHUNK_TASKS_AGAIN, 1 + look * (uint64_t)LOOKS_APART_NS, text);
    }
    return record;
}

static int subject_of(const struct process *list, uint64_t since_ns)
{
    struct impact_record records[PROCESSES_MAX];
    size_t count = 0;
    for (; count < PROCESSES_MAX && list[count].pid != 0; count++)
        records[count] = record_of(&list[count]);
    int found = waits_subject(records, count, since_ns);
    for (size_t i = 0; i < count; i++)
        free(records[i].data);
    return found >= 0 ? list[found].pid : -1;
}

#define SHELL(pid, parent) {pid, parent, 'S', SYS_wait4, NULL, 0}
#define LOCKED(pid, parent) {pid, parent, 'S', SYS_futex, NULL, 0}

static void a_launcher_is_no_cause(void **state)
{
    static const struct {
        struct process list[PROCESSES_MAX];
        int pid;
    } rows[] = {
        {{SHELL(10, 1), LOCKED(11, 10)}, 11},
        /* timeout python hang.py; a shell that starts it */
        {{{10, 1, 'S', SYS_rt_sigsuspend, NULL, 0}, LOCKED(11, 10)}, 11},
        {{SHELL(10, 1), {11, 10, 'S', SYS_rt_sigsuspend, NULL, 0}, LOCKED(12, 11)}, 12},
        /* python hang.py | tee log, and the other way round */
        {{SHELL(10, 1), LOCKED(11, 10), {12, 10, 'S', SYS_read, "3 pipe:[8]\n", 0}}, 11},
        {{SHELL(10, 1), {11, 10, 'S', SYS_read, "3 pipe:[8]\n", 0}, LOCKED(12, 10)}, 12},
        {{SHELL(10, 1), {11, 10, 'S', SYS_read, "3 pipe:[8]\n", 0}}, 11},
        /* It waits for no child, or its child is no child that we have. */
        {{LOCKED(10, 1), LOCKED(11, 10)}, 10},
        {{SHELL(10, 1), LOCKED(11, 9)}, 10},
        {{{10, 1, 'S', SYS_rt_sigsuspend, NULL, 0}}, 10},
        /* Its child works. */
        {{SHELL(10, 1), {11, 10, 'R', -1, NULL, 0}}, 10},
        {{SHELL(10, 1), {11, 10, 'S', SYS_futex, NULL, 200}}, 10},
        /* The one that uses a GPU, and a compiler below it */
        {{SHELL(10, 1), {11, 10, 'S', SYS_wait4, "5 /dev/kfd\n", 0}, LOCKED(12, 11)}, 11},
        {{SHELL(10, 1), {11, 10, 'S', SYS_wait4, "5 /dev/kfd\n", 0}, {12, 11, 'S', SYS_futex, "5 /dev/kfd\n", 0}}, 12},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(subject_of(rows[i].list, 0), rows[i].pid);
}

static void what_was_copied_before_does_not_count(void **state)
{
    static const struct process list[PROCESSES_MAX] = {SHELL(10, 1), LOCKED(11, 10)};
    (void)state;
    assert_int_equal(subject_of(list, 6), -1);
    assert_int_equal(waits_subject(NULL, 0, 0), -1);
}

static void a_circle_of_parents_ends(void **state)
{
    static const struct process list[PROCESSES_MAX] = {SHELL(10, 11), SHELL(11, 10)};
    (void)state;
    assert_true(subject_of(list, 0) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_launcher_is_no_cause),
        cmocka_unit_test(what_was_copied_before_does_not_count),
        cmocka_unit_test(a_circle_of_parents_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
