#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training program that really fails for want of GPU memory, without PyTorch and without a GPU.

usage: train.py SCENARIO [--steps N] [--step-seconds S]

Its tensors are numbers, but the memory is asked from the stand-in driver (driver.py) of the
recorded machine in ROCMCRASH_SYSROOT by a caching allocator that works as PyTorch's does: segments,
splitting, best fit, a cache given back before a refusal. So what the message says is what happened.

    capacity       activations of the last layer do not fit, however the memory is arranged
    fragmentation  the free bytes would do, but lie in pieces between live tensors
    leak           each step keeps its loss and with it the graph; fails after many good steps
    gtt-limit      an APU: the machine has memory, the driver's limit on it is reached
    held           another process holds most of the card (start driver.py with --hold)
    fault          a kernel writes outside its buffer: GPU memory access fault, SIGABRT
    ok             nothing fails
"""
import argparse
import os
import random
import socket
import sys
import time

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
SEGMENT = 20 * MIB
ADVICE = (
    "If reserved but unallocated memory is large try setting PYTORCH_HIP_ALLOC_CONF="
    "expandable_segments:True to avoid fragmentation.  See documentation for Memory Management  "
    "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
)


class OutOfMemoryError(RuntimeError):
    pass


# As a user sees the real one: "torch.OutOfMemoryError: HIP out of memory. ..."
OutOfMemoryError.__module__ = "torch"


def human(size):
    """As c10::CachingAllocator::format_size()."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size > unit:
            return f"{size / unit:.2f} {name}"
    return f"{size} bytes"


