/* SPDX-License-Identifier: Apache-2.0 */
#include "collectors/cgroup_parse.h"

#include <ctype.h>
#include <string.h>

#include "base/buf.h"
#include "base/fs.h"
#include "base/number.h"

static bool has_controller(const char *list, size_t len, const char *controller)
{
    size_t want = strlen(controller);
    if (len == 0 || want == 0)
        return len == want;
    for (size_t start = 0, i = 0; i <= len; i++) {
        if (i < len && list[i] != ',')
            continue;
        if (i - start == want && memcmp(list + start, controller, want) == 0)
            return true;
        start = i + 1;
    }
    return false;
}

static bool path_is_plain(const char *path, size_t len)
{
    if (len == 0 || path[0] != '/')
        return false;
    /* "/../other": a process outside our cgroup name space. */
    for (size_t i = 0; i + 2 < len; i++)
        if (memcmp(path + i, "/..", 3) == 0 && (i + 3 == len || path[i + 3] == '/'))
            return false;
    return true;
}

/* 4:memory:/docker/0123...          0::/user.slice/user-1000.slice/session-2.scope */
bool cgroup_path(const char *membership, const char *controller, char *out, size_t size)
{
    for (const char *line = membership; line != NULL && *line != '\0';) {
        size_t len = strcspn(line, "\n");
        const char *first = memchr(line, ':', len);
        const char *second =
            first != NULL ? memchr(first + 1, ':', len - (size_t)(first + 1 - line)) : NULL;
        if (second != NULL && has_controller(first + 1, (size_t)(second - first - 1), controller)) {
            size_t path_len = len - (size_t)(second + 1 - line);
            if (path_len < size && path_is_plain(second + 1, path_len)) {
                memcpy(out, second + 1, path_len);
                out[path_len] = '\0';
                return true;
            }
        }
        line = line[len] == '\n' ? line + len + 1 : NULL;
    }
    return false;
}

/* "max", or 9223372036854771712 in v1 (PAGE_COUNTER_MAX, whatever the page size) */
bool cgroup_limit(const char *text, uint64_t *ret)
{
    uint64_t v = 0;
    if (fs_parse_u64(text, &v) != 0 || v >= (UINT64_C(1) << 62))
        return false;
    *ret = v;
    return true;
}

bool cgroup_key(const char *text, const char *key, uint64_t *ret)
{
    size_t want = strlen(key);
    for (const char *line = text; line != NULL && *line != '\0';) {
        if (strncmp(line, key, want) == 0 && line[want] == ' ')
            return number_of_field(line + want, ret) && *ret <= INT64_MAX;
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    return false;
}

const char *cgroup_container(const char *membership)
{
    static const struct {
        const char *part, *kind;
    } parts[] = {
        {"kubepods", "kubernetes"},
        {"/docker/", "docker"},
        {"/docker-", "docker"},
        {"libpod", "podman"},
        {"/lxc/", "lxc"},
        {"/lxc.payload", "lxc"},
        {"machine.slice/machine-", "systemd-nspawn"},
        {"cri-containerd", "containerd"},
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (strstr(membership, parts[i].part) != NULL)
            return parts[i].kind;
    return NULL;
}

/* Ids are long runs of hex digits, a pod's with '_' or '-' between: they name a tenant. */
void cgroup_append_path(struct buf *out, const char *path)
{
    for (size_t i = 0; path[i] != '\0';) {
        size_t n = 0;
        size_t digits = 0;
        while (isxdigit((unsigned char)path[i + n]) || path[i + n] == '_' || path[i + n] == '-')
            digits += isxdigit((unsigned char)path[i + n++]) != 0;
        if (digits >= 12) {
            buf_puts(out, "<id>");
        } else {
            n = n != 0 ? n : 1;
            for (size_t k = 0; k < n; k++)
                buf_putc(out, iscntrl((unsigned char)path[i + k]) ? '?' : path[i + k]);
        }
        i += n;
    }
}
