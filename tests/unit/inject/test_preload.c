/* SPDX-License-Identifier: Apache-2.0 */
/* The programs that get the library, and the changes of their environments. */
#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "inject/preload.h"
#include "temp_folder.h"

#define TEXT(text) ((char[]){text})

static char folder[TEMP_FOLDER_MAX];

static const char *put(const char *name, const void *data, size_t len, mode_t mode)
{
    static char path[TEMP_FOLDER_MAX + 128];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    (void)unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, len), (ssize_t)len);
    (void)close(fd);
    assert_int_equal(chmod(path, mode), 0);
    return path;
}

static struct preload own(void)
{
    static struct preload p;
    char path[256];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1); /* any existing file */
    assert_true(n > 0);
    path[n] = '\0';
    assert_int_equal(preload_set_path(&p, path), 0);
    (void)snprintf(p.config, sizeof p.config, PRELOAD_CONFIG "1:2:3:4");
    return p;
}

static enum preload_answer check(const char *program)
{
    struct preload p = own();
    static struct preload_room room;
    return preload_check(&p, program, &room);
}

static void test_paths_that_the_loader_would_split(void **state)
{
    struct preload p;
    (void)state;
    assert_true(preload_set_path(&p, "/no/such/file") < 0);
    assert_true(preload_set_path(&p, "relative.so") < 0);
    (void)put("a b", "x", 1, 0600);
    assert_true(preload_set_path(&p, put("a b", "x", 1, 0600)) < 0);
    assert_true(preload_set_path(&p, put("a:b", "x", 1, 0600)) < 0);
    assert_string_equal(p.path, "");
    assert_int_equal(preload_set_path(&p, put("ab", "x", 1, 0600)), 0);
}

static void test_library_that_went_away(void **state)
{
    static struct preload_room room;
    struct preload p;
    (void)state;
    assert_int_equal(preload_set_path(&p, put("lib", "x", 1, 0600)), 0);
    assert_int_equal(preload_check(&p, "/bin/sh", &room), PRELOAD_YES);
    /* Another file of that name, like in another root. */
    char other[128];
    (void)snprintf(other, sizeof other, "%s", put("other", "x", 1, 0600));
    assert_int_equal(rename(other, p.path), 0);
    assert_int_equal(preload_check(&p, "/bin/sh", &room), PRELOAD_INVISIBLE);
    assert_int_equal(unlink(p.path), 0);
    assert_int_equal(preload_check(&p, "/bin/sh", &room), PRELOAD_INVISIBLE);
}

static void test_programs(void **state)
{
    (void)state;
    assert_int_equal(check("/bin/sh"), PRELOAD_YES);
    assert_int_equal(check("/no/such/program"), PRELOAD_NO_FILE);
    assert_int_equal(check("/tmp"), PRELOAD_NO_FILE);
    assert_int_equal(check(put("text", "hello", 5, 0700)), PRELOAD_NOT_ELF);
    assert_int_equal(check(put("empty", "", 0, 0700)), PRELOAD_NOT_ELF);
    assert_int_equal(check(put("script", "#!/bin/sh\n", 10, 0700)), PRELOAD_YES);
    assert_int_equal(check(put("spaced", "#! \t/usr/bin/env sh\n", 20, 0700)), PRELOAD_YES);
    assert_int_equal(check(put("nobody", "#!/no/such/one\n", 15, 0700)), PRELOAD_NO_FILE);
    assert_int_equal(check(put("bare", "#!", 2, 0700)), PRELOAD_NOT_ELF);
    const char *path = put("itself", "", 0, 0700);
    char line[160];
    int n = snprintf(line, sizeof line, "#!%s\n", path);
    assert_int_equal(check(put("itself", line, (size_t)n, 0700)), PRELOAD_NOT_ELF);
}

/* A copy of the shell with some bytes changed. */
struct shell {
    unsigned char *bytes;
    size_t len;
};

