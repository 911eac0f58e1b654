/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/next.h"

#include <link.h>
#include <stdatomic.h>
#include <sys/auxv.h>

#include "inject/raw.h"

#define VERSION_HIDDEN 0x8000u

struct tables {
    const Elf64_Sym *symbols;
    const char *strings;
    const Elf64_Half *versions;
    const uint32_t *gnu_hash, *hash;
};

uintptr_t next_address(const struct next_object *object, Elf64_Addr value)
{
    return value < object->base ? object->base + value : value;
}

static bool read_tables(const struct next_object *object, struct tables *t)
{
    *t = (struct tables){NULL, NULL, NULL, NULL, NULL};
    for (const Elf64_Dyn *d = object->dynamic; d != NULL && d->d_tag != DT_NULL; d++) {
        void *at = (void *)next_address(object, d->d_un.d_ptr);
        if (d->d_tag == DT_SYMTAB)
            t->symbols = at;
        else if (d->d_tag == DT_STRTAB)
            t->strings = at;
        else if (d->d_tag == DT_VERSYM)
            t->versions = at;
        else if (d->d_tag == DT_GNU_HASH)
            t->gnu_hash = at;
        else if (d->d_tag == DT_HASH)
            t->hash = at;
    }
    return t->symbols != NULL && t->strings != NULL && (t->gnu_hash != NULL || t->hash != NULL);
}

static bool is_definition(const struct tables *t, uint32_t index, const char *name)
{
    const Elf64_Sym *s = &t->symbols[index];
    unsigned type = ELF64_ST_TYPE(s->st_info);
    return s->st_shndx != SHN_UNDEF && (type == STT_FUNC || type == STT_NOTYPE) &&
           (t->versions == NULL || (t->versions[index] & VERSION_HIDDEN) == 0) &&
           raw_same(t->strings + s->st_name, name);
}

static uint32_t find_gnu(const struct tables *t, const char *name)
{
    const uint32_t *h = t->gnu_hash;
    uint32_t buckets = h[0];
    uint32_t first = h[1];
    if (buckets == 0 || h[2] == 0)
        return 0;
    const uint64_t *bloom = (const uint64_t *)(const void *)(h + 4);
    const uint32_t *bucket = (const uint32_t *)(const void *)(bloom + h[2]);
    const uint32_t *chain = bucket + buckets;
    uint32_t hash = 5381;
    for (const char *p = name; *p != '\0'; p++)
        hash = hash * 33 + (unsigned char)*p;
    uint64_t word = bloom[(hash / 64) % h[2]];
    if (((word >> (hash % 64)) & (word >> ((hash >> (h[3] & 31)) % 64)) & 1) == 0)
        return 0;
    uint32_t index = bucket[hash % buckets];
    if (index < first)
        return 0;
    for (;; index++) {
        uint32_t other = chain[index - first];
        if ((other | 1) == (hash | 1) && is_definition(t, index, name))
            return index;
        if ((other & 1) != 0)
            return 0;
    }
}

static uint32_t find_sysv(const struct tables *t, const char *name)
{
    uint32_t hash = 0;
    for (const char *p = name; *p != '\0'; p++) {
        hash = (hash << 4) + (unsigned char)*p;
        hash = (hash ^ ((hash & 0xf0000000u) >> 24)) & 0x0fffffffu;
    }
    uint32_t buckets = t->hash[0];
    const uint32_t *chain = t->hash + 2 + buckets;
    for (uint32_t i = buckets > 0 ? t->hash[2 + hash % buckets] : 0; i != 0; i = chain[i])
        if (is_definition(t, i, name))
            return i;
    return 0;
}

void *next_in(const struct next_object *object, const char *name)
{
    struct tables t;
    if (!read_tables(object, &t))
        return NULL;
    uint32_t index = t.gnu_hash != NULL ? find_gnu(&t, name) : find_sysv(&t, name);
    return index != 0 ? (void *)(object->base + t.symbols[index].st_value) : NULL;
}

/* --- the objects --- */

struct walk {
    next_object_fn fn;
    void *context;
};

