/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A traced process asks an unprivileged tracer to let it go, because it is about to execute a program that gains
 * privilege: the kernel gives none to a process that such a tracer watches (LSM_UNSAFE_PTRACE, fs/exec.c). It sends
 * this signal to itself, queued with this value. The tracer takes the signal away. A process whose tracer is somebody
 * else's ignores it by default.
 */
#ifndef INJECT_LET_GO_H
#define INJECT_LET_GO_H

#include <signal.h>
#include <stdint.h>

#define LET_GO_SIGNAL SIGURG
#define LET_GO_VALUE ((uintptr_t)0x676f2d74656c6c69)

#endif
