/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evidence of one kind lies in one folder of the bundle, whichever collector found it: each collector
 * writes to its own folder; afterwards tables over time move to telemetry/ and stacks to stacks/.
 */
#ifndef CLI_STAGE_PLACES_H
#define CLI_STAGE_PLACES_H

#include <stddef.h>
#include <sys/types.h>

/* Moves what the Python hook's collector wrote. May be called again. 0 or the first -errno. */
int stage_places(const char *stage);
/* The table telemetry/NAME of a bundle; older bundles have it as hook/NAME. As bundle_read_file(). */
ssize_t stage_read_table(const char *bundle, const char *name, size_t max, char **ret);

#endif