class Device:
    """The connection is a bare descriptor: as with /dev/kfd, only the end of the process closes it,
    and what is allocated stays so until then."""

    def __init__(self, sysroot):
        folder = os.open(f"{sysroot}/dev", os.O_RDONLY | os.O_DIRECTORY)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(f"/proc/self/fd/{folder}/kfd.sock")
        os.close(folder)
        self.descriptor = connection.detach()

    def ask(self, line):
        os.write(self.descriptor, line.encode() + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            answer += os.read(self.descriptor, 256)
        return answer.decode("ascii").strip()

    def memory(self):
        return int(self.ask("available")), int(self.ask("total"))


class Block:
    __slots__ = ("segment", "start", "size", "free")

    def __init__(self, segment, start, size):
        self.segment, self.start, self.size, self.free = segment, start, size, True


class Allocator:
    """Segments from the driver, each a list of blocks in address order."""

    def __init__(self, device):
        self.device = device
        self.segments = []
        self.allocated = 0
        self.reserved = 0

    def allocate(self, size):
        rounded = -(-size // 512) * 512
        block = self.best_fit(rounded) or self.grow(rounded)
        if block is None:
            # As PyTorch: give the cached segments back and try once more.
            self.empty_cache()
            block = self.grow(rounded)
        if block is None:
            self.refuse(rounded)
        self.split(block, rounded)
        block.free = False
        self.allocated += block.size
        return block

    def best_fit(self, size):
        fitting = [b for s in self.segments for b in s if b.free and b.size >= size]
        return min(fitting, key=lambda b: b.size, default=None)

    def grow(self, size):
        wanted = SEGMENT if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB
        if self.device.ask(f"alloc {wanted}") != "ok":
            return None
        segment = []
        segment.append(Block(segment, 0, wanted))
        self.segments.append(segment)
        self.reserved += wanted
        return segment[0]

    def split(self, block, size):
        if block.size - size < MIB:
            return
        rest = Block(block.segment, block.start + size, block.size - size)
        block.size = size
        block.segment.insert(block.segment.index(block) + 1, rest)

    def release(self, block):
        block.free = True
        self.allocated -= block.size
        segment, index = block.segment, block.segment.index(block)
        for first, second in ((index, index + 1), (index - 1, index)):
            if first >= 0 and second < len(segment) and segment[first].free and segment[second].free:
                segment[first].size += segment[second].size
                del segment[second]

    def empty_cache(self):
        for segment in [s for s in self.segments if len(s) == 1 and s[0].free]:
            self.segments.remove(segment)
            self.reserved -= segment[0].size
            self.device.ask(f"free {segment[0].size}")

    def refuse(self, size):
        free, total = self.device.memory()
        raise OutOfMemoryError(
            f"HIP out of memory. Tried to allocate {human(size)}. GPU 0 has a total capacity of "
            f"{human(total)} of which {human(free)} is free. Of the allocated memory "
            f"{human(self.allocated)} is allocated by PyTorch, and "
            f"{human(self.reserved - self.allocated)} is reserved by PyTorch but unallocated. "
            + ADVICE)


class Trainer:
    def __init__(self, device, options):
        self.device = device
        self.memory = Allocator(device)
        self.options = options
        self.random = random.Random(7)
        self.kept = []

    def model(self, gib):
        """Weights, gradients and two moments of the optimizer."""
        layers = 32
        for _ in range(4 * layers):
            self.kept.append(self.memory.allocate(int(gib * GIB / (4 * layers))))

    def step(self, number, activations_mib):
        live = []
        for _ in range(12):
            live.append(self.memory.allocate(int(activations_mib * MIB / 12)))
            self.device.ask(f"busy {self.random.randint(88, 99)}")
            time.sleep(self.options.step_seconds / 12)
        for block in live:
            self.memory.release(block)
        print(f"step {number}: loss {8 / (number + 2) + self.random.random() / 50:.4f}  "
              f"allocated {human(self.memory.allocated)}", flush=True)

    def capacity(self):
        self.model(15.2)
        for number in range(self.options.steps):
            self.step(number, 4200)
        print("evaluating with sequence length 8192", flush=True)
        self.step(self.options.steps, 94000)

    def fragmentation(self):
        self.model(9.0)
        # Long sequences leave 1 GiB segments in the cache; what is kept of each later, shorter one
        # takes most of a segment and leaves an end that nothing of that size fits into.
        longest = []
        while self.device.memory()[0] > 1100 * MIB:
            longest.append(self.memory.allocate(GIB))
        for block in longest:
            self.memory.release(block)
        for number in range(len(longest)):
            self.kept.append(self.memory.allocate(600 * MIB))
            self.device.ask(f"busy {self.random.randint(80, 99)}")
            time.sleep(self.options.step_seconds / 2)
            print(f"step {number}: loss {6 / (number + 2):.4f}  "
                  f"allocated {human(self.memory.allocated)}", flush=True)
        self.memory.allocate(1000 * MIB)

    def leak(self):
        self.model(11.0)
        losses = []
        number = 0
        while True:
            self.step(number, 2600)
            # total_loss += loss: the tensor, not its value, so the graph behind it stays.
            losses.append(self.memory.allocate(430 * MIB))
            number += 1

    def gtt_limit(self):
        self.model(44.0)
        number = 0
        while True:
            self.step(number, 5000 + 3600 * number)
            number += 1

    def held(self):
        self.model(7.5)
        self.step(0, 2000)

    def fault(self):
        self.model(12.0)
        for number in range(self.options.steps):
            self.step(number, 3000)
        address = 0x7F3C2A200000
        for line in kernel_fault_lines(address):
            self.device.ask(f"kmsg {line}")
        print(f"Memory access fault by GPU node-1 (Agent handle: 0x55d0c8f1c2a0) on address "
              f"0x{address:x}. Reason: Page not present or supervisor privilege.", file=sys.stderr,
              flush=True)
        os.abort()

    def ok(self):
        self.model(9.0)
        for number in range(self.options.steps):
            self.step(number, 3000)


def kernel_fault_lines(address):
    """As the driver of Linux 6.x prints a page fault of a compute process on gfx11."""
    name, pid, card = "python3", os.getpid(), "amdgpu 0000:03:00.0: amdgpu:"
    return (
        f"{card} [gfxhub] page fault (src_id:0 ring:24 vmid:8 pasid:32770)",
        f"{card}  in process {name} pid {pid} thread {name} pid {pid}",
        f"{card}   in page starting at address 0x{address:016x} from client 10",
        f"{card} GCVM_L2_PROTECTION_FAULT_STATUS:0x00801031",
        f"{card} \t Faulty UTCL2 client ID: TCP (0x8)",
        f"{card} \t MORE_FAULTS: 0x1",
        f"{card} \t WALKER_ERROR: 0x0",
        f"{card} \t PERMISSION_FAULTS: 0x3",
        f"{card} \t MAPPING_ERROR: 0x0",
        f"{card} \t RW: 0x0",
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("scenario", choices=[
        "capacity", "fragmentation", "leak", "gtt-limit", "held", "fault", "ok"])
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--step-seconds", type=float, default=0.4)
    options = parser.parse_args()
    sysroot = os.environ.get("ROCMCRASH_SYSROOT")
    if not sysroot:
        parser.error("ROCMCRASH_SYSROOT names no recorded machine; samples/demo sets it")
    trainer = Trainer(Device(sysroot), options)
    getattr(trainer, options.scenario.replace("-", "_"))()


if __name__ == "__main__":
    main()
