/* SPDX-License-Identifier: Apache-2.0 */
/* The process of a snapshot that the bundle tells of. */
#ifndef COLLECTORS_WAITS_SUBJECT_H
#define COLLECTORS_WAITS_SUBJECT_H

#include <stddef.h>
#include <stdint.h>

#include "record/impact_record.h"

/* Among the processes that were copied alive since then, the first that uses a GPU, else the first one. If that only waits
 * for a child that stands still, too, it is that child, and so on: a launcher is no cause. -1 = none was copied. */
int waits_subject(const struct impact_record *list, size_t count, uint64_t since_ns);

#endif
