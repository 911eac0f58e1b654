/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stack_full.h"

#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/user.h>

#include "base/cleanup.h"

#if defined(__x86_64__)
#define STACK_POINTER(regs) ((regs).rsp)
#else
#define STACK_POINTER(regs) ((regs).sp)
#endif
#define GAP_BYTES (UINT64_C(1) << 20)       /* the kernel keeps 256 pages below a stack free */
#define FRAME_BYTES (UINT64_C(1) << 20)     /* a call with large arrays goes so far beyond the end */
#define NEAR_LIMIT_BYTES (UINT64_C(1) << 18) /* arguments and environment lie in it, too */

struct mapping {
    uint64_t start, end;
    bool readable, is_main_stack;
};

static bool parse_mapping(const char *line, struct mapping *ret)
{
    char *rest;
    size_t length = strcspn(line, "\n");
    ret->start = strtoull(line, &rest, 16);
    if (*rest != '-')
        return false;
    ret->end = strtoull(rest + 1, &rest, 16);
    ret->readable = rest[0] == ' ' && rest[1] == 'r';
    ret->is_main_stack = length > 7 && strncmp(line + length - 7, "[stack]", 7) == 0;
    return true;
}

static bool stack_pointer(const struct impact_record *impact, uint64_t *ret)
{
    struct impact_view view;
    struct user_regs_struct regs;
    for (size_t at = 0; impact_record_next(impact, &at, &view);) {
        if (view.chunk->type != CHUNK_REGS || view.chunk->arg != (uint64_t)impact->header.tid ||
            view.chunk->length < sizeof regs)
            continue;
        memcpy(&regs, view.data, sizeof regs);
        *ret = STACK_POINTER(regs);
        return true;
    }
    return false;
}

/* "Max stack size            8388608              unlimited            bytes"; 0 = none, or not known. */
static uint64_t limit_of(const struct impact_record *impact)
{
    RC_AUTO_FREE char *limits = impact_record_text(impact, CHUNK_LIMITS);
    const char *line = limits != NULL ? strstr(limits, "Max stack size") : NULL;
    return line != NULL ? strtoull(line + strlen("Max stack size"), NULL, 10) : 0;
}

/* `below` is the mapping before this one, a guard of no access if it ends where this one begins. */
static bool is_below(const struct mapping *stack, const struct mapping *below, uint64_t address, uint64_t limit)
{
    if (stack->is_main_stack)
        return address < stack->start && stack->start - address <= GAP_BYTES && limit > 0 &&
               stack->end - stack->start + NEAR_LIMIT_BYTES >= limit;
    return stack->readable && !below->readable && below->end == stack->start && address >= below->start &&
           address < below->end;
}

bool stack_is_full(const struct impact_record *impact)
{
    uint64_t pointer;
    uint64_t address = impact->header.fault_address;
    struct mapping below = {.readable = true};
    struct mapping mapping;
    RC_AUTO_FREE char *maps = impact_record_text(impact, CHUNK_MAPS);
    if (maps == NULL || impact->header.signo != SIGSEGV || !stack_pointer(impact, &pointer) ||
        pointer > address + FRAME_BYTES || address > pointer + FRAME_BYTES)
        return false;
    uint64_t limit = limit_of(impact);
    for (const char *line = maps; *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n') {
        if (!parse_mapping(line, &mapping))
            continue;
        if (is_below(&mapping, &below, address, limit))
            return true;
        below = mapping;
    }
    return false;
}
