#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real PyTorch and JAX on a real GPU under rocmcrash: the class of each failure, the figures, the costs.

usage: hook_gpu.py [--pairs N | --sampled] [NAME...]      with ROCMCRASH=path of the program

Without --pairs runs every program of hook_programs.py and jax_programs.py (or those named) and checks the bundle; with
it times `loop` N times with and without rocmcrash: at the same time where there are two GPUs, else in turn.
Bundles are left in $OUT or a new folder. Exit 77: no PyTorch with a GPU here.
"""
import argparse
import concurrent.futures
import glob
import json
import math
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "hook_programs.py")
JAX_PROGRAM = os.path.join(HERE, "jax_programs.py")
ROCMCRASH = os.environ.get("ROCMCRASH", "rocmcrash")
ALL_CPUS = os.sched_getaffinity(0)
# None: nothing may be left.
EXPECTED = {
    "capacity": {"capacity"}, "capacity_step": {"capacity"}, "fragmentation": {"fragmentation"},
    "leak": {"leak"}, "leak_swap": {"leak"}, "held": {"held-by-other"},
    "cache_greed": {"fragmentation"}, "illegal": {"app-bug", "page-fault"}, "killed": {"unknown", "killed"},
    "swallowed": {"capacity"}, "beside": {"leak"}, "on_the_way": {"app-bug"}, "graphs": {"fragmentation"},
    "expandable": {"fragmentation"}, "who_grew": {"leak"}, "retain": {"leak"}, "load_weights": {"capacity"},
    "in_backward": {"capacity"}, "second_gpu": {"capacity"}, "ranks": {"held-by-other"}, "healthy": None, "handled": None, "equal": {"capacity"}, "cpu": None,
    "jax_capacity": {"capacity"}, "jax_capacity_step": {"capacity"}, "jax_leak": {"leak"}, "jax_leak_grown": {"leak"},
    "jax_fragmentation": {"fragmentation"}, "jax_held": {"held-by-other"}, "jax_healthy": None,
}


def bundle_of(folder):
    paths = glob.glob(os.path.join(folder, "*.tar.gz"))
    if not paths:
        return None
    with tarfile.open(paths[0]) as tar:
        return {m.name.split("/", 1)[1]: tar.extractfile(m).read()
                for m in tar.getmembers() if m.isfile()}


# On NVIDIA there is no ledger: only the exception tells of a refusal by the runtime itself.
ON_ERROR = ("--bundle-on=error",)
OPTIONS = {"who_grew": ("--torch-history",), "cache_greed": ON_ERROR, "on_the_way": ON_ERROR}


def facts_of(files):
    return {(f["name"], f.get("when")): f.get("value") for f in json.loads(files["facts.json"])["facts"]}


def check_more(name, done, files):
    """Checks one program's bundle apart from its class. Returns a text about what is wrong."""
    facts = {fact: value for (fact, _), value in facts_of(files).items()}
    last = json.loads(files["verdict.json"])["path"][-1]["node"]
    if name == "beside" and last != "leak-outside-torch":
        return f"not seen as beside PyTorch: {last}, gap {facts.get('torch.gap_bytes')}"
    if name == "on_the_way":
        told, truth = facts.get("f.gap_full_in_min"), json.loads(done.stdout)["full_in_min"]
        if told is None or abs(told / truth - 1) > 0.15:
            return f"full in {told} min, in truth {truth:.2f}"
    if name == "graphs" and last != "idle-in-private-pools":
        return f"not seen as private pools: {last}, {facts.get('torch.private_pools_idle_bytes')}"
    if name == "expandable" and not facts.get("torch.expandable_bytes"):
        return "no expandable segments seen"
    if name in ("in_backward", "retain") and "backward" not in str(facts.get("torch.oom_functions")) + done.stderr:
        return f"asked in {facts.get('torch.oom_functions')}"
    if name == "second_gpu" and b", where memory was refused: VRAM | 1" not in files["SUMMARY.md"].split(b"| GPU 1 ")[1]:
        return "the second GPU is not marked"
    gap = facts.get("torch.gap_bytes")
    if gap is not None and name not in ("beside", "on_the_way") and gap > 4 << 30:
        return f"{gap} bytes beside PyTorch, where nothing is"
    if name == "who_grew" and "remember" not in str(facts.get("torch.grown_site")):
        return f"grown: {facts.get('torch.grown_site')} {facts.get('torch.grown_by_size')}"
    return ""


