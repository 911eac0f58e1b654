/* SPDX-License-Identifier: Apache-2.0 */
/* The collector "models" on real files: how it finds them, and files that are odd, cut or unreadable. */
#include <linux/capability.h>
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
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/fs.h"
#include "make_model.h"
#include "models_run.h"
#include "record/ledger.h"
#include "sink.h"

static void test_found_by_argument(void **state)
{
    (void)state;
    tiny_gguf(temp_path("m/tiny.gguf"));
    char expected[65];
    sha256sum("sha256sum", temp_path("m/tiny.gguf"), expected, 64);
    struct run r = {.argv = {"llama-cli", "--threads=8", "--model=m/tiny.gguf", "m/tiny.gguf"},
                    .fds = "3 /dev/null\n",
                    .budget_ms = 5000};
    run_models(&r);
    assert_int_equal(r.status, COLLECT_OK);
    assert_int_equal(sink_integer(r.out, "models.count"), 1); /* one inode, once */
    assert_string_equal(sink_text(r.out, "models.0.path"), "tiny.gguf");
    assert_string_equal(sink_text(r.out, "models.0.sha256"), expected);
    assert_string_equal(sink_text(r.out, "models.0.format"), "gguf");
    assert_string_equal(sink_text(r.out, "models.0.quantisation"), "Q4_K_M");
    assert_string_equal(sink_text(r.out, "models.0.architecture"), "llama");
    assert_string_equal(sink_text(r.out, "models.0.tensor_types"), "Q4_K 1, Q6_K 1, F32 1");
    assert_int_equal(sink_integer(r.out, "models.0.context_length"), 4096);
    assert_int_equal(sink_integer(r.out, "models.0.truncated"), 0);
    assert_int_equal(sink_integer(r.out, "models.0.changed_since_start"), 0);
    assert_non_null(strstr(sink_file(r.out, "models.json"), "\"argument 2; argument 3\""));
    assert_null(sink_text(r.out, "models.0.name_check"));
    sink_free(r.out);
}

static void test_found_by_folder_fd_and_map(void **state)
{
    (void)state;
    char fds[512];
    char maps[1024];
    tiny_safetensors(temp_path("dir/model-00001.safetensors"));
    tiny_safetensors(temp_path("dir/model-00002.safetensors"));
    write_text(temp_path("dir/notes.txt"), "no");
    write_text(temp_path("dir/stray.pt"), "PK\003\004"); /* no config.json: a data set */
    tiny_gguf(temp_path("open file.gguf"));
    /* without a telling name: by contents, from 1 MiB */
    struct buf b = BUF_INIT;
    make_gguf(&b, 3, false);
    while (b.len < MIB + 5)
        buf_putc(&b, 'x');
    write_bytes(temp_path("ollama/sha256-weights"), b.data, b.len);
    buf_release(&b);
    fill(temp_path("data.raw"), 2 * MIB, 1);
    (void)snprintf(fds, sizeof fds, "0 /dev/pts/0\n5 socket:[123]\n17 %s\n18 %s\n19 %s\nx\n",
                   temp_path("open file.gguf"), temp_path("data.raw"),
                   temp_path("gone.safetensors (deleted)"));
    (void)snprintf(maps, sizeof maps,
                   "7f0000000000-7f0000100000 r--s 00000000 fd:01 7 %s\n"
                   "7f0000100000-7f0000200000 r--s 00100000 fd:01 7 %s\n"
                   "7f0000300000-7f0000400000 r--p 00000000 00:00 0 [heap]\n",
                   temp_path("ollama/sha256-weights"), temp_path("dir/model-00002.safetensors"));
    struct run r = {.argv = {"python", "train.py", "dir"},
                    .fds = fds,
                    .maps = maps,
                    .budget_ms = 5000,
                    .start_wall_ns = UINT64_C(1699999999000000000)};
    run_models(&r);
    const char *json = sink_file(r.out, "models.json");
    assert_int_equal(sink_integer(r.out, "models.count"), 5);
    assert_int_equal(r.status, COLLECT_PARTIAL); /* the deleted one */
    assert_string_equal(sink_text(r.out, "models.0.path"), "model-00001.safetensors");
    assert_string_equal(sink_text(r.out, "models.0.quantisation"), "BF16");
    assert_string_equal(sink_text(r.out, "models.3.path"), "sha256-weights");
    assert_int_equal(sink_integer(r.out, "models.changed_since_start_count"), 4);
    assert_non_null(strstr(json, "\"argument 2 (folder); mapping\""));
    assert_non_null(strstr(json, "\"fd 17\""));
    assert_non_null(strstr(json, "deleted or replaced while it was in use"));
    assert_null(strstr(json, "data.raw"));
    assert_null(strstr(json, "stray.pt"));
    sink_free(r.out);
    (void)unlink(temp_path("ollama/sha256-weights"));
}

static void add_opened(struct ledger *ledger, uint32_t i, const char *path, uint64_t inode,
                       uint16_t error)
{
    struct ledger_model *m = &ledger->models[i];
    m->state = LEDGER_USED;
    m->inode = inode;
    m->error = error;
    (void)snprintf(m->path, sizeof m->path, "%s", path);
}

