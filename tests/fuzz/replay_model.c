/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds every file of a folder, and every cut of it, to a fuzz target: the corpus as a plain test.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *path)
{
    char *data = NULL;
    ssize_t len = fs_read_all(path, (size_t)4 << 20, &data);
    for (ssize_t cut = len; cut >= 0; cut--) {
        uint8_t *copy = malloc(cut != 0 ? (size_t)cut : 1); /* exact size, for the sanitizer */
        if (copy == NULL)
            break;
        memcpy(copy, data, (size_t)cut);
        (void)LLVMFuzzerTestOneInput(copy, (size_t)cut);
        free(copy);
        if (cut > 4096) /* long ones: the ends only */
            cut -= 997;
    }
    free(data);
    return len < 0 ? 1 : 0;
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    RC_AUTO_CLOSEDIR DIR *dir = opendir(argv[1]);
    if (dir == NULL) {
        (void)fprintf(stderr, "cannot open '%s': %s\n", argv[1], strerror(errno));
        return 1;
    }
    int failed = 0;
    int count = 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char path[FS_PATH_MAX];
        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name);
        failed |= replay(path);
        count++;
    }
    (void)printf("%d inputs\n", count);
    return failed != 0 || count == 0;
}
