# SPDX-License-Identifier: Apache-2.0
"""Failures of the collections, replayed; and runs that say the same but whose counters differ.

A program prints what the failed one printed, the kernel log says what it said, and it ends the way
that one did. The sysroot carries what the counters showed.
"""

import collections
import concurrent.futures
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import unittest

import support
from support import PYTHON, ROCMCRASH, SHARED, SOURCE

TARGET = os.path.join(SOURCE, "tests/integration/replay_target.py")
CORPUS = os.path.join(SHARED, "corpus", "cases.jsonl")
RECORDINGS = os.path.join(SHARED, "recordings")
GIB, MIB = 1 << 30, 1 << 20
AT_ONCE = 8  # they wait more than they work


def in_parallel(function, items):
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(function, items))


class Machine:
    """A machine below a folder: what it takes to be one GPU, a RAM and a kernel log."""
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


# --- the same words, other counters ---

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


class Row:
    """One run: what the machine shows, what happens, which answers are right."""

    def __init__(self, pair, name, right, stderr="", end=("exit", 1), machine=None, before=(),
                 kmsg=None, other=0, own=0, at_most=None, at_least=None, subclass=None):
        self.pair, self.name = pair, name
        self.right = right if isinstance(right, tuple) else (right,)
        self.stderr, self.end, self.before, self.kmsg = stderr, end, before, kmsg
        self.machine, self.other, self.own = machine, other, own
        self.at_most, self.at_least, self.subclass = at_most, at_least, subclass


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
                      ["write", m.used, f"{int(end * GIB)}\n"]]


def kills(count):
    return lambda m: [["sleep", 0.2],
                      ["write", m.at(m.events), f"low 0\nhigh 0\nmax 9\noom {count}\noom_kill {count}\n"]]


SEGV, KILL, ABRT = ("kill", signal.SIGSEGV), ("kill", signal.SIGKILL), ("kill", signal.SIGABRT)

