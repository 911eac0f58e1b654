/* SPDX-License-Identifier: Apache-2.0 */
/* Reading: hostile archives, damage of every byte, truncation, unpacking, rewriting. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/fs.h"
#include "bundle/bundle.h"
#include "bundle/internal.h"
#include "help.h"

static int count_entry(void *arg, const char *name, uint64_t bytes)
{
    (void)bytes;
    assert_true(entry_name_ok(name));
    ++*(int *)arg;
    return 0;
}

static bool printable(const char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20 || (unsigned char)*text > 0x7e)
            return false;
    }
    return true;
}

#define READ_TOGETHER 3

/* One pass reads and finds what bundle_read_files() and bundle_verify() do in two. Of a bundle that is damaged and has
 * none of the files it says the damage. */
static void check_one_pass(const char *path, int verified, const char *complaint)
{
    struct bundle_file apart[READ_TOGETHER] = {
        {.name = "SUMMARY.md", .max = 1 << 20}, {.name = "blob/x.bin", .max = 5}, {.name = "gpu/vram", .max = 4}};
    struct bundle_file one[READ_TOGETHER];
    struct rc_err damage = {""}, err = {""};
    memcpy(one, apart, sizeof one);
    int r = bundle_read_files(path, apart, READ_TOGETHER, &err);
    int together = bundle_read_verified(path, one, READ_TOGETHER, &damage, &err);
    assert_true(together == r || (r == 0 && together == verified));
    assert_string_equal(damage.msg, verified == -EBADMSG ? complaint : "");
    for (size_t i = 0; i < READ_TOGETHER; i++) {
        size_t bytes = one[i].len == -EFBIG ? one[i].max : one[i].len < 0 ? 0 : (size_t)one[i].len;
        assert_int_equal(one[i].len, apart[i].len);
        if (bytes > 0)
            assert_memory_equal(one[i].data, apart[i].data, bytes);
        free(one[i].data);
        free(apart[i].data);
    }
}

/* For each archive verify prints the expected complaint in one printable line, and unpack writes
 * nothing outside its folder.
 */
static void check_hostile(const char *dir, const char *file, const char *complaint)
{
    char path[700];
    char to[700];
    struct rc_err err = {""};
    (void)snprintf(path, sizeof path, "%s/%s", dir, file);
    (void)snprintf(to, sizeof to, "%s/cage/unpacked", dir);
    int r = bundle_verify(path, &err);
    if (complaint[0] == '\0' ? r != 0 : r != -EBADMSG || strstr(err.msg, complaint) == NULL)
        fail_msg("%s: %d '%s', not '%s'", file, r, err.msg, complaint);
    assert_true(printable(err.msg));
    check_one_pass(path, r, err.msg);
    (void)snprintf(to, sizeof to, "%s/cage", dir);
    assert_int_equal(mkdir(to, 0700), 0);
    (void)snprintf(to, sizeof to, "%s/cage/unpacked", dir);
    int unpacked = bundle_unpack(path, to, &err);
    if (complaint[0] == '\0')
        assert_int_equal(unpacked, 0);
    (void)snprintf(to, sizeof to, "%s/cage", dir);
    assert_int_equal(count_files(to), 1);
    assert_int_equal(fs_remove_tree(AT_FDCWD, to), 0);
    int count = 0;
    int listed = bundle_list(path, count_entry, &count, &err);
    assert_int_equal(listed == 0 && count > 0, complaint[0] == '\0' || unpacked == 0);
}

