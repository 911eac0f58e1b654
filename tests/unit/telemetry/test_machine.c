/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recorded machines as the root: the GPUs that are found, and every counter of the sampler equals
 * the number in its file. The expectations were read from the trees by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "help.h"
#include "record/shared.h"
#include "telemetry/machine.h"
#include "telemetry/sampler_internal.h"

struct expected_gpu {
    uint32_t index;
    uint32_t have;
    const char *pci, *gfx;
    uint32_t kfd_node, kfd_gpu_id, render_minor, card, device_id;
    uint64_t bank;
    bool is_apu;
    uint32_t partition, partition_count;
};

struct expected_machine {
    const char *name;
    uint32_t count;
    struct expected_gpu gpus[5];
    uint32_t gpus_listed;
    uint32_t values; /* GPU counters that the baseline and one round of the slow ones obtain */
};

#define DRM (GPU_HAVE_CARD | GPU_HAVE_DRIVER | GPU_HAVE_PCI | GPU_HAVE_DEVICE_ID)
#define KFD                                                                                        \
    (GPU_HAVE_KFD_NODE | GPU_HAVE_PCI | GPU_HAVE_GFX | GPU_HAVE_DEVICE_ID | GPU_HAVE_IS_APU)

static const struct expected_machine machines[] = {
    {"lact-phoenix-gfx1103", 1,
     {{0, DRM | KFD | GPU_HAVE_HWMON | GPU_HAVE_RENDER_MINOR | GPU_HAVE_KFD_GPU_ID |
              GPU_HAVE_KFD_BANK,
       "0000:64:00.0", "gfx1103", 1, 35218, 128, 1, 0x15bf, UINT64_C(31433977856), true, 0, 0}},
     1, 11},
    {"lact-rx6900xt-gfx1030", 1,
     {{0, DRM | GPU_HAVE_HWMON | GPU_HAVE_IS_APU, "0000:0c:00.0", "", 0, 0, 0, 0, 0x73bf, 0, false,
       0, 0}},
     1, 14},
    {"lact-vega56-gfx900", 1,
     {{0, DRM | GPU_HAVE_HWMON | GPU_HAVE_IS_APU, "0000:0b:00.0", "", 0, 0, 0, 0, 0x687f, 0, false,
       0, 0}},
     1, 14},
    {"procfs-vega56-gfx900", 1,
     {{0, DRM | GPU_HAVE_IS_APU, "0000:09:00.0", "", 0, 0, 0, 0, 0x687f, 0, false, 0, 0}}, 1, 7},
    {"k8sdp-mi210x8-gfx90a-kfd", 8,
     {{0, KFD | GPU_HAVE_RENDER_MINOR, "0000:03:00.0", "gfx90a", 4, 0, 130, 0, 0x740f, 0, false, 0,
       0},
      {1, KFD | GPU_HAVE_RENDER_MINOR, "0000:26:00.0", "gfx90a", 5, 0, 131, 0, 0x740f, 0, false, 0,
       0},
      {2, KFD | GPU_HAVE_RENDER_MINOR, "0000:43:00.0", "gfx90a", 3, 0, 129, 0, 0x740f, 0, false, 0,
       0},
      {7, KFD | GPU_HAVE_RENDER_MINOR, "0000:e3:00.0", "gfx90a", 6, 0, 132, 0, 0x740f, 0, false, 0,
       0}},
     4, 0},
    {"k8sdp-mi300x8-cpx-gfx942-kfd", 63,
     {{0, KFD | GPU_HAVE_RENDER_MINOR | GPU_HAVE_PARTITION, "0000:05:00.0", "gfx942", 2, 0, 128, 0,
       0x74a1, 0, false, 0, 8},
      {1, KFD | GPU_HAVE_RENDER_MINOR | GPU_HAVE_PARTITION, "0000:05:00.0", "gfx942", 3, 0, 129, 0,
       0x74a1, 0, false, 1, 8},
      {7, KFD | GPU_HAVE_RENDER_MINOR | GPU_HAVE_PARTITION, "0000:05:00.0", "gfx942", 9, 0, 135, 0,
       0x74a1, 0, false, 7, 8},
      {8, KFD | GPU_HAVE_RENDER_MINOR | GPU_HAVE_PARTITION, "0000:27:00.0", "gfx942", 10, 0, 136,
       0, 0x74a1, 0, false, 0, 8}},
     4, 0},
    {"k8sdp-mi25-gfx900-kfd", 2,
     {{0,
       GPU_HAVE_KFD_NODE | GPU_HAVE_PCI | GPU_HAVE_DEVICE_ID | GPU_HAVE_RENDER_MINOR |
           GPU_HAVE_KFD_GPU_ID | GPU_HAVE_KFD_BANK | GPU_HAVE_KFD_USED,
       "0000:19:00.0", "", 1, 13261, 128, 0, 0x6860, UINT64_C(17163091968), false, 0, 0}},
     1, 0},
    {"rocprofsdk-mixed3gpu-kfd", 3,
     {{0, KFD | GPU_HAVE_KFD_BANK | GPU_HAVE_KFD_USED, "0000:43:00.0", "gfx1032", 3, 0, 0, 0,
       0x73ef, 0, false, 0, 0},
      {1, KFD | GPU_HAVE_KFD_BANK | GPU_HAVE_KFD_USED, "0000:63:00.0", "gfx906", 1, 0, 0, 0, 0x66af,
       UINT64_C(17163091968), false, 0, 0},
      {2, KFD | GPU_HAVE_KFD_BANK | GPU_HAVE_KFD_USED, "0000:66:00.0", "gfx1102", 2, 0, 0, 0,
       0x7489, 0, false, 0, 0}},
     3, 0},
    {"lact-hd7870-radeon", 0, {{0}}, 0, 0},
    {"issue-strixhalo-gfx1151", 1,
     {{0, GPU_HAVE_CARD | GPU_HAVE_DRIVER, "", "", 0, 0, 0, 1, 0, 0, false, 0, 0}}, 1, 2},
    {"issue-igpu-ttm-params", 0, {{0}}, 0, 0},
};

