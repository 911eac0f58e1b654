/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/trace_split.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/say.h"
#include "cli/verbs.h"

#define LINE_BYTES 65536 /* a longer one is judged by its beginning */

struct keeper {
    const char *folder;
    uint64_t limit; /* of the whole trace */
    uint64_t head_bytes, tail_bytes;
    unsigned tail; /* which of the two is being written */
    int fd;
};

static pid_t child;

bool trace_line_is_runtime(const char *line, size_t len)
{
    /* Lines of libhsakmt (fmm.c, memory.c, openclose.c ...), HSAKMT_DEBUG_LEVEL=7. */
    static const char *const starts[] = {
        "[hsaKmt", "[hsakmt", "bind_mem_to_numa", "acquiring VM for ", "Initialized ",
        "pid:",    "[pid:",   "SVM alignment"};
    /* ":3:rocdevice.cpp            :2068: 12345 us: 77: [tid:0x7f] Allocate hsa host memory" */
    if (len > 3 && line[0] == ':' && isdigit((unsigned char)line[1]) && line[2] == ':')
        return true;
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++)
        if (len >= strlen(starts[i]) && memcmp(line, starts[i], strlen(starts[i])) == 0)
            return true;
    return false;
}

bool trace_line_is_error(const char *line, size_t len)
{
    return len > 3 && memcmp(line, ":1:", 3) == 0;
}

/* --- the capped trace --- */

static void open_part(struct keeper *k, const char *name)
{
    char path[FS_PATH_MAX];
    if (k->fd >= 0)
        (void)close(k->fd);
    k->fd = -1;
    if (snprintf(path, sizeof path, "%s/%s", k->folder, name) < (int)sizeof path)
        k->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
}

/* Half for the beginning; the rest for two tails, so that at least a quarter is the end. */
static void keep_line(struct keeper *k, const char *line, size_t len)
{
    if (k->head_bytes + len <= k->limit / 2) {
        k->head_bytes += len;
    } else {
        bool first = k->head_bytes != UINT64_MAX / 2;
        if (first || k->tail_bytes + len > k->limit / 4) {
            char name[16];
            k->head_bytes = UINT64_MAX / 2; /* the beginning is full: never again */
            k->tail ^= first ? 0 : 1;
            k->tail_bytes = 0;
            (void)snprintf(name, sizeof name, TRACE_TAIL, k->tail);
            open_part(k, name);
        }
        k->tail_bytes += len;
    }
    if (k->fd >= 0)
        (void)fs_write_all(k->fd, line, len);
}

static void pass_on(struct keeper *k, const char *line, size_t len)
{
    bool runtime = trace_line_is_runtime(line, len);
    if (runtime)
        keep_line(k, line, len);
    if (!runtime || trace_line_is_error(line, len))
        (void)fs_write_all(STDERR_FILENO, line, len);
}

/* Splits the stream into whole lines until no writer is left. The beginning of a line is passed on at once
 * if it is the program's: a prompt must not wait. */
static void split(struct keeper *k, int from)
{
    static char buffer[LINE_BYTES];
    size_t have = 0;
    ssize_t n = 0;
    while ((n = read(from, buffer + have, sizeof buffer - have)) > 0 || (n < 0 && errno == EINTR)) {
        have += n > 0 ? (size_t)n : 0;
        size_t at = 0;
        for (char *end; (end = memchr(buffer + at, '\n', have - at)) != NULL;) {
            size_t len = (size_t)(end - (buffer + at)) + 1;
            pass_on(k, buffer + at, len);
            at += len;
        }
        if (have - at > 0 && (have - at == sizeof buffer ||
                              (buffer[at] != ':' && buffer[at] != '[' && have - at > 32))) {
            pass_on(k, buffer + at, have - at);
            at = have;
        }
        memmove(buffer, buffer + at, have - at);
        have -= at;
    }
    if (have > 0)
        pass_on(k, buffer, have);
}

/* --- the command --- */

static void on_signal(int signal_number)
{
    if (child > 0)
        (void)kill(child, signal_number);
}

static pid_t start(char *const argv[], int pipe_end)
{
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || dup2(pipe_end, STDERR_FILENO) < 0)
        _exit(125);
    verb_put_back_child_signal();
    (void)execvp(argv[0], argv);
    (void)say_line(stderr, "rocmcrash: cannot run '%s': %s", argv[0], strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
}

/* Ends as the command ended, so that the caller sees the same status. */
static int end_like(int status)
{
    if (!WIFSIGNALED(status))
        return WEXITSTATUS(status);
    struct rlimit no_core = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &no_core);
    (void)prctl(PR_SET_DUMPABLE, 0);
    (void)signal(WTERMSIG(status), SIG_DFL);
    (void)raise(WTERMSIG(status));
    return 128 + WTERMSIG(status);
}

static int run_command(struct keeper *k, char *argv[])
{
    int ends[2];
    int status = 0;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return VERB_EXIT_FAILED;
    child = start(argv, ends[1]);
    (void)close(ends[1]);
    if (child < 0)
        return VERB_EXIT_FAILED;
    const struct sigaction forward = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    (void)sigaction(SIGTERM, &forward, NULL);
    (void)sigaction(SIGHUP, &forward, NULL);
    (void)signal(SIGINT, SIG_IGN); /* the terminal sends these to the command as well */
    (void)signal(SIGQUIT, SIG_IGN);
    split(k, ends[0]);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    child = 0;
    return end_like(status);
}

int verb_trace_split(int argc, char *argv[])
{
    struct keeper keeper = {.fd = -1};
    if (argc < 4 || strcmp(argv[2], "--") != 0 || fs_parse_u64(argv[1], &keeper.limit) < 0)
        return VERB_EXIT_USAGE;
    keeper.folder = argv[0];
    open_part(&keeper, TRACE_HEAD);
    return run_command(&keeper, argv + 3);
}
