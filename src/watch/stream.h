/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kind of a descriptor, which decides how its output is carried. Only look-ups, no state. Used by
 * the supervisor before the first fork.
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
/* "a socket": what people call it. */
const char *stream_kind_name(enum stream_kind kind);
/* A socket that is used as a pipe: systemd gives one to a service, and Node.js to a child process. A socket
 * that is also stdin may carry a conversation. */
bool stream_is_one_way_socket(int fd);
/* True when both are open and lead to the same inode, or to the same terminal by different names. */
bool stream_same(int a, int b);

#endif
