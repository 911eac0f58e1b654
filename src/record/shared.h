/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that the processes beside the target share during a run.
 *
 * One memfd, created by the supervisor before anything is forked and inherited by every process of
 * a run, the finisher included. Each field has one writer, named here. It holds nothing but data
 * (no pointers), so the finisher, another program, can map it as well. What is here survives the
 * death of any of us, but not of the machine: the recorder copies it to the run directory.
 *
 * Writers: S supervisor, T tracer, M sampler, O relay, R recorder.
 */
#ifndef RECORD_SHARED_H
#define RECORD_SHARED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "record/ring.h"

#define SHARED_MAGIC 0x726f636d63726173u /* "rocmcras" */
#define SHARED_VERSION 8u

#define SHARED_PAGE 4096
#define SHARED_SAMPLE_RING_BYTES (1u << 20) /* RING_BYTES_MAX */
#define OUTPUT_HEAD_BYTES (64u << 10) /* of stderr, which stay for good */
#define SHARED_OUTPUT_RING_BYTES (512u << 10)
#define SHARED_EVENT_RING_BYTES (64u << 10)
#define SHARED_REPORT_RING_BYTES (32u << 10)
#define SHARED_FOUND_RING_BYTES (128u << 10)
#define SHARED_STDOUT_RING_BYTES SHARED_FOUND_RING_BYTES
#define SHARED_IMPACT_ARENA_BYTES (24u << 20)
#define SHARED_IMPACTS_MAX 16
#define SHARED_SIGNALS_SEEN 64

/* A process of ours. `pid` 0 = not started. A restarted one counts up `generation`. */
struct shared_helper {
    _Atomic int32_t pid;               /* S */
    _Atomic uint32_t generation;       /* S */
    _Atomic uint64_t heartbeat_ns;     /* the helper: time of the last turn of its loop */
    _Atomic uint64_t work_pending_ns;  /* the helper: start of the work it is in, 0 = waiting */
};

/* The second relay carries stdout, where that was asked for. */
enum helper_id {
    HELPER_TRACER,
    HELPER_SAMPLER,
    HELPER_RELAY,
    HELPER_RECORDER,
    HELPER_STDOUT_RELAY,
    HELPER_MAX,
};

/* A stream of the target that a relay forwards. Written by O. */
struct shared_carried {
    _Atomic uint64_t bytes;
    _Atomic uint32_t unseen; /* how often some of it was forwarded without being scanned */
    _Atomic uint32_t downstream_closed; /* the caller's end is gone; S closes its copy too */
};

/* A signal that the tracer saw delivered to the direct child (for not forwarding it twice). */
struct signal_seen {
    _Atomic uint64_t time_ns;
    int32_t signo;
    int32_t sender_pid;
};

enum impact_state {
    IMPACT_EMPTY,
    IMPACT_WRITING,  /* T is copying; incomplete if T died in this state */
    IMPACT_COMPLETE, /* all bytes are in the arena */
};

enum impact_kind {
    IMPACT_SIGNAL_STOP, /* signal-delivery stop of a fatal signal: registers and stacks are there */
    IMPACT_EXIT_EVENT,  /* last thread's exit event: memory, maps, files; registers of one thread */
    IMPACT_WAIT_STATUS, /* not traced: only the wait status is known */
    IMPACT_SNAPSHOT,    /* a live process: nothing failed; all threads that could be stopped */
};

/* One failed process; its bytes lie in the arena as a sequence of struct impact_chunk. */
struct shared_impact {
    _Atomic uint32_t state; /* enum impact_state, T */
    uint32_t kind;          /* enum impact_kind */
    int32_t pid;            /* thread group id */
    int32_t tid;            /* thread that took the signal, or the last one */
    int32_t signo;          /* 0 = none (exit code) */
    int32_t code;          /* siginfo_t.si_code */
    int32_t sender_pid;     /* sender, for SI_USER and the like */
    uint32_t exit_status;   /* wait(2) status when known, else UINT32_MAX */
    uint64_t fault_address; /* si_addr of SIGSEGV, SIGBUS, SIGILL, SIGFPE */
    uint64_t time_ns;       /* CLOCK_MONOTONIC at the stop */
    uint64_t held_ns;       /* how long the target was held */
    uint32_t threads_seen;
    uint32_t threads_copied;
    uint64_t arena_offset;
    uint64_t arena_length;
    char comm[16];
};

