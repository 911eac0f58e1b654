/* SPDX-License-Identifier: Apache-2.0 */
/* Dies in known functions. Prints where crash_here() lies in its file, then crashes as asked. */
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

extern char __executable_start;

/* No tail calls, nothing optimised away: each function has a frame of its own. */
#define FRAME() __asm__ volatile("" ::: "memory")

/* gcc 14 clones a function that is only marked noinline, and calls it middle_call.isra.0. */
#if defined(__clang__)
#define OWN_FRAME __attribute__((noinline))
#else
#define OWN_FRAME __attribute__((noinline, noipa))
#endif

static sem_t ready;

static OWN_FRAME int crash_here(volatile int *where)
{
    *where = 1;
    FRAME();
    return 2;
}

static OWN_FRAME int middle_call(volatile int *where)
{
    int r = crash_here(where);
    FRAME();
    return r + 1;
}

static OWN_FRAME int outer_call(volatile int *where)
{
    int r = middle_call(where);
    FRAME();
    return r + 1;
}

/* The call is the last instruction: its return address belongs to the next function. */
static OWN_FRAME __attribute__((noreturn)) void ends_in_abort(void)
{
    abort();
}

static OWN_FRAME void next_function(void)
{
    FRAME();
}

static int others_sleep(void)
{
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *entry;
    int awake = 0;
    while (tasks != NULL && (entry = readdir(tasks)) != NULL) {
        char path[300];
        char text[256] = "";
        (void)snprintf(path, sizeof path, "/proc/self/task/%s/stat", entry->d_name);
        FILE *file = entry->d_name[0] == '.' || atoi(entry->d_name) == syscall(SYS_gettid)
                         ? NULL
                         : fopen(path, "re");
        if (file == NULL)
            continue;
        (void)fgets(text, sizeof text, file);
        (void)fclose(file);
        const char *state = strrchr(text, ')');
        awake += state == NULL || state[2] != 'S';
    }
    (void)closedir(tasks);
    return awake == 0;
}

static void *crashing_thread(void *arg)
{
    (void)pthread_setname_np(pthread_self(), "crasher");
    /* Waits until all threads have reached their waiting place: before that their stacks differ. */
    for (int i = 0; i < 4; i++)
        (void)sem_wait(&ready);
    while (!others_sleep())
        (void)sched_yield();
    int r = outer_call(arg);
    FRAME();
    return (void *)(intptr_t)r;
}

static OWN_FRAME void idle_wait_here(void)
{
    (void)sem_post(&ready);
    for (;;) {
        (void)pause();
        FRAME();
    }
}

static void *idle_thread(void *arg)
{
    idle_wait_here();
    return arg;
}

static void on_fault(int signo)
{
    (void)signo;
    ends_in_abort();
}

static OWN_FRAME int recurse_deeply(int depth)
{
    volatile char room[256];
    memset((void *)room, depth, sizeof room);
    if (depth == 0)
        return outer_call((int *)0x10);
    int r = recurse_deeply(depth - 1);
    FRAME();
    return r + room[3];
}

static int with_threads(void)
{
    pthread_t threads[4];
    for (int i = 0; i < 3; i++)
        (void)pthread_create(&threads[i], NULL, idle_thread, NULL);
    (void)pthread_create(&threads[3], NULL, crashing_thread, (void *)0x10);
    (void)sem_post(&ready);
    (void)pthread_join(threads[3], NULL);
    return 0;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    (void)sem_init(&ready, 0, 0);
    (void)printf("%lx\n", (unsigned long)((uintptr_t)crash_here - (uintptr_t)&__executable_start));
    (void)fflush(stdout);
    if (strcmp(mode, "thread") == 0)
        return with_threads();
    if (strcmp(mode, "abort") == 0)
        (void)signal(SIGSEGV, on_fault);
    if (strcmp(mode, "deep") == 0)
        return recurse_deeply(200);
    next_function();
    int r = outer_call((int *)0x10);
    FRAME();
    return r;
}
