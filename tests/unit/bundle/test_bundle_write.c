/* SPDX-License-Identifier: Apache-2.0 */
/* Writing: names, manifest, the view of other programs, the size limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static void test_names(void **state)
{
    (void)state;
    static const struct {
        struct bundle_title title;
        const char *want;
    } rows[] = {
        {{1767225599, "python", "capacity", NULL, NULL}, "rocmcrash-20251231T235959Z-python-capacity"},
        {{1767225599, "/usr/bin/llama server", "gpu-hang", "3", NULL},
         "rocmcrash-20251231T235959Z-llama-server-gpu-hang-r3"},
        {{1767225599, "x", "leak", "3", "rc-1a2b3c4d5e6f"}, "rocmcrash-20251231T235959Z-x-leak-r3-rc-1a2b3c4d5e6f"},
        {{0, "../..", "", "", ""}, "rocmcrash-19700101T000000Z-program-unknown"},
        {{0, "a\nb\x1b[31m/", "x", NULL, "rc-1"}, "rocmcrash-19700101T000000Z-program-x-rc-1"},
        {{0, NULL, NULL, "../7", "../\n"}, "rocmcrash-19700101T000000Z-program-unknown-r7-"},
        {{0, "\xc3\xa4x", "u", NULL, NULL}, "rocmcrash-19700101T000000Z-x-u"},
        {{0, "<project1>.py", "x", NULL, NULL}, "rocmcrash-19700101T000000Z-project1.py-x"},
        {{0, "run-<ip1>_4<user2>b<host1>", "x", NULL, NULL}, "rocmcrash-19700101T000000Z-run-ip1_4-user2-b-host1-x"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char name[256];
        struct bundle_title title = rows[i].title;
        title.wall_ns = title.wall_ns * 1000000000u + 5;
        bundle_name(name, sizeof name, &title);
        assert_string_equal(name, rows[i].want);
        assert_true(top_name_ok(name));
    }
    char long_program[5000];
    memset(long_program, 'p', sizeof long_program - 1);
    long_program[sizeof long_program - 1] = '\0';
    for (size_t size = 1; size < 300; size++) {
        char name[300];
        memset(name, '#', sizeof name);
        bundle_name(name, size, &(struct bundle_title){UINT64_MAX, long_program, long_program, long_program, long_program});
        assert_true(strnlen(name, size) < size);
        assert_true(size == sizeof name || name[size] == '#');
    }
}

static void test_entry_names(void **state)
{
    (void)state;
    static const char *const good[] = {"a", "a/b", "a.b/c..d", "03.00.0/x y", "x-"};
    static const char *const bad[] = {"",    "/a",      "a/",       "a//b",  ".",
                                      "..",  "./a",     "a/..",     "a/./b", "../a",
                                      "a\n", "a\x1b[m", "\xc3\xa4", "a\\b",  "a\x7f", ".git/config", "a/.bashrc", "..c", "-rf", "a/--x",
                                      "a ",  "a /b",    "a.",       "a./b",  "a:b", "C:/a"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_true(entry_name_ok(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(entry_name_ok(bad[i]));
}

static cJSON *read_manifest(const char *bundle)
{
    char *text = NULL;
    struct rc_err err = {""};
    ssize_t n = bundle_read_file(bundle, "manifest.json", 4 << 20, &text, &err);
    if (n < 0)
        fail_msg("%s", err.msg);
    cJSON *doc = cJSON_Parse(text);
    free(text);
    assert_non_null(doc);
    return doc;
}

static void test_manifest(void **state)
{
    (void)state;
    const char *bundle = make_bundle("manifest-test");
    cJSON *doc = read_manifest(bundle);
    assert_int_equal(cJSON_GetObjectItem(doc, "format")->valueint, 1);
    assert_string_equal(cJSON_GetObjectItem(doc, "tool")->valuestring, "rocmcrash");
    assert_string_equal(cJSON_GetObjectItem(doc, "version")->valuestring, ROCMCRASH_VERSION);
    assert_int_equal(strlen(cJSON_GetObjectItem(doc, "created")->valuestring), 20);
    assert_string_equal(cJSON_GetObjectItem(doc, "trace_lost")->valuestring, "nothing");
    cJSON *items = cJSON_GetObjectItem(doc, "items");
    assert_int_equal(cJSON_GetArraySize(items), 2);
    cJSON *second = cJSON_GetArrayItem(items, 1);
    assert_string_equal(cJSON_GetObjectItem(second, "name")->valuestring, "kernel_log");
    assert_string_equal(cJSON_GetObjectItem(second, "status")->valuestring, "partial");
    assert_string_equal(cJSON_GetObjectItem(second, "reason")->valuestring,
                        "no \xef\xbf\xbd rights");
    assert_int_equal(cJSON_GetObjectItem(second, "ms")->valueint, 3);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(doc, "files")), 8);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(doc, "cut")), 0);
    cJSON_Delete(doc);

    struct manifest *m = manifest_new();
    assert_int_equal(manifest_set(m, "files", cJSON_CreateArray()), -EINVAL);
    assert_int_equal(manifest_set(m, "x", NULL), -ENOMEM);
    assert_int_equal(manifest_set(m, "x", cJSON_CreateNumber(1)), 0);
    assert_int_equal(manifest_set(m, "x", cJSON_CreateNumber(2)), 0);
    struct buf out = BUF_INIT;
    assert_int_equal(manifest_render(m, scratch("stage-manifest-test"), &out, NULL), 0);
    assert_non_null(strstr(buf_str(&out), "\"x\":\t2"));
    assert_null(strstr(buf_str(&out), "manifest.json"));
    buf_release(&out);
    assert_int_equal(manifest_render(m, scratch("no-such"), &out, NULL), -ENOENT);
    manifest_free(m);
    assert_string_equal(collect_status_name(COLLECT_TIMED_OUT), "timed_out");
    assert_string_equal(collect_status_name((enum collect_status)99), "unknown");
}

/* `program` unpacks the bundle, sha256sum checks every hash, and nothing is on stderr. */
static void check_with(const char *const argv[], const char *where, const char *top)
{
    RC_AUTO_FREE char *output = NULL;
    int status = run_program(argv, &output);
    if (status == 127)
        skip();
    if (status != 0 || output[0] != '\0')
        fail_msg("%s: status %d: %s", argv[0], status, output);
    char path[700];
    (void)snprintf(path, sizeof path, "%s/%s/manifest.json", where, top);
    RC_AUTO_FREE char *text = get_file(path, NULL);
    cJSON *doc = cJSON_Parse(text);
    cJSON *row = NULL;
    struct buf sums = BUF_INIT;
    int rows = 0;
    cJSON_ArrayForEach(row, cJSON_GetObjectItem(doc, "files"))
    {
        const char *name = cJSON_GetObjectItem(row, "path")->valuestring;
        struct stat st;
        buf_printf(&sums, "%s  %s/%s/%s\n", cJSON_GetObjectItem(row, "sha256")->valuestring, where,
                   top, name);
        (void)snprintf(path, sizeof path, "%s/%s/%s", where, top, name);
        assert_int_equal(stat(path, &st), 0);
        assert_true((double)st.st_size == cJSON_GetObjectItem(row, "bytes")->valuedouble);
        rows++;
    }
    assert_true(rows > 0);
    cJSON_Delete(doc);
    const char *list = scratch("sums");
    put_text(list, buf_str(&sums));
    buf_release(&sums);
    RC_AUTO_FREE char *said = NULL;
    const char *const check[] = {"sha256sum", "--quiet", "--strict", "-c", list, NULL};
    if (run_program(check, &said) != 0)
        fail_msg("sha256sum: %s", said);
}

