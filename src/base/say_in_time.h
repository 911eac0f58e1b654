/* SPDX-License-Identifier: Apache-2.0 */
/* The words of a process that others wait for must not hold it up: a terminal may be stopped (Ctrl-S), and the reader of a
 * pipe may stand still. */
#ifndef BASE_SAY_IN_TIME_H
#define BASE_SAY_IN_TIME_H

#include <stdio.h>

/* Replaces stdout or stderr of this process by a stream that waits at most `wait_ms` for room, drops what then is left, and waits no
 * more until a write succeeds. fileno() of it is -1. Where it cannot be made, the stream stays as it is. At most two. */
void say_in_time(FILE **stream, int wait_ms);

#endif
