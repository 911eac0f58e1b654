#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Truth by experiment: programs on a real GPU, once under rocmcrash and once more with one thing changed each.

What makes a program end well, or go on for at least twice as many steps, is the cause; nobody's opinion enters.
The programs and their cures are in truth/programs (written without looking at the tree).

usage: truth.py run OUT --rocmcrash PROGRAM [--which seen|unseen|all] [--changes] [--fraction F] [--workers N]
                        [--only WORDS] [--within SECONDS]
       truth.py table OUT [--driver DIAGNOSE_FILES [--check]]   what came of it; with the driver the kept facts are
                                                judged anew; --check: exit 1 below the floor
       truth.py pack OUT FILE.tar.xz            for tests/fixtures: the same without what tells of the machine

OUT is a folder, or what pack made of it: runs.json has a record a program, facts/NAME.json.gz what the bundle knew;
bundles/ are the bundles.
"""
import argparse
import concurrent.futures
import glob
import gzip
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.path.join(HERE, "truth/programs/programs.py")
TWICE = 2
# The cause that each change cures. The first change that helps names the cause.
CAUSE_OF = {"holes": "fragmentation", "expandable": "fragmentation", "growth": "growth", "other": "held",
            "size": "capacity"}
# The facts that a judgement of memory needs. None of them identifies the machine.
KEPT = ("oom.", "torch.", "jax.", "tensorflow.", "cupy.", "f.growth.", "gpu.", "others.", "siblings.", "proc.0.", "target.exit",
        "target.signal", "msg.", "log.output", "kmsg.readable", "vendor.", "host.mem", "run.duration", "hook.torch_build",
        "target.failed_pid", "hook.torch_pid",
        "software.torch_version", "software.jax_version")
FLOOR = 0.95
EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
# The right answers. Nobody can see what a program keeps on purpose: for it an unsure "leak" is right.
RIGHT = {"leak": {"leak"}, "growth": {"capacity", "leak?"}, "fragmentation": {"fragmentation"},
         "capacity": {"capacity"}, "held": {"held-by-other"}, "healthy": {None}}


def listing():
    out = subprocess.run([sys.executable, PROGRAMS, "--list", "--json"], capture_output=True, text=True, check=True)
    return json.loads(out.stdout)


def told_by(output):
    """The line that a program prints at its end, {} = it printed none."""
    for line in reversed(output.splitlines()):
        if line.startswith('{"truth"'):
            return json.loads(line)
    return {}


def execute(command, env, seconds):
    """Returns the program's output, its exit status and the time it took."""
    start = time.monotonic()
    try:
        done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, timeout=seconds,
                              errors="replace")
        out, err, status = done.stdout, done.stderr, done.returncode
    except subprocess.TimeoutExpired as late:
        out, err, status = (late.stdout or b"").decode(errors="replace"), "", "time"
    return {**told_by(out), "status": status, "took": round(time.monotonic() - start, 1), "stderr": err[-1500:]}


class Experiment:
    def __init__(self, a):
        self.a, self.over = a, time.monotonic() + a.within

    def env(self, entry):
        fraction = {"none": 1}.get(entry["scales"], self.a.fraction)
        return {"TRUTH_FRACTION": str(fraction), "TRUTH_LIMIT": str(self.a.limit)}

    def base(self, entry):
        folder = os.path.join(self.a.out, "bundles", entry["name"])
        os.makedirs(folder, exist_ok=True)
        command = [self.a.rocmcrash, "--output-dir", folder, "--", sys.executable, PROGRAMS,
                   entry["name"]]
        state = {"ROCMCRASH_STATE_DIR": os.path.join(self.a.out, "state", entry["name"])}
        return execute(command, {**self.env(entry), **state}, self.a.limit + 60)

    def changed(self, entry, name, steps):
        env = {**self.env(entry), "TRUTH_STEPS": str(TWICE * steps + 1), "TRUTH_PAUSE": str(self.a.pause)}
        env.update(EXPANDABLE if name == "expandable" else {"TRUTH_CURE": name})
        return execute([sys.executable, PROGRAMS, entry["name"]], env, self.a.limit + 60)

    def one(self, entry):
        if time.monotonic() > self.over:
            return {"entry": entry, "late": True}
        base = self.base(entry)
        record = {"entry": entry, "base": base, "changes": {}}
        if self.a.changes and base.get("ending") == "refused":
            names = list(entry["cures"]) + (["expandable"] if entry["library"] == "torch" else [])
            for name in names:
                if time.monotonic() < self.over:
                    record["changes"][name] = self.changed(entry, name, base.get("steps", 0))
        return record


