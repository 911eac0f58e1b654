#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the folder of an emulated machine: the sysfs tree of its GPUs and the emulator's settings.

usage: machine.py FOLDER MODEL [MODEL ...] [--vram SIZE] [--kernel 6.12] ...
       EMULATOR_ROOT=FOLDER LD_PRELOAD=librocmcrash-emulator.so rocminfo
"""
import argparse
import os
import shutil
import sys

MIB = 1 << 20
GIB = 1 << 30
COUNTER_WIDTH = 21  # 20 digits and a newline: the library stores in place, so the size never changes
TOPOLOGY = "sys/devices/virtual/kfd/kfd/topology"
LARGE_BAR_LINK = 2  # PCIe

# KFD's properties of each chip. gfx90a and gfx942 follow recorded trees (MI210, MI300X);
# the others are put together from public specifications.
MODELS = {
    "gfx90a": dict(
        name="aldebaran", gfx_target_version=90010, device_id=0x740F, revision=0x02, simd_count=416,
        simd_per_cu=4, array_count=8, simd_arrays_per_engine=1, cu_per_simd_array=14,
        wave_front_size=64, max_waves_per_simd=8, vram=65520 * MIB, width=4096, mem_clk_max=1600,
        max_engine_clk_fcompute=1700, capability=746037888, num_sdma_engines=2,
        num_sdma_xgmi_engines=3, num_sdma_queues_per_engine=8, num_cp_queues=24, fw_version=92,
        sdma_fw_version=9),
    "gfx942": dict(
        name="ip discovery", gfx_target_version=90402, device_id=0x74A1, revision=0x00,
        simd_count=1216, simd_per_cu=4, array_count=32, simd_arrays_per_engine=1,
        cu_per_simd_array=10, wave_front_size=64, max_waves_per_simd=8, vram=196592 * MIB,
        width=8192, mem_clk_max=1300, max_engine_clk_fcompute=2100, capability=746037888,
        num_sdma_engines=2, num_sdma_xgmi_engines=14, num_sdma_queues_per_engine=8,
        num_cp_queues=24, fw_version=177, sdma_fw_version=24, num_xcc=8),
    "gfx1030": dict(
        name="ip discovery", gfx_target_version=100300, device_id=0x73BF, revision=0xC1,
        simd_count=144, simd_per_cu=2, array_count=8, simd_arrays_per_engine=2,
        cu_per_simd_array=10, wave_front_size=32, max_waves_per_simd=16, vram=16368 * MIB,
        width=256, mem_clk_max=1000, max_engine_clk_fcompute=2575, capability=671588992,
        num_sdma_engines=2, num_sdma_xgmi_engines=0, num_sdma_queues_per_engine=8,
        num_cp_queues=8, fw_version=115, sdma_fw_version=83),
    "gfx1100": dict(
        name="ip discovery", gfx_target_version=110000, device_id=0x744C, revision=0xC8,
        simd_count=192, simd_per_cu=2, array_count=12, simd_arrays_per_engine=2,
        cu_per_simd_array=8, wave_front_size=32, max_waves_per_simd=16, vram=24560 * MIB,
        width=384, mem_clk_max=1249, max_engine_clk_fcompute=2304, capability=671588992,
        num_sdma_engines=2, num_sdma_xgmi_engines=0, num_sdma_queues_per_engine=6,
        num_cp_queues=8, fw_version=542, sdma_fw_version=21),
    "gfx1151": dict(
        name="ip discovery", gfx_target_version=110501, device_id=0x1586, revision=0xC1,
        simd_count=80, simd_per_cu=2, array_count=4, simd_arrays_per_engine=2,
        cu_per_simd_array=10, wave_front_size=32, max_waves_per_simd=16, vram=512 * MIB,
        width=256, mem_clk_max=1000, max_engine_clk_fcompute=2900, capability=709075584,
        num_sdma_engines=1, num_sdma_xgmi_engines=0, num_sdma_queues_per_engine=6,
        num_cp_queues=8, fw_version=31, sdma_fw_version=14, is_apu=True),
}
CPU_KEYS = ("cpu_core_id_base simd_id_base max_waves_per_simd lds_size_in_kb gds_size_in_kb num_gws "
            "wave_front_size array_count simd_arrays_per_engine cu_per_simd_array simd_per_cu "
            "max_slots_scratch_cu gfx_target_version vendor_id device_id location_id domain "
            "drm_render_minor hive_id num_sdma_engines num_sdma_xgmi_engines "
            "num_sdma_queues_per_engine num_cp_queues").split()
FROM_MODEL = ("gfx_target_version device_id simd_count simd_per_cu array_count "
              "simd_arrays_per_engine cu_per_simd_array wave_front_size max_waves_per_simd "
              "max_engine_clk_fcompute capability num_sdma_engines num_sdma_xgmi_engines "
              "num_sdma_queues_per_engine num_cp_queues fw_version sdma_fw_version").split()


def size(text):
    """'512M' -> bytes."""
    factor = {"K": 1 << 10, "M": MIB, "G": GIB, "T": 1 << 40}.get(text[-1:].upper())
    return int(text) if factor is None else int(float(text[:-1]) * factor)


def version(text):
    """'6.12' -> 612, the way machine.conf writes kernels."""
    major, minor = text.split(".")[:2]
    return int(major) * 100 + int(minor)


class Tree:
    """Writes files and links below a folder."""

    def __init__(self, root):
        self.root = os.path.abspath(root)

    def path(self, name):
        return os.path.join(self.root, name.lstrip("/"))

    def write(self, name, content=""):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        text = str(content)
        with open(path, "w", encoding="ascii") as file:
            file.write(text if text == "" or text.endswith("\n") else text + "\n")

    def counter(self, name, value):
        self.write(name, str(value).ljust(COUNTER_WIDTH, "\n"))

    def properties(self, name, values):
        self.write(name, "".join(f"{key} {value}\n" for key, value in values.items()))

    def link(self, name, target):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.lexists(path):
            os.unlink(path)
        os.symlink(target, path)

    def folder(self, name):
        os.makedirs(self.path(name), exist_ok=True)


class Settings:
    """The settings of the machine, except its GPUs."""

    def __init__(self, *, kernel="6.12", fdinfo=None, kfd_minor=None, ram=None, pages_limit=None,
                 gtt=None, base=32 * MIB, free=None, is_apu=False):
        self.kernel = version(kernel)
        self.kernel_text = kernel
        self.fdinfo = version(fdinfo) if fdinfo else self.kernel
        self.kfd_minor = kfd_minor or (11 if self.kernel < 610 else 17)
        self.ram = ram or (128 if is_apu else 64) * GIB
        self.pages_limit = pages_limit or self.ram // 2 // 4096
        self.base = base
        self.free = free
        self.is_apu = is_apu
        if gtt is None:  # 6.1: half the RAM, at least 3 GiB; 6.12: TTM's limit
            gtt = max(3 * GIB, self.ram // 2) if self.kernel < 610 else self.pages_limit * 4096
        self.gtt = gtt


def make_host(tree, settings):
    """The parts of the machine that are no GPU, and the emulator's own folder."""
    conf = dict(kernel=settings.kernel, fdinfo_kernel=settings.fdinfo,
                kfd_minor=settings.kfd_minor, base_bytes=settings.base,
                is_apu=int(settings.is_apu))
    if settings.free is not None:
        conf["free_bytes"] = settings.free
    tree.properties("emulator/machine.conf", conf)
    tree.write("emulator/faults")
    kib = settings.ram >> 10
    tree.write("proc/meminfo", f"MemTotal:       {kib} kB\nMemFree:        {kib // 16 * 15} kB\n"
               f"MemAvailable:   {kib // 16 * 15} kB\nSwapTotal:      0 kB\nSwapFree:       0 kB\n")
    tree.write("proc/version", f"Linux version {settings.kernel_text}.0-emulated\n")
    tree.write("proc/modules", "amdgpu 17387520 0 - Live 0x0000000000000000\n")
    for name, value in (("initstate", "live"), ("refcnt", 0), ("coresize", 17387520)):
        tree.write(f"sys/module/amdgpu/{name}", value)
    tree.folder("sys/module/amdgpu/holders")
    tree.write("sys/module/amdgpu/parameters/gttsize", -1)
    tree.write("sys/module/ttm/parameters/pages_limit", settings.pages_limit)
    tree.write("sys/module/ttm/parameters/page_pool_size", settings.pages_limit)
    tree.write("dev/kmsg")
    tree.write("dev/kfd")
    tree.folder("dev/shm")
    tree.write("sys/devices/virtual/kfd/kfd/dev", "235:0")
    tree.folder("sys/devices/virtual/kfd/kfd/proc")
    tree.link("sys/class/kfd/kfd", "../../devices/virtual/kfd/kfd")


