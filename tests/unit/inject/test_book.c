/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger's tables after a writer's death, with a full table, and with several threads. Also
 * built with the thread and the address sanitizer, whatever the build is. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "inject/book.h"
#include "inject/settle.h"

#define MIB (1u << 20)

struct world {
    struct ledger *ledger;
    struct book_actor actor;
    struct book_row row;
    uint8_t gpu;
};

static uint32_t add_process(struct ledger *ledger, int32_t pid, uint64_t now_ns)
{
    struct book_process p = {.pid = pid,
                             .parent = LEDGER_NO_PROCESS,
                             .start_ticks = 1,
                             .now_ns = now_ns,
                             .comm = "test"};
    p.pid_namespace = ledger_pid_namespace();
    p.start_ticks = ledger_start_ticks(pid);
    return book_add_process(ledger, &p);
}

static int set_up(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    w->ledger =
        mmap(NULL, sizeof *w->ledger, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(w->ledger, MAP_FAILED);
    w->actor = (struct book_actor){.ledger = w->ledger, .tid = 7, .now_ns = 1000};
    w->actor.process = add_process(w->ledger, getpid(), 1000);
    w->gpu = book_gpu_by_kfd(w->ledger, 4711);
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;
    (void)munmap(w->ledger, sizeof *w->ledger);
    free(w);
    return 0;
}

static struct book_buffer buffer(const struct world *w, uint64_t handle, uint64_t size)
{
    return (struct book_buffer){.handle = handle,
                                .size = size,
                                .address = handle << 21,
                                .file = -1,
                                .gpu = w->gpu,
                                .kind = LEDGER_VRAM};
}

static void allocate(const struct world *w, uint64_t handle, uint64_t size)
{
    struct book_buffer b = buffer(w, handle, size);
    book_allocated(&w->actor, &b);
}

static void release(const struct world *w, uint64_t handle)
{
    book_end_free(&w->actor, book_begin_free(&w->actor, handle, -1), true);
}

static const struct ledger_account *account(const struct ledger *ledger, uint32_t process)
{
    for (uint32_t i = 0; i < LEDGER_ACCOUNTS; i++)
        if (LEDGER_STATE(ledger->accounts[i].state) == LEDGER_USED &&
            ledger->accounts[i].process == process)
            return &ledger->accounts[i];
    fail_msg("process %u has no account", process);
    return NULL;
}

static uint32_t count_live(const struct ledger *ledger)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < LEDGER_LIVE; i++) {
        uint32_t s = LEDGER_STATE(ledger->live[i].state);
        n += s == LEDGER_USED || s == LEDGER_FREEING;
    }
    return n;
}

static void test_bytes_are_pages(void **state)
{
    struct world *w = *state;
    allocate(w, 1, 1);
    allocate(w, 2, 4096);
    allocate(w, 3, 4097);
    const struct ledger_account *a = account(w->ledger, w->actor.process);
    assert_int_equal(a->live, 4096 + 4096 + 8192);
    release(w, 3);
    assert_int_equal(a->live, 8192);
    assert_int_equal(a->peak, 16384);
    assert_int_equal(w->ledger->gpus[w->gpu].live[LEDGER_VRAM], 8192);
    assert_int_equal(w->ledger->gpus[w->gpu].peak[LEDGER_VRAM], 16384);
    assert_int_equal(a->allocated_bytes, 16384);
}

static void test_free_that_fails_changes_nothing(void **state)
{
    struct world *w = *state;
    allocate(w, 1, MIB);
    uint32_t entry = book_begin_free(&w->actor, 1, -1);
    assert_int_not_equal(entry, BOOK_NONE);
    assert_int_equal(LEDGER_STATE(w->ledger->live[entry].state), LEDGER_FREEING);
    assert_int_equal(book_begin_free(&w->actor, 1, -1),
                     BOOK_NONE); /* another thread frees it too */
    book_end_free(&w->actor, entry, false);
    assert_int_equal(account(w->ledger, w->actor.process)->live, MIB);
    assert_int_not_equal(book_find(&w->actor, 1, -1), BOOK_NONE);
    release(w, 1);
    assert_int_equal(account(w->ledger, w->actor.process)->live, 0);
}

