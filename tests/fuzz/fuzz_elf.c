/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: a file that the target had mapped, read for its build id and its name. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "collectors/lib/elf_notes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    struct elf_identity id;
    if (fd < 0)
        fd = memfd_create("elf", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    if (elf_identify_fd(fd, size, &id) == 0 &&
        (strnlen(id.build_id, sizeof id.build_id) % 2 != 0 || (id.bits != 32 && id.bits != 64) ||
         memchr(id.soname, 0, sizeof id.soname) == NULL))
        abort();
    return 0;
}
