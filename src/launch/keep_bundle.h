/* SPDX-License-Identifier: Apache-2.0 */
/* The question behind --preview. The finisher has no terminal; the supervisor has. */
#ifndef LAUNCH_KEEP_BUNDLE_H
#define LAUNCH_KEEP_BUNDLE_H

/*
 * Asks on the terminal whether the bundle at `path` shall stay, and removes it when the answer
 * begins with "n". Any other answer, the end of the input and a signal that asks us to end
 * (readable at signal_fd, O_NONBLOCK) keep it. Nothing is asked, and a line says so, where stderr is no terminal or we are not in its
 * foreground. Blocks until one of these.
 */
void keep_bundle_ask(const char *path, int signal_fd);

#endif
