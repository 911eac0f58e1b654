/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: CPython's structures in the memory of another process, which may hold anything. The "other"
 * process is this one. The first bytes are the layout, which CPython 3.13 tells of itself, and the room for
 * the text; words of the rest that are small are places in it.
 */
#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch/python_stacks.h"

#define MEMORY_BYTES 16384

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static alignas(8) unsigned char memory[MEMORY_BYTES];

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct python_place place = {.version = 0x030d0000};
    uint16_t room = 0;
    if (size < sizeof place.layout + sizeof room)
        return 0;
    memcpy(&place.layout, data, sizeof place.layout);
    memcpy(&room, data + sizeof place.layout, sizeof room);
    data += sizeof place.layout + sizeof room;
    size -= sizeof place.layout + sizeof room;
    memset(memory, 0, sizeof memory);
    memcpy(memory, data, size < sizeof memory ? size : sizeof memory);
    for (size_t at = 0; at + 8 <= sizeof memory; at += 8) {
        uint64_t word;
        memcpy(&word, memory + at, sizeof word);
        if (word == 0 || word >= sizeof memory || word % 8 != 0)
            continue;
        word += (uint64_t)(uintptr_t)memory;
        memcpy(memory + at, &word, sizeof word);
    }
    place.runtime = (uint64_t)(uintptr_t)memory;
    char *out = malloc((size_t)room + 1);
    if (out == NULL)
        abort();
    if (python_stacks_read(&place, getpid(), out, room, UINT64_MAX) > room)
        abort();
    free(out);
    return 0;
}
