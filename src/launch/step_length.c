/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/step_length.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "record/shared.h"

#define STEPS_MIN 20      /* fewer say little about the longest one in a hundred */
#define STEPS_OF_PATIENCE 10
#define STILLS_OF_PATIENCE 2
/* A standstill is seen to begin at the first look after the last work, and the last step may be told of a second
 * before it ends. */
#define SEEN_LATE_MS 15000u
#define USUAL_MAX_US UINT64_C(86400000000) /* a day */

/* "4711 214 120000 987654321": process, steps, length in us, end of the latest. */
static struct step_length read_slot(const char slot[SHARED_STEPS_TEXT])
{
    char text[SHARED_STEPS_TEXT];
    char *at = text;
    memcpy(text, slot, sizeof text);
    text[sizeof text - 1] = '\0';
    (void)strtoull(at, &at, 10);
    struct step_length length = {.count = strtoull(at, &at, 10)};
    length.usual_us = strtoull(at, &at, 10);
    length.ended_ns = strtoull(at, &at, 10);
    return *at == '\n' ? length : (struct step_length){.count = 0};
}

static bool is_usable(const struct step_length *length)
{
    return length->count >= STEPS_MIN && length->usual_us > 0 && length->usual_us <= USUAL_MAX_US;
}

struct step_length step_length_read(const struct shared *shared)
{
    struct step_length longest = {.count = 0};
    for (size_t i = 0; i < SHARED_HOOK_SLOTS; i++) {
        struct step_length length = read_slot(shared->hook_steps[i]);
        if (is_usable(&length) && length.usual_us > longest.usual_us)
            longest = length;
    }
    return longest;
}

uint64_t step_length_last_ns(const struct shared *shared)
{
    uint64_t last_ns = 0;
    for (size_t i = 0; i < SHARED_HOOK_SLOTS; i++) {
        struct step_length length = read_slot(shared->hook_steps[i]);
        if (length.count > 0 && length.ended_ns > last_ns)
            last_ns = length.ended_ns;
    }
    return last_ns;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

bool step_length_holds(const struct step_length *length, uint64_t since_ns)
{
    uint64_t near_ms = larger(SEEN_LATE_MS, length->usual_us * STEPS_OF_PATIENCE / 1000);
    return length->count > 0 && (since_ns <= length->ended_ns || since_ns - length->ended_ns <= near_ms * NS_PER_MS);
}

uint64_t step_length_patience_ms(const struct step_length *length, uint64_t since_ns,
                                 uint64_t longest_still_ms)
{
    uint64_t patience_ms = HANG_UNKNOWN_MS;
    if (step_length_holds(length, since_ns))
        patience_ms = larger(HANG_SOONEST_MS, length->usual_us * STEPS_OF_PATIENCE / 1000);
    return larger(patience_ms, longest_still_ms * STILLS_OF_PATIENCE);
}
