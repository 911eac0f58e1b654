# SPDX-License-Identifier: Apache-2.0
"""Streams shards to the GPU through a ring of pinned buffers, 48 shards deep, under the site's host-memory guard.
The guard allows six GiB beyond what the process has mapped once CUDA is up."""
import collections
import resource
import time

import numpy as np
import torch

SHARD = 512 * 2**20
DEPTH, SHARDS = 48, 96


def guard(extra):
    """Sets an address-space limit for this process, as the site's job wrapper does."""
    mapped = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + extra, resource.getrlimit(resource.RLIMIT_AS)[1]))
    print(f"address space limit {(mapped + extra) / 2**30:.1f} GiB", flush=True)


class Ring:
    def __init__(self):
        self.slots = collections.deque(maxlen=DEPTH)

    def push(self, number):
        index = np.full(SHARD // 16, number, dtype=np.int64)  # row numbers of the shard
        data = torch.empty(SHARD, dtype=torch.uint8, pin_memory=True)
        data[:4096] = number % 251
        self.slots.append((index, data))
        return index, data


def warm_up():
    x = torch.randn(4096, 4096, device="cuda")
    y = torch.empty(SHARD, dtype=torch.uint8, device="cuda")
    y.copy_(torch.empty(SHARD, dtype=torch.uint8, pin_memory=True), non_blocking=True)
    s = (x @ x).sum().item() + y[:4096].float().sum().item() + int(torch.tensor([3]).cuda().item())
    return s


def main():
    torch.manual_seed(0)
    warm_up()
    guard(6 * 2**30)
    ring, seen, t0 = Ring(), 0.0, time.time()
    resident = torch.empty(SHARD, dtype=torch.uint8, device="cuda")
    for number in range(SHARDS):
        index, data = ring.push(number)
        resident.copy_(data, non_blocking=True)
        seen += resident[:4096].float().sum().item() + int(index[-1])
        print(f"shard {number} sum {seen:.0f} ring {len(ring.slots)} of {DEPTH}, "
              f"{torch.cuda.mem_get_info()[0] / 2**30:.0f} GiB free on the GPU, {time.time() - t0:.1f}s", flush=True)
    print("streamed")


if __name__ == "__main__":
    main()