static void test_other_programs(void **state)
{
    (void)state;
    char bundle[700];
    (void)snprintf(bundle, sizeof bundle, "%s", make_bundle("rocmcrash-programs"));
    char out[3][600];
    for (int i = 0; i < 3; i++) {
        (void)snprintf(out[i], sizeof out[i], "%s", scratch("out%d", i));
        assert_int_equal(fs_mkdir_p(out[i]), 0);
    }
    const char *const gnu[] = {"tar", "-xzf", bundle, "-C", out[0], NULL};
    check_with(gnu, out[0], "rocmcrash-programs");
    const char *const bsd[] = {"bsdtar", "-xf", bundle, "-C", out[1], NULL};
    check_with(bsd, out[1], "rocmcrash-programs");
    static const char code[] = "import sys,tarfile,warnings\n"
                               "t=tarfile.open(sys.argv[1],'r:gz')\n"
                               "for m in t:\n"
                               "  assert m.uid==0 and m.gid==0 and m.uname=='' and m.gname==''\n"
                               "  assert m.mode==(0o755 if m.isdir() else 0o644), m.mode\n"
                               "warnings.simplefilter('ignore')\n"
                               "t.extractall(sys.argv[2])\n";
    const char *const python[] = {"python3", "-c", code, bundle, out[2], NULL};
    check_with(python, out[2], "rocmcrash-programs");
    const char *const gzip[] = {"gzip", "-t", bundle, NULL};
    RC_AUTO_FREE char *said = NULL;
    assert_int_equal(run_program(gzip, &said), 0);
    struct stat st;
    assert_int_equal(stat(bundle, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    struct rc_err err = {""};
    assert_int_equal(bundle_verify(bundle, &err), 0);
}

static void test_deterministic(void **state)
{
    (void)state;
    char stage[600];
    char paths[2][700];
    (void)snprintf(stage, sizeof stage, "%s", scratch("stage-same"));
    make_stage(stage);
    for (int i = 0; i < 2; i++) {
        bool elsewhere = false;
        assert_int_equal(fs_mkdir_p(scratch("same%d", i)), 0);
        assert_int_equal(bundle_write(stage, "same", scratch("same%d", i), paths[i],
                                      sizeof paths[i], &elsewhere, NULL),
                         0);
    }
    size_t a_len = 0, b_len = 0;
    RC_AUTO_FREE char *a = get_file(paths[0], &a_len);
    RC_AUTO_FREE char *b = get_file(paths[1], &b_len);
    assert_int_equal(a_len, b_len);
    assert_memory_equal(a, b, a_len);
}

/* Links, pipes, odd names, clashing names and a corrupt manifest in the stage: reported, not
 * archived.
 */
static void test_odd_stage(void **state)
{
    (void)state;
    char stage[600];
    char bundle[700];
    (void)snprintf(stage, sizeof stage, "%s", scratch("stage-odd"));
    make_stage(stage);
    char path[700];
    (void)snprintf(path, sizeof path, "%s/output/link", stage);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    (void)snprintf(path, sizeof path, "%s/linked_dir", stage);
    assert_int_equal(symlink("/etc", path), 0);
    (void)snprintf(path, sizeof path, "%s/pipe", stage);
    assert_int_equal(mkfifo(path, 0600), 0);
    (void)snprintf(path, sizeof path, "%s/es\x1b[31mc", stage);
    put_text(path, "x");
    (void)snprintf(path, sizeof path, "%s/output/STDERR.txt", stage);
    put_text(path, "upper\n");
    (void)snprintf(path, sizeof path, "%s/manifest.json", stage);
    put_text(path, "{\"format\": 1, ");
    bool elsewhere = false;
    struct rc_err err = {""};
    assert_int_equal(
        bundle_write(stage, "odd", scratch("%s", ""), bundle, sizeof bundle, &elsewhere, &err), 0);
    assert_int_equal(bundle_verify(bundle, &err), 0);
    cJSON *doc = read_manifest(bundle);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(doc, "files")), 8);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(doc, "cut")), 5);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(doc, "items")), 1);
    cJSON_Delete(doc);
}

