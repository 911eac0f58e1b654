/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs with a planted cause, their bundles in any order: the story names the rank that fell first, or says that nothing
 * shows it. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "base/buf.h"
#include "diagnose/fact.h"
#include "fleet/fleet.h"

#define SHUFFLES 100
#define RANKS 8
#define S 1000000 /* microseconds */
#define LOST "msg.remote_process_exited"

/* The contents of a rank's bundle; 0 = not said. */
struct plant {
    int rank;
    const char *class_name;
    int64_t fell_us;      /* since the job's start, by an exact clock */
    int64_t start_us;
    const char *says;     /* a fact that counts lines of a message */
    int signal;
    bool alive, is_file, alone, asked; /* true: the record of a rank that was asked to end */
    const char *after_oom; /* who wrote the exception that came after the last failed allocation, and that its peer was gone */
    const char *job;
    const char *gpu_bytes;
    int64_t collective; /* number of the last collective */
    int64_t pid;
};

/* Two machines: ranks 0 to 3 and 4 to 7. */
struct world {
    int64_t clock_off_us[2]; /* of their wall clocks */
    int64_t clock_error_us;  /* what their kernels say; 0 = nothing */
    int64_t uptime_us[2];    /* when the job began */
};

static const struct world agreeing = {{0, 0}, 0, {5000 * (int64_t)S, 90000 * (int64_t)S}};

