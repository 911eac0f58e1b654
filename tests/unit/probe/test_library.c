/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries that exist, are missing, or exist only in another version. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fs.h"
#include "probe/library.h"
#include "temp_folder.h"

struct api {
    double (*cosine)(double);
    double (*nothing)(double);
};

static const struct library_symbol known[] = {{"cos", offsetof(struct api, cosine), false},
                                              {"no_such", offsetof(struct api, nothing), true}};
static const struct library_symbol unknown[] = {{"no_such", offsetof(struct api, nothing), false}};

static char folder[TEMP_FOLDER_MAX];

static int set_up(void **state)
{
    (void)state;
    return temp_folder(folder, sizeof folder, "library") ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return fs_remove_tree(AT_FDCWD, folder);
}

/* A real library under a name that the test chooses. */
static void install(const char *name)
{
    char path[FS_PATH_MAX];
    struct link_map *map = NULL;
    void *math = dlopen("libm.so.6", RTLD_NOW);
    assert_non_null(math);
    assert_int_equal(dlinfo(math, RTLD_DI_LINKMAP, &map), 0);
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(symlink(map->l_name, path), 0);
}

static const char *in_folder(char out[FS_PATH_MAX], const char *name)
{
    (void)snprintf(out, FS_PATH_MAX, "%s/%s", folder, name);
    return out;
}

static void test_the_first_that_is_there(void **state)
{
    (void)state;
    char missing[FS_PATH_MAX];
    char present[FS_PATH_MAX];
    struct rc_err err = {""};
    struct api api = {NULL, NULL};
    install("libone.so.4");
    const char *const names[] = {in_folder(missing, "libnone.so.1"), in_folder(present, "libone.so.4"), NULL};
    assert_non_null(library_open(names, known, 2, &api, &err));
    assert_true(api.cosine(0) == 1);
    assert_null(api.nothing);
    assert_null(library_open(names, unknown, 1, &api, &err));
    assert_non_null(strstr(err.msg, "has no function 'no_such'"));
}

static void test_missing(void **state)
{
    (void)state;
    char path[FS_PATH_MAX];
    struct rc_err err = {""};
    struct api api;
    const char *const names[] = {in_folder(path, "libnone.so.1"), NULL};
    assert_null(library_open(names, known, 2, &api, &err));
    assert_non_null(strstr(err.msg, "libnone.so.1: cannot open shared object file"));
}

static void test_another_version_is_told_and_not_used(void **state)
{
    (void)state;
    static const char *const versions[] = {"libtwo.so.3", "libtwo.so.1"};
    for (size_t i = 0; i < 2; i++) {
        char path[FS_PATH_MAX];
        struct rc_err err = {""};
        struct api api = {NULL, NULL};
        const char *const names[] = {in_folder(path, "libtwo.so.2"), NULL};
        install(versions[i]);
        assert_null(library_open(names, known, 2, &api, &err));
        assert_null(api.cosine);
        assert_non_null(strstr(err.msg, "libtwo.so.2'; '"));
        assert_non_null(strstr(err.msg, versions[i]));
        assert_non_null(strstr(err.msg, "interface is not known"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_first_that_is_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_missing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_another_version_is_told_and_not_used, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
