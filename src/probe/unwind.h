/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks of a process that is gone, from its copied registers and stack bytes and the ELF files
 * that it had mapped. Runs in rocmcrash-unwind, a process of its own: elfutils reads files that may
 * be malformed.
 */
#ifndef PROBE_UNWIND_H
#define PROBE_UNWIND_H

#include <elfutils/libdwfl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "probe/impact_file.h"
#include "probe/modules.h"

#define UNWIND_FRAMES_MAX 256

struct rc_err;

struct unwinder {
    const struct impact_file *file;
    struct modules modules;
    Dwfl *dwfl;
    Elf *own_elf; /* ours: tells libdwfl the architecture */
    int own_fd;
    const struct impact_thread *current;
    bool read_failed; /* in the last step */
    uint64_t read_failed_at;
};

struct unwind_frame {
    uint64_t pc;
    bool exact; /* pc is the instruction itself, not the one after a call */
};

struct unwind_stack {
    const struct impact_thread *thread;
    struct unwind_frame frames[UNWIND_FRAMES_MAX];
    size_t count;
    bool truncated;    /* ended where the copy of the stack ends */
    char stopped[160]; /* "" = reached the outermost frame */
};

/* 0 or -errno; release in both cases. `file` must outlive it. */
int unwinder_open(struct unwinder *unwinder, const struct impact_file *file, struct rc_err *err);
void unwinder_release(struct unwinder *unwinder);
void unwinder_thread(struct unwinder *unwinder, const struct impact_thread *thread,
                     struct unwind_stack *ret_stack);

/* The place of one frame. Strings live as long as the unwinder; NULL = unknown. */
struct unwind_place {
    const char *symbol;
    uint64_t symbol_offset;
    const struct module *module;
    const char *module_name; /* the last part of its path */
    uint64_t module_offset;  /* as addr2line -e takes it */
    const unsigned char *build_id;
    int build_id_length;
};

void unwinder_place(struct unwinder *unwinder, const struct unwind_frame *frame,
                    struct unwind_place *ret_place);

#endif
