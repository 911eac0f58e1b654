/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the program keeps for good: of the blocks that were in use at earlier moments, how much is in
 * use still at the failure. Pure: a snapshot of inject/python as JSON in, figures out.
 */
#ifndef COLLECTORS_LIB_TORCH_KEPT_H
#define COLLECTORS_LIB_TORCH_KEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct torch_kept {
    int64_t marks;  /* moments that are looked at */
    int64_t before; /* bytes of the first of them that are kept */
    int64_t growth; /* by so much what is kept grew in the run, drawn out to its end; not below 0 */
    int64_t replaced_percent; /* went later of what had outlived some steps, 0 to 100: the second largest */
    int64_t retaken_percent; /* of the growth: places that were free in between, beyond what steps explain */
    int64_t faster_percent;  /* by so much longer the first quarter of the bytes took than the last, where each
                                took less than the one before; else 0 */
    bool steady; /* it grew in the first half of that time too, hardly anything was replaced, and no more comes */
    int64_t freed_percent; /* of what was handed out since the first mark, 0 to 100 */
};

/* `handed_out`: bytes until the failure; `in_use`: at it. False: too few marks to tell. */
bool torch_kept_read(const char *snapshot, size_t len, int device, int64_t handed_out,
                     int64_t in_use, struct torch_kept *ret);

#endif
