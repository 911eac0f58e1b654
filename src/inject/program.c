/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/program.h"

#include <elf.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "inject/raw.h"

#define HEADERS_MAX 32
#define DYNAMIC_MAX 128
#define STRINGS_MAX (4u << 20)

/* AddressSanitizer checks that its runtime is the first library; the others intercept the same
 * functions as we do.
 */
static const char *const sanitizer_libraries[] = {"libasan.", "libtsan.", "liblsan.", "libhwasan.",
                                                  "libclang_rt."};
/* With clang the runtime is in the program. */
static const char *const sanitizer_symbols[] = {"__asan_init", "__tsan_init", "__msan_init",
                                                "__hwasan_init"};

struct program {
    int fd;
    char start[1024]; /* headers, and nearly always the loader's name */
    size_t start_len;
    Elf64_Phdr headers[HEADERS_MAX];
    unsigned count;
    Elf64_Dyn dynamic[DYNAMIC_MAX];
};

static bool read_at(const struct program *p, void *out, size_t size, uint64_t at)
{
    if (at <= p->start_len && size <= p->start_len - at) {
        for (size_t i = 0; i < size; i++)
            ((char *)out)[i] = p->start[at + i];
        return true;
    }
    return raw_call(SYS_pread64, p->fd, out, size, at) == (long)size;
}

static bool is_privileged(int fd)
{
    struct stat st;
    if (raw_call(SYS_fstat, fd, &st, 0, 0) != 0)
        return true;
    return (st.st_mode & (S_ISUID | S_ISGID)) != 0 ||
           raw_call(SYS_fgetxattr, fd, "security.capability", NULL, 0) > 0;
}

/* "#!/usr/bin/env python3\n" -> "/usr/bin/env" */
static void read_interpreter(const char *line, size_t len, char *out, size_t size)
{
    size_t at = 2;
    size_t n = 0;
    out[0] = '\0';
    while (at < len && (line[at] == ' ' || line[at] == '\t'))
        at++;
    while (at < len && n + 1 < size && line[at] != ' ' && line[at] != '\t' && line[at] != '\n' &&
           line[at] != '\r' && line[at] != '\0')
        out[n++] = line[at++];
    out[n < size ? n : 0] = '\0';
}

static const Elf64_Phdr *header_of(const struct program *p, uint32_t type)
{
    for (unsigned i = 0; i < p->count; i++)
        if (p->headers[i].p_type == type)
            return &p->headers[i];
    return NULL;
}

/* The offset in the file of an address of the program; UINT64_MAX = not in the file. */
static uint64_t offset_of(const struct program *p, uint64_t address)
{
    for (unsigned i = 0; i < p->count; i++) {
        const Elf64_Phdr *h = &p->headers[i];
        if (h->p_type == PT_LOAD && address >= h->p_vaddr && address - h->p_vaddr < h->p_filesz)
            return h->p_offset + (address - h->p_vaddr);
    }
    return UINT64_MAX;
}

static uint64_t dynamic_value(const struct program *p, int64_t tag)
{
    for (unsigned i = 0; i < DYNAMIC_MAX && p->dynamic[i].d_tag != DT_NULL; i++)
        if (p->dynamic[i].d_tag == tag)
            return p->dynamic[i].d_un.d_val;
    return 0;
}

static bool needs_one_of(const struct program *p, const char *const *names, size_t count)
{
    char name[32];
    uint64_t strings = offset_of(p, dynamic_value(p, DT_STRTAB));
    for (unsigned i = 0; i < DYNAMIC_MAX && p->dynamic[i].d_tag != DT_NULL; i++) {
        if (p->dynamic[i].d_tag != DT_NEEDED || strings == UINT64_MAX)
            continue;
        long n =
            raw_call(SYS_pread64, p->fd, name, sizeof name - 1, strings + p->dynamic[i].d_un.d_val);
        name[n > 0 ? n : 0] = '\0';
        for (size_t k = 0; k < count; k++)
            if (raw_starts(name, names[k]))
                return true;
    }
    return false;
}