def is_derived(name):
    """As feature_is_derived() has it: derived anew when the facts are judged again."""
    return name.startswith("account.") or (name.startswith("f.") and not name.startswith("f.growth."))


def keep_facts(out, name):
    """The facts of the bundle, small enough to be carried along; where there is a bundle."""
    found = glob.glob(os.path.join(out, "bundles", name, "*.tar.gz"))
    if not found:
        return None
    os.makedirs(os.path.join(out, "facts"), exist_ok=True)
    with tarfile.open(found[0]) as bundle:
        files = {os.path.basename(m.name): m for m in bundle.getmembers() if m.isfile()}
        facts = json.load(bundle.extractfile(files["facts.json"]))
        verdict = json.load(bundle.extractfile(files["verdict.json"]))
    facts["facts"] = [f for f in facts["facts"] if not is_derived(f["name"])]
    with gzip.open(os.path.join(out, "facts", name + ".json.gz"), "wt") as file:
        json.dump(facts, file)
    return {key: verdict[key] for key in ("class", "subclass", "confidence", "sentence", "advice")} | {
        "node": verdict["path"][-1]["node"], "account": verdict.get("account")}


def run(a):
    entries = [e for e in listing() if a.which == "all" or e["unseen"] == (a.which == "unseen")]
    entries = [e for e in entries if any(word in e["name"] for word in a.only.split(","))]
    experiment = Experiment(a)
    together = [e for e in entries if e["scales"] != "none"]
    alone = [e for e in entries if e["scales"] == "none"]
    os.makedirs(a.out, exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(a.workers) as pool:
        records = list(pool.map(experiment.one, together))
    records += [experiment.one(e) for e in alone]
    for record in records:
        record["verdict"] = keep_facts(a.out, record["entry"]["name"])
    with open(os.path.join(a.out, "runs.json"), "w", encoding="utf-8") as file:
        json.dump(records, file, indent=1)
    return records


# --- what it means ---

def cured(record, name):
    """Ended well, or was stopped at twice its steps and more."""
    done, base = record["changes"].get(name), record["base"]
    if not done or "ending" not in done:
        return None
    return done["ending"] in ("completes", "stopped") or done["steps"] >= TWICE * max(1, base["steps"])


def truth_of(record):
    """The cause by experiment; "?" = not run, or nothing helped."""
    family, ending = record["entry"]["family"], record.get("base", {}).get("ending")
    if ending in ("completes", "stopped"):
        return "healthy"
    for name, cause in CAUSE_OF.items():
        if cured(record, name):
            # the experiment cannot know whether the program means to grow: its author does
            return family if cause == "growth" and family in ("leak", "growth") else cause
    return "?"


def is_right(truth, verdict):
    answer = verdict["class"] if verdict else None
    unsure = "leak?" if answer == "leak" and verdict["confidence"] != "high" else None
    return bool({answer, unsure} & RIGHT[truth] if unsure else answer in RIGHT[truth])


def judged_anew(a, names):
    """{name: verdict of the tree as it is now on the facts that were kept}; where no bundle was left, none."""
    with tempfile.TemporaryDirectory() as scratch:
        lines, judged = [], []
        for name in names:
            path = os.path.join(a.out, "facts", name + ".json.gz")
            if not os.path.exists(path):
                continue
            facts, args = os.path.join(scratch, name + ".json"), os.path.join(scratch, name + ".args")
            with gzip.open(path, "rt") as kept, open(facts, "w", encoding="utf-8") as file:
                file.write(kept.read())
            with open(args, "w", encoding="utf-8") as file:
                file.write(f"--facts\n{facts}\n")
            lines.append(args)
            judged.append(name)
        done = subprocess.run([a.driver, os.path.join(a.templates, "tree.json"), os.path.join(a.templates, "defects.json"),
                               "--batch"], input="\n".join(lines) + "\n", capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    verdicts = [json.loads(line) for line in done.stdout.splitlines()]
    return {name: {**v, "node": v["path"][-1]["node"]} for name, v in zip(judged, verdicts)}


def pack(a):
    """The facts of OUT, less what is not needed, and the records less what the programs printed."""
    with open(os.path.join(a.out, "runs.json"), encoding="utf-8") as file:
        records = json.load(file)
    for record in records:
        for done in [record.get("base", {}), *record.get("changes", {}).values()]:
            for key in ("stderr", "error"):
                done.pop(key, None)
        record.pop("verdict", None)
    with tempfile.TemporaryDirectory() as scratch, tarfile.open(a.file, "w:xz") as tar:
        def add(name, data):
            path = os.path.join(scratch, "one")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(data, file)
            info = tarfile.TarInfo(name)
            info.size = os.path.getsize(path)
            with open(path, "rb") as file:
                tar.addfile(info, file)

        add("runs.json", records)
        for path in sorted(glob.glob(os.path.join(a.out, "facts", "*.json.gz"))):
            with gzip.open(path, "rt") as file:
                facts = json.load(file)["facts"]
            facts = [f for f in facts if f["name"].startswith(KEPT) and "/" not in str(f.get("value", ""))]
            add("facts/" + os.path.basename(path)[:-3], {"format": 1, "facts": facts})


def unpacked(a, scratch):
    """OUT as a folder, with the facts as run() leaves them."""
    if os.path.isdir(a.out):
        return a.out
    with tarfile.open(a.out) as tar:
        tar.extractall(scratch, filter="data") if hasattr(tarfile, "data_filter") else tar.extractall(scratch)
    for path in glob.glob(os.path.join(scratch, "facts", "*.json")):
        with open(path, "rb") as source, gzip.open(path + ".gz", "wb", 1) as target:
            target.write(source.read())
    return scratch


def table(a):
    with tempfile.TemporaryDirectory() as scratch:
        a.out = unpacked(a, scratch)
        right, judged, wrong_at_high = show(a)
    if a.check and (wrong_at_high or right < FLOOR * judged):
        sys.exit(f"wrong at high confidence: {wrong_at_high}, allowed 0; right: {right}, wanted {FLOOR:.0%} of {judged}")


def show(a):
    with open(os.path.join(a.out, "runs.json"), encoding="utf-8") as file:
        records = json.load(file)
    right = wrong_at_high = judged = 0
    anew = judged_anew(a, [r["entry"]["name"] for r in records]) if a.driver else {}
    for record in records:
        entry = record["entry"]
        if record.get("late"):
            print(f"{entry['name']:32} not run: no time was left")
            continue
        truth = truth_of(record)
        if entry["family"] == "healthy" and truth != "healthy":
            print(f"{entry['name']:32} its author's claim does not hold: it failed")
            continue
        verdict = anew.get(entry["name"]) if a.driver else record["verdict"]
        base, wanted = record["base"], truth if truth != "?" else entry["family"]
        good = is_right(wanted, verdict)
        right, judged = right + good, judged + 1
        wrong_at_high += not good and bool(verdict) and verdict["confidence"] == "high"
        helps = " ".join(f"{n}:{'yes' if cured(record, n) else 'no'}({c.get('steps')})" for n, c in record["changes"].items())
        said = f"{verdict['class']} {verdict['subclass']} {verdict['confidence']} [{verdict['node']}]" if verdict else "no bundle"
        print(f"{'ok ' if good else 'BAD'} {entry['name']:32} {entry['family']:13} truth {truth:13} {base.get('ending', base['status'])!s:9} "
              f"steps {base.get('steps')!s:6} {base.get('seconds')!s:6} {said}   {helps}")
    print(f"{right} of {judged} right, {wrong_at_high} wrong at high confidence")
    return right, judged, wrong_at_high


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("do", choices=("run", "table", "pack"))
    p.add_argument("out")
    p.add_argument("file", nargs="?")
    p.add_argument("--rocmcrash")
    p.add_argument("--driver")
    p.add_argument("--check", action="store_true")
    p.add_argument("--templates", default=os.path.join(HERE, "../../templates"))
    p.add_argument("--which", choices=("seen", "unseen", "all"), default="seen")
    p.add_argument("--changes", action="store_true")
    p.add_argument("--fraction", type=float, default=0.1)
    p.add_argument("--workers", type=int, default=8)
    p.add_argument("--only", default="")
    p.add_argument("--limit", type=float, default=60)
    p.add_argument("--pause", type=float, default=0.3)
    p.add_argument("--within", type=float, default=480)
    a = p.parse_args()
    a.out = os.path.abspath(a.out)
    if a.do == "run":
        if not a.rocmcrash:
            p.error("run wants --rocmcrash")
        a.rocmcrash = os.path.abspath(a.rocmcrash)
        run(a)
    if a.do == "pack":
        pack(a)
    else:
        table(a)


if __name__ == "__main__":
    main()
