/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does a process that stands still only wait for somebody outside to speak first? Its main thread reads a
 * terminal (a prompt), or waits for connections (a server). Who ends that ends no hang.
 */
#ifndef LAUNCH_AWAITS_INPUT_H
#define LAUNCH_AWAITS_INPUT_H

#include <stdbool.h>
#include <sys/types.h>

/* By the system call in which its main thread sleeps; false where that may not be read. Reads /proc and
 * the memory of the process; does not stop it. */
bool awaits_input(pid_t pid);
/* Does it wait for input from this terminal (st_rdev, not 0)? */
bool awaits_terminal(pid_t pid, dev_t terminal);

#endif