/* The contents of an impact chunk. Text is as /proc gave it; every payload is padded to 8 bytes. */
enum impact_chunk_type {
    CHUNK_STATUS = 1, /* /proc/PID/status */
    CHUNK_STAT,       /* /proc/PID/stat */
    CHUNK_MAPS,       /* /proc/PID/maps */
    CHUNK_LIMITS,     /* /proc/PID/limits */
    CHUNK_CMDLINE,    /* /proc/PID/cmdline, NUL-separated */
    CHUNK_CGROUP,     /* /proc/PID/cgroup */
    CHUNK_AUXV,       /* /proc/PID/auxv, raw */
    CHUNK_FDS,        /* lines "FD TARGET\n" (readlink of /proc/PID/fd/FD) */
    CHUNK_SIGINFO,    /* siginfo_t of thread `arg` */
    CHUNK_REGS,       /* struct user_regs_struct (NT_PRSTATUS) of thread `arg` */
    CHUNK_STACK,      /* arg = address of the first byte (the stack pointer), arg2 = tid */
    CHUNK_COMM,       /* name of thread `arg` */
    CHUNK_IO,         /* /proc/PID/io */
    CHUNK_EXE,        /* readlink of /proc/PID/exe */
    CHUNK_ENVIRON,    /* /proc/PID/environ, NUL-separated; the finisher keeps only the allow-list */
    CHUNK_TASKS,      /* a line a thread (launch/tasks.h), of a snapshot; arg = CLOCK_MONOTONIC */
    CHUNK_TASKS_AGAIN, /* the same, read again just before the process was held */
    CHUNK_PYTHON,     /* stacks of CPython (launch/python_stacks.h), or a line "no stacks: WHY" */
};

/* flags: the payload was cut at its cap. Of CHUNK_MAPS and CHUNK_FDS `arg` is then the number of all lines, 0 = too
 * many to be counted while the target was held. */
#define CHUNK_TRUNCATED 1u

struct impact_chunk {
    uint32_t type;
    uint32_t flags;
    uint64_t length; /* of the payload, without padding */
    uint64_t arg;
    uint64_t arg2;
};

/* How the run was started. Written by S before the first fork; then constant. */
struct shared_run {
    uint64_t start_mono_ns;
    uint64_t start_wall_ns;
    int32_t supervisor_pid;
    int32_t argc;
    uint32_t argv_bytes;   /* used bytes of argv[] */
    uint32_t argv_cut;     /* 1 = argv did not fit */
    char argv[16384];      /* NUL-separated */
    char cwd[4096];
    char run_dir[1024];    /* the run's directory; "" until the recorder has made it */
    char hook_dir[1024];   /* the run directory that the Python hook in the target uses; "" = no hook.
                            * Written before the target's exec */
    char output_dir[4096]; /* where the user wants the bundle */
    char job_variables[1024]; /* of the launcher, as lines (record/job_variables.h); "" = no rank, or nobody knows */
    char sysroot[1024];    /* "" = the real machine */
    uint32_t trace_mode;   /* enum trace_mode of launch/options.h */
    uint32_t stderr_kind;  /* enum stream_kind of watch/stream.h */
    uint32_t stdout_kind;
    char stdout_path[4096]; /* the regular file that is stdout but not stderr, "" = none */
    uint64_t stdout_inode, stdout_start; /* offset where the run begins in it */
    uint32_t follows_stdout; /* 1 = a relay of its own carries it */
    char stdout_error[128];  /* why no relay does although the user asked for one, "" = no error */
    uint64_t kmsg_start_seq; /* R: first kernel-log record of the run, UINT64_MAX = unreadable */
    char kmsg_error[128];    /* R: why the kernel log cannot be read, "" = it can */
    char follow_error[128];  /* why stderr is not followed, "" = it is followed, or need not be */
    int32_t shared_fd;       /* S: its descriptor of this memory, for the hook */
    int32_t ledger_fd;       /* S: its descriptor of the ledger (record/ledger.h), -1 = there is none */
    char ledger_error[128];  /* why there is no ledger, or why the target has no library; "" = both
                              * are there */
    uint64_t attached_wall_ns; /* != 0: somebody else started it, and we attached at this time */
    uint64_t snapshot_wall_ns; /* != 0: not a run but a snapshot of a live process, made at this time */
    char snapshot_why[128];    /* the reason for the snapshot: "asked for", "vram>95%", ... */
};

