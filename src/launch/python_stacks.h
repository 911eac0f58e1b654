/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks of CPython, read out of the memory of a live process. No code of it runs.
 *
 * Three steps: find the interpreter by its symbols, which reads files and may hang; find out how its
 * structures lie; read the frames, which happens while the process is held. The layout is that of CPython
 * 3.11 and 3.12, and what 3.13 says about itself (_Py_DebugOffsets). Other versions are only named.
 *
 * Text: for each Python thread "Thread TID:\n", then "  FILE:LINE in FUNCTION\n", the innermost first.
 * FUNCTION is the qualified name. TID is that of the process' own PID namespace.
 */
#ifndef LAUNCH_PYTHON_STACKS_H
#define LAUNCH_PYTHON_STACKS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PYTHON_TEXT_MAX ((size_t)2 << 20)

/* Offsets in bytes. */
struct python_layout {
    uint16_t interpreters, interpreter_next, threads, thread_next, native_tid;
    uint16_t frame;         /* in the thread: the innermost frame, or the CFrame that has it */
    uint16_t cframe_frame;  /* in a CFrame; PYTHON_NO_CFRAME = there is none */
    uint16_t code, previous, instruction, owner;
    uint16_t file, qualname, line_table, first_line, bytecode;
    uint16_t text_data;     /* of an ASCII string */
    uint8_t owner_c;        /* a frame of C code, which has no Python line */
};

#define PYTHON_NO_CFRAME UINT16_MAX

struct python_place {
    uint64_t runtime; /* address of _PyRuntime */
    uint32_t version; /* PY_VERSION_HEX */
    struct python_layout layout;
};

/* Addresses in the process. */
struct python_symbols {
    uint64_t runtime; /* _PyRuntime */
    uint64_t version; /* Py_Version, 0 = not exported: before 3.11 */
};

/* Reads the files that the process has mapped. 0, or -ENOENT: it is no CPython. */
int python_symbols_find(pid_t pid, struct python_symbols *ret);
/* Reads its memory. 0; -ENOTSUP or -EACCES with the reason in `why`. */
int python_place_read(pid_t pid, const struct python_symbols *symbols, struct python_place *ret,
                      char *why, size_t size);

/* Returns the length of the text in `out`, which ends with a line that says so when the time, the
 * room or the layout ended it. */
size_t python_stacks_read(const struct python_place *place, pid_t pid, char *out, size_t size,
                          uint64_t until_ns);

#endif
