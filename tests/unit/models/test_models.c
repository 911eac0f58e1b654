/* SPDX-License-Identifier: Apache-2.0 */
/* The collector "models" over real files: discovery, hashes, cache, hub names, budget. */
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
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "collectors/lib/hash.h"
#include "collectors/lib/hash_cache.h"
#include "make_model.h"
#include "record/ledger.h"
#include "sink.h"

extern const struct collector collector_models;

#define MIB ((uint64_t)1 << 20)

struct run {
    const char *run_dir;
    const char *argv[16];
    const char *environment[4];
    const char *fds, *maps;
    uint64_t budget_ms;
    uint64_t start_wall_ns;
    struct collect_out *out;
    enum collect_status status;
};

static void run_models(struct run *run)
{
    struct collect_ctx ctx = {.run_dir = run->run_dir ? run->run_dir : "",
                              .argv = run->argv,
                              .cwd = temp_dir(),
                              .maps = run->maps ? run->maps : "",
                              .fds = run->fds ? run->fds : "",
                              .environ_at_impact = run->environment,
                              .start_wall_ns = run->start_wall_ns,
                              .hash_budget_ms = run->budget_ms,
                              .deadline_mono_ns = clock_mono_ns() + UINT64_C(30000000000)};
    run->out = sink_new();
    run->status = collector_models.run(&ctx, run->out);
}

static void make_old(const char *path)
{
    struct timespec times[2] = {{.tv_sec = 1700000000, .tv_nsec = 123456789},
                                {.tv_sec = 1700000000, .tv_nsec = 123456789}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void tiny_gguf(const char *path)
{
    struct buf b = BUF_INIT;
    make_gguf(&b, 3, false);
    write_bytes(path, b.data, b.len);
    make_old(path);
    buf_release(&b);
}

static void tiny_safetensors(const char *path)
{
    struct buf b = BUF_INIT;
    make_safetensors(&b, small_safetensors_json, SMALL_SAFETENSORS_DATA);
    write_bytes(path, b.data, b.len);
    make_old(path);
    buf_release(&b);
}

/* The independent answer. */
static void sha256sum(const char *program, const char *path, char *out, size_t len)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(ends[1], 1);
        (void)execlp(program, program, path, (char *)NULL);
        _exit(127);
    }
    (void)close(ends[1]);
    assert_int_equal(read(ends[0], out, len), len);
    out[len] = '\0';
    (void)close(ends[0]);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
}

static void fill(const char *path, uint64_t size, unsigned seed)
{
    unsigned char *block = malloc(MIB);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && block != NULL);
    for (uint64_t at = 0; at < size; at += MIB) {
        for (size_t i = 0; i < MIB; i++) {
            seed = seed * 1103515245u + 12345u;
            block[i] = (unsigned char)(seed >> 16);
        }
        uint64_t n = size - at < MIB ? size - at : MIB;
        assert_int_equal(fs_write_all(fd, block, (size_t)n), 0);
    }
    (void)close(fd);
    free(block);
    make_old(path);
}