static void check_gpu(const struct machine *m, const struct expected_gpu *e, const char *name)
{
    const struct gpu_info *g = &m->gpus[e->index];
    (void)printf("  %s gpu %u: %s %s node %u\n", name, e->index, g->pci, g->gfx, g->kfd_node);
    assert_string_equal(g->pci, e->pci);
    assert_string_equal(g->gfx, e->gfx);
    assert_int_equal(g->have, e->have);
    assert_int_equal(g->kfd_node, e->kfd_node);
    assert_int_equal(g->kfd_gpu_id, e->kfd_gpu_id);
    assert_int_equal(g->render_minor, e->render_minor);
    assert_int_equal(g->card, e->card);
    assert_int_equal(g->device_id, e->device_id);
    assert_int_equal(g->is_apu, e->is_apu);
    assert_int_equal(g->partition, e->partition);
    assert_int_equal(g->partition_count, e->partition_count);
    if (e->bank != 0)
        assert_true(g->kfd_bank_bytes == e->bank);
}

static void test_recorded_machines(void **state)
{
    (void)state;
    static struct machine m;
    for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++) {
        char root[FS_PATH_MAX];
        help_machine_path(machines[i].name, root, sizeof root);
        fs_set_sysroot(root);
        machine_scan(&m);
        assert_int_equal(m.count, machines[i].count);
        assert_int_equal(m.dropped, 0);
        for (uint32_t k = 0; k < machines[i].gpus_listed; k++)
            check_gpu(&m, &machines[i].gpus[k], machines[i].name);
    }
    fs_set_sysroot(NULL);
}

static void test_radeon_is_named(void **state)
{
    (void)state;
    static struct machine m;
    char root[FS_PATH_MAX];
    help_machine_path("lact-hd7870-radeon", root, sizeof root);
    fs_set_sysroot(root);
    machine_scan(&m);
    assert_int_equal(m.count, 0);
    assert_int_equal(m.cards_seen, 1);
    assert_string_equal(m.other_driver, "radeon");
    fs_set_sysroot(NULL);
}

/* 63 of 64 partitions: all distinct nodes and minors, eight addresses, numbers 0..7 each. */
static void test_cpx_partitions(void **state)
{
    (void)state;
    static struct machine m;
    char root[FS_PATH_MAX];
    help_machine_path("k8sdp-mi300x8-cpx-gfx942-kfd", root, sizeof root);
    fs_set_sysroot(root);
    machine_scan(&m);
    assert_int_equal(m.count, 63);
    for (uint32_t i = 0; i < 63; i++) {
        assert_int_equal(m.gpus[i].render_minor, 128 + i);
        assert_int_equal(m.gpus[i].kfd_node, 2 + i);
        assert_int_equal(m.gpus[i].partition, i % 8);
        assert_int_equal(m.gpus[i].partition_count, i < 56 ? 8 : 7);
        assert_int_equal(m.gpus[i].pci[11], '0');
    }
    fs_set_sysroot(NULL);
}

/* --- counters against their files, which this test reads in its own way --- */

