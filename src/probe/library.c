/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

#define VERSIONS_MAX 9u

/* "libx.so.1" is missing: is there a libx.so with another number? Its functions may have the same
 * names and other arguments, so we report it and do not use it. */
static void tell_other_version(const char *name, struct rc_err *err)
{
    char other[PATH_MAX];
    const char *end = name != NULL ? strstr(name, ".so.") : NULL;
    int len = end != NULL ? (int)(end - name) : 0;
    for (unsigned version = 0; len > 0 && version <= VERSIONS_MAX; version++) {
        (void)snprintf(other, sizeof other, "%.*s.so.%u", len, name, version);
        if (strcmp(other, name) == 0 || dlopen(other, RTLD_LAZY | RTLD_LOCAL) == NULL)
            continue;
        (void)rc_err_set(err, -ENOENT, "no '%s'; '%s' is there, whose interface is not known", name,
                         other);
        return;
    }
}

void *library_open(const char *const *names, const struct library_symbol *symbols, size_t count,
                   void *api, struct rc_err *err)
{
    void *handle = NULL;
    for (const char *const *name = names; *name != NULL && handle == NULL; name++) {
        handle = dlopen(*name, RTLD_NOW | RTLD_LOCAL);
        if (handle == NULL && name == names)
            (void)rc_err_set(err, -ENOENT, "%s", dlerror());
    }
    if (handle == NULL) {
        tell_other_version(names[0], err);
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        void *address = dlsym(handle, symbols[i].name);
        if (address == NULL && !symbols[i].optional) {
            (void)rc_err_set(err, -ENOSYS, "'%s' has no function '%s'", names[0], symbols[i].name);
            return NULL;
        }
        /* ISO C has no cast from object to function pointer; POSIX promises the same size. */
        memcpy((char *)api + symbols[i].offset, &address, sizeof address);
    }
    return handle;
}
