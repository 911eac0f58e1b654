/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_PAGER_H
#define CLI_PAGER_H

#include <stdbool.h>

/* Prints `text`, which say_clean() made, on stdout. If `may_page`, stdout and stdin are a terminal, and the text is
 * longer than it, it goes through $PAGER, or less(1). False if it could not be written. A reader who quits is no
 * failure. */
bool pager_print(const char *text, bool may_page);

#endif
