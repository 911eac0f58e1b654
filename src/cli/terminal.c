/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>


static bool wants_colour(bool is_terminal, const char *colour)
{
    const char *no_color = getenv("NO_COLOR"); /* no-color.org: set and not empty */
    const char *term = getenv("TERM");
    if (colour != NULL && strcmp(colour, "always") == 0)
        return true;
    if (colour != NULL && strcmp(colour, "never") == 0)
        return false;
    return is_terminal && (no_color == NULL || no_color[0] == '\0') && term != NULL &&
           term[0] != '\0' && strcmp(term, "dumb") != 0;
}

/* As the C library does, without loading a locale: the first of the three variables that is set counts. */
static bool shows_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *locale = getenv(names[i]);
        if (locale != NULL && locale[0] != '\0')
            return strcasestr(locale, "utf-8") != NULL || strcasestr(locale, "utf8") != NULL;
    }
    return false;
}

struct report_style terminal_style(int fd, const char *colour)
{
    struct termios modes;
    struct winsize size = {.ws_col = 0};
    bool is_terminal = isatty(fd);
    struct report_style style = {.colour = wants_colour(is_terminal, colour), .utf8 = shows_utf8(), .line_end = "\n"};
    if (!is_terminal)
        return style;
    style.columns = ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
    if (tcgetattr(fd, &modes) == 0 &&
        ((modes.c_oflag & OPOST) == 0 || (modes.c_oflag & ONLCR) == 0))
        style.line_end = "\r\n";
    return style;
}
