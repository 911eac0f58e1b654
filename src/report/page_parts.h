/* SPDX-License-Identifier: Apache-2.0 */
/* The page as page/compose.py made it: texts, each with the name of the part that follows it. */
#ifndef REPORT_PAGE_PARTS_H
#define REPORT_PAGE_PARTS_H

#include <stddef.h>

struct page_part {
    const char *text;
    const char *mark; /* "title", "plain", "drawings", "data"; NULL after the last */
};

extern const struct page_part page_parts[];
extern const size_t page_part_count;

#endif
