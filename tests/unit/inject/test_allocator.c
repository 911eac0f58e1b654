/* SPDX-License-Identifier: Apache-2.0 */
/* Replacing PyTorch's calls of pthread_mutex_lock(): tests/unit/inject/stub_allocator.c stands for its library. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "inject/got.h"
#include "inject/raw.h"

#define ROUNDS 10000

int stub_allocator_ask(void);
int rocmcrash_guard_allocator(void);

static _Atomic bool is_over;
static _Atomic unsigned neighbour_changes;

struct change {
    const char *name;
    void *function; /* NULL = keep the present function */
    unsigned changed;
};

static void change_slot(const struct got_slot *slot, void *context)
{
    struct change *change = context;
    if (raw_same(slot->name, change->name) && slot->read_only &&
        got_replace(slot, change->function != NULL ? change->function : *slot->at))
        change->changed++;
}

static bool change_object(const struct next_object *o, void *context)
{
    const char *name = o->name;
    for (const char *p = name; *p != '\0'; p++)
        if (*p == '/')
            name = p + 1;
    if (raw_starts(name, "libc10_hip"))
        got_each_slot(o, change_slot, context);
    return false;
}

/* As the search for HIP runtimes does it, in another thread. */
static void *change_neighbour(void *nothing)
{
    (void)nothing;
    while (!is_over) {
        struct change change = {.name = "getppid"};
        next_objects(change_object, &change);
        neighbour_changes += change.changed;
    }
    return NULL;
}

static void test_two_threads_change_one_page(void **state)
{
    pthread_t other;
    struct change undo = {.name = "pthread_mutex_lock"};
    (void)state;
    assert_int_equal(stub_allocator_ask(), getppid());
    *(int (**)(pthread_mutex_t *))&undo.function = pthread_mutex_lock;
    assert_int_equal(pthread_create(&other, NULL, change_neighbour, NULL), 0);
    while (neighbour_changes == 0)
        (void)sched_yield();
    for (unsigned i = 1; i <= ROUNDS; i++) {
        assert_int_equal(rocmcrash_guard_allocator(), 1);
        next_objects(change_object, &undo);
        assert_int_equal(undo.changed, i);
    }
    is_over = true;
    assert_int_equal(pthread_join(other, NULL), 0);
    assert_int_equal(stub_allocator_ask(), getppid());
}

static void test_a_slot_that_cannot_be_changed(void **state)
{
    void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct got_slot slot = {.name = "getppid", .at = page, .read_only = true};
    (void)state;
    assert_true(page != MAP_FAILED);
    assert_true(got_replace(&slot, page));
    assert_ptr_equal(*slot.at, page);
    assert_int_equal(munmap(page, 4096), 0);
    assert_false(got_replace(&slot, page));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_threads_change_one_page),
        cmocka_unit_test(test_a_slot_that_cannot_be_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
