/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/got.h"

#include <linux/futex.h>
#include <sys/mman.h>

#include "inject/raw.h"

#define PAGE 4096u

struct relocations {
    const Elf64_Rela *first;
    size_t count;
};

struct names {
    const Elf64_Sym *symbols;
    const char *strings;
};

static uint64_t value_of(const struct next_object *o, int64_t tag)
{
    for (const Elf64_Dyn *d = o->dynamic; d != NULL && d->d_tag != DT_NULL; d++)
        if (d->d_tag == tag)
            return d->d_un.d_val;
    return 0;
}

static const void *pointer_of(const struct next_object *o, int64_t tag)
{
    uint64_t value = value_of(o, tag);
    return value != 0 ? (const void *)next_address(o, value) : NULL;
}

/* After relocation the loader has made these read-only ("full RELRO"). Whole pages: it rounds down
 * at both ends. */
static bool is_read_only(const struct next_object *o, uintptr_t address)
{
    const uintptr_t whole = ~(uintptr_t)(PAGE - 1);
    for (unsigned i = 0; i < o->header_count; i++) {
        const Elf64_Phdr *h = &o->headers[i];
        uintptr_t start = o->base + h->p_vaddr;
        if (h->p_type == PT_GNU_RELRO && address >= (start & whole) &&
            address < ((start + h->p_memsz) & whole))
            return true;
    }
    return false;
}

static bool is_slot(const struct next_object *o, const struct names *names, const Elf64_Rela *rela,
                    struct got_slot *slot)
{
    unsigned type = ELF64_R_TYPE(rela->r_info);
    if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT)
        return false;
    uintptr_t at = o->base + rela->r_offset;
    *slot = (struct got_slot){
        .name = names->strings + names->symbols[ELF64_R_SYM(rela->r_info)].st_name,
        .at = (void **)at,
        .read_only = is_read_only(o, at),
        .may_be_unbound = type == R_X86_64_JUMP_SLOT,
    };
    return true;
}

void got_each_slot(const struct next_object *o, got_slot_fn fn, void *context)
{
    struct names names = {pointer_of(o, DT_SYMTAB), pointer_of(o, DT_STRTAB)};
    struct relocations tables[] = {
        {pointer_of(o, DT_JMPREL), value_of(o, DT_PLTRELSZ) / sizeof(Elf64_Rela)},
        {pointer_of(o, DT_RELA), value_of(o, DT_RELASZ) / sizeof(Elf64_Rela)},
    };
    struct got_slot slot;
    if (names.symbols == NULL || names.strings == NULL)
        return;
    if (value_of(o, DT_PLTREL) != DT_RELA)
        tables[0].count = 0;
    /* The relative ones come first, and are the great majority. */
    size_t relative = value_of(o, DT_RELACOUNT);
    for (size_t t = 0; t < 2; t++)
        for (size_t i = t == 1 ? relative : 0; tables[t].first != NULL && i < tables[t].count; i++)
            if (is_slot(o, &names, &tables[t].first[i], &slot))
                fn(&slot, context);
}

/* Lets the kernel add 0: a write of ours to a read-only page would end the program. */
static bool can_be_written(void *slot)
{
    static uint32_t nobody;
    const int add_0 = FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0);
    return raw_call6(SYS_futex, (long)&nobody, FUTEX_WAKE_OP_PRIVATE, 0, 0, (long)slot, add_0) >= 0;
}

bool got_is_being_loaded(const struct got_slot *slot)
{
    return slot->read_only && can_be_written(slot->at);
}

bool got_replace(const struct got_slot *slot, void *function)
{
    uintptr_t page = (uintptr_t)slot->at & ~(uintptr_t)(PAGE - 1);
    if (slot->read_only && raw_call(SYS_mprotect, page, PAGE, PROT_READ | PROT_WRITE, 0) != 0)
        return false;
    __atomic_store_n(slot->at, function, __ATOMIC_RELEASE);
    if (slot->read_only)
        (void)raw_call(SYS_mprotect, page, PAGE, PROT_READ, 0);
    return true;
}
