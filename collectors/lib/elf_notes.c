/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Program headers only: section headers may be stripped. The dynamic section's string table is
 * named by address and found through the PT_LOAD that holds it.
 */
#include "collectors/lib/elf_notes.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "collectors/lib/cleantext.h"

#define HEADERS_MAX 64
#define NOTES_MAX ((size_t)64 << 10)
#define DYNAMIC_MAX ((size_t)64 << 10)
#define BUILD_ID_MAX 32

struct segment {
    uint32_t type;
    uint64_t offset, address, file_size;
};

struct elf_file {
    int fd;
    uint64_t size;
    unsigned bits;
    struct segment segments[HEADERS_MAX];
    unsigned count;
};

static bool read_at(const struct elf_file *e, uint64_t at, void *out, size_t len)
{
    return at <= e->size && len <= e->size - at &&
           fs_pread_full(e->fd, out, len, (off_t)at) == (ssize_t)len;
}

static bool read_segment64(struct elf_file *e, uint64_t at)
{
    Elf64_Phdr p;
    if (!read_at(e, at, &p, sizeof p))
        return false;
    e->segments[e->count++] = (struct segment){p.p_type, p.p_offset, p.p_vaddr, p.p_filesz};
    return true;
}

static bool read_segment32(struct elf_file *e, uint64_t at)
{
    Elf32_Phdr p;
    if (!read_at(e, at, &p, sizeof p))
        return false;
    e->segments[e->count++] = (struct segment){p.p_type, p.p_offset, p.p_vaddr, p.p_filesz};
    return true;
}

static int read_segments(struct elf_file *e)
{
    union {
        unsigned char ident[EI_NIDENT];
        Elf64_Ehdr h64;
        Elf32_Ehdr h32;
    } head = {0};
    const int order = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;
    size_t len = e->size < sizeof head ? (size_t)e->size : sizeof head;
    if (len < sizeof head.h32 || !read_at(e, 0, &head, len) ||
        memcmp(head.ident, ELFMAG, SELFMAG) != 0 || head.ident[EI_DATA] != order)
        return -ENOEXEC;
    e->bits = head.ident[EI_CLASS] == ELFCLASS64 ? 64 : 32;
    uint64_t at = e->bits == 64 ? head.h64.e_phoff : head.h32.e_phoff;
    unsigned step = e->bits == 64 ? head.h64.e_phentsize : head.h32.e_phentsize;
    unsigned count = e->bits == 64 ? head.h64.e_phnum : head.h32.e_phnum;
    for (unsigned i = 0; i < count && i < HEADERS_MAX && at <= e->size; i++, at += step) {
        if (!(e->bits == 64 ? read_segment64(e, at) : read_segment32(e, at)))
            break;
    }
    return 0;
}

/* namesz, descsz, type, name padded to 4, descriptor padded to 4. */
static void find_build_id(const struct elf_file *e, const struct segment *s,
                          struct elf_identity *ret)
{
    static const char digits[] = "0123456789abcdef";
    size_t len = s->file_size < NOTES_MAX ? (size_t)s->file_size : NOTES_MAX;
    RC_AUTO_FREE unsigned char *notes = malloc(len + 1);
    if (notes == NULL || !read_at(e, s->offset, notes, len))
        return;
    for (size_t at = 0; len - at >= 12;) {
        uint32_t head[3];
        memcpy(head, notes + at, sizeof head);
        uint64_t name = at + 12;
        uint64_t descriptor = name + (((uint64_t)head[0] + 3) & ~UINT64_C(3));
        uint64_t next = descriptor + (((uint64_t)head[1] + 3) & ~UINT64_C(3));
        if (descriptor + head[1] > len)
            return;
        if (head[2] == NT_GNU_BUILD_ID && head[0] == 4 && memcmp(notes + name, "GNU", 4) == 0 &&
            head[1] > 0 && head[1] <= BUILD_ID_MAX) {
            for (uint32_t i = 0; i < head[1]; i++) {
                ret->build_id[2 * i] = digits[notes[descriptor + i] >> 4];
                ret->build_id[2 * i + 1] = digits[notes[descriptor + i] & 15];
            }
            ret->build_id[2 * head[1]] = '\0';
            return;
        }
        if (next >= len)
            return;
        at = (size_t)next;
    }
}

static bool offset_of(const struct elf_file *e, uint64_t address, uint64_t *ret)
{
    for (unsigned i = 0; i < e->count; i++) {
        const struct segment *s = &e->segments[i];
        if (s->type == PT_LOAD && address >= s->address && address - s->address < s->file_size) {
            *ret = s->offset + (address - s->address);
            return true;
        }
    }
    return false;
}

static void find_soname(const struct elf_file *e, const struct segment *s, struct elf_identity *ret)
{
    size_t len = s->file_size < DYNAMIC_MAX ? (size_t)s->file_size : DYNAMIC_MAX;
    RC_AUTO_FREE unsigned char *dynamic = malloc(len + 1);
    if (dynamic == NULL || !read_at(e, s->offset, dynamic, len))
        return;
    uint64_t table = 0, name = 0, at = 0;
    bool has_name = false;
    size_t step = e->bits == 64 ? sizeof(Elf64_Dyn) : sizeof(Elf32_Dyn);
    for (size_t i = 0; i + step <= len; i += step) {
        Elf64_Dyn d = {0};
        Elf32_Dyn narrow;
        if (e->bits == 64) {
            memcpy(&d, dynamic + i, sizeof d);
        } else {
            memcpy(&narrow, dynamic + i, sizeof narrow);
            d = (Elf64_Dyn){.d_tag = narrow.d_tag, .d_un.d_val = narrow.d_un.d_val};
        }
        if (d.d_tag == DT_NULL)
            break;
        if (d.d_tag == DT_STRTAB)
            table = d.d_un.d_val;
        if (d.d_tag == DT_SONAME) {
            name = d.d_un.d_val;
            has_name = true;
        }
    }
    char text[sizeof ret->soname];
    if (!has_name || !offset_of(e, table, &at) || name > e->size || at > e->size - name)
        return;
    uint64_t left = e->size - at - name;
    size_t take = left < sizeof text ? (size_t)left : sizeof text;
    if (read_at(e, at + name, text, take))
        cleantext_copy(ret->soname, sizeof ret->soname, text, strnlen(text, take));
}

int elf_identify_fd(int fd, uint64_t size, struct elf_identity *ret)
{
    struct elf_file e = {.fd = fd, .size = size};
    *ret = (struct elf_identity){0};
    int r = read_segments(&e);
    if (r < 0)
        return r;
    ret->bits = e.bits;
    for (unsigned i = 0; i < e.count; i++) {
        if (e.segments[i].type == PT_NOTE && ret->build_id[0] == '\0')
            find_build_id(&e, &e.segments[i], ret);
        if (e.segments[i].type == PT_DYNAMIC)
            find_soname(&e, &e.segments[i], ret);
    }
    return 0;
}

int elf_identify(const char *path, struct elf_identity *ret)
{
    *ret = (struct elf_identity){0};
    RC_AUTO_CLOSE int fd = fs_open_regular(path);
    if (fd < 0)
        return fd;
    off_t size = lseek(fd, 0, SEEK_END);
    return size < 0 ? -errno : elf_identify_fd(fd, (uint64_t)size, ret);
}
