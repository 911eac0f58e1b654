# SPDX-License-Identifier: Apache-2.0
"""`rocmcrash doctor` on recorded and on made-up machines.

What must be found on each recorded machine was written down from its files before the first run: a
tree without /sys/class/kfd is a machine whose kernel has no compute interface, and so on.
"""

import json
import os
import shutil
import subprocess
import time
import unittest

import support
from support import RECORDED, SOURCE
from replay import GIB, MIB, Machine

MACHINES = os.path.join(RECORDED, "machines")

# name: findings. All other questions cannot be decided from the tree (no RAM, no kernel).
NO_KFD = ["kfd-missing"]
EXPECTED = {
    "issue-igpu-ttm-params": ["no-gpu", "gttsize"], "issue-rx570-gtt-eq-vram": NO_KFD,
    "issue-strixhalo-gfx1151": NO_KFD, "k8sdp-mi210x8-gfx90a-kfd": [], "k8sdp-mi25-gfx900-kfd": [],
    "k8sdp-mi300x8-cpx-gfx942-kfd": [], "lact-hd7870-radeon": ["no-gpu"],
    "lact-phoenix-gfx1103": [], "lact-r7-240-gfx601": [*NO_KFD, "small-bar"],
    "lact-r9-280-gfx600": NO_KFD, "lact-rx5500xt-gfx1012": NO_KFD, "lact-rx5700xt-gfx1010": NO_KFD,
    "lact-rx6600-gfx1032": NO_KFD, "lact-rx6600xt-gfx1032": NO_KFD, "lact-rx6900xt-gfx1030": NO_KFD,
    "lact-rx7600s-gfx1102": NO_KFD, "lact-rx7700s-gfx1102": NO_KFD, "lact-rx7800xt-gfx1101": NO_KFD,
    "lact-rx7900xtx-gfx1100": NO_KFD, "lact-rx9070-gfx1201": NO_KFD, "lact-rx9070xt-gfx1201": NO_KFD,
    "lact-vega56-gfx900": [*NO_KFD, "small-bar"], "procfs-vega56-gfx900": NO_KFD,
    "rocprofsdk-mi300x-spx-gfx942-kfd": [], "rocprofsdk-mi350x-gfx950-kfd": [],
    "rocprofsdk-mixed3gpu-kfd": [], "rocprofsdk-rx9070-gfx1201-kfd": [],
}
STEERING = ("HIP_", "HSA_", "ROCR_", "ROCM_", "GPU_", "AMD_", "PYTORCH_", "CUDA_", "LD_LIBRARY_PATH",
            "LD_PRELOAD")
# Ends with 0 if it can trace a child (PTRACE_SEIZE).
SEIZE = """
import ctypes, os, signal, sys
child = os.fork()
if child == 0:
    while True:
        signal.pause()
refused = ctypes.CDLL(None).ptrace(0x4206, child, None, None)
os.kill(child, 9)
sys.exit(refused != 0)
"""
# Runs its arguments under a filter of system calls: ptrace(2) fails with EPERM, or ends the caller.
NO_PTRACE = """
import ctypes, os, struct, sys
kills = sys.argv[1] == "kill"
code = struct.pack("HBBI" * 4, 0x20, 0, 0, 0, 0x15, 0, 1, 101, 6, 0, 0, 0 if kills else 0x50001, 6, 0, 0, 0x7fff0000)
program = ctypes.create_string_buffer(code, len(code))
libc = ctypes.CDLL(None)
class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(Filter(4, ctypes.addressof(program))), 0, 0) == 0
os.execvp(sys.argv[1 + kills], sys.argv[1 + kills:])
"""
QUIET = "[  1.000000] usb 1-2: new high-speed USB device number 7 using xhci_hcd\n"


