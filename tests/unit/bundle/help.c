/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "bundle/bundle.h"
#include "temp_folder.h"

static char scratch_dir[TEMP_FOLDER_MAX];

int scratch_setup(void **state)
{
    (void)state;
    return temp_folder(scratch_dir, sizeof scratch_dir, "rc-bundle") ? 0 : -1;
}

int scratch_teardown(void **state)
{
    (void)state;
    return fs_remove_tree(AT_FDCWD, scratch_dir);
}

const char *scratch(const char *fmt, ...)
{
    static char paths[16][600];
    static unsigned next;
    char *path = paths[next++ % 16];
    int n = snprintf(path, sizeof paths[0], "%s/", scratch_dir);
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(path + n, sizeof paths[0] - (size_t)n, fmt, ap);
    va_end(ap);
    return path;
}

void put_file(const char *path, const void *data, size_t len)
{
    char folder[600];
    (void)snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = '\0';
    assert_int_equal(fs_mkdir_p(folder), 0);
    RC_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fs_write_all(fd, data, len), 0);
}

void put_text(const char *path, const char *text)
{
    put_file(path, text, strlen(text));
}

static uint64_t next_random(uint64_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    return *x;
}

void put_noise(const char *path, size_t len, uint64_t seed)
{
    RC_AUTO_FREE char *data = malloc(len + 8);
    uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
    for (size_t i = 0; i < len; i += 8) {
        uint64_t value = next_random(&x);
        memcpy(data + i, &value, 8);
    }
    put_file(path, data, len);
}

void put_noise_lines(const char *path, size_t len, uint64_t seed)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    RC_AUTO_FREE char *data = malloc(len + 8);
    uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
    for (size_t i = 0; i < len; i++)
        data[i] = i % 80 == 79 ? '\n' : digits[next_random(&x) >> 20 & 63];
    put_file(path, data, len);
}

char *get_file(const char *path, size_t *ret_len)
{
    char *data = NULL;
    ssize_t len = fs_read_all(path, (size_t)256 << 20, &data);
    assert_true(len >= 0);
    if (ret_len != NULL)
        *ret_len = (size_t)len;
    return data;
}

size_t count_files(const char *dir)
{
    RC_AUTO_CLOSEDIR DIR *d = opendir(dir);
    assert_non_null(d);
    size_t count = 0;
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        count += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    return count;
}

int run_program(const char *const argv[], char **ret_output)
{
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)dup2(fds[1], 1);
        (void)dup2(fds[1], 2);
        (void)execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    (void)close(fds[1]);
    struct buf all = BUF_INIT;
    char data[4096];
    ssize_t n;
    while ((n = read(fds[0], data, sizeof data)) > 0)
        buf_append(&all, data, (size_t)n);
    (void)close(fds[0]);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    *ret_output = strdup(buf_str(&all));
    buf_release(&all);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void make_stage(const char *dir)
{
    char path[600];
    static const char *const files[][2] = {
        {"SUMMARY.md", "# capacity (high)\n\nThe GPU was full.\n"},
        {"facts.json", "{\"facts\": []}\n"},
        {"gpu/gpu0/mem_info_vram_used", "17163091968\n"},
        {"gpu/gpu0/mem_info_vram_total", "17163091968\n"},
        {"kernel_log/kmsg.txt", "6,1,0,-;amdgpu 0000:03:00.0: [gfxhub] page fault\n"},
        {"output/stderr.txt", "torch.OutOfMemoryError: HIP out of memory.\n"},
        {"output/empty", ""},
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", dir, files[i][0]);
        put_text(path, files[i][1]);
    }
    (void)snprintf(path, sizeof path, "%s/blob/x.bin", dir);
    put_noise(path, 3000, 7);
    struct manifest *m = manifest_new();
    assert_non_null(m);
    assert_int_equal(manifest_add_item(m, "gpu", COLLECT_OK, NULL, 12), 0);
    assert_int_equal(manifest_add_item(m, "kernel_log", COLLECT_PARTIAL, "no \xff rights", 3), 0);
    assert_int_equal(manifest_set(m, "trace_lost", cJSON_CreateString("nothing")), 0);
    struct buf text = BUF_INIT;
    assert_int_equal(manifest_render(m, dir, &text, NULL), 0);
    (void)snprintf(path, sizeof path, "%s/manifest.json", dir);
    put_text(path, buf_str(&text));
    buf_release(&text);
    manifest_free(m);
}

const char *make_bundle(const char *name)
{
    char stage[600];
    static char path[700];
    bool elsewhere = true;
    struct rc_err err = {""};
    (void)snprintf(stage, sizeof stage, "%s", scratch("stage-%s", name));
    make_stage(stage);
    assert_int_equal(
        bundle_write(stage, name, scratch("%s", ""), path, sizeof path, &elsewhere, &err), 0);
    assert_false(elsewhere);
    return path;
}