static const struct {
    enum metric metric;
    const char *file; /* below device/, %s = hwmonN */
} counter_files[] = {
    {METRIC_GPU_VRAM_TOTAL, "mem_info_vram_total"},
    {METRIC_GPU_VRAM_USED, "mem_info_vram_used"},
    {METRIC_GPU_VIS_TOTAL, "mem_info_vis_vram_total"},
    {METRIC_GPU_VIS_USED, "mem_info_vis_vram_used"},
    {METRIC_GPU_GTT_TOTAL, "mem_info_gtt_total"},
    {METRIC_GPU_GTT_USED, "mem_info_gtt_used"},
    {METRIC_GPU_PREEMPT_USED, "mem_info_preempt_used"},
    {METRIC_GPU_BUSY, "gpu_busy_percent"},
    {METRIC_GPU_TEMP_EDGE, "hwmon/%s/temp1_input"},
    {METRIC_GPU_TEMP_JUNCTION, "hwmon/%s/temp2_input"},
    {METRIC_GPU_TEMP_MEM, "hwmon/%s/temp3_input"},
    {METRIC_GPU_POWER, "hwmon/%s/power1_average"},
    {METRIC_GPU_SCLK, "hwmon/%s/freq1_input"},
    {METRIC_GPU_MCLK, "hwmon/%s/freq2_input"},
};

/* The one folder below DIR whose name begins with prefix and, for cards, has no '-'. */
static bool only_folder(const char *dir, const char *prefix, char *ret, size_t size)
{
    RC_AUTO_CLOSEDIR DIR *d = opendir(dir);
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;)
        if (strncmp(e->d_name, prefix, strlen(prefix)) == 0 && strchr(e->d_name, '-') == NULL) {
            (void)snprintf(ret, size, "%.60s", e->d_name);
            return true;
        }
    return false;
}

static uint32_t check_counters(const char *root, const struct series_set *set)
{
    char dir[FS_PATH_MAX + 128];
    char card[64] = "none";
    char hwmon[64] = "none";
    uint32_t obtained = 0;
    (void)snprintf(dir, sizeof dir, "%s/sys/class/drm", root);
    bool has_card = only_folder(dir, "card", card, sizeof card);
    (void)snprintf(dir, sizeof dir, "%s/sys/class/drm/%s/device/hwmon", root, card);
    (void)only_folder(dir, "hwmon", hwmon, sizeof hwmon);
    for (size_t i = 0; i < sizeof counter_files / sizeof counter_files[0]; i++) {
        char path[256];
        uint64_t value = 0;
        int n = snprintf(path, sizeof path, "/sys/class/drm/%s/device/", card);
        const char *percent = strstr(counter_files[i].file, "%s");
        if (percent != NULL)
            (void)snprintf(path + n, sizeof path - (size_t)n, "hwmon/%s%s", hwmon, percent + 2);
        else
            (void)snprintf(path + n, sizeof path - (size_t)n, "%s", counter_files[i].file);
        const struct series_point *p =
            series_at(series_find(set, counter_files[i].metric, 0), UINT64_MAX);
        if (p == NULL) {
            fail_msg("metric %d was not even recorded as absent", (int)counter_files[i].metric);
            continue;
        }
        if (has_card && help_read_u64(root, path, &value)) {
            assert_int_equal(p->status, VALUE_OK);
            assert_true(p->value == value);
            obtained++;
        } else {
            assert_int_equal(p->status, VALUE_ABSENT);
        }
    }
    return obtained;
}

static void test_counters_of_recorded_machines(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++) {
        char root[FS_PATH_MAX];
        help_machine_path(machines[i].name, root, sizeof root);
        fs_set_sysroot(root);
        int fd = -1;
        struct shared *shared = shared_create(&fd, NULL);
        struct sampler *s = calloc(1, sizeof *s);
        assert_non_null(shared);
        sampler_init(s, shared);
        sampler_begin(s);
        s->now_ns += 2 * SECOND; /* everything is due */
        (void)sampler_turn(s);
        struct series_set set;
        help_ring_to_series(shared, &set);
        assert_true(series_time_of(&set, SAMPLE_BASELINE) != 0);
        uint32_t obtained = machines[i].count > 0 ? check_counters(root, &set) : 0;
        (void)printf("  %-30s %u counters\n", machines[i].name, obtained);
        assert_int_equal(obtained, machines[i].values);
        series_release(&set);
        free(s);
        (void)close(fd);
        (void)munmap(shared, sizeof *shared);
    }
    fs_set_sysroot(NULL);
}

