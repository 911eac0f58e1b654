/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger of a run at one moment of one process: the buffers allocated then, and those freed
 * before. Runs in the collector's child. The ledger is memory that the target could write: every
 * index in it is checked, every sum saturates.
 *
 * The ledger itself shows the end. A HIP program that exits frees everything, so the state at a
 * refusal is reconstructed from the live entries and the last LEDGER_EVENTS events.
 */
#ifndef COLLECTORS_LEDGER_VIEW_H
#define COLLECTORS_LEDGER_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record/ledger.h"

#define LEDGER_AT_END UINT64_MAX

struct ledger_range {
    uint64_t address, size, bytes; /* bytes: as the kernel charges them, whole pages */
    uint64_t handle;
    uint64_t time_ns;  /* when it was allocated, 0 = before the events that are known */
    uint64_t freed_ns; /* 0 = live */
    /* Taken from the events; times have the grain of a timer tick. 0 = no event is known. */
    uint64_t number, freed_number;
    uint32_t flags;
    int32_t tid;
    uint8_t gpu, kind;
};

struct ledger_view {
    const struct ledger *ledger;
    uint32_t process; /* slot */
    uint64_t at_ns;
    uint64_t at_number;        /* of the refusal's event, 0 = not known */
    bool is_exact;             /* none of the needed entries and events was lost */
    struct ledger_range *live; /* by address */
    size_t live_count;
    struct ledger_range *freed; /* freed before at_ns, as far as events reach; the newest first */
    size_t freed_count;
};

/* 0 or -ENOMEM. */
int ledger_view_make(struct ledger_view *ret, const struct ledger *ledger, uint32_t process,
                     uint64_t at_ns);
void ledger_view_release(struct ledger_view *view);
/* The number of the event of a refusal at that time; 0 when it is not among them. */
uint64_t ledger_event_of_refusal(const struct ledger *ledger, uint32_t process, uint64_t at_ns);
/* Bytes of that kind; gpu < 0: on all GPUs. */
int64_t ledger_view_bytes(const struct ledger_view *view, enum ledger_kind kind, int gpu);
/* The peak of the accounts, on all GPUs; -1 if it is not known (the peaks of two GPUs may be of
 * different times). */
int64_t ledger_view_peak(const struct ledger_view *view, enum ledger_kind kind);

/* "vram", "gtt", "userptr" ...; "unknown" for an invalid kind. */
const char *ledger_kind_name(unsigned kind);

/* The failure that ended the process, as far as the ledger saw it. Members are NULL without one. */
struct ledger_failure {
    const struct ledger_refusal *refusal; /* the last try of its row */
    unsigned tries;
    const struct ledger_hip_refusal *hip;
    uint64_t at_ns; /* LEDGER_AT_END: nothing was refused */
    bool coped;     /* at least a quarter as much was allocated later: it did not end the process */
};
void ledger_find_failure(const struct ledger *ledger, uint32_t process, struct ledger_failure *ret);

/* The slot of the process that failed: the last image of that pid, else the one with the last
 * refusal, else the one that held most. LEDGER_NO_PROCESS when no process was recorded. */
uint32_t ledger_find_process(const struct ledger *ledger, int64_t failed_pid);

/* One exact size that is allocated far more often than freed. */
struct ledger_growth {
    uint64_t bytes; /* 0 = there is none */
    uint64_t live_count, live_bytes;
    uint64_t allocations, frees; /* ever; at a refusal, before it */
    uint64_t
        interleaved_percent; /* allocated between its live buffers: others of the kind were freed in
                              * between */
    uint8_t kind;
};
void ledger_find_growth(const struct ledger_view *view, struct ledger_growth *ret);

/* The last live buffers of a kind, as far back as each is at least as large as the one before: a
 * pool that frees nothing and gets larger requests each time. Bytes. */
struct ledger_rising {
    uint64_t count, sizes; /* sizes: number of different sizes */
    uint64_t bytes, smallest, largest;
};
void ledger_find_rising(const struct ledger_view *view, uint8_t kind, struct ledger_rising *ret);

enum ledger_place { PLACE_ELSEWHERE, PLACE_NULL, PLACE_LIVE, PLACE_FREED, PLACE_PAST_END };

struct ledger_fault {
    enum ledger_place place;
    uint64_t address;
    const struct ledger_range *range; /* NULL for ELSEWHERE and NULL */
    uint64_t offset;                  /* offset into the range; for PAST_END past its end */
};
void ledger_place_fault(const struct ledger_view *view, uint64_t address, struct ledger_fault *ret);

#endif