/* The kernel may reuse a handle before the ioctl that freed it has returned. */
static void test_handle_given_again_meanwhile(void **state)
{
    struct world *w = *state;
    allocate(w, 1, MIB);
    uint32_t entry = book_begin_free(&w->actor, 1, -1);
    allocate(w, 1, 2 * MIB);
    book_end_free(&w->actor, entry, true);
    assert_int_equal(account(w->ledger, w->actor.process)->live, 2 * MIB);
    assert_int_equal(count_live(w->ledger), 1);
    uint32_t found = book_find(&w->actor, 1, -1);
    assert_int_equal(w->ledger->live[found].size, 2 * MIB);
}

static void test_unknown_handles_are_counted(void **state)
{
    struct world *w = *state;
    release(w, 99);
    assert_int_equal(w->ledger->processes[w->actor.process].unknown_frees, 1);
}

static void test_files_have_handles_of_their_own(void **state)
{
    struct world *w = *state;
    for (int32_t file = 3; file < 6; file++) {
        struct book_buffer b = buffer(w, 1, (uint64_t)file * MIB);
        b.file = file;
        book_allocated(&w->actor, &b);
    }
    book_end_free(&w->actor, book_begin_free(&w->actor, 1, 4), true);
    assert_int_equal(account(w->ledger, w->actor.process)->live, 8 * MIB);
}

static void test_rows_of_refusals(void **state)
{
    struct world *w = *state;
    struct book_buffer b = buffer(w, 0, 5 * MIB);
    struct book_buffer other = buffer(w, 0, 6 * MIB);
    assert_int_equal(book_refused(&w->actor, &b, LEDGER_OP_ALLOC, 12, &w->row), 1);
    assert_int_equal(book_refused(&w->actor, &b, LEDGER_OP_ALLOC, 12, &w->row), 2);
    assert_int_equal(book_refused(&w->actor, &other, LEDGER_OP_ALLOC, 12, &w->row), 3);
    book_satisfied(&w->actor, &b, &w->row); /* not the size of the last row */
    w->actor.now_ns += 2000000000u;
    assert_int_equal(book_refused(&w->actor, &other, LEDGER_OP_ALLOC, 12, &w->row), 4);
    book_satisfied(&w->actor, &other, &w->row);
    const uint64_t retry_of[] = {0, 1, 0, 0};
    for (uint64_t n = 1; n <= 4; n++) {
        const struct ledger_refusal *r = book_refusal(w->ledger, n);
        assert_int_equal(r->number, n);
        assert_int_equal(r->retry_of, retry_of[n - 1]);
        assert_int_equal(r->satisfied_ns != 0, n == 4);
    }
    assert_int_equal(account(w->ledger, w->actor.process)->refusals, 4);
}

static void test_first_and_last_refusals_are_kept(void **state)
{
    struct world *w = *state;
    for (uint64_t i = 1; i <= LEDGER_REFUSALS + 500; i++) {
        struct book_buffer b = buffer(w, 0, i * 4096);
        (void)book_refused(&w->actor, &b, LEDGER_OP_ALLOC, 12, &w->row);
    }
    uint64_t lowest_late = UINT64_MAX;
    for (uint32_t i = 0; i < LEDGER_REFUSALS; i++) {
        const struct ledger_refusal *r = &w->ledger->refusals[i];
        assert_int_equal(r->size, r->number * 4096);
        if (i < LEDGER_REFUSALS / 2)
            assert_int_equal(r->number, i + 1);
        else if (r->number < lowest_late)
            lowest_late = r->number;
    }
    assert_int_equal(lowest_late, LEDGER_REFUSALS / 2 + 500 + 1);
}

static void test_full_live_set_is_counted(void **state)
{
    struct world *w = *state;
    uint64_t n = LEDGER_LIVE + 1000;
    for (uint64_t i = 1; i <= n; i++)
        allocate(w, i, 4096);
    assert_int_equal(count_live(w->ledger) + w->ledger->lost.live, n);
    assert_true(w->ledger->lost.live >= 1000);
    assert_int_equal(w->ledger->lost.live_bytes, w->ledger->lost.live * 4096);
    assert_int_equal(account(w->ledger, w->actor.process)->live, (int64_t)n * 4096);
}

static void test_tombstones_do_not_fill_the_table(void **state)
{
    struct world *w = *state;
    for (uint64_t i = 1; i <= 4 * LEDGER_LIVE; i++) {
        allocate(w, i, 4096);
        if (i > 10)
            release(w, i - 10);
    }
    assert_int_equal(w->ledger->lost.live, 0);
    assert_int_equal(count_live(w->ledger), 10);
    assert_int_equal(w->ledger->processes[w->actor.process].unknown_frees, 0);
}