def make_card(tree, index, bdf, gpu, settings):
    """The PCI device with its DRM nodes: card<index>, renderD<128 + index>."""
    parent = f"sys/devices/pci0000:00/0000:00:{1 + index // 8:02x}.{index % 8}/{bdf}"
    make_drm(tree, index, parent)
    for name, value in dict(
            vendor="0x1002", device=f"0x{gpu['device_id']:04x}", subsystem_vendor="0x1002",
            subsystem_device="0x0e3b", revision=f"0x{gpu['revision']:02x}",
            unique_id=f"{gpu['unique_id']:016x}", vbios_version="113-EMULATED-001",
            gpu_busy_percent=0, numa_node=-1, enable=1, **{"class": "0x030000"}).items():
        tree.write(f"{parent}/{name}", value)
    base = settings.base
    for name, value in dict(vram_total=gpu["vram"], vis_vram_total=gpu["visible"],
                            gtt_total=settings.gtt, vram_used=base, vis_vram_used=base,
                            gtt_used=0, preempt_used=0).items():
        tree.counter(f"{parent}/mem_info_{name}", value)
    tree.write(f"{parent}/uevent",
               f"DRIVER=amdgpu\nPCI_CLASS=30000\nPCI_ID=1002:{gpu['device_id']:04X}\n"
               f"PCI_SUBSYS_ID=1002:0E3B\nPCI_SLOT_NAME={bdf}\n")
    tree.write(f"{parent}/power/runtime_status", "active")
    for name, value in dict(name="amdgpu", temp1_label="edge", temp1_input=45000,
                            temp2_label="junction", temp2_input=48000, temp3_label="mem",
                            temp3_input=50000, in0_label="vddgfx", in0_input=775,
                            power1_average=41000000, freq1_input=500000000,
                            freq2_input=1600000000).items():
        tree.write(f"{parent}/hwmon/hwmon{index}/{name}", value)
    tree.write(f"{parent}/config")
    tree.link(f"{parent}/subsystem", "../../../../bus/pci")
    tree.link(f"{parent}/driver", "../../../../bus/pci/drivers/amdgpu")
    tree.folder("sys/bus/pci/drivers/amdgpu")
    tree.link(f"sys/bus/pci/devices/{bdf}", "../../../" + parent[len("sys/"):])


