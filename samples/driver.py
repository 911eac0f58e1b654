#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stands for the amdgpu driver of a recorded machine: gives out memory and keeps the counters true.

usage: driver.py SYSROOT [--hold GIB]

Programs connect to SYSROOT/dev/kfd.sock and send lines; each is answered by one line:
    alloc BYTES    ok | enomem          free BYTES    ok
    busy PERCENT   ok                   total, available   BYTES
    kmsg TEXT      ok                   (a record with the time of now)
What a program holds is given back when it is gone, however it went. On a card with its own memory
the bytes are VRAM; on an APU they are GTT, as with the real driver.
"""
import argparse
import glob
import os
import selectors
import socket
import struct
import sys
import time

MIB = 1 << 20
FIRMWARE_RESERVED = 24 * MIB


class Counter:
    """A file rewritten in place, so that a reader who keeps it open sees the new value. Each state
    on the way is a number followed by a newline."""

    def __init__(self, path):
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def read(self):
        return int(os.pread(self.fd, 64, 0).split(b"\n")[0] or 0)

    def write(self, value):
        text = b"%d\n" % value
        os.pwrite(self.fd, text, 0)
        os.ftruncate(self.fd, len(text))

    def close(self):
        os.close(self.fd)


class Gpu:
    def __init__(self, sysroot):
        self.sysroot = sysroot
        self.device = glob.glob(f"{sysroot}/sys/class/drm/card[0-9]/device")[0]
        node = f"{sysroot}/sys/class/kfd/kfd/topology/nodes/1"
        with open(f"{node}/gpu_id", encoding="ascii") as stream:
            self.gpu_id = stream.read().strip()
        self.is_apu = not os.path.exists(f"{self.device}/mem_info_vram_vendor")
        pool = "gtt" if self.is_apu else "vram"
        self.total = Counter(f"{self.device}/mem_info_{pool}_total").read()
        self.used = [Counter(f"{self.device}/mem_info_{pool}_used")]
        if not self.is_apu:
            self.used.append(Counter(f"{self.device}/mem_info_vis_vram_used"))
        self.idle_used = self.used[0].read()
        self.busy = Counter(f"{self.device}/gpu_busy_percent")
        hwmon = glob.glob(f"{self.device}/hwmon/hwmon*")[0]
        self.temperature = Counter(f"{hwmon}/temp1_input")
        self.power = Counter(f"{hwmon}/power1_average")
        self.meminfo = f"{sysroot}/proc/meminfo"
        with open(self.meminfo, encoding="ascii") as stream:
            self.idle_meminfo = stream.read()
        os.makedirs(f"{sysroot}/sys/class/kfd/kfd/proc", exist_ok=True)
        self.held = {}

    def available(self):
        return self.total - FIRMWARE_RESERVED - self.idle_used - sum(self.held.values())

    def alloc(self, pid, size):
        if size > self.available():
            return False
        self.held[pid] = self.held.get(pid, 0) + size
        self.publish(pid)
        return True

    def free(self, pid, size):
        self.held[pid] = max(0, self.held.get(pid, 0) - size)
        self.publish(pid)

    def forget(self, pid):
        self.held.pop(pid, None)
        folder = f"{self.sysroot}/sys/class/kfd/kfd/proc/{pid}"
        for name in (f"vram_{self.gpu_id}", "pasid"):
            try:
                os.unlink(f"{folder}/{name}")
            except FileNotFoundError:
                pass
        try:
            os.rmdir(folder)
        except FileNotFoundError:
            pass
        self.publish(None)

    def publish(self, pid):
        for counter in self.used:
            counter.write(self.idle_used + sum(self.held.values()))
        if self.is_apu:
            self.publish_meminfo(sum(self.held.values()) // 1024)
        if pid is None:
            return
        folder = f"{self.sysroot}/sys/class/kfd/kfd/proc/{pid}"
        os.makedirs(folder, exist_ok=True)
        for name, value in (("pasid", 32768 + pid % 1000), (f"vram_{self.gpu_id}", self.held[pid])):
            counter = Counter(f"{folder}/{name}")
            counter.write(value)
            counter.close()

    def publish_meminfo(self, taken_kib):
        """Memory that an APU's programs use comes out of the machine's RAM."""
        lines = []
        for line in self.idle_meminfo.splitlines():
            name, value = line.split(":")
            if name in ("MemFree", "MemAvailable"):
                value = f"{max(0, int(value.split()[0]) - taken_kib):>15} kB"
            lines.append(f"{name}:{value}\n")
        text = "".join(lines).encode()
        descriptor = os.open(self.meminfo, os.O_WRONLY | os.O_CLOEXEC)
        os.pwrite(descriptor, text, 0)
        os.ftruncate(descriptor, len(text))
        os.close(descriptor)

    def load(self, percent):
        self.busy.write(percent)
        self.temperature.write(41000 + 380 * percent)
        self.power.write((28 + 3 * percent) * 1000000)


class Driver:
    def __init__(self, sysroot):
        self.sysroot = sysroot
        self.gpu = Gpu(sysroot)
        self.sequence = 4000
        self.selector = selectors.DefaultSelector()
        self.buffers = {}

    def listen(self):
        # By way of the folder's descriptor: a socket's path has room for 107 bytes only.
        folder = os.open(f"{self.sysroot}/dev", os.O_RDONLY | os.O_DIRECTORY)
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        server.bind(f"/proc/self/fd/{folder}/kfd.sock")
        server.listen(16)
        self.selector.register(server, selectors.EVENT_READ, None)
        return server

    def kmsg(self, text):
        # The form of /dev/kmsg: facility and level, sequence, microseconds, flags; text.
        self.sequence += 1
        record = f"3,{self.sequence},{time.monotonic_ns() // 1000},-;{text}\n"
        with open(f"{self.sysroot}/dev/kmsg", "a", encoding="utf-8") as stream:
            stream.write(record)

    def answer(self, pid, line):
        verb, _, rest = line.partition(" ")
        if verb == "alloc":
            return "ok" if self.gpu.alloc(pid, int(rest)) else "enomem"
        if verb == "free":
            self.gpu.free(pid, int(rest))
        elif verb == "busy":
            self.gpu.load(int(rest))
        elif verb == "kmsg":
            self.kmsg(rest)
        elif verb == "total":
            return str(self.gpu.total)
        elif verb == "available":
            # As KFD tells the runtime: without what the driver keeps for itself.
            return str(self.gpu.available())
        else:
            return "einval"
        return "ok"

    def serve(self, connection, pid):
        try:
            data = connection.recv(65536)
        except ConnectionError:
            data = b""
        if not data:
            self.selector.unregister(connection)
            connection.close()
            self.gpu.forget(pid)
            self.gpu.load(0)
            return
        lines = (self.buffers.pop(connection, b"") + data).split(b"\n")
        if lines[-1]:
            self.buffers[connection] = lines[-1]
        for line in lines[:-1]:
            connection.sendall(self.answer(pid, line.decode("utf-8", "replace")).encode() + b"\n")

    def run(self, server):
        while True:
            for key, _ in self.selector.select():
                if key.fileobj is server:
                    connection, _ = server.accept()
                    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
                    pid = struct.unpack("iII", peer)[0]
                    self.selector.register(connection, selectors.EVENT_READ, pid)
                else:
                    self.serve(key.fileobj, key.data)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sysroot")
    parser.add_argument("--hold", type=float, default=0, help="GiB that this process holds itself")
    options = parser.parse_args()
    driver = Driver(options.sysroot)
    if options.hold:
        with open("/proc/self/comm", "w", encoding="ascii") as stream:
            stream.write("llama-server")
        driver.gpu.alloc(os.getpid(), int(options.hold * 1024) * MIB)
    server = driver.listen()
    print("ready", flush=True)
    driver.run(server)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(0)
