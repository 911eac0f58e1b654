/* SPDX-License-Identifier: Apache-2.0 */
#include "emulator.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "events.h"
#include "faults.h"
#include "journal.h"
#include "machine.h"
#include "memory.h"
#include "node.h"
#include "queue.h"
#include "state.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool on;
/* Set while start() runs: functions that it calls may enter a wrapper. */
static _Thread_local bool starting;

static void child_of_fork(void)
{
    queue_after_fork();
    events_after_fork();
    memory_after_fork();
    node_after_fork();
    faults_after_fork();
    state_after_fork();
}

static void start(void)
{
    const char *root = getenv("EMULATOR_ROOT");
    if (root == NULL || root[0] == '\0')
        return;
    starting = true;
    if (machine_load(root) == 0 && journal_open() == 0 && state_open() == 0) {
        (void)pthread_atfork(NULL, NULL, child_of_fork);
        on = true;
    } else {
        machine.root_len = 0;
    }
    starting = false;
}

bool emulator_on(void)
{
    if (starting)
        return false;
    int saved = errno;
    (void)pthread_once(&once, start);
    errno = saved;
    return on;
}
