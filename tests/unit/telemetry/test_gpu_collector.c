/* SPDX-License-Identifier: Apache-2.0 */
/* The gpu collector on recorded machines, with a sink in place of the runner. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fs.h"
#include "collect/collector.h"
#include "help.h"

extern const struct collector collector_gpu;

struct collect_out {
    struct facts *facts;
    struct buf files; /* all files that were written, each preceded by its name */
    char reason[256];
};

int collect_open(struct collect_out *out, const char *name)
{
    (void)out;
    (void)name;
    return -ENOSYS;
}

int collect_write(struct collect_out *out, const char *name, const void *data, size_t len)
{
    buf_printf(&out->files, "FILE %s\n", name);
    buf_append(&out->files, data, len);
    return 0;
}

void collect_integer(struct collect_out *out, const char *name, enum fact_when when, int64_t value,
                     const char *source)
{
    assert_int_equal(facts_set_integer(out->facts, name, when, value, source), 0);
}

void collect_text(struct collect_out *out, const char *name, enum fact_when when,
                  const char *value, const char *source)
{
    assert_int_equal(facts_set_text(out->facts, name, when, value, source), 0);
}

void collect_boolean(struct collect_out *out, const char *name, enum fact_when when, bool value,
                     const char *source)
{
    assert_int_equal(facts_set_boolean(out->facts, name, when, value, source), 0);
}

void collect_missing(struct collect_out *out, const char *name, enum fact_when when,
                     enum fact_status status, const char *reason, const char *source)
{
    assert_true(reason != NULL && reason[0] != '\0');
    assert_int_equal(facts_set_missing(out->facts, name, when, status, reason, source), 0);
}

enum collect_status collect_reason(struct collect_out *out, enum collect_status status,
                                   const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(out->reason, sizeof out->reason, fmt, ap);
    va_end(ap);
    return status;
}

static enum collect_status run_at(const char *root, struct collect_out *out)
{
    memset(out, 0, sizeof *out);
    fs_set_sysroot(root);
    out->facts = facts_new();
    struct collect_ctx ctx = {.deadline_mono_ns = UINT64_MAX};
    return collector_gpu.run(&ctx, out);
}

static enum collect_status run(const char *machine, struct collect_out *out)
{
    static char root[FS_PATH_MAX];
    help_machine_path(machine, root, sizeof root);
    return run_at(root, out);
}

static void release(struct collect_out *out)
{
    facts_free(out->facts);
    buf_release(&out->files);
    fs_set_sysroot(NULL);
}

static void expect_integer(const struct collect_out *out, const char *name, int64_t value)
{
    int64_t got = 0;
    assert_true(facts_get_integer(out->facts, name, &got));
    assert_int_equal(got, value);
}

static void expect_text(const struct collect_out *out, const char *name, const char *value)
{
    const char *got = NULL;
    assert_true(facts_get_text(out->facts, name, &got));
    assert_string_equal(got, value);
}

static void expect_absent(const struct collect_out *out, const char *name)
{
    const struct fact *f = facts_find(out->facts, name, FACT_STATIC);
    if (f == NULL)
        fail_msg("%s is not even known to be absent", name);
    assert_int_equal(f->status, FACT_ABSENT);
}

static void test_phoenix(void **state)
{
    (void)state;
    struct collect_out out;
    assert_int_equal(run("lact-phoenix-gfx1103", &out), COLLECT_OK);
    expect_integer(&out, "gpu.count", 1);
    expect_integer(&out, "gpu.present", 1);
    expect_text(&out, "gpu.0.pci", "0000:64:00.0");
    expect_text(&out, "gpu.0.gfx", "gfx1103");
    expect_text(&out, "gpu.0.driver", "amdgpu");
    expect_integer(&out, "gpu.0.is_apu", 1);
    expect_integer(&out, "gpu.0.kfd_gpu_id", 35218);
    expect_integer(&out, "gpu.0.kfd_bank_bytes", 31433977856);
    expect_absent(&out, "gpu.0.partition");
    expect_absent(&out, "gpu.0.driver_version");
    assert_non_null(strstr(buf_str(&out.files), "mem_info_gtt_total <==\n31433977856\n"));
    /* The allow-list: no serial number, no file whose read has side effects. */
    assert_null(strstr(buf_str(&out.files), "unique_id"));
    assert_null(strstr(buf_str(&out.files), "pcie_bw"));
    release(&out);
}