/* A writer that dies in the middle leaves a half-written slot, which is skipped. */
static void test_slots_of_dead_writers(void **state)
{
    struct world *w = *state;
    for (uint32_t i = 0; i < LEDGER_LIVE; i += 2)
        w->ledger->live[i].state = LEDGER_WRITING;
    for (uint64_t i = 1; i <= 1000; i++)
        allocate(w, i, 4096);
    for (uint64_t i = 1; i <= 1000; i++)
        release(w, i);
    assert_int_equal(w->ledger->lost.live, 0);
    assert_int_equal(count_live(w->ledger), 0);
    assert_int_equal(account(w->ledger, w->actor.process)->live, 0);
}

static pid_t dead_child(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    (void)waitpid(child, NULL, 0);
    return child;
}

static void test_what_the_dead_held(void **state)
{
    struct world *w = *state;
    struct world other = *w;
    other.actor.process = add_process(w->ledger, dead_child(), 2000);
    allocate(w, 1, MIB);
    allocate(&other, 1, 4 * MIB);
    assert_int_equal(w->ledger->gpus[w->gpu].live[LEDGER_VRAM], 5 * MIB);
    ledger_settle(w->ledger, 3000);
    ledger_settle(w->ledger, 4000);
    const struct ledger_process *p = &w->ledger->processes[other.actor.process];
    assert_int_equal(p->life, LEDGER_ENDED);
    assert_int_equal(p->ended_ns, 3000);
    assert_int_equal(w->ledger->gpus[w->gpu].live[LEDGER_VRAM], MIB);
    assert_int_equal(account(w->ledger, other.actor.process)->live, 4 * MIB);
    assert_int_equal(count_live(w->ledger), 2);
    assert_int_equal(w->ledger->processes[w->actor.process].life, LEDGER_ALIVE);
}

static void test_exec_and_one_that_failed(void **state)
{
    struct world *w = *state;
    allocate(w, 1, MIB);
    ledger_end_process(w->ledger, w->actor.process, LEDGER_EXECED, 2000);
    assert_int_equal(w->ledger->gpus[w->gpu].live[LEDGER_VRAM], 0);
    ledger_revive_process(w->ledger, w->actor.process);
    assert_int_equal(w->ledger->gpus[w->gpu].live[LEDGER_VRAM], MIB);
    /* The same pid again: the former process image must have ended. */
    uint32_t next = add_process(w->ledger, getpid(), 3000);
    assert_int_not_equal(next, w->actor.process);
    assert_int_equal(w->ledger->processes[w->actor.process].life, LEDGER_EXECED);
    assert_int_equal(w->ledger->gpus[w->gpu].live[LEDGER_VRAM], 0);
}

/* More processes than slots: the oldest ended ones are removed with all their entries. */
static void test_more_processes_than_slots(void **state)
{
    struct world *w = *state;
    struct world other = *w;
    allocate(w, 1, MIB);
    for (uint32_t i = 0; i < LEDGER_PROCESSES + 20; i++) {
        other.actor.process = add_process(w->ledger, (int32_t)(0x3fff0000 + i), 2000 + i);
        assert_int_not_equal(other.actor.process, LEDGER_NO_PROCESS);
        assert_int_not_equal(other.actor.process, w->actor.process);
        allocate(&other, i, 2 * MIB);
        assert_int_equal(account(w->ledger, other.actor.process)->live, 2 * MIB);
    }
    assert_int_equal(w->ledger->lost.processes, 0);
    assert_int_equal(account(w->ledger, w->actor.process)->live, MIB);
    ledger_settle(w->ledger, 10000);
    assert_int_equal(w->ledger->gpus[w->gpu].live[LEDGER_VRAM], MIB);
}

