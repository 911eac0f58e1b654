/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that the program keeps permanently: how much of the blocks in use at earlier moments is
 * still in use at the failure. Pure: a snapshot of inject/python as JSON in, figures out.
 */
#ifndef COLLECTORS_LIB_TORCH_KEPT_H
#define COLLECTORS_LIB_TORCH_KEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct torch_kept {
    int64_t marks;  /* moments that are looked at */
    int64_t before; /* bytes of the first of them that are kept */
    int64_t growth; /* growth of the kept memory in the run, extrapolated to its end; at least 0 */
    int64_t replaced_percent; /* share, 0 to 100, that was freed later of blocks that had outlived some
                               * steps: the second largest */
    int64_t retaken_percent; /* growth of the memory whose blocks come and go, as a share of the growth of
                              * what is kept; at most 100 */
    int64_t faster_percent;  /* how much longer the first quarter of the bytes took than the last, if each
                                took less than the one before and there are enough marks; else 0 */
    bool steady; /* it grew in the first half of that time, too, hardly anything was replaced, and demand does
                  * not rise */
    int64_t outlasting; /* the blocks of a mark that are in use until the next look, some steps later: by how many bytes
                         * their sum differs between the marks; -1: not known */
    int64_t watched_percent; /* of the blocks handed out since a mark, how many of their releases the hook saw: the least */
    int64_t freed_percent; /* share of the bytes handed out since the first mark, 0 to 100 */
};

/* `handed_out`: bytes until the failure; `in_use`: bytes at the failure. False: too few marks. */
bool torch_kept_read(const char *snapshot, size_t len, int device, int64_t handed_out,
                     int64_t in_use, struct torch_kept *ret);

#endif
