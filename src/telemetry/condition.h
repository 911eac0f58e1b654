/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditions on the sampler's counters and on the run's progress: "vram>90%", "gtt_growth>1GiB/min", "idle>120s". A condition that
 * becomes true is a crossing. Before the next crossing it must have been clearly false.
 *
 *   CONDITION  = QUANTITY ["_growth"] (">" | "<") NUMBER [UNIT]
 *   CONDITIONS = CONDITION ["," CONDITION ...]
 *
 * The quantities are those of CONDITION_QUANTITIES, the units those of each. A growth is in bytes a minute
 * ("1GiB/min", over the last minute) or a second ("10MiB/s", over the last five). No memory is allocated
 * while it works.
 */
#ifndef TELEMETRY_CONDITION_H
#define TELEMETRY_CONDITION_H

#include <stdbool.h>
#include <stdint.h>

#include "telemetry/metric.h"

struct rc_err;
struct shared;

#define CONDITIONS_MAX 4
#define CONDITION_TEXT_MAX 48
#define CONDITION_GPUS_MAX 128
#define CONDITION_PROCS_MAX 72

enum condition_unit { UNIT_PERCENT, UNIT_BYTES, UNIT_SECONDS, UNIT_COUNT, UNIT_DEGREES, UNIT_WATTS };

struct condition {
    char text[CONDITION_TEXT_MAX]; /* as it was written */
    unsigned quantity;
    bool below;
    enum condition_unit unit;
    double threshold; /* in %, bytes, s, degrees Celsius, W; a growth in bytes a second */
    uint32_t growth_s; /* the time over which a growth is measured, 0 = no growth */
};

struct condition_list {
    unsigned count;
    struct condition list[CONDITIONS_MAX];
};

/* One condition, with the last values that the samples had for it. */
struct condition_watch {
    struct condition condition;
    struct condition_value {
        uint64_t value;
        bool known;
    } host_used, host_total, gpu_used[CONDITION_GPUS_MAX], gpu_total[CONDITION_GPUS_MAX];
    struct {
        uint32_t pid; /* 0 = free */
        bool outside;
        struct condition_value used, total;
    } procs[CONDITION_PROCS_MAX];
    struct {
        uint64_t time_ns;
        double value;
    } past[16]; /* of a growth, the oldest first */
    unsigned past_count;
    bool holds, known, ever_known, told;
    double value; /* at the last look */
};

#define CONDITION_TIME_UNKNOWN UINT64_MAX

/* For how long, in ms. */
struct condition_times {
    uint64_t idle_ms;   /* the program has stood still */
    uint64_t silent_ms; /* it has printed nothing, whether or not it works */
    uint64_t step_ms;   /* no step of its training has ended */
};

struct condition_watches {
    unsigned count;
    struct condition_watch *list; /* room for CONDITIONS_MAX */
    unsigned char *chunk;         /* of the sample ring */
    uint64_t cursor, begun_ns;
};

/* -EINVAL with *err, which names what is possible. */
int conditions_parse(const char *text, struct condition_list *ret, struct rc_err *err);
/* "vram, gtt, rss, ..." */
void conditions_names(char *out, unsigned size);
/* Does a condition need the program's output, or the steps of its training? Both are known only of a program
 * that we start. */
bool conditions_need_output(const struct condition_list *list);
bool conditions_need_steps(const struct condition_list *list);
/* The time of the first condition on "idle" in ms, 0 = there is none. */
uint32_t conditions_idle_ms(const struct condition_list *list);
/* False when there is no memory. */
bool conditions_watch(struct condition_watches *watches, const struct condition_list *list);
/* Reads the sampler's new records and evaluates the conditions. Returns the first one that was crossed now, NULL =
 * none. */
const struct condition_watch *conditions_turn(struct condition_watches *watches,
                                              const struct shared *shared,
                                              const struct condition_times *times, uint64_t now_ns);
/* A condition whose counter was in no sample of the first seconds; each is given once. NULL = none. */
const struct condition_watch *conditions_unread(struct condition_watches *watches, uint64_t now_ns);
/* "vram>90% (it is 93.1 %)" */
void condition_tell(const struct condition_watch *watch, char *out, unsigned size);

#endif