static void describe(struct next_object *o, uintptr_t base, const Elf64_Phdr *headers,
                     unsigned count)
{
    o->base = base;
    o->headers = headers;
    o->header_count = count;
    o->start = UINTPTR_MAX;
    o->end = 0;
    for (unsigned i = 0; i < count; i++) {
        const Elf64_Phdr *h = &headers[i];
        if (h->p_type == PT_DYNAMIC)
            o->dynamic = (const Elf64_Dyn *)(base + h->p_vaddr);
        if (h->p_type != PT_LOAD)
            continue;
        if (base + h->p_vaddr < o->start)
            o->start = base + h->p_vaddr;
        if (base + h->p_vaddr + h->p_memsz > o->end)
            o->end = base + h->p_vaddr + h->p_memsz;
    }
}

static int on_object(struct dl_phdr_info *info, size_t size, void *context)
{
    struct walk *w = context;
    struct next_object o = {.name = info->dlpi_name != NULL ? info->dlpi_name : ""};
    (void)size;
    describe(&o, info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum);
    return w->fn(&o, w->context) ? 1 : 0;
}

void next_objects(next_object_fn fn, void *context)
{
    struct walk w = {fn, context};
    (void)dl_iterate_phdr(on_object, &w);
}

static int take_loads(struct dl_phdr_info *info, size_t size, void *context)
{
    if (size >= offsetof(struct dl_phdr_info, dlpi_adds) + sizeof info->dlpi_adds)
        *(uint64_t *)context = info->dlpi_adds;
    return 1;
}

uint64_t next_loads(void)
{
    uint64_t loads = 0;
    (void)dl_iterate_phdr(take_loads, &loads);
    return loads;
}

bool next_is_own(const struct next_object *object)
{
    uintptr_t here = (uintptr_t)next_is_own;
    return here >= object->start && here < object->end;
}

/* --- the functions after ours --- */

static const struct {
    const char *called, *wanted;
} functions[] = {
#define NEXT_NAMES(called, wanted) {#called, #wanted},
    NEXT_EACH(NEXT_NAMES)
#undef NEXT_NAMES
};

static _Atomic(void *) found[NEXT_FUNCTIONS];

struct search {
    unsigned first, end; /* of functions[] */
    bool behind;
};

static void *find_in(const struct next_object *object, unsigned function)
{
    if (next_in(object, functions[function].called) == NULL)
        return NULL;
    return next_in(object, functions[function].wanted);
}

static bool search_behind(const struct next_object *object, void *context)
{
    struct search *s = context;
    if (!s->behind) {
        s->behind = next_is_own(object);
        return false;
    }
    bool missing = false;
    for (unsigned f = s->first; f < s->end; f++) {
        if (atomic_load_explicit(&found[f], memory_order_relaxed) == NULL)
            atomic_store_explicit(&found[f], find_in(object, f), memory_order_relaxed);
        missing |= atomic_load_explicit(&found[f], memory_order_relaxed) == NULL;
    }
    return !missing;
}

void next_resolve(void)
{
    struct search s = {0, NEXT_FUNCTIONS, false};
    next_objects(search_behind, &s);
}

void *next_if_resolved(enum next_function function)
{
    return atomic_load_explicit(&found[function], memory_order_relaxed);
}

void *next_function(enum next_function function)
{
    void *f = next_if_resolved(function);
    if (f == NULL) {
        struct search s = {function, function + 1u, false};
        next_objects(search_behind, &s);
        f = next_if_resolved(function);
    }
    return f;
}

static bool take_own_name(const struct next_object *object, void *context)
{
    if (!next_is_own(object))
        return false;
    *(const char **)context = object->name;
    return true;
}

const char *next_own_path(void)
{
    const char *path = "";
    next_objects(take_own_name, &path);
    return path;
}

void *next_clock(void)
{
    const Elf64_Ehdr *elf = (const Elf64_Ehdr *)getauxval(AT_SYSINFO_EHDR);
    if (elf == NULL)
        return NULL;
    struct next_object o = {.name = "vdso"};
    const Elf64_Phdr *headers = (const void *)((const char *)elf + elf->e_phoff);
    describe(&o, 0, headers, elf->e_phnum);
    if (o.start == UINTPTR_MAX)
        return NULL;
    /* Linked at 0, or (old kernels) elsewhere. */
    describe(&o, (uintptr_t)elf - o.start, headers, elf->e_phnum);
    return next_in(&o, "__vdso_clock_gettime");
}
