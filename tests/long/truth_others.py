#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""112 programs by four people who had read neither the rules nor the other programs, run on a real GPU as a
user does (rocmcrash -- python3 NAME.py) and compared with what their authors expect (truth/others/expected.json).

usage: truth_others.py run OUT --rocmcrash PROGRAM [--only WORDS] [--workers N] [--within SECONDS] [--limit SECONDS]
                       [--part capped|whole|all]
       truth_others.py claims OUT [--only WORDS]   without rocmcrash: does each cure help? (expandable segments for
                                                   PyTorch's fragmentations, no other process for the held ones)
       truth_others.py table OUT
       truth_others.py pack OUT FILE.tar.xz        the facts of all bundles, to judge again without a GPU
       truth_others.py judge FILE.tar.xz --driver DIAGNOSE_FILES --templates FOLDER   exit 1 below the floor

Programs with a limit of their own run side by side, as long as their limits sum up to less than 110 GiB; the rest alone.
"""
import argparse
import glob
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "truth", "others")
with open(os.path.join(HERE, "expected.json"), encoding="utf-8") as file:
    EXPECTED = json.load(file)
CLEAN = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LD_LIBRARY_PATH", "LANG", "TMPDIR")}
ROOM = 110  # GiB of programs side by side
FLOOR = 0.93
ENDS_WITH = {"pinned_staging": ("out of memory", "Unable to allocate", "can't allocate", "MemoryError", "CUDA error"),
             "worker_batches": ("ancdata", "Too many open files"), "open_shards": ("Too many open files",),
             "token_classifier": ("device-side assert",), "normalise_on_gpu": ("same device",),
             "smaller_batches_then_report": ("KeyError",), "rare_label_classifier": ("device-side assert",),
             "jax_keep_best_params": ("deleted",), "shard_reader_fds": ("Too many open files",),
             "kmeans_report": ("JSON serializable",), "ticket_tags_bert": ("Assertion",),
             "triton_paged_gather": ("illegal memory access", "CUDA error"), "labels_from_workers": ("Too many open files", "ancdata"),
             "session_next_item": ("device-side assert",), "pinned_ring": ("CUDA error", "out of memory", "can't allocate")}


def script(name):
    return os.path.join(HERE, "programs", name + ".py")


def other_job(beside):
    """Starts somebody else's job, at once or later; returns a function that ends it."""
    ready = os.path.join(tempfile.mkdtemp(), "ready")
    command = [sys.executable, os.path.join(HERE, "programs/helpers/other_job.py"), beside["kind"], beside["gib"], ready]
    held = []

    def start():
        held.append(subprocess.Popen(command, env=CLEAN, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL, start_new_session=True))
    timer = threading.Timer(beside["after_s"], start)
    if beside["after_s"]:
        timer.start()
    else:
        start()
        end = time.monotonic() + 60
        while not os.path.exists(ready) and held[0].poll() is None and time.monotonic() < end:
            time.sleep(0.1)
        if not os.path.exists(ready):
            print("the other job did not start: its program's claim does not hold", flush=True)

    def stop():
        timer.cancel()
        arrived = os.path.exists(ready)
        for process in held:
            process.terminate()
            process.wait()
        return arrived
    return stop


def execute(command, env, limit):
    begun = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(command, env={**os.environ, **env}, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            status = "time"
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read().decode(errors="replace"))
    return {"status": status, "took": round(time.monotonic() - begun, 1), "stdout": texts[0][-600:], "stderr": texts[1][-2500:]}


def verdict_in(folder):
    found = glob.glob(os.path.join(folder, "*.tar.gz"))
    if not found:
        return None
    with tarfile.open(found[0]) as bundle:
        member = next(m for m in bundle.getmembers() if os.path.basename(m.name) == "verdict.json")
        v = json.load(bundle.extractfile(member))
    return {key: v.get(key) for key in ("class", "subclass", "confidence", "sentence")} | {"node": v["path"][-1]["node"]}


def one(a, name):
    if time.monotonic() > a.end:
        return {"name": name, "late": True}
    folder = os.path.join(a.out, "bundles", name)
    os.makedirs(folder, exist_ok=True)
    beside = EXPECTED[name].get("beside")
    stop = other_job(beside) if beside else None
    done = execute([a.rocmcrash, "--output-dir", folder, "--", sys.executable, script(name)],
                   {"ROCMCRASH_STATE_DIR": os.path.join(a.out, "state", name)}, a.limit)
    if stop:
        done["other_was_there"] = stop()
    record = {"name": name, **done, "verdict": verdict_in(folder)}
    with open(os.path.join(a.out, name + ".json"), "w", encoding="utf-8") as file:
        json.dump(record, file, indent=1)
    return record


def run(a, names):
    os.makedirs(a.out, exist_ok=True)
    waiting = [n for n in names if EXPECTED[n]["gib"] and a.part != "whole"]
    alone = [n for n in names if not EXPECTED[n]["gib"] and a.part != "capped"]
    running, lock = {}, threading.Condition()

    def go(name):
        try:
            one(a, name)
        finally:
            with lock:
                del running[name]
                lock.notify()

    while waiting:
        with lock:
            used = sum(EXPECTED[n]["gib"] for n in running)
            fit = next((n for n in waiting if used + EXPECTED[n]["gib"] <= ROOM), None)
            if len(running) >= a.workers or fit is None:
                lock.wait()
                continue
            waiting.remove(fit)
            running[fit] = threading.Thread(target=go, args=(fit,))
            running[fit].start()
    with lock:
        while running:
            lock.wait()
    for name in alone:
        one(a, name)


def is_right(expected, verdict):
    answer = verdict["class"] if verdict else None
    accepted = [expected["class"], *expected["accept"]]
    return answer in accepted or (answer == "leak" and "leak?" in accepted and verdict["confidence"] != "high")


def holds(expected, record):
    """Whether the program ended as its author claims."""
    text = record["stderr"]
    refused = any(w in text for w in ("OutOfMemory", "out of memory", "RESOURCE_EXHAUSTED", "OUT_OF_MEMORY"))
    if record["status"] == "time":
        return False
    if expected["family"] == "healthy":
        return record["status"] == 0
    if expected["family"] in ("app-bug", "page-fault", "resource-limit"):
        return record["status"] != 0 and any(w in text for w in ENDS_WITH[record["name"]])
    return record["status"] != 0 and refused and record.get("other_was_there", True)


def table(a, names):
    right = judged = high = 0
    for name in names:
        path = os.path.join(a.out, name + ".json")
        if not os.path.exists(path):
            continue
        with open(path, encoding="utf-8") as file:
            record = json.load(file)
        expected, v = EXPECTED[name], record["verdict"]
        said = f"{v['class']} {v['subclass']} {v['confidence']} [{v['node']}]" if v else "no bundle"
        if not holds(expected, record):
            last = record["stderr"].strip().splitlines()[-1:] or [""]
            print(f"??? {name:28} {expected['family']:14} its claim does not hold: status {record['status']} after "
                  f"{record['took']} s; said {said}; {last[0][:160]}")
            continue
        good = is_right(expected, v)
        right, judged = right + good, judged + 1
        high += not good and bool(v) and v["confidence"] == "high"
        print(f"{'ok ' if good else 'BAD'} {name:28} {expected['family']:14} {record['took']:6} s  {said}")
    print(f"{right} of {judged} right, {high} wrong at high confidence")
    return right, judged, high


def pack(a, names):
    """Facts as they were collected; what was computed of them is computed again."""
    with tarfile.open(a.fixture, "w:xz") as tar:
        for name in names:
            with open(os.path.join(a.out, name + ".json"), encoding="utf-8") as file:
                record = json.load(file)
            found = glob.glob(os.path.join(a.out, "bundles", name, "*.tar.gz"))
            facts = None
            if found:
                with tarfile.open(found[0]) as bundle:
                    facts = json.load(bundle.extractfile(next(m for m in bundle.getmembers() if m.name.endswith("/facts.json"))))
                facts["facts"] = [f for f in facts["facts"] if f["name"].startswith("f.growth.")
                                  or not f["name"].startswith(("f.", "account.", "evidence."))]
            data = json.dumps({"record": {**record, "stdout": ""}, "facts": facts}).encode()
            info = tarfile.TarInfo(name + ".json")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def judge(a):
    """The table for the packed facts, by the tree as it is now."""
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "corpus"))
    import tree_files
    a.out = tempfile.mkdtemp()
    tree = os.path.join(a.out, "tree")
    with open(tree, "w", encoding="utf-8") as file:
        json.dump(tree_files.load(a.templates), file)
    with tarfile.open(a.fixture) as tar:
        packed = {m.name[:-5]: json.load(tar.extractfile(m)) for m in tar.getmembers()}
    for name, case in packed.items():
        record = case["record"]
        if case["facts"]:
            path = os.path.join(a.out, "facts")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(case["facts"], file)
            done = subprocess.run([a.driver, tree, os.path.join(a.templates, "defects.json"), "--facts", path],
                                  capture_output=True, text=True, check=True)
            v = json.loads(done.stdout)
            record["verdict"] = {key: v.get(key) for key in ("class", "subclass", "confidence", "sentence")} | {"node": v["path"][-1]["node"]}
        with open(os.path.join(a.out, name + ".json"), "w", encoding="utf-8") as file:
            json.dump(record, file)
    right, judged, high = table(a, sorted(packed))
    shutil.rmtree(a.out)
    return 1 if high > 0 or right < FLOOR * judged or not judged else 0