static void test_ttm_choice(void **state)
{
    (void)state;
    char root[256];
    help_make_dir(root, sizeof root);
    fs_set_sysroot(root);
    assert_null(machine_ttm_parameters());
    help_write(root, "/sys/module/ttm/parameters/pages_limit", "1\n");
    assert_string_equal(machine_ttm_parameters(), "/sys/module/ttm/parameters");
    help_write(root, "/sys/module/amdttm/parameters/pages_limit", "2\n");
    assert_string_equal(machine_ttm_parameters(), "/sys/module/amdttm/parameters");
    help_write(root, "/sys/module/ttm/holders/amdgpu/x", "");
    assert_string_equal(machine_ttm_parameters(), "/sys/module/ttm/parameters");
    help_write(root, "/sys/module/amdttm/holders/amdgpu/x", "");
    assert_string_equal(machine_ttm_parameters(), "/sys/module/amdttm/parameters");
    fs_set_sysroot(NULL);
    help_remove(root);
}

/* Cards and nodes of one machine are joined by render minor if both have it, else by address. */
static void test_join(void **state)
{
    (void)state;
    static struct machine m;
    char root[256];
    help_make_dir(root, sizeof root);
    fs_set_sysroot(root);
    help_fake_machine(root, 2, 1000);
    machine_scan(&m);
    assert_int_equal(m.count, 2);
    assert_int_equal(m.gpus[1].have & (GPU_HAVE_CARD | GPU_HAVE_KFD_NODE),
                     GPU_HAVE_CARD | GPU_HAVE_KFD_NODE);
    assert_int_equal(m.gpus[1].kfd_gpu_id, 20001);
    /* The minors contradict the addresses: the minors win. */
    help_write(root, "/sys/class/drm/card0/device/drm/renderD129/dev", "");
    help_write(root, "/sys/class/drm/card1/device/drm/renderD128/dev", "");
    machine_scan(&m);
    assert_int_equal(m.count, 2);
    assert_string_equal(m.gpus[0].pci, "0000:10:00.0");
    assert_int_equal(m.gpus[0].kfd_gpu_id, 20001);
    /* `device` is a link, and there is no uevent. */
    help_write(root, "/sys/devices/pci/0000:77:00.0/mem_info_vram_total", "5\n");
    char path[FS_PATH_MAX];
    help_write(root, "/sys/class/drm/card7/dev", "");
    (void)snprintf(path, sizeof path, "%s/sys/class/drm/card7/device", root);
    assert_int_equal(symlink("../../../devices/pci/0000:77:00.0", path), 0);
    machine_scan(&m);
    assert_int_equal(m.count, 3);
    assert_string_equal(m.gpus[2].pci, "0000:77:00.0");
    fs_set_sysroot(NULL);
    help_remove(root);
}

/* Every file of a tree cut short or overwritten: never a crash, never more GPUs than there are. */
static void test_garbage_trees(void **state)
{
    (void)state;
    static struct machine m;
    static const char *const files[] = {
        "/sys/class/drm/card0/device/uevent",
        "/sys/class/kfd/kfd/topology/nodes/1/properties",
        "/sys/class/kfd/kfd/topology/nodes/1/mem_banks/0/properties",
        "/sys/class/kfd/kfd/topology/nodes/1/gpu_id",
        "/sys/class/drm/card0/device/hwmon/hwmon3/name",
    };
    uint64_t random = help_seed();
    char root[256];
    help_make_dir(root, sizeof root);
    fs_set_sysroot(root);
    for (size_t f = 0; f < sizeof files / sizeof files[0]; f++) {
        help_fake_machine(root, 1, 1000);
        char path[FS_PATH_MAX];
        char text[1024];
        (void)snprintf(path, sizeof path, "%s%s", root, files[f]);
        ssize_t len = fs_read_text(path, text, sizeof text);
        assert_true(len > 0);
        for (ssize_t cut = 0; cut <= len; cut++) {
            assert_int_equal(truncate(path, cut), 0);
            machine_scan(&m);
            assert_true(m.count <= 2);
            help_write(root, files[f], text);
        }
        for (int round = 0; round < 100; round++) {
            char copy[1024];
            memcpy(copy, text, sizeof copy);
            for (int k = 0; k < 4; k++)
                copy[help_random(&random) % (uint32_t)len] = (char)(help_random(&random) % 255 + 1);
            help_write(root, files[f], copy);
            machine_scan(&m);
            assert_true(m.count <= 2);
            for (uint32_t g = 0; g < m.count; g++)
                assert_true(strlen(m.gpus[g].pci) == 0 || strlen(m.gpus[g].pci) == 12);
        }
    }
    fs_set_sysroot(NULL);
    help_remove(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recorded_machines),
        cmocka_unit_test(test_radeon_is_named),
        cmocka_unit_test(test_cpx_partitions),
        cmocka_unit_test(test_counters_of_recorded_machines),
        cmocka_unit_test(test_ttm_choice),
        cmocka_unit_test(test_join),
        cmocka_unit_test(test_garbage_trees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
