/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the kernel that outlives processes. While it runs, the memory of a dead process is
 * freed and its kfd/proc folder removed within milliseconds of its death, even if no other emulated
 * process runs. `emulator-keeper FOLDER PROGRAM [ARG...]` runs a program on the machine, keeps it
 * meanwhile, and ends with the program's status.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "journal.h"
#include "machine.h"
#include "state.h"

#define PERIOD_MS 5
#define LIBRARY "librocmcrash-emulator.so"

static void look(void)
{
    const struct timespec pause = {0, PERIOD_MS * 1000000l};
    (void)nanosleep(&pause, NULL);
    state_lock();
    (void)state_reap();
    state_unlock();
}

/* True if no process holds the other end. */
static bool input_closed(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    char bytes[64];
    return poll(&input, 1, 0) > 0 && read(STDIN_FILENO, bytes, sizeof bytes) <= 0;
}

/* The library lies beside this program; libraries that were preloaded stay after it. */
static int set_environment(void)
{
    char path[PATH_MAX];
    char preload[3 * PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - sizeof LIBRARY - 1);
    if (len <= 0)
        return -errno;
    path[len] = '\0';
    char *slash = strrchr(path, '/');
    if (slash == NULL)
        return -EINVAL;
    memcpy(slash + 1, LIBRARY, sizeof LIBRARY);
    const char *others = getenv("LD_PRELOAD");
    int n = snprintf(preload, sizeof preload, "%s%s%s", path, others != NULL ? ":" : "",
                     others != NULL ? others : "");
    if (n < 0 || (size_t)n >= sizeof preload)
        return -ENAMETOOLONG;
    /* rocmcrash's own processes read the emulated machine, too. */
    if (setenv("LD_PRELOAD", preload, 1) != 0 || setenv("EMULATOR_ROOT", machine.root, 1) != 0 ||
        setenv("ROCMCRASH_LOADER", "keep", 1) != 0)
        return -ENOMEM;
    return 0;
}

static int run(char **argv)
{
    pid_t child = fork();
    if (child < 0)
        return 125;
    if (child == 0) {
        if (set_environment() == 0)
            (void)execvp(argv[0], argv);
        (void)fprintf(stderr, "emulator-keeper: cannot run '%s': %s\n", argv[0], strerror(errno));
        _exit(errno == ENOENT ? 127 : 126);
    }
    /* The terminal sends these to the program as well; the program decides. */
    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGQUIT, SIG_IGN);
    int status = 0;
    while (waitpid(child, &status, WNOHANG) == 0)
        look();
    look();
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
    char root[PATH_MAX];
    bool once = argc == 3 && strcmp(argv[1], "--once") == 0;
    int folder = once ? 2 : 1;
    if (argc < 2 || argv[folder][0] == '-') {
        (void)fprintf(stderr, "usage: emulator-keeper FOLDER [PROGRAM [ARG...]]\n"
                              "       emulator-keeper --once FOLDER\n"
                              "without a program it ends when its standard input is closed\n");
        return 2;
    }
    if (realpath(argv[folder], root) == NULL || machine_load(root) < 0 || journal_open() < 0 ||
        state_open() < 0) {
        (void)fprintf(stderr, "emulator-keeper: '%s' is no emulated machine\n", argv[folder]);
        return 125;
    }
    if (!once && argc > 2)
        return run(argv + 2);
    while (!once && !input_closed())
        look();
    look();
    return 0;
}
