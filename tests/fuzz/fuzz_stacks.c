/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: the way from a dying process' copied memory to names of functions. First byte: even =
 * the text that the unwinder printed (symbols are the target's), odd = a copy of a process as the
 * unwinder reads it.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "collectors/stack_text.h"
#include "pieces.h"
#include "probe/impact_file.h"
#include "probe/modules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile unsigned char seen;

static void touch(const struct impact_bytes *bytes)
{
    for (size_t i = 0; i < bytes->length; i++)
        seen = bytes->data[i];
}

static void read_copy(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"impact.0"};
    char path[512];
    struct impact_file file;
    struct rc_err err = {""};
    pieces_fill(names, 1, data, size);
    (void)snprintf(path, sizeof path, "%s/impact.0", pieces_folder());
    if (impact_file_read(&file, path, &err) == 0) {
        struct modules modules = {.count = 0};
        for (size_t i = 0; i < file.thread_count; i++) {
            touch(&file.threads[i].regs);
            touch(&file.threads[i].stack);
            if (memchr(file.threads[i].comm, 0, sizeof file.threads[i].comm) == NULL)
                abort();
        }
        if (file.maps_text != NULL && modules_parse(&modules, file.maps_text) == 0) {
            for (size_t i = 0; i < modules.mapping_count; i++)
                (void)modules_mapping_at(&modules, modules.mappings[i].start);
            (void)modules_at(&modules, UINT64_C(0x7f0000001000));
        }
        modules_release(&modules);
    }
    impact_file_release(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct stack_summary summary;
    if (size == 0)
        return 0;
    if (data[0] % 2 != 0) {
        read_copy(data + 1, size - 1);
        return 0;
    }
    char *text = strndup((const char *)data + 1, size - 1);
    if (text == NULL)
        abort();
    if (stack_text_summary(text, &summary) &&
        (memchr(summary.top, 0, sizeof summary.top) == NULL ||
         memchr(summary.module, 0, sizeof summary.module) == NULL ||
         memchr(summary.gpu_module, 0, sizeof summary.gpu_module) == NULL))
        abort();
    free(text);
    return 0;
}