/* Each process of the target has one slot, chosen by its pid: "4711 sampler: OSError: ...". */
#define SHARED_HOOK_SLOTS 8
#define SHARED_HOOK_TEXT 256
#define SHARED_STEPS_TEXT 64

#define SHARED_OWN_CHILDREN 4
#define SHARED_GPUS_MAX 128
#define SHARED_GPU_NONE UINT32_MAX

/* Identifies a GPU. Its place in gpus[] is its index in every sample and fact. */
struct shared_gpu {
    char pci[16];      /* "" = not known */
    uint32_t kfd_node; /* SHARED_GPU_NONE = none */
    uint32_t card;     /* SHARED_GPU_NONE = none */
};

/* How far the rings and impacts have been copied to the run directory. R, then the finisher. */
struct record_progress {
    uint64_t sample_cursor, samples_lost;
    uint64_t output_cursor, output_lost;
    uint64_t event_cursor, events_lost;
    uint64_t report_written, head_written;
    uint64_t found_cursor, found_written;
    uint64_t stdout_head_written, stdout_written;
    uint32_t impacts_written; /* bit mask */
    uint32_t trouble_synced;  /* which troubles of the run are synced to disk */
};

/* STARTING: the child has claimed the start and not yet stored its pid. */
enum target_state { TARGET_NOT_STARTED, TARGET_RUNNING, TARGET_ENDED, TARGET_STARTING };

struct shared {
    uint64_t magic;
    uint32_t version;
    uint32_t size;
    struct shared_run run;
    char bundle_path[4608]; /* finisher: the bundle that it wrote; "" = none */

    struct shared_helper helpers[HELPER_MAX];

    /* The direct child. S and T. */
    _Atomic uint32_t target_state;
    _Atomic int32_t target_pid;
    _Atomic int32_t target_status;    /* wait(2) status, valid when TARGET_ENDED */
    _Atomic int32_t exec_errno;       /* != 0: exec failed before anything ran */
    _Atomic uint32_t status_unknown;  /* S: 1 = how it ended is not known: it is not our child */
    _Atomic uint64_t target_end_ns;
    _Atomic uint32_t target_stopped;  /* stop signal while the child is in a group stop, else 0 */
    _Atomic uint32_t target_stops;    /* how often it stopped: S shows each stop to its own
                                       * parent */
    _Atomic uint32_t supervisor_done; /* S: the run is over, 1 = leave nothing, 2 = being bundled */
    _Atomic uint32_t recorder_flushed; /* R: all is on the disk; R waits for its end, or stands in for S */
    _Atomic uint32_t finished;         /* a finisher has written what it had to: a second one does not */
    _Atomic uint32_t supervisor_mirrors; /* S: S has stopped itself to show a stop of the target */
    _Atomic uint32_t unfinished_runs; /* R: earlier runs that ended without a bundle */
    /* S: since when the target stands still, if for a minute or more; 0 = it works. */
    _Atomic uint64_t still_since_ns;
    _Atomic uint32_t still_looks;  /* T: how often it has looked at its processes since, without a stop */
    _Atomic uint32_t look_request; /* S: T copies what they are doing; counts up */
    _Atomic uint32_t look_answer;  /* T: the last request that is done */
    /* S or T, who sees it first: a signal asked the target to end while it stood still. */
    _Atomic uint64_t still_asked_ns;  /* when, 0 = none did */
    _Atomic uint64_t still_began_ns;  /* since when it stood still then */
    _Atomic uint32_t still_signal;
    _Atomic uint32_t still_ended; /* S: we sent it: --on-hang=kill */
    /* S: its other children, which make bundles: no processes of the run. The last few, 0 = none. */
    _Atomic int32_t own_children[SHARED_OWN_CHILDREN];
    _Atomic uint32_t own_children_count;
    /* S: bundles that were made while the target ran; why the last one was asked for, and its file's name ("" = none yet). */
    _Atomic uint32_t asides_count;
    char aside_why[128], aside_bundle[256];
    /* T: since when it last stood still and only waited for somebody outside, who had to speak first; 0 = never */
    _Atomic uint64_t still_awaited_ns;
    _Atomic uint64_t asked_to_end_ns; /* S: SIGTERM or SIGHUP came: SIGKILL may follow; 0 = it did not */
    _Atomic uint32_t supervisor_killed; /* R or T: the process that the caller started is gone */
    _Atomic uint32_t ended_with_supervisor; /* R or T: the target ran then, and was killed for it */

