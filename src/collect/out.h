/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The members of `struct collect_out`, which exists in the child of a collector. Only the runner
 * and its tests include this; collectors see collector.h.
 */
#ifndef COLLECT_OUT_H
#define COLLECT_OUT_H

#include <stdbool.h>
#include <stdint.h>

#include "collect/frame.h"

#define OUT_FILES_MAX 1024u

struct collect_out {
    int dir_fd;    /* the collector's folder */
    int status_fd; /* write end of the status pipe */
    uint64_t max_bytes;
    uint64_t written;      /* by collect_write() */
    uint64_t status_bytes; /* sent so far */
    unsigned files;
    bool cut; /* something did not fit */
    unsigned memory_refusals; /* refusals counted before the collector began */
    char reason[FRAME_WORDS_MAX];
    unsigned char frame[sizeof(struct frame_header) + FRAME_PAYLOAD_MAX];
};

/* The last frame: the run function returned `status`. */
void collect_out_done(struct collect_out *out, enum collect_status status);

#endif
