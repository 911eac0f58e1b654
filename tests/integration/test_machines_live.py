# SPDX-License-Identifier: Apache-2.0
"""A recorded machine while a program runs on it: which of its files are opened, and which values of changing counters
are in the bundle."""

import ctypes
import gzip
import json
import os
import re
import shutil
import struct
import subprocess

import support
from machine_reader import DRM, MACHINES, MOMENTS, number_of, run_on, text_of
from replay import TARGET
from support import PYTHON, wait_for


# --- which files are opened ---

class Inotify:
    """IN_OPEN and IN_ACCESS of every file below a folder, by ctypes (Python has no inotify)."""
    ACCESS, OPEN, NONBLOCK, CLOEXEC = 0x1, 0x20, 0o4000, 0o2000000

    def __init__(self, top):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.fd = self.libc.inotify_init1(self.NONBLOCK | self.CLOEXEC)
        self.folders = {}
        for folder, _, _ in os.walk(top):
            watch = self.libc.inotify_add_watch(self.fd, os.fsencode(folder),
                                                self.OPEN | self.ACCESS)
            if watch < 0:
                raise OSError(ctypes.get_errno(), "inotify_add_watch")
            self.folders[watch] = os.path.relpath(folder, top)

    def events(self):
        """({files opened}, {files read}) since the last call, paths below the folder."""
        opened, accessed = set(), set()
        while True:
            try:
                data = os.read(self.fd, 1 << 16)
            except BlockingIOError:
                return opened, accessed
            at = 0
            while at < len(data):
                watch, mask, _, length = struct.unpack_from("iIII", data, at)
                name = data[at + 16:at + 16 + length].split(b"\0")[0].decode()
                at += 16 + length
                if mask & 0x4000:  # IN_Q_OVERFLOW
                    raise AssertionError("inotify lost events")
                if mask & 0x40000000 or not name:  # a folder
                    continue
                path = os.path.normpath(os.path.join(self.folders[watch], name))
                if mask & self.OPEN:
                    opened.add(path)
                if mask & self.ACCESS:
                    accessed.add(path)

    def close(self):
        os.close(self.fd)


# Files whose read has side effects, wakes the card, takes a lock of its firmware, or shows a serial number.
ACTING = ["pcie_bw", "xgmi_error", "reset", "remove", "rescan", "rom", "config", "resource0",
          "ras/aca_umc", "gpu_metrics", "pp_od_clk_voltage",
          "pp_dpm_sclk", "gpu_reset_state", "psp_vbflash", "hwmon/hwmon5/fan1_input"]
# Read once, so that redaction finds these ids in the output of other programs.
IDENTITIES = ["unique_id", "serial_number", "fru_id"]
DEBUGFS = ["amdgpu_gpu_recover", "amdgpu_evict_vram", "amdgpu_evict_gtt", "amdgpu_test_ib",
           "amdgpu_benchmark", "amdgpu_reset_dump_register_list"]


SEGV, ABRT, KILL = 11, 6, 9


class Watched(support.Case):
    def copy(self, name):
        tree = self.path("tree")
        shutil.copytree(os.path.join(MACHINES, name), tree, symlinks=True)
        subprocess.run(["chmod", "-R", "u+w", tree], check=True)
        return tree

    def run_until_seen(self, tree, *parts, then):
        """The bundle of a program that lives until the sampler has read the counter: that may be late on a busy
        machine."""
        path = os.path.join(tree, *parts)
        os.utime(path)
        script = self.write("until_seen.json", json.dumps([["seen", path], then]))
        return run_on(self, tree, PYTHON, "-S", "-E", TARGET, script).bundles[0]


