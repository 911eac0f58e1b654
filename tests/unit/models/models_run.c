/* SPDX-License-Identifier: Apache-2.0 */
#include "models_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fs.h"
#include "make_model.h"

extern const struct collector collector_models;

void run_models(struct run *run)
{
    struct collect_ctx ctx = {.run_dir = run->run_dir ? run->run_dir : "",
                              .argv = run->argv,
                              .cwd = temp_dir(),
                              .maps = run->maps ? run->maps : "",
                              .fds = run->fds ? run->fds : "",
                              .environ_at_impact = run->environment,
                              .start_wall_ns = run->start_wall_ns,
                              .hash_budget_ms = run->budget_ms,
                              .deadline_mono_ns = clock_mono_ns() + UINT64_C(30000000000)};
    run->out = sink_new();
    run->status = collector_models.run(&ctx, run->out);
}

static void make_old(const char *path)
{
    struct timespec times[2] = {{.tv_sec = 1700000000, .tv_nsec = 123456789},
                                {.tv_sec = 1700000000, .tv_nsec = 123456789}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

void tiny_gguf(const char *path)
{
    struct buf b = BUF_INIT;
    make_gguf(&b, 3, false);
    write_bytes(path, b.data, b.len);
    make_old(path);
    buf_release(&b);
}

void tiny_safetensors(const char *path)
{
    struct buf b = BUF_INIT;
    make_safetensors(&b, small_safetensors_json, SMALL_SAFETENSORS_DATA);
    write_bytes(path, b.data, b.len);
    make_old(path);
    buf_release(&b);
}

void sha256sum(const char *program, const char *path, char *out, size_t len)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(ends[1], 1);
        (void)execlp(program, program, path, (char *)NULL);
        _exit(127);
    }
    (void)close(ends[1]);
    assert_int_equal(read(ends[0], out, len), len);
    out[len] = '\0';
    (void)close(ends[0]);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
}

void fill(const char *path, uint64_t size, unsigned seed)
{
    unsigned char *block = malloc(MIB);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && block != NULL);
    for (uint64_t at = 0; at < size; at += MIB) {
        for (size_t i = 0; i < MIB; i++) {
            seed = seed * 1103515245u + 12345u;
            block[i] = (unsigned char)(seed >> 16);
        }
        uint64_t n = size - at < MIB ? size - at : MIB;
        assert_int_equal(fs_write_all(fd, block, (size_t)n), 0);
    }
    (void)close(fd);
    free(block);
    make_old(path);
}

int models_set_up(void **state)
{
    (void)state;
    (void)setenv("XDG_CACHE_HOME", temp_path("cache"), 1);
    return 0;
}

int models_tear_down(void **state)
{
    (void)state;
    temp_remove();
    return 0;
}
