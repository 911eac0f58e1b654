/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/patience.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define PATIENCE_MS 1500

static char what[192];

static void print_notice(int signo)
{
    (void)signo;
    int saved = errno;
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    if (poll(&out, 1, 0) == 1) /* a terminal may be stopped */
        (void)!write(STDOUT_FILENO, what, strlen(what));
    errno = saved;
}

static void set_timer(long ms)
{
    struct itimerval timer = {.it_value = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000}};
    (void)setitimer(ITIMER_REAL, &timer, NULL);
}

void patience_begin(const char *line)
{
    struct sigaction action = {.sa_handler = print_notice, .sa_flags = SA_RESTART};
    (void)snprintf(what, sizeof what, "%s", line);
    (void)fflush(stdout);
    if (sigaction(SIGALRM, &action, NULL) == 0)
        set_timer(PATIENCE_MS);
}

void patience_end(void)
{
    set_timer(0);
}
