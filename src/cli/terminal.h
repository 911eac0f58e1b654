/* SPDX-License-Identifier: Apache-2.0 */
/* Abilities of a terminal: width, colour, line ends. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stdbool.h>

#include "report/report.h"

/* `colour`: "auto" (or NULL), "always", "never". Auto: on a terminal that has colours and where NO_COLOR is
 * not set. Output that is no terminal is not wrapped. */
struct report_style terminal_style(int fd, const char *colour);

#endif
