/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors that the caller gave us for the target. We let go of our copies when the target has
 * its own, so that whoever waits for their end (a reader of a pipe, a lock) waits for the target
 * only. stdin and stdout are replaced by /dev/null; stderr is kept for our last lines.
 */
#ifndef LAUNCH_INHERITED_H
#define LAUNCH_INHERITED_H

#define INHERITED_MAX 4096

struct inherited {
    int count;
    int fds[INHERITED_MAX];
};

/* All descriptors above stderr that are open now. Called before any of our own is made. */
void inherited_list(struct inherited *inherited);
void inherited_close(const struct inherited *inherited);

#endif