def make_drm(tree, index, parent):
    """DRM minors below the device `parent`, which is a path below sys/devices."""
    depth = parent.count("/")
    for node, minor in ((f"card{index}", index), (f"renderD{128 + index}", 128 + index)):
        folder = f"{parent}/drm/{node}"
        tree.write(f"{folder}/dev", f"226:{minor}")
        tree.write(f"{folder}/uevent",
                   f"MAJOR=226\nMINOR={minor}\nDEVNAME=dri/{node}\nDEVTYPE=drm_minor\n")
        tree.link(f"{folder}/device", "../..")
        tree.link(f"{folder}/subsystem", "../" * (depth + 2) + "class/drm")
        for name in (f"sys/class/drm/{node}", f"sys/dev/char/226:{minor}"):
            tree.link(name, "../../" + folder[len("sys/"):])
        tree.write(f"dev/dri/{node}")


def link_properties(start, end, kind=LARGE_BAR_LINK, weight=20):
    return dict(type=kind, version_major=0, version_minor=0, node_from=start, node_to=end,
                weight=weight, min_latency=0, max_latency=0, min_bandwidth=312,
                max_bandwidth=31504, recommended_transfer_size=0,
                recommended_sdma_engine_id_mask=0, flags=1)


def bank_properties(heap, bytes_, width, clock):
    return dict(heap_type=heap, size_in_bytes=bytes_, flags=0, width=width, mem_clk_max=clock)


# ROCr asserts that a GPU has a cache.
CACHE = dict(processor_id_low=4096, level=2, size=6144, cache_line_size=128,
             cache_lines_per_tag=1, association=16, latency=0, type=9, sibling_map="1,0,0,0")


def make_cpu_node(tree, settings, links):
    node = f"{TOPOLOGY}/nodes/0"
    values = dict(cpu_cores_count=os.cpu_count(), simd_count=0, mem_banks_count=1, caches_count=0,
                  io_links_count=len(links), p2p_links_count=0)
    values.update((key, 0) for key in CPU_KEYS)
    values["max_engine_clk_ccompute"] = 3200
    tree.properties(f"{node}/properties", values)
    tree.write(f"{node}/gpu_id", 0)
    tree.write(f"{node}/name", "\n")
    tree.properties(f"{node}/mem_banks/0/properties", bank_properties(0, settings.ram, 64, 3200))
    for number, target in enumerate(links):
        tree.properties(f"{node}/io_links/{number}/properties", link_properties(0, target))


