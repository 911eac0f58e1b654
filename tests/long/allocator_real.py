#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The laboratory's allocator against PyTorch's own code on the emulated GPU: the same bytes at every step?

usage: allocator_real.py --sources DIR [--count N] [--seed S]     with ROCMCRASH_BUILD

DIR is a tree of PyTorch 2.4 (its folders c10 and torch/utils/hipify), which is not part of this project; it is
built in DIR/build-emulated in a minute. Runs where HIP 7 is: in the chroot of rocm_72 (--shell). Exit 77: no sources.
"""
import argparse
import glob
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "lab"), os.path.join(HERE, "..", "emulator")]
import caching_allocator  # noqa: E402
import families  # noqa: E402,F401
import machine  # noqa: E402
from program import SEEN, UNSEEN, make_programs  # noqa: E402

BUILD = os.environ.get("ROCMCRASH_BUILD", "build/dev")
VRAM = 8 << 30
OPERATIONS_MAX = 40000
TOLERANCE = 0.02
COMMON = ["g++", "-std=c++17", "-O1", "-fPIC", "-w", "-include", "cstdint", "-include", "algorithm", "-DFMT_HEADER_ONLY", "-DNDEBUG"]
# USE_MACA: a fork whose sources can be had wants one vendor named. The driver API would ask for processes through SMI.
OF_CORE = ["-DC10_BUILD_MAIN_LIB", "-DUSE_MACA"]
OF_HIP = ["-D__HIP_PLATFORM_AMD__", "-DUSE_ROCM", "-DHIPBLAS_V2", "-DTORCH_HIP_VERSION=702", "-DC10_CUDA_BUILD_MAIN_LIB",
          "-DROCM_VERSION=70204", "-DPYTORCH_C10_DRIVER_API_SUPPORTED"]
HIPIFY = """
import os, sys
sys.path.insert(0, "torch/utils")
from hipify import hipify_python
here = os.getcwd()
hipify_python.hipify(project_directory=here, output_directory=here, includes=[here + "/c10/cuda/*", here + "/c10/cuda/impl/*"],
                     ignores=[here + "/c10/cuda/test/*"], show_detailed=False)
"""


def compile_all(sources, objects, flags, out):
    made = []
    for source in sources:
        target = os.path.join(objects, source.replace("/", "_") + ".o")
        made.append(target)
        if not os.path.exists(target):
            print("==", source, flush=True)
            subprocess.run([*COMMON, *flags, "-Ibuild-emulated", "-I.", "-c", source, "-o", target], check=True)
    return made


def build(sources):
    """The program, from DIR/c10."""
    os.chdir(sources)
    objects = "build-emulated"
    program = os.path.abspath(os.path.join(objects, "allocator_real"))
    os.makedirs(os.path.join(objects, "c10/macros"), exist_ok=True)
    os.makedirs(os.path.join(objects, "c10/hip/impl"), exist_ok=True)
    for name in ("c10/macros/cmake_macros.h", "c10/hip/impl/hip_cmake_macros.h"):
        open(os.path.join(objects, name), "w", encoding="ascii").close()
    if not os.path.exists("c10/hip/HIPCachingAllocator.cpp"):
        subprocess.run([sys.executable, "-c", HIPIFY], check=True, stdout=subprocess.DEVNULL)
    core = [p for folder in ("core", "core/impl", "mobile", "util") for p in sorted(glob.glob(f"c10/{folder}/*.cpp"))
            if not p.endswith("thread_pool.cpp")]
    hip = [p for p in sorted(glob.glob("c10/hip/*.cpp") + glob.glob("c10/hip/impl/*.cpp")) if "Test" not in p]
    made = compile_all(core, objects, OF_CORE, "libc10.so")
    made += compile_all(hip, objects, [*OF_HIP, "-DC10_HIP_BUILD_MAIN_LIB"], "libc10_hip.so")
    own = os.path.join(HERE, "allocator_real.cpp")
    if not os.path.exists(program) or os.path.getmtime(program) < os.path.getmtime(own):
        subprocess.run([*COMMON, *OF_HIP, "-Ibuild-emulated", "-I.", own, *made, "-o", program, "-lamdhip64", "-ldl",
                        "-lpthread"], check=True)
    return program


def script_of(program):
    """Commands, a statistic behind every step; the programs' own sizes fit to the emulated GPU."""
    lines, numbers, done = [], {}, 0
    for step in program.steps():
        for operation in step:
            if operation[0] in "af":
                number = numbers.setdefault(operation[1], len(numbers))
                lines.append(f"a {number} {operation[2]}" if operation[0] == "a" else f"f {number}")
                done += 1
        lines.append("s")
        if done > OPERATIONS_MAX:
            break
    return lines


