# SPDX-License-Identifier: Apache-2.0
"""Shared by the emulator's tests: a machine in a folder of its own, programs that run on it and
answer commands, the journal as a list of dicts, the live counters."""

import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(1, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import cases  # noqa: E402
import import_machine  # noqa: E402
import machine  # noqa: E402

BUILD = os.environ.get("EMULATOR_BUILD", "")
SOURCE = os.environ.get("ROCMCRASH_SOURCE", "")
ROCMCRASH = os.environ.get("ROCMCRASH", "")
RECORDED = os.path.join(BUILD, "..", "..", "recorded", "machines")
LIBRARY = os.path.join(BUILD, "librocmcrash-emulator.so")
KEEPER = os.path.join(BUILD, "emulator-keeper")
MIB, GIB = machine.MIB, machine.GIB
# Debian 12's ROCr 5.2.3 knows neither gfx1100 nor gfx1151 nor gfx942. People use this override there, too.
OVERRIDE = {"gfx1100": "10.3.0", "gfx1151": "10.3.0", "gfx942": "9.0.10"}
DEADLINE_S = 30.0


def program(name):
    """Path of a test program; skips the test if it could not be built."""
    path = os.path.join(BUILD, name)
    if not os.path.exists(path):
        package = {"hsa_memory": "libhsa-runtime-dev", "hip_memory": "libamdhip64-dev"}.get(name)
        needs = f": it needs the package {package}" if package else ""
        raise unittest.SkipTest(f"{name} is not built here{needs}")
    return path


def tool(name, package):
    path = shutil.which(name)
    if path is None:
        raise unittest.SkipTest(f"{name} is not installed here (package {package})")
    return path


def faults_are_errors():
    """From ROCm 7.2 on the program is not ended by a page fault: HIP's calls give hipErrorIllegalAddress."""
    names = glob.glob("/usr/lib/*/libamdhip64.so.[0-9]*") + glob.glob("/opt/rocm/lib/libamdhip64.so.[0-9]*")
    majors = [name.split(".so.")[1].split(".")[0] for name in names]
    return max((int(major) for major in majors), default=0) >= 7


def wait_for(condition, what):
    deadline = time.monotonic() + DEADLINE_S
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError("timed out waiting for " + what)
        time.sleep(0.002)  # the polling interval; the condition decides


class Running:
    """A program that answers each command with a line."""

    def __init__(self, process):
        self.process = process
        self.ready = self.answer()

    def answer(self):
        return self.process.stdout.readline().split()

    def ask(self, *words):
        self.send(*words)
        return self.answer()

    def send(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def finish(self):
        """Closes the input; status, the rest of the output, stderr."""
        stdout, stderr = self.process.communicate(timeout=DEADLINE_S)
        return self.process.returncode, stdout, stderr

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate(timeout=DEADLINE_S)


def record_of(line):
    """A journal's line as a dict. A process that was killed in write(2) leaves a cut record, and the next
    process's record follows on the same line. None if that record is cut, too."""
    try:
        return json.loads(line)
    except json.JSONDecodeError:
        at = line.rfind('{"seq":')
        return json.loads(line[at:]) if at >= 0 else None


class Machine:
    def __init__(self, root):
        self.root = root

    def path(self, *names):
        return os.path.join(self.root, *names)

    def environ(self, faults=None, preload=LIBRARY, **more):
        environ = dict(os.environ)
        for name in ("EMULATOR_FAULTS", "EMULATOR_LOG", "ROCMCRASH_SYSROOT"):
            environ.pop(name, None)
        # rocmcrash's own processes read the emulated machine, too.
        environ.update(EMULATOR_ROOT=self.root, LD_PRELOAD=preload, ROCMCRASH_LOADER="keep")
        environ.update(more)
        if faults is not None:
            environ["EMULATOR_FAULTS"] = faults
        return environ

    def start(self, *argv, faults=None, preload=LIBRARY, environ=None, **kwargs):
        return Running(subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=self.environ(faults, preload, **(environ or {})), **kwargs))

    def run(self, *argv, faults=None, environ=None, **kwargs):
        return subprocess.run(argv, env=self.environ(faults, **(environ or {})), text=True,
                              capture_output=True, timeout=DEADLINE_S, check=False, **kwargs)

    def journal(self, event=None, **fields):
        """The records of the journal whose members have the given values."""
        try:
            with open(self.path("emulator/log.jsonl"), encoding="utf-8") as file:
                # The last line may be half written, and so may the line of a process that was killed.
                records = [record for record in map(record_of, (line for line in file if line.endswith("\n")))
                           if record is not None]
        except FileNotFoundError:
            return []
        if event is not None:
            fields["event"] = event
        return [r for r in records if all(r.get(key) == value for key, value in fields.items())]

    def read(self, *names):
        with open(self.path(*names), encoding="utf-8", errors="replace") as file:
            return file.read()

    def counter(self, name, card=0):
        return int(self.read(f"sys/class/drm/card{card}/device/mem_info_{name}"))

    def process_vram(self, pid, gpu_id=51966):
        return int(self.read(f"sys/class/kfd/kfd/proc/{pid}/vram_{gpu_id}"))

    def kernel_log(self):
        return [line.split(";", 1)[1] for line in self.read("dev/kmsg").splitlines()]

    def reap(self):
        subprocess.run([KEEPER, "--once", self.root], check=True, timeout=DEADLINE_S)


class Case(unittest.TestCase):
    """Each test has machines of its own, and leaves /dev/shm as it was."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="rc-emulator-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.running = []
        self.addCleanup(self.end_programs)
        before = set(os.listdir("/dev/shm"))
        self.addCleanup(self.check_shm, before)

    def check_shm(self, before):
        left = {name for name in set(os.listdir("/dev/shm")) - before
                if "hsakmt" in name or "rocm" in name}
        self.assertEqual(left, set())

    def end_programs(self):
        for running in self.running:
            if running.process.poll() is None:
                running.kill()
            for stream in (running.process.stdin, running.process.stdout, running.process.stderr):
                stream.close()

    def machine(self, *models, name="machine", **settings):
        """keeper=False: the memory of dead processes is freed when the next process looks."""
        settings.setdefault("base", 32 * MIB)
        keep = settings.pop("keeper", True)
        host = Machine(machine.make(os.path.join(self.folder, name), models or ("gfx90a",),
                                    **settings))
        if keep:
            self.keep(host)
        return host

    def keep(self, host):
        keeper = subprocess.Popen([KEEPER, host.root], stdin=subprocess.PIPE)
        self.addCleanup(keeper.communicate, timeout=DEADLINE_S)

    def recorded(self, fixture, **settings):
        root, gpus, _ = import_machine.make(os.path.join(self.folder, "machine"),
                                            os.path.join(RECORDED, fixture), **settings)
        host = Machine(root)
        self.keep(host)
        return host, gpus

    def start(self, host, *argv, **kwargs):
        running = host.start(*argv, **kwargs)
        self.running.append(running)
        return running

    def wait_for_counter(self, host, name, value, card=0):
        wait_for(lambda: host.counter(name, card) == value, f"{name} to be {value}")

    def limit_of(self, host):
        return host.journal("alloc")[-1]["vram_limit"]


main = cases.main