def check_jax(done, files):
    """The record at the failure, and the facts of it, are JAX's own figures."""
    said = json.loads(done.stdout.splitlines()[-1])["stats"]
    wrote = json.loads(files["hook/jax-exit.json"])["stats"]["0"]
    facts = facts_of(files)
    wrong = [f"{key} {wrote.get(key)} != {value}" for key, value in said.items() if wrote.get(key) != value]
    for fact, when, key in (("in_use_bytes", "impact", "bytes_in_use"), ("in_use_bytes", "peak", "peak_bytes_in_use"),
                            ("limit_bytes", "impact", "bytes_limit")):
        if facts.get(("jax." + fact, when)) != said[key]:
            wrong.append(f"jax.{fact} {when} {facts.get(('jax.' + fact, when))} != {said[key]}")
    return len(said) + 3, wrong


def check_table(said, files):
    """The rows of the summary are torch's own figures: before, peak, at the failure."""
    facts, wrong = facts_of(files), []
    for what in ("allocated_bytes", "reserved_bytes"):
        for when, value in (("baseline", 0), ("peak", said["stats"][what + ".all.peak"]),
                            ("impact", said["stats"][what + ".all.current"])):
            if facts.get(("torch." + what, when)) != value:
                wrong.append(f"{what} {when} {facts.get(('torch.' + what, when))} != {value}")
    if b"| PyTorch, allocated |" not in files["SUMMARY.md"]:
        wrong.append("no row in the summary")
    return wrong


def command_of(name):
    if name.startswith("jax_"):
        return [sys.executable, JAX_PROGRAM, name[len("jax_"):]]
    return [sys.executable, PROGRAM, name]


def run(name, folder, options=(), env=None):
    os.makedirs(folder, exist_ok=True)
    done = subprocess.run([ROCMCRASH, "-o", folder, *options, "--", *command_of(name)],
                          capture_output=True, text=True, check=False, env=env)
    for kind in ("stdout", "stderr"):
        with open(os.path.join(folder, kind), "w", encoding="utf-8") as file:
            file.write(getattr(done, kind))
    return done


def check_equal(done, files):
    """The observer's figures are torch's own."""
    said = json.loads(done.stdout.splitlines()[-1])
    wrote = json.loads(files["hook/oom-first.json"])
    facts = {f["name"]: f.get("value") for f in json.loads(files["facts.json"])["facts"]}
    told = said["told"]
    wrong = []
    for ours, theirs in zip(("device", "requested", "total", "free"), told):
        if wrote[ours] != theirs:
            wrong.append(f"{ours} {wrote[ours]} != {theirs}")
    stats, compared = wrote["stats"]["0"], 0
    for key, value in said["stats"].items():
        item = stats
        for part in key.split("."):
            item = item.get(part, {}) if isinstance(item, dict) else {}
        if item == {}:
            continue
        compared += 1
        if item != value:
            wrong.append(f"{key} {item} != {value}")
    if facts["torch.inactive_bytes"] != sum(said["idle"]) or \
            facts["torch.largest_inactive_bytes"] != max(said["idle"]):
        wrong.append(f"idle {facts['torch.inactive_bytes']} of {facts['torch.largest_inactive_bytes']}"
                     f" != {sum(said['idle'])} of {max(said['idle'])}")
    return compared + 6, wrong + check_table(said, files)


def one(name, out):
    env = dict(os.environ)
    if name == "cpu":
        env["CUDA_VISIBLE_DEVICES"] = env["HIP_VISIBLE_DEVICES"] = ""
    holder = None
    if name in ("held", "jax_held"):
        holder = subprocess.Popen([sys.executable, PROGRAM, "hold"], stdout=subprocess.PIPE)
        holder.stdout.readline()
    start = time.monotonic()
    folder = os.path.join(out, name)
    done = run(name, folder, OPTIONS.get(name, ()), env=env)
    if holder:
        holder.kill()
        holder.wait()
    files = bundle_of(folder)
    verdict = json.loads(files["verdict.json"]) if files else None
    want = EXPECTED[name]
    good = verdict is None if want is None else verdict is not None and verdict["class"] in want
    note = ""
    if verdict:
        row = next((i for i in json.loads(files["manifest.json"])["items"] if i["name"] == "hook"), {})
        note = f"{verdict['class']}/{verdict['subclass']} {verdict['confidence']} {verdict['path'][-1]['node']}" \
               f" | hook {row.get('status')} {row.get('reason', '')}"
        more = check_more(name, done, files)
        good = good and not more
        slowest = facts_of(files).get(("hook.slowest_sample_us", "static"))
        note += f" | slowest sample {slowest} us" + (f" | WRONG {more}" if more else "")
        if name.startswith("jax_") and done.stdout:
            compared, wrong = check_jax(done, files)
            good = good and not wrong
            note += f" | {compared} figures equal JAX's" if not wrong else f" | WRONG {wrong[:5]}"
    elif done.returncode != 0:
        good, note = False, f"exit {done.returncode}, no bundle: {done.stderr[-300:]}"
    if name == "equal" and files:
        compared, wrong = check_equal(done, files)
        good = good and compared > 60 and not wrong
        note += f" | {compared} figures equal torch's" if not wrong else f" | WRONG {wrong[:5]}"
    if name == "cpu":
        said = json.loads(done.stdout)
        good = good and not said["initialised"] and not said["nvidia"]
        note = str(said)
    if name in ("healthy", "jax_healthy"):
        plain = subprocess.run(command_of(name), capture_output=True, text=True, check=True)
        same = json.loads(plain.stdout) == json.loads(done.stdout)
        good = good and same
        note = "memory the same to the byte" if same else f"{plain.stdout[:200]} {done.stdout[:200]}"
    print(f"{'ok ' if good else 'BAD'} {name:14} {time.monotonic() - start:5.1f} s  {note}", flush=True)
    return good