static void test_gpus_by_both_names(void **state)
{
    struct world *w = *state;
    book_join_gpu(w->ledger, 4711, 128);
    assert_int_equal(book_gpu_by_minor(w->ledger, 128), w->gpu);
    uint8_t alone = book_gpu_by_minor(w->ledger, 129);
    assert_int_not_equal(alone, w->gpu);
    uint8_t kfd = book_gpu_by_kfd(w->ledger, 4712);
    book_join_gpu(w->ledger, 4712, 129);
    assert_int_equal(w->ledger->gpus[kfd].same_as, alone + 1);
    assert_int_equal(w->ledger->gpus[alone].same_as, kfd + 1);
    for (uint32_t i = 0; i < LEDGER_GPUS; i++)
        (void)book_gpu_by_kfd(w->ledger, 10000 + i);
    assert_int_equal(book_gpu_by_kfd(w->ledger, 99999), LEDGER_NO_GPU);
    assert_true(w->ledger->lost.gpus > 0);
    allocate(w, 1, MIB); /* goes on */
    struct book_buffer b = buffer(w, 2, MIB);
    b.gpu = LEDGER_NO_GPU;
    book_allocated(&w->actor, &b);
}

static void test_models_once(void **state)
{
    struct world *w = *state;
    char path[600];
    memset(path, 'a', sizeof path);
    path[sizeof path - 1] = '\0';
    for (int i = 0; i < 3; i++)
        book_model(&w->actor, path, 0, 1, 2);
    assert_int_equal(w->ledger->models_used, 1);
    assert_int_equal(strlen(w->ledger->models[0].path), LEDGER_MODEL_PATH - 1);
    for (int i = 0; i < LEDGER_MODELS + 5; i++) {
        (void)snprintf(path, sizeof path, "/models/%d.gguf", i);
        book_model(&w->actor, path, 0, 1, 2);
    }
    assert_int_equal(w->ledger->models_used, LEDGER_MODELS);
    assert_int_equal(w->ledger->lost.models, 6);
}

/* --- threads --- */

#define THREADS 4
#define TURNS 20000

struct racer {
    pthread_t thread;
    struct world world;
    uint64_t first;
};

static void *race(void *argument)
{
    struct racer *r = argument;
    for (uint64_t i = 0; i < TURNS; i++) {
        allocate(&r->world, r->first + i, 4096 * (1 + i % 5));
        if (i >= 64)
            release(&r->world, r->first + i - 64);
        if (i % 64 == 0) {
            struct book_buffer b = buffer(&r->world, 0, 4096 * (i + 1));
            (void)book_refused(&r->world.actor, &b, LEDGER_OP_ALLOC, 12, &r->world.row);
        }
    }
    return NULL;
}

static void test_threads(void **state)
{
    struct world *w = *state;
    struct racer racers[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        racers[i] = (struct racer){.world = *w, .first = (uint64_t)i << 20 | 1};
        assert_int_equal(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        (void)pthread_join(racers[i].thread, NULL);
    int64_t sum = 0;
    for (uint32_t i = 0; i < LEDGER_LIVE; i++)
        if (LEDGER_STATE(w->ledger->live[i].state) == LEDGER_USED)
            sum += (int64_t)w->ledger->live[i].bytes;
    assert_int_equal(count_live(w->ledger), THREADS * 64);
    int64_t live = 0;
    uint64_t allocations = 0;
    for (uint32_t i = 0; i < LEDGER_ACCOUNTS; i++) { /* two threads at the same moment may have made two rows */
        if (LEDGER_STATE(w->ledger->accounts[i].state) == LEDGER_USED) {
            live += w->ledger->accounts[i].live;
            allocations += w->ledger->accounts[i].allocations;
        }
    }
    assert_int_equal(live, sum);
    assert_int_equal(w->ledger->gpus[w->gpu].live[LEDGER_VRAM], sum);
    assert_int_equal(allocations, THREADS * TURNS);
    assert_int_equal(w->ledger->refusals_head, THREADS * ((TURNS + 63) / 64));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(test_bytes_are_pages),
        TEST(test_free_that_fails_changes_nothing),
        TEST(test_handle_given_again_meanwhile),
        TEST(test_unknown_handles_are_counted),
        TEST(test_files_have_handles_of_their_own),
        TEST(test_rows_of_refusals),
        TEST(test_first_and_last_refusals_are_kept),
        TEST(test_full_live_set_is_counted),
        TEST(test_tombstones_do_not_fill_the_table),
        TEST(test_slots_of_dead_writers),
        TEST(test_what_the_dead_held),
        TEST(test_exec_and_one_that_failed),
        TEST(test_more_processes_than_slots),
        TEST(test_gpus_by_both_names),
        TEST(test_models_once),
        TEST(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