class Untouched(Watched):
    def lay_traps(self, tree):
        device = os.path.join(tree, DRM, "card0/device")
        traps = [os.path.join(device, name) for name in ACTING]
        traps += [os.path.join(tree, "sys/kernel/debug/dri/0", name) for name in DEBUGFS]
        traps.append(os.path.join(tree, "dev/kfd"))
        for path in traps:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if not os.path.lexists(path):
                with open(path, "w", encoding="ascii") as file:
                    file.write("0\n")
        return [os.path.relpath(path, tree) for path in traps]

    def test_no_file_that_acts_is_opened(self):
        tree = self.copy("lact-rx6900xt-gfx1030")
        traps = self.lay_traps(tree)
        watch = Inotify(tree)
        self.addCleanup(watch.close)
        done = run_on(self, tree, "/bin/sh", "-c", "kill -SEGV $$")
        opened, read = watch.events()
        self.assertEqual(len(done.bundles), 1)
        # The watch must have seen the read files: otherwise this test proves nothing.
        used = f"{DRM}/card0/device/mem_info_vram_used"
        self.assertIn(used, opened)
        self.assertIn(used, read)
        self.assertEqual(sorted(opened & set(traps)), [])
        for trap in traps:
            with open(os.path.join(tree, trap), "rb"):
                pass
        self.assertEqual(watch.events()[0], set(traps))
        print(f"{len(opened)} files opened, {len(traps)} traps untouched")

    def test_identities_of_a_card_are_left_out(self):
        tree = self.copy("lact-rx6900xt-gfx1030")
        for number, name in enumerate(IDENTITIES):
            with open(os.path.join(tree, DRM, "card0/device", name), "w", encoding="ascii") as file:
                file.write(f"a1b2c3d4e5f6070{number}\n")
        done = run_on(self, tree, "/bin/sh", "-c", "echo 0xA1B2C3D4E5F60701 >&2; kill -SEGV $$")
        with gzip.open(done.bundles[0].path) as stream:
            text = stream.read().lower()
        self.assertIn(b"kill -segv", text)
        self.assertNotIn(b"a1b2c3d4e5f6070", text)

    def test_a_fifo_in_place_of_a_counter_does_not_hang(self):
        tree = self.copy("lact-rx6900xt-gfx1030")
        for name in (*ACTING, *IDENTITIES, "mem_info_gtt_used", "vbios_version", "gpu_busy_percent"):
            path = os.path.join(tree, DRM, "card0/device", name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if os.path.lexists(path):
                os.unlink(path)
            os.mkfifo(path)
        bundle = self.run_until_seen(tree, DRM, "card0/device/mem_info_vram_used", then=["kill", SEGV])
        self.assertIn(bundle.fact("gpu.0.gtt.used_bytes", "impact").get("status"),
                      ("absent", "unreadable"))
        self.assertEqual(bundle.value("gpu.0.vram.used_bytes", "impact"),
                         number_of(tree, DRM, "card0/device/mem_info_vram_used"))

    def test_a_sleeping_card_is_not_woken(self):
        tree = self.copy("lact-rx6900xt-gfx1030")
        device = os.path.join(tree, DRM, "card0/device")
        os.makedirs(os.path.join(device, "power"), exist_ok=True)
        with open(os.path.join(device, "power/runtime_status"), "w", encoding="ascii") as file:
            file.write("suspended\n")
        os.makedirs(os.path.join(device, "ras"))
        with open(os.path.join(device, "ras/umc_err_count"), "w", encoding="ascii") as file:
            file.write("ue: 0\nce: 0\n")
        watch = Inotify(tree)
        self.addCleanup(watch.close)
        bundle = self.run_until_seen(tree, DRM, "card0/device/mem_info_vram_used", then=["sleep", 1.3])
        read = watch.events()[1]
        asleep = [path for path in read if re.search(
            r"gpu_busy_percent|hwmon\d+/(temp|power|freq)\d_|link_(speed|width)|_err_count", path)]
        self.assertEqual(asleep, [])
        for name in ("busy_percent", "temperature.edge_mC", "power_uW"):
            for fact in bundle.facts[f"gpu.0.{name}"]:
                self.assertEqual(fact.get("status"), "unreadable", fact)
        self.assertEqual(bundle.value("gpu.0.vram.used_bytes", "impact"),
                         number_of(device, "mem_info_vram_used"))


# --- the host's files below the same root ---

class HostFiles(Watched):
    MEMINFO = ("MemTotal:       131157644 kB\nMemFree:         1000000 kB\nMemAvailable:   40000000 kB\n"
               "Shmem:           2000000 kB\nSwapTotal:       8388604 kB\nSwapFree:        8000000 kB\n")
    PRESSURE = ("some avg10=1.00 avg60=0.50 avg300=0.10 total=123456\n"
                "full avg10=0.00 avg60=0.00 avg300=0.00 total=654\n")
    FACTS = {"host.mem_total_bytes": 131157644 << 10, "host.mem_available_bytes": 40000000 << 10,
             "host.swap_total_bytes": 8388604 << 10, "host.swap_free_bytes": 8000000 << 10,
             "host.mem_shmem_bytes": 2000000 << 10, "host.psi_memory_some_us": 123456,
             "host.psi_memory_full_us": 654, "host.ttm_pages_limit": 16394705}

    def test_every_moment_has_the_file_of_the_tree(self):
        tree = self.copy("lact-phoenix-gfx1103")
        for path, text in (("proc/meminfo", self.MEMINFO), ("proc/pressure/memory", self.PRESSURE),
                           ("proc/sys/vm/max_map_count", "1048576\n"),
                           ("proc/sys/kernel/osrelease", "6.17.0-19-generic\n"),
                           ("sys/module/ttm/parameters/pages_limit", "16394705\n"),
                           ("sys/module/amdgpu/parameters/gttsize", "-1\n")):
            os.makedirs(os.path.dirname(os.path.join(tree, path)), exist_ok=True)
            with open(os.path.join(tree, path), "w", encoding="ascii") as file:
                file.write(text)
        bundle = self.run_until_seen(tree, "proc/meminfo", then=["kill", SEGV])
        for name, value in self.FACTS.items():
            for when in MOMENTS:
                self.assertEqual(bundle.value(name, when), value, (name, when))
        self.assertEqual(bundle.value("host.max_map_count"), 1048576)
        self.assertEqual(bundle.value("host.kernel"), "6.17.0-19-generic")
        self.assertEqual(bundle.value("host.kernel_version"), 61700)
        self.assertEqual(bundle.value("host.ttm_limit_bytes"), 16394705 * 4096)
        # -1 leaves the size to the driver, so no size is known.
        self.assertEqual(bundle.fact("host.gttsize_mib").get("status"), "absent")


# --- counters that move while the program runs ---

# Runs a list of steps: ["write", file, bytes in latin-1], ["sleep", s], ["seen", file], ["rename", a, b],
# ["unlink", file], ["kill", signal], ["exit", code].
SCRIPT = r"""
import json, os, sys, time
for what, *args in json.load(open(sys.argv[1])):
    if what == "write":
        fd = os.open(args[0], os.O_WRONLY | os.O_CREAT, 0o644)
        data = args[1].encode("latin-1")
        os.pwrite(fd, data, 0)
        os.ftruncate(fd, len(data))
        os.close(fd)
    elif what == "pid":
        with open(args[0] + ".new", "w") as file:
            file.write(str(os.getpid()))
        os.rename(args[0] + ".new", args[0])
    elif what == "sleep":
        time.sleep(args[0])
    elif what == "seen":  # read since it was written (on a disk that notes it: relatime), or long ago
        end = time.monotonic() + (2 if os.statvfs(args[0]).f_flag & os.ST_NOATIME else 30)
        while os.stat(args[0]).st_atime_ns <= os.stat(args[0]).st_mtime_ns and time.monotonic() < end:
            time.sleep(0.01)
    elif what == "rename":
        os.rename(*args)
    elif what == "unlink":
        os.unlink(args[0])
    elif what == "kill":
        os.kill(os.getpid(), args[0])
    elif what == "exit":
        os._exit(args[0])
"""

class MovingCounters(Watched):
    def setUp(self):
        super().setUp()
        self.tree = self.copy("lact-rx6900xt-gfx1030")
        self.device = os.path.join(self.tree, DRM, "card0/device")
        self.used = os.path.join(self.device, "mem_info_vram_used")

    def put(self, path, text):
        with open(path, "r+b") as file:
            file.write(text.encode())
            file.truncate()

    def play(self, steps, after=None, options=()):
        """Run the steps; `after` is written to the counter when the program has ended."""
        pid_file = self.path("pid")
        if os.path.exists(pid_file):
            os.unlink(pid_file)
        script = self.write("steps.json", json.dumps([["pid", pid_file], *steps]))
        process = self.start(PYTHON, "-c", SCRIPT, script,
                             options=["--always", f"--sysroot={self.tree}", *options],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if after is not None:
            pid = int(wait_for(lambda: support.read(pid_file), "the program's pid"))
            wait_for(lambda: not support.is_running(pid), "the program's end")
            self.put(self.used, f"{after}\n")
        out, err = process.communicate(timeout=60)
        done = self.finished(process, out, err)
        self.assertEqual(len(done.bundles), 1, done.stderr)
        return done.bundles[0], done

    def moments(self, bundle, name="gpu.0.vram.used_bytes"):
        return tuple(bundle.fact(name, when).get("value", bundle.fact(name, when).get("status"))
                     for when in ("baseline", "peak", "impact", "after"))

    def test_each_moment_has_the_value_of_that_moment(self):
        for number in (SEGV, ABRT, KILL):
            with self.subTest(signal=number):
                shutil.rmtree(self.outdir)
                os.mkdir(self.outdir)
                self.put(self.used, "1111111111\n")
                bundle, done = self.play([
                    ["seen", self.used], ["write", self.used, "15555555555\n"], ["seen", self.used],
                    ["write", self.used, "9999999999\n"], ["kill", number]], after=2222222222)
                self.assertEqual(done.status, -number)
                self.assertEqual(self.moments(bundle),
                                 (1111111111, 15555555555, 9999999999, 2222222222))

    def test_errors_that_the_hardware_counted(self):
        """Uncorrected ones of the run, with an abort: hw-ras; errors from before the run, and corrected ones: another
        class."""
        errors = os.path.join(self.device, "ras/umc_err_count")
        os.makedirs(os.path.dirname(errors))
        for then, new, expected in (("ue: 3\nce: 5\n", 1, True), ("ue: 2\nce: 9\n", 0, False)):
            with self.subTest(then=then):
                shutil.rmtree(self.outdir)
                os.mkdir(self.outdir)
                with open(errors, "w", encoding="ascii") as file:
                    file.write("ue: 2\nce: 5\n")
                bundle, _ = self.play([["seen", errors], ["write", errors, then], ["kill", ABRT]])
                self.assertEqual(bundle.value("gpu.0.errors_uncorrected_count", "baseline"), 2)
                self.assertEqual(bundle.value("gpu.0.errors_uncorrected_count", "after"), 2 + new)
                self.assertEqual(bundle.verdict["class"] == "hw-ras", expected, bundle.verdict["sentence"])

    def test_a_last_jump_is_peak_and_impact(self):
        """The counter is written microseconds before the end, like an allocation that fails. A sampler at 10 Hz misses
        it; the impact record has it."""
        self.put(self.used, "1000\n")
        bundle, _ = self.play([["seen", self.used], ["write", self.used, "17000000000\n"],
                               ["kill", ABRT]], after=1000)
        self.assertEqual(self.moments(bundle), (1000, 17000000000, 17000000000, 1000))

    def test_what_is_no_number_is_unreadable(self):
        for text in ("banana\n", "-5\n", "", "\0" * 4096, "12x\n", "99999999999999999999999\n",
                     " \n", "0x10\n", "1.5\n"):
            with self.subTest(text=text[:16]):
                shutil.rmtree(self.outdir)
                os.mkdir(self.outdir)
                self.put(self.used, "4444\n")
                bundle, _ = self.play([["seen", self.used], ["write", self.used, "5555\n"],
                                       ["seen", self.used], ["write", self.used, text],
                                       ["seen", self.used], ["kill", SEGV]])
                self.assertEqual(self.moments(bundle), (4444, 5555, "unreadable", "unreadable"))
                for when in ("impact", "after"):
                    fact = bundle.fact("gpu.0.vram.used_bytes", when)
                    self.assertTrue(fact.get("reason"), fact)
                # The other files are not copied.
                self.assertEqual(bundle.value("gpu.0.vram.total_bytes", "impact"),
                                 number_of(self.device, "mem_info_vram_total"))

    def test_a_value_beside_noise_is_still_a_value(self):
        self.put(self.used, "4444\n")
        bundle, _ = self.play([["seen", self.used], ["write", self.used, "5555\n" + "\0" * 4000],
                               ["seen", self.used], ["kill", SEGV]])
        self.assertEqual(self.moments(bundle), (4444, 5555, 5555, 5555))

    def test_a_counter_that_vanishes(self):
        """The open file still answers, as the kernel's would until the device is removed. A later look by name finds no
        file, and the fact says so."""
        bundle, done = self.play([["sleep", 0.2], ["unlink", self.used], ["sleep", 0.3],
                                  ["unlink", os.path.join(self.device, "vbios_version")],
                                  ["kill", SEGV]])
        self.assertEqual(done.status, -SEGV)
        self.assertEqual(bundle.fact("gpu.0.vbios").get("status"), "absent")
        self.assertNotEqual(bundle.value("gpu.0.vram.used_bytes", "impact"), 0)

    def second_card(self, pci):
        """A second card of the same model in the tree, with its own numbers."""
        folder = self.path("card7")
        shutil.copytree(os.path.join(self.tree, DRM, "card0"), folder)
        event = text_of(folder, "device/uevent")
        self.put(os.path.join(folder, "device/uevent"),
                 re.sub(r"PCI_SLOT_NAME=\S+", f"PCI_SLOT_NAME={pci}", event) + "\n")
        self.put(os.path.join(folder, "device/mem_info_vram_used"), "77777\n")
        return folder

    def check_pairs(self, bundle, expected):
        """A GPU may have any index, but its address and its numbers belong together."""
        found = {}
        for i in range(4):
            pci = bundle.value(f"gpu.{i}.pci")
            value = bundle.value(f"gpu.{i}.vram.used_bytes", "impact")
            if pci is not None or value is not None:
                found[pci] = value
        for pci, value in found.items():
            self.assertIn((pci, value), expected, found)

    def test_a_card_that_appears_takes_no_numbers_of_another(self):
        for pci in ("0000:03:00.0", "0000:f0:00.0"):  # before and behind 0000:0c:00.0
            with self.subTest(pci=pci):
                shutil.rmtree(self.outdir)
                os.mkdir(self.outdir)
                self.put(self.used, "4444\n")
                card = self.second_card(pci)
                place = os.path.join(self.tree, DRM, "card7")
                bundle, _ = self.play([["sleep", 0.3], ["rename", card, place], ["sleep", 0.3],
                                       ["kill", SEGV]])
                shutil.rmtree(place)
                self.check_pairs(bundle, [("0000:0c:00.0", 4444), (pci, 77777), (pci, None)])
                self.assertEqual(bundle.value("gpu.0.vram.used_bytes", "baseline"), 4444)

    def test_a_card_that_disappears_takes_no_numbers_of_another(self):
        self.put(self.used, "4444\n")
        place = os.path.join(self.tree, DRM, "card7")
        os.rename(self.second_card("0000:03:00.0"), place)
        bundle, _ = self.play([["sleep", 0.3], ["rename", place, self.path("gone")],
                               ["sleep", 0.3], ["kill", SEGV]])
        self.check_pairs(bundle, [("0000:0c:00.0", 4444), ("0000:03:00.0", 77777),
                                  (None, 77777), (None, 4444)])


if __name__ == "__main__":
    support.main()
