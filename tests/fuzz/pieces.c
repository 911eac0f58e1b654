/* SPDX-License-Identifier: Apache-2.0 */
#include "pieces.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"

static char folder[] = "/dev/shm/rc-fuzz-XXXXXX";
static pid_t owner;

static void remove_folder(void)
{
    if (getpid() == owner)
        (void)fs_remove_tree(AT_FDCWD, folder);
}

const char *pieces_folder(void)
{
    if (owner != 0)
        return folder;
    if (mkdtemp(folder) == NULL)
        abort();
    owner = getpid();
    (void)atexit(remove_folder);
    return folder;
}

static void write_one(const char *name, const void *data, size_t size)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", pieces_folder(), name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) {
        char *slash = strrchr(path, '/');
        *slash = '\0';
        (void)fs_mkdir_p(path);
        *slash = '/';
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    }
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    (void)close(fd);
}

/* Takes the next piece out of the input; never NULL, NUL-terminated. */
static char *take(const uint8_t **data, size_t *size, size_t *ret_len)
{
    char *out = malloc(*size + 1);
    size_t len = 0;
    if (out == NULL)
        abort();
    while (*size > 0) {
        bool escaped = **data == 0xfe && *size > 1;
        bool end = **data == 0xff;
        int c = escaped ? 0xff - ((*data)[1] & 1) : **data;
        *data += escaped ? 2 : 1;
        *size -= escaped ? 2 : 1;
        if (end)
            break;
        out[len++] = (char)c;
    }
    out[len] = '\0';
    *ret_len = len;
    return out;
}

void pieces_fill(const char *const *names, size_t count, const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < count; i++) {
        size_t len;
        char *piece = take(&data, &size, &len);
        if (len > 0) {
            write_one(names[i], piece, len);
        } else {
            char path[512];
            (void)snprintf(path, sizeof path, "%s/%s", pieces_folder(), names[i]);
            (void)unlink(path);
        }
        free(piece);
    }
}

char *pieces_next(const uint8_t **data, size_t *size)
{
    size_t len;
    char *piece = take(data, size, &len);
    char *text = strdup(piece); /* of the size that it has, for the sanitizer */
    if (text == NULL)
        abort();
    free(piece);
    return text;
}
