/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger's file: made, copied to the run directory, read back; and the end of a run in it.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "record/ledger.h"
#include "recorder/ledger_copy.h"
#include "temp_folder.h"

static char folder[TEMP_FOLDER_MAX];

struct world {
    struct ledger *ledger;
    int fd, dirfd;
};

static int set_up(void **state)
{
    static struct world w;
    struct rc_err err = {""};
    assert_true(temp_folder(folder, sizeof folder, "rc-ledger"));
    w.ledger = ledger_create(&w.fd, &err);
    assert_non_null(w.ledger);
    w.dirfd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *state = &w;
    return w.dirfd >= 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    struct world *w = *state;
    ledger_close(w->ledger);
    (void)close(w->fd);
    (void)unlinkat(w->dirfd, "ledger", 0);
    (void)close(w->dirfd);
    return rmdir(folder);
}

static struct stat stat_of(const struct world *w)
{
    struct stat st;
    assert_int_equal(fstatat(w->dirfd, "ledger", &st, 0), 0);
    return st;
}

static const struct ledger *read_back(const struct world *w)
{
    int fd = openat(w->dirfd, "ledger", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    const struct ledger *copy = ledger_open(fd, NULL);
    (void)close(fd);
    assert_non_null(copy);
    return copy;
}

static void test_copy_is_equal_and_sparse(void **state)
{
    struct world *w = *state;
    w->ledger->live[LEDGER_LIVE - 1].size = 42;
    w->ledger->events[77].size = 43;
    assert_int_equal(ledger_copy(w->fd, w->dirfd), 0);
    assert_int_equal(stat_of(w).st_size, sizeof(struct ledger));
    assert_true(stat_of(w).st_blocks * 512 <= 5 * 16384);
    const struct ledger *copy = read_back(w);
    assert_memory_equal(copy, w->ledger, sizeof *copy);
    ledger_close(copy);
}

static void test_only_what_changed_is_written(void **state)
{
    struct world *w = *state;
    w->ledger->live[0].size = 1;
    assert_int_equal(ledger_copy(w->fd, w->dirfd), 0);
    struct stat first = stat_of(w);
    /* A second copy of the same ledger writes nothing: the file's time does not change. */
    const struct timespec past[2] = {{1000, 0}, {1000, 0}};
    assert_int_equal(utimensat(w->dirfd, "ledger", past, 0), 0);
    assert_int_equal(ledger_copy(w->fd, w->dirfd), 0);
    assert_int_equal(stat_of(w).st_mtim.tv_sec, 1000);
    w->ledger->live[0].size = 2;
    assert_int_equal(ledger_copy(w->fd, w->dirfd), 0);
    assert_true(stat_of(w).st_mtim.tv_sec >= first.st_mtim.tv_sec);
    const struct ledger *copy = read_back(w);
    assert_int_equal(copy->live[0].size, 2);
    ledger_close(copy);
}

static void test_other_files_are_no_ledgers(void **state)
{
    struct world *w = *state;
    struct rc_err err = {""};
    int fd = memfd_create("other", MFD_CLOEXEC);
    assert_null(ledger_open(fd, &err));
    assert_int_equal(ftruncate(fd, (off_t)sizeof(struct ledger)), 0);
    assert_null(ledger_open(fd, &err)); /* the size alone does not show it */
    (void)close(fd);
    w->ledger->version++;
    assert_null(ledger_open(w->fd, &err));
    assert_true(strlen(err.msg) > 0);
    w->ledger->version--;
}

static void refuse(struct world *w, uint64_t number, uint64_t time_ns, uint64_t retry_of, int error)
{
    struct ledger_refusal *r = &w->ledger->refusals[number - 1];
    r->time_ns = time_ns;
    r->retry_of = retry_of;
    r->error = (uint16_t)error;
    r->number = number;
    w->ledger->refusals_head = number;
}

static void test_a_gpu_was_used(void **state)
{
    struct world *w = *state;
    struct ledger_process *p = w->ledger->processes;
    assert_false(ledger_has_allocations(w->ledger));
    p[0].state = LEDGER_USED; /* it only opened a model file */
    p[1].state = LEDGER_USED;
    assert_false(ledger_has_allocations(w->ledger));
    p[1].allocations = 1;
    assert_true(ledger_has_allocations(w->ledger));
}

static void test_refusals_at_the_end(void **state)
{
    struct world *w = *state;
    assert_int_equal(ledger_final_refusals(w->ledger, 0), 0);
    refuse(w, 1, 100, 0, ENOMEM);
    refuse(w, 2, 101, 1, ENOMEM); /* the same again */
    refuse(w, 3, 200, 0, EBADF);  /* a child with its parent's descriptor */
    assert_int_equal(ledger_final_refusals(w->ledger, 0), 1);
    assert_int_equal(ledger_final_refusals(w->ledger, 150), 0); /* long ago */
    w->ledger->refusals[0].satisfied_ns = 110;
    assert_int_equal(ledger_final_refusals(w->ledger, 0), 0);

    struct ledger_hip_refusal *h = w->ledger->hip_refusals;
    h->error = 2;
    h->time_ns = 300;
    h->kernel_refusals = 2; /* a refusal by the kernel */
    h->number = 1;
    w->ledger->hip_refusals_head = 1;
    assert_int_equal(ledger_final_refusals(w->ledger, 0), 0);
    h->kernel_refusals = 0;
    assert_int_equal(ledger_final_refusals(w->ledger, 0), 1);
    h->error = 1; /* an invalid argument */
    assert_int_equal(ledger_final_refusals(w->ledger, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(test_copy_is_equal_and_sparse),
        TEST(test_only_what_changed_is_written),
        TEST(test_other_files_are_no_ledgers),
        TEST(test_a_gpu_was_used),
        TEST(test_refusals_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
