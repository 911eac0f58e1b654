/* SPDX-License-Identifier: Apache-2.0 */
#include "sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "diagnose/fact.h"
#include "temp_folder.h"

struct collect_out *sink_new(void)
{
    struct collect_out *out = calloc(1, sizeof *out);
    if (out == NULL)
        abort();
    out->facts = facts_new();
    return out;
}

void sink_free(struct collect_out *out)
{
    for (size_t i = 0; i < out->file_count; i++)
        free(out->files[i].data);
    facts_free(out->facts);
    free(out);
}

const char *sink_file(const struct collect_out *out, const char *name)
{
    for (size_t i = 0; i < out->file_count; i++) {
        if (strcmp(out->files[i].name, name) == 0)
            return out->files[i].data;
    }
    return "";
}

const char *sink_text(const struct collect_out *out, const char *fact)
{
    const char *text = NULL;
    return facts_get_text(out->facts, fact, &text) ? text : NULL;
}

int64_t sink_integer(const struct collect_out *out, const char *fact)
{
    int64_t value = 0;
    return facts_get_integer(out->facts, fact, &value) ? value : INT64_MIN;
}

int64_t sink_at(const struct collect_out *out, const char *fact, enum fact_when when)
{
    const struct fact *f = facts_find(out->facts, fact, when);
    return f != NULL && f->status == FACT_PRESENT ? f->integer : INT64_MIN;
}

const char *sink_missing(const struct collect_out *out, const char *fact)
{
    const struct fact *f = facts_best(out->facts, fact);
    return f == NULL || f->status == FACT_PRESENT ? NULL : f->reason;
}

int collect_open(struct collect_out *out, const char *name)
{
    (void)out;
    (void)name;
    return -ENOSYS;
}

int collect_write(struct collect_out *out, const char *name, const void *data, size_t len)
{
    if (out->file_count == 16 || strstr(name, "..") != NULL || name[0] == '/')
        abort();
    struct sink_file *f = &out->files[out->file_count++];
    (void)snprintf(f->name, sizeof f->name, "%s", name);
    f->data = calloc(1, len + 1);
    if (f->data == NULL)
        abort();
    memcpy(f->data, data, len);
    f->len = len;
    return 0;
}

void collect_integer(struct collect_out *out, const char *name, enum fact_when when, int64_t value,
                     const char *source)
{
    (void)facts_set_integer(out->facts, name, when, value, source);
}

void collect_text(struct collect_out *out, const char *name, enum fact_when when, const char *value,
                  const char *source)
{
    (void)facts_set_text(out->facts, name, when, value, source);
}

void collect_boolean(struct collect_out *out, const char *name, enum fact_when when, bool value,
                     const char *source)
{
    (void)facts_set_boolean(out->facts, name, when, value, source);
}

void collect_missing(struct collect_out *out, const char *name, enum fact_when when,
                     enum fact_status status, const char *reason, const char *source)
{
    (void)facts_set_missing(out->facts, name, when, status, reason, source);
}

enum collect_status collect_reason(struct collect_out *out, enum collect_status status,
                                   const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(out->reason, sizeof out->reason, fmt, args);
    va_end(args);
    return status;
}

static char temp_root[TEMP_FOLDER_MAX];

const char *temp_dir(void)
{
    if (temp_root[0] == '\0' && !temp_folder(temp_root, sizeof temp_root, "rc-models"))
        abort();
    return temp_root;
}

void temp_remove(void)
{
    if (temp_root[0] != '\0')
        (void)fs_remove_tree(AT_FDCWD, temp_root);
    temp_root[0] = '\0';
}

const char *temp_path(const char *format, ...)
{
    static char buffers[16][1024];
    static unsigned next;
    char *path = buffers[next++ % 16];
    int n = snprintf(path, 1024, "%s/", temp_dir());
    va_list args;
    va_start(args, format);
    (void)vsnprintf(path + n, 1024 - (size_t)n, format, args);
    va_end(args);
    char folder[1024];
    (void)snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = '\0';
    if (fs_mkdir_p(folder) < 0)
        abort();
    return path;
}

void write_bytes(const char *path, const void *data, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || fs_write_all(fd, data, len) < 0 || close(fd) != 0)
        abort();
}

void write_text(const char *path, const char *text)
{
    write_bytes(path, text, strlen(text));
}