static void test_hostile(void **state)
{
    (void)state;
    char dir[600];
    char list[700];
    (void)snprintf(dir, sizeof dir, "%s", scratch("hostile"));
    assert_int_equal(mkdir(dir, 0700), 0);
    const char *const make[] = {"python3", TEST_SOURCE_DIR "/tests/fixtures/bundle/hostile.py", dir,
                                NULL};
    RC_AUTO_FREE char *said = NULL;
    int status = run_program(make, &said);
    if (status == 127) {
        print_message("skipped: no python3\n");
        skip();
    }
    if (status != 0)
        fail_msg("%s", said);
    struct rusage before, after;
    (void)getrusage(RUSAGE_SELF, &before);
    (void)snprintf(list, sizeof list, "%s/expect", dir);
    RC_AUTO_FREE char *expect = get_file(list, NULL);
    int count = 0;
    char *save = NULL;
    for (char *line = strtok_r(expect, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *tab = strchr(line, '\t');
        *tab = '\0';
        check_hostile(dir, line, tab + 1);
        count++;
    }
    (void)getrusage(RUSAGE_SELF, &after);
    print_message("%d archives, peak memory grew by %ld KiB\n", count,
                  after.ru_maxrss - before.ru_maxrss);
    assert_true(count >= 60);
#ifndef __SANITIZE_ADDRESS__
    assert_true(after.ru_maxrss - before.ru_maxrss < 64 * 1024);
#endif
}

static void test_not_files(void **state)
{
    (void)state;
    struct rc_err err = {""};
    char *data = NULL;
    assert_int_equal(bundle_verify(scratch("none.tar.gz"), &err), -ENOENT);
    assert_int_equal(bundle_verify(scratch("%s", ""), &err), -EISDIR);
    assert_int_equal(bundle_verify("/dev/zero", &err), -EINVAL);
    assert_int_equal(mkfifo(scratch("fifo"), 0600), 0);
    assert_int_equal(bundle_verify(scratch("fifo"), &err), -EINVAL);
    assert_int_equal(bundle_read_file(scratch("fifo"), "x", 10, &data, &err), -EINVAL);
    put_file(scratch("huge"), "", 0);
    assert_int_equal(truncate(scratch("huge"), (off_t)1 << 40), 0);
    assert_int_equal(bundle_verify(scratch("huge"), &err), -EBADMSG);
}

static void test_read_file(void **state)
{
    (void)state;
    const char *bundle = make_bundle("reading");
    struct rc_err err = {""};
    char *data = NULL;
    assert_int_equal(
        bundle_read_file(bundle, "gpu/gpu0/mem_info_vram_used", 100, &data, &err), 12);
    assert_string_equal(data, "17163091968\n");
    free(data);
    assert_int_equal(bundle_read_file(bundle, "output/empty", 0, &data, &err), 0);
    assert_string_equal(data, "");
    free(data);
    assert_int_equal(bundle_read_file(bundle, "SUMMARY.md", 4, &data, &err), -EFBIG);
    assert_string_equal(data, "# ca");
    free(data);
    data = NULL;
    assert_int_equal(bundle_read_file(bundle, "reading/SUMMARY.md", 4, &data, &err), -ENOENT);
    assert_null(data);
    int count = 0;
    assert_int_equal(bundle_list(bundle, count_entry, &count, &err), 0);
    assert_int_equal(count, 9);
}

/* The tar inside, uncompressed by the test's own code. */
static void inflate_all(const char *path, struct buf *out)
{
    RC_AUTO_CLOSE int fd = bundle_open(path, NULL);
    struct gunzip *g = NULL;
    const void *piece = NULL;
    ssize_t n;
    assert_int_equal(gunzip_open(&g, fd, NULL), 0);
    while ((n = gunzip_next(g, &piece, NULL)) > 0)
        buf_append(out, piece, (size_t)n);
    assert_int_equal(n, 0);
    gunzip_close(g);
}

/* Every byte flipped, one bit and all bits: verify refuses the bundle, or no byte of the tar changed: time,
 * compression flags and system in the gzip header (12), unused bits of a deflate block, a distance
 * that reaches other zeros. The number of the last kind depends on the contents; 14 to 22 were seen in 60 runs. */
static void test_flips(void **state)
{
    (void)state;
    size_t len = 0;
    RC_AUTO_FREE char *data = get_file(make_bundle("flips"), &len);
    const char *path = scratch("flipped.tar.gz");
    int harmless = 0;
    struct rc_err err = {""};
    struct buf right = BUF_INIT;
    put_file(path, data, len);
    inflate_all(path, &right);
    for (size_t i = 0; i < len; i++) {
        for (int mask = 1; mask <= 255; mask += 254) {
            data[i] = (char)(data[i] ^ mask);
            put_file(path, data, len);
            int r = bundle_verify(path, &err);
            check_one_pass(path, r, err.msg);
            data[i] = (char)(data[i] ^ mask);
            assert_true(r == 0 || r == -EBADMSG);
            if (r < 0)
                continue;
            struct buf now = BUF_INIT;
            inflate_all(path, &now);
            if (now.len != right.len || memcmp(now.data, right.data, now.len) != 0)
                fail_msg("flip of byte %zu of %zu was not seen", i, len);
            buf_release(&now);
            harmless++;
        }
    }
    buf_release(&right);
    print_message("%zu bytes flipped twice, %d harmless\n", len, harmless);
    assert_in_range(harmless, 12, 60);
}

/* A small bundle cut off at every byte, and its tar at each multiple of 512 bytes. */
static void test_truncated(void **state)
{
    (void)state;
    size_t len = 0;
    RC_AUTO_FREE char *data = get_file(make_bundle("truncated"), &len);
    const char *path = scratch("short.tar.gz");
    struct rc_err err = {""};
    for (size_t i = 0; i < len; i++) {
        put_file(path, data, i);
        assert_int_equal(bundle_verify(path, &err), -EBADMSG);
    }
    put_file(path, data, len);
    assert_int_equal(bundle_verify(path, &err), 0);
    const char *const code = "import sys,gzip\n"
                             "d=gzip.open(sys.argv[1]).read()\n"
                             "for i in range(0,len(d),512):\n"
                             "  open('%s/cut%d.tar.gz'%(sys.argv[2],i//512),'wb')"
                             ".write(gzip.compress(d[:i],1))\n"
                             "print(len(d)//512,end='')";
    const char *const make[] = {"python3", "-c", code, path, scratch("%s", ""), NULL};
    RC_AUTO_FREE char *said = NULL;
    if (run_program(make, &said) == 127)
        skip();
    int blocks = atoi(said);
    assert_true(blocks > 20);
    for (int i = 0; i < blocks; i++)
        assert_int_equal(bundle_verify(scratch("cut%d.tar.gz", i), &err), -EBADMSG);
}

static void test_unpack(void **state)
{
    (void)state;
    const char *bundle = make_bundle("unpacking");
    struct rc_err err = {""};
    char to[600];
    (void)snprintf(to, sizeof to, "%s", scratch("fresh"));
    assert_int_equal(bundle_unpack(bundle, to, &err), 0);
    struct stat st;
    assert_int_equal(stat(to, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    RC_AUTO_FREE char *a = get_file(scratch("fresh/blob/x.bin"), NULL);
    RC_AUTO_FREE char *b = get_file(scratch("stage-unpacking/blob/x.bin"), NULL);
    assert_memory_equal(a, b, 3000);
    assert_int_equal(stat(scratch("fresh/blob/x.bin"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(bundle_unpack(bundle, to, &err), -ENOTEMPTY);
    assert_int_equal(symlink("/tmp", scratch("to-tmp")), 0);
    assert_true(bundle_unpack(bundle, scratch("to-tmp"), &err) < 0);
    assert_int_equal(mkdir(scratch("theirs"), 0777), 0);
    if (chown(scratch("theirs"), 65534, 65534) == 0)
        assert_int_equal(bundle_unpack(bundle, scratch("theirs"), &err), -EPERM);
}

static int add_kernel_log(void *arg, const char *stage_dir, struct manifest *manifest,
                          struct rc_err *err)
{
    char path[700];
    if (arg != NULL)
        return rc_err_set(err, -ECANCELED, "changed my mind");
    (void)snprintf(path, sizeof path, "%s/kernel_log/dmesg.txt", stage_dir);
    put_text(path, "[1.0] amdgpu: ring sdma0 timeout\n");
    return manifest_add_item(manifest, "kernel_log_root", COLLECT_OK, NULL, 5);
}

static void test_rewrite(void **state)
{
    (void)state;
    char bundle[700];
    (void)snprintf(bundle, sizeof bundle, "%s", make_bundle("rewriting"));
    bool root = geteuid() == 0;
    assert_int_equal(chmod(bundle, 0640), 0);
    if (root)
        assert_int_equal(chown(bundle, 65534, 65534), 0);
    size_t before = count_files(scratch("%s", ""));
    struct rc_err err = {""};
    int no = 1;
    assert_int_equal(bundle_rewrite(bundle, BUNDLE_MODE_KEPT, add_kernel_log, &no, &err), -ECANCELED);
    assert_int_equal(bundle_rewrite(bundle, BUNDLE_MODE_KEPT, add_kernel_log, NULL, &err), 0);
    assert_int_equal(bundle_verify(bundle, &err), 0);
    assert_int_equal(count_files(scratch("%s", "")), before);
    struct stat st;
    assert_int_equal(stat(bundle, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    if (root)
        assert_int_equal(st.st_uid, 65534);
    char *text = NULL;
    assert_true(bundle_read_file(bundle, "manifest.json", 1 << 20, &text, &err) > 0);
    cJSON *doc = cJSON_Parse(text);
    free(text);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(doc, "items")), 3);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(doc, "files")), 9);
    assert_string_equal(cJSON_GetObjectItem(doc, "name")->valuestring, "rewriting");
    assert_string_equal(cJSON_GetObjectItem(doc, "trace_lost")->valuestring, "nothing");
    cJSON_Delete(doc);
    assert_int_equal(symlink(bundle, scratch("linked.tar.gz")), 0);
    assert_true(bundle_rewrite(scratch("linked.tar.gz"), BUNDLE_MODE_KEPT, add_kernel_log, NULL, &err) < 0);
    put_text(scratch("junk.tar.gz"), "junk");
    assert_int_equal(bundle_rewrite(scratch("junk.tar.gz"), BUNDLE_MODE_KEPT, add_kernel_log, NULL, &err), -EBADMSG);
}

struct death {
    int signal;
    const char *note; /* gets the name of the stage */
};

static int die_here(void *arg, const char *stage_dir, struct manifest *manifest, struct rc_err *err)
{
    const struct death *death = arg;
    (void)manifest;
    put_text(death->note, stage_dir);
    (void)signal(SIGINT, SIG_DFL);
    (void)kill(getpid(), death->signal);
    return rc_err_set(err, -ECANCELED, "still alive");
}

/* The stage has what is not redacted yet. */
static void test_rewrite_is_killed(void **state)
{
    (void)state;
    static const int signals[] = {SIGINT, SIGKILL};
    char note[700];
    (void)snprintf(note, sizeof note, "%s", scratch("note"));
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct death death = {signals[i], note};
        struct rc_err err = {""};
        char bundle[700];
        (void)snprintf(bundle, sizeof bundle, "%s", make_bundle(i == 0 ? "interrupted" : "killed"));
        pid_t pid = fork();
        if (pid == 0)
            _exit(bundle_rewrite(bundle, BUNDLE_MODE_KEPT, die_here, &death, &err) != 0);
        int status = 0;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == signals[i]);
        size_t len;
        char *stage = get_file(note, &len);
        for (int tries = 0; tries < 200000 && access(stage, F_OK) == 0; tries++)
            (void)poll(NULL, 0, 1);
        assert_int_not_equal(access(stage, F_OK), 0);
        free(stage);
    }
}

/* Another user of a shared folder has a file at each name that can be guessed. */
static void test_rewrite_where_names_are_taken(void **state)
{
    (void)state;
    char bundle[700];
    struct rc_err err = {""};
    (void)snprintf(bundle, sizeof bundle, "%s", make_bundle("shared"));
    const char *taken = scratch(".rocmcrash-%ld.partial", (long)getpid());
    put_text(taken, "theirs");
    size_t before = count_files(scratch("%s", ""));
    assert_int_equal(bundle_rewrite(bundle, BUNDLE_MODE_KEPT, add_kernel_log, NULL, &err), 0);
    assert_int_equal(bundle_verify(bundle, &err), 0);
    assert_int_equal(count_files(scratch("%s", "")), before);
    size_t len;
    char *text = get_file(taken, &len);
    assert_string_equal(text, "theirs");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hostile),   cmocka_unit_test(test_not_files),
        cmocka_unit_test(test_read_file), cmocka_unit_test(test_flips),
        cmocka_unit_test(test_truncated), cmocka_unit_test(test_unpack),
        cmocka_unit_test(test_rewrite),   cmocka_unit_test(test_rewrite_where_names_are_taken),
        cmocka_unit_test(test_rewrite_is_killed),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