def run_real(program, host, lines):
    keeper = os.path.join(BUILD, "tests", "emulator", "emulator-keeper")
    done = subprocess.run([keeper, host, program], input="\n".join(lines) + "\n", stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, timeout=300, check=False)
    return done.stdout.splitlines()


def run_ours(free, lines):
    """The same answers, on a device with as much room."""
    device = caching_allocator.Device(free)
    ours = caching_allocator.CachingAllocator(device)
    blocks, said = {}, []

    def stats():
        return f"{ours.allocated.current[0]} {ours.reserved.current[0]}"
    for line in lines:
        what, *rest = line.split()
        try:
            if what == "a":
                blocks[rest[0]] = ours.allocate(int(rest[1]))
            elif what == "f":
                ours.release(blocks.pop(rest[0]))
            elif what == "s":
                said.append(f"stats {stats()} {ours.retries}")
        except caching_allocator.OutOfMemory as refused:
            said.append(f"refused {stats()} {refused.free}")
            break
    return said


def compare(real, ours):
    """(the largest difference at any step, in shares of the GPU; what differs in kind, "" = nothing). Addresses decide
    between blocks of one size, and the driver's are not ours after memory was given back."""
    worst = 0.0
    for number, (theirs, mine) in enumerate(zip(real, ours)):
        theirs, mine = theirs.split(), mine.split()
        if theirs[0] != mine[0]:
            return worst, f"at {number}: {theirs[:4]} and not {mine[:4]}"
        figures = 3 if theirs[0] == "refused" else 2
        worst = max([worst] + [abs(int(a) - int(b)) / VRAM for a, b in zip(theirs[1:1 + figures], mine[1:1 + figures])])
    return worst, "" if len(real) == len(ours) else f"{len(real)} answers and not {len(ours)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sources", default="")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=11)
    options = parser.parse_args()
    if not os.path.exists(os.path.join(options.sources, "c10/cuda/CUDACachingAllocator.cpp")):
        print("allocator_real.py: no PyTorch sources (--sources)")
        return 77
    program = build(options.sources)
    chosen = [g for g in SEEN + UNSEEN if g.family != "neighbours" and "beside" not in g.name]
    equal = good = answers = refused = 0
    with tempfile.TemporaryDirectory(prefix="rc-real-") as folder:
        host = machine.make(os.path.join(folder, "machine"), ["gfx1100"], vram=VRAM)
        programs = list(make_programs(chosen, options.count, options.seed))
        for one in programs:
            one = type(one)(**{**one.__dict__, "capacity": VRAM})
            lines = script_of(one)
            real = run_real(program, host, lines)
            free = int(re.fullmatch(r"ready (\d+) \d+", real[0]).group(1))
            worst, why = compare(real[1:], run_ours(free, lines))
            equal += worst == 0 and why == ""
            good += worst <= TOLERANCE and why == ""
            answers += len(real) - 1
            refused += any(line.startswith("refused") for line in real)
            print(f"{worst:8.5f} {one.name} {len(real) - 1} answers {why}", flush=True)
    print(f"{len(programs)} programs, {answers} steps, {refused} refusals: {good} agree within {TOLERANCE:.0%} at every step, "
          f"{equal} of them to the byte")
    return 0 if good == len(programs) else 1


if __name__ == "__main__":
    sys.exit(main())