# Written down before the first run. Right = the class that the counters prove; where a pair cannot
# be decided, what must not be claimed is a bound on the confidence.
ROWS = [
    # The bare words of HIP: VRAM full by whom? or not full at all?
    Row("bare", "own", "capacity", BARE, machine=dgpu(16, 15.8), own=15.5, at_least="medium"),
    Row("bare", "other", "held-by-other", BARE, machine=dgpu(16, 15.8), other=15.0, own=0.3,
        at_least="high"),
    Row("bare", "full-before-the-start", "held-by-other", BARE, machine=dgpu(16, 15.8),
        at_most="medium"),
    Row("bare", "half-free", "unknown", BARE, machine=dgpu(16, 2.0), own=1.8),
    Row("bare", "files", "resource-limit", BARE, machine=dgpu(16, 2.0), own=1.8, before=fds),
    Row("bare", "apu-gtt-full", "gtt-limit", BARE, machine=apu(31.2, 62.5, 28.0, 31.0)),
    Row("bare", "no-counters", ("capacity", "unknown"), BARE, machine=lambda m: m, at_most="low"),
    # Figures with 10.8 GiB that neither is free nor PyTorch's.
    Row("held", "other-pid", "held-by-other", HELD, machine=dgpu(16, 14.9), other=10.5, own=4.3,
        at_least="high"),
    Row("held", "own", "capacity", HELD, machine=dgpu(16, 14.9), own=14.8),
    Row("held", "baseline", "held-by-other", HELD, machine=dgpu(16, 11.0), at_least="medium"),
    Row("held", "nobody-seen", "held-by-other", HELD, machine=lambda m: m.node("gfx1100"),
        at_most="medium"),
    # Half of RAM as the limit of an APU, or a card of that size.
    Row("full", "apu-half-of-ram", "gtt-limit", FULL, machine=apu(31.2, 62.5, 28.0, 30.8),
        at_least="high"),
    Row("full", "dgpu", "capacity", FULL, machine=dgpu(32, 31.6), own=31.0, at_least="high"),
    # Refused with 8 GiB free for HIP.
    Row("free", "phantom", "held-by-other", FREE, machine=dgpu(24, 22.5), own=10.5,
        subclass="phantom free"),
    Row("free", "really-free", "unknown", FREE, machine=dgpu(24, 15.0), own=10.5),
    Row("free", "files", "resource-limit", FREE, machine=dgpu(24, 15.0), own=10.5, before=fds),
    # Card full at the end: by one jump, or step by step although every step gives back.
    Row("short", "jump", "capacity", SHORT, machine=dgpu(16, 1.0), before=jump(8.0, 15.9),
        own=15.8, at_least="high"),
    # Without the allocator's statistics a load that fills the card looks the same for ten minutes.
    Row("short", "saw-with-rising-floor", ("leak", "capacity"), SHORT, machine=dgpu(16, 1.0),
        before=climb(1.0, 15.4, 0.4), own=15.8, at_most="medium"),
    # SIGKILL and no word: the kernel log or the cgroup says why, or nobody knows.
    Row("killed", "oom-kill-names-us", "host-oom", end=KILL, machine=dgpu(16, 2.0),
        kmsg=OOM_KILL.replace("{victim}", "{pid}").replace("{comm}", "python3"), at_least="high"),
    Row("killed", "oom-kill-names-another", ("unknown", "host-oom"), end=KILL,
        machine=dgpu(16, 2.0), kmsg=OOM_KILL.replace("{victim}", "999999").replace(
            "{comm}", "firefox"), at_most="medium"),
    Row("killed", "no-log", "unknown", end=KILL, machine=dgpu(16, 2.0)),
    Row("killed", "log-silent", "unknown", end=KILL, machine=dgpu(16, 2.0), kmsg=QUIET_LOG),
    Row("killed", "cgroup-count-rises", "host-oom", end=KILL, before=kills(3),
        machine=lambda m: dgpu(16, 2.0)(m).cgroup(2)),
    Row("killed", "cgroup-count-flat", "unknown", end=KILL,
        machine=lambda m: dgpu(16, 2.0)(m).cgroup(2)),
    # A crash of its own while the OOM killer took somebody else.
    Row("crash", "oom-kill-names-another", ("app-bug", "unknown"), end=SEGV,
        machine=dgpu(16, 2.0), kmsg=OOM_KILL.replace("{victim}", "999999").replace(
            "{comm}", "firefox")),
    Row("crash", "log-silent", "app-bug", end=SEGV, machine=dgpu(16, 2.0), kmsg=QUIET_LOG),
    # A GPU page fault in the log: ours, or that of a browser.
    Row("launch", "page-fault-ours", "page-fault", LAUNCH, machine=dgpu(16, 2.0),
        kmsg=PAGE_FAULT.replace("{victim}", "{pid}").replace("{comm}", "python3"), at_least="high"),
    Row("launch", "page-fault-of-another", ("page-fault", "unknown", "app-bug"), LAUNCH,
        machine=dgpu(16, 2.0), kmsg=PAGE_FAULT.replace("{victim}", "999999").replace(
            "{comm}", "firefox"), at_most="medium"),
    Row("launch", "log-silent", ("unknown", "app-bug", "page-fault"), LAUNCH,
        machine=dgpu(16, 2.0), kmsg=QUIET_LOG, at_most="medium"),
    # Which ring stopped first.
    Row("hang", "sdma", "sdma", HANG, ABRT, dgpu(16, 2.0), kmsg=RING.replace("{ring}", "sdma0"),
        at_least="high"),
    Row("hang", "gfx", "gpu-hang", HANG, ABRT, dgpu(16, 2.0),
        kmsg=RING.replace("{ring}", "gfx_0.0.0"), at_least="high"),
    Row("hang", "no-log", "gpu-hang", HANG, ABRT, dgpu(16, 2.0), at_most="medium"),
    # The runtime's own words, with and without the kernel's.
    Row("fault", "log", "page-fault", FAULT, ABRT, dgpu(16, 2.0),
        kmsg=PAGE_FAULT.replace("{victim}", "{pid}").replace("{comm}", "python3"), at_least="high"),
    Row("fault", "no-log", "page-fault", FAULT, ABRT, dgpu(16, 2.0)),
]
LEVELS = {"low": 0, "medium": 1, "high": 2}


