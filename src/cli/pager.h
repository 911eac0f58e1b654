/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_PAGER_H
#define CLI_PAGER_H

#include <stdbool.h>

/* `text`, which say_clean() made, on stdout: through $PAGER, else "less", where stdout and stdin are a terminal and the text is
 * longer than it, which is not dumb, and `may_page`; else, or where there is no pager, as it is. False when it could not
 * be written. A reader who quits is no failure. */
bool pager_print(const char *text, bool may_page);

#endif