/* Looks in the GNU hash table of the file: the filter rejects nearly every other program. */
static bool may_define(const struct program *p, uint64_t table, const uint32_t head[4],
                       const char *name)
{
    uint64_t word;
    uint32_t bucket;
    uint32_t hash = 5381;
    for (const char *c = name; *c != '\0'; c++)
        hash = hash * 33 + (unsigned char)*c;
    if (head[0] == 0 || head[2] == 0 ||
        !read_at(p, &word, sizeof word, table + 16 + (uint64_t)((hash / 64) % head[2]) * 8) ||
        ((word >> (hash % 64)) & (word >> ((hash >> (head[3] & 31)) % 64)) & 1) == 0)
        return false;
    uint64_t buckets = table + 16 + (uint64_t)head[2] * 8;
    uint64_t chains = buckets + (uint64_t)head[0] * 4;
    if (!read_at(p, &bucket, sizeof bucket, buckets + (uint64_t)(hash % head[0]) * 4) ||
        bucket < head[1])
        return false;
    for (uint32_t i = bucket; i - bucket < 4096; i++) {
        uint32_t other;
        if (!read_at(p, &other, sizeof other, chains + (uint64_t)(i - head[1]) * 4))
            return false;
        if ((other | 1) == (hash | 1))
            return true;
        if ((other & 1) != 0)
            return false;
    }
    return false;
}

/* gcc's -static-libasan exports nothing, but starts before everything else by DT_PREINIT_ARRAY,
 * which only the sanitizers use. */
static bool contains_sanitizer(const struct program *p)
{
    uint32_t head[4];
    if (dynamic_value(p, DT_PREINIT_ARRAYSZ) > 0)
        return true;
    uint64_t address = dynamic_value(p, DT_GNU_HASH);
    uint64_t table = address != 0 ? offset_of(p, address) : UINT64_MAX;
    if (table == UINT64_MAX || !read_at(p, head, sizeof head, table))
        return false;
    for (size_t i = 0; i < sizeof sanitizer_symbols / sizeof sanitizer_symbols[0]; i++)
        if (may_define(p, table, head, sanitizer_symbols[i]))
            return true;
    return false;
}

static bool has_our_loader(const struct program *p, const Elf64_Phdr *interpreter)
{
    static const char name[] = "/ld-linux-x86-64.so.2";
    char path[256];
    size_t n = interpreter->p_filesz;
    if (n < sizeof name || n > sizeof path || !read_at(p, path, n, interpreter->p_offset))
        return false;
    return raw_equal(path + n - sizeof name, name, sizeof name);
}

static enum preload_answer check_elf(struct program *p, const Elf64_Ehdr *elf)
{
    if (elf->e_ident[EI_CLASS] != ELFCLASS64 || elf->e_machine != EM_X86_64)
        return PRELOAD_OTHER_CLASS;
    if (elf->e_phentsize != sizeof(Elf64_Phdr) || elf->e_phnum > HEADERS_MAX)
        return PRELOAD_NOT_ELF;
    p->count = elf->e_phnum;
    if (!read_at(p, p->headers, p->count * sizeof(Elf64_Phdr), elf->e_phoff))
        return PRELOAD_NOT_ELF;
    const Elf64_Phdr *interpreter = header_of(p, PT_INTERP);
    const Elf64_Phdr *dynamic = header_of(p, PT_DYNAMIC);
    if (interpreter == NULL || dynamic == NULL)
        return PRELOAD_STATIC;
    size_t size = dynamic->p_filesz < sizeof p->dynamic ? dynamic->p_filesz : sizeof p->dynamic;
    size -= size % sizeof(Elf64_Dyn);
    if (size == 0 || !read_at(p, p->dynamic, size, dynamic->p_offset))
        return PRELOAD_NOT_ELF;
    p->dynamic[size / sizeof(Elf64_Dyn) - 1].d_tag = DT_NULL;
    if (!has_our_loader(p, interpreter))
        return PRELOAD_OTHER_LOADER;
    size_t sanitizers = sizeof sanitizer_libraries / sizeof sanitizer_libraries[0];
    return needs_one_of(p, sanitizer_libraries, sanitizers) || contains_sanitizer(p) ? PRELOAD_SANITIZER : PRELOAD_YES;
}