static void test_same_input_same_bytes(void **state)
{
    (void)state;
    struct collect_out first;
    struct collect_out second;
    (void)run("lact-phoenix-gfx1103", &first);
    (void)run("lact-phoenix-gfx1103", &second);
    assert_string_equal(buf_str(&first.files), buf_str(&second.files));
    release(&first);
    release(&second);
}

static void test_small_bar_and_padding(void **state)
{
    (void)state;
    struct collect_out out;
    assert_int_equal(run("lact-vega56-gfx900", &out), COLLECT_OK);
    expect_integer(&out, "gpu.0.large_bar", 0);
    expect_absent(&out, "gpu.0.gfx");
    expect_absent(&out, "gpu.0.kfd_node");
    release(&out);
    assert_int_equal(run("lact-rx6900xt-gfx1030", &out), COLLECT_OK); /* NUL-padded */
    expect_integer(&out, "gpu.0.large_bar", 1);
    expect_integer(&out, "gpu.0.is_apu", 0);
    expect_text(&out, "gpu.0.pci", "0000:0c:00.0");
    assert_int_equal(strlen(buf_str(&out.files)), out.files.len);
    release(&out);
}

static void test_partitions(void **state)
{
    (void)state;
    struct collect_out out;
    assert_int_equal(run("k8sdp-mi300x8-cpx-gfx942-kfd", &out), COLLECT_OK);
    expect_integer(&out, "gpu.count", 63);
    expect_text(&out, "gpu.3.partition", "3 of 8");
    expect_text(&out, "gpu.3.pci", "0000:05:00.0");
    expect_absent(&out, "gpu.3.large_bar");
    expect_absent(&out, "gpu.3.vbios");
    assert_null(strstr(buf_str(&out.files), "16404946649897475633")); /* its serial number */
    release(&out);
}

static void test_no_gpu(void **state)
{
    (void)state;
    struct collect_out out;
    assert_int_equal(run("lact-hd7870-radeon", &out), COLLECT_SKIPPED);
    expect_integer(&out, "gpu.count", 0);
    expect_integer(&out, "gpu.present", 0);
    assert_non_null(strstr(out.reason, "'radeon'"));
    release(&out);
}

static void test_nvidia(void **state)
{
    static const char information[] = "/proc/driver/nvidia/gpus/0000:00:06.0/information";
    char root[256];
    struct collect_out out;
    (void)state;
    help_make_dir(root, sizeof root);
    help_write(root, information,
               "Model: \t\t NVIDIA H200\nIRQ:   \t\t 75\n"
               "GPU UUID: \t GPU-deadbeef-6301-f3c9-fcba-2d2b212cb19e\n");
    help_write(root, "/sys/module/nvidia/version", "580.159.04\n");
    help_write(root, "/sys/module/amdgpu/version", "6.10.5\n"); /* not this card's */
    assert_int_equal(run_at(root, &out), COLLECT_OK);
    expect_text(&out, "gpu.0.driver", "nvidia");
    expect_text(&out, "gpu.0.name", "NVIDIA H200");
    expect_text(&out, "gpu.0.driver_version", "580.159.04");
    const struct fact *apu = facts_best(out.facts, "gpu.0.is_apu");
    assert_true(apu != NULL && strstr(apu->source, "NVIDIA") != NULL);
    assert_null(strstr(buf_str(&out.files), "deadbeef"));
    release(&out);
    static const char *const unknown[] = {"", "Model:", "Model: \t", "model: x\n", "IRQ: 75\n"};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        help_write(root, information, unknown[i]);
        assert_int_equal(run_at(root, &out), COLLECT_OK);
        expect_absent(&out, "gpu.0.name");
        release(&out);
    }
    help_remove(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_phoenix),
        cmocka_unit_test(test_same_input_same_bytes),
        cmocka_unit_test(test_small_bar_and_padding),
        cmocka_unit_test(test_partitions),
        cmocka_unit_test(test_no_gpu),
        cmocka_unit_test(test_nvidia),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
