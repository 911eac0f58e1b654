# SPDX-License-Identifier: Apache-2.0
"""Shared by the replays: a machine below a folder, the messages of programs that failed, and a program that prints them
while it changes the machine's counters and kernel log."""

import concurrent.futures
import json
import os
import re
import signal

import support
from support import PYTHON, SOURCE

TARGET = os.path.join(SOURCE, "tests/integration/replay_target.py")
GIB, MIB = 1 << 30, 1 << 20
AT_ONCE = 8  # most of a run is waiting


def in_parallel(function, items):
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(function, items))


class Machine:
    """A machine below a folder: the files of one GPU, of RAM and of a kernel log."""
    GPU_ID = 35218

    def __init__(self, top):
        self.top = top
        os.makedirs(top, exist_ok=True)

    def at(self, path):
        return os.path.join(self.top, path)

    def put(self, path, text):
        os.makedirs(os.path.dirname(self.at(path)), exist_ok=True)
        with open(self.at(path), "w", encoding="utf-8") as file:
            file.write(str(text) + ("" if str(text).endswith("\n") else "\n"))
        return self

    @property
    def used(self):
        return self.at("sys/class/drm/card0/device/mem_info_vram_used")

    def node(self, gfx=None, bank=None):
        folder = "sys/class/kfd/kfd/topology/nodes/"
        self.put(folder + "0/properties", "cpu_cores_count 16\nsimd_count 0\n")
        version = 0
        if gfx:
            major, minor, step = re.fullmatch(r"gfx(\d+)([0-9a-f])([0-9a-f])", gfx).groups()
            version = int(major) * 10000 + int(minor, 16) * 100 + int(step, 16)
        self.put(folder + "1/properties", "cpu_cores_count 0\nsimd_count 96\nlocation_id 768\n"
                 f"domain 0\ndrm_render_minor 128\nvendor_id 4098\ngfx_target_version {version}\n")
        self.put(folder + "1/gpu_id", self.GPU_ID)
        if bank:
            self.put(folder + "1/mem_banks/0/properties", f"heap_type 1\nsize_in_bytes {bank}\n")
        return self

    def gpu(self, total, used, gfx="gfx1100", gtt=(32 * GIB, 0), bank=None):
        device = "sys/class/drm/card0/device/"
        self.put(device + "uevent", "DRIVER=amdgpu\nPCI_ID=1002:744C\nPCI_SLOT_NAME=0000:03:00.0\n")
        for name, value in (("vram_total", total), ("vram_used", used), ("vis_vram_total", total),
                            ("vis_vram_used", used), ("gtt_total", gtt[0]), ("gtt_used", gtt[1])):
            self.put(f"{device}mem_info_{name}", value)
        return self.node(gfx, bank if bank is not None else total)

    def kfd_path(self, pid):
        return f"sys/class/kfd/kfd/proc/{pid}/vram_{self.GPU_ID}"

    def ram(self, total, available):
        return self.put("proc/meminfo", f"MemTotal: {total >> 10} kB\nMemFree: {available >> 10} kB\n"
                        f"MemAvailable: {available >> 10} kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n")

    def ttm(self, limit):
        return self.put("sys/module/ttm/parameters/pages_limit", limit // 4096)

    def cgroup(self, kills, limit=8 * GIB, used=8 * GIB):
        own = support.read("/proc/self/cgroup").split("0::")[-1].strip()
        folder = "sys/fs/cgroup"
        self.put(folder + "/cgroup.controllers", "cpu memory pids")
        if own not in ("", "/"):
            folder += own
            self.put(folder + "/cgroup.controllers", "cpu memory pids")
        self.put(folder + "/memory.max", limit).put(folder + "/memory.current", used)
        self.events = folder + "/memory.events"
        return self.put(self.events, f"low 0\nhigh 0\nmax 7\noom {kills}\noom_kill {kills}")


class Replay(support.Case):
    def replay(self, machine, steps, options=(), environ=None):
        case = support.Case()
        case.setUp()
        self.addCleanup(case.doCleanups)
        case.environ.update(environ or {})
        script = case.write("steps.json", json.dumps(steps))
        done = case.run_it(PYTHON, "-S", "-E", TARGET, script, timeout=120,
                           options=[f"--sysroot={machine.top}", "--hash-budget=0s", *options])
        return done

    def machine(self, name):
        return Machine(self.path("machines", name))

    def triage(self, *argv):
        done = self.verb("triage", "--json", *argv)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)


def summary(verdict):
    name = verdict["class"] + (f" ({verdict['subclass']})" if verdict["subclass"] else "")
    return f"{name}/{verdict['confidence']}"


# --- the same messages, other counters ---

