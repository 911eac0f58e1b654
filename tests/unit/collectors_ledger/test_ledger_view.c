/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger at one moment: reconstructed from entries and events that a test wrote. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

#include "collectors/ledger_json.h"
#include "collectors/ledger_view.h"

#define MIB 1048576u
#define PROCESS 3
#define BASE 0x7f0000000000u

static struct ledger *ledger;
static uint32_t live_used;

static int setup(void **state)
{
    (void)state;
    ledger = calloc(1, sizeof *ledger);
    if (ledger == NULL)
        return -1;
    live_used = 0;
    ledger->processes[PROCESS].state = LEDGER_USED;
    ledger->processes[PROCESS].pid = 77;
    ledger->gpus[0].state = LEDGER_USED;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(ledger);
    return 0;
}

/* Two properties of the layout: an event's number selects its slot, and entries have states.
 */
static void event(enum ledger_event_type type, uint64_t time_ns, uint64_t handle, uint64_t size)
{
    uint64_t number = ++ledger->events_head;
    ledger->events[number % LEDGER_EVENTS] = (struct ledger_event){
        .number = number,
        .time_ns = time_ns,
        .address = BASE + handle * 64 * MIB,
        .size = size,
        .handle = handle,
        .process = PROCESS,
        .type = (uint8_t)type,
    };
}

static void entry(uint64_t time_ns, uint64_t handle, uint64_t size)
{
    ledger->live[live_used++] = (struct ledger_entry){
        .state = LEDGER_USED | 0x100,
        .process = PROCESS,
        .handle = handle,
        .address = BASE + handle * 64 * MIB,
        .size = size,
        .bytes = (size + 4095) / 4096 * 4096,
        .time_ns = time_ns,
    };
}

static struct ledger_refusal *refuse(uint64_t time_ns, uint64_t size, uint64_t retry_of)
{
    uint64_t number = ++ledger->refusals_head;
    struct ledger_refusal *r = &ledger->refusals[ledger_slot_of(number, LEDGER_REFUSALS)];
    *r = (struct ledger_refusal){.number = number,
                                 .time_ns = time_ns,
                                 .size = size,
                                 .retry_of = retry_of,
                                 .process = PROCESS,
                                 .error = 12};
    return r;
}

static int64_t live_at(uint64_t at_ns)
{
    struct ledger_view view;
    assert_int_equal(ledger_view_make(&view, ledger, PROCESS, at_ns), 0);
    int64_t bytes = ledger_view_bytes(&view, LEDGER_VRAM, -1);
    assert_int_equal(bytes, ledger_view_bytes(&view, LEDGER_VRAM, 0));
    assert_int_equal(ledger_view_bytes(&view, LEDGER_VRAM, 1), 0);
    assert_true(view.is_exact);
    ledger_view_release(&view);
    return bytes;
}

/* As HIP does: a refusal at 50, then its exit handlers free everything. */
static void test_refusal_before_the_end(void **state)
{
    (void)state;
    event(LEDGER_EVENT_ALLOC, 10, 1, 5 * MIB);
    event(LEDGER_EVENT_ALLOC, 20, 2, 7 * MIB + 1); /* one more page is charged */
    event(LEDGER_EVENT_ALLOC, 30, 3, 11 * MIB);
    event(LEDGER_EVENT_FREE, 40, 1, 5 * MIB);
    event(LEDGER_EVENT_FREE, 60, 2, 7 * MIB + 1);
    event(LEDGER_EVENT_FREE, 61, 3, 11 * MIB);
    assert_int_equal(live_at(LEDGER_AT_END), 0);
    assert_int_equal(live_at(50), 18 * MIB + 4096);
    assert_int_equal(live_at(35), 23 * MIB + 4096);
    assert_int_equal(live_at(5), 0);
}

