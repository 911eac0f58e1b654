/* SPDX-License-Identifier: Apache-2.0 */
/* The "watch" lines for the kernel log in templates/messages.rules. The first one that matches decides. */
#ifndef WATCH_KERNEL_PATTERN_H
#define WATCH_KERNEL_PATTERN_H

#include "watch/kernel_log.h"

struct kernel_pattern {
    enum kernel_line line;
    const char *text;
    const char *also; /* must occur in the line, too; NULL = no such condition */
};

extern const struct kernel_pattern kernel_patterns[];
extern const size_t kernel_pattern_count;

#endif
