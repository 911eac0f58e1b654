/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the allocations of this program that fail (base/memory.h). */
#ifndef CLI_MEMORY_WATCH_H
#define CLI_MEMORY_WATCH_H

/* Before anything is allocated. */
void memory_watch_start(void);

#endif
