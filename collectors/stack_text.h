/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the output of rocmcrash-unwind: the functions of the failed thread. Pure. */
#ifndef COLLECTORS_STACK_TEXT_H
#define COLLECTORS_STACK_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#define STACK_NAME_MAX 256
#define STACK_PLACE_MAX (2 * STACK_NAME_MAX + 8)

struct stack_summary {
    char top[STACK_NAME_MAX];        /* innermost function with a name that is not of the C and C++ libraries; if there
                                      * is none, one that is not part of aborting */
    char module[STACK_NAME_MAX];     /* file of frame 0 */
    char gpu_module[STACK_NAME_MAX]; /* innermost file of the ROCm stack */
    char place[STACK_PLACE_MAX];  /* "main+0x37 (segv)" of the innermost such frame, with or without a name */
    char innermost[STACK_NAME_MAX];  /* function of frame 0 */
    int top_frame, module_frame, gpu_frame, place_frame;
};

/* Strings are "" where there is none. False when the text holds no failed thread with frames. */
bool stack_text_summary(const char *text, struct stack_summary *ret);

/* The frames of the first thread in one line, "SYMBOL (MODULE) < ...", the innermost first, as many as
 * fit. False when it has none. */
bool stack_text_frames(const char *text, char *out, size_t size);

/* The place of the first thread: its innermost frame with a name outside the C and C++ libraries. */
bool stack_text_own_place(const char *text, char *out, size_t size, int *ret_frame);

#endif