/* The same handle again and again, and one that existed before the first event. */
static void test_handles_are_used_again(void **state)
{
    (void)state;
    event(LEDGER_EVENT_ALLOC, 10, 1, 1 * MIB);
    event(LEDGER_EVENT_FREE, 20, 1, 1 * MIB);
    event(LEDGER_EVENT_ALLOC, 30, 1, 2 * MIB);
    event(LEDGER_EVENT_FREE, 90, 9, 32 * MIB);
    entry(30, 1, 2 * MIB);
    entry(3, 5, 16 * MIB);
    assert_int_equal(live_at(15), 49 * MIB);
    assert_int_equal(live_at(25), 48 * MIB);
    assert_int_equal(live_at(50), 50 * MIB);
    assert_int_equal(live_at(LEDGER_AT_END), 18 * MIB);
}

/* Times have the resolution of a timer tick: the numbers give the order. */
static void test_all_in_one_tick(void **state)
{
    (void)state;
    event(LEDGER_EVENT_ALLOC, 40, 1, 1 * MIB);
    event(LEDGER_EVENT_FREE, 40, 1, 1 * MIB);
    event(LEDGER_EVENT_ALLOC, 40, 1, 2 * MIB);
    event(LEDGER_EVENT_ALLOC, 40, 2, 4 * MIB);
    event(LEDGER_EVENT_REFUSED, 40, 0, 64 * MIB);
    event(LEDGER_EVENT_FREE, 40, 1, 2 * MIB);
    event(LEDGER_EVENT_ALLOC, 40, 1, 8 * MIB);
    entry(40, 1, 8 * MIB);
    entry(40, 2, 4 * MIB);
    assert_int_equal(live_at(40), 6 * MIB);
    assert_int_equal(live_at(LEDGER_AT_END), 12 * MIB);
}

static void test_another_process_and_garbage_do_not_count(void **state)
{
    (void)state;
    entry(1, 1, 1 * MIB);
    ledger->live[0].process = PROCESS + 1;
    entry(1, 2, 2 * MIB);
    ledger->live[1].kind = 200;
    entry(1, 3, 4 * MIB);
    ledger->live[2].gpu = 200;
    entry(1, 4, 8 * MIB);
    ledger->live[3].state = LEDGER_WRITING;
    entry(1, 5, 16 * MIB);
    event(LEDGER_EVENT_FREE, 50, 6, 32 * MIB);
    ledger->events[1].number = 77; /* half written */
    assert_int_equal(live_at(20), 16 * MIB);
}

static void test_too_much_happened_since(void **state)
{
    struct ledger_view view;
    (void)state;
    for (uint64_t i = 0; i < LEDGER_EVENTS + 10; i++)
        event(i % 2 == 0 ? LEDGER_EVENT_ALLOC : LEDGER_EVENT_FREE, 100 + i, 1, MIB);
    assert_int_equal(ledger_view_make(&view, ledger, PROCESS, 50), 0);
    assert_false(view.is_exact);
    ledger_view_release(&view);
    assert_int_equal(ledger_view_make(&view, ledger, PROCESS, 100 + LEDGER_EVENTS), 0);
    assert_true(view.is_exact);
    ledger_view_release(&view);
    ledger->lost.live = 1;
    assert_int_equal(ledger_view_make(&view, ledger, PROCESS, LEDGER_AT_END), 0);
    assert_false(view.is_exact);
    ledger_view_release(&view);
}

static void test_the_refusal_that_ended_it(void **state)
{
    struct ledger_failure f;
    (void)state;
    ledger_find_failure(ledger, PROCESS, &f);
    assert_null(f.refusal);
    assert_true(f.at_ns == LEDGER_AT_END);
    refuse(10, 64 * MIB, 0)->satisfied_ns = 12;
    ledger_find_failure(ledger, PROCESS, &f);
    assert_null(f.refusal); /* the second try succeeded */
    refuse(20, 32 * MIB, 0);
    refuse(21, 32 * MIB, 2);
    ledger_find_failure(ledger, PROCESS, &f);
    assert_int_equal(f.refusal->number, 3);
    assert_int_equal(f.tries, 2);
    assert_int_equal(f.at_ns, 21);
    assert_false(f.coped);
    event(LEDGER_EVENT_ALLOC, 30, 1, 8 * MIB - 4096);
    ledger_find_failure(ledger, PROCESS, &f);
    assert_false(f.coped); /* less than a quarter */
    event(LEDGER_EVENT_ALLOC, 31, 2, 8 * MIB);
    ledger_find_failure(ledger, PROCESS, &f);
    assert_true(f.coped);
}

