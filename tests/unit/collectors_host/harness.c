/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "record/shared.h"

static const char *const nothing[] = {NULL};

int harness_setup(void **state)
{
    struct harness *h = calloc(1, sizeof *h);
    if (h == NULL)
        return -1;
    if (!temp_folder(h->dir, sizeof h->dir, "rc-host"))
        return -1;
    (void)snprintf(h->stage, sizeof h->stage, "%s/stage", h->dir);
    (void)snprintf(h->root, sizeof h->root, "%s/root", h->dir);
    (void)snprintf(h->run_dir, sizeof h->run_dir, "%s/run", h->dir);
    h->ctx = (struct collect_ctx){.run_dir = "",
                                  .argv = nothing,
                                  .cwd = "",
                                  .maps = "",
                                  .fds = "",
                                  .environ_at_impact = nothing,
                                  .kmsg_start_seq = UINT64_MAX};
    *state = h;
    return fs_mkdir_p(h->stage) | fs_mkdir_p(h->root) | fs_mkdir_p(h->run_dir);
}

int harness_teardown(void **state)
{
    struct harness *h = *state;
    fs_set_sysroot(NULL);
    facts_free(h->facts);
    (void)fs_remove_tree(AT_FDCWD, h->dir);
    free(h);
    return 0;
}

static void on_row(const struct runner_row *row, void *arg)
{
    struct harness *h = arg;
    h->rows++;
    h->status = row->status;
    h->bytes = row->bytes;
    (void)snprintf(h->reason, sizeof h->reason, "%s", row->reason);
}

void harness_run(struct harness *h, const struct collector *c, const char *sysroot)
{
    facts_free(h->facts);
    h->facts = facts_new();
    h->rows = 0;
    (void)fs_remove_tree(AT_FDCWD, h->stage);
    assert_int_equal(fs_mkdir_p(h->stage), 0);
    fs_set_sysroot(sysroot != NULL ? sysroot : "");
    const struct collector *const list[] = {c, NULL};
    struct runner_options options = {.stage_dir = h->stage, .cancel_fd = -1, .callback_arg = h};
    assert_int_equal(runner_run(list, c->phase, &h->ctx, &options, h->facts, on_row, NULL), 0);
    assert_int_equal(h->rows, 1);
    /* No input may cause a crash, a sanitizer report or a missed deadline. */
    if (h->status > COLLECT_FAILED)
        fail_msg("%s: status %d, %s", c->name, (int)h->status, h->reason);
    if (h->status != COLLECT_OK)
        assert_true(h->reason[0] != '\0');
    /* A missing fact says why; a present one says from where. */
    for (size_t i = 0; i < facts_count(h->facts); i++) {
        const struct fact *f = facts_at(h->facts, i);
        if (f->status != FACT_PRESENT && (f->reason == NULL || f->reason[0] == '\0'))
            fail_msg("%s has no reason", f->name);
        if (f->source == NULL || f->source[0] == '\0')
            fail_msg("%s has no source", f->name);
    }
}

void harness_bytes(struct harness *h, const char *path, const void *data, size_t len)
{
    char full[512];
    (void)snprintf(full, sizeof full, "%s%s", h->root, path);
    char *slash = strrchr(full, '/');
    *slash = '\0';
    assert_int_equal(fs_mkdir_p(full), 0);
    *slash = '/';
    RC_AUTO_CLOSE int fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fs_write_all(fd, data, len), 0);
}

void harness_file(struct harness *h, const char *path, const char *text)
{
    harness_bytes(h, path, text, strlen(text));
}

void harness_clear_root(struct harness *h)
{
    (void)fs_remove_tree(AT_FDCWD, h->root);
    assert_int_equal(fs_mkdir_p(h->root), 0);
}

void harness_impact(struct harness *h, int index, int pid, int type, const char *text)
{
    char path[TEMP_FOLDER_MAX + 64];
    (void)snprintf(path, sizeof path, "%s/impact.%d", h->run_dir, index);
    struct impact_chunk other = {.type = CHUNK_COMM, .length = 5};
    struct impact_chunk chunk = {.type = (uint32_t)type, .length = strlen(text)};
    size_t padded = (strlen(text) + 7) & ~(size_t)7;
    struct shared_impact head = {
        .state = IMPACT_COMPLETE, .pid = pid, .arena_length = 2 * sizeof chunk + 8 + padded};
    RC_AUTO_FREE char *payload = calloc(1, padded + 1);
    memcpy(payload, text, strlen(text));
    RC_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fs_write_all(fd, &head, sizeof head), 0);
    assert_int_equal(fs_write_all(fd, &other, sizeof other), 0);
    assert_int_equal(fs_write_all(fd, "comm\0\0\0\0", 8), 0);
    assert_int_equal(fs_write_all(fd, &chunk, sizeof chunk), 0);
    assert_int_equal(fs_write_all(fd, payload, padded), 0);
    h->ctx.run_dir = h->run_dir;
}

char *harness_staged(struct harness *h, const char *name)
{
    char path[TEMP_FOLDER_MAX + 256];
    char *data = NULL;
    (void)snprintf(path, sizeof path, "%s/%s", h->stage, name);
    return fs_read_all(path, (size_t)8 << 20, &data) >= 0 ? data : NULL;
}

int64_t harness_integer(struct harness *h, const char *name)
{
    int64_t v = 0;
    return facts_get_integer(h->facts, name, &v) ? v : -12345;
}

const char *harness_text(struct harness *h, const char *name)
{
    const char *v = "";
    return facts_get_text(h->facts, name, &v) ? v : "";
}

int harness_fact_status(struct harness *h, const char *name)
{
    const struct fact *f = facts_best(h->facts, name);
    return f != NULL ? (int)f->status : -1;
}
