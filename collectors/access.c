/* SPDX-License-Identifier: Apache-2.0 */
/*
 * May this user open the devices, and read the logs? Opens none of them (to open /dev/kfd would make us a
 * GPU process). Group names may come over a network and take long: the deadline covers that.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "collect/collector.h"
#include "collectors/machine.h"
#include "telemetry/machine.h"

#define GROUPS_MAX 1024
#define PCI_DEVICES_MAX 512

static void give_group(struct collect_out *out, const char *fact, gid_t gid, const char *path)
{
    char number[24];
    const struct group *group = getgrgid(gid);
    (void)snprintf(number, sizeof number, "%u", (unsigned)gid);
    collect_text(out, fact, FACT_STATIC, group != NULL ? group->gr_name : number, path);
}

/* "yes", or the kernel's words; by the effective user, without opening. */
static void give_device(struct collect_out *out, const char *prefix, const char *path)
{
    char full[FS_PATH_MAX];
    char fact[64];
    struct stat st;
    int r = fs_machine_path(full, sizeof full, path);
    (void)snprintf(fact, sizeof fact, "%s_access", prefix);
    if (r < 0 || stat(full, &st) != 0) {
        /* A recorded machine has no /dev: that says nothing about its rights. */
        if (fs_sysroot()[0] != '\0')
            collect_missing(out, fact, FACT_STATIC, FACT_ABSENT, "recorded machine without /dev",
                            path);
        else
            collect_text(out, fact, FACT_STATIC, strerror(r < 0 ? -r : errno), path);
        return;
    }
    bool open = faccessat(AT_FDCWD, full, R_OK | W_OK, AT_EACCESS) == 0;
    collect_text(out, fact, FACT_STATIC, open ? "yes" : strerror(errno), path);
    (void)snprintf(fact, sizeof fact, "%s_group", prefix);
    give_group(out, fact, st.st_gid, path);
}

static void give_gpu_nodes(struct collect_out *out)
{
    static struct machine machine;
    machine_scan(&machine);
    for (uint32_t i = 0; i < machine.count; i++) {
        char prefix[48];
        char path[64];
        if ((machine.gpus[i].have & GPU_HAVE_RENDER_MINOR) == 0)
            continue;
        (void)snprintf(prefix, sizeof prefix, "gpu.%u.render", i);
        (void)snprintf(path, sizeof path, "/dev/dri/renderD%u", machine.gpus[i].render_minor);
        give_device(out, prefix, path);
    }
}

/* Display controllers (class 0x03) and accelerators (0x12) of a vendor on the PCI bus: a card
 * without a driver is no DRM card. */
static void give_pci(struct collect_out *out)
{
    static char names[PCI_DEVICES_MAX][MACHINE_NAME_MAX];
    static const char folder[] = "/sys/bus/pci/devices";
    int64_t amd = 0;
    int64_t nvidia = 0;
    int count = machine_list(folder, names, PCI_DEVICES_MAX);
    for (int i = 0; i < count; i++) {
        char path[160];
        char vendor[16];
        char class[16];
        (void)snprintf(path, sizeof path, "%s/%.63s/vendor", folder, names[i]);
        if (fs_read_machine_text(path, vendor, sizeof vendor) <= 0)
            continue;
        (void)snprintf(path, sizeof path, "%s/%.63s/class", folder, names[i]);
        if (fs_read_machine_text(path, class, sizeof class) <= 0 ||
            (strncmp(class, "0x03", 4) != 0 && strncmp(class, "0x12", 4) != 0))
            continue;
        amd += strcmp(vendor, "0x1002") == 0;
        nvidia += strcmp(vendor, "0x10de") == 0;
    }
    if (count < 0) {
        machine_missing(out, "host.pci_amd_displays", FACT_STATIC, count, folder);
        return;
    }
    collect_integer(out, "host.pci_amd_displays", FACT_STATIC, amd, folder);
    collect_integer(out, "host.pci_nvidia_displays", FACT_STATIC, nvidia, folder);
}

static void give_rdma(struct collect_out *out)
{
    static char names[64][MACHINE_NAME_MAX];
    static const char folder[] = "/sys/class/infiniband";
    int count = machine_list(folder, names, 64);
    if (count == -ENOENT && fs_sysroot()[0] == '\0')
        count = 0; /* no RDMA module is loaded */
    if (count >= 0)
        collect_integer(out, "host.rdma_devices", FACT_STATIC, count, folder);
    else
        machine_missing(out, "host.rdma_devices", FACT_STATIC, count, folder);
}

static bool exists(const char *path)
{
    char full[FS_PATH_MAX];
    return fs_machine_path(full, sizeof full, path) == 0 && access(full, F_OK) == 0;
}

static enum collect_status run(const struct collect_ctx *ctx, struct collect_out *out)
{
    (void)ctx;
    const char *ttm = machine_ttm_parameters();
    give_device(out, "host.kfd", "/dev/kfd");
    give_gpu_nodes(out);
    give_pci(out);
    give_rdma(out);
    machine_integer(out, "host.dmesg_restrict", FACT_STATIC, "/proc/sys/kernel/dmesg_restrict");
    collect_boolean(out, "host.kfd_topology", FACT_STATIC,
                    exists("/sys/class/kfd/kfd/topology/nodes"), "/sys/class/kfd/kfd/topology");
    collect_boolean(out, "host.wsl", FACT_STATIC, exists("/dev/dxg"), "/dev/dxg");
    collect_boolean(out, "host.is_root", FACT_STATIC, geteuid() == 0, "geteuid");
    if (ttm != NULL)
        collect_text(out, "host.ttm_module", FACT_STATIC,
                     strstr(ttm, "amdttm") != NULL ? "amdttm" : "ttm", ttm);
    return COLLECT_OK;
}

const struct collector collector_access = {
    .name = "access",
    .describe = "rights to the devices and logs",
    .phase = COLLECT_QUICK,
    .deadline_ms = 2000,
    .run = run,
};