static void test_hip_refuses_by_itself(void **state)
{
    struct ledger_failure f;
    (void)state;
    struct ledger_hip_refusal *h = &ledger->hip_refusals[0];
    *h = (struct ledger_hip_refusal){
        .number = 1, .time_ns = 30, .size = 1u << 30, .error = 2, .process = PROCESS};
    refuse(20, 32 * MIB, 0);
    ledger_find_failure(ledger, PROCESS, &f);
    assert_ptr_equal(f.hip, h);
    assert_null(f.refusal); /* an older one, of something else */
    h->kernel_refusals = 1;
    h->kernel_refusal = 1;
    ledger_find_failure(ledger, PROCESS, &f);
    assert_non_null(f.hip);
    assert_int_equal(f.refusal->number, 1);
    refuse(50, 16 * MIB, 0);
    ledger_find_failure(ledger, PROCESS, &f);
    assert_int_equal(f.refusal->number, 2);
    assert_null(f.hip);
    h->error = 1; /* hipErrorInvalidValue */
    ledger_find_failure(ledger, PROCESS, &f);
    assert_null(f.hip);
}

static struct ledger_growth growth_at(uint64_t at_ns)
{
    struct ledger_view view;
    struct ledger_growth growth;
    assert_int_equal(ledger_view_make(&view, ledger, PROCESS, at_ns), 0);
    ledger_find_growth(&view, &growth);
    ledger_view_release(&view);
    return growth;
}

static struct ledger_growth growth_now(void)
{
    return growth_at(LEDGER_AT_END);
}

static void test_growth_between_frees(void **state)
{
    (void)state;
    ledger->sizes[5] = (struct ledger_size){.state = LEDGER_USED,
                                            .process = PROCESS,
                                            .bytes = 12 * MIB,
                                            .allocations = 60,
                                            .frees = 20};
    for (uint64_t i = 0; i < 40; i++) {
        event(LEDGER_EVENT_ALLOC, 100 * i, 10 + i, 12 * MIB);
        entry(100 * i, 10 + i, 12 * MIB);
        event(LEDGER_EVENT_ALLOC, 100 * i + 10, 1, 6 * MIB);
        event(LEDGER_EVENT_FREE, 100 * i + 20, 1, 6 * MIB);
    }
    struct ledger_growth growth = growth_now();
    assert_int_equal(growth.bytes, 12 * MIB);
    assert_int_equal(growth.live_count, 40);
    assert_int_equal(growth.live_bytes, 480u * MIB);
    assert_int_equal(growth.interleaved_percent, 100);
    assert_int_equal(growth.allocations, 60);
    assert_int_equal(growth.frees, 20);
}

/* Weights: many of one size; buffers are freed only after all of them. */
static void test_a_load_is_no_growth(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 40; i++)
        entry(100 * i, 10 + i, 12 * MIB);
    for (uint64_t i = 0; i < 40; i++)
        event(LEDGER_EVENT_FREE, 5000 + i, 1, 6 * MIB);
    assert_int_equal(growth_now().interleaved_percent, 0);
    ledger->live[0].state = LEDGER_FREED;
    for (unsigned i = 0; i < 21; i++)
        ledger->live[i].state = LEDGER_FREED;
    assert_int_equal(growth_now().bytes, 0); /* 19 are left: too few to be called growth */
}

/* Memory freed at a program's end does not count as freed during the run. */
static void test_frees_before_the_refusal(void **state)
{
    (void)state;
    ledger->sizes[5] = (struct ledger_size){
        .state = LEDGER_USED, .process = PROCESS, .bytes = 12 * MIB, .allocations = 30, .frees = 30};
    for (uint64_t i = 0; i < 30; i++)
        event(LEDGER_EVENT_ALLOC, 100 * (i + 1), 10 + i, 12 * MIB);
    for (uint64_t i = 0; i < 30; i++)
        event(LEDGER_EVENT_FREE, 9000 + i, 10 + i, 12 * MIB);
    struct ledger_growth growth = growth_at(5000);
    assert_int_equal(growth.live_count, 30);
    assert_int_equal(growth.allocations, 30);
    assert_int_equal(growth.frees, 0);
}

