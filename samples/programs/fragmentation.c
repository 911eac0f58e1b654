/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fragmentation by a caching allocator: blocks of segments are split for smaller tensors; the rest
 * of each segment is idle and cannot be freed. A request that all remainders together could serve
 * fails. The allocator works and speaks as PyTorch's does (which Debian does not package). Near
 * miss: more is asked for than is free and idle together (capacity).
 */
#include <stdio.h>
#include <stdlib.h>

#include "sample.h"

#define PIECES 128 /* of the card; a segment is 3, a tensor 2, what is left idle 1 */
#define BLOCKS_MAX 4096

struct block {
    char *address;
    size_t bytes;
    size_t segment_bytes; /* != 0: the first block of a segment, not split if equal to `bytes` */
    bool used;
};

static struct block blocks[BLOCKS_MAX];
static size_t block_count;

static size_t sum(bool used)
{
    size_t bytes = 0;
    for (size_t i = 0; i < block_count; i++)
        bytes += blocks[i].used == used ? blocks[i].bytes : 0;
    return bytes;
}

static struct block *best_fit(size_t bytes)
{
    struct block *best = NULL;
    for (size_t i = 0; i < block_count; i++)
        if (!blocks[i].used && blocks[i].bytes >= bytes &&
            (best == NULL || blocks[i].bytes < best->bytes))
            best = &blocks[i];
    return best;
}

static struct block *new_segment(size_t bytes)
{
    void *memory = NULL;
    if (block_count + 1 >= BLOCKS_MAX || hipMalloc(&memory, bytes) != hipSuccess)
        return NULL;
    blocks[block_count] = (struct block){memory, bytes, bytes, false};
    return &blocks[block_count++];
}

/* As PyTorch before it gives up: whole segments that are idle go back to the driver. */
static void give_back_idle_segments(void)
{
    for (size_t i = 0; i < block_count;) {
        if (blocks[i].used || blocks[i].segment_bytes != blocks[i].bytes) {
            i++;
            continue;
        }
        (void)hipFree(blocks[i].address);
        blocks[i] = blocks[--block_count];
    }
}

static void split(struct block *block, size_t bytes)
{
    if (block->bytes - bytes < MIB || block_count + 1 >= BLOCKS_MAX)
        return;
    blocks[block_count++] = (struct block){block->address + bytes, block->bytes - bytes, 0, false};
    block->bytes = bytes;
}

static struct block *tensor(size_t bytes)
{
    struct block *block = best_fit(bytes);
    if (block == NULL)
        block = new_segment(bytes);
    if (block == NULL) {
        give_back_idle_segments();
        block = new_segment(bytes);
    }
    if (block == NULL)
        return NULL;
    split(block, bytes);
    block->used = true;
    return block;
}

static int refused(size_t bytes)
{
    size_t free_bytes = 0;
    size_t total = 0;
    double mib = (double)MIB;
    (void)hipMemGetInfo(&free_bytes, &total);
    sample_say("HIP out of memory. Tried to allocate %.2f MiB. GPU 0 has a total capacity of %.2f "
               "MiB of which %.2f MiB is free. Of the allocated memory %.2f MiB is allocated by "
               "PyTorch, and %.2f MiB is reserved by PyTorch but unallocated.",
               (double)bytes / mib, (double)total / mib, (double)free_bytes / mib,
               (double)sum(true) / mib, (double)sum(false) / mib);
    return 1;
}

/* A long sequence first, then many shorter ones: each takes two thirds of a cached segment. */
static void fragment(size_t piece)
{
    size_t count = 0;
    while (tensor(3 * piece) != NULL)
        count++;
    for (size_t i = 0; i < block_count; i++)
        blocks[i].used = false;
    while (count > 0 && best_fit(2 * piece) != NULL && tensor(2 * piece) != NULL)
        count--;
}

int main(int argc, char **argv)
{
    bool is_near_miss = sample_options(argc, argv, "asks for less than all idle pieces together",
                                       "asks for more than is free and idle (capacity)");
    size_t piece = sample_share(PIECES);
    fragment(piece);
    size_t bytes = is_near_miss ? PIECES / 2 * piece : PIECES / 8 * piece;
    if (tensor(bytes) == NULL)
        return refused(bytes);
    sample_say("it fitted");
    return 0;
}
