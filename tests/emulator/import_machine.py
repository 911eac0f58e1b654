#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the folder of an emulated machine around a recorded KFD topology: what the recording lacks
(gpu_id, mem_banks, caches, the DRM side) is filled in and printed, the rest is kept as it is.

usage: import_machine.py FOLDER RECORDED_TREE [--kernel 6.12] [--gpus N]
"""
import argparse
import os
import shutil
import sys

import machine
from machine import MIB, TOPOLOGY

# Bytes of a whole card, by PCI device id; a partition has its share.
CARD_BYTES = {0x740F: 65520 * MIB, 0x74A1: 196592 * MIB, 0x1506: 512 * MIB}
CARD_BYTES_DEFAULT = 16368 * MIB
NODE_PARTS = (("caches", "caches_count"), ("io_links", "io_links_count"),
              ("p2p_links", "p2p_links_count"), ("mem_banks", "mem_banks_count"))


def parse(path):
    values = {}
    with open(path, encoding="ascii", errors="replace") as file:
        for line in file:
            words = line.rstrip("\0\n").split()
            if len(words) == 2:
                values[words[0]] = words[1]
    return values


class Node:
    def __init__(self, tree, number):
        self.tree, self.number = tree, number
        self.folder = f"{TOPOLOGY}/nodes/{number}"
        self.values = parse(tree.path(f"{self.folder}/properties"))
        self.is_gpu = self.integer("simd_count") > 0
        self.filled = []

    def integer(self, key):
        return int(self.values.get(key, 0))

    def has(self, name):
        return os.path.exists(self.tree.path(f"{self.folder}/{name}"))

    def fill(self, name, properties):
        if not self.has(name):
            self.tree.properties(f"{self.folder}/{name}", properties)
            self.filled.append(name)

    def fill_text(self, name, text):
        if not self.has(name):
            self.tree.write(f"{self.folder}/{name}", text)
            self.filled.append(name)

    def settle_counts(self, nodes):
        """ROCr and libhsakmt want as many folders as `properties` counts, numbered from 0, and links
        to nodes that exist."""
        for part, key in NODE_PARTS:
            folder = self.tree.path(f"{self.folder}/{part}")
            kept = []
            names = sorted(os.listdir(folder), key=int) if os.path.isdir(folder) else []
            for name in names:
                file = os.path.join(folder, name, "properties")
                gone = not os.path.exists(file)
                if not gone and part.endswith("links"):
                    gone = int(parse(file)["node_to"]) not in nodes
                if gone:
                    shutil.rmtree(os.path.join(folder, name))
                else:
                    kept.append(name)
            for index, name in enumerate(kept):
                if str(index) != name:
                    os.rename(os.path.join(folder, name), os.path.join(folder, str(index)))
            self.values[key] = str(len(kept))

    def write(self):
        self.tree.properties(f"{self.folder}/properties", self.values)


def card_key(node):
    """The partitions of one card share domain, bus and device; the function bits count them."""
    return node.integer("domain"), node.integer("location_id") & ~7


def copy_topology(tree, recorded, limit):
    source = os.path.join(recorded, "sys/class/kfd/kfd/topology")
    target = tree.path(TOPOLOGY)
    shutil.copytree(source, target)
    numbers = sorted(int(name) for name in os.listdir(os.path.join(target, "nodes")))
    nodes, gpus = [], 0
    for number in numbers:
        node = Node(tree, number)
        gpus += node.is_gpu
        if node.is_gpu and gpus > limit:
            shutil.rmtree(tree.path(node.folder))
        else:
            nodes.append(node)
    if not os.path.exists(os.path.join(target, "generation_id")):
        machine.start_topology(tree)
    return nodes


def fill_node(node, index, share):
    node.fill_text("name", "\n")
    if not node.is_gpu:
        node.fill_text("gpu_id", 0)
        node.fill("mem_banks/0/properties", machine.bank_properties(0, share, 64, 3200))
        return
    node.fill_text("gpu_id", 1024 + 977 * index)
    node.fill("mem_banks/0/properties", machine.bank_properties(1, share, 4096, 1600))
    node.fill("caches/0/properties", machine.CACHE)
    node.values["drm_render_minor"] = str(128 + index)


def make_cards(tree, gpus, settings):
    """Each card is a PCI device; further partitions of it are platform devices without mem_info."""
    cards = {}
    for index, node in enumerate(gpus):
        domain, location = card_key(node)
        first = cards.setdefault((domain, location), index) == index
        if not first:
            machine.make_drm(tree, index, f"sys/devices/platform/amdgpu_xcp_{index}")
            continue
        parts = sum(card_key(other) == (domain, location) for other in gpus)
        total = parts * int(parse(tree.path(f"{node.folder}/mem_banks/0/properties"))["size_in_bytes"])
        gpu = dict(device_id=node.integer("device_id"), revision=0,
                   unique_id=node.integer("unique_id"), vram=total, visible=total)
        bdf = f"{domain:04x}:{location >> 8 & 255:02x}:{location >> 3 & 31:02x}.0"
        machine.make_card(tree, index, bdf, gpu, settings)


def link_numa_nodes(tree, cpu_nodes):
    """libhsakmt 5.2.3 opens /sys/devices/system/node/node<N> of every CPU node."""
    for index in range(len(cpu_nodes)):
        if len(cpu_nodes) > 1:
            tree.link(f"sys/devices/system/node/node{index}", "/sys/devices/system/node/node0")


def make(root, recorded, *, limit=64, **settings):
    shutil.rmtree(root, ignore_errors=True)
    tree = machine.Tree(root)
    settings.setdefault("ram", 1 << 40)
    host = machine.Settings(**settings)
    nodes = copy_topology(tree, recorded, limit)
    gpus = [node for node in nodes if node.is_gpu]
    cpus = [node for node in nodes if not node.is_gpu]
    numbers = {node.number for node in nodes}
    for index, node in enumerate(gpus):
        parts = sum(card_key(other) == card_key(node) for other in gpus)
        card = CARD_BYTES.get(node.integer("device_id"), CARD_BYTES_DEFAULT)
        # CPX: eight parts of a card; seven if no DRM minor was left for the last one.
        fill_node(node, index, card // (8 if parts > 1 else 1))
    for node in cpus:
        fill_node(node, 0, host.ram // len(cpus))
    for node in nodes:
        node.settle_counts(numbers)
        node.write()
    machine.make_host(tree, host)
    make_cards(tree, gpus, host)
    link_numa_nodes(tree, cpus)
    return tree.root, gpus, [f"{node.number}/{name}" for node in nodes for name in node.filled]


def main():
    parser = argparse.ArgumentParser(description="Makes an emulated machine of a recorded one.")
    parser.add_argument("root", metavar="FOLDER", help="is deleted and made anew")
    parser.add_argument("recorded", metavar="RECORDED_TREE", help="has sys/class/kfd/kfd/topology")
    parser.add_argument("--kernel", default="6.12", help="whose memory rules apply (6.1, 6.12)")
    parser.add_argument("--gpus", type=int, default=64, help="no more than so many")
    arguments = parser.parse_args()
    root, gpus, filled = make(arguments.root, arguments.recorded, limit=arguments.gpus,
                              kernel=arguments.kernel)
    print(f"{root}: {len(gpus)} GPUs; filled in {len(filled)} files: {' '.join(filled[:12])} ...")
    return 0


if __name__ == "__main__":
    sys.exit(main())
