/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/keys.h"

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <termios.h>
#include <unistd.h>

#include "base/proc_stat.h"
#include "launch/awaits_input.h"
#include "launch/tree_scan.h"
#include "watch/relay.h"

#define PAGING_MS 20 /* a key appears as quickly as a person sees */
#define LOOK_MS 250    /* as often as the relay looks at the modes of a quiet terminal */
#define KEYS_MAX 256

/* On a master, tcgetattr() gives the modes of the slave. */
static bool takes_single_keys(int fd)
{
    struct termios modes;
    return tcgetattr(fd, &modes) == 0 && (modes.c_lflag & (ICANON | ECHO)) == 0;
}

static bool is_paging(const struct relay *relay)
{
    return relay->keys >= 0 && relay->master >= 0 && takes_single_keys(relay->master) && takes_single_keys(relay->keys);
}

static bool has_keys(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) > 0 && (p.revents & POLLIN) != 0;
}

/* The supervisor takes the processes that lost their parent, so all of the run are below it. A pager has one thread. Another
 * thread may hold the lock of a process' memory while its GPU hangs, and we would wait with it. */
static bool somebody_waits(dev_t terminal)
{
    static pid_t pids[TREE_SCAN_MAX];
    uint32_t count = tree_scan_list(getpid(), pids, TREE_SCAN_MAX);
    for (uint32_t i = 0; i < count; i++)
        if (proc_status_number(pids[i], "Threads") == 1 && awaits_terminal(pids[i], terminal))
            return true;
    return false;
}

void keys_turn(const struct relay *relay)
{
    char typed[KEYS_MAX];
    if (!is_paging(relay) || !has_keys(relay->keys) || !somebody_waits(relay->terminal))
        return;
    /* EIO: we are in the background, and so is the reader. */
    ssize_t n = read(relay->keys, typed, sizeof typed);
    if (n > 0)
        (void)!write(relay->master, typed, (size_t)n); /* a pty takes 4095 bytes */
}

int keys_due_ms(const struct relay *relay)
{
    if (relay->keys < 0 || relay->master < 0)
        return -1;
    return is_paging(relay) ? PAGING_MS : LOOK_MS;
}