class Doctor(support.Case):
    def setUp(self):
        super().setUp()
        for name in list(self.environ):
            if name.startswith(STEERING):
                del self.environ[name]

    def doctor(self, *options, root=None, command=("/bin/true",), **kwargs):
        if root:
            options = [f"--sysroot={root}", *options]
        return self.verb("doctor", *options, "--", *command, **kwargs)

    def findings(self, *options, **kwargs):
        done = self.doctor("--json", *options, **kwargs)
        self.assertIn(done.returncode, (0, 1, 2), done.stderr)
        report = json.loads(done.stdout)
        by_id = {f["id"]: f for f in report["findings"]}
        worst = max([{"note": 0, "warn": 1, "fail": 2}[f["severity"]] for f in report["findings"]],
                    default=0)
        self.assertEqual(done.returncode, worst)
        self.assertEqual(report["status"], ["ok", "warn", "fail"][worst])
        return by_id, report

    def healthy(self, name="machine"):
        """A workstation with one card on which nothing is wrong."""
        m = Machine(self.path(name))
        m.gpu(24 * GIB, 700 * MIB).ram(64 * GIB, 50 * GIB).ttm(32 * GIB)
        m.put("dev/kmsg", QUIET).put("dev/kfd", "").put("dev/dri/renderD128", "")
        m.put("proc/sys/kernel/osrelease", "6.12.48+deb13-amd64").put("proc/cmdline", "quiet")
        m.put("proc/sys/kernel/dmesg_restrict", 1).put("proc/sys/vm/max_map_count", 65530)
        m.put("sys/module/amdgpu/parameters/gttsize", -1)
        m.put("sys/module/amdgpu/parameters/no_system_mem_limit", "N")
        os.chmod(m.at("dev/kfd"), 0o666)
        os.chmod(m.at("dev/dri/renderD128"), 0o666)
        return m

    def apu(self, limit, ram=125):
        m = self.healthy(f"apu-{limit}-{ram}")
        m.gpu(GIB // 2, 180 * MIB, "gfx1151", (int(limit * GIB), 0), int(limit * GIB))
        return m.ram(ram * GIB, int(0.8 * ram) * GIB).ttm(int(limit * GIB)).put(
            "proc/sys/kernel/osrelease", "6.18.4").put("proc/sys/vm/max_map_count", 1048576)


class RecordedMachines(Doctor):
    def test_every_machine(self):
        self.assertEqual(sorted(EXPECTED), sorted(
            n for n in os.listdir(MACHINES) if os.path.isdir(os.path.join(MACHINES, n, "sys"))))
        for name, expected in EXPECTED.items():
            with self.subTest(machine=name):
                found, report = self.findings(root=os.path.join(MACHINES, name))
                print(f"{name:34} {' '.join(found) or '-':24} "
                      f"{len(report['not_asked']):2} of {report['rules']} undecided")
                self.assertEqual(sorted(found), sorted(expected))

    def test_no_card_is_said_clearly(self):
        done = self.doctor(root=os.path.join(MACHINES, "lact-hd7870-radeon"))
        self.assertEqual(done.returncode, 2)
        first = done.stdout.splitlines()[0]
        self.assertEqual(first, "fail no-gpu: There is no AMD GPU that ROCm could use: the graphics "
                         "card runs on the driver 'radeon', not amdgpu. [/sys/class]")


class MadeUpMachines(Doctor):
    def test_a_healthy_one_gets_one_line(self):
        done = self.doctor(root=self.healthy().top)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertEqual(done.stdout.count("\n"), 1, done.stdout)
        self.assertIn("nothing that is known to make ROCm programs fail was found: 1 GPU (gfx1100), "
                      "Linux 6.12.48+deb13-amd64", done.stdout)

    def test_no_gpu_at_all(self):
        os.mkdir(self.path("empty"))
        found, _ = self.findings(root=self.path("empty"))
        self.assertEqual(list(found), ["no-gpu"])
        self.assertIn("no amdgpu card and no KFD node", found["no-gpu"]["say"])

    def test_a_card_without_a_driver(self):
        m = self.healthy()
        shutil.rmtree(m.at("sys/class"))
        m.put("sys/bus/pci/devices/0000:03:00.0/vendor", "0x1002")
        m.put("sys/bus/pci/devices/0000:03:00.0/class", "0x030000")
        found, _ = self.findings(root=m.top)
        self.assertEqual(list(found), ["no-gpu"])
        self.assertIn("modprobe amdgpu", found["no-gpu"]["mend"])

    def test_ttm_limit_of_an_apu(self):
        for limit, expected in ((62.5, ["ttm-half"]), (96, []), (112, []), (118, ["ttm-over"]),
                                (125, ["ttm-all-ram"])):
            with self.subTest(limit=limit):
                found, _ = self.findings(root=self.apu(limit).top)
                self.assertEqual(list(found), expected)
                for finding in found.values():
                    self.assertIn("amd-ttm --set 112 (or boot with ttm.pages_limit=29360128)",
                                  finding["mend"])
                    self.assertIn("/sys/module/ttm/parameters/pages_limit", finding["say"])

    def test_the_module_of_the_dkms_driver(self):
        m = self.apu(62.5)
        m.put("sys/module/amdttm/parameters/pages_limit", int(62.5 * GIB) // 4096)
        m.put("sys/module/amdgpu/version", "6.16.6").put("proc/cmdline", "quiet ttm.pages_limit=9")
        found, _ = self.findings(root=m.top)
        self.assertEqual(sorted(found), ["ttm-half", "ttm-wrong-module"])
        self.assertIn("amdttm.pages_limit=29360128", found["ttm-half"]["mend"])
        self.assertIn("/sys/module/amdttm/", found["ttm-half"]["verify"])

    def test_false_folklore_on_the_command_line(self):
        m = self.healthy().put("proc/cmdline", "amdgpu.gttsize=131072 amdgpu.vm_size=131072 "
                               "ttm.page_pool_size=33554432 amdgpu.gtt_size=9")
        m.put("sys/module/amdgpu/parameters/gttsize", 131072)
        found, _ = self.findings(root=m.top)
        self.assertEqual(sorted(found), ["gttsize", "gttsize-misspelt", "page-pool", "vm-size"])

    def test_memory_that_is_held_and_by_whom(self):
        with subprocess.Popen(["/bin/sleep", "60"]) as holder:
            self.addCleanup(holder.kill)
            m = self.healthy()
            m.put("sys/class/drm/card0/device/mem_info_vram_used", 20 * GIB)
            m.put(m.kfd_path(holder.pid), 19 * GIB)
            found, _ = self.findings(root=m.top)
            holder.kill()
        self.assertEqual(list(found), ["vram-held"])
        self.assertIn(f"the largest process is sleep, pid {holder.pid}, with 19.00 GiB",
                      found["vram-held"]["say"])
        self.assertIn(f"kill {holder.pid}", found["vram-held"]["mend"])

    def test_full_by_somebody_unseen(self):
        m = self.healthy()
        m.put("sys/class/drm/card0/device/mem_info_vram_used", 23 * GIB)
        found, _ = self.findings(root=m.top)
        self.assertEqual(list(found), ["vram-full"])
        self.assertIn("fuser", found["vram-full"]["mend"])

    def test_what_the_kernel_log_says_already(self):
        m = self.healthy().put("dev/kmsg", "[ 812.100000] amdgpu 0000:03:00.0: amdgpu: ring sdma0 "
                               "timeout, signaled seq=8120, emitted seq=8122\n")
        found, _ = self.findings(root=m.top)
        self.assertEqual(list(found), ["failed-before"])
        self.assertIn("ring sdma0 timeout", found["failed-before"]["say"])

    def test_a_hostile_machine_prints_one_line_each(self):
        m = self.healthy().put("dev/kmsg", "[ 812.1] amdgpu 0000:03:00.0: amdgpu: ring sdma0 timeout, "
                               "signaled seq=1, emitted seq=\x1b[31m\x07\n")
        self.environ["GPU_MAX_ALLOC_PERCENT"] = "1\x1b]0;x\x07\n2"
        done = self.doctor(root=m.top)
        self.assertEqual(done.returncode, 1)
        self.assertNotIn("\x1b", done.stdout)
        self.assertEqual(done.stdout.count("\n"), 3 * 2 + 1, done.stdout)

    @unittest.skipUnless(os.geteuid() == 0, "only root can become somebody else")
    def test_the_groups_of_the_devices(self):
        support.need_ordinary_user(self)
        m = self.healthy()
        for name in ("dev/kfd", "dev/dri/renderD128"):
            os.chmod(m.at(name), 0o660)
            os.chown(m.at(name), 0, 44)  # the group video of every Debian
        os.chmod(self.folder, 0o755)
        tmp = self.path("tmp")
        os.mkdir(tmp)
        os.chmod(tmp, 0o777)
        self.environ.update(TMPDIR=tmp, HOME="/nonexistent")

        def become(groups):
            def change():
                os.setgroups(groups)
                os.setgid(65534)
                os.setuid(65534)
            return change
        expected = {"kfd-access", "render-access"}
        found, _ = self.findings(root=m.top, preexec_fn=become([]))
        self.assertEqual(set(found) & expected, expected)
        self.assertIn("usermod -aG video $USER", found["kfd-access"]["mend"])
        self.assertIn("/dev/dri/renderD128 of GPU 0", found["render-access"]["say"])
        found, _ = self.findings(root=m.top, preexec_fn=become([44]))
        self.assertEqual(set(found) & expected, set())


class Software(Doctor):
    """A Python environment with the files of PyTorch that doctor reads."""

    def wheel(self, version, hip="6.4.43482", cuda=None, targets=("gfx1100", "gfx90a")):
        top = self.path("venv-" + version)
        ours = subprocess.run(["/usr/bin/python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
                              capture_output=True, text=True, check=True).stdout.strip()
        site = os.path.join(top, f"lib/python{ours}/site-packages")
        os.makedirs(os.path.join(top, "bin"))
        os.symlink("/usr/bin/python3", os.path.join(top, "bin/python3"))
        os.makedirs(os.path.join(site, "torch/lib/rocblas/library"))

        def put(name, text=""):
            with open(os.path.join(site, name), "w", encoding="utf-8") as file:
                file.write(text)
        with open(os.path.join(top, "pyvenv.cfg"), "w", encoding="utf-8") as file:
            file.write(f"home = /usr/bin\nversion = {ours}.2\n")
        put("torch/version.py", f"__version__ = '{version}'\nhip = {hip!r}\ncuda = {cuda!r}\n")
        if hip:
            put("torch/lib/libamdhip64.so")
        for gfx in targets:
            put(f"torch/lib/rocblas/library/TensileLibrary_lazy_{gfx}.dat")
        return os.path.join(top, "bin/python3"), site

    def ask(self, version, environ=None, **wheel):
        python, _ = self.wheel(version, **wheel)
        self.environ.update(environ or {})
        found, report = self.findings(root=self.healthy().top, command=(python, "train.py"))
        for name in environ or {}:
            del self.environ[name]
        return found, report

    def test_a_right_one(self):
        found, report = self.ask("2.9.1+rocm6.4",
                                 {"PYTORCH_ALLOC_CONF": "max_split_size_mb:256"})
        self.assertEqual(found, {})
        self.assertLess(len(report["not_asked"]), 8, report["not_asked"])

    def test_options_that_this_version_ignores(self):
        found, _ = self.ask("2.6.0+rocm6.2", {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})
        self.assertEqual(list(found), ["alloc-not-read", "rocm-single-cap"])
        self.assertIn("PyTorch 2.6.0+rocm6.2 does not read PYTORCH_CUDA_ALLOC_CONF",
                      found["alloc-not-read"]["say"])
        self.assertIn("PYTORCH_HIP_ALLOC_CONF", found["alloc-not-read"]["mend"])

    def test_options_that_do_harm(self):
        found, _ = self.ask("2.12.0+rocm7.2",
                            {"PYTORCH_ALLOC_CONF": "expandable_segments:True,max_split_size_mb:256"})
        self.assertEqual(list(found), ["alloc-expandable-split"])
        found, _ = self.ask("2.8.0+rocm6.4", {"PYTORCH_HIP_ALLOC_CONF": "expandable_segments:True",
                                              "HSA_OVERRIDE_GFX_VERSION": "10.3.0"})
        self.assertEqual(sorted(found), ["alloc-expandable-ignored", "override-major"])

    def test_a_build_for_another_vendor_or_chip(self):
        found, _ = self.ask("2.9.1", hip=None, cuda="12.8")
        self.assertEqual(list(found), ["torch-cuda"])
        found, _ = self.ask("2.9.0+rocm6.4", targets=("gfx1030", "gfx90a"))
        self.assertEqual(list(found), ["torch-no-kernels"])
        self.assertIn("gfx1030 gfx90a", found["torch-no-kernels"]["say"])

    def test_two_runtimes(self):
        python, _ = self.wheel("2.9.1+rocm6.4")
        tree = self.path("opt/rocm-7.0.2")
        for name in ("lib", ".info"):
            os.makedirs(os.path.join(tree, name))
        self.write("opt/rocm-7.0.2/.info/version", "7.0.2\n")
        self.write("opt/rocm-7.0.2/lib/libamdhip64.so.7", "")
        self.environ["LD_LIBRARY_PATH"] = f"/nonexistent:{tree}/lib"
        found, _ = self.findings(root=self.healthy().top, command=(python,))
        self.assertEqual(list(found), ["runtime-mix"])
        self.assertIn("7.0.2", found["runtime-mix"]["say"])
        self.assertIn("6.4", found["runtime-mix"]["say"])


class CommandLine(Doctor):
    def test_this_machine(self):
        start = time.monotonic()
        done = self.verb("doctor")
        self.assertIn(done.returncode, (0, 1, 2), done.stderr)
        self.assertEqual(done.stderr, "")
        self.assertLess(time.monotonic() - start, 20)
        self.assertTrue(done.stdout.splitlines()[-1].startswith("rocmcrash: "))

    def traced_by(self, *prefix, env=None, **kwargs):
        done = subprocess.run([*prefix, support.ROCMCRASH, "doctor", "--json", "--", "/bin/true"], capture_output=True,
                              text=True, check=False, env=env or self.environ, timeout=60, **kwargs)
        self.assertIn(done.returncode, (0, 1, 2), done.stderr)
        return {f["id"]: f for f in json.loads(done.stdout)["findings"]}.get("trace-refused")

    def test_tracing_is_tried(self):
        """A seccomp filter or a missing capability can forbid ptrace(2). Only a call shows that."""
        allowed = subprocess.run([support.PYTHON, "-c", SEIZE], check=False).returncode == 0
        self.assertEqual(self.traced_by() is None, allowed)
        found = self.traced_by(support.PYTHON, "-c", NO_PTRACE)
        self.assertIn("Operation not permitted", found["say"])
        self.assertIn("filter of system calls", found["mend"])
        self.assertIn("Bad system call", self.traced_by(support.PYTHON, "-c", NO_PTRACE, "kill")["say"])

    def test_an_ordinary_user_may_trace_his_own(self):
        support.need_ordinary_user(self)
        if subprocess.run([support.PYTHON, "-c", SEIZE], check=False, user=support.NOBODY).returncode != 0:
            self.skipTest("an ordinary user may not trace his own children here")
        env = {name: value for name, value in self.environ.items() if name != "TMPDIR" and not name.startswith("XDG_")}
        self.assertIsNone(self.traced_by(env=env, user=support.NOBODY, group=support.NOBODY, extra_groups=[]))

    def test_nothing_is_left_behind(self):
        self.environ["TMPDIR"] = self.path("tmp")
        os.mkdir(self.path("tmp"))
        self.verb("doctor")
        self.assertEqual(os.listdir(self.path("tmp")), [])

    def test_help_and_errors(self):
        done = self.verb("doctor", "--help")
        self.assertEqual(done.returncode, 0)
        for word in ("--json", "--all", "--facts", "--rules", "Exit status: 0", "-- COMMAND"):
            self.assertIn(word, done.stdout)
        for arguments, complaint in ((["--no"], "unknown option"), (["python3"], "a command needs '--' before it: rocmcrash doctor -- python3"),
                                     (["--rules=/nonexistent"], "No such file"),
                                     (["--facts=/nonexistent"], "No such file")):
            done = self.verb("doctor", *arguments)
            self.assertEqual((done.returncode, done.stdout), (125, ""), arguments)
            self.assertIn(complaint, done.stderr)

    def test_a_wrong_rule_file_is_named_with_its_line(self):
        with open(os.path.join(SOURCE, "templates/doctor.json"), encoding="utf-8") as file:
            rules = file.read()
        wrong = self.write("own.json", rules.replace("host.rdma_devices > 0", "host.rdma_devices >", 1))
        done = self.verb("doctor", f"--rules={wrong}")
        self.assertEqual(done.returncode, 125)
        line = rules[:rules.index('"id": "memlock-rdma"')].count("\n") + 1
        self.assertIn(f"own.json:{line}: ", done.stderr)
        self.assertIn("memlock-rdma", done.stderr)

    def test_facts_of_another_machine(self):
        facts = self.write("facts.json", json.dumps({
            "gpu.present": True, "gpu.count": 1, "gpu.0.is_apu": True, "gpu.0.kfd_node": 1,
            "host.kfd_topology": True, "host.mem_total_bytes": 125 * GIB,
            "host.ttm_limit_bytes": 62 * GIB}))
        found, _ = self.findings(f"--facts={facts}")
        self.assertEqual(list(found), ["ttm-half"])

    def test_facts_of_a_bundle(self):
        """Memory that the failing program held is not "in use before anything runs"."""
        def used(value, when, name="gpu.0.vram.used_bytes"):
            return {"name": name, "value": value, "when": when, "source": "test"}
        def found(*facts):
            path = self.write("facts.json", json.dumps({"format": 1, "facts": [
                used(True, "static", "gpu.present"), used(1, "static", "gpu.count"), used(False, "static", "gpu.0.is_apu"),
                used(1, "static", "gpu.0.kfd_node"), used(True, "static", "host.kfd_topology"),
                used(24 * GIB, "baseline", "gpu.0.vram.total_bytes"), *facts]}))
            return self.findings(f"--facts={path}")[0]
        own = (used(23 * GIB, "impact"), used(23 * GIB, "peak"), used(7, "impact", "others.largest_pid"))
        self.assertEqual(list(found(used(GIB, "baseline"), *own)), [])
        self.assertIn("vram-full", found(used(23 * GIB, "baseline"), *own))

    def test_all_says_what_could_not_be_asked(self):
        short = self.doctor(root=self.healthy().top)
        full = self.doctor("--all", root=self.healthy("again").top)
        undecided = [line for line in full.stdout.splitlines() if line.startswith("????")]
        self.assertIn(f", {len(undecided)} of them could not be asked here", short.stdout)
        self.assertTrue(undecided and all(": " in line for line in undecided))


if __name__ == "__main__":
    support.main()