def timed(kind, place):
    """One loop, on GPU and part of the CPUs number `place` of 2, or (None) wherever the system puts it."""
    env = dict(os.environ)
    if place is not None:
        env["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", "0,1").split(",")[place]
        cpus = sorted(ALL_CPUS)
        os.sched_setaffinity(0, cpus[place * len(cpus) // 2:(place + 1) * len(cpus) // 2])  # of this thread, and inherited
    with tempfile.TemporaryDirectory() as folder:
        argv = command_of("loop") if kind == "plain" else [ROCMCRASH, "-o", folder, "--", *command_of("loop")]
        start = time.monotonic()
        done = subprocess.run(argv, capture_output=True, text=True, check=True, env=env)
        return dict(json.loads(done.stdout), whole_s=time.monotonic() - start)


def pair(number, together):
    """With and without. Whatever is uneven falls on both in turn: the order, or the GPU and the CPUs."""
    kinds = ("plain", "with") if number % 2 == 0 else ("with", "plain")
    if not together:
        return {kind: timed(kind, None) for kind in kinds}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:  # the machine's ups and downs fall on both alike
        return dict(zip(kinds, pool.map(timed, kinds, (0, 1))))


def pairs(count, gpus):
    found = []
    for number in range(count):
        found.append(pair(number, gpus > 1))
        print(f"pair {number + 1}: " + ", ".join(f"{kind} {found[-1][kind]['loop_s']:.3f} of {found[-1][kind]['whole_s']:.3f} s"
                                                for kind in ("plain", "with")), flush=True)
    for key in ("loop_s", "loop_cpu_s", "part_s", "import_s", "whole_s"):
        logs = [math.log(p["with"][key] / p["plain"][key]) for p in found]
        mean, error = statistics.mean(logs), statistics.stdev(logs) / math.sqrt(count)
        print(f"{key}: plain {statistics.median(p['plain'][key] for p in found):.3f} s, ratio median "
              f"{math.exp(statistics.median(logs)):.4f}, geometric mean {math.exp(mean):.4f} "
              f"[{math.exp(mean - 2 * error):.4f} .. {math.exp(mean + 2 * error):.4f}], "
              f"from {math.exp(min(logs)):.4f} to {math.exp(max(logs)):.4f}")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--pairs", type=int, default=0)
    p.add_argument("--sampled", action="store_true", help="what the sampling thread costs, within one process")
    p.add_argument("names", nargs="*")
    a = p.parse_args()
    probe = subprocess.run([sys.executable, "-c", "import torch; assert torch.cuda.is_available()\n"
                            "print(torch.cuda.device_count())"], capture_output=True, check=False)
    if probe.returncode != 0:
        print("skipped: no PyTorch with a GPU here")
        sys.exit(77)
    if a.pairs:
        pairs(a.pairs, int(probe.stdout))
        return
    if a.sampled:
        with tempfile.TemporaryDirectory() as folder:
            done = run("sampled", folder)
            print(done.stdout + done.stderr)
            sys.exit(done.returncode)
    out = os.environ.get("OUT") or tempfile.mkdtemp(prefix="hook-gpu-")
    names = a.names or [name for name in EXPECTED if name != "second_gpu" or int(probe.stdout) > 1]
    bad = [name for name in names if not one(name, out)]
    print(f"{len(names) - len(bad)} as expected, {len(bad)} not: {bad}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
