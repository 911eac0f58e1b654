/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the parts of the tracer. One per process: its signal handlers need it.
 *
 *   tracer.c          start, the loop, deaths, signal handlers
 *   tracer_stops.c    what each stop means and how it is answered
 *   tracer_impact.c   which stop is the end of a process
 *   tracer_release.c  what is let go: the busy, debuggers, short children
 *   tracer_left_alone.c  which programs are not traced: debuggers, sanitizers, those that look for a tracer, and
 *                     without privilege those that may execute a set-uid program unseen
 *   tracer_still.c    what the processes do while the program stands still
 */
#ifndef LAUNCH_TRACER_INTERNAL_H
#define LAUNCH_TRACER_INTERNAL_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "launch/tracee.h"
#include "launch/tracer.h"

#define TRACER_RELEASED_MAX 64
#define TRACER_STATUS_BYTES 32768 /* /proc/PID/status of a user who is in some thousand groups */

struct released {
    pid_t pid;             /* thread group, 0 = free */
    uint64_t seize_after_ns; /* CLOCK_MONOTONIC; UINT64_MAX = never again */
};

struct tracer {
    struct shared *shared;
    const struct tracer_options *options;
    struct tracees *tracees; /* not in .bss, which RLIMIT_DATA counts */
    pid_t target;
    bool privileged; /* CAP_SYS_PTRACE */
    bool eager;
    bool scans; /* every second, for processes that are not traced yet */
    int ptrace_options;
    struct rate forks; /* of the whole tree */
    struct released released[TRACER_RELEASED_MAX]; /* newest last */
    uint32_t released_count;
};

extern struct tracer tracer;

/* --- tracer.c --- */
void tracer_wake_supervisor(void);

/* --- tracer_stops.c --- */
/* Answer one ptrace stop; status = signal | event << 8, as waitid() gives it. */
void tracer_handle_stop(pid_t tid, int status);
/* The target was stopped or continued by job control; the caller is shown the same. */
void tracer_target_stopped(int signo);
void tracer_target_continued(void);

/* --- tracer_impact.c --- */
bool tracer_is_fatal_signal(int signo);
/* For the forwarder: what the target took, and from whom. */
void tracer_note_target_signal(const siginfo_t *si);
/* A fatal signal is about to be delivered; the thread is held. */
void tracer_fatal_signal(struct traced_thread *thread, const siginfo_t *si);
/* A thread is at its exit event. */
/* Another program runs under its number: the fault that a handler took was the former's. */
void tracer_forget_first_fault(struct traced_thread *thread);
void tracer_exit_event(struct traced_thread *thread);

/* --- tracer_release.c --- */
/* Interrupt every thread of the process; each is detached at its next stop. Async-signal-safe. */
void tracer_release(struct traced_process *process, enum release_reason reason);
bool tracer_was_released(pid_t tgid);
void tracer_note_released(const struct traced_process *process);
/* It was let go because it was busy, and is now asked to be let go for good. Async-signal-safe. */
void tracer_keep_released(pid_t tgid);
void tracer_forget_released(pid_t tgid);
/* For the scan: never released, or so long ago that it may be seized again. */
bool tracer_may_seize_again(pid_t tgid);
/* Count a stop; lets a process go that has too many. */
void tracer_note_event(struct traced_process *process, uint64_t now_ns);
/* Count a fork; from too many on, children are traced late. */
void tracer_note_fork(void);
/* After an exec: if the program calls ptrace(2), children are traced late from now on. */
void tracer_leave_children(pid_t tid, pid_t pid);
void tracer_scan_every_second(void);

/* --- tracer_left_alone.c --- */
bool tracer_is_debugger(pid_t pid);
/* The program has a sanitizer, or looks for a tracer: it would behave differently, so it is not traced. Counts it. */
bool tracer_is_left_alone(pid_t pid);
/* The program refers to ptrace(2): it may trace its children. */
bool tracer_names_ptrace(pid_t pid);
/* The tracer has no privilege, and the program may execute one that gains some without a word to us. */
bool tracer_may_exec_unseen(pid_t pid);

/* --- tracer_still.c --- */
/* The supervisor woke us, or a second has passed: the next look at a program that stands still, and the
 * copies that were asked for. */
void tracer_still_turn(void);
/* The process is about to take a signal that asks it to end. One that stood still is copied first;
 * then, and in any other case, the signal goes on at once. */
void tracer_still_signal(const struct traced_process *process, int signo);

#endif