class SameWordsOtherCounters(Replay):
    def setUp(self):
        super().setUp()
        self.other = subprocess.Popen(["/bin/sleep", "300"])
        self.addCleanup(self.end_other)

    def end_other(self):
        self.other.kill()
        self.other.wait()

    def run_row(self, row):
        m = self.machine(f"{row.pair}-{row.name}")
        row.machine(m)
        steps = []
        if row.other:
            m.put(m.kfd_path(self.other.pid), int(row.other * GIB))
        if row.own:
            steps.append(["write", m.at(m.kfd_path("{pid}")), f"{int(row.own * GIB)}\n"])
        if row.kmsg is not None:
            m.put("dev/kmsg", QUIET_LOG)
        if row.before:
            steps += row.before(m)
        if row.stderr:
            steps.append(["stderr", row.stderr])
        if row.kmsg is not None:
            steps.append(["append", m.at("dev/kmsg"), row.kmsg])
        steps.append(list(row.end))
        done = self.replay(m, steps, options=["--always"])
        return done, done.bundles[0].verdict if done.bundles else None

    def problem(self, row, done, verdict):
        if verdict is None:
            return "no bundle: " + done.stderr
        if row.stderr != done.target_stderr:
            return "stderr changed: " + done.stderr
        if verdict["class"] not in row.right:
            return f"want {' or '.join(row.right)}"
        if row.subclass is not None and verdict["subclass"] != row.subclass:
            return f"want subclass {row.subclass}"
        level = LEVELS[verdict["confidence"]]
        if row.at_most is not None and verdict["class"] != "unknown" and level > LEVELS[row.at_most]:
            return f"want at most {row.at_most}"
        if row.at_least is not None and level < LEVELS[row.at_least]:
            return f"want at least {row.at_least}"
        return ""

    def test_the_verdict_follows_the_counters(self):
        results = in_parallel(self.run_row, ROWS)
        for row, (done, verdict) in zip(ROWS, results):
            wrong = self.problem(row, done, verdict)
            print(f"{row.pair:8} {row.name:24} {summary(verdict) if verdict else '-':52} "
                  f"{wrong or 'ok'}")
            with self.subTest(pair=row.pair, name=row.name):
                self.assertEqual(wrong, "", done.own_lines)

    def test_every_pair_differs(self):
        """The table itself: no pair whose rows all expect the same."""
        rights = collections.defaultdict(set)
        for row in ROWS:
            rights[row.pair].add((row.right, row.at_most, row.at_least))
        self.assertEqual([pair for pair, right in rights.items() if len(right) < 2], [])


class WhatAsksForABundle(Replay):
    """A failure that only the kernel log tells leaves a bundle; the same lines beside a success, or
    a failure without a word anywhere, leave none."""

    LINES = {"page fault": PAGE_FAULT.replace("{victim}", "{pid}").replace("{comm}", "python3"),
             "ring": RING.replace("{ring}", "gfx_0.0.0"),
             "oom kill": OOM_KILL.replace("{victim}", "{pid}").replace("{comm}", "python3")}

    def bundles(self, *arguments):
        name, line, status, before = arguments
        m = dgpu(16, 2.0)(self.machine(name)).put("dev/kmsg", QUIET_LOG)
        steps = [["sleep", before], ["append", m.at("dev/kmsg"), line], ["exit", status]]
        done = self.replay(m, steps)
        self.assertEqual(done.status, status)
        return len(done.bundles)

    def test_the_kernel_log_alone(self):
        rows = [(f"{name}-{status}-{before}", line, status, before)
                for name, line in self.LINES.items() for status in (0, 1) for before in (0, 0.3, 1.2)]
        rows += [("quiet-1-0", QUIET_LOG, 1, 0), ("quiet-0-0", QUIET_LOG, 0, 0)]
        found = in_parallel(lambda row: self.bundles(*row), rows)
        for (name, line, status, _), count in zip(rows, found):
            with self.subTest(name=name):
                self.assertEqual(count, 1 if status and line != QUIET_LOG else 0)

    def test_lines_from_before_the_start_do_not_count(self):
        m = dgpu(16, 2.0)(self.machine("old")).put("dev/kmsg", self.LINES["page fault"])
        self.assertEqual(self.replay(m, [["sleep", 0.3], ["exit", 1]]).bundles, [])


# --- replays ---

def match_texts():
    """What the relay looks for, from its table (the trigger rules)."""
    table = support.read(os.path.join(SOURCE, "src/watch/match_table.c"))
    found = re.findall(r'\{MATCH_\w+, "((?:[^"\\]|\\.)*)"\}', table)
    return [text.encode().decode("unicode_escape") for text in found]


# Kernel lines that name a GPU failure or an OOM kill, whatever the program said.
KERNEL_TEXTS = re.compile(r"page fault \(src_id:|timeout, signaled seq=|MES failed to resp|"
                          r"invoked oom-killer|Killed process \d|GPU reset begin|"
                          r"Not enough memory for command submission")


def end_of(stderr, dmesg):
    """How a program ends that said this."""
    if re.search(r"Killed process|oom-kill:", dmesg) or re.search(r"(?m)\bKilled$", stderr):
        return signal.SIGKILL
    if re.search(r"Segmentation fault|SIGSEGV", stderr):
        return signal.SIGSEGV
    if re.search(r"Memory access fault by GPU|HW Exception by GPU|Aborted|SIGABRT|terminate called|"
                 r"aborting with error", stderr):
        return signal.SIGABRT
    return 0


