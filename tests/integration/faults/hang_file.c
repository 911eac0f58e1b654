/* SPDX-License-Identifier: Apache-2.0 */
/* Mounts a file whose reads never return over each file named, until its standard input ends. */
#include <stdio.h>
#include <unistd.h>

#include "fuse_file.h"

int main(int argc, char **argv)
{
    static struct fuse_file files[64];
    int count = 0;
    for (int i = 1; i < argc && count < 64; i++) {
        if (fuse_file_mount(&files[count], argv[i], "0\n") != 0)
            return 77;
        files[count++].control->hang = 1;
    }
    (void)puts("ready");
    (void)fflush(stdout);
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    for (int i = 0; i < count; i++)
        fuse_file_unmount(&files[i]);
    return 0;
}