static uint64_t file_size(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return (uint64_t)st.st_size;
}

static void test_limit(void **state)
{
    (void)state;
    char stage[600];
    char bundle[700];
    (void)snprintf(stage, sizeof stage, "%s", scratch("stage-big"));
    make_stage(stage);
    put_noise_lines(scratch("stage-big/raw/copy.txt"), 9u << 20, 1);
    put_noise(scratch("stage-big/devcoredump/0.bin"), 6u << 20, 2);
    put_noise_lines(scratch("stage-big/kernel_log/all.txt"), 12u << 20, 3);
    put_noise_lines(scratch("stage-big/telemetry/gpu.csv"), 9u << 20, 4);
    put_noise_lines(scratch("stage-big/output/tail.txt"), 9u << 20, 5);
    bool elsewhere = false;
    struct rc_err err = {""};
    assert_int_equal(
        bundle_write(stage, "big", scratch("%s", ""), bundle, sizeof bundle, &elsewhere, &err), 0);
    uint64_t size = file_size(bundle);
    print_message("45 MiB of noise became %llu bytes\n", (unsigned long long)size);
    assert_true(size <= BUNDLE_MAX_BYTES);
    assert_true(size > BUNDLE_MAX_BYTES - 1500000u); /* and no more than needed */
    assert_int_equal(bundle_verify(bundle, &err), 0);
    cJSON *doc = read_manifest(bundle);
    cJSON *cut = cJSON_GetObjectItem(doc, "cut");
    bool tail_cut = false, raw_cut = false, core_cut = false;
    cJSON *row = NULL;
    cJSON_ArrayForEach(row, cut)
    {
        const char *path = cJSON_GetObjectItem(row, "path")->valuestring;
        tail_cut = tail_cut || strcmp(path, "output/tail.txt") == 0;
        raw_cut = raw_cut || strcmp(path, "raw/copy.txt") == 0;
        core_cut = core_cut || strcmp(path, "SUMMARY.md") == 0 || strcmp(path, "facts.json") == 0;
    }
    assert_true(raw_cut);
    assert_false(tail_cut);
    assert_false(core_cut);
    cJSON_Delete(doc);
    char *text = NULL;
    assert_true(bundle_read_file(bundle, "raw/copy.txt", 64 << 20, &text, &err) >= 0);
    const char *mark = strstr(text, "\n[... ");
    assert_non_null(mark);
    unsigned long long bytes = 0;
    assert_int_equal(sscanf(mark, "\n[... %llu bytes cut by rocmcrash: bundle limit ...]", &bytes),
                     1);
    size_t marker_len = strcspn(mark + 1, "\n") + 1;
    assert_int_equal(strlen(text) - marker_len + bytes, 9u << 20);
    free(text);
}

