/* SPDX-License-Identifier: Apache-2.0 */
/* The page as page/compose.py made it: texts, each with the name of what stands behind it. */
#ifndef REPORT_PAGE_PARTS_H
#define REPORT_PAGE_PARTS_H

#include <stddef.h>

struct page_part {
    const char *text;
    const char *mark; /* "title", "plain", "drawings", "data"; NULL behind the last */
};

extern const struct page_part page_parts[];
extern const size_t page_part_count;

#endif
