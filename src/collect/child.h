/* SPDX-License-Identifier: Apache-2.0 */
/* The child of one collector, from fork() to _exit(). Used by runner.c only. */
#ifndef COLLECT_CHILD_H
#define COLLECT_CHILD_H

#include <stdint.h>
#include <sys/types.h>

#include "collect/collector.h"

/* Runs the collector in the calling process, which is a fresh fork. */
_Noreturn void child_run(const struct collector *collector, const struct collect_ctx *ctx,
                         pid_t parent, int dir_fd, int status_fd, uint64_t deadline_ns,
                         uint64_t max_bytes);

#endif