    /* T: what tracing could not see, for the manifest. */
    _Atomic uint32_t trace_state;      /* enum trace_state of launch/tracer.h */
    _Atomic int32_t trace_errno;       /* why SEIZE was refused */
    _Atomic uint32_t processes_seen, processes_traced, processes_released_busy;
    _Atomic uint32_t processes_sanitized; /* left alone: LeakSanitizer traces its own process */
    _Atomic uint32_t processes_wary;      /* left alone: they look for a tracer, or call ptrace(2) */
    _Atomic uint32_t children_late;    /* 1 = tracing became late: many short processes, or a program that traces others */
    _Atomic uint64_t held_since_ns;    /* since when a tracee is held, 0 = none; for the watchdog */
    _Atomic uint32_t held_budget_ms;   /* how long it may be held */
    _Atomic uint32_t watchdog_kills;   /* S: tracers killed because they held too long */
    struct signal_seen signals_seen[SHARED_SIGNALS_SEEN];
    _Atomic uint32_t signals_seen_head;

    /* T asks M to read the GPU counters and the DRM fdinfo of impact_pid now. Futex words. They
     * have a page of their own: the target's library maps it, as struct ledger_counters, to ask at
     * a refusal. */
    _Alignas(SHARED_PAGE) _Atomic uint32_t impact_request; /* T and the target increment it */
    _Atomic uint32_t impact_answer;  /* M: the last request whose record is in the sample ring */
    _Atomic int32_t impact_pid;
    _Atomic uint64_t counters_asked_ns; /* last shared_counters_at_message() */

    /* Written by the Python hook in the target (inject/python) with pwrite(): what did not work, if
     * the hook cannot write it to the run directory. Any bytes; perhaps without a NUL. */
    char hook_trouble[SHARED_HOOK_SLOTS][SHARED_HOOK_TEXT];
    /* Likewise, where options ask for it: "PID STEPS MICROSECONDS ENDED\n", how many steps of training it has
     * seen, how long 99 of 100 of the latest took at most, and when the latest ended (CLOCK_MONOTONIC, ns). */
    char hook_steps[SHARED_HOOK_SLOTS][SHARED_STEPS_TEXT];

    /* O and R: matches of output and kernel patterns while running. */
    _Alignas(SHARED_PAGE) _Atomic uint32_t oom_matches;
    _Atomic uint32_t fault_matches, hang_matches, error_matches, plain_matches;
    _Atomic uint32_t ledger_refusals; /* S: of the last half minute, without a successful retry */
    _Atomic uint32_t ledger_in_use;   /* S: 1 = a process has allocated GPU memory */
    _Atomic uint32_t kernel_oom_matches; /* the kernel's OOM killer, not the GPU's memory */
    _Atomic uint64_t first_match_ns;
    struct shared_carried stderr_carried, stdout_carried;

