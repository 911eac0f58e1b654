/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a run. Filled by cli/, read by everything in launch/. */
#ifndef LAUNCH_OPTIONS_H
#define LAUNCH_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "telemetry/condition.h"
#include "watch/relay.h"

#define SITE_DEFAULT "/etc/rocmcrash/site.d" /* below the sysroot */

#define HANG_AFTER_AUTO UINT32_MAX

enum trace_mode {
    TRACE_AUTO, /* eager with CAP_SYS_PTRACE, else late */
    TRACE_EAGER,
    TRACE_LATE,
    TRACE_NONE,
};

enum bundle_on {
    BUNDLE_ON_FAILURE, /* a crash; or a non-zero exit with evidence of GPU, memory, resources */
    BUNDLE_ON_ERROR,   /* also an exception of Python, whatever it is */
    BUNDLE_ON_SIGNAL,  /* also when a signal asks it to end */
    BUNDLE_ON_OOM,     /* also when the program swallowed an out-of-memory error and succeeded */
    BUNDLE_ALWAYS,
};

/* The parts that are put into the target, as bits. */
enum inject_what {
    INJECT_NONE = 0,
    INJECT_PYTHON = 1, /* src/inject/python: what PyTorch knows, exceptions, Python's stacks */
    INJECT_LEDGER = 2, /* src/inject: the ledger of allocations */
    INJECT_ALL = 3,
};

struct launch_options {
    enum trace_mode trace;
    enum bundle_on bundle_on;
    enum follow_mode follow; /* which of the target's streams go through us */
    bool keep_orphan;        /* SIGKILL of rocmcrash leaves the target running */
    bool quiet;              /* no lines on stderr after the target's end */
    const char *json_of;     /* a verb's name: it prints an object on stdout, those lines on stderr */
    bool on_stdout;          /* those lines on stdout: a verb's, which runs no target */
    const char *colour;      /* of those lines: auto, always, never; NULL = auto */
    uint32_t finish_within_ms;
    uint32_t hash_budget_ms;
    unsigned full_bundles;   /* of the ranks of one machine that fail alike; 0 = all */
    const char *output_dir;
    const char *event_to;    /* the program that is told of each failure, NULL = none */
    const char *keep;        /* kinds of private things that stay in the bundle, NULL = none */
    const char *include;     /* files that are not text and stay in the bundle, NULL = none */
    const char *site;        /* folder of the site's own rules and collectors; SITE_DEFAULT where
                                nobody names one. Never NULL */
    uint32_t hang_after_ms;  /* a program that stands still for so long is looked at; 0 = never,
                                HANG_AFTER_AUTO = see launch/step_length.h */
    bool hang_kill;          /* and ended */
    struct condition_list bundle_at; /* a bundle is left when one of them comes to hold */
    bool preview;            /* show what is redacted before the bundle is written */
    const char *finisher;    /* path of rocmcrash-finish, NULL = not found */
    unsigned inject;         /* enum inject_what */
    const char *ledger_library; /* path of librocmcrash-ledger.so, NULL = not found */
    const char *python_hook; /* folder of sitecustomize.py, NULL = not found */
    bool torch_history;      /* PyTorch records where each block was allocated */
};

#endif
