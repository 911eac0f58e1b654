/* SPDX-License-Identifier: Apache-2.0 */
/* Finds CPython's runtime in a process, and the layout of its structures. */
#include "launch/python_stacks.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "launch/process_memory.h"

#define MAPS_MAX ((size_t)16 << 20)

/* sizeof and offsetof in Include/internal of each version, x86_64 and aarch64. */
static const struct python_layout layout_311 = {
    .interpreters = 40, .interpreter_next = 0, .threads = 16, .thread_next = 8, .native_tid = 160,
    .frame = 56, .cframe_frame = 8, .code = 32, .previous = 48, .instruction = 56, .owner = 69,
    .file = 112, .qualname = 128, .line_table = 136, .first_line = 72, .bytecode = 184,
    .text_data = 48, .owner_c = 255};
static const struct python_layout layout_312 = {
    .interpreters = 40, .interpreter_next = 0, .threads = 72, .thread_next = 8, .native_tid = 144,
    .frame = 56, .cframe_frame = 0, .code = 0, .previous = 8, .instruction = 56, .owner = 70,
    .file = 112, .qualname = 128, .line_table = 136, .first_line = 68, .bytecode = 192,
    .text_data = 40, .owner_c = 3};

/* The beginning of _Py_DebugOffsets of 3.13, which _PyRuntime begins with. */
struct debug_offsets {
    char cookie[8];
    uint64_t version, free_threaded;
    struct { uint64_t size, finalizing, interpreters_head; } runtime;
    struct {
        uint64_t size, id, next, threads_head, gc, imports_modules, sysdict, builtins, ceval_gil;
        uint64_t gil, gil_enabled, gil_locked, gil_holder;
    } interpreter;
    struct {
        uint64_t size, prev, next, interp, current_frame, thread_id, native_thread_id;
        uint64_t datastack_chunk, status;
    } thread;
    struct { uint64_t size, previous, executable, instr_ptr, localsplus, owner; } frame;
    struct {
        uint64_t size, filename, name, qualname, linetable, firstlineno, argcount;
        uint64_t localsplusnames, localspluskinds, co_code_adaptive;
    } code;
};

static void layout_from_offsets(const struct debug_offsets *d, struct python_layout *l)
{
    *l = (struct python_layout){
        .interpreters = (uint16_t)d->runtime.interpreters_head,
        .interpreter_next = (uint16_t)d->interpreter.next,
        .threads = (uint16_t)d->interpreter.threads_head,
        .thread_next = (uint16_t)d->thread.next,
        .native_tid = (uint16_t)d->thread.native_thread_id,
        .frame = (uint16_t)d->thread.current_frame,
        .cframe_frame = PYTHON_NO_CFRAME,
        .code = (uint16_t)d->frame.executable,
        .previous = (uint16_t)d->frame.previous,
        .instruction = (uint16_t)d->frame.instr_ptr,
        .owner = (uint16_t)d->frame.owner,
        .file = (uint16_t)d->code.filename,
        .qualname = (uint16_t)d->code.qualname,
        .line_table = (uint16_t)d->code.linetable,
        .first_line = (uint16_t)d->code.firstlineno,
        .bytecode = (uint16_t)d->code.co_code_adaptive,
        .text_data = 40,
        .owner_c = 3,
    };
}

static bool layout_of(pid_t pid, struct python_place *place)
{
    struct debug_offsets offsets;
    switch (place->version >> 16) {
    case 0x030b:
        place->layout = layout_311;
        return true;
    case 0x030c:
        place->layout = layout_312;
        return true;
    case 0x030d:
        if (!process_memory_read(pid, place->runtime, &offsets, sizeof offsets) ||
            memcmp(offsets.cookie, "xdebugpy", 8) != 0 || offsets.free_threaded != 0)
            return false;
        layout_from_offsets(&offsets, &place->layout);
        return true;
    default:
        return false;
    }
}

/* --- symbols of a file --- */

struct elf_image {
    const unsigned char *data;
    size_t size;
};

static const void *part_of(const struct elf_image *image, uint64_t offset, uint64_t length)
{
    return offset <= image->size && length <= image->size - offset ? image->data + offset : NULL;
}

static uint64_t value_in(const struct elf_image *image, const ElfW(Shdr) *symbols,
                         const ElfW(Shdr) *strings, const char *name)
{
    const char *texts = part_of(image, strings->sh_offset, strings->sh_size);
    size_t count = symbols->sh_size / sizeof(ElfW(Sym));
    const ElfW(Sym) *list = part_of(image, symbols->sh_offset, count * sizeof *list);
    size_t length = strlen(name) + 1;
    for (size_t i = 0; texts != NULL && list != NULL && i < count; i++)
        if (list[i].st_value != 0 && list[i].st_name < strings->sh_size &&
            strings->sh_size - list[i].st_name >= length &&
            memcmp(texts + list[i].st_name, name, length) == 0)
            return list[i].st_value;
    return 0;
}

