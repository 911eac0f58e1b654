/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `stacks PID`: where every Python thread of a hanging program is, without stopping it. Asks the
 * hook in it (inject/python), whose faulthandler answers a signal even when no Python code can run.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/say.h"
#include "bundle/bundle.h"
#include "cli/outcome.h"
#include "cli/verbs.h"

#define STACKS_SIGNAL 58 /* STACKS_SIGNAL of rocmcrash_hook.py */
#define FILE_END "/hook/faults"
#define DEPTH_MAX 8 /* rocmcrash, its tracer, a launcher, a shell, ... */
#define ANSWER_MS 3000
#define QUIET_MS 50 /* no more has come for so long: the answer is whole */
#define TEXT_MAX ((size_t)1 << 20)

/* The file that the process holds open for it; our own descriptor of it, -ENOENT = no hook there.
 */
static int open_faults(pid_t pid)
{
    char path[64];
    char entry[128];
    char target[FS_PATH_MAX];
    (void)snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    RC_AUTO_CLOSEDIR DIR *dir = opendir(path);
    if (dir == NULL)
        return -errno;
    const struct dirent *found;
    while ((found = readdir(dir)) != NULL) {
        (void)snprintf(entry, sizeof entry, "%s/%.32s", path, found->d_name);
        ssize_t n = readlink(entry, target, sizeof target - 1);
        target[n > 0 ? n : 0] = '\0';
        size_t end = strlen(FILE_END);
        if (n <= (ssize_t)end || strcmp(target + n - end, FILE_END) != 0)
            continue;
        int fd = open(target, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        return fd < 0 ? -errno : fd;
    }
    return -ENOENT;
}

/* Opens the file of `pid` or, if `pid` is rocmcrash or a launcher, of the first process below it that has
 * the hook. *ret_pid is that process. */
static int open_below(pid_t pid, int depth, pid_t *ret_pid)
{
    char path[64];
    char children[4096];
    int fd = open_faults(pid);
    *ret_pid = pid;
    if (fd != -ENOENT || depth == 0)
        return fd;
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    if (fs_read_text(path, children, sizeof children) <= 0)
        return -ENOENT;
    for (char *at = children, *end; *at != '\0'; at = end) {
        long child = strtol(at, &end, 10);
        if (end == at || child <= 0)
            break;
        fd = open_below((pid_t)child, depth - 1, ret_pid);
        if (fd >= 0)
            return fd;
    }
    *ret_pid = pid;
    return -ENOENT;
}

/* True if the process catches our signal. Without a handler the signal would end it.
 * "SigCgt:\t0200000000000000": signal n has bit n - 1. */
static bool takes_signal(pid_t pid)
{
    char path[64];
    char status[8192];
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    if (fs_read_text(path, status, sizeof status) <= 0)
        return false;
    const char *line = strstr(status, "\nSigCgt:\t");
    return line != NULL && (strtoull(line + 9, NULL, 16) >> (STACKS_SIGNAL - 1) & 1) != 0;
}

static off_t size_of(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 ? st.st_size : 0;
}

static off_t wait_for_answer(int fd, off_t before)
{
    off_t last = before;
    int quiet_ms = 0;
    for (int ms = 0; ms < ANSWER_MS && (last == before || quiet_ms < QUIET_MS); ms += 10) {
        (void)poll(NULL, 0, 10);
        off_t now = size_of(fd);
        quiet_ms = now == last ? quiet_ms + 10 : 0;
        last = now;
    }
    return last;
}

/* As text in the object; else on stdout. */
static bool give_from(int fd, off_t from, off_t to, struct outcome *outcome)
{
    size_t want = (size_t)(to - from) < TEXT_MAX ? (size_t)(to - from) : TEXT_MAX;
    RC_AUTO_FREE char *text = malloc(want);
    ssize_t n = text != NULL ? fs_pread_full(fd, text, want, from) : -1;
    struct buf shown;
    buf_init(&shown, 4 * want + 16);
    if (n > 0)
        say_clean(&shown, text, (size_t)n); /* names of functions are the program's */
    bool good = shown.len > 0;
    if (good && outcome->json != NULL)
        outcome_text(outcome, "stacks", buf_str(&shown));
    else if (good)
        good = fwrite(shown.data, 1, shown.len, stdout) == shown.len && fflush(stdout) == 0;
    buf_release(&shown);
    return good;
}

static int show_stacks(pid_t asked, struct outcome *outcome, struct rc_err *err)
{
    pid_t pid = asked;
    RC_AUTO_CLOSE int fd = open_below(asked, DEPTH_MAX, &pid);
    if (fd == -ENOENT && kill(pid, 0) == 0)
        return rc_err_set(err, fd, "no Python under rocmcrash that has imported a library with native code (NumPy, PyTorch); "
                                         "'rocmcrash snap %d' makes a bundle with the Python stack of any program", (int)asked);
    if (fd == -ENOENT)
        return rc_err_set(err, -ESRCH, "there is no process %d", (int)asked);
    if (fd < 0)
        return rc_err_set(err, fd, "%s", strerror(-fd));
    outcome_number(outcome, "pid", pid);
    if (!takes_signal(pid))
        return rc_err_set(err, -EPERM, "it has taken the handler for its stacks away");
    off_t before = size_of(fd);
    if (kill(pid, STACKS_SIGNAL) != 0)
        return rc_err_set(err, -errno, "%s", strerror(errno));
    off_t after = wait_for_answer(fd, before);
    if (after <= before)
        return rc_err_set(err, -ETIMEDOUT, "no answer: it does not even take signals");
    return give_from(fd, before, after, outcome) ? 0 : rc_err_set(err, -EIO, "cannot print its stacks");
}

int verb_stacks(int argc, char *argv[])
{
    static const struct plain_verb verb = {
        .name = "stacks", .usage = "stacks [--json] PID", .has_operand = true,
        .help = "Shows where every Python thread of a hanging program is. The program goes on.\n"
                "PID may be the program's or rocmcrash's own. For a Python program under\n"
                "rocmcrash that imported a library with native code (NumPy, PyTorch); 'rocmcrash\n"
                "snap PID' has the Python stack of any other."};
    struct outcome outcome;
    struct rc_err err = {""};
    struct rc_err told = {""};
    pid_t pid = 0;
    int status = plain_verb_process(&verb, argc, argv, &outcome, &pid);
    if (status != OUTCOME_GOES_ON)
        return status;
    int r = show_stacks(pid, &outcome, &err);
    if (r == -ESRCH)
        told = err;
    else if (r < 0)
        (void)rc_err_set(&told, r, "process %d: %s", (int)pid, err.msg);
    return outcome_end(&outcome, r < 0 ? VERB_EXIT_FAILED : VERB_EXIT_OK, NULL, &told);
}
