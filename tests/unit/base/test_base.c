/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/json_bound.h"
#include "base/number.h"
#include "base/proc_stat.h"
#include "base/utf8.h"
#include "temp_folder.h"

static void test_err_wraps_and_truncates(void **state)
{
    (void)state;
    struct rc_err err;
    assert_int_equal(rc_err_errno(&err, -ENOENT, "cannot open '%s'", "x"), -ENOENT);
    assert_string_equal(err.msg, "cannot open 'x': No such file or directory");
    assert_int_equal(rc_err_wrap(&err, -EIO, "run %d", 7), -EIO);
    assert_string_equal(err.msg, "run 7: cannot open 'x': No such file or directory");
    char big[1000];
    memset(big, 'a', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    (void)rc_err_set(&err, -1, "%s", big);
    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
    (void)rc_err_errno(&err, -ENAMETOOLONG, "cannot open '%s'", big);
    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
    assert_non_null(strstr(err.msg, "aaa: File name too long"));
    (void)rc_err_set(&err, -1, "cannot open '%s'", "a\nb\x1b[2J\xe9");
    assert_string_equal(err.msg, "cannot open 'a?b?[2J\xe9'");
    assert_int_equal(rc_err_set(NULL, -5, "nobody listens"), -5);
}

static void test_buf_cap_is_sticky(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 8);
    buf_puts(&b, "12345678");
    assert_false(buf_failed(&b));
    buf_putc(&b, '9');
    assert_true(buf_failed(&b));
    assert_string_equal(buf_str(&b), "12345678");
    buf_release(&b);
    assert_string_equal(buf_str(&b), "");
    buf_printf(&b, "%d", 12);
    assert_string_equal(buf_str(&b), "12");
    buf_release(&b);
}

static void write_file(const char *path, const void *data, size_t len)
{
    RC_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fs_write_all(fd, data, len), 0);
}

static void test_read_text_strips_padding(void **state)
{
    const char *dir = *state;
    char path[300];
    (void)snprintf(path, sizeof path, "%s/padded", dir);
    char padded[4096] = "17163091968\n";
    write_file(path, padded, sizeof padded);
    char out[64];
    assert_int_equal(fs_read_text(path, out, sizeof out), 11);
    assert_string_equal(out, "17163091968");
    write_file(path, "", 0);
    assert_int_equal(fs_read_text(path, out, sizeof out), 0);
    write_file(path, "0123456789", 10);
    char small[5];
    assert_int_equal(fs_read_text(path, small, sizeof small), -EFBIG);
    assert_string_equal(small, "0123");
    assert_int_equal(fs_read_text("/nonexistent/x", out, sizeof out), -ENOENT);
}

/* Was the file opened since the last look? O_PATH does not count: it has no effect on a device. */
static bool was_opened(int watch)
{
    char events[1024];
    return read(watch, events, sizeof events) > 0;
}

static void test_only_regular_files_are_opened(void **state)
{
    const char *dir = *state;
    char fifo[300];
    char link[300];
    char out[64];
    (void)snprintf(fifo, sizeof fifo, "%s/fifo", dir);
    (void)snprintf(link, sizeof link, "%s/link", dir);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(symlink("fifo", link), 0);
    RC_AUTO_CLOSE int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    assert_true(inotify_add_watch(watch, fifo, IN_OPEN) >= 0);
    assert_int_equal(fs_read_regular_text(link, out, sizeof out), -ENODEV);
    assert_int_equal(fs_open_regular(fifo), -ENODEV);
    assert_false(was_opened(watch));
    assert_int_equal(fs_read_text(link, out, sizeof out), -ESPIPE);
    assert_true(was_opened(watch)); /* the watch sees it */
    assert_int_equal(fs_read_regular_text("/dev/null", out, sizeof out), -ENODEV);
    assert_int_equal(fs_read_regular_text(dir, out, sizeof out), -EISDIR);
    assert_int_equal(fs_read_regular_text("/nonexistent/x", out, sizeof out), -ENOENT);
    assert_true(fs_read_regular_text("/proc/self/stat", out, sizeof out) == -EFBIG);
    assert_int_equal(unlink(link), 0);
    write_file(link, "text\n", 5);
    assert_int_equal(fs_read_regular_text(link, out, sizeof out), 4);
    assert_string_equal(out, "text");
}

