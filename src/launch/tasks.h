/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists what the threads of a process are doing, without stopping them. One line for each thread:
 *
 *   TID <tab> STATE <tab> CPU_NS <tab> WCHAN <tab> SYSCALL <tab> LOCK <tab> NAME
 *
 * STATE is that of /proc/PID/task/TID/stat; WCHAN the kernel function it sleeps in ("-" = not told); SYSCALL
 * the line of /proc/PID/task/TID/syscall ("-" = not permitted); LOCK is "-" or, for a wait in futex(2), the
 * futex word and the word eight bytes after it, which in a glibc mutex is its owner's thread. NAME comes
 * last because it may hold anything but a newline.
 */
#ifndef LAUNCH_TASKS_H
#define LAUNCH_TASKS_H

#include <sys/types.h>

struct buf;

/* Appends the lines; nothing where the process is gone. */
void tasks_read(pid_t pid, struct buf *out);

#endif
