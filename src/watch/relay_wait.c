/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting, in the relay process. poll() on the target's pipe would slow down the target: since Linux
 * 5.14 a pipe that was polled once wakes its readers at every write, not only at a write into an empty
 * pipe (pipe->poll_usage in fs/pipe.c; a write of 80 bytes takes a tenth longer). tee(2) of one byte
 * into a pipe of our own (the bell) waits without that cost. tee(2) does not notice that the caller's
 * end was closed, and has no time limit. So a thread watches the caller's end, and a timer runs; each
 * interrupts tee(2) by a signal.
 */
#include "watch/relay_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#define IDLE_WAIT_MS 1000
#define SAMPLING_WAIT_MS 20
#define BLOCKED_WAIT_MS 100
#define TELL_AGAIN_MS 10
#define GUARD_STACK_BYTES ((size_t)32 << 10)

static void interrupt(int signo)
{
    (void)signo; /* the handler exists so that system calls end with EINTR */
}

static bool has_hung_up(const struct carrier *c, int wait_ms)
{
    struct pollfd p = {.fd = c->relay->down};
    return poll(&p, 1, wait_ms) > 0;
}

/* A signal just before the system call does not interrupt it, so the signal is sent repeatedly. */
static void *guard_run(void *arg)
{
    const struct carrier *c = arg;
    while (!has_hung_up(c, -1)) {
        if (errno != EINTR)
            return NULL;
    }
    for (;;) {
        (void)pthread_kill(c->main_thread, SIGUSR1);
        (void)poll(NULL, 0, TELL_AGAIN_MS);
    }
}

static bool guard_start(struct carrier *c)
{
    pthread_attr_t attr;
    pthread_t thread;
    c->main_thread = pthread_self();
    if (pthread_attr_init(&attr) != 0)
        return false;
    size_t stack = (size_t)PTHREAD_STACK_MIN;
    if (stack < GUARD_STACK_BYTES)
        stack = GUARD_STACK_BYTES;
    bool started = pthread_attr_setstacksize(&attr, stack) == 0 &&
                   pthread_create(&thread, &attr, guard_run, c) == 0;
    (void)pthread_attr_destroy(&attr);
    return started;
}

static void tick(struct carrier *c, bool on)
{
    if (on == c->ticking)
        return;
    struct timeval every = {.tv_usec = on ? SAMPLING_WAIT_MS * 1000 : 0};
    struct itimerval timer = {.it_interval = every, .it_value = every};
    c->ticking = setitimer(ITIMER_REAL, &timer, NULL) == 0 ? on : c->ticking;
}

static void forget_bell(struct carrier *c)
{
    tick(c, false);
    relay_close(&c->bell[0]);
    relay_close(&c->bell[1]);
}

/* All signals are blocked while the thread starts, and stay blocked in it. */
void wait_init(struct carrier *c)
{
    c->bell[0] = c->bell[1] = -1;
    if (c->relay->way != RELAY_PIPE || pipe2(c->bell, O_CLOEXEC) != 0)
        return;
    struct sigaction action = {.sa_handler = interrupt};
    sigset_t ours;
    (void)sigemptyset(&ours);
    (void)sigaddset(&ours, SIGUSR1);
    (void)sigaddset(&ours, SIGALRM);
    if (sigaction(SIGUSR1, &action, NULL) == 0 && sigaction(SIGALRM, &action, NULL) == 0 &&
        guard_start(c) && sigprocmask(SIG_UNBLOCK, &ours, NULL) == 0)
        return;
    forget_bell(c);
}

static bool set_aside(const struct carrier *c)
{
    return c->peek[0].unread + c->peek[1].unread > 0;
}

/* Takes the byte out of the bell again. A full bell would make tee(2) wait for ever. */
static void empty_bell(struct carrier *c)
{
    char byte;
    ssize_t n;
    do {
        n = read(c->bell[0], &byte, 1);
    } while (n < 0 && errno == EINTR);
    if (n != 1)
        forget_bell(c);
}

static void wait_by_tee(struct carrier *c)
{
    tick(c, set_aside(c));
    ssize_t n = tee(c->relay->from, c->bell[1], 1, 0);
    int error = n < 0 ? errno : 0;
    carry_turn(c);
    c->something_waits = error == 0;
    if (n > 0) {
        empty_bell(c);
    } else if (error != 0 && has_hung_up(c, 0)) {
        carry_hung_up(c, EPIPE);
    } else if (error == EINTR) {
        look_catch_up(c);
    } else if (error != 0) {
        forget_bell(c);
    }
}

static void wait_by_poll(struct carrier *c)
{
    struct relay *relay = c->relay;
    int wait_ms = relay->way == RELAY_TERMINAL ? terminal_wait_ms(c) : IDLE_WAIT_MS;
    if (set_aside(c) && wait_ms > SAMPLING_WAIT_MS)
        wait_ms = SAMPLING_WAIT_MS;
    struct pollfd p[3] = {
        {.fd = relay->master >= 0 ? relay->master : relay->from, .events = POLLIN},
        {.fd = relay->down, .events = 0},
        {.fd = relay->asked[0], .events = POLLIN},
    };
    int n = poll(p, 3, wait_ms);
    carry_turn(c);
    c->something_waits = n > 0 && relay->master < 0 && (p[0].revents & (POLLIN | POLLHUP)) != 0;
    if (n == 0)
        look_catch_up(c);
    if (n > 0 && (p[1].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0)
        carry_hung_up(c, (p[1].revents & POLLHUP) != 0 ? EIO : EPIPE);
}

void wait_for_bytes(struct carrier *c)
{
    if (!set_aside(c))
        carry_idle(c);
    if (c->bell[0] >= 0)
        wait_by_tee(c);
    else
        wait_by_poll(c);
}

void wait_for_room(struct carrier *c, unsigned *refused)
{
    if (*refused > 0)
        (void)poll(NULL, 0, *refused < 50 ? (int)*refused : 50);
    (*refused)++;
    for (;;) {
        struct pollfd p = {.fd = c->relay->down, .events = POLLOUT};
        int n = poll(&p, 1, BLOCKED_WAIT_MS);
        carry_turn(c);
        if (n > 0 || (n < 0 && errno != EINTR))
            return; /* the next write reports an error of the stream */
        look_behind(c);
        *refused = 0;
    }
}
