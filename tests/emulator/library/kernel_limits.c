/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel_limits.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include "journal.h"
#include "machine.h"
#include "memory.h"
#include "publish.h"
#include "state.h"

#define HUGE_PAGE (2ull << 20)

static int refuse(const char **ret_reason, const char *reason)
{
    *ret_reason = reason;
    return -ENOMEM;
}

/* Moves graphics buffers to GTT until `bytes` of VRAM are free; false when they are too few. */
static bool evict(unsigned gpu, uint64_t bytes)
{
    struct slot *slots = state_slots();
    uint64_t could = 0;
    for (unsigned i = 0; i < STATE_SLOTS; i++)
        could += slots[i].gpu[gpu].gem_vram - slots[i].gpu[gpu].gem_evicted;
    uint64_t gtt_free = machine.gpus[gpu].gtt_bytes - state_usage(gpu).gtt;
    if (could < bytes || gtt_free < bytes)
        return false;
    for (unsigned i = 0; i < STATE_SLOTS && bytes > 0; i++) {
        struct holding *h = &slots[i].gpu[gpu];
        uint64_t here = h->gem_vram - h->gem_evicted;
        uint64_t move = here < bytes ? here : bytes;
        if (move == 0)
            continue;
        h->gem_evicted += move;
        bytes -= move;
        journal("\"event\":\"evict\",\"gpu\":%u,\"owner\":%d,\"size\":%llu",
                machine.gpus[gpu].gpu_id, slots[i].pid, (unsigned long long)move);
    }
    return true;
}

/* Physical VRAM, behind KFD's own limit: TTM evicts graphics buffers for it. */
static int fit_in_vram(unsigned gpu, uint64_t size, const char **ret_reason)
{
    uint64_t used = state_usage(gpu).vram;
    uint64_t total = machine.gpus[gpu].vram_bytes;
    if (used + size <= total || evict(gpu, used + size - total))
        return 0;
    return refuse(ret_reason, "vram full");
}

static int fit_in_gtt(unsigned gpu, uint64_t size, const char **ret_reason)
{
    if (state_usage(gpu).gtt + size > machine.gpus[gpu].gtt_bytes)
        return refuse(ret_reason, "gtt full");
    return 0;
}

static int fit_in_system(uint64_t size, bool by_ttm, const char **ret_reason)
{
    if (state_system_used() + size > machine.system_limit)
        return refuse(ret_reason, "system limit");
    if (by_ttm && state_ttm_used() + size > machine.ttm_limit)
        return refuse(ret_reason, "ttm limit");
    return 0;
}

