/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: what a run directory holds: samples, thinned and not, and the copy of a dying
 * process. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "record/impact_record.h"
#include "telemetry/segment.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t count_records(const unsigned char *data, size_t size)
{
    struct sample_header header;
    size_t entries_at = 0;
    uint64_t skipped = 0;
    uint64_t count = 0;
    for (size_t at = 0; segment_next(data, size, &at, &header, &entries_at, &skipped); count++) {
        if (at > size || skipped > size)
            abort();
        for (uint32_t i = 0; i < header.entries; i++)
            (void)segment_entry(data, entries_at, i);
    }
    return count;
}

static void read_impact(const uint8_t *data, size_t size)
{
    static int fd = -1;
    char path[64];
    if (fd < 0)
        fd = memfd_create("impact", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct impact_record record;
    struct impact_view view;
    if (impact_record_read(&record, path, NULL) < 0)
        return;
    size_t last = 0;
    for (size_t at = 0; impact_record_next(&record, &at, &view); last = at)
        if (at <= last || at > record.size)
            abort();
    for (int type = 0; type < 20; type++)
        free(impact_record_text(&record, (enum impact_chunk_type)type));
    impact_record_release(&record);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned char out[SEGMENT_BYTES];
    if (size == 0)
        return 0;
    if ((data[0] & 1u) == 0) {
        read_impact(data + 1, size - 1);
        return 0;
    }
    unsigned char *copy = malloc(size);
    if (copy == NULL)
        abort();
    memcpy(copy, data + 1, size - 1);
    uint64_t records = count_records(copy, size - 1);
    int64_t len = segment_thin(copy, size - 1, out, sizeof out);
    if (len > (int64_t)sizeof out || (len >= 0 && count_records(out, (size_t)len) > records))
        abort();
    free(copy);
    return 0;
}