/* A file that was read and closed: it is no argument and was not open at the failure. */
static void test_found_by_ledger(void **state)
{
    (void)state;
    int fd = -1;
    struct stat st;
    struct rc_err err = {""};
    struct ledger *ledger = ledger_create(&fd, &err);
    assert_non_null(ledger);
    tiny_gguf(temp_path("seen/read.gguf"));
    tiny_gguf(temp_path("seen/other.gguf"));
    assert_int_equal(stat(temp_path("seen/read.gguf"), &st), 0);
    add_opened(ledger, 0, temp_path("seen/read.gguf"), st.st_ino, 0);
    add_opened(ledger, 1, temp_path("seen/never.gguf"), 0, ENOENT);
    add_opened(ledger, 2, temp_path("seen/other.gguf"), st.st_ino, 0); /* not the file that was opened */
    add_opened(ledger, 3, "relative.gguf", 0, 0);
    write_bytes(temp_path("seen/ledger"), ledger, sizeof *ledger);
    struct run r = {.run_dir = temp_path("seen"), .argv = {"python", "serve.py"}, .budget_ms = 5000};
    run_models(&r);
    assert_int_equal(sink_integer(r.out, "models.count"), 2);
    assert_non_null(strstr(sink_file(r.out, "models.json"), "\"opened during the run\""));
    assert_string_equal(sink_text(r.out, "models.1.path"), "read.gguf");
    assert_non_null(sink_text(r.out, "models.1.sha256"));
    assert_non_null(strstr(sink_missing(r.out, "models.0.sha256"), "replaced"));
    sink_free(r.out);
    ledger_close(ledger);
    (void)close(fd);
}

static void test_nothing_and_odd_files(void **state)
{
    (void)state;
    assert_int_equal(mkfifo(temp_path("pipe.gguf"), 0600), 0);
    struct run r = {.argv = {"python", "train.py", "--lr=1e-4"}, .maps = "x", .budget_ms = 100};
    run_models(&r);
    assert_int_equal(r.status, COLLECT_SKIPPED);
    assert_int_equal(sink_integer(r.out, "models.count"), 0);
    sink_free(r.out);
    struct run blind = {.argv = {"python"}, .budget_ms = 100};
    run_models(&blind);
    assert_int_equal(blind.status, COLLECT_SKIPPED);
    assert_non_null(sink_missing(blind.out, "models.count")); /* unknown is not 0 */
    sink_free(blind.out);
    struct run odd = {.argv = {"x", "pipe.gguf", "no/such.safetensors", "--m=/dev/zero"},
                      .budget_ms = 100};
    run_models(&odd);
    assert_int_equal(odd.status, COLLECT_PARTIAL);
    assert_int_equal(sink_integer(odd.out, "models.count"), 2);
    assert_string_equal(sink_missing(odd.out, "models.0.sha256"), "No such file or directory");
    assert_string_equal(sink_missing(odd.out, "models.1.sha256"), "not a regular file");
    sink_free(odd.out);
}

static void test_cut_file_is_seen(void **state)
{
    (void)state;
    struct buf b = BUF_INIT;
    make_gguf(&b, 3, false);
    write_bytes(temp_path("cut.gguf"), b.data, b.len - 100);
    buf_release(&b);
    struct run r = {.argv = {"x", "cut.gguf"}, .budget_ms = 1000};
    run_models(&r);
    assert_int_equal(sink_integer(r.out, "models.truncated_count"), 1);
    assert_non_null(strstr(sink_text(r.out, "models.0.problem"), "the header needs"));
    sink_free(r.out);
}

/* One worker has read and hashed the small file while another still reads the header of this one. */
static void test_header_that_takes_long(void **state)
{
    (void)state;
    struct buf json = BUF_INIT;
    struct buf b = BUF_INIT;
    buf_puts(&json, "{\"__metadata__\":{\"x\":\"");
    char *text = malloc(40 * MIB);
    assert_non_null(text);
    memset(text, 'x', 40 * MIB - 1);
    text[40 * MIB - 1] = '\0';
    buf_puts(&json, text);
    free(text);
    buf_puts(&json, "\"},\"c\":{\"dtype\":\"F16\",\"shape\":[14],\"data_offsets\":[0,28]}}");
    make_safetensors(&b, buf_str(&json), 28);
    write_bytes(temp_path("long.safetensors"), b.data, b.len);
    buf_release(&json);
    buf_release(&b);
    tiny_safetensors(temp_path("short.safetensors"));
    struct run r = {.argv = {"x", "long.safetensors", "short.safetensors"}, .budget_ms = 20000};
    run_models(&r);
    assert_int_equal(sink_integer(r.out, "models.count"), 2);
    assert_non_null(sink_text(r.out, "models.0.sha256"));
    assert_non_null(sink_text(r.out, "models.1.sha256"));
    sink_free(r.out);
    (void)unlink(temp_path("long.safetensors"));
}

/* Root without the capabilities to read every file. */
static void obey_modes(bool obey)
{
    const unsigned override = 1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH;
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    assert_int_equal(syscall(SYS_capget, &header, data), 0);
    data[0].effective = obey ? data[0].effective & ~override : data[0].permitted;
    assert_int_equal(syscall(SYS_capset, &header, data), 0);
}

static void test_unreadable(void **state)
{
    (void)state;
    tiny_gguf(temp_path("secret.gguf"));
    assert_int_equal(chmod(temp_path("secret.gguf"), 0), 0);
    struct run r = {.argv = {"x", "secret.gguf"}, .budget_ms = 100};
    obey_modes(true);
    run_models(&r);
    obey_modes(false);
    assert_int_equal(r.status, COLLECT_PARTIAL);
    assert_non_null(strstr(sink_missing(r.out, "models.0.sha256"), "Permission denied"));
    sink_free(r.out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found_by_argument),
        cmocka_unit_test(test_found_by_folder_fd_and_map),
        cmocka_unit_test(test_found_by_ledger),
        cmocka_unit_test(test_nothing_and_odd_files),
        cmocka_unit_test(test_cut_file_is_seen),
        cmocka_unit_test(test_header_that_takes_long),
        cmocka_unit_test(test_unreadable),
    };
    return cmocka_run_group_tests(tests, models_set_up, models_tear_down);
}
