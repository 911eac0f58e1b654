/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target over the files of the folders given: crashes that were found stay found. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned replay_file(const char *folder, const char *name)
{
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "rbe");
    if (f == NULL)
        return 0;
    size_t max = (size_t)16 << 20;
    uint8_t *data = malloc(max);
    size_t n = data != NULL ? fread(data, 1, max, f) : 0;
    uint8_t *exact = malloc(n > 0 ? n : 1);
    if (data != NULL && exact != NULL) {
        memcpy(exact, data, n);
        (void)LLVMFuzzerTestOneInput(exact, n);
    }
    free(exact);
    free(data);
    (void)fclose(f);
    return 1;
}

int main(int argc, char **argv)
{
    unsigned files = 0;
    for (int i = 1; i < argc; i++) {
        DIR *dir = opendir(argv[i]);
        if (dir == NULL)
            continue;
        for (struct dirent *e; (e = readdir(dir)) != NULL;)
            if (e->d_name[0] != '.')
                files += replay_file(argv[i], e->d_name);
        (void)closedir(dir);
    }
    (void)printf("%u files\n", files);
    return files > 0 ? 0 : 1;
}