BARE = ("Traceback (most recent call last):\n  File \"train.py\", line 8, in <module>\n"
        "RuntimeError: HIP error: out of memory\n"
        "HIP kernel errors might be asynchronously reported at some other API call\n")


def torch_oom(requested, total, free, allocated, idle):
    def size(x):
        return f"{x:.2f} GiB" if x >= 1 else f"{x * 1024:.2f} MiB"
    return ("Traceback (most recent call last):\n  File \"train.py\", line 8, in <module>\n"
            f"torch.OutOfMemoryError: HIP out of memory. Tried to allocate {size(requested)}. GPU 0 has "
            f"a total capacity of {size(total)} of which {size(free)} is free. Of the allocated memory "
            f"{size(allocated)} is allocated by PyTorch, and {size(idle)} is reserved by PyTorch but "
            "unallocated.\n")


HELD = torch_oom(2, 15.98, 1.10, 4.00, 0.12)
FULL = torch_oom(2, 31.20, 0.30, 29.50, 0.60)
FREE = torch_oom(4, 23.98, 8.00, 10.00, 0.20)
SHORT = torch_oom(0.5, 15.98, 0.10, 15.20, 0.30)
LAUNCH = ("Traceback (most recent call last):\n  File \"train.py\", line 8, in <module>\n"
          "RuntimeError: HIP error: unspecified launch failure\n")
HANG = ("HW Exception by GPU node-1 (Agent handle: 0x55d0c0de0010) reason :GPU Hang\n")
FAULT = ("Memory access fault by GPU node-1 (Agent handle: 0x55d0c0de0010) on address "
         "0x7f31c0a00000. Reason: Page not present or supervisor privilege.\n")

OOM_KILL = ("[ 812.100000] python3 invoked oom-killer: gfp_mask=0x140dca(GFP_HIGHUSER_MOVABLE), order=0\n"
            "[ 812.200000] Out of memory: Killed process {victim} ({comm}) total-vm:80112344kB, "
            "anon-rss:61200000kB, file-rss:0kB, shmem-rss:0kB, UID:1000 pgtables:1kB oom_score_adj:0\n")
PAGE_FAULT = ("[ 812.100000] amdgpu 0000:03:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:8 "
              "pasid:32770)\n"
              "[ 812.100001] amdgpu 0000:03:00.0: amdgpu:  Process {comm} pid {victim} thread {comm} pid "
              "{victim}\n"
              "[ 812.100002] amdgpu 0000:03:00.0: amdgpu:   in page starting at address "
              "0x00007f31c0a00000 from client 0x1b (UTCL2)\n")
RING = ("[ 812.100000] amdgpu 0000:03:00.0: amdgpu: ring {ring} timeout, signaled seq=8120, emitted "
        "seq=8122\n"
        "[ 812.100001] amdgpu 0000:03:00.0: amdgpu: Process information: process python3 pid {pid} "
        "thread python3 pid {pid}\n"
        "[ 812.900000] amdgpu 0000:03:00.0: amdgpu: GPU reset begin!\n"
        "[ 813.900000] amdgpu 0000:03:00.0: amdgpu: GPU reset(2) succeeded!\n")
QUIET_LOG = "[ 800.000000] usb 1-2: new high-speed USB device number 7 using xhci_hcd\n"


# --- machines, and how their counters change ---

def dgpu(total, used, gfx="gfx1100"):
    return lambda m: m.gpu(int(total * GIB), int(used * GIB), gfx).ram(62 * GIB, 40 * GIB)


def apu(limit, ram, available, gtt_used):
    return lambda m: (m.gpu(GIB // 2, GIB // 4, "gfx1151", (int(limit * GIB), int(gtt_used * GIB)),
                            int(limit * GIB)).ram(int(ram * GIB), int(available * GIB))
                      .ttm(int(limit * GIB)))


def fds(m):
    del m
    return [["limit", 128], ["files", 122]]


def climb(low, high, fall, steps=80, seconds=12.0):
    return lambda m: [["ramp", m.used, int(low * GIB), int(high * GIB), steps, int(fall * GIB),
                       seconds]]


def jump(flat, end):
    return lambda m: [["ramp", m.used, int(flat * GIB), int(flat * GIB), 80, int(0.5 * GIB), 12.0],
                      ["write", m.used, f"{int(end * GIB)}\n"], ["seen", m.used]]


def kills(count):
    return lambda m: [["sleep", 0.2],
                      ["write", m.at(m.events), f"low 0\nhigh 0\nmax 9\noom {count}\noom_kill {count}\n"]]


SEGV, KILL, ABRT = ("kill", signal.SIGSEGV), ("kill", signal.SIGKILL), ("kill", signal.SIGABRT)
