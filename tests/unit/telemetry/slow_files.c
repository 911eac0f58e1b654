/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counter files that answer like an SMU: late, and with a new number each time. Used by
 * tests/bench: slow_files DELAY_US FILE... mounts each, says "ready", and serves until stdin ends.
 * Status 77 where nothing can be mounted (not root, no /dev/fuse).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "fuse_file.h"

#define FILES_MAX 256

static struct fuse_file files[FILES_MAX];
static int mounted;

static int mount_one(const char *path, int delay_us)
{
    static char texts[FILES_MAX][64];
    char *text = texts[mounted];
    if (fs_read_text(path, text, sizeof texts[0]) <= 0)
        return 1;
    int r = fuse_file_mount(&files[mounted], path, text);
    if (r != 0) {
        (void)fprintf(stderr, "%s: %s\n", path, strerror(-r));
        return 77;
    }
    files[mounted].control->delay_us = delay_us;
    files[mounted].control->counting = 1;
    mounted++;
    return 0;
}

int main(int argc, char **argv)
{
    int status = argc < 3 || argc - 2 > FILES_MAX;
    for (int i = 2; i < argc && status == 0; i++)
        status = mount_one(argv[i], atoi(argv[1]));
    if (status == 0) {
        char byte;
        (void)!write(STDOUT_FILENO, "ready\n", 6);
        while (read(STDIN_FILENO, &byte, 1) > 0)
            ;
    }
    unsigned reads = 0;
    while (mounted > 0) {
        reads += files[--mounted].control->reads;
        fuse_file_unmount(&files[mounted]);
    }
    (void)printf("%u\n", reads);
    return status;
}
