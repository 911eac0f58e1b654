/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kind of a descriptor, for relaying its output. Pure look-ups, no state; used by the
 * supervisor before the first fork.
 */
#ifndef WATCH_STREAM_H
#define WATCH_STREAM_H

#include <stdbool.h>

enum stream_kind {
    STREAM_CLOSED, /* not an open descriptor */
    STREAM_FILE,   /* regular file */
    STREAM_PIPE,   /* pipe or FIFO */
    STREAM_TERMINAL,
    STREAM_SOCKET,
    STREAM_OTHER, /* /dev/null and the like */
};

enum stream_kind stream_kind_of(int fd);
/* Both are open and lead to the same object: same inode, or the same terminal by another name. */
bool stream_same(int a, int b);

#endif
