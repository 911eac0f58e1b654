/* SPDX-License-Identifier: Apache-2.0 */
/* Input for the collectors "software" and "python": a run of one of them, and lines of /proc/PID/maps. */
#ifndef TEST_SOFTWARE_INPUT_H
#define TEST_SOFTWARE_INPUT_H

#include <sys/types.h>

#include "base/buf.h"
#include "collect/collector.h"

/* Runs the collector. argv and environment may be NULL = empty. The caller frees the result with sink_free(). */
struct collect_out *run_collector(const struct collector *c, const char *maps, const char *const *argv,
                                  const char *const *environment, enum collect_status *ret);

/* The same for a live process. */
struct collect_out *run_collector_on(pid_t pid, const struct collector *c, const char *maps, const char *const *argv,
                                     const char *const *environment, enum collect_status *ret);

/* Appends a mapping of the file at a new address. */
void map_line(struct buf *maps, const char *path);

/* The teardown of a group: removes the folder of the test program. */
int remove_input(void **state);

#endif
