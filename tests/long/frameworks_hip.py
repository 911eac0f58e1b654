#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime, JAX and CuPy for ROCm, from their public wheels, on the emulated GPU under rocmcrash: six endings each.

usage: frameworks_hip.py --wheels DIR [--keep DIR] [FRAMEWORK.ENDING...]     with ROCMCRASH_BUILD; in the chroot of rocm_72

DIR holds the unpacked wheels. Beside the class the figures are compared with the emulator's journal, and for a limit
or another holder the same program runs again without it: it has to end well then. Exit 77: no wheels.
"""
import argparse
import contextlib
import glob
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "emulator")]
import machine  # noqa: E402
import stub_libraries  # noqa: E402

BUILD = os.environ.get("ROCMCRASH_BUILD", "build/dev")
PROGRAM = os.path.join(HERE, "framework_programs.py")
GIB, MIB = 1 << 30, 1 << 20
VRAM = {"cupy": 2 * GIB, "jax": 2 * GIB, "onnx": GIB}  # one ONNX model is less than 2 GiB
HELD_SHARE = 0.7
ENDINGS = ("capacity", "limit", "leak", "fragmentation", "held", "healthy")
# None: nothing may be left. The request that the program makes, in MiB, where the message is to tell it.
EXPECTED = {"capacity": {"capacity"}, "limit": {"capacity", "resource-limit"}, "leak": {"leak"},
            "fragmentation": {"fragmentation"}, "held": {"held-by-other"}, "healthy": None}
REQUESTS = {"cupy.capacity": 1400, "cupy.limit": 100, "cupy.fragmentation": 400, "cupy.leak": (8, 60), "cupy.held": 100,
            "jax.capacity": 1000, "jax.limit": 100, "jax.fragmentation": 300, "jax.leak": (16, 60), "jax.held": 100,
            "onnx.limit": 100, "onnx.capacity": 200}
DEADLINE_S = 180
SMALL_FIGURE = 4 * MIB  # what the runtime takes and gives back around a refusal


class Run:
    def __init__(self, name, wheels, stubs, folder):
        self.framework, self.ending = name.split(".")
        self.name, self.folder = name, folder
        self.machine = machine.make(os.path.join(folder, "machine"), ["gfx1100"], vram=VRAM[self.framework])
        self.keeper = os.path.join(BUILD, "tests", "emulator", "emulator-keeper")
        self.environ = dict(os.environ, PYTHONPATH=wheels, LD_LIBRARY_PATH=stubs, PYTHONDONTWRITEBYTECODE="1",
                            ROCMCRASH_STATE_DIR=os.path.join(folder, "state"), JAX_PLATFORMS="rocm")
        for name_ in ("EMULATOR_FAULTS", "ROCMCRASH_SYSROOT"):
            self.environ.pop(name_, None)

    @contextlib.contextmanager
    def holder(self):
        if self.ending != "held":
            yield
            return
        mib = int(VRAM[self.framework] * HELD_SHARE) // MIB
        other = subprocess.Popen([self.keeper, self.machine, sys.executable, PROGRAM, "hold", str(mib)], env=self.environ,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            if other.stdout.readline().strip() != "ready":
                raise RuntimeError("the other process could not take its share")
            yield
        finally:
            other.communicate(timeout=60)

    def bare(self, ending, vram=None):
        """Ends it well without rocmcrash? On a new machine."""
        root = machine.make(os.path.join(self.folder, "again"), ["gfx1100"], vram=vram or VRAM[self.framework])
        done = subprocess.run([self.keeper, root, sys.executable, PROGRAM, self.framework, ending], env=self.environ,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=DEADLINE_S, check=False)
        return done.returncode == 0

    def recorded(self):
        """(status, stderr, the bundle's files or None)"""
        out = os.path.join(self.folder, "out")
        os.makedirs(out)
        with self.holder():
            done = subprocess.run([self.keeper, self.machine, os.path.join(BUILD, "bin", "rocmcrash"), "--output-dir", out,
                                   "--", sys.executable, PROGRAM, self.framework, self.ending], env=self.environ,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=DEADLINE_S,
                                  check=False)
        deadline = time.monotonic() + (60 if done.returncode else 3)
        while not glob.glob(out + "/*.tar.gz") and time.monotonic() < deadline:
            time.sleep(0.1)
        return done.returncode, done.stderr, files_of(out)

    def used_since_the_refusal(self):
        """VRAM in use by the journal, from the last refusal on: an arena backs off, and takes smaller pieces then."""
        with open(os.path.join(self.machine, "emulator", "log.jsonl"), encoding="utf-8") as file:
            records = [r for r in map(json.loads, (line for line in file if line.endswith("}\n"))) if "vram_used" in r]
        refused = [i for i, r in enumerate(records) if r["event"] == "alloc" and r["result"] < 0]
        return [r["vram_used"] for r in records[refused[-1]:]] if refused else []


def files_of(out):
    paths = glob.glob(out + "/*.tar.gz")
    if not paths:
        return None
    with tarfile.open(paths[0]) as tar:
        return {m.name.split("/", 1)[1]: tar.extractfile(m).read() for m in tar.getmembers() if m.isfile()}


def facts_of(files):
    return {(f["name"], f.get("when")): f.get("value") for f in json.loads(files["facts.json"])["facts"]}


def vram_trouble(facts, truth):
    """How the VRAM in use differs from the journal, "" if it does not. A counter that was read when less was taken: the ledger has a lower bound."""
    used, least = facts.get(("gpu.0.vram.used_bytes", "impact")), facts.get(("ledger.refused.gpu_live_bytes", "impact"), 0)
    if used is None or not truth:
        return ""
    good = least <= max(truth) if used < least else min(abs(used - each) for each in truth) <= SMALL_FIGURE
    return "" if good else f"VRAM used {used}, at least {least} by the ledger, by the journal {truth[0]}"


def check_figures(run, files):
    """The differences from the program's request and the driver's decision."""
    facts = facts_of(files)
    said = next((value for (name, _), value in facts.items() if name == "oom.requested_bytes"), None)
    asked = REQUESTS.get(run.name)
    if asked is not None and said not in [mib * MIB for mib in (asked if isinstance(asked, tuple) else (asked,))]:
        yield f"requested: {said}, asked for {asked} MiB"
    trouble = vram_trouble(facts, run.used_since_the_refusal())
    if trouble:
        yield trouble
    if run.ending == "held":
        others = facts.get(("gpu.0.others_kfd_vram_bytes", "impact"), facts.get(("others.vram_bytes", "impact")))
        if others is not None and abs(others - VRAM[run.framework] * HELD_SHARE) > 64 * MIB:
            yield f"the others hold {others}"


def check(run):
    """(right, wrong at high, text)"""
    status, stderr, files = run.recorded()
    expected = EXPECTED[run.ending]
    if expected is None:
        good = status == 0 and files is None
        return good, False, f"status {status}" + (", a bundle" if files else "")
    if files is None:
        return False, False, f"status {status}, no bundle: {stderr[-300:]}"
    verdict = json.loads(files["verdict.json"])
    right = verdict["class"] in expected
    troubles = list(check_figures(run, files))
    if run.ending in ("limit", "held"):
        cured = run.bare("healthy" if run.ending == "limit" else run.ending)
        troubles += [] if cured else ["does not end well without it"]
    advice = (verdict.get("advice") or [""])[0]
    text = (f"{verdict['class']} ({verdict.get('subclass', '')}) {verdict['confidence']}: {verdict['sentence']} "
            f"| try: {advice[:160]}" + "".join(" | BAD: " + t for t in troubles))
    return right and not troubles, not right and verdict["confidence"] == "high", text


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheels", default="")
    parser.add_argument("--keep", metavar="DIR", help="copy every bundle to DIR")
    parser.add_argument("names", nargs="*", metavar="FRAMEWORK.ENDING")
    options = parser.parse_args()
    frameworks = [f for f, module in (("cupy", "cupy"), ("jax", "jax"), ("onnx", "onnxruntime"))
                  if os.path.isdir(os.path.join(options.wheels, module))]
    if not frameworks:
        print("frameworks_hip.py: no wheels (--wheels)")
        return 77
    names = options.names or [f"{f}.{e}" for f in frameworks for e in ENDINGS]
    good = wrong = 0
    with tempfile.TemporaryDirectory(prefix="rc-frameworks-") as folder:
        stubs = os.path.join(folder, "stubs")
        stub_libraries.make_stubs(options.wheels, stubs)
        for name in names:
            own = os.path.join(folder, name)
            os.makedirs(own)
            right, at_high, text = check(Run(name, options.wheels, stubs, own))
            for bundle in glob.glob(own + "/out/*.tar.gz") if options.keep else ():
                shutil.copy(bundle, os.path.join(options.keep, name + ".tar.gz"))
            good += right
            wrong += at_high
            print(f"{'ok  ' if right else 'FAIL'} {name}: {text}", flush=True)
    print(f"{good} of {len(names)} as expected, {wrong} wrong at high confidence")
    return 0 if good == len(names) and wrong == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