def make_gpu_node(tree, index, gpu, settings):
    """kfd_crat.c: one bank, public where the CPU sees all of it (then there is a link from the CPU
    as well); an APU of 6.10 and newer shows what TTM may bind."""
    node, number = f"{TOPOLOGY}/nodes/{index + 1}", index + 1
    is_large_bar = gpu["visible"] >= gpu["vram"]
    bank = gpu["vram"]
    if settings.is_apu and settings.kernel >= 610:
        bank = settings.pages_limit * 4096
    values = dict(cpu_cores_count=0, mem_banks_count=1, caches_count=1, io_links_count=1,
                  p2p_links_count=0, cpu_core_id_base=0, simd_id_base=2147487744,
                  lds_size_in_kb=64, gds_size_in_kb=0, num_gws=64, max_slots_scratch_cu=32,
                  vendor_id=0x1002, location_id=gpu["bus"] << 8, domain=0,
                  drm_render_minor=128 + index, hive_id=0, local_mem_size=0, debug_prop=1495,
                  unique_id=gpu["unique_id"], num_xcc=gpu.get("num_xcc", 1))
    values.update((key, gpu[key]) for key in FROM_MODEL)
    values["max_engine_clk_ccompute"] = 3200
    tree.properties(f"{node}/properties", values)
    tree.write(f"{node}/gpu_id", gpu["gpu_id"])
    tree.write(f"{node}/name", gpu["name"])
    tree.properties(f"{node}/mem_banks/0/properties",
                    bank_properties(1 if is_large_bar else 2, bank, gpu["width"],
                                    gpu["mem_clk_max"]))
    tree.properties(f"{node}/caches/0/properties", CACHE)
    tree.properties(f"{node}/io_links/0/properties", link_properties(number, 0))
    return number if is_large_bar else None


def start_topology(tree):
    tree.write(f"{TOPOLOGY}/generation_id", 1)
    tree.properties(f"{TOPOLOGY}/system_properties",
                    dict(platform_oem=4777524452235890003, platform_id=85015745549651,
                         platform_rev=2))


def make(root, models, *, vram=None, visible=None, **settings):
    """A new machine in the folder `root`. Sizes in bytes; vram and visible are one for all GPUs or
    a list. The other arguments are those of Settings. Returns the root."""
    is_apu = any(MODELS[model].get("is_apu") for model in models)
    host = Settings(is_apu=is_apu, **settings)
    shutil.rmtree(root, ignore_errors=True)
    tree = Tree(root)
    make_host(tree, host)
    start_topology(tree)
    links = []
    for index, model in enumerate(models):
        gpu = dict(MODELS[model])
        if vram is not None:
            gpu["vram"] = vram[index] if isinstance(vram, (list, tuple)) else vram
        given = visible[index] if isinstance(visible, (list, tuple)) else visible
        gpu["visible"] = gpu["vram"] if given is None else given
        gpu.update(bus=3 + 3 * index, unique_id=0x5A1E0000CAFE0000 + index,
                   gpu_id=51966 + 1111 * index)
        links.append(make_gpu_node(tree, index, gpu, host))
        make_card(tree, index, f"0000:{gpu['bus']:02x}:00.0", gpu, host)
    make_cpu_node(tree, host, [link for link in links if link is not None])
    return tree.root


def main():
    parser = argparse.ArgumentParser(description="Makes the folder of an emulated machine.")
    parser.add_argument("root", metavar="FOLDER", help="is deleted and made anew")
    parser.add_argument("models", nargs="+", choices=sorted(MODELS), metavar="MODEL",
                        help="one a GPU: " + ", ".join(sorted(MODELS)))
    parser.add_argument("--vram", type=size, help="of each GPU; an APU's carve-out (512M, 24G)")
    parser.add_argument("--visible", type=size, help="the part of it the CPU sees (256M: small BAR)")
    parser.add_argument("--kernel", default="6.12", help="whose memory rules apply (6.1, 6.12)")
    parser.add_argument("--fdinfo", help="whose fdinfo keys (6.1, 6.12, 7.2); the kernel's if absent")
    parser.add_argument("--ram", type=size, help="of the machine")
    parser.add_argument("--free", type=size, help="free RAM when the module was loaded (6.1)")
    parser.add_argument("--pages-limit", type=int, help="ttm.pages_limit, in pages of 4 KiB")
    parser.add_argument("--gtt", type=size, help="size of the GTT manager")
    parser.add_argument("--base", type=size, default=32 * MIB, help="VRAM the driver itself holds")
    arguments = vars(parser.parse_args())
    print(make(arguments.pop("root"), arguments.pop("models"), **arguments))
    return 0


if __name__ == "__main__":
    sys.exit(main())