static struct ledger_rising rising_of(const uint64_t *mib, size_t count)
{
    struct ledger_view view;
    struct ledger_rising rising;
    for (size_t i = 0; i < count; i++) {
        event(LEDGER_EVENT_ALLOC, 100 * (i + 1), 10 + i, mib[i] * MIB);
        entry(100 * (i + 1), 10 + i, mib[i] * MIB);
    }
    assert_int_equal(ledger_view_make(&view, ledger, PROCESS, LEDGER_AT_END), 0);
    ledger_find_rising(&view, LEDGER_VRAM, &rising);
    ledger_view_release(&view);
    return rising;
}

static void test_rising_sizes(void **state)
{
    (void)state;
    static const uint64_t mib[] = {40, 40, 32, 12, 12, 1, 22, 22, 32, 1, 54};
    struct ledger_rising rising = rising_of(mib, sizeof mib / sizeof mib[0]);
    assert_int_equal(rising.count, 6); /* from the first of 12; what is below 2 MiB is the runtime's */
    assert_int_equal(rising.sizes, 4);
    assert_int_equal(rising.bytes, (12 + 12 + 22 + 22 + 32 + 54) * (uint64_t)MIB);
    assert_int_equal(rising.smallest, 12 * (uint64_t)MIB);
    assert_int_equal(rising.largest, 54 * (uint64_t)MIB);
}

static void test_falling_sizes(void **state)
{
    (void)state;
    static const uint64_t mib[] = {64, 48, 32, 16};
    assert_int_equal(rising_of(mib, sizeof mib / sizeof mib[0]).count, 1);
}

static struct ledger_fault place(uint64_t address)
{
    struct ledger_view view;
    struct ledger_fault fault;
    assert_int_equal(ledger_view_make(&view, ledger, PROCESS, LEDGER_AT_END), 0);
    ledger_place_fault(&view, address, &fault);
    fault.range = NULL; /* of the view, which has been released */
    ledger_view_release(&view);
    return fault;
}

static void test_where_an_address_lies(void **state)
{
    (void)state;
    entry(1, 1, 8 * MIB);                     /* BASE + 64 MiB */
    event(LEDGER_EVENT_FREE, 50, 2, 4 * MIB); /* BASE + 128 MiB */
    uint64_t live = BASE + 64 * MIB;
    uint64_t freed = BASE + 128 * MIB;
    assert_int_equal(place(0x1000).place, PLACE_NULL);
    assert_int_equal(place(live - 1).place, PLACE_ELSEWHERE);
    assert_int_equal(place(live).place, PLACE_LIVE);
    assert_int_equal(place(live + 8 * MIB - 1).place, PLACE_LIVE);
    assert_int_equal(place(live + 8 * MIB - 1).offset, 8 * MIB - 1);
    assert_int_equal(place(live + 8 * MIB).place, PLACE_PAST_END);
    assert_int_equal(place(live + 9 * MIB).offset, 1 * MIB);
    assert_int_equal(place(live + 17 * MIB).place, PLACE_ELSEWHERE);
    assert_int_equal(place(freed + 100).place, PLACE_FREED);
    assert_int_equal(place(freed + 100).offset, 100);
    /* allocated again: it is live, whatever used the address before */
    entry(60, 2, 4 * MIB);
    assert_int_equal(place(freed + 100).place, PLACE_LIVE);
}