static void test_read_all_is_bounded(void **state)
{
    const char *dir = *state;
    char path[300];
    (void)snprintf(path, sizeof path, "%s/all", dir);
    char data[10000];
    memset(data, 'x', sizeof data);
    write_file(path, data, sizeof data);
    char *got = NULL;
    assert_int_equal(fs_read_all(path, 20000, &got), 10000);
    free(got);
    assert_int_equal(fs_read_all(path, 10000, &got), 10000);
    free(got);
    assert_int_equal(fs_read_all(path, 9999, &got), -EFBIG);
    assert_int_equal(strlen(got), 9999);
    free(got);
}

static void test_write_file_replaces_and_mkdir(void **state)
{
    const char *dir = *state;
    char path[300];
    (void)snprintf(path, sizeof path, "%s/a/b/c", dir);
    assert_int_equal(fs_mkdir_p(path), 0);
    assert_int_equal(fs_mkdir_p(path), 0);
    RC_AUTO_CLOSE int fd = open(path, O_RDONLY | O_DIRECTORY);
    assert_int_equal(fs_write_file_at(fd, "f", "one", 3, true), 0);
    assert_int_equal(fs_write_file_at(fd, "f", "two", 3, false), 0);
    struct stat st;
    assert_int_equal(fstatat(fd, "f", &st, 0), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(fs_write_file_at(fd, "no/such", "x", 1, false), -ENOENT);
    assert_int_equal(mkdirat(fd, "folder", 0700), 0);
    assert_int_equal(fs_write_file_at(fd, "folder", "one", 3, false), 0);
    assert_int_equal(fstatat(fd, "folder.folder", &st, 0), 0);
    assert_int_equal(mkdirat(fd, "other", 0700), 0);
    assert_int_equal(fs_close(fs_open_write(fd, "other", O_WRONLY | O_APPEND)), 0);
    (void)snprintf(path, sizeof path, "%s/a/b", dir);
    assert_int_equal(fs_open_write(AT_FDCWD, path, O_WRONLY), -EISDIR); /* a user's folder */
    (void)snprintf(path, sizeof path, "%s/a/b/c", dir);
    assert_int_equal(symlinkat("/etc/passwd", fd, "link"), 0);
    assert_int_equal(fs_remove_tree(AT_FDCWD, path), 0);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(access("/etc/passwd", F_OK), 0);
}

static void test_parse_u64(void **state)
{
    (void)state;
    uint64_t v = 7;
    assert_int_equal(fs_parse_u64(" 42\n", &v), 0);
    assert_int_equal(v, 42);
    assert_int_equal(fs_parse_u64("18446744073709551615", &v), 0);
    assert_int_equal(fs_parse_u64("18446744073709551616", &v), -ERANGE);
    assert_int_equal(fs_parse_u64("-1", &v), -EINVAL);
    assert_int_equal(fs_parse_u64("", &v), -EINVAL);
    assert_int_equal(fs_parse_u64("12x", &v), -EINVAL);
    assert_int_equal(fs_parse_u64("12 34", &v), -EINVAL); /* two numbers are not one */
}

static void test_proc_numbers(void **state)
{
    (void)state;
    const char *line = "7 (a) 9 (b) S 4 5 6";
    assert_int_equal(proc_stat_field(line, 4), 4);
    assert_int_equal(proc_stat_field(line, 6), 6);
    assert_int_equal(proc_stat_field(line, 7), 0);
    assert_int_equal(proc_stat_field("", 4), 0);
    assert_int_equal(proc_stat_of(getpid(), 4), getppid());
    assert_int_equal(proc_stat_of(-1, 4), 0);
    assert_int_equal(proc_status_number(getpid(), "Pid"), getpid());
    assert_int_equal(proc_status_number(getpid(), "PPid"), getppid());
    assert_int_equal(proc_status_number(getpid(), "Nothing"), 0);
    assert_int_equal(proc_status_number(-1, "Pid"), 0);
}

static void test_number_take(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned base;
        bool good;
        uint64_t want;
        const char *rest;
    } cases[] = {
        {"12 34", 10, true, 12, " 34"},
        {"7f1cB-", 16, true, 0x7f1cb, "-"},
        {"12a", 10, true, 12, "a"},
        {"18446744073709551615", 10, true, UINT64_MAX, ""},
        {"ffffffffffffffff", 16, true, UINT64_MAX, ""},
        {"18446744073709551616", 10, false, 0, NULL},
        {"10000000000000000", 16, false, 0, NULL},
        {"", 10, false, 0, NULL},
        {" 1", 10, false, 0, NULL},
        {"-1", 10, false, 0, NULL},
        {"+1", 10, false, 0, NULL},
        {"a", 10, false, 0, NULL},
        {"0x10", 16, true, 0, "x10"},
        {"g", 16, false, 0, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *at = cases[i].text;
        uint64_t value = 77;
        assert_int_equal(number_take(&at, cases[i].base, &value), cases[i].good);
        assert_int_equal(value, cases[i].good ? cases[i].want : 77);
        assert_string_equal(at, cases[i].good ? cases[i].rest : cases[i].text);
    }
}

static void test_number_of_field(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool good;
        uint64_t value;
    } cases[] = {{" 42 kB\n", true, 42}, {"42", true, 42},   {"\t7\n8", true, 7}, {"", false, 0},
                 {"42kB", false, 0},     {"-1 ", false, 0}, {"x", false, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t value = 0;
        assert_int_equal(number_of_field(cases[i].text, &value), cases[i].good);
        assert_int_equal(value, cases[i].value);
    }
}

static void test_number_take_before(void **state)
{
    (void)state;
    const char *const line = "7f00-7f10 5";
    const char *at = line;
    uint64_t value = 77;
    assert_false(number_take_before(&at, 16, ' ', &value));
    assert_ptr_equal(at, line);
    assert_int_equal(value, 77);
    assert_true(number_take_before(&at, 16, '-', &value));
    assert_int_equal(value, 0x7f00);
    assert_true(number_take_before(&at, 16, ' ', &value));
    assert_true(number_take_before(&at, 10, '\0', &value));
    assert_int_equal(value, 5);
    assert_ptr_equal(at, line + strlen(line)); /* not past the NUL */
}

static void test_number_in_name(void **state)
{
    (void)state;
    assert_int_equal(number_in_name("renderD128", "renderD"), 128);
    assert_int_equal(number_in_name("card0", "card"), 0);
    assert_int_equal(number_in_name("card0-DP-1", "card"), -1);
    assert_int_equal(number_in_name("card", "card"), -1);
    assert_int_equal(number_in_name("controlD64", "card"), -1);
    assert_int_equal(number_in_name("4242", ""), 4242);
    assert_int_equal(number_in_name("self", ""), -1);
    assert_int_equal(number_in_name("2147483647", ""), INT32_MAX);
    assert_int_equal(number_in_name("2147483648", ""), -1);
    assert_int_equal(number_in_name("99999999999999999999999", ""), -1);
    assert_int_equal(number_in_name("-1", ""), -1);
}

static void test_utf8(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t left, want;
        uint32_t point;
    } cases[] = {
        {"a", 1, 1, 'a'},
        {"", 1, 1, 0},
        {"\xc2\x80", 2, 2, 0x80},
        {"\xdf\xbf", 2, 2, 0x7ff},
        {"\xe0\xa0\x80", 3, 3, 0x800},
        {"\xed\x9f\xbf", 3, 3, 0xd7ff},
        {"\xee\x80\x80", 3, 3, 0xe000},
        {"\xf0\x90\x80\x80", 4, 4, 0x10000},
        {"\xf4\x8f\xbf\xbf", 4, 4, 0x10ffff},
        {"a", 0, 0, 0},
        {"\x80", 1, 0, 0},             /* a later byte first */
        {"\xc1\xbf", 2, 0, 0},         /* overlong */
        {"\xe0\x9f\xbf", 3, 0, 0},     /* overlong */
        {"\xf0\x8f\xbf\xbf", 4, 0, 0}, /* overlong */
        {"\xed\xa0\x80", 3, 0, 0},     /* surrogate */
        {"\xf4\x90\x80\x80", 4, 0, 0}, /* above U+10FFFF */
        {"\xf5\x80\x80\x80", 4, 0, 0},
        {"\xc3(", 2, 0, 0},
        {"\xe2\x82(", 3, 0, 0},
        {"\xf0\x9f\x98(", 4, 0, 0},
        {"\xe2\x82", 2, 0, 0}, /* cut */
        {"\xe2\x82\xac", 2, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const unsigned char *p = (const unsigned char *)cases[i].text;
        uint32_t point = 77;
        assert_int_equal(utf8_decode(p, cases[i].left, &point), cases[i].want);
        assert_int_equal(point, cases[i].want > 0 ? cases[i].point : 77);
        assert_int_equal(utf8_length(p, cases[i].left), cases[i].want);
    }
}

static int setup(void **state)
{
    static char dir[TEMP_FOLDER_MAX];
    *state = dir;
    return temp_folder(dir, sizeof dir, "rc-base") ? 0 : -1;
}

static int teardown(void **state)
{
    return fs_remove_tree(AT_FDCWD, *state);
}

static void test_number_of_a_stranger(void **state)
{
    (void)state;
    assert_int_equal(number_from_real(-2.9), -2);
    assert_int_equal(number_from_real(2.9), 2);
    assert_true(number_from_real(0x1p63) == INT64_MAX);
    assert_true(number_from_real(-1e300) == INT64_MIN);
    assert_true(number_from_real(-0x1p63) == INT64_MIN);
    assert_int_equal(number_from_real((double)NAN), 0);
    assert_true(number_sum(INT64_MAX - 1, 2) == INT64_MAX);
    assert_true(number_sum(INT64_MIN + 1, -2) == INT64_MIN);
    assert_int_equal(number_sum(-3, 5), 2);
}

/* Only the number of values outside of texts counts, and only in a file that is named ".json". */
static void test_json_bound(void **state)
{
    static const struct {
        const char *name;
        char fill;
        bool in_text, may;
    } rows[] = {
        {"facts.json", ',', false, false}, {"a/.json", '[', false, false}, {"facts.json", ',', true, true},
        {"facts.json", ' ', false, true},  {"facts.jsonl", ',', false, true}, {"json", ',', false, true},
        {"facts.json.txt", ',', false, true},
    };
    size_t len = JSON_VALUES_MAX + 2;
    char *text = malloc(len);
    (void)state;
    assert_non_null(text);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        memset(text, rows[i].fill, len);
        text[0] = text[len - 1] = rows[i].in_text ? '"' : ' ';
        assert_int_equal(json_file_is_bounded(rows[i].name, text, len), rows[i].may);
    }
    assert_true(json_file_is_bounded("facts.json", text, 0));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_err_wraps_and_truncates),
        cmocka_unit_test(test_buf_cap_is_sticky),
        cmocka_unit_test(test_read_text_strips_padding),
        cmocka_unit_test(test_only_regular_files_are_opened),
        cmocka_unit_test(test_read_all_is_bounded),
        cmocka_unit_test(test_write_file_replaces_and_mkdir),
        cmocka_unit_test(test_parse_u64),
        cmocka_unit_test(test_number_take),
        cmocka_unit_test(test_proc_numbers),
        cmocka_unit_test(test_number_of_field),
        cmocka_unit_test(test_number_take_before),
        cmocka_unit_test(test_number_in_name),
        cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_number_of_a_stranger),
        cmocka_unit_test(test_json_bound),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
