/* SPDX-License-Identifier: Apache-2.0 */
/* Large memory for the whole life of a process. RLIMIT_DATA does not count it. The limit does count
 * .bss when a program is loaded, and the kernel kills a program that exceeds it. */
#ifndef BASE_ROOM_H
#define BASE_ROOM_H

#include <stddef.h>

/* Zeroed; NULL if there is no memory. A child that is forked afterwards shares it. */
void *room_for(size_t bytes);

#endif