def claims(a, names):
    for name in names:
        expected = EXPECTED[name]
        if expected["family"] == "fragmentation" and expected["library"] == "torch":
            done = execute([sys.executable, script(name)], {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}, a.limit)
        elif "beside" in expected:
            done = execute([sys.executable, script(name)], {}, a.limit)
        else:
            continue
        last = done["stderr"].strip().splitlines()[-1:] or [""]
        print(f"{name:28} with its cure: status {done['status']} after {done['took']} s {last[0][:200]}", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("do", choices=("run", "table", "claims", "pack", "judge"))
    p.add_argument("out", help="folder of the results; for judge the packed facts")
    p.add_argument("fixture", nargs="?", help="for pack")
    p.add_argument("--driver")
    p.add_argument("--templates")
    p.add_argument("--rocmcrash")
    p.add_argument("--only", default="")
    p.add_argument("--part", choices=("capped", "whole", "all"), default="all")
    p.add_argument("--workers", type=int, default=6)
    p.add_argument("--within", type=float, default=520)
    p.add_argument("--limit", type=float, default=75)
    a = p.parse_args()
    if a.do == "judge":
        a.fixture = a.out
        return judge(a)
    a.out, a.end = os.path.abspath(a.out), time.monotonic() + a.within
    names = [n for n in EXPECTED if any(w in n for w in a.only.split(","))]
    if a.do in ("claims", "pack"):
        return {"claims": claims, "pack": pack}[a.do](a, names)
    if a.do == "run":
        if not a.rocmcrash:
            p.error("run wants --rocmcrash")
        a.rocmcrash = os.path.abspath(a.rocmcrash)
        run(a, names)
    table(a, names)
    return 0


if __name__ == "__main__":
    sys.exit(main())