/* The value of an exported symbol, 0 = it has none. */
static uint64_t symbol_value(const struct elf_image *image, const char *name)
{
    const ElfW(Ehdr) *head = part_of(image, 0, sizeof *head);
    if (head == NULL || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
        head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_shentsize != sizeof(ElfW(Shdr)))
        return 0;
    const ElfW(Shdr) *sections =
        part_of(image, head->e_shoff, (uint64_t)head->e_shnum * sizeof *sections);
    for (unsigned i = 0; sections != NULL && i < head->e_shnum; i++)
        if (sections[i].sh_type == SHT_DYNSYM && sections[i].sh_link < head->e_shnum)
            return value_in(image, &sections[i], &sections[sections[i].sh_link], name);
    return 0;
}

/* The lowest address that its segments are linked for. */
static uint64_t linked_at(const struct elf_image *image)
{
    const ElfW(Ehdr) *head = part_of(image, 0, sizeof *head);
    const ElfW(Phdr) *segments =
        head != NULL && head->e_phentsize == sizeof(ElfW(Phdr))
            ? part_of(image, head->e_phoff, (uint64_t)head->e_phnum * sizeof *segments)
            : NULL;
    for (unsigned i = 0; segments != NULL && i < head->e_phnum; i++)
        if (segments[i].p_type == PT_LOAD)
            return segments[i].p_vaddr & ~(uint64_t)4095;
    return 0;
}

static int look_into(int fd, uint64_t mapped_at, struct python_symbols *ret)
{
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size <= 0)
        return -ENOENT;
    struct elf_image image = {.size = (size_t)st.st_size};
    void *data = mmap(NULL, image.size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        return -errno;
    image.data = data;
    uint64_t runtime = symbol_value(&image, "_PyRuntime");
    uint64_t version = symbol_value(&image, "Py_Version");
    uint64_t base = mapped_at - linked_at(&image);
    (void)munmap(data, image.size);
    if (runtime == 0)
        return -ENOENT;
    ret->runtime = base + runtime;
    ret->version = version != 0 ? base + version : 0;
    return 0;
}

/* --- candidates --- */

/* "7f00-7f10 r--p 00000000 08:01 12  /usr/lib/libpython3.11.so.1.0": the first page of a file. */
static bool first_page(const char *line, uint64_t *ret_address, const char **ret_path)
{
    char *end;
    *ret_address = strtoull(line, &end, 16);
    const char *path = strchr(line, '/');
    const char *offset = strchr(end, ' ');
    offset = offset != NULL ? strchr(offset + 1, ' ') : NULL;
    *ret_path = path;
    return path != NULL && offset != NULL && offset < path && strtoull(offset, NULL, 16) == 0;
}

static bool is_libpython(const char *path)
{
    const char *name = strrchr(path, '/');
    return strncmp(name + 1, "libpython3.", 11) == 0;
}

/* The file as the process sees it, whatever its mount namespace; the program's own even if it was removed since. */
static int open_file(pid_t pid, const char *path, bool is_exe)
{
    char there[FS_PATH_MAX];
    if (is_exe)
        (void)snprintf(there, sizeof there, "/proc/%d/exe", (int)pid);
    else
        (void)snprintf(there, sizeof there, "/proc/%d/root%s", (int)pid, path);
    int fd = fs_open_read(there);
    return fd >= 0 ? fd : fs_open_read(path);
}

static int try_mappings(pid_t pid, char *maps, const char *exe, struct python_symbols *ret)
{
    char *rest = NULL;
    for (char *line = strtok_r(maps, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        uint64_t address;
        const char *path;
        if (!first_page(line, &address, &path))
            continue;
        bool is_exe = strcmp(path, exe) == 0;
        if (!is_exe && !is_libpython(path))
            continue;
        RC_AUTO_CLOSE int fd = open_file(pid, path, is_exe);
        int r = look_into(fd, address, ret);
        if (r != -ENOENT)
            return r;
    }
    return -ENOENT;
}

int python_symbols_find(pid_t pid, struct python_symbols *ret)
{
    char path[64];
    char exe[FS_PATH_MAX];
    RC_AUTO_FREE char *maps = NULL;
    *ret = (struct python_symbols){.runtime = 0};
    (void)snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    ssize_t n = readlink(path, exe, sizeof exe - 1);
    exe[n > 0 ? n : 0] = '\0';
    (void)snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    if (fs_read_all(path, MAPS_MAX, &maps) <= 0)
        return -ENOENT;
    return try_mappings(pid, maps, exe, ret);
}

int python_place_read(pid_t pid, const struct python_symbols *symbols, struct python_place *ret,
                      char *why, size_t size)
{
    unsigned long version = 0;
    *ret = (struct python_place){.runtime = symbols->runtime};
    why[0] = '\0';
    if (symbols->version != 0 && !process_memory_read(pid, symbols->version, &version, sizeof version)) {
        (void)snprintf(why, size, "its memory may not be read");
        return -EACCES;
    }
    ret->version = (uint32_t)version;
    if (ret->version == 0)
        (void)snprintf(why, size, "CPython before 3.11: its frames are not known here");
    else if (!layout_of(pid, ret))
        (void)snprintf(why, size, "CPython %u.%u: its frames are not known here",
                       ret->version >> 24, ret->version >> 16 & 0xff);
    return why[0] != '\0' ? -ENOTSUP : 0;
}