    /* M, the first sampler of the run: during a run cards may appear, vanish and get new
     * numbers. */
    struct shared_gpu gpus[SHARED_GPUS_MAX];
    _Atomic uint32_t gpus_listed; /* how many + 1; 0 = not looked for yet */

    struct record_progress progress;

    struct shared_impact impacts[SHARED_IMPACTS_MAX];
    _Atomic uint32_t impacts_used;    /* T */
    _Atomic uint32_t impacts_dropped; /* T: failures that found no slot or no arena space */
    _Atomic uint64_t arena_used;      /* T */

    /* M: the number of the file that it is reading (telemetry/sampler.h, 0 = none), and a bit for
     * each file that once hung. A replacement skips those files (VALUE_STALLED). */
    _Atomic uint32_t sampler_current_file;
    _Atomic uint32_t sampler_baseline_done;
    _Atomic uint64_t sampler_bad_files[64];

    struct ring samples; /* M; data follows in sample_data */
    unsigned char sample_data[SHARED_SAMPLE_RING_BYTES];
    /* O: the first bytes of stderr, which the ring may have lost before they are written down. */
    _Atomic uint32_t output_head_used;
    unsigned char output_head[OUTPUT_HEAD_BYTES];
    struct ring output; /* O (or R for a followed file): the last bytes of stderr */
    unsigned char output_data[SHARED_OUTPUT_RING_BYTES];
    struct ring events; /* any of us: lines "<mono_ns> <who> <text>\n", for the timeline */
    unsigned char event_data[SHARED_EVENT_RING_BYTES];
    struct ring report; /* O: lines after the kept head that tell how memory is used */
    unsigned char report_data[SHARED_REPORT_RING_BYTES];
    struct ring found; /* O: messages of failure after the kept head, with the lines around them */
    unsigned char found_data[SHARED_FOUND_RING_BYTES];
    /* O: whole lines about memory and failures on a stdout that is followed: the first ones, then the
     * last ones */
    _Atomic uint32_t stdout_head_used;
    unsigned char stdout_head[OUTPUT_HEAD_BYTES];
    struct ring stdout_lines;
    unsigned char stdout_data[SHARED_STDOUT_RING_BYTES];
    unsigned char arena[SHARED_IMPACT_ARENA_BYTES];
};

struct rc_err;

/* Records that `signo` asks the target to end while it stands still, once for a standstill. */
void shared_note_still_signal(struct shared *s, int signo);
/* A child of S that is no process of the run; nothing happens if pid <= 0. */
void shared_note_own_child(struct shared *s, int32_t pid);
/* ftruncate() even beyond RLIMIT_FSIZE, which is the target's limit, and seals the size; 0 or -errno. */
int shared_set_size(int fd, uint64_t size);
/* Create the memfd (not close-on-exec only where the finisher inherits it) and map it.
 * NULL and *err on failure; then the run goes on without us. */
struct shared *shared_create(int *ret_fd, struct rc_err *err);
/* This process is the supervisor: run.supervisor_pid. */
void shared_set_supervisor(struct shared *s);
/* Its pid, in it and in those that it forked; 0 = none. Whoever acts on its death asks this and not run.supervisor_pid:
 * the target's user can write to the shared memory. */
pid_t shared_supervisor(void);
/* Magic, version and size are right. The target's user can overwrite them. */
bool shared_is_intact(const struct shared *s);
/* Maps the memory that another process made, if it is intact. */
struct shared *shared_map(int fd, struct rc_err *err);
/* Ask the sampler for all counters now, and for what process `pid` holds; returns the number of the
 * request, which comes back in impact_answer. Does not wait. */
uint32_t shared_ask_counters(struct shared *s, int32_t pid);
/* The same for the target, because it or the kernel printed a message of failure. A few milliseconds
 * later the target may have ended and HIP freed its memory. At most once a second. */
void shared_counters_at_message(struct shared *s);
/* Append "<mono_ns> <who> <text>\n" to the event ring. Callable from every process of the run:
 * concurrent writers may garble a line, but stay within the ring. */
void shared_event(struct shared *s, const char *who, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
