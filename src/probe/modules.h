/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mapped files of a process that is gone, from the text of its /proc/PID/maps. Reports them to
 * libdwfl as modules, and reads from them the memory that was never modified. Runs in
 * rocmcrash-unwind.
 */
#ifndef PROBE_MODULES_H
#define PROBE_MODULES_H

#include <elfutils/libdwfl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rc_err;

enum module_state {
    MODULE_UNTRIED,
    MODULE_READ,
    MODULE_DELETED,    /* unlinked while mapped: the path now leads to another file */
    MODULE_REPLACED,   /* the path leads to another inode than was mapped */
    MODULE_UNREADABLE, /* cannot be opened, or is no regular file */
};

/* One mapped file: several adjacent mappings. */
struct module {
    char *path; /* also "[vdso]" */
    uint64_t start, end, inode;
    bool executable; /* some part of it is executable */
    enum module_state state;
    int fd;           /* -1 until opened */
    Dwfl_Module *mod; /* only of executable ones */
};

struct mapping {
    uint64_t start, end, offset;
    uint32_t module; /* UINT32_MAX = no file */
    bool writable, executable;
};

struct modules {
    struct module *list;
    size_t count;
    struct mapping *mappings; /* ordered by address, as the kernel prints them */
    size_t mapping_count;
};

/* Parse; skips lines that it does not understand. 0 or -ENOMEM. */
int modules_parse(struct modules *modules, const char *maps);
void modules_release(struct modules *modules);
/* Report the executable ones to dwfl. 0 or -errno. */
int modules_report(struct modules *modules, Dwfl *dwfl, struct rc_err *err);
/* The dwfl callback that opens a module's file. */
int modules_find_elf(Dwfl_Module *mod, void **userdata, const char *name, Dwarf_Addr base,
                     char **file_name, Elf **ret_elf);
/* NULL = the address is in no file. */
struct module *modules_at(struct modules *modules, uint64_t address);
const struct mapping *modules_mapping_at(const struct modules *modules, uint64_t address);
/* Reads memory that nobody could write to, from its file. */
bool modules_read(struct modules *modules, uint64_t address, void *out, size_t length);

#endif