_Static_assert(sizeof(struct program) <= PRELOAD_SCRATCH, "it must fit");

enum preload_answer program_check(int fd, char *interpreter, size_t size,
                                  uint64_t scratch[PRELOAD_SCRATCH / sizeof(uint64_t)])
{
    struct program *p = (struct program *)(void *)scratch;
    Elf64_Ehdr elf;
    interpreter[0] = '\0';
    p->fd = fd;
    long n = raw_call(SYS_pread64, fd, p->start, sizeof p->start, 0);
    if (n < 2)
        return n < 0 ? PRELOAD_NO_FILE : PRELOAD_NOT_ELF;
    p->start_len = (size_t)n;
    if (raw_equal(p->start, "#!", 2)) {
        read_interpreter(p->start, p->start_len < 256 ? p->start_len : 256, interpreter, size);
        return PRELOAD_NOT_ELF;
    }
    if (!read_at(p, &elf, sizeof elf, 0) || !raw_equal(elf.e_ident, ELFMAG, SELFMAG))
        return PRELOAD_NOT_ELF;
    if (is_privileged(fd))
        return PRELOAD_PRIVILEGED;
    return check_elf(p, &elf);
}

bool program_needs(const uint64_t scratch[PRELOAD_SCRATCH / sizeof(uint64_t)], const char *const *libraries, size_t count)
{
    return needs_one_of((const struct program *)(const void *)scratch, libraries, count);
}

/* The table of strings has the names of all symbols that the loader resolves. A longer name with that end counts,
 * too: the linker stores the end once. */
bool program_names(const uint64_t scratch[PRELOAD_SCRATCH / sizeof(uint64_t)], const char *symbol)
{
    const struct program *p = (const struct program *)(const void *)scratch;
    uint64_t at = offset_of(p, dynamic_value(p, DT_STRTAB));
    uint64_t size = dynamic_value(p, DT_STRSZ);
    size_t wanted = raw_length(symbol) + 1;
    char text[4096];
    for (uint64_t done = 0; at != UINT64_MAX && done < size && done < STRINGS_MAX; done += sizeof text - wanted) {
        uint64_t left = size - done;
        size_t want = left < sizeof text ? (size_t)left : sizeof text;
        long n = raw_call(SYS_pread64, p->fd, text, want, at + done);
        for (size_t i = 0; n > 0 && i + wanted <= (size_t)n; i++)
            if (raw_equal(text + i, symbol, wanted))
                return true;
    }
    return false;
}

/* The segments that are loaded and have, among the flags in `mask`, these only. */
static unsigned ranges_with(int fd, uint32_t mask, uint32_t flags, struct program_range ranges[PROGRAM_RANGES_MAX])
{
    Elf64_Ehdr elf;
    Elf64_Phdr headers[HEADERS_MAX];
    unsigned found = 0;
    if (raw_call(SYS_pread64, fd, &elf, sizeof elf, 0) != (long)sizeof elf || !raw_equal(elf.e_ident, ELFMAG, SELFMAG) ||
        elf.e_ident[EI_CLASS] != ELFCLASS64 || elf.e_phentsize != sizeof headers[0] || elf.e_phnum > HEADERS_MAX)
        return 0;
    long size = (long)(elf.e_phnum * sizeof headers[0]);
    if (raw_call(SYS_pread64, fd, headers, (size_t)size, elf.e_phoff) != size)
        return 0;
    for (unsigned i = 0; i < elf.e_phnum && found < PROGRAM_RANGES_MAX; i++)
        if (headers[i].p_type == PT_LOAD && (headers[i].p_flags & mask) == flags)
            ranges[found++] = (struct program_range){headers[i].p_offset, headers[i].p_filesz};
    return found;
}

unsigned program_constants(int fd, struct program_range ranges[PROGRAM_RANGES_MAX])
{
    unsigned found = ranges_with(fd, PF_W | PF_X, 0, ranges);
    return found > 0 ? found : ranges_with(fd, PF_W, 0, ranges);
}

unsigned program_code(int fd, struct program_range ranges[PROGRAM_RANGES_MAX])
{
    return ranges_with(fd, PF_X, PF_X, ranges);
}
