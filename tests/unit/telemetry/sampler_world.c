/* SPDX-License-Identifier: Apache-2.0 */
#include "sampler_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fs.h"
#include "help.h"
#include "record/shared.h"
#include "telemetry/sampler_internal.h"

int world_set_up(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    help_make_dir(w->root, sizeof w->root);
    help_fake_machine(w->root, 8, 1000000);
    fs_set_sysroot(w->root);
    w->shared = shared_create(&w->fd, NULL);
    w->sampler = calloc(1, sizeof *w->sampler);
    *state = w;
    return w->shared == NULL || w->sampler == NULL;
}

int world_tear_down(void **state)
{
    struct world *w = *state;
    fs_set_sysroot(NULL);
    help_remove(w->root);
    (void)munmap(w->shared, sizeof *w->shared);
    (void)close(w->fd);
    free(w->sampler);
    free(w);
    return 0;
}

void world_begin(struct world *w)
{
    sampler_init(w->sampler, w->shared);
    sampler_begin(w->sampler);
}

void world_turn_after(struct world *w, uint64_t ns)
{
    w->sampler->now_ns += ns;
    (void)sampler_turn(w->sampler);
}

/* A pipe says when the child runs. */
pid_t start_sleeper(int depth, pid_t *ret_deepest)
{
    int pipe_fds[2];
    assert_int_equal(pipe(pipe_fds), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        pid_t below = 0;
        pid_t deepest = getpid();
        if (depth > 0)
            below = start_sleeper(depth - 1, &deepest);
        (void)!write(pipe_fds[1], &deepest, sizeof deepest);
        if (below > 0)
            (void)waitpid(below, NULL, 0);
        for (;;)
            (void)pause();
    }
    (void)close(pipe_fds[1]);
    assert_int_equal(read(pipe_fds[0], ret_deepest, sizeof *ret_deepest), sizeof *ret_deepest);
    (void)close(pipe_fds[0]);
    return pid;
}

void end_sleeper(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}
