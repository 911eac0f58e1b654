/* SPDX-License-Identifier: Apache-2.0 */
/* A summary that somebody else made may hold mentions, links, pictures and HTML. Pure. */
#ifndef REPORT_MARKUP_H
#define REPORT_MARKUP_H

#include <stdbool.h>

/* True if GitHub could make anything of `markdown` but headings, lists, tables, bold words and code. */
bool markup_is_foreign(const char *markdown);

#endif
