/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/impact_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

static struct impact_thread *thread_of(struct impact_file *file, uint64_t number)
{
    if (number == 0 || number > INT32_MAX)
        return NULL;
    pid_t tid = (pid_t)number;
    /* The chunks of one thread follow each other: look from the end. */
    for (size_t i = file->thread_count; i > 0; i--)
        if (file->threads[i - 1].tid == tid)
            return &file->threads[i - 1];
    if (file->thread_count == IMPACT_THREADS_MAX)
        return NULL;
    struct impact_thread *thread = &file->threads[file->thread_count++];
    thread->tid = tid;
    return thread;
}

static void take_comm(struct impact_thread *thread, struct impact_bytes bytes)
{
    size_t length = bytes.length < sizeof thread->comm - 1 ? bytes.length : sizeof thread->comm - 1;
    for (size_t i = 0; i < length && bytes.data[i] != '\0' && bytes.data[i] != '\n'; i++)
        thread->comm[i] = (char)(bytes.data[i] < ' ' || bytes.data[i] == 127 ? '?' : bytes.data[i]);
}

static void take_chunk(struct impact_file *file, const struct impact_chunk *chunk,
                       const unsigned char *data)
{
    struct impact_bytes bytes = {data, chunk->length, (chunk->flags & CHUNK_TRUNCATED) != 0};
    struct impact_thread *thread;
    switch (chunk->type) {
    case CHUNK_MAPS:
        file->maps = bytes;
        break;
    case CHUNK_REGS:
        if ((thread = thread_of(file, chunk->arg)) != NULL)
            thread->regs = bytes;
        break;
    case CHUNK_COMM:
        if ((thread = thread_of(file, chunk->arg)) != NULL)
            take_comm(thread, bytes);
        break;
    case CHUNK_STACK:
        if ((thread = thread_of(file, chunk->arg2)) != NULL) {
            thread->stack = bytes;
            thread->stack_address = chunk->arg;
        }
        break;
    default: /* the other evidence is not for unwinding */
        break;
    }
}

static void take_chunks(struct impact_file *file)
{
    struct impact_view view;
    size_t at = 0;
    while (impact_record_next(&file->record, &at, &view))
        take_chunk(file, view.chunk, (const unsigned char *)view.data);
    file->cut = at < file->record.header.arena_length;
}

static int by_number(const void *a, const void *b)
{
    const struct impact_thread *first = a;
    const struct impact_thread *second = b;
    return (first->tid > second->tid) - (first->tid < second->tid);
}

static void failed_first(struct impact_file *file)
{
    qsort(file->threads, file->thread_count, sizeof *file->threads, by_number);
    for (size_t i = 1; i < file->thread_count; i++) {
        if (file->threads[i].tid != file->record.header.tid)
            continue;
        struct impact_thread failed = file->threads[i];
        memmove(file->threads + 1, file->threads, i * sizeof *file->threads);
        file->threads[0] = failed;
        return;
    }
}

int impact_file_read(struct impact_file *file, const char *path, struct rc_err *err)
{
    *file = (struct impact_file){.thread_count = 0};
    int r = impact_record_read(&file->record, path, err);
    if (r < 0)
        return r;
    file->threads = calloc(IMPACT_THREADS_MAX, sizeof *file->threads);
    if (file->threads == NULL)
        return rc_err_set(err, -ENOMEM, "out of memory");
    take_chunks(file);
    failed_first(file);
    file->maps_text = impact_record_text(&file->record, CHUNK_MAPS);
    if (file->maps_text == NULL)
        file->maps_text = calloc(1, 1);
    return file->maps_text == NULL ? rc_err_set(err, -ENOMEM, "out of memory") : 0;
}

void impact_file_release(struct impact_file *file)
{
    impact_record_release(&file->record);
    free(file->threads);
    free(file->maps_text);
    *file = (struct impact_file){.thread_count = 0};
}
