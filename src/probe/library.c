/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "base/err.h"

void *library_open(const char *const *names, const struct library_symbol *symbols, size_t count,
                   void *api, struct rc_err *err)
{
    void *handle = NULL;
    for (const char *const *name = names; *name != NULL && handle == NULL; name++) {
        handle = dlopen(*name, RTLD_NOW | RTLD_LOCAL);
        if (handle == NULL && name == names)
            (void)rc_err_set(err, -ENOENT, "%s", dlerror());
    }
    if (handle == NULL)
        return NULL;
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