static int setup(void **state)
{
    (void)state;
    (void)setenv("XDG_CACHE_HOME", temp_path("cache"), 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    temp_remove();
    return 0;
}

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
    add_opened(ledger, 2, temp_path("seen/other.gguf"), st.st_ino, 0); /* not what was opened */
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

static const char *cached_run(const char *name, struct run *r)
{
    static char from[64];
    *r = (struct run){.argv = {"x", name}, .budget_ms = 10000};
    run_models(r);
    const char *at = strstr(sink_file(r->out, "models.json"), "\"sha256_from\":");
    from[0] = '\0';
    if (at != NULL)
        (void)sscanf(at, "\"sha256_from\": \"%63[^\"]", from);
    return from;
}

static void test_cache(void **state)
{
    (void)state;
    struct run r;
    struct stat st;
    char before[65];
    const char *cache = temp_path("cache/rocmcrash/hashes");
    (void)unlink(cache);
    fill(temp_path("big.safetensors"), 3 * MIB, 7);
    assert_string_equal(cached_run("big.safetensors", &r), "the whole file");
    (void)snprintf(before, sizeof before, "%s", sink_text(r.out, "models.0.sha256"));
    sink_free(r.out);
    assert_int_equal(stat(cache, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_memory_equal(cached_run("big.safetensors", &r), "cache", 5);
    assert_string_equal(sink_text(r.out, "models.0.sha256"), before);
    sink_free(r.out);
    /* other contents under the same size and mtime: the inode's ctime gives it away */
    fill(temp_path("big.safetensors"), 3 * MIB, 8);
    assert_string_equal(cached_run("big.safetensors", &r), "the whole file");
    assert_string_not_equal(sink_text(r.out, "models.0.sha256"), before);
    (void)snprintf(before, sizeof before, "%s", sink_text(r.out, "models.0.sha256"));
    sink_free(r.out);
    /* one flipped digit in the cache: nothing in it is believed */
    char *text = NULL;
    ssize_t len = fs_read_all(cache, MIB, &text);
    assert_true(len > 0);
    char *digit = strchr(text + 20, '\n') - 3;
    *digit = *digit == '0' ? '1' : '0';
    write_bytes(cache, text, (size_t)len);
    assert_int_equal(chmod(cache, 0600), 0);
    free(text);
    assert_string_equal(cached_run("big.safetensors", &r), "the whole file");
    assert_string_equal(sink_text(r.out, "models.0.sha256"), before);
    sink_free(r.out);
    assert_memory_equal(cached_run("big.safetensors", &r), "cache", 5);
    sink_free(r.out);
    assert_int_equal(chmod(cache, 0666), 0); /* anybody could have written it */
    assert_string_equal(cached_run("big.safetensors", &r), "the whole file");
    sink_free(r.out);
}

static void test_cache_bounds(void **state)
{
    (void)state;
    struct hash_cache cache;
    struct stat st = {.st_size = 5, .st_mtim = {.tv_sec = 1000}};
    char sum[65];
    hash_memory("x", 1, sum);
    assert_string_equal(sum, "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881");
    hash_cache_load(&cache, temp_path("empty"));
    for (unsigned i = 0; i < HASH_CACHE_MAX + 10; i++) {
        st.st_ino = i;
        assert_int_equal(hash_cache_put(&cache, &st, UINT64_C(5000000000000), sum), 0);
    }
    assert_int_equal(cache.count, HASH_CACHE_MAX);
    st.st_ino = 5;
    assert_null(hash_cache_find(&cache, &st)); /* the oldest went */
    st.st_ino = 11;
    assert_non_null(hash_cache_find(&cache, &st));
    assert_int_equal(hash_cache_put(&cache, &st, UINT64_C(1001000000000), sum), -EAGAIN);
    assert_int_equal(hash_cache_save(&cache, temp_path("full/a/b")), 0);
    struct hash_cache again;
    hash_cache_load(&again, temp_path("full/a/b"));
    assert_int_equal(again.count, HASH_CACHE_MAX);
    assert_non_null(hash_cache_find(&again, &st));
    hash_cache_release(&cache);
    hash_cache_release(&again);
}

static void test_hub_names(void **state)
{
    (void)state;
    char sum[65];
    char target[128];
    char maps[1200];
    const char *snapshot = "hf/hub/models--org--tiny-model/snapshots/0123abc";
    tiny_safetensors(temp_path("plain.safetensors"));
    sha256sum("sha256sum", temp_path("plain.safetensors"), sum, 64);
    tiny_safetensors(temp_path("hf/hub/models--org--tiny-model/blobs/%s", sum));
    (void)snprintf(target, sizeof target, "../../blobs/%s", sum);
    assert_int_equal(symlink(target, temp_path("%s/model-1.safetensors", snapshot)), 0);
    /* a blob whose contents are not what its name says */
    char wrong[65];
    memcpy(wrong, sum, sizeof wrong);
    wrong[0] = wrong[0] == 'f' ? '0' : 'f';
    tiny_safetensors(temp_path("hf/hub/models--org--tiny-model/blobs/%s", wrong));
    (void)snprintf(target, sizeof target, "../../blobs/%s", wrong);
    assert_int_equal(symlink(target, temp_path("%s/model-2.safetensors", snapshot)), 0);
    /* a small file under its git blob id: `echo hello | git hash-object --stdin` */
    const char *git = "ce013625030ba8dba906f756967f9e9ca394464a";
    write_text(temp_path("hf/hub/models--org--tiny-model/blobs/%s", git), "hello\n");
    (void)snprintf(target, sizeof target, "../../blobs/%s", git);
    assert_int_equal(symlink(target, temp_path("%s/small.gguf", snapshot)), 0);
    write_text(temp_path("hf/hub/models--org--tiny-model/refs/main"), "0123abc");
    char home[256];
    (void)snprintf(home, sizeof home, "HF_HOME=%s", temp_path("hf"));
    (void)snprintf(maps, sizeof maps, "7f0000000000-7f0000100000 r--s 00000000 fd:01 7 %s\n",
                   temp_path("hf/hub/models--org--tiny-model/blobs/%s", sum));
    struct run r = {.argv = {"vllm", "serve", "org/tiny-model"},
                    .environment = {home},
                    .maps = maps,
                    .budget_ms = 5000};
    run_models(&r);
    const char *json = sink_file(r.out, "models.json");
    assert_int_equal(sink_integer(r.out, "models.count"), 3);
    assert_string_equal(sink_text(r.out, "models.0.name_check"), "matches its Hugging Face name");
    assert_int_equal(sink_integer(r.out, "models.name_mismatch_count"), 1);
    assert_memory_equal(sink_text(r.out, "models.1.name_check"), "MISMATCH", 8);
    assert_string_equal(sink_text(r.out, "models.2.name_check"),
                        "matches its Hugging Face name (git blob id)");
    assert_non_null(strstr(json, "\"org/tiny-model\""));
    assert_non_null(strstr(json, "argument 2 (Hugging Face cache)"));
    assert_non_null(strstr(json, "\"0123abc\""));
    sink_free(r.out);
    /* found by its mapping only, the name comes from the snapshot's link */
    struct buf b = BUF_INIT;
    make_gguf(&b, 3, false);
    write_bytes(temp_path("hf/hub/models--org--tiny-model/blobs/%s", sum), b.data, b.len);
    buf_release(&b);
    assert_int_equal(truncate(temp_path("hf/hub/models--org--tiny-model/blobs/%s", sum), MIB), 0);
    struct run mapped = {.argv = {"python"}, .maps = maps, .budget_ms = 5000};
    run_models(&mapped);
    assert_string_equal(sink_text(mapped.out, "models.0.path"), "model-1.safetensors");
    assert_memory_equal(sink_text(mapped.out, "models.0.name_check"), "MISMATCH", 8);
    sink_free(mapped.out);
}

static void test_git_blob_and_ollama(void **state)
{
    (void)state;
    char sum[65];
    int fd = open(temp_path("four"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, "hello\n", 6), 6);
    struct hash_budget budget = {.deadline_mono_ns = UINT64_MAX};
    char blob[41];
    assert_int_equal(hash_file(fd, 6, &budget, sum, blob), 0);
    assert_string_equal(blob, "ce013625030ba8dba906f756967f9e9ca394464a"); /* git's own example */
    (void)close(fd);
    tiny_gguf(temp_path("o"));
    sha256sum("sha256sum", temp_path("o"), sum, 64);
    const char *path = temp_path("models/blobs/sha256-%s", sum);
    struct buf b = BUF_INIT;
    make_gguf(&b, 3, false);
    write_bytes(path, b.data, b.len);
    buf_release(&b);
    assert_int_equal(truncate(path, (off_t)MIB), 0); /* large enough to be looked into */
    struct run r = {.argv = {"ollama", "runner", "--model", path}, .budget_ms = 5000};
    run_models(&r);
    assert_int_equal(sink_integer(r.out, "models.count"), 1);
    assert_memory_equal(sink_text(r.out, "models.0.name_check"), "MISMATCH: its Ollama", 20);
    sink_free(r.out);
}

/* Hashing after the budget gets a second. Tried more than once, because the machine may stall. */
static void run_past_budget(struct run *run)
{
    for (int tries = 0; tries < 5; tries++) {
        run_models(run);
        if (sink_text(run->out, "models.0.sha256_of_head_and_tail") != NULL)
            return;
        sink_free(run->out);
    }
    fail_msg("no hash of head and tail in five tries");
}

static void test_budget(void **state)
{
    (void)state;
    char ends[65];
    fill(temp_path("large.safetensors"), 40 * MIB, 3);
    fill(temp_path("small.safetensors"), 2 * MIB, 4);
    /* the first and the last 16 MiB, made by hand */
    char *text = NULL;
    assert_int_equal(fs_read_all(temp_path("large.safetensors"), 64 * MIB, &text), 40 * MIB);
    memmove(text + 16 * MIB, text + 24 * MIB, 16 * MIB);
    hash_memory(text, 32 * MIB, ends);
    free(text);
    struct run r = {.argv = {"x", "large.safetensors", "small.safetensors"}, .budget_ms = 0};
    run_past_budget(&r);
    assert_int_equal(r.status, COLLECT_PARTIAL);
    assert_null(sink_text(r.out, "models.0.sha256"));
    assert_string_equal(sink_missing(r.out, "models.0.sha256"), "sha256 of head+tail only, budget");
    assert_string_equal(sink_text(r.out, "models.0.sha256_of_head_and_tail"), ends);
    assert_non_null(sink_text(r.out, "models.1.sha256")); /* its ends are all of it */
    assert_non_null(strstr(sink_file(r.out, "models.json"), "this is not the hash of the file"));
    sink_free(r.out);
    /* what was only half read is not in the cache */
    struct run again = {.argv = {"x", "large.safetensors"}, .budget_ms = 10000};
    run_models(&again);
    assert_int_equal(again.status, COLLECT_OK);
    char whole[65];
    sha256sum("sha256sum", temp_path("large.safetensors"), whole, 64);
    assert_string_equal(sink_text(again.out, "models.0.sha256"), whole);
    assert_string_not_equal(whole, ends);
    sink_free(again.out);
}

static void test_sparse_and_huge(void **state)
{
    (void)state;
    int fd = open(temp_path("huge.gguf"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    if (ftruncate(fd, (off_t)1 << 40) != 0) {
        (void)close(fd);
        print_message("skipped: no sparse file of 1 TiB here: %s\n", strerror(errno));
        skip();
    }
    (void)close(fd);
    uint64_t start_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    struct run r = {.argv = {"x", "huge.gguf"}, .budget_ms = 60000};
    run_past_budget(&r);
    /* it gives up as soon as it is plain, not after the budget */
    assert_true(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start_ns < UINT64_C(20000000000));
    assert_non_null(strstr(sink_file(r.out, "models.json"), "\"allocated_bytes\""));
    sink_free(r.out);
    (void)unlink(temp_path("huge.gguf"));
}

/* Root without what lets it read every file. */
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
        cmocka_unit_test(test_cache),
        cmocka_unit_test(test_cache_bounds),
        cmocka_unit_test(test_hub_names),
        cmocka_unit_test(test_git_blob_and_ollama),
        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_sparse_and_huge),
        cmocka_unit_test(test_unreadable),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
