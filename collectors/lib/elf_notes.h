/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GNU build-id and soname of an ELF file, bounded: the file may be anything.
 */
#ifndef COLLECTORS_LIB_ELF_NOTES_H
#define COLLECTORS_LIB_ELF_NOTES_H

#include <stddef.h>
#include <stdint.h>

struct elf_identity {
    char build_id[65]; /* hex, "" = none */
    char soname[128];  /* "" = none */
    unsigned bits;     /* 32, 64 */
};

/* 0; -ENOEXEC if it is not ELF of this byte order; -errno. Damaged parts after the header are left
 * empty. */
int elf_identify(const char *path, struct elf_identity *ret);
int elf_identify_fd(int fd, uint64_t size, struct elf_identity *ret);

#endif