/* The same if only files that are cut last are too large, and if no file can be shortened. */
static void test_limit_of_core(void **state)
{
    (void)state;
    char bundle[700];
    bool elsewhere = false;
    struct rc_err err = {""};
    put_noise_lines(scratch("stage-core/SUMMARY.md"), 40u << 20, 1);
    put_noise(scratch("stage-core/facts.json"), 30u << 20, 2);
    assert_int_equal(bundle_write(scratch("stage-core"), "core", scratch("%s", ""), bundle,
                                  sizeof bundle, &elsewhere, &err),
                     0);
    assert_true(file_size(bundle) <= BUNDLE_MAX_BYTES);
    assert_int_equal(bundle_verify(bundle, &err), 0);
    char *text = NULL;
    assert_true(bundle_read_file(bundle, "SUMMARY.md", 64 << 20, &text, &err) > 1000);
    free(text);
    for (int i = 0; i < 800; i++) /* 48 KiB each: below the first floor */
        put_noise_lines(scratch("stage-many/t/%03d.txt", i), 48u << 10, (uint64_t)i);
    assert_int_equal(bundle_write(scratch("stage-many"), "many", scratch("%s", ""), bundle,
                                  sizeof bundle, &elsewhere, &err),
                     0);
    assert_true(file_size(bundle) <= BUNDLE_MAX_BYTES);
    assert_int_equal(bundle_verify(bundle, &err), 0);
}

/* A file that is not written takes no room from the others. */
static void test_same_names_take_no_room(void **state)
{
    (void)state;
    put_file(scratch("stage-twice/a.txt"), "12345", 5);
    put_file(scratch("stage-twice/A.txt"), "123", 3);
    struct stage stage;
    assert_int_equal(stage_open(&stage, scratch("stage-twice"), NULL), 0);
    assert_int_equal(stage.count, 2);
    assert_int_equal(stage.total_bytes, stage.files[0].plan == PLAN_KEEP ? stage.files[0].bytes : stage.files[1].bytes);
    stage_release(&stage);
}

static void test_table_is_thinned(void **state)
{
    (void)state;
    struct buf csv = BUF_INIT;
    buf_puts(&csv, "time,used\n");
    for (int i = 0; i < 10000; i++)
        buf_printf(&csv, "%d,%d\n", i, i * 3);
    put_file(scratch("stage-thin/telemetry/a.csv"), buf_str(&csv), csv.len);
    struct stage stage;
    assert_int_equal(stage_open(&stage, scratch("stage-thin"), NULL), 0);
    stage.files[0].plan = PLAN_THIN;
    stage.files[0].keep = csv.len / 10;
    struct buf out = BUF_INIT;
    uint64_t lost = 0;
    assert_int_equal(cut_content(&stage, &stage.files[0], &out, &lost), 0);
    assert_true(strncmp(buf_str(&out), "time,used\n", 10) == 0);
    assert_int_equal(lost + out.len, csv.len);
    assert_in_range(out.len, csv.len / 20, csv.len / 5);
    for (const char *p = buf_str(&out) + 10; *p != '\0'; p = strchr(p, '\n') + 1) {
        int a = 0, b = 0;
        assert_int_equal(sscanf(p, "%d,%d\n", &a, &b), 2);
        assert_int_equal(b, 3 * a);
    }
    buf_release(&out);
    buf_release(&csv);
    stage_release(&stage);
}

/* --- where it goes --- */

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),          cmocka_unit_test(test_entry_names),
        cmocka_unit_test(test_manifest),       cmocka_unit_test(test_deterministic),
        cmocka_unit_test(test_other_programs),
        cmocka_unit_test(test_odd_stage),      cmocka_unit_test(test_limit),
        cmocka_unit_test(test_limit_of_core),  cmocka_unit_test(test_table_is_thinned), cmocka_unit_test(test_same_names_take_no_room),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
