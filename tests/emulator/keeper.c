/* SPDX-License-Identifier: Apache-2.0 */
/*
 * emulator-keeper FOLDER: the part of the kernel that outlives processes. While it runs, what a dead
 * process held is given back and its kfd/proc folder goes, within some milliseconds of its death and
 * without another emulated process looking. Ends when its standard input is closed.
 * emulator-keeper --once FOLDER does it once.
 */
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "journal.h"
#include "machine.h"
#include "state.h"

#define PERIOD_MS 5

static void look(void)
{
    state_lock();
    (void)state_reap();
    state_unlock();
}

/* True when nobody holds the other end any more. */
static bool input_closed(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    char byte;
    return poll(&input, 1, PERIOD_MS) > 0 && read(STDIN_FILENO, &byte, 1) <= 0;
}

int main(int argc, char **argv)
{
    bool once = argc == 3 && strcmp(argv[1], "--once") == 0;
    if (argc != 2 && !once) {
        (void)fprintf(stderr, "usage: emulator-keeper [--once] FOLDER\n");
        return 2;
    }
    if (machine_load(argv[argc - 1]) < 0 || journal_open() < 0 || state_open() < 0) {
        (void)fprintf(stderr, "emulator-keeper: '%s' is no emulated machine\n", argv[argc - 1]);
        return 1;
    }
    do
        look();
    while (!once && !input_closed());
    look();
    return 0;
}
