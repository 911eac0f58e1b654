/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/modules.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/number.h"

#define MAPPINGS_MAX 200000 /* over three times the kernel's default vm.max_map_count */
#define NO_MODULE UINT32_MAX

struct map_line {
    uint64_t start, end, offset, inode;
    char permissions[5];
    const char *path; /* within the line; not terminated */
    size_t path_length;
};

/* 7f1c2a28a000-7f1c2a3df000 r-xp 00026000 fe:00 1835134        /usr/lib/x86_64-linux-gnu/libc.so.6
 */
static bool parse_line(const char *line, size_t length, struct map_line *ret)
{
    char head[128];
    size_t n = length < sizeof head - 2 ? length : sizeof head - 2;
    memcpy(head, line, n);
    head[n] = ' '; /* after the inode in a line without a path */
    head[n + 1] = '\0';
    const char *at = head;
    uint64_t device;
    if (!number_take_before(&at, 16, '-', &ret->start) ||
        !number_take_before(&at, 16, ' ', &ret->end) || strlen(at) < 5 || at[4] != ' ')
        return false;
    memcpy(ret->permissions, at, 4);
    ret->permissions[4] = '\0';
    at += 5;
    if (!number_take_before(&at, 16, ' ', &ret->offset) ||
        !number_take_before(&at, 16, ':', &device) || !number_take_before(&at, 16, ' ', &device) ||
        !number_take_before(&at, 10, ' ', &ret->inode) || ret->start >= ret->end)
        return false;
    size_t path = (size_t)(at - head) < length ? (size_t)(at - head) : length;
    while (path < length && line[path] == ' ')
        path++;
    ret->path = line + path;
    ret->path_length = length - path;
    return true;
}

static bool is_file(const struct map_line *line)
{
    return line->path_length > 0 &&
           (line->path[0] == '/' ||
            (line->path_length == 6 && memcmp(line->path, "[vdso]", 6) == 0));
}

static bool same_file(const struct module *module, const struct map_line *line)
{
    return module->inode == line->inode && strlen(module->path) == line->path_length &&
           memcmp(module->path, line->path, line->path_length) == 0;
}

/* A library may be loaded twice, or be loaded and also read as data. Then its next copy begins at
 * offset 0, not next to the mapping before. A linker may put two segments of one library on the
 * same page of the file, but these are adjacent. */
static bool goes_on(const struct module *module, const struct map_line *line)
{
    return same_file(module, line) && (line->offset != 0 || line->start == module->end);
}

static int add_module(struct modules *modules, const struct map_line *line)
{
    struct module *grown = realloc(modules->list, (modules->count + 1) * sizeof *grown);
    if (grown == NULL)
        return -ENOMEM;
    modules->list = grown;
    char *path = strndup(line->path, line->path_length);
    if (path == NULL)
        return -ENOMEM;
    modules->list[modules->count++] = (struct module){
        .path = path, .start = line->start, .end = line->end, .inode = line->inode, .fd = -1};
    return 0;
}

static int add_line(struct modules *modules, const struct map_line *line)
{
    uint32_t module = NO_MODULE;
    if (is_file(line)) {
        if (modules->count == 0 || !goes_on(&modules->list[modules->count - 1], line)) {
            int r = add_module(modules, line);
            if (r < 0)
                return r;
        }
        module = (uint32_t)(modules->count - 1);
        modules->list[module].end = line->end;
        modules->list[module].executable |= line->permissions[2] == 'x';
    }
    modules->mappings[modules->mapping_count++] = (struct mapping){
        .start = line->start,
        .end = line->end,
        .offset = line->offset,
        .module = module,
        .writable = line->permissions[1] == 'w',
        .executable = line->permissions[2] == 'x',
    };
    return 0;
}

static size_t count_lines(const char *text)
{
    size_t lines = 1;
    for (; *text != '\0'; text++)
        lines += *text == '\n';
    return lines < MAPPINGS_MAX ? lines : MAPPINGS_MAX;
}

int modules_parse(struct modules *modules, const char *maps)
{
    *modules = (struct modules){.count = 0};
    size_t most = count_lines(maps);
    modules->mappings = calloc(most, sizeof *modules->mappings);
    if (modules->mappings == NULL)
        return -ENOMEM;
    uint64_t last_end = 0;
    while (*maps != '\0' && modules->mapping_count < most) {
        size_t length = strcspn(maps, "\n");
        struct map_line line;
        /* The kernel prints them in ascending order; any other order is no maps file. */
        if (parse_line(maps, length, &line) && line.start >= last_end) {
            int r = add_line(modules, &line);
            if (r < 0)
                return r;
            last_end = line.end;
        }
        maps += length + (maps[length] == '\n');
    }
    return 0;
}

