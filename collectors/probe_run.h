/* SPDX-License-Identifier: Apache-2.0 */
/* Runs rocmcrash-probe from a collector, but only if asking the GPU can do no harm. */
#ifndef COLLECTORS_PROBE_RUN_H
#define COLLECTORS_PROBE_RUN_H

#include "collect/collector.h"

struct cJSON;
struct machine;

/*
 * Check that the GPUs may be asked (a real machine with a GPU, none suspended, no reset in the
 * window of the run), run the probe with `arguments` (NULL-terminated) and write its output to
 * `file`. COLLECT_OK: *ret_json is the caller's, *ret_machine is filled. Otherwise the row's reason
 * is set.
 */
enum collect_status probe_run(const struct collect_ctx *ctx, struct collect_out *out,
                              const char *const *arguments, const char *file,
                              struct machine *ret_machine, struct cJSON **ret_json);

/* Index in the run's GPU table of a PCI address, -1 = none. */
int probe_gpu_index(const struct machine *machine, const char *pci);
/* Sets gpu.<index>.<name> from the number `key` of the object, if it is there. */
void probe_fact(struct collect_out *out, int index, const char *name, const struct cJSON *object,
                const char *key, const char *source);

#endif