def strictness(case, name):
    if name == "unknown":
        return "unknown"
    if name == case["label"]:
        return "strict"
    return "lenient" if name in (case.get("also") or []) else "wrong"


# Which chip the reporter names, where the words leave no choice.
CHIPS = [(r"Strix Halo|8060S|8050S|AI Max", "gfx1151"), (r"780M|Phoenix|7940HS|7840", "gfx1103"),
         (r"890M|880M|Strix Point", "gfx1150"), (r"680M", "gfx1035"), (r"MI300X", "gfx942"),
         (r"MI2[15]0", "gfx90a"), (r"MI100", "gfx908"), (r"7900", "gfx1100"), (r"7800|7700", "gfx1101"),
         (r"7600", "gfx1102"), (r"9070|R9700", "gfx1201"), (r"9060", "gfx1200"),
         (r"6[89]00|6950", "gfx1030"), (r"6600|6650", "gfx1032"), (r"6700|6750", "gfx1031"),
         (r"5700", "gfx1010"), (r"5500", "gfx1012"), (r"Radeon VII|MI[56]0", "gfx906"),
         (r"Vega|MI25", "gfx900")]


def chip_of(words):
    named = re.search(r"gfx\d+[0-9a-f]{2}", words)
    if named:
        return named.group()
    return next((gfx for pattern, gfx in CHIPS if re.search(pattern, words)), None)


class Collections(Replay):
    def outside_facts(self, bundle):
        """Every fact that no text gave, for `triage` beside the texts."""
        path = self.path(f"facts-{os.path.basename(bundle.name)}-{id(bundle)}.json")
        listed = [fact for facts in bundle.facts.values() for fact in facts
                  if fact.get("when") != "log" and not (
                      fact["name"].startswith("f.") and not fact["name"].startswith("f.growth"))]
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"format": 1, "facts": listed}, file)
        return path

    def check_same_verdict(self, done, texts):
        """The bundle's verdict, the bundle judged again, and the same texts beside its facts."""
        bundle = done.bundles[0]
        self.assertEqual(self.triage(bundle.path), bundle.verdict)
        files = []
        if texts.get("kernel"):
            files += ["--kernel-log", self.write(f"k-{id(bundle)}", texts["kernel"])]
        files += ["--facts", self.outside_facts(bundle)]
        if texts.get("stderr"):
            files.append(self.write(f"s-{id(bundle)}", texts["stderr"]))
        again = self.triage(*files)
        keys = ("class", "subclass", "confidence", "vendor")
        self.assertEqual([again[k] for k in keys], [bundle.verdict[k] for k in keys])

    def check_sound(self, done):
        bundle = done.bundles[0]
        self.assertNotIn("crashed", [item["status"] for item in bundle.manifest["items"]])
        self.assertEqual(self.verb("verify", bundle.path).returncode, 0)


@unittest.skipUnless(os.path.isfile(CORPUS), f"no {CORPUS}")
class Corpus(Collections):
    def steps_of(self, m, case):
        stderr, dmesg = case.get("stderr") or "", case.get("dmesg") or ""
        ending = end_of(stderr, dmesg)
        kernel = dmesg
        if ending == signal.SIGKILL:  # the report's pid was that of the program
            kernel = re.sub(r"(Killed process )\d+|(task=\S+,pid=)\d+",
                            lambda hit: (hit.group(1) or hit.group(2)) + "{pid}", kernel)
        if "page fault (src_id:" in kernel:
            kernel = re.sub(r"\bpid \d+", "pid {pid}", kernel)
        steps = [["stderr", stderr if stderr.endswith("\n") or not stderr else stderr + "\n"]]
        if dmesg:
            m.put("dev/kmsg", QUIET_LOG)
            steps.append(["append", m.at("dev/kmsg"), kernel + "\n"])
        steps.append(["kill", ending] if ending else ["exit", 1])
        return steps, ending

    def run_case(self, item):
        index, case = item
        m = self.machine(str(index))
        if case["vendor"] == "amd":
            m.node(chip_of(case.get("gpu") or ""))
        steps, ending = self.steps_of(m, case)
        env = {k: str(v) for k, v in (case["context"].get("env") or {}).items()}
        options = ["--finish-within=2s", "--quiet"]
        done = self.replay(m, steps, options, env)
        asked = (ending or any(text in steps[0][1] for text in match_texts())
                 or KERNEL_TEXTS.search(case.get("dmesg") or ""))
        triggered = bool(done.bundles)
        if not triggered:
            done = self.replay(m, steps, [*options, "--always"], env)
        return done, m, steps, asked, triggered, ending

    def test_every_case(self):
        with open(CORPUS, encoding="utf-8") as file:
            cases = [case for case in map(json.loads, file) if case["context"].get("log_text")]
        results = in_parallel(self.run_case, enumerate(cases))
        counts, unseen, quiet = collections.Counter(), [], 0
        for case, (done, m, steps, asked, triggered, ending) in zip(cases, results):
            with self.subTest(case=case["id"]):
                self.assertEqual(done.status, -ending if ending else 1)
                self.assertEqual(done.stderr, steps[0][1])
                self.assertEqual(len(done.bundles), 1)
                self.assertTrue(triggered or not asked, "no bundle although the rules ask for one")
                if not triggered:
                    unseen.append(case["id"])
                self.check_sound(done)
                self.check_same_verdict(done, {"stderr": steps[0][1], "kernel": support.read(
                    m.at("dev/kmsg"))})
                verdict = done.bundles[0].verdict
                grade = strictness(case, verdict["class"])
                counts[grade] += 1
                quiet += not steps[0][1]
                if grade in ("wrong", "unknown"):
                    print(f"{grade:8} {case['id']:52} {case['label']:16} {summary(verdict)}")
                self.assertFalse(grade == "wrong" and verdict["confidence"] == "high", case["id"])
        total = len(cases)
        print(f"{total} cases ({quiet} without any stderr): " + ", ".join(
            f"{name} {counts[name]} ({100 * counts[name] / total:.1f} %)"
            for name in ("strict", "lenient", "unknown", "wrong")))
        print(f"ended with status 1 and no known message, so only --always leaves a bundle: {len(unseen)}")
        for name in unseen:
            print("  " + name)
        self.assertLessEqual(counts["wrong"], 0.10 * total)