static unsigned next_random(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void set(struct facts *facts, const char *name, int64_t value)
{
    assert_int_equal(facts_set_integer(facts, name, FACT_STATIC, value, "a test"), 0);
}

static void set_times(struct facts *facts, const struct plant *plant, const struct world *world)
{
    int node = plant->rank >= 4;
    int64_t uptime = world->uptime_us[node];
    int64_t wall_at_start = (int64_t)1800000000 * S + world->clock_off_us[node];
    set(facts, "run.start_uptime_ms", (uptime + plant->start_us) / 1000);
    set(facts, "run.wall_offset_us", wall_at_start - uptime);
    set(facts, "run.end_uptime_us", uptime + plant->fell_us + 2000);
    set(facts, "target.failed_uptime_us", uptime + plant->fell_us);
    if (world->clock_error_us > 0)
        set(facts, "host.clock_error_us", world->clock_error_us);
}

static void add(struct fleet *fleet, const struct plant *plant, const struct world *world)
{
    char path[64];
    struct facts *facts = facts_new();
    cJSON *verdict = cJSON_CreateObject();
    assert_non_null(facts);
    (void)snprintf(path, sizeof path, "bundle-%d-%s", plant->rank, plant->alive ? "alive" : "end");
    (void)cJSON_AddStringToObject(verdict, "class", plant->class_name);
    (void)cJSON_AddStringToObject(verdict, "sentence", "a sentence");
    if (plant->rank >= 0) {
        set(facts, "job.rank", plant->rank);
        set(facts, "job.world_size", RANKS);
        set(facts, "job.local_world_size", plant->alone ? 1 : 4);
        (void)facts_set_text(facts, "run.boot", FACT_STATIC, plant->rank >= 4 ? "bbbb" : "aaaa", "a test");
    }
    set_times(facts, plant, world);
    if (plant->says != NULL)
        set(facts, plant->says, 1);
    if (plant->signal != 0)
        set(facts, "target.signal", plant->signal);
    if (plant->alive)
        (void)facts_set_boolean(facts, "run.snapshot", FACT_STATIC, true, "a test");
    if (plant->asked)
        (void)facts_set_boolean(facts, "run.asked_to_end", FACT_STATIC, true, "a test");
    if (plant->is_file)
        (void)facts_set_boolean(facts, "run.output_is_file", FACT_STATIC, true, "a test");
    if (plant->after_oom != NULL) {
        (void)facts_set_text(facts, "msg.exception_after_oom", FACT_LOG, "RuntimeError", plant->after_oom);
        (void)facts_set_integer(facts, LOST, FACT_LOG, 1, plant->after_oom);
    }
    if (plant->job != NULL)
        (void)facts_set_text(facts, "job.id", FACT_STATIC, plant->job, "a test");
    if (plant->pid != 0)
        set(facts, "target.failed_pid", plant->pid);
    if (plant->collective != 0)
        set(facts, "msg.collective_number", plant->collective);
    if (plant->gpu_bytes != NULL)
        set(facts, "gpu.0.vram.total_bytes", strtoll(plant->gpu_bytes, NULL, 10));
    assert_int_equal(fleet_add(fleet, path, facts, verdict), 0);
    facts_free(facts);
    cJSON_Delete(verdict);
}

/* Adds them in an order that the seed gives, and merges them. */
static void merge(struct fleet *fleet, const struct plant *plants, size_t count, const struct world *world,
                  unsigned seed)
{
    size_t order[64];
    memset(fleet, 0, sizeof *fleet);
    for (size_t i = 0; i < count; i++)
        order[i] = i;
    for (size_t i = count; i > 1; i--) {
        size_t k = next_random(&seed) % i;
        size_t kept = order[i - 1];
        order[i - 1] = order[k];
        order[k] = kept;
    }
    for (size_t i = 0; i < count; i++)
        add(fleet, &plants[order[i]], world);
    assert_int_equal(fleet_merge(fleet), 0);
}

struct story {
    int first; /* -1 = not told; without causes: the one that left nothing */
    enum fleet_sure sure;
    size_t causes, missing;
};

static void expect(const struct plant *plants, size_t count, const struct world *world, struct story story)
{
    for (unsigned seed = 1; seed <= SHUFFLES; seed++) {
        struct fleet fleet;
        merge(&fleet, plants, count, world, seed);
        assert_int_equal(fleet.job_count, 1);
        const struct fleet_job *job = &fleet.jobs[0];
        assert_int_equal(job->count, count);
        assert_int_equal(job->sure, story.sure);
        assert_int_equal(job->cause_count, story.causes);
        assert_int_equal(job->missing_count, story.missing);
        assert_int_equal(job->missing_cause, story.causes == 0 && story.first >= 0 ? story.first : FLEET_UNKNOWN);
        if (story.causes > 0 && story.first >= 0)
            assert_int_equal(fleet.records[job->causes[0]].rank, story.first);
        fleet_release(&fleet);
    }
}

#define WAITED "msg.collective_timeout"

/* All ranks except one (-1: all) lose their peer, about ten milliseconds after it fell. */
static size_t others_lose(struct plant *plants, size_t count, int but, int64_t from_us)
{
    for (int rank = 0; rank < RANKS; rank++)
        if (rank != but)
            plants[count++] = (struct plant){.rank = rank, .class_name = "collective", .says = LOST,
                                             .fell_us = from_us + 10000 + rank * 3000};
    return count;
}

static void test_one_out_of_memory(void **state)
{
    (void)state;
    for (int rank = 0; rank < RANKS; rank++) {
        struct plant plants[RANKS] = {{.rank = rank, .class_name = "capacity", .fell_us = 60 * S}};
        size_t count = others_lose(plants, 1, rank, 60 * S);
        expect(plants, count, &agreeing, (struct story){rank, FLEET_SURE, 1, 0});
    }
}

static void test_oom_killer(void **state)
{
    (void)state;
    struct plant plants[RANKS] = {{.rank = 6, .class_name = "host-oom", .signal = 9, .fell_us = 30 * S}};
    expect(plants, others_lose(plants, 1, 6, 30 * S), &agreeing, (struct story){6, FLEET_SURE, 1, 0});
}

/* The ranks that lost it fell first by their clock. */
static void test_clocks_off(void **state)
{
    (void)state;
    for (int sign = -1; sign <= 1; sign += 2) {
        struct world world = agreeing;
        world.clock_off_us[1] = (int64_t)sign * 3 * S;
        struct plant plants[RANKS] = {{.rank = 5, .class_name = "page-fault", .signal = 6, .fell_us = 60 * S}};
        expect(plants, others_lose(plants, 1, 5, 60 * S), &world, (struct story){5, FLEET_SURE, 1, 0});
    }
}

static void test_machine_faults(void **state)
{
    (void)state;
    struct plant plants[RANKS];
    for (int rank = 0; rank < RANKS; rank++)
        plants[rank] = rank >= 4 ? (struct plant){.rank = rank, .class_name = "page-fault", .signal = 6,
                                                  .fell_us = 60 * S + (rank == 6 ? 0 : rank * 1000)}
                                 : (struct plant){.rank = rank, .class_name = "collective", .says = WAITED,
                                                  .fell_us = 90 * S};
    struct world world = agreeing;
    world.clock_off_us[1] = 3 * (int64_t)S;
    expect(plants, RANKS, &world, (struct story){6, FLEET_SURE, 4, 0});
}

static void test_hang(void **state)
{
    (void)state;
    struct plant plants[RANKS + 1];
    size_t count = 0;
    for (int rank = 0; rank < RANKS; rank++)
        if (rank != 2)
            plants[count++] = (struct plant){.rank = rank, .class_name = "collective", .says = WAITED,
                                             .fell_us = 600 * S + rank * 1000};
    /* It leaves no bundle: it is the one missing rank. Not if another one is missing, too, or was asked to end. */
    expect(plants, count, &agreeing, (struct story){2, FLEET_SURE_LOW, 0, 1});
    expect(plants, count - 1, &agreeing, (struct story){-1, FLEET_SURE_NOT, 0, 2});
    plants[4].asked = true;
    expect(plants, count, &agreeing, (struct story){-1, FLEET_SURE_NOT, 0, 1});
    plants[4].asked = false;
    /* A bundle was made of it by `recover`: how and when it ended is not known. */
    plants[count] = (struct plant){.rank = 2, .class_name = "unknown"};
    expect(plants, count + 1, &agreeing, (struct story){2, FLEET_SURE_LOW, 1, 0});
    /* Its snapshot was made while it was outside of the collective. */
    plants[count++] = (struct plant){.rank = 2, .class_name = "unknown", .alive = true, .fell_us = 300 * S};
    expect(plants, count, &agreeing, (struct story){2, FLEET_SURE, 1, 0});
    /* So was that of another rank, in the collective: that rank waited, too. */
    plants[count++] = (struct plant){.rank = 3, .class_name = "collective", .alive = true, .fell_us = 300 * S};
    expect(plants, count, &agreeing, (struct story){2, FLEET_SURE, 1, 0});
}

/* The launcher ended the rank that hung after the others had given up. */
static void test_hang_that_was_ended(void **state)
{
    (void)state;
    struct plant plants[RANKS];
    for (int rank = 0; rank < RANKS; rank++)
        plants[rank] = (struct plant){.rank = rank, .class_name = "collective", .says = rank == 4 ? LOST : WAITED,
                                      .fell_us = 600 * S + rank * 1000};
    plants[2] = (struct plant){.rank = 2, .class_name = "unknown", .signal = 15, .fell_us = 605 * S, .asked = true};
    expect(plants, RANKS, &agreeing, (struct story){2, FLEET_SURE_LOW, 1, 0});
    /* Two were ended: one of them may have waited. Or one left nothing. Or nobody waited. */
    plants[7] = (struct plant){.rank = 7, .class_name = "unknown", .signal = 15, .fell_us = 605 * S, .asked = true};
    expect(plants, RANKS, &agreeing, (struct story){-1, FLEET_SURE_NOT, 0, 0});
    expect(plants, RANKS - 1, &agreeing, (struct story){-1, FLEET_SURE_NOT, 0, 1});
    plants[7] = plants[4];
    plants[7].rank = 7;
    for (int rank = 0; rank < RANKS; rank++)
        if (rank != 2)
            plants[rank].says = LOST;
    expect(plants, RANKS, &agreeing, (struct story){-1, FLEET_SURE_NOT, 0, 0});
}

/* Recorded on two real GPUs: the rank that hung repeated the time-out of the other one. Its counter shows that. */
static void test_behind(void **state)
{
    (void)state;
    struct plant plants[RANKS];
    for (int rank = 0; rank < RANKS; rank++)
        plants[rank] = (struct plant){.rank = rank, .class_name = "collective", .says = WAITED, .fell_us = 600 * S,
                                      .collective = rank == 4 ? 20 : 21};
    expect(plants, RANKS, &agreeing, (struct story){4, FLEET_SURE, 1, 0});
    plants[5].collective = 20;
    expect(plants, RANKS, &agreeing, (struct story){-1, FLEET_SURE_NOT, 2, 0});
    plants[4].collective = plants[5].collective = 0; /* nobody reported it */
    expect(plants, RANKS, &agreeing, (struct story){-1, FLEET_SURE_NOT, 0, 0});
}

/* All ranks wait, none is elsewhere and none is missing: the culprit is unknown. */
static void test_all_wait(void **state)
{
    (void)state;
    struct plant plants[RANKS];
    for (int rank = 0; rank < RANKS; rank++)
        plants[rank] = (struct plant){.rank = rank, .class_name = "collective", .says = WAITED, .fell_us = 600 * S};
    expect(plants, RANKS, &agreeing, (struct story){-1, FLEET_SURE_NOT, 0, 0});
}

static void test_killed(void **state)
{
    (void)state;
    struct plant plants[RANKS] = {{.rank = 0, .class_name = "unknown", .signal = 9, .fell_us = 60 * S}};
    size_t count = others_lose(plants, 1, 0, 60 * S);
    expect(plants, count, &agreeing, (struct story){0, FLEET_SURE, 1, 0});
    /* The launcher's SIGKILL half a minute after another rank fell. */
    plants[0].fell_us = 90 * S;
    plants[1].class_name = "app-bug";
    plants[1].says = NULL;
    plants[1].fell_us = 60 * S;
    expect(plants, count, &agreeing, (struct story){1, FLEET_SURE, 1, 0});
    /* The rank that failed by itself failed after it. */
    plants[0].fell_us = 50 * S;
    expect(plants, count, &agreeing, (struct story){0, FLEET_SURE, 2, 0});
}

static void test_asked_to_end(void **state)
{
    (void)state;
    struct plant plants[RANKS] = {{.rank = 3, .class_name = "capacity", .fell_us = 60 * S}};
    size_t count = 1;
    for (int rank = 0; rank < 3; rank++)
        plants[count++] = (struct plant){.rank = rank, .class_name = "unknown", .signal = 15, .fell_us = 1 * S};
    expect(plants, count, &agreeing, (struct story){3, FLEET_SURE_LOW, 1, 4});
}

/* A rank that failed with a plain exception leaves no bundle: no rank may be said not to have failed. */
static void test_all_asked(void **state)
{
    struct plant plants[RANKS];
    (void)state;
    for (size_t count = RANKS - 1; count <= RANKS; count++) {
        struct fleet fleet;
        for (size_t i = 0; i < count; i++)
            plants[i] = (struct plant){.rank = (int)i, .class_name = "unknown", .signal = 15, .fell_us = 1 * S, .asked = true};
        merge(&fleet, plants, count, &agreeing, 1);
        assert_int_equal(fleet.jobs[0].sure, FLEET_SURE_NOT);
        assert_string_equal(fleet.jobs[0].why, count < RANKS ? "every rank that left something was asked to end"
                                                             : "every rank was asked to end");
        fleet_release(&fleet);
    }
}

/* Two failures that have nothing to do with each other. */
static void test_two_causes(void **state)
{
    (void)state;
    struct plant plants[RANKS] = {{.rank = 1, .class_name = "capacity", .fell_us = 60 * S},
                                  {.rank = 3, .class_name = "page-fault", .signal = 6, .fell_us = 60 * S + 50000}};
    expect(plants, 2, &agreeing, (struct story){1, FLEET_SURE_LOW, 2, 6});
    /* On two machines: with unknown clocks, then with clocks that agree or do not. */
    plants[1].rank = 5;
    expect(plants, 2, &agreeing, (struct story){-1, FLEET_SURE_NOT, 2, 6});
    plants[1].fell_us = 75 * S; /* clocks are seldom so far apart */
    expect(plants, 2, &agreeing, (struct story){1, FLEET_SURE_LOW, 2, 6});
    plants[1].fell_us = 60 * S + 50000;
    struct world world = agreeing;
    world.clock_error_us = 1000;
    expect(plants, 2, &world, (struct story){1, FLEET_SURE_LOW, 2, 6});
    world.clock_error_us = 40000;
    expect(plants, 2, &world, (struct story){1, FLEET_SURE_NOT, 2, 6});
}

/* Wall clocks that nobody compared give the wrong order. The end of the first rank, which both machines saw, gives the
 * right one. */
static void test_two_causes_and_clocks_off(void **state)
{
    (void)state;
    for (int64_t off_s = -13; off_s <= 13; off_s += 1) {
        struct world world = agreeing;
        world.clock_off_us[1] = off_s * S;
        struct plant plants[RANKS] = {{.rank = 5, .class_name = "page-fault", .signal = 6, .fell_us = 60 * S},
                                      {.rank = 2, .class_name = "capacity", .fell_us = 68 * S}};
        size_t count = 2;
        for (int rank = 0; rank < RANKS; rank++)
            if (rank != 5 && rank != 2)
                plants[count++] = (struct plant){.rank = rank, .class_name = "collective", .says = LOST,
                                                 .fell_us = 60 * S + rank * 100000};
        expect(plants, count, &world, (struct story){5, FLEET_SURE, 2, 0});
        plants[1].fell_us = 60 * S + 50000; /* less than the limit */
        expect(plants, count, &world, (struct story){-1, FLEET_SURE_NOT, 2, 0});
    }
}

/* A rank had lost its peer earlier, and that peer left no bundle. */
static void test_earlier_loss(void **state)
{
    (void)state;
    struct plant plants[] = {{.rank = 1, .class_name = "app-bug", .signal = 11, .fell_us = 60 * S},
                             {.rank = 2, .class_name = "collective", .says = LOST, .fell_us = 50 * S}};
    expect(plants, 2, &agreeing, (struct story){1, FLEET_SURE_LOW, 1, 6});
    plants[1].fell_us = 60 * S - 500000; /* an orderly end may take a while */
    expect(plants, 2, &agreeing, (struct story){1, FLEET_SURE_LOW, 1, 6});
}

static void test_one_file_of_words(void **state)
{
    (void)state;
    struct plant plants[] = {
        {.rank = 2, .class_name = "page-fault", .signal = 6, .fell_us = 60 * S, .is_file = true},
        {.rank = 0, .class_name = "page-fault", .fell_us = 61 * S, .is_file = true},
        {.rank = 1, .class_name = "page-fault", .fell_us = 62 * S, .is_file = true}};
    expect(plants, 3, &agreeing, (struct story){2, FLEET_SURE_LOW, 1, 5});
    plants[1].signal = 11; /* the kernel reported that to no other rank */
    expect(plants, 3, &agreeing, (struct story){2, FLEET_SURE_LOW, 2, 5});
    plants[1].signal = 0;
    plants[1].alone = true; /* on its machine */
    expect(plants, 3, &agreeing, (struct story){2, FLEET_SURE_LOW, 2, 5});
}

/* The failed allocation of another rank stands in the file before this rank's own last words. */
static void test_peer_lost_after_an_allocation(void **state)
{
    (void)state;
    struct plant plants[] = {
        {.rank = 2, .class_name = "capacity", .fell_us = 60 * S, .is_file = true},
        {.rank = 0, .class_name = "app-bug", .signal = 15, .fell_us = 61 * S, .is_file = true, .after_oom = "stderr line 93"}};
    expect(plants, 2, &agreeing, (struct story){2, FLEET_SURE_LOW, 1, 6});
    plants[1].after_oom = "stderr line 93, " FACT_MARK_PERHAPS_OTHERS;
    expect(plants, 2, &agreeing, (struct story){2, FLEET_SURE_LOW, 2, 6});
}

static void test_nothing_is_known(void **state)
{
    (void)state;
    struct fleet fleet = {.count = 0};
    struct facts *facts = facts_new();
    assert_int_equal(fleet_merge(&fleet), 0);
    assert_int_equal(fleet.job_count, 0);
    fleet_release(&fleet);
    assert_int_equal(fleet_add(&fleet, "a", facts, NULL), 0);
    assert_int_equal(fleet_add(&fleet, "b", facts, NULL), 0);
    assert_int_equal(fleet_merge(&fleet), 0);
    assert_int_equal(fleet.job_count, 2); /* single runs */
    assert_int_equal(fleet.jobs[0].sure, FLEET_SURE_LOW);
    fleet_release(&fleet);
    facts_free(facts);
}

/* A bundle that somebody edited, or a wrong variable of the environment. */
static void test_numbers_that_cannot_be(void **state)
{
    static const struct {
        int64_t rank, world_size;
        bool possible;
    } cases[] = {
        {-5, -1, false},
        {INT64_C(4611686018427387904), 2000000000, false},
        {FLEET_RANKS_MAX, 0, false},
        {INT64_MAX, FLEET_RANKS_MAX + 1, false},
        {FLEET_RANKS_MAX - 1, FLEET_RANKS_MAX, true},
        {0, 1, true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fleet fleet = {.count = 0};
        struct facts *facts = facts_new();
        struct buf out = BUF_INIT;
        set(facts, "job.rank", cases[i].rank);
        set(facts, "job.local_rank", cases[i].rank);
        set(facts, "job.node_rank", cases[i].rank);
        set(facts, "job.world_size", cases[i].world_size);
        set(facts, "worker.1.rank", cases[i].rank);
        set(facts, "worker.1.failed_uptime_us", 60 * S);
        assert_int_equal(fleet_add(&fleet, "a", facts, NULL), 0);
        facts_free(facts);
        assert_int_equal(fleet.count, 2);
        for (size_t k = 0; k < fleet.count; k++) {
            assert_int_equal(fleet.records[k].rank, cases[i].possible ? cases[i].rank : FLEET_UNKNOWN);
            assert_int_equal(fleet.records[k].node_rank, cases[i].possible ? cases[i].rank : FLEET_UNKNOWN);
            assert_int_equal(fleet.records[k].world_size, cases[i].possible ? cases[i].world_size : FLEET_UNKNOWN);
        }
        assert_int_equal(fleet.records[0].local_rank, fleet.records[0].rank);
        assert_int_equal(fleet_merge(&fleet), 0);
        fleet_to_text(&fleet, 4, &out);
        char rank[40];
        char ranks[40];
        (void)snprintf(rank, sizeof rank, "rank %" PRId64 " on node", cases[i].rank);
        (void)snprintf(ranks, sizeof ranks, ", %" PRId64 " ranks: ", cases[i].world_size);
        assert_int_equal(strstr(buf_str(&out), rank) != NULL, cases[i].possible);
        assert_int_equal(strstr(buf_str(&out), ranks) != NULL, cases[i].possible);
        buf_release(&out);
        fleet_release(&fleet);
    }
}

static void test_jobs_are_told_apart(void **state)
{
    (void)state;
    const struct plant plants[] = {
        {.rank = 0, .class_name = "capacity", .fell_us = 60 * S},
        {.rank = 1, .class_name = "capacity", .fell_us = 60 * S, .start_us = 100 * S},
        {.rank = 1, .class_name = "capacity", .fell_us = 2000 * S, .start_us = 1000 * S}, /* later */
        {.rank = 0, .class_name = "capacity", .fell_us = 60 * S, .job = "17"},
        {.rank = 1, .class_name = "capacity", .fell_us = 60 * S, .job = "17", .start_us = 1000 * S}, /* waited */
        {.rank = 1, .class_name = "capacity", .fell_us = 60 * S, .job = "18"},
        {.rank = -1, .class_name = "capacity", .fell_us = 60 * S},
    };
    for (unsigned seed = 1; seed <= SHUFFLES; seed++) {
        struct fleet fleet;
        size_t ones = 0, twos = 0;
        merge(&fleet, plants, sizeof plants / sizeof plants[0], &agreeing, seed);
        for (size_t i = 0; i < fleet.job_count; i++) {
            ones += fleet.jobs[i].count == 1;
            twos += fleet.jobs[i].count == 2;
        }
        assert_int_equal(fleet.job_count, 5);
        assert_int_equal(ones, 3);
        assert_int_equal(twos, 2);
        fleet_release(&fleet);
    }
}

/* One run may leave two bundles, and somebody may copy one. A rank that was started again counts again. */
static void test_copies(void **state)
{
    (void)state;
    const struct plant plants[] = {
        {.rank = 0, .class_name = "capacity", .fell_us = 60 * S, .pid = 100},
        {.rank = 1, .class_name = "collective", .says = LOST, .fell_us = 61 * S, .pid = 101},
        {.rank = 1, .class_name = "collective", .says = LOST, .fell_us = 61 * S, .pid = 101},
        {.rank = 1, .class_name = "collective", .says = LOST, .fell_us = 61 * S, .pid = 102},
        {.rank = 1, .class_name = "collective", .says = LOST, .fell_us = 62 * S, .pid = 101},
        {.rank = 5, .class_name = "collective", .says = LOST, .fell_us = 61 * S, .pid = 101},
    };
    for (unsigned seed = 1; seed <= SHUFFLES; seed++) {
        struct fleet fleet;
        merge(&fleet, plants, 3, &agreeing, seed);
        assert_int_equal(fleet.count, 2);
        assert_int_equal(fleet.job_count, 1);
        fleet_release(&fleet);
        merge(&fleet, plants, sizeof plants / sizeof plants[0], &agreeing, seed);
        assert_int_equal(fleet.count, 5);
        fleet_release(&fleet);
    }
}

static void test_outlier(void **state)
{
    (void)state;
    struct fleet fleet;
    struct plant plants[RANKS];
    for (int rank = 0; rank < RANKS; rank++)
        plants[rank] = (struct plant){.rank = rank, .class_name = "collective", .says = LOST, .fell_us = 60 * S,
                                      .gpu_bytes = rank == 5 ? "34342961152" : "68702699520"};
    merge(&fleet, plants, RANKS, &agreeing, 1);
    assert_int_equal(fleet.outlier_count, 1);
    assert_int_equal(fleet.records[fleet.outliers[0].record].rank, 5);
    assert_string_equal(fleet.outliers[0].usual, "68702699520");
    assert_int_equal(fleet.outliers[0].usual_count, 7);
    fleet_release(&fleet);
    for (int rank = 0; rank < 4; rank++) /* half and half: neither is an outlier */
        plants[rank].gpu_bytes = "34342961152";
    merge(&fleet, plants, RANKS, &agreeing, 1);
    assert_int_equal(fleet.outlier_count, 0);
    fleet_release(&fleet);
}

static void test_output(void **state)
{
    (void)state;
    struct fleet fleet;
    struct buf out = BUF_INIT;
    struct plant plants[RANKS] = {{.rank = 3, .class_name = "capa\033[2Jcity", .fell_us = 60 * S}};
    merge(&fleet, plants, others_lose(plants, 1, 3, 60 * S) - 2, &agreeing, 1);
    fleet_to_text(&fleet, 4, &out);
    assert_non_null(strstr(buf_str(&out), "first    rank 3 "));
    assert_non_null(strstr(buf_str(&out), "2 of 8 ranks are in no bundle: 6-7"));
    assert_non_null(strstr(buf_str(&out), "failed by an error of the program itself"));
    assert_non_null(strstr(buf_str(&out), "and 2 more (--rows)"));
    assert_null(strchr(buf_str(&out), '\033'));
    assert_non_null(strstr(buf_str(&out), "same failures\n       5  "));
    assert_null(strstr(buf_str(&out), "\n       1  ")); /* that is the same as no other */
    buf_release(&out);
    cJSON *json = fleet_to_json(&fleet);
    const cJSON *job = cJSON_GetArrayItem(cJSON_GetObjectItem(json, "jobs"), 0);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(job, "sure")), "low");
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(job, "missing")), 2);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(json, "groups")), 2);
    cJSON_Delete(json);
    fleet_release(&fleet);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_out_of_memory), cmocka_unit_test(test_oom_killer),
        cmocka_unit_test(test_clocks_off),        cmocka_unit_test(test_machine_faults),
        cmocka_unit_test(test_hang),
        cmocka_unit_test(test_hang_that_was_ended),              cmocka_unit_test(test_all_wait), cmocka_unit_test(test_behind),
        cmocka_unit_test(test_killed),            cmocka_unit_test(test_asked_to_end),
        cmocka_unit_test(test_two_causes),        cmocka_unit_test(test_earlier_loss), cmocka_unit_test(test_all_asked),
        cmocka_unit_test(test_two_causes_and_clocks_off),
        cmocka_unit_test(test_one_file_of_words), cmocka_unit_test(test_peer_lost_after_an_allocation),
        cmocka_unit_test(test_nothing_is_known),
        cmocka_unit_test(test_numbers_that_cannot_be),
        cmocka_unit_test(test_jobs_are_told_apart), cmocka_unit_test(test_copies),
        cmocka_unit_test(test_outlier),
        cmocka_unit_test(test_output),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