void modules_release(struct modules *modules)
{
    for (size_t i = 0; i < modules->count; i++) {
        free(modules->list[i].path);
        /* The descriptor given to libdwfl is a duplicate that it closes itself. */
        if (modules->list[i].fd >= 0)
            (void)close(modules->list[i].fd);
    }
    free(modules->list);
    free(modules->mappings);
    *modules = (struct modules){.count = 0};
}

int modules_report(struct modules *modules, Dwfl *dwfl, struct rc_err *err)
{
    dwfl_report_begin(dwfl);
    for (size_t i = 0; i < modules->count; i++) {
        struct module *module = &modules->list[i];
        /* A file that is only mapped as data (weights, fonts) is never opened. */
        if (!module->executable)
            continue;
        module->mod = dwfl_report_module(dwfl, module->path, module->start, module->end);
        void **userdata = NULL;
        if (module->mod == NULL)
            continue;
        (void)dwfl_module_info(module->mod, &userdata, NULL, NULL, NULL, NULL, NULL, NULL);
        if (userdata != NULL)
            *userdata = module;
    }
    if (dwfl_report_end(dwfl, NULL, NULL) != 0)
        return rc_err_set(err, -EINVAL, "libdwfl refuses the mapped files: %s", dwfl_errmsg(-1));
    return 0;
}

/* Opening a device has effects (/dev/kfd makes us a GPU process): regular files only. */
static void open_module(struct module *module)
{
    static const char suffix[] = " (deleted)";
    static const char *const special[] = {"/dev/", "/proc/", "/sys/", "/memfd:", "/SYSV"};
    size_t length = strlen(module->path);
    module->state = MODULE_UNREADABLE;
    if (length > sizeof suffix &&
        strcmp(module->path + length - (sizeof suffix - 1), suffix) == 0) {
        module->state = MODULE_DELETED;
        return;
    }
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        if (strncmp(module->path, special[i], strlen(special[i])) == 0)
            return;
    struct stat st;
    if (stat(module->path, &st) != 0 || !S_ISREG(st.st_mode))
        return;
    if (st.st_ino != module->inode) {
        module->state = MODULE_REPLACED;
        return;
    }
    module->fd = open(module->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (module->fd >= 0)
        module->state = MODULE_READ;
}

static bool is_vdso(const struct module *module)
{
    return module->path[0] == '[';
}

/* The kernel maps the same bytes into every process of one architecture, so we use our own copy. */
static int find_vdso(struct module *module, Elf **ret_elf)
{
    char *image = (char *)getauxval(AT_SYSINFO_EHDR);
    if (image != NULL)
        *ret_elf = elf_memory(image, module->end - module->start);
    module->state = *ret_elf != NULL ? MODULE_READ : MODULE_UNREADABLE;
    return -1;
}

int modules_find_elf(Dwfl_Module *mod, void **userdata, const char *name, Dwarf_Addr base,
                     char **file_name, Elf **ret_elf)
{
    (void)mod;
    (void)base;
    struct module *module = *userdata;
    *file_name = NULL;
    *ret_elf = NULL;
    if (module == NULL)
        return -1;
    if (is_vdso(module))
        return find_vdso(module, ret_elf);
    if (module->state == MODULE_UNTRIED)
        open_module(module);
    if (module->fd < 0)
        return -1;
    *file_name = strdup(name);
    return fcntl(module->fd, F_DUPFD_CLOEXEC, 3);
}

const struct mapping *modules_mapping_at(const struct modules *modules, uint64_t address)
{
    size_t low = 0;
    size_t high = modules->mapping_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (modules->mappings[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == modules->mapping_count || address < modules->mappings[low].start)
        return NULL;
    return &modules->mappings[low];
}

struct module *modules_at(struct modules *modules, uint64_t address)
{
    const struct mapping *mapping = modules_mapping_at(modules, address);
    if (mapping == NULL || mapping->module == NO_MODULE)
        return NULL;
    return &modules->list[mapping->module];
}

bool modules_read(struct modules *modules, uint64_t address, void *out, size_t length)
{
    const struct mapping *mapping = modules_mapping_at(modules, address);
    if (mapping == NULL || mapping->module == NO_MODULE || mapping->writable ||
        length > mapping->end - address)
        return false;
    struct module *module = &modules->list[mapping->module];
    if (module->state == MODULE_UNTRIED && module->executable && !is_vdso(module))
        open_module(module);
    if (module->fd < 0)
        return false;
    off_t at = (off_t)(mapping->offset + (address - mapping->start));
    return pread(module->fd, out, length, at) == (ssize_t)length;
}
