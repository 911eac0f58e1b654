/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Classifies one record of the kernel log. The finisher, which has the order of all records, decides which
 * record is the cause and which are consequences.
 */
#include <string.h>

#include "watch/kernel_pattern.h"

enum kernel_line kernel_log_classify(const char *record)
{
    for (size_t i = 0; i < kernel_pattern_count; i++) {
        const struct kernel_pattern *p = &kernel_patterns[i];
        if (strstr(record, p->text) != NULL && (p->also == NULL || strstr(record, p->also) != NULL))
            return p->line;
    }
    return KERNEL_LINE_OTHER;
}