static struct shell shell(void)
{
    struct shell s;
    struct stat st;
    int fd = open("/bin/sh", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    s.len = (size_t)st.st_size;
    s.bytes = malloc(s.len);
    assert_int_equal(read(fd, s.bytes, s.len), (ssize_t)s.len);
    (void)close(fd);
    return s;
}

static void change(unsigned char *bytes, size_t len, const char *from, const char *to)
{
    size_t n = strlen(from);
    unsigned char *at = memmem(bytes, len, from, n);
    assert_non_null(at);
    memcpy(at, to, n);
}

static void test_kinds_of_elf(void **state)
{
    (void)state;
    struct shell s = shell();
    Elf64_Ehdr *elf = (void *)s.bytes;
    assert_int_equal(check(put("same", s.bytes, s.len, 0700)), PRELOAD_YES);
    elf->e_ident[EI_CLASS] = ELFCLASS32;
    assert_int_equal(check(put("32", s.bytes, s.len, 0700)), PRELOAD_OTHER_CLASS);
    elf->e_ident[EI_CLASS] = ELFCLASS64;
    elf->e_machine = EM_AARCH64;
    assert_int_equal(check(put("arm", s.bytes, s.len, 0700)), PRELOAD_OTHER_CLASS);
    elf->e_machine = EM_X86_64;
    change(s.bytes, s.len, "/ld-linux-x86-64.so.2", "/ld-musl-x86_64.so.1\0");
    assert_int_equal(check(put("musl", s.bytes, s.len, 0700)), PRELOAD_OTHER_LOADER);
    free(s.bytes);
    s = shell();
    elf = (void *)s.bytes;
    change(s.bytes, s.len, "libc.so.6", "libasan.s");
    assert_int_equal(check(put("asan", s.bytes, s.len, 0700)), PRELOAD_SANITIZER);
    change(s.bytes, s.len, "libasan.s", "libc.so.6");
    Elf64_Phdr *headers = (void *)(s.bytes + elf->e_phoff);
    for (unsigned i = 0; i < elf->e_phnum; i++)
        if (headers[i].p_type == PT_INTERP)
            headers[i].p_type = PT_NULL;
    assert_int_equal(check(put("static", s.bytes, s.len, 0700)), PRELOAD_STATIC);
    free(s.bytes);
}

static void test_privileged(void **state)
{
    (void)state;
    struct shell s = shell();
    assert_int_equal(check(put("suid", s.bytes, s.len, 04755)), PRELOAD_PRIVILEGED);
    assert_int_equal(check(put("sgid", s.bytes, s.len, 02755)), PRELOAD_PRIVILEGED);
    free(s.bytes);
}

/* Any file gets an answer, without access outside it (run under the address sanitizer). */
static void test_damaged_elf(void **state)
{
    (void)state;
    struct shell s = shell();
    unsigned seed = 1;
    size_t len = s.len < 8192 ? s.len : 8192;
    for (int round = 0; round < 300; round++) {
        unsigned char *copy = malloc(len);
        memcpy(copy, s.bytes, len);
        for (int i = 0; i < 4; i++)
            copy[16 + (unsigned)rand_r(&seed) % (round % 2 ? 1000 : 48)] =
                (unsigned char)rand_r(&seed);
        enum preload_answer answer =
            check(put("damaged", copy, len - (unsigned)rand_r(&seed) % len, 0700));
        assert_true(answer <= PRELOAD_CROWDED);
        free(copy);
    }
    free(s.bytes);
}

/* --- environments --- */

static void test_environment(void **state)
{
    (void)state;
    struct preload p = own();
    static struct preload_room room;
    char expected[PRELOAD_LIST_MAX + PRELOAD_PATH_MAX];
    char *plain[] = {TEXT("A=1"), TEXT("B=2"), NULL};
    assert_int_equal(preload_environment(&p, plain, &room), PRELOAD_YES);
    (void)snprintf(expected, sizeof expected, "LD_PRELOAD=%s", p.path);
    assert_string_equal(room.list[0], "A=1");
    assert_string_equal(room.list[2], expected);
    assert_string_equal(room.list[3], PRELOAD_CONFIG "1:2:3:4");
    assert_null(room.list[4]);

    char *others[] = {TEXT("LD_PRELOAD=/x.so /y.so"), TEXT("C=3"), TEXT(PRELOAD_CONFIG "old"),
                      NULL};
    assert_int_equal(preload_environment(&p, others, &room), PRELOAD_YES);
    (void)snprintf(expected, sizeof expected, "LD_PRELOAD=%s:/x.so /y.so", p.path);
    assert_string_equal(room.list[0], expected);
    assert_string_equal(room.list[1], "C=3");
    assert_string_equal(room.list[2], PRELOAD_CONFIG "1:2:3:4");
    assert_null(room.list[3]);

    char *sanitizer[] = {TEXT("LD_PRELOAD=/usr/lib/libasan.so.8"), NULL};
    assert_int_equal(preload_environment(&p, sanitizer, &room), PRELOAD_SANITIZER);
    assert_int_equal(preload_environment(&p, NULL, &room), PRELOAD_YES);
    assert_string_equal(room.list[1], PRELOAD_CONFIG "1:2:3:4");
}

static void test_environment_without_room(void **state)
{
    (void)state;
    struct preload p = own();
    static struct preload_room room;
    static char *many[PRELOAD_ENVIRON_MAX + 10];
    char one[] = "A=1";
    for (size_t i = 0; i + 1 < sizeof many / sizeof many[0]; i++)
        many[i] = one;
    assert_int_equal(preload_environment(&p, many, &room), PRELOAD_TOO_LONG);
    static char longest[PRELOAD_LIST_MAX + 20] = "LD_PRELOAD=";
    memset(longest + 11, 'x', PRELOAD_LIST_MAX);
    char *lengthy[] = {longest, NULL};
    assert_int_equal(preload_environment(&p, lengthy, &room), PRELOAD_TOO_LONG);
}

static void check_removal(const char *value, const char *left)
{
    char text[256];
    char first[] = "A=1";
    char last[] = "B=2";
    char config[] = PRELOAD_CONFIG "7:8:9:a";
    (void)snprintf(text, sizeof text, "LD_PRELOAD=%s", value);
    char *list[] = {first, text, config, last, NULL};
    assert_string_equal(preload_remove(list, "/our/lib.so"), "7:8:9:a");
    assert_string_equal(list[0], "A=1");
    if (left == NULL) {
        assert_string_equal(list[1], "B=2");
        assert_null(list[2]);
        return;
    }
    assert_string_equal(list[1] + 11, left);
    assert_string_equal(list[2], "B=2");
    assert_null(list[3]);
}

static void test_removal(void **state)
{
    (void)state;
    check_removal("/our/lib.so", NULL);
    check_removal("/our/lib.so:", "");
    check_removal("/our/lib.so:/x.so", "/x.so");
    check_removal("/our/lib.so:/x.so /y.so", "/x.so /y.so");
    check_removal("/x.so:/our/lib.so", "/x.so");
    check_removal("/x.so:/our/lib.so:/y.so", "/x.so:/y.so");
    check_removal("/our/lib.so.old:/x.so", "/our/lib.so.old:/x.so");
    check_removal("/not/our/lib.so", "/not/our/lib.so");
    char *none[] = {TEXT("A=1"), NULL};
    assert_null(preload_remove(none, "/our/lib.so"));
}

static void test_search_in_path(void **state)
{
    (void)state;
    static struct preload_room room;
    char path[TEMP_FOLDER_MAX + 32];
    (void)put("found", "x", 1, 0700);
    (void)put("plain", "x", 1, 0600);
    (void)snprintf(path, sizeof path, "/nowhere:%s:/bin", folder);
    assert_string_equal(preload_find("./x", path, &room), "./x");
    assert_null(preload_find("", path, &room));
    assert_non_null(strstr(preload_find("found", path, &room), "/found"));
    char sub[TEMP_FOLDER_MAX + 8];
    (void)snprintf(sub, sizeof sub, "%s/sh", folder);
    assert_int_equal(mkdir(sub, 02775), 0); /* no program, although it is executable */
    assert_string_equal(preload_find("sh", path, &room), "/bin/sh");
    assert_string_equal(preload_find("sh", NULL, &room), "/bin/sh");
    assert_null(preload_find("no-such-program", path, &room));
}

static int make_folder(void **state)
{
    (void)state;
    const char *base = getenv("TMPDIR");
    if (base != NULL && strpbrk(base, " :;$") != NULL) /* the loader would split or expand it */
        (void)unsetenv("TMPDIR");
    return temp_folder(folder, sizeof folder, "rc-preload") ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char path[TEMP_FOLDER_MAX + 260];
    DIR *dir = opendir(folder);
    for (const struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        (void)remove(path); /* one is a folder */
    }
    (void)closedir(dir);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths_that_the_loader_would_split),
        cmocka_unit_test(test_library_that_went_away),
        cmocka_unit_test(test_programs),
        cmocka_unit_test(test_kinds_of_elf),
        cmocka_unit_test(test_privileged),
        cmocka_unit_test(test_damaged_elf),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_environment_without_room),
        cmocka_unit_test(test_removal),
        cmocka_unit_test(test_search_in_path),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
