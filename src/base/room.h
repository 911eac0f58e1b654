/* SPDX-License-Identifier: Apache-2.0 */
/* Large memory of a process for its whole life. RLIMIT_DATA counts .bss when a program is loaded, and
 * kills it where that is too much; it does not count this. */
#ifndef BASE_ROOM_H
#define BASE_ROOM_H

#include <stddef.h>

/* Zeroed; NULL when there is none. A child that is forked afterwards shares it. */
void *room_for(size_t bytes);

#endif
