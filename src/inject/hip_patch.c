/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds HIP runtimes, and puts our functions in place of theirs in the address tables of their
 * callers. An address is replaced only if it is known to be the runtime's. An entry bound to
 * another definition (a profiler's) stays. Runs in the target, at its start and after objects were
 * loaded.
 */
#include <dlfcn.h>

#include "inject/attach.h"
#include "inject/book_internal.h"
#include "inject/got.h"
#include "inject/hip.h"
#include "inject/next.h"
#include "inject/raw.h"

#define RUNTIME_NAME "libamdhip64.so"
#define AGAIN_NS 100000000u
#define AGAIN_DOUBLED_MAX 7 /* a look at a large program takes milliseconds */

/* 0 = never looked; else 1 + the number of objects loaded then. */
static _Atomic uint64_t looked_at, look_again_ns;
static _Atomic uint32_t looking;

static const char *base_name(const char *path)
{
    const char *name = path;
    for (const char *p = path; *p != '\0'; p++)
        if (*p == '/')
            name = p + 1;
    return name;
}

/* --- runtimes --- */

struct census {
    unsigned runtimes, definitions; /* objects that define hipMalloc, runtimes included */
    unsigned later;                 /* addresses to examine again */
};

static bool is_known(const struct next_object *o)
{
    for (unsigned i = 0; i < HIP_RUNTIMES; i++)
        if (hip_runtimes[i].base == o->base && hip_runtimes[i].end != 0)
            return true;
    return false;
}

static void add_runtime(const struct next_object *o)
{
    static const char *const names[] = {
#define HIP_NAME(name) #name,
        HIP_EACH(HIP_NAME)
#undef HIP_NAME
    };
    for (unsigned i = 0; i < HIP_RUNTIMES; i++) {
        struct hip_runtime *r = &hip_runtimes[i];
        if (r->end != 0)
            continue;
        for (unsigned f = 0; f < HIP_FUNCTIONS; f++)
            r->real[f] = next_in(o, names[f]);
        r->base = o->base;
        r->start = o->start;
        __atomic_store_n(&r->end, o->end, __ATOMIC_RELEASE);
        if (attach_ledger() != NULL)
            ADD(attach_ledger()->hip_runtimes, 1);
        return;
    }
}

static bool count_object(const struct next_object *o, void *context)
{
    struct census *census = context;
    if (next_is_own(o) || next_in(o, "hipMalloc") == NULL)
        return false;
    census->definitions++;
    if (!raw_starts(base_name(o->name), RUNTIME_NAME))
        return false;
    census->runtimes++;
    if (!is_known(o))
        add_runtime(o);
    return false;
}

/* --- address tables --- */

struct caller {
    const struct next_object *object;
    struct census *census;
};

void *hip_replacement(enum hip_function function, void *real)
{
    for (unsigned i = 0; i < HIP_RUNTIMES && real != NULL; i++)
        if (__atomic_load_n(&hip_runtimes[i].end, __ATOMIC_ACQUIRE) != 0 &&
            hip_runtimes[i].real[function] == real)
            return hip_stand_in(function, i);
    return NULL;
}

static bool is_inside(const struct next_object *o, uintptr_t address)
{
    return address >= o->start && address < o->end;
}

/* The entry points to the object's own stub; the loader binds it at the first call. If there is
 * only one definition, it will be bound to that. */
static void *stand_in_for_unbound(const struct caller *c, enum hip_function function)
{
    if (c->census->runtimes == 1 && c->census->definitions == 1)
        return hip_runtimes[0].real[function] != NULL ? hip_stand_in(function, 0) : NULL;
    c->census->later++;
    return NULL;
}

static void look_at_slot(const struct got_slot *slot, void *context)
{
    const struct caller *c = context;
    enum hip_function function = hip_by_name(slot->name);
    if (function == HIP_FUNCTIONS)
        return;
    /* Another thread is loading this object: the loader still writes to the page. */
    if (got_is_being_loaded(slot)) {
        c->census->later++;
        return;
    }
    void *value = __atomic_load_n(slot->at, __ATOMIC_ACQUIRE);
    void *ours = hip_replacement(function, value);
    if (ours == NULL && slot->may_be_unbound && is_inside(c->object, (uintptr_t)value))
        ours = stand_in_for_unbound(c, function);
    if (ours != NULL && value != ours && !got_replace(slot, ours))
        c->census->later++;
}

static bool look_at_caller(const struct next_object *o, void *context)
{
    struct caller c = {.object = o, .census = context};
    if (!next_is_own(o) && !is_known(o))
        got_each_slot(o, look_at_slot, &c);
    return false;
}

static bool is_due(uint64_t loads)
{
    uint64_t again_ns = atomic_load_explicit(&look_again_ns, memory_order_relaxed);
    return loads != atomic_load_explicit(&looked_at, memory_order_relaxed) ||
           (again_ns != 0 && attach_coarse_ns() >= again_ns);
}

void hip_look(void)
{
    static unsigned doubled;
    uint64_t loads = next_loads() + 1;
    uint32_t nobody = 0;
    if (!attach_wanted() || !is_due(loads) || !atomic_compare_exchange_strong(&looking, &nobody, 1))
        return;
    struct census census = {0, 0, 0};
    bool is_new = atomic_exchange(&looked_at, loads) != loads;
    doubled = is_new ? 0 : doubled < AGAIN_DOUBLED_MAX ? doubled + 1 : doubled;
    next_objects(count_object, &census);
    if (census.runtimes > 0)
        next_objects(look_at_caller, &census);
    /* Look again when they have been called, or loaded. */
    uint64_t wait_ns = (uint64_t)AGAIN_NS << doubled;
    atomic_store(&look_again_ns, census.later > 0 ? attach_coarse_ns() + wait_ns : 0);
    atomic_store(&looking, 0);
}

/* --- dlsym() --- */

/* Triton, CuPy and ctypes ask for addresses. Entered by a jump with the caller's own return
 * address, because the answer of dlsym() depends on its caller. */
__attribute__((visibility("hidden"))) void *hip_next_dlsym;
__attribute__((visibility("hidden"))) void *hip_answer_dlsym(void *handle, const char *name);

static void *no_dlsym(void *handle, const char *name)
{
    (void)handle;
    (void)name;
    return NULL;
}

/* NULL = the next dlsym() answers. */
void *hip_answer_dlsym(void *handle, const char *name)
{
    void *(*next)(void *, const char *);
    if (__atomic_load_n(&hip_next_dlsym, __ATOMIC_ACQUIRE) == NULL) {
        void *found = next_function(NEXT_dlsym);
        if (found == NULL)
            *(void *(**)(void *, const char *)) & found = no_dlsym;
        __atomic_store_n(&hip_next_dlsym, found, __ATOMIC_RELEASE);
    }
    if (name == NULL || !raw_starts(name, "hip") || handle == RTLD_NEXT || !attach_wanted())
        return NULL;
    enum hip_function function = hip_by_name(name);
    hip_look();
    if (function == HIP_FUNCTIONS || hip_runtimes[0].end == 0)
        return NULL;
    *(void **)&next = hip_next_dlsym;
    return hip_replacement(function, next(handle, name));
}

/* Stack: the return address, two saved arguments, 8 bytes for the alignment of the call. */
__asm__(".text\n"
        ".globl dlsym\n"
        ".type dlsym, @function\n"
        "dlsym:\n"
        "    .cfi_startproc\n"
        "    endbr64\n"
        "    pushq %rdi\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    pushq %rsi\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    subq $8, %rsp\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    call hip_answer_dlsym\n"
        "    addq $8, %rsp\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %rsi\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %rdi\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    testq %rax, %rax\n"
        "    jnz 1f\n"
        "    jmpq *hip_next_dlsym(%rip)\n"
        "1:  ret\n"
        "    .cfi_endproc\n"
        ".size dlsym, .-dlsym\n");