static void test_the_process(void **state)
{
    (void)state;
    assert_int_equal(ledger_find_process(ledger, 77), PROCESS);
    assert_int_equal(ledger_find_process(ledger, 78), LEDGER_NO_PROCESS);
    refuse(5, MIB, 0);
    assert_int_equal(ledger_find_process(ledger, 78), PROCESS);
    ledger->processes[9] = (struct ledger_process){.state = LEDGER_USED, .pid = 77, .seen_ns = 5};
    assert_int_equal(ledger_find_process(ledger, 77), 9); /* the image after an exec */
    ledger->refusals[0].process = 60000;
    assert_int_equal(ledger_find_process(ledger, 78), LEDGER_NO_PROCESS);
}

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

/* The target can write this memory: it may hold any bytes. */
static void test_any_bytes(void **state)
{
    uint64_t seed = 20261121;
    (void)state;
    static const int gpu_index[LEDGER_GPUS];
    for (int round = 0; round < 3; round++) {
        unsigned char *bytes = (unsigned char *)ledger;
        for (size_t i = 0; i < sizeof *ledger; i++)
            bytes[i] = (unsigned char)(next_random(&seed) % (round == 0 ? 256 : 4));
        uint32_t slot = ledger_find_process(ledger, 5);
        struct ledger_failure f;
        struct ledger_view view;
        struct ledger_growth growth;
        struct ledger_fault fault;
        ledger_find_failure(ledger, slot, &f);
        assert_int_equal(ledger_view_make(&view, ledger, slot, f.at_ns), 0);
        ledger_find_growth(&view, &growth);
        ledger_place_fault(&view, next_random(&seed), &fault);
        cJSON *json = ledger_to_json(ledger, &view, gpu_index);
        char *text = cJSON_PrintUnformatted(json);
        assert_non_null(text);
        cJSON *again = cJSON_Parse(text);
        assert_non_null(again);
        cJSON_Delete(again);
        free(text);
        cJSON_Delete(json);
        ledger_view_release(&view);
    }
}

/* The program can write to all of it. */
static void test_damage_is_seen(void **state)
{
    (void)state;
    struct ledger *l = calloc(1, sizeof *l);
    assert_non_null(l);
    l->refusals_head = LEDGER_REFUSALS + 1;
    l->hip_refusals_head = 1;
    l->refusals[0].number = 1;
    l->refusals[LEDGER_REFUSALS / 2].number = LEDGER_REFUSALS + 1;
    l->hip_refusals[0].number = 1;
    l->processes[0] = (struct ledger_process){.state = LEDGER_USED, .refusals = LEDGER_REFUSALS + 1, .hip_refusals = 1};
    l->accounts[0] = (struct ledger_account){.state = LEDGER_USED, .live = INT64_C(200) << 30, .peak = INT64_C(200) << 30};
    assert_null(ledger_damage(l));
    l->refusals[5].number = 7; /* a place that is not its own */
    assert_non_null(ledger_damage(l));
    l->refusals[5].number = 0;
    l->hip_refusals[100].number = UINT64_C(0x8d1f);
    assert_non_null(ledger_damage(l));
    l->hip_refusals[100].number = 0;
    l->processes[0].refusals = UINT64_C(4406242661833682304);
    assert_non_null(ledger_damage(l));
    l->processes[0].refusals = 1;
    l->accounts[0].peak = INT64_MAX;
    assert_non_null(ledger_damage(l));
    l->accounts[0].peak = INT64_C(200) << 30;
    assert_null(ledger_damage(l));
    l->hip_refusals_head = UINT64_MAX;
    assert_non_null(ledger_damage(l));
    free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_refusal_before_the_end, setup, teardown),
        cmocka_unit_test_setup_teardown(test_handles_are_used_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_all_in_one_tick, setup, teardown),
        cmocka_unit_test_setup_teardown(test_another_process_and_garbage_do_not_count, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_too_much_happened_since, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_refusal_that_ended_it, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hip_refuses_by_itself, setup, teardown),
        cmocka_unit_test_setup_teardown(test_growth_between_frees, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_load_is_no_growth, setup, teardown),
        cmocka_unit_test_setup_teardown(test_frees_before_the_refusal, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rising_sizes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_falling_sizes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_where_an_address_lies, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_process, setup, teardown),
        cmocka_unit_test_setup_teardown(test_any_bytes, setup, teardown),
        cmocka_unit_test(test_damage_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