static int take_vram(const struct buffer *b, struct holding *h, const char **ret_reason)
{
    const struct gpu *gpu = &machine.gpus[b->gpu];
    struct usage used = state_usage(b->gpu);
    if (b->is_public && gpu->small_bar) {
        kmsg(3, "amdgpu: Alloc host visible vram on small bar is not allowed");
        *ret_reason = "small bar";
        return -EINVAL;
    }
    int r = 0;
    if (gpu->vram_in_gtt) {
        r = fit_in_system(b->size, true, ret_reason);
        if (r == 0)
            r = fit_in_gtt(b->gpu, b->size, ret_reason);
    } else {
        /* 6.1 rounds the request up, against fragmentation by the tails of 2 MiB pieces. */
        uint64_t size = b->size;
        if (machine.kernel < 610)
            size = (size + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
        if (used.kfd_vram + size > machine_vram_limit(b->gpu))
            return refuse(ret_reason, "vram limit");
        r = fit_in_vram(b->gpu, b->size, ret_reason);
    }
    if (r == 0)
        h->vram += b->size;
    if (r == 0 && b->is_public)
        h->visible += b->size;
    return r;
}

/* Allocations of the render node: no KFD limit; a buffer that may be in both goes to GTT when VRAM
 * is full. */
static int take_gem(const struct buffer *b, struct holding *h, const char **ret_reason)
{
    int r = 0;
    if (b->kind == BUFFER_GEM_VRAM) {
        uint64_t free_bytes = machine.gpus[b->gpu].vram_bytes - state_usage(b->gpu).vram;
        if (b->size > free_bytes)
            return refuse(ret_reason, "vram full");
        h->gem_vram += b->size;
        if (b->is_public)
            h->visible += b->size;
    } else {
        r = fit_in_gtt(b->gpu, b->size, ret_reason);
        if (r == 0)
            h->gem_gtt += b->size;
    }
    return r;
}

int limits_take(const struct buffer *b, struct slot *mine, const char **ret_reason)
{
    struct holding *h = &mine->gpu[b->gpu];
    int r = 0;
    switch (b->kind) {
    case BUFFER_VRAM:
        return take_vram(b, h, ret_reason);
    case BUFFER_GTT:
        r = fit_in_system(b->size, true, ret_reason);
        if (r == 0)
            r = fit_in_gtt(b->gpu, b->size, ret_reason);
        if (r == 0)
            h->gtt += b->size;
        return r;
    case BUFFER_USERPTR:
        r = fit_in_system(b->size, false, ret_reason);
        if (r == 0)
            h->userptr += b->size;
        return r;
    case BUFFER_GEM_VRAM:
    case BUFFER_GEM_GTT:
        return take_gem(b, h, ret_reason);
    default:
        return 0;
    }
}

static void subtract(uint64_t *from, uint64_t size)
{
    *from -= *from < size ? *from : size;
}

/* Evicted buffers come back as soon as there is room. */
static void restore(unsigned gpu)
{
    struct slot *slots = state_slots();
    uint64_t used = state_usage(gpu).vram;
    uint64_t room = used < machine.gpus[gpu].vram_bytes ? machine.gpus[gpu].vram_bytes - used : 0;
    for (unsigned i = 0; i < STATE_SLOTS && room > 0; i++) {
        struct holding *h = &slots[i].gpu[gpu];
        uint64_t move = h->gem_evicted < room ? h->gem_evicted : room;
        h->gem_evicted -= move;
        room -= move;
    }
}

void limits_give_back(const struct buffer *b, struct slot *mine)
{
    struct holding *h = &mine->gpu[b->gpu];
    switch (b->kind) {
    case BUFFER_VRAM:
        subtract(&h->vram, b->size);
        break;
    case BUFFER_GTT:
        subtract(&h->gtt, b->size);
        break;
    case BUFFER_USERPTR:
        subtract(&h->userptr, b->size);
        break;
    case BUFFER_GEM_VRAM:
        subtract(&h->gem_vram, b->size);
        if (h->gem_evicted > h->gem_vram)
            h->gem_evicted = h->gem_vram;
        break;
    case BUFFER_GEM_GTT:
        subtract(&h->gem_gtt, b->size);
        break;
    default:
        break;
    }
    if (b->is_public && (b->kind == BUFFER_VRAM || b->kind == BUFFER_GEM_VRAM))
        subtract(&h->visible, b->size);
    restore(b->gpu);
}

static uint64_t below(uint64_t limit, uint64_t used)
{
    return used < limit ? limit - used : 0;
}

/* amdgpu_amdkfd_get_available_memory(), 6.12: an APU gives the least of three, in pages. */
uint64_t limits_available(unsigned gpu)
{
    uint64_t vram = below(machine_vram_limit(gpu), state_usage(gpu).kfd_vram);
    if (!machine.gpus[gpu].vram_in_gtt)
        return vram & ~(HUGE_PAGE - 1);
    uint64_t system = below(machine.system_limit, state_system_used());
    uint64_t ttm = below(machine.ttm_limit, state_ttm_used());
    uint64_t least = system < ttm ? system : ttm;
    least = vram < least ? vram : least;
    return least & ~4095ull;
}
