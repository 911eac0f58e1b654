/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: the bundle reader. The first byte chooses: even = the rest is the .tar.gz as it is,
 * odd = the rest is the tar, wrapped into a right gzip first (else the CRC would stop nearly all).
 * Built with libFuzzer, or with FUZZ_REPLAY as a program that runs the files of a folder.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "base/err.h"
#include "base/fs.h"
#include "bundle/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int wrap(int fd, const uint8_t *data, size_t size)
{
    z_stream z = {0};
    if (deflateInit2(&z, 1, Z_DEFLATED, 16 + 15, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return -ENOMEM;
    size_t most = deflateBound(&z, size);
    uint8_t *out = malloc(most);
    z.next_in = (uint8_t *)(uintptr_t)data;
    z.avail_in = (unsigned)size;
    z.next_out = out;
    z.avail_out = (unsigned)most;
    int r = out != NULL && deflate(&z, Z_FINISH) == Z_STREAM_END
                ? fs_write_all(fd, out, z.total_out)
                : -ENOMEM;
    (void)deflateEnd(&z);
    free(out);
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > 1 << 20)
        return 0;
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    int r = data[0] % 2 == 0 ? fs_write_all(fd, data + 1, size - 1) : wrap(fd, data + 1, size - 1);
    struct rc_err err = {""};
    if (r == 0 && lseek(fd, 0, SEEK_SET) == 0) {
        r = bundle_verify_fd(fd, &err);
        if (r != 0 && r != -EBADMSG)
            abort();
        if (r != 0 && err.msg[0] == '\0')
            abort(); /* a refusal says why */
        for (const char *p = err.msg; *p != '\0'; p++) {
            if ((unsigned char)*p < 0x20 || (unsigned char)*p > 0x7e)
                abort(); /* and nothing of the archive reaches the terminal raw */
        }
    }
    (void)close(fd);
    return 0;
}

#ifdef FUZZ_REPLAY
#include <dirent.h>
#include <stdio.h>

#include "base/cleanup.h"

int main(int argc, char **argv)
{
    RC_AUTO_CLOSEDIR DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
    int count = 0;
    if (dir == NULL)
        return 2;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        char path[FS_PATH_MAX];
        RC_AUTO_FREE char *data = NULL;
        (void)snprintf(path, sizeof path, "%s/%s", argv[1], e->d_name);
        ssize_t n = e->d_name[0] == '.' ? -1 : fs_read_all(path, 1 << 20, &data);
        if (n < 0)
            continue;
        (void)LLVMFuzzerTestOneInput((const uint8_t *)data, (size_t)n);
        count++;
    }
    (void)printf("%d inputs replayed\n", count);
    return count > 0 ? 0 : 1;
}
#endif