# What the recordings are, by their README; the class or an honest unknown.
TRUE_OF = {"capacity": ["capacity"], "capacity_act": ["capacity"], "fragmentation": ["fragmentation"],
           "frag_churn": ["fragmentation"], "leak": ["leak", "capacity"],
           "leak_swap": ["leak", "capacity"], "held": ["held-by-other"],
           "cache_starves": ["fragmentation", "capacity"], "fault": ["page-fault", "app-bug"],
           "segv": ["app-bug"], "ok": []}


@unittest.skipUnless(os.path.isdir(RECORDINGS), f"no {RECORDINGS}")
class Recordings(Collections):
    def counters(self, folder):
        """Used and total of the recording, as a driver would show them, thinned to 2.4 s."""
        rows = [line.split(",") for line in support.read(os.path.join(folder, "gpu.csv")).splitlines()
                if line.count(",") >= 4]
        used = [int(row[1]) * MIB for row in rows]
        step = max(1, len(used) // 24)
        return used[::step], max(used), int(rows[0][3]) * MIB

    def run_recording(self, name):
        folder = os.path.join(RECORDINGS, name)
        m = self.machine(name)
        used, peak, total = self.counters(folder)
        m.gpu(total, used[0], "gfx942").ram(256 * GIB, 200 * GIB)
        m.put("dev/kmsg", support.read(os.path.join(folder, "dmesg")) or QUIET_LOG)
        stderr = support.read(os.path.join(folder, "stderr"))
        code = int(support.read(os.path.join(folder, "rc")).strip())
        steps = []
        for value in used[1:]:
            steps += [["write", m.used, f"{value}\n"], ["sleep", 0.1]]
        if code:
            steps.append(["write", m.used, f"{peak}\n"])
        steps += [["stderr", stderr], ["kill", code - 128] if code > 128 else ["exit", code]]
        return self.replay(m, steps), stderr, code, m

    def test_every_recording(self):
        self.assertEqual(sorted(TRUE_OF), sorted(
            n for n in os.listdir(RECORDINGS) if os.path.isdir(os.path.join(RECORDINGS, n))))
        results = in_parallel(self.run_recording, TRUE_OF)
        for name, (done, stderr, code, m) in zip(TRUE_OF, results):
            with self.subTest(recording=name):
                self.assertEqual(done.status, code if code <= 128 else 128 - code)
                self.assertEqual(done.target_stderr, stderr)
                self.assertEqual(len(done.bundles), 0 if name == "ok" else 1)
                if name == "ok":
                    self.assertEqual(done.stderr, "")
                    continue
                self.check_sound(done)
                self.check_same_verdict(done, {"stderr": stderr, "kernel": support.read(
                    m.at("dev/kmsg"))})
                verdict = done.bundles[0].verdict
                print(f"{name:14} {summary(verdict)}")
                self.assertIn(verdict["class"], [*TRUE_OF[name], "unknown"])


if __name__ == "__main__":
    support.main()
