#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a sample under rocmcrash on an emulated machine made for it: a GPU for those who have none.

usage: samples/on_emulator.py SAMPLE [--near-miss] [--silent] [--bare] [--keep FOLDER] ...
       samples/on_emulator.py --list

The table below says for each sample which machine it needs and which class its bundle has to have;
tests/integration/test_samples.py checks it.
"""
import argparse
import contextlib
import dataclasses
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(SOURCE, "tests", "emulator"))
import machine  # noqa: E402

MIB, GIB = machine.MIB, machine.GIB
DEFAULT_MODEL = os.environ.get("SAMPLES_MODEL", "gfx90a")
HANG_RESET_MS = 300
KEPT = ("bundles", "machine", "state")


@dataclasses.dataclass
class Sample:
    program: str
    expected: str        # class of the bundle's verdict
    subclass: str = ""   # part of its subclass; "" = any
    near_miss: str = ""  # class of the near miss, "" = any but the expected one
    machine: dict = dataclasses.field(default_factory=lambda: {"vram": 2 * GIB})
    apu: bool = False
    faults: str = ""
    near_miss_faults: str = ""
    confidence: tuple = ("high",)
    hold: int = 0        # percent of the GPU that a process outside holds
    near_miss_hold: int = 0
    environ: dict = dataclasses.field(default_factory=dict)


def hang(moment):
    return f"hang on={moment} reset-ms={HANG_RESET_MS}"


SAMPLES = {
    "capacity": Sample("capacity", "capacity", near_miss="app-bug"),
    "leak": Sample("leak", "leak", near_miss="capacity"),
    # Its allocator has no statistics that we know: a message alone cannot tell idle pieces from growth.
    "fragmentation": Sample("fragmentation", "fragmentation", near_miss="capacity",
                            confidence=("low", "medium", "high")),
    "held": Sample("held", "held-by-other", near_miss="capacity", hold=80, near_miss_hold=10),
    "oversize": Sample("oversize", "capacity", "request larger than the device",
                       near_miss="capacity"),
    "pinned": Sample("pinned", "resource-limit", "pinned host memory", near_miss="capacity",
                     machine={"vram": 2 * GIB, "ram": 6 * GIB}),
    "descriptors": Sample("descriptors", "resource-limit", "file descriptors",
                          near_miss="capacity", faults="fds", near_miss_faults="fds"),
    "mappings": Sample("mappings", "resource-limit", "mappings", near_miss="capacity"),
    "gtt_limit": Sample("gtt_limit", "gtt-limit", near_miss="resource-limit", apu=True,
                        machine={"vram": 512 * MIB, "ram": 16 * GIB, "pages_limit": 1 << 19}),
    "copy_engine": Sample("copy_engine", "sdma", near_miss="gpu-hang", faults=hang("copy"),
                          near_miss_faults=hang("dispatch")),
    "hang": Sample("hang", "gpu-hang", faults=hang("dispatch") + " nth=3",
                   near_miss_faults=hang("dispatch") + " nth=99"),
    "page_fault": Sample("page_fault", "page-fault", "use after free"),
    "page_fault_past_end": Sample("page_fault", "page-fault", "past the end",
                                  environ={"PAGE_FAULT": "past-end"}),
    "page_fault_null": Sample("page_fault", "page-fault", "null pointer",
                              environ={"PAGE_FAULT": "null"}),
}


def build_folder():
    given = os.environ.get("ROCMCRASH_BUILD")
    for folder in [given] if given else sorted(glob.glob(os.path.join(SOURCE, "build", "*"))):
        if (os.path.exists(os.path.join(folder, "samples", "capacity"))
                and os.path.exists(os.path.join(folder, "bin", "rocmcrash"))):
            return folder
    sys.exit("on_emulator.py: the samples are not built; tests/run or samples/demo does it")


class Run:
    """The emulated machine of one sample, and what runs on it."""

    def __init__(self, name, build, folder, *, near_miss=False, model=DEFAULT_MODEL,
                 full_size=False):
        self.name, self.sample, self.near_miss = name, SAMPLES[name], near_miss
        self.build, self.folder = build, folder
        self.keeper = os.path.join(build, "tests", "emulator", "emulator-keeper")
        self.program = os.path.join(build, "samples", self.sample.program)
        self.model = "gfx1151" if self.sample.apu else model
        self.machine = os.path.join(folder, "machine")
        settings = dict(self.sample.machine)
        if full_size and not self.sample.apu:
            del settings["vram"]
        machine.make(self.machine, [self.model], **settings)
        faults = self.sample.near_miss_faults if near_miss else self.sample.faults
        with open(os.path.join(self.machine, "emulator", "faults"), "w", encoding="ascii") as file:
            file.write(faults + "\n" if faults else "")

    def environ(self, more=None):
        environ = dict(os.environ, **self.sample.environ)
        environ.pop("ROCMCRASH_SYSROOT", None)
        environ.pop("EMULATOR_FAULTS", None)
        if override(self.model) is not None:
            environ["HSA_OVERRIDE_GFX_VERSION"] = override(self.model)
        environ.update(more or {})
        return environ

    @contextlib.contextmanager
    def holder(self):
        """The other process, outside of what rocmcrash watches."""
        percent = self.sample.near_miss_hold if self.near_miss else self.sample.hold
        if percent == 0:
            yield None
            return
        process = subprocess.Popen([self.keeper, self.machine, self.program, "--hold", str(percent)],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                   env=self.environ())
        try:
            if process.stdout.readline().strip() != "ready":
                raise RuntimeError("the other process could not take its share")
            yield process
        finally:
            process.communicate(timeout=30)

    def command(self, *arguments, bare=False, options=()):
        program = [self.program, *(["--near-miss"] if self.near_miss else []), *arguments]
        if bare:
            return [self.keeper, self.machine, *program]
        out = os.path.join(self.folder, "bundles")
        os.makedirs(out, exist_ok=True)
        return [self.keeper, self.machine, os.path.join(self.build, "bin", "rocmcrash"),
                "--output-dir", out, *options, "--", *program]

    def run(self, *arguments, bare=False, options=(), environ=None, timeout=None, **kwargs):
        """With a timeout it gets a session of its own, and nothing of it is left when that is over."""
        with self.holder():
            command = self.command(*arguments, bare=bare, options=options)
            if kwargs.pop("capture_output", False):
                kwargs.update(stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            process = subprocess.Popen(command, env=self.environ(environ),
                                       start_new_session=timeout is not None, **kwargs)
            try:
                stdout, stderr = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                raise
            return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)

    def bundles(self):
        return sorted(glob.glob(os.path.join(self.folder, "bundles", "*.tar.gz")))


def journal(root):
    """The decisions of the emulated kernel, in order."""
    with open(os.path.join(root, "emulator", "log.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


def runtime_minor():
    """X of libhsa-runtime64.so.1.X: 5 = ROCm 5.2, 13 = 6.1, 15 = 6.4."""
    found = glob.glob("/usr/lib/*/libhsa-runtime64.so.1.*") + glob.glob(
        "/opt/rocm/lib/libhsa-runtime64.so.1.*")
    numbers = [name.split(".so.1.")[1].split(".")[0] for name in found]
    return max((int(n) for n in numbers if n.isdigit()), default=0)


def override(model):
    """HSA_OVERRIDE_GFX_VERSION where the runtime does not know the chip, as people set it on real
    ones; None where it does."""
    if runtime_minor() < 6:
        return {"gfx1100": "10.3.0", "gfx1151": "10.3.0", "gfx942": "9.0.10"}.get(model)
    return "11.0.0" if model == "gfx1151" and runtime_minor() < 15 else None


def make_empty(folder):
    """Deletes what an earlier run kept there, and nothing else."""
    os.makedirs(folder, exist_ok=True)
    others = set(os.listdir(folder)) - set(KEPT)
    if others:
        sys.exit(f"on_emulator.py: {folder} holds something else ({min(others)}); give another folder")
    for name in KEPT:
        shutil.rmtree(os.path.join(folder, name), ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sample", nargs="?", choices=sorted(SAMPLES), metavar="SAMPLE")
    parser.add_argument("--list", action="store_true", help="the samples and their classes")
    parser.add_argument("--near-miss", action="store_true", help="the failure of another class")
    parser.add_argument("--silent", action="store_true", help="the program writes no message")
    parser.add_argument("--bare", action="store_true", help="without rocmcrash around it")
    parser.add_argument("--model", default=DEFAULT_MODEL, metavar="MODEL",
                        choices=["card", *sorted(machine.MODELS)],
                        help="the chip; card: a graphics card that the installed runtime knows")
    parser.add_argument("--full-size", action="store_true", help="with the memory of the real one")
    parser.add_argument("--keep", metavar="FOLDER", help="for machine and bundle; those of an earlier run are deleted")
    options = parser.parse_args()
    if options.list or options.sample is None:
        for name, sample in SAMPLES.items():
            print(f"{name:20} {sample.expected:15} {sample.subclass}")
        return 0
    folder = options.keep or tempfile.mkdtemp(prefix="rocmcrash-sample-")
    if options.keep:
        make_empty(folder)
    if options.model == "card":
        options.model = "gfx1030" if runtime_minor() < 6 else "gfx1100"
    run = Run(options.sample, build_folder(), os.path.abspath(folder),
              near_miss=options.near_miss, model=options.model, full_size=options.full_size)
    done = run.run(*(["--silent"] if options.silent else []), bare=options.bare,
                   options=["--always"] if options.silent else [],
                   environ={"ROCMCRASH_STATE_DIR": os.path.join(folder, "state")})
    print(f"== it ended with status {done.returncode}")
    if not options.keep:
        print(f"== machine, journal and bundle are in {folder}")
    for bundle in run.bundles() if not options.keep else ():
        print(f"== rocmcrash show {bundle}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
