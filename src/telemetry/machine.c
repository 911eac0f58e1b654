/* SPDX-License-Identifier: Apache-2.0 */
#include "telemetry/machine.h"
#include "telemetry/nvml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/number.h"
#include "telemetry/dirscan.h"
#include "telemetry/keys.h"

#define DRM_CLASS "/sys/class/drm"

/* Used during the scan only; the sampler and a collector child each scan once. 128 x 0.6 KiB. */
static struct kfd_node kfd_nodes[MACHINE_GPUS_MAX];

static bool machine_exists(const char *path)
{
    char full[FS_PATH_MAX];
    return fs_machine_path(full, sizeof full, path) == 0 && access(full, F_OK) == 0;
}

/* "0000:64:00.0" and nothing else. */
static bool is_pci_address(const char *text)
{
    static const char shape[] = "xxxx:xx:xx.x";
    for (size_t i = 0; i < sizeof shape - 1; i++) {
        bool hex = (text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f') ||
                   (text[i] >= 'A' && text[i] <= 'F');
        if (shape[i] == 'x' ? !hex : text[i] != shape[i])
            return false;
    }
    return text[sizeof shape - 1] == '\0';
}

static void set_pci(struct gpu_info *gpu, const char *address)
{
    if (!is_pci_address(address))
        return;
    (void)snprintf(gpu->pci, sizeof gpu->pci, "%s", address);
    gpu->have |= GPU_HAVE_PCI;
}

/* uevent: "DRIVER=amdgpu\nPCI_CLASS=30000\nPCI_ID=1002:15BF\n...PCI_SLOT_NAME=0000:64:00.0\n" */
static void parse_uevent(const char *text, size_t len, struct gpu_info *gpu)
{
    struct span driver = key_find(text, len, "DRIVER", '=');
    if (driver.data != NULL && driver.len > 0) {
        span_copy(gpu->driver, sizeof gpu->driver, driver);
        gpu->have |= GPU_HAVE_DRIVER;
    }
    char value[32];
    span_copy(value, sizeof value, key_find(text, len, "PCI_SLOT_NAME", '='));
    set_pci(gpu, value);
    span_copy(value, sizeof value, key_find(text, len, "PCI_ID", '='));
    char *end = NULL;
    unsigned long id = strlen(value) == 9 && value[4] == ':' ? strtoul(value + 5, &end, 16) : 0;
    if (id > 0 && end != NULL && *end == '\0') {
        gpu->device_id = (uint32_t)id;
        gpu->have |= GPU_HAVE_DEVICE_ID;
    }
}

static void find_hwmon(struct gpu_info *gpu)
{
    char path[FS_PATH_MAX];
    char text[160];
    struct dirscan dir;
    (void)snprintf(text, sizeof text, "%s/hwmon", gpu->device_path);
    if (fs_machine_path(path, sizeof path, text) < 0 || dirscan_open(&dir, path) < 0)
        return;
    const char *name;
    while ((name = dirscan_next(&dir)) != NULL) {
        int64_t number = number_in_name(name, "hwmon");
        if (number < 0)
            continue;
        char chip[32];
        (void)snprintf(text, sizeof text, "%s/hwmon/hwmon%lld/name", gpu->device_path,
                       (long long)number);
        if (fs_read_machine_text(text, chip, sizeof chip) < 0 || strcmp(chip, "amdgpu") != 0)
            continue;
        (void)snprintf(gpu->hwmon_path, sizeof gpu->hwmon_path, "%s/hwmon/hwmon%lld",
                       gpu->device_path, (long long)number);
        gpu->have |= GPU_HAVE_HWMON;
        break;
    }
    dirscan_close(&dir);
}

static void find_render_minor(struct gpu_info *gpu)
{
    char path[FS_PATH_MAX];
    char text[128];
    struct dirscan dir;
    (void)snprintf(text, sizeof text, "%s/drm", gpu->device_path);
    if (fs_machine_path(path, sizeof path, text) < 0 || dirscan_open(&dir, path) < 0)
        return;
    const char *name;
    while ((name = dirscan_next(&dir)) != NULL) {
        int64_t minor = number_in_name(name, "renderD");
        if (minor < 0)
            continue;
        gpu->render_minor = (uint32_t)minor;
        gpu->have |= GPU_HAVE_RENDER_MINOR;
        break;
    }
    dirscan_close(&dir);
}

/* The last part of the `device` link, if uevent is not readable. */
static void pci_from_link(struct gpu_info *gpu)
{
    char path[FS_PATH_MAX];
    char target[FS_PATH_MAX];
    if (fs_machine_path(path, sizeof path, gpu->device_path) < 0)
        return;
    ssize_t len = readlink(path, target, sizeof target - 1);
    if (len <= 0)
        return;
    target[len] = '\0';
    const char *slash = strrchr(target, '/');
    set_pci(gpu, slash != NULL ? slash + 1 : target);
}

/* True = an amdgpu card, filled into *gpu. */
static bool read_card(int64_t number, struct gpu_info *gpu, struct machine *m)
{
    char path[160];
    char text[2048];
    memset(gpu, 0, sizeof *gpu);
    gpu->card = (uint32_t)number;
    gpu->have = GPU_HAVE_CARD;
    (void)snprintf(gpu->device_path, sizeof gpu->device_path, DRM_CLASS "/card%lld/device",
                   (long long)number);
    (void)snprintf(path, sizeof path, "%s/uevent", gpu->device_path);
    ssize_t len = fs_read_machine_text(path, text, sizeof text);
    if (len > 0)
        parse_uevent(text, (size_t)len, gpu);
    if ((gpu->have & GPU_HAVE_PCI) == 0)
        pci_from_link(gpu);
    if ((gpu->have & GPU_HAVE_DRIVER) == 0) {
        /* No other driver has this file, so it identifies the card if the tree has no uevent. */
        (void)snprintf(path, sizeof path, "%s/mem_info_vram_total", gpu->device_path);
        if (!machine_exists(path))
            return false;
        (void)snprintf(gpu->driver, sizeof gpu->driver, "amdgpu");
        gpu->have |= GPU_HAVE_DRIVER;
    }
    if (strcmp(gpu->driver, "amdgpu") != 0) {
        if (m->other_driver[0] == '\0')
            (void)snprintf(m->other_driver, sizeof m->other_driver, "%s", gpu->driver);
        return false;
    }
    find_hwmon(gpu);
    find_render_minor(gpu);
    return true;
}

static void scan_cards(struct machine *m)
{
    char path[FS_PATH_MAX];
    struct dirscan dir;
    if (fs_machine_path(path, sizeof path, DRM_CLASS) < 0 || dirscan_open(&dir, path) < 0)
        return;
    const char *name;
    while ((name = dirscan_next(&dir)) != NULL) {
        int64_t number = number_in_name(name, "card"); /* not card0-DP-1, not renderD128 */
        if (number < 0)
            continue;
        m->cards_seen++;
        struct gpu_info gpu;
        if (!read_card(number, &gpu, m))
            continue;
        if (m->count < MACHINE_GPUS_MAX)
            m->gpus[m->count++] = gpu;
        else
            m->dropped++;
    }
    dirscan_close(&dir);
}

/*
 * Partitions of one MI300: several nodes with one serial number and one bus and device, the
 * partition number in the function bits of location_id (recorded: 1280, 1281 ... 1287).
 */
static void mark_partitions(uint32_t nodes)
{
    for (uint32_t i = 0; i < nodes; i++) {
        struct kfd_node *node = &kfd_nodes[i];
        uint32_t same = 0;
        for (uint32_t k = 0; k < nodes; k++)
            same += kfd_nodes[k].unique_id == node->unique_id &&
                    kfd_nodes[k].domain == node->domain &&
                    kfd_nodes[k].location_id >> 3 == node->location_id >> 3;
        uint32_t function = node->location_id & 7;
        if (node->unique_id != 0 && node->has_location && same > 1) {
            node->info.partition = function;
            node->info.partition_count = same;
            node->info.have |= GPU_HAVE_PARTITION;
            function = 0;
        }
        if (!node->has_location)
            continue;
        char address[32];
        (void)snprintf(address, sizeof address, "%04x:%02x:%02x.%x", node->domain & 0xffff,
                       node->location_id >> 8 & 0xff, node->location_id >> 3 & 0x1f, function);
        set_pci(&node->info, address);
    }
}

static bool same_gpu(const struct gpu_info *card, const struct kfd_node *node)
{
    const struct gpu_info *kfd = &node->info;
    if ((card->have & kfd->have & GPU_HAVE_RENDER_MINOR) != 0)
        return card->render_minor == kfd->render_minor;
    /* Match by address for the first partition only: the card's counters are those of the whole
     * GPU. */
    return (card->have & kfd->have & GPU_HAVE_PCI) != 0 && strcmp(card->pci, kfd->pci) == 0 &&
           ((kfd->have & GPU_HAVE_PARTITION) == 0 || kfd->partition == 0);
}

static void add_kfd(struct gpu_info *gpu, const struct gpu_info *kfd)
{
    uint32_t news = kfd->have & ~gpu->have;
    gpu->have |= kfd->have;
    memcpy(gpu->gfx, kfd->gfx, sizeof gpu->gfx);
    memcpy(gpu->kfd_path, kfd->kfd_path, sizeof gpu->kfd_path);
    gpu->kfd_node = kfd->kfd_node;
    gpu->kfd_gpu_id = kfd->kfd_gpu_id;
    gpu->kfd_bank_bytes = kfd->kfd_bank_bytes;
    gpu->partition = kfd->partition;
    gpu->partition_count = kfd->partition_count;
    if (news & GPU_HAVE_PCI)
        memcpy(gpu->pci, kfd->pci, sizeof gpu->pci);
    if (news & GPU_HAVE_RENDER_MINOR)
        gpu->render_minor = kfd->render_minor;
    if (news & GPU_HAVE_DEVICE_ID)
        gpu->device_id = kfd->device_id;
}

static void join_kfd(struct machine *m, uint32_t nodes)
{
    uint32_t cards = m->count;
    for (uint32_t c = 0; c < cards; c++)
        for (uint32_t k = 0; k < nodes; k++) {
            if (kfd_nodes[k].joined || !same_gpu(&m->gpus[c], &kfd_nodes[k]))
                continue;
            add_kfd(&m->gpus[c], &kfd_nodes[k].info);
            kfd_nodes[k].joined = true;
            break;
        }
    for (uint32_t k = 0; k < nodes; k++) {
        if (kfd_nodes[k].joined)
            continue;
        if (m->count < MACHINE_GPUS_MAX)
            m->gpus[m->count++] = kfd_nodes[k].info;
        else
            m->dropped++;
    }
}

/* APUs by gfx name: the chips for which the kernel sets AMD_IS_APU. MI300A shares gfx942, so its PCI
 * id decides. */
static bool apu_by_name(const struct gpu_info *gpu)
{
    static const char *const apus[] = {"gfx700",  "gfx801",  "gfx902",  "gfx909",
                                       "gfx90c",  "gfx1013", "gfx1033", "gfx1035",
                                       "gfx1036", "gfx1103", "gfx1150", "gfx1151",
                                       "gfx1152", "gfx1153"};
    for (size_t i = 0; i < sizeof apus / sizeof apus[0]; i++)
        if (strcmp(gpu->gfx, apus[i]) == 0)
            return true;
    return (gpu->have & GPU_HAVE_DEVICE_ID) != 0 && gpu->device_id == 0x74a0;
}

static void decide_apu(struct gpu_info *gpu)
{
    char path[128];
    if ((gpu->have & GPU_HAVE_GFX) != 0) {
        gpu->is_apu = apu_by_name(gpu);
        gpu->have |= GPU_HAVE_IS_APU;
        return;
    }
    /* default_attr_update() in amdgpu_pm.c leaves pcie_bw out on APUs; only dGPUs are certain. */
    (void)snprintf(path, sizeof path, "%s/pcie_bw", gpu->device_path);
    if ((gpu->have & GPU_HAVE_CARD) != 0 && machine_exists(path))
        gpu->have |= GPU_HAVE_IS_APU;
}

static int compare_gpus(const struct gpu_info *a, const struct gpu_info *b)
{
    uint32_t pci = GPU_HAVE_PCI;
    if ((a->have & pci) != (b->have & pci))
        return (a->have & pci) != 0 ? -1 : 1;
    int order = strcasecmp(a->pci, b->pci);
    if (order != 0)
        return order;
    if (a->kfd_node != b->kfd_node)
        return a->kfd_node < b->kfd_node ? -1 : 1;
    return a->card < b->card ? -1 : a->card > b->card;
}

/* Insertion sort: qsort() of glibc may allocate. */
static void sort_gpus(struct machine *m)
{
    for (uint32_t i = 1; i < m->count; i++) {
        struct gpu_info gpu = m->gpus[i];
        uint32_t k = i;
        for (; k > 0 && compare_gpus(&gpu, &m->gpus[k - 1]) < 0; k--)
            m->gpus[k] = m->gpus[k - 1];
        m->gpus[k] = gpu;
    }
}

void machine_scan(struct machine *m)
{
    char before[32] = "";
    char after[32] = "";
    static const char generation[] = "/sys/class/kfd/kfd/topology/generation_id";
    for (int attempt = 0; attempt < 3; attempt++) {
        memset(m, 0, sizeof *m);
        (void)fs_read_machine_text(generation, before, sizeof before);
        scan_cards(m);
        uint32_t nodes = machine_kfd_scan(kfd_nodes, MACHINE_GPUS_MAX, m);
        mark_partitions(nodes);
        join_kfd(m, nodes);
        /* The topology may change under the walk (hot-plug, a partition switch). */
        (void)fs_read_machine_text(generation, after, sizeof after);
        if (strcmp(before, after) == 0)
            break;
    }
    for (uint32_t i = 0; i < m->count; i++)
        decide_apu(&m->gpus[i]);
    sort_gpus(m);
    nvml_add_gpus(m);
}

const char *machine_ttm_parameters(void)
{
    static const char dkms[] = "/sys/module/amdttm/parameters";
    static const char inbox[] = "/sys/module/ttm/parameters";
    if (machine_exists("/sys/module/amdttm/holders/amdgpu"))
        return dkms;
    if (machine_exists("/sys/module/ttm/holders/amdgpu"))
        return inbox;
    if (machine_exists(dkms))
        return dkms;
    return machine_exists(inbox) ? inbox : NULL;
}
