# SPDX-License-Identifier: Apache-2.0
"""A reader of recorded trees that shares nothing with the product: it parses them in another language. It also runs
rocmcrash with such a tree as the root of /sys."""

import os
import re

from support import RECORDED

MACHINES = os.path.join(RECORDED, "machines")
DRM = "sys/class/drm"
NODES = "sys/class/kfd/kfd/topology/nodes"
MOMENTS = ("baseline", "impact", "after")

# fact: file below device/, or hwmon/hwmonN/
COUNTERS = {
    "vram.total_bytes": ["mem_info_vram_total"], "vram.used_bytes": ["mem_info_vram_used"],
    "vram_visible.total_bytes": ["mem_info_vis_vram_total"],
    "vram_visible.used_bytes": ["mem_info_vis_vram_used"],
    "gtt.total_bytes": ["mem_info_gtt_total"], "gtt.used_bytes": ["mem_info_gtt_used"],
    "preempt.used_bytes": ["mem_info_preempt_used"], "busy_percent": ["gpu_busy_percent"],
    "temperature.edge_mC": ["hwmon/temp1_input"], "temperature.junction_mC": ["hwmon/temp2_input"],
    "temperature.memory_mC": ["hwmon/temp3_input"],
    "power_uW": ["hwmon/power1_average", "hwmon/power1_input"],
    "clock.shader_Hz": ["hwmon/freq1_input"], "clock.memory_Hz": ["hwmon/freq2_input"],
    "errors_uncorrected_count": ["ras/ue"], "errors_corrected_count": ["ras/ce"],
}
STATICS = ("pci", "driver", "gfx", "is_apu", "kfd_node", "kfd_gpu_id", "render_minor", "vbios",
           "kfd_bank_bytes")


# --- the reader ---

def text_of(*parts):
    """A file's text without NUL padding and white space at its ends; None if there is no such file."""
    try:
        with open(os.path.join(*parts), "rb") as file:
            return file.read().split(b"\0")[0].decode("utf-8", "replace").strip()
    except OSError:
        return None


def number_of(*parts):
    text = text_of(*parts)
    return int(text) if text and text.isdigit() else None


def listing(*parts):
    path = os.path.join(*parts)
    return sorted(os.listdir(path)) if os.path.isdir(path) else []


def keys_of(text, separator):
    pairs = (line.split(separator, 1) for line in (text or "").splitlines() if separator in line)
    return {key: value.strip() for key, value in pairs}


class Gpu:
    """The contents of one GPU's files: `static` by fact name, `device` and `node` folders."""

    def __init__(self, card=None, node=None, device=None):
        self.card, self.node, self.device = card, node, device
        self.static = dict.fromkeys(STATICS)

    def key(self):
        return (self.static["pci"] is None, (self.static["pci"] or "").lower(),
                self.static["kfd_node"] or 0, self.card or 0)

    def errors(self, kind):
        """The sum of "ue: 0" or "ce: 3" of ras/*_err_count."""
        files = [name for name in listing(self.device, "ras") if name.endswith("_err_count")]
        counts = [keys_of(text_of(self.device, "ras", name), ": ").get(kind) for name in files]
        return sum(map(int, counts)) if counts and None not in counts else None

    def counter(self, fact):
        for name in COUNTERS[fact]:
            if self.device is None:
                return None
            if name.startswith("ras/"):
                return self.errors(name[len("ras/"):])
            if not name.startswith("hwmon/"):
                path = os.path.join(self.device, name)
            else:
                chips = [c for c in listing(self.device, "hwmon")
                         if text_of(self.device, "hwmon", c, "name") == "amdgpu"]
                if not chips:
                    return None
                path = os.path.join(self.device, "hwmon", chips[0], name[len("hwmon/"):])
            if os.path.exists(path):
                return path
        return None


def gfx_of(version):
    if not version:
        return None
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def cards_of(tree):
    for name in listing(tree, DRM):
        if not re.fullmatch(r"card\d+", name):
            continue
        device = os.path.join(tree, DRM, name, "device")
        event = keys_of(text_of(device, "uevent"), "=")
        driver = event.get("DRIVER")
        if driver is None and os.path.exists(os.path.join(device, "mem_info_vram_total")):
            driver = "amdgpu"
        if driver != "amdgpu":
            continue
        gpu = Gpu(card=int(name[4:]), device=device)
        gpu.static.update(pci=event.get("PCI_SLOT_NAME"), driver=driver,
                          vbios=text_of(device, "vbios_version") or None)
        minors = [n[7:] for n in listing(device, "drm") if n.startswith("renderD")]
        gpu.static["render_minor"] = int(minors[0]) if minors else None
        yield gpu


def bank_of(folder):
    sizes = []
    for bank in listing(folder, "mem_banks"):
        keys = keys_of(text_of(folder, "mem_banks", bank, "properties"), " ")
        if keys.get("heap_type") in ("1", "2"):  # frame buffer, public or private
            sizes.append(int(keys["size_in_bytes"]))
    return sum(sizes) if sizes else None


def nodes_of(tree):
    found = []
    for name in listing(tree, NODES):
        folder = os.path.join(tree, NODES, name)
        keys = keys_of(text_of(folder, "properties"), " ")
        if int(keys.get("simd_count", 0)) == 0:
            continue
        gpu = Gpu(node=folder)
        location, domain = int(keys.get("location_id", 0)), int(keys.get("domain", 0))
        gpu.group = (keys.get("unique_id", "0"), domain, location >> 3)
        gpu.location, gpu.domain = location, domain
        gpu.static.update(kfd_node=int(name), gfx=gfx_of(int(keys.get("gfx_target_version", 0))),
                          kfd_gpu_id=number_of(folder, "gpu_id") or None,
                          render_minor=int(keys.get("drm_render_minor", 0)) or None,
                          kfd_bank_bytes=bank_of(folder))
        found.append(gpu)
    for gpu in found:
        shared = gpu.group[0] != "0" and sum(g.group == gpu.group for g in found) > 1
        function = 0 if shared else gpu.location & 7
        if gpu.location:
            gpu.static["pci"] = (f"{gpu.domain:04x}:{gpu.location >> 8:02x}:"
                                 f"{gpu.location >> 3 & 31:02x}.{function:x}")
    return found


def gpus_of(tree, is_apu):
    cards, nodes = list(cards_of(tree)), nodes_of(tree)
    for card in cards:
        same = [n for n in nodes if n.static["pci"] == card.static["pci"]]
        if same:
            nodes.remove(same[0])
            card.node = same[0].node
            for name, value in same[0].static.items():
                if card.static[name] is None:
                    card.static[name] = value
    gpus = sorted(cards + nodes, key=Gpu.key)
    for gpu in gpus:
        gpu.static["is_apu"] = is_apu
    return gpus


# --- a run on a tree ---

def run_on(case, tree, *argv, options=()):
    return case.run_it(*argv, options=["--always", f"--sysroot={tree}", *options])
