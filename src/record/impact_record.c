/* SPDX-License-Identifier: Apache-2.0 */
#include "record/impact_record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/fs.h"

#define IMPACT_RECORD_MAX (sizeof(struct shared_impact) + SHARED_IMPACT_ARENA_BYTES)

int impact_record_read(struct impact_record *file, const char *path, struct rc_err *err)
{
    *file = (struct impact_record){.data = NULL};
    ssize_t size = fs_read_all(path, IMPACT_RECORD_MAX, &file->data);
    if (size < 0) {
        impact_record_release(file);
        return rc_err_errno(err, (int)size, "cannot read '%s'", path);
    }
    if ((size_t)size < sizeof file->header) {
        impact_record_release(file);
        return rc_err_set(err, -EBADMSG, "'%s' is too short for an impact", path);
    }
    file->size = (size_t)size;
    memcpy(&file->header, file->data, sizeof file->header);
    file->header.comm[sizeof file->header.comm - 1] = '\0';
    return 0;
}

void impact_record_release(struct impact_record *file)
{
    free(file->data);
    *file = (struct impact_record){.data = NULL};
}

bool impact_record_next(const struct impact_record *file, size_t *at, struct impact_view *ret)
{
    size_t start = sizeof file->header + *at;
    if (start > file->size || file->size - start < sizeof(struct impact_chunk))
        return false;
    const struct impact_chunk *chunk = (const struct impact_chunk *)(const void *)(file->data + start);
    size_t left = file->size - start - sizeof *chunk;
    if (chunk->type == 0 || chunk->length > left)
        return false;
    size_t padded = ((size_t)chunk->length + 7) & ~(size_t)7;
    *ret = (struct impact_view){.chunk = chunk, .data = file->data + start + sizeof *chunk};
    *at += sizeof *chunk + (padded < left ? padded : left);
    return true;
}

static bool find_chunk(const struct impact_record *file, enum impact_chunk_type type,
                       struct impact_view *ret)
{
    for (size_t at = 0; impact_record_next(file, &at, ret);)
        if (ret->chunk->type == (uint32_t)type)
            return true;
    return false;
}

char *impact_record_text(const struct impact_record *file, enum impact_chunk_type type)
{
    struct impact_view view;
    if (!find_chunk(file, type, &view))
        return NULL;
    char *text = malloc((size_t)view.chunk->length + 1);
    if (text == NULL)
        return NULL;
    memcpy(text, view.data, (size_t)view.chunk->length);
    text[view.chunk->length] = '\0';
    return text;
}

uint64_t impact_record_arg(const struct impact_record *file, enum impact_chunk_type type)
{
    struct impact_view view;
    return find_chunk(file, type, &view) ? view.chunk->arg : 0;
}

bool impact_record_is_cut(const struct impact_record *file, enum impact_chunk_type type)
{
    struct impact_view view;
    return find_chunk(file, type, &view) && (view.chunk->flags & CHUNK_TRUNCATED) != 0;
}

int64_t impact_record_lines(const struct impact_record *file, enum impact_chunk_type type)
{
    struct impact_view view;
    if (!find_chunk(file, type, &view))
        return -ENOENT;
    uint64_t counted = view.chunk->arg;
    if ((view.chunk->flags & CHUNK_TRUNCATED) != 0)
        return counted > 0 && counted <= INT64_MAX ? (int64_t)counted : -ERANGE;
    int64_t lines = 0;
    for (uint64_t i = 0; i < view.chunk->length; i++)
        lines += view.data[i] == '\n';
    return lines;
}

bool impact_fds_have_gpu(const char *fds)
{
    static const char *const devices[] = {"/dev/kfd", "/dev/dri/", "/dev/nvidia", "/dev/dxg"};
    for (const char *line = fds; *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n') {
        const char *path = line + strspn(line, "0123456789");
        path += *path == ' ';
        for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++)
            if (strncmp(path, devices[i], strlen(devices[i])) == 0)
                return true;
    }
    return false;
}

bool impact_record_uses_gpu(const struct impact_record *file)
{
    char *fds = impact_record_text(file, CHUNK_FDS);
    bool found = fds != NULL && impact_fds_have_gpu(fds);
    free(fds);
    return found;
}

const char **impact_record_environ(const struct impact_record *impact, char **ret_text)
{
    struct impact_view view;
    char *text = NULL;
    size_t len = 0;
    for (size_t at = 0; text == NULL && impact_record_next(impact, &at, &view);) {
        if (view.chunk->type != CHUNK_ENVIRON)
            continue;
        len = (size_t)view.chunk->length;
        text = calloc(len + 1, 1);
        if (text == NULL)
            return NULL;
        memcpy(text, view.data, len);
    }
    if (text == NULL)
        return NULL;
    size_t count = 0;
    for (size_t i = 0; i < len; i++)
        count += text[i] == '\0';
    const char **list = calloc(count + 2, sizeof *list);
    size_t n = 0;
    for (size_t at = 0; list != NULL && at < len && n <= count; at += strlen(text + at) + 1)
        list[n++] = text + at;
    if (list == NULL) {
        free(text);
        return NULL;
    }
    *ret_text = text;
    return list;
}
