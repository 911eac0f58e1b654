/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that test_snap.py looks at while they live: snap_programs MODE [ARGUMENT]. Each prints "ready" when
 * it does what it is for, and lives until it is killed.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t second = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both;
static volatile sig_atomic_t ended;

static void ready(void)
{
    (void)printf("ready\n");
    (void)fflush(stdout);
}

static uint64_t now_ns(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Nanoseconds that this thread was ready to run and had no CPU: the second field. */
static uint64_t waited_ns(FILE *schedstat)
{
    unsigned long long ran = 0;
    unsigned long long waited = 0;
    rewind(schedstat);
    (void)fflush(schedstat);
    return fscanf(schedstat, "%llu %llu", &ran, &waited) == 2 ? waited : 0;
}

static void *idle(void *argument)
{
    for (;;)
        (void)pause();
    return argument;
}

static void on_end(int signo)
{
    ended = signo;
}

static void start_idle(int count)
{
    pthread_attr_t small;
    (void)pthread_attr_init(&small);
    (void)pthread_attr_setstacksize(&small, 256 << 10);
    for (int i = 0; i < count; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &small, idle, NULL) != 0)
            exit(3);
    }
}

/* Prints, at SIGTERM, the longest time in ms in which this thread neither ran nor waited for a CPU. */
static int gap(int threads)
{
    uint64_t longest_ns = 0;
    FILE *schedstat = fopen("/proc/thread-self/schedstat", "r");
    if (schedstat == NULL)
        return 4;
    (void)setvbuf(schedstat, NULL, _IONBF, 0);
    start_idle(threads);
    (void)signal(SIGTERM, on_end);
    ready();
    uint64_t before_ns = now_ns();
    uint64_t delayed_ns = waited_ns(schedstat);
    while (!ended) {
        uint64_t delay_ns = waited_ns(schedstat);
        uint64_t at_ns = now_ns();
        if (waited_ns(schedstat) != delay_ns)
            continue; /* it lost the CPU in between: the two are not of one moment */
        uint64_t passed_ns = at_ns - before_ns;
        uint64_t queued_ns = delay_ns - delayed_ns;
        if (passed_ns > queued_ns && passed_ns - queued_ns > longest_ns)
            longest_ns = passed_ns - queued_ns;
        before_ns = at_ns;
        delayed_ns = delay_ns;
    }
    (void)printf("%.3f\n", (double)longest_ns / 1e6);
    return 0;
}

static void *take_second_then_first(void *argument)
{
    (void)pthread_mutex_lock(&second);
    (void)pthread_barrier_wait(&both);
    (void)pthread_mutex_lock(&first);
    return argument;
}

/* Two threads, each with the lock that the other one wants; a third only sleeps. */
static int deadlock(void)
{
    pthread_t thread;
    (void)pthread_barrier_init(&both, NULL, 2);
    start_idle(1);
    (void)pthread_create(&thread, NULL, take_second_then_first, NULL);
    (void)pthread_mutex_lock(&first);
    (void)pthread_barrier_wait(&both);
    ready();
    (void)pthread_mutex_lock(&second);
    return 0;
}

static void *hold_first(void *argument)
{
    (void)pthread_mutex_lock(&first);
    (void)pthread_barrier_wait(&both);
    (void)sleep(600);
    return argument;
}

/* The same wait for a lock, whose owner will release it. */
static int contended(void)
{
    pthread_t thread;
    (void)pthread_barrier_init(&both, NULL, 2);
    (void)pthread_create(&thread, NULL, hold_first, NULL);
    (void)pthread_barrier_wait(&both);
    ready();
    (void)pthread_mutex_lock(&first);
    return 0;
}

/* Calls that Linux ends early where the thread is stopped. Each says so if it ends. */
static void ended_early(const char *call, ssize_t result)
{
    (void)printf("%s: %zd, %s\n", call, result, result < 0 ? strerror(errno) : "");
    (void)fflush(stdout);
}

static void *receive_with_a_timeout(void *argument)
{
    const struct timeval limit = {.tv_sec = 600};
    char byte;
    int sockets[2];
    (void)argument;
    (void)socketpair(AF_UNIX, SOCK_STREAM, 0, sockets);
    (void)setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ended_early("recv with a timeout", recv(sockets[0], &byte, 1, 0));
    return NULL;
}

static void *receive_all(void *argument)
{
    char bytes[64];
    int sockets[2];
    (void)argument;
    (void)socketpair(AF_UNIX, SOCK_STREAM, 0, sockets);
    if (write(sockets[1], "abc", 3) == 3)
        ended_early("recv of all", recv(sockets[0], bytes, sizeof bytes, MSG_WAITALL));
    return NULL;
}

static void *write_much(void *argument)
{
    static const char bytes[1 << 20];
    int ends[2];
    (void)argument;
    if (pipe(ends) == 0)
        ended_early("write of 1 MiB", write(ends[1], bytes, sizeof bytes));
    return NULL;
}

static void *wait_for_events(void *argument)
{
    struct epoll_event event;
    (void)argument;
    ended_early("epoll_wait", epoll_wait(epoll_create1(0), &event, 1, 600000));
    return NULL;
}

static int calls(void)
{
    void *(*const waits[])(void *) = {receive_with_a_timeout, receive_all, write_much, wait_for_events};
    for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++) {
        pthread_t thread;
        (void)pthread_create(&thread, NULL, waits[i], NULL);
    }
    ready();
    (void)sleep(600);
    return 0;
}

static int busy(void)
{
    volatile unsigned long count = 0;
    ready();
    for (;;)
        count++;
}

int main(int argc, char *argv[])
{
    const char *mode = argc > 1 ? argv[1] : "";
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* nothing stays behind a test that fails */
    if (strcmp(mode, "gap") == 0)
        return gap(argc > 2 ? atoi(argv[2]) : 0);
    if (strcmp(mode, "deadlock") == 0)
        return deadlock();
    if (strcmp(mode, "contended") == 0)
        return contended();
    if (strcmp(mode, "busy") == 0)
        return busy();
    if (strcmp(mode, "calls") == 0)
        return calls();
    ready();
    if (strcmp(mode, "sleep") == 0)
        (void)sleep(600);
    if (strcmp(mode, "read") == 0)
        return getchar();
    return 2;
}
