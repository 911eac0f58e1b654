#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Judge the recordings of real GPU memory failures: folder -> facts -> diagnose_files -> class.

What the sampler would have known is taken from gpu.csv; what the torch hook would have written, from steps.jsonl,
oom.json and snapshot.json: the collector itself makes facts of it.
"""
import argparse, json, os, subprocess, sys, tempfile

# frag_churn is "fragmentation on a background of growth": its demand grew from 47 to 132 GiB, 5 % lay idle at the end.
EXPECTED = {
    "capacity": {"capacity"}, "capacity_act": {"capacity"}, "fragmentation": {"fragmentation"},
    "frag_churn": {"fragmentation", "capacity"}, "leak": {"leak"}, "leak_swap": {"leak"}, "held": {"held-by-other"},
    "cache_starves": {"fragmentation"}, "fault": {"app-bug", "page-fault"}, "segv": {"app-bug"},
    "ok": {"unknown"},
}
MIB, NS = 1 << 20, 1000000000
# columns of PID.torch.csv behind time and device; empty: PyTorch has no such counter
COLUMNS = ("allocated_bytes.all.current", "reserved_bytes.all.current", "active_bytes.all.current",
           "inactive_split_bytes.all.current", "requested_bytes.all.current", "allocated_bytes.all.peak",
           "reserved_bytes.all.peak", "allocated_bytes.all.allocated", "allocated_bytes.all.freed",
           "segment.all.current", "inactive_split.all.current", "num_alloc_retries", "num_ooms", "",
           "allocated_bytes.small_pool.current", "allocation.all.current")


def nested(stats):
    """memory_stats() as torch._C gives them: {"allocated_bytes": {"all": {"current": 1}}}"""
    out = {}
    for key, value in stats.items():
        at = out
        *path, last = key.split(".")
        for name in path:
            at = at.setdefault(name, {})
        at[last] = value
    return out


def hook_facts(driver, folder, scratch):
    """What the collector would say of the run, had the Python hook written down what the recording knows."""
    hook = os.path.join(scratch, "hook")
    os.makedirs(hook)
    steps = os.path.join(folder, "steps.jsonl")
    rows = [json.loads(x) for x in open(steps, encoding="utf-8")] if os.path.exists(steps) else []
    rows = [r for r in rows if r.get("stats")]
    with open(os.path.join(hook, "1.torch.csv"), "w", encoding="utf-8") as f:
        for r in rows:
            f.write(",".join([str(int(r["t"] * NS)), "0", *[str(r["stats"].get(c, "")) for c in COLUMNS]]) + "\n")
    events, end = [{"t": 1, "pid": 1, "what": "torch", "version": "2.11.0", "build": "cuda"}], rows[-1]["t"] if rows else 1
    oom = os.path.join(folder, "oom.json")
    if os.path.exists(oom):
        told = json.load(open(oom, encoding="utf-8"))
        end = told["t"]
        message = open(os.path.join(folder, "stderr"), encoding="utf-8").read().strip().splitlines()[-1]
        with open(os.path.join(hook, "1.oom.first.json"), "w", encoding="utf-8") as f:
            json.dump({"format": 1, "t": int(end * NS), "pid": 1, "count": 1, "device": 0, "requested": told["requested"],
                       "total": told["device_total_allowed"], "free": told["device_free"],
                       "device_name": "NVIDIA H200", "stats": {"0": nested(told["stats"])}}, f)
        snapshot = os.path.join(folder, "snapshot.json")
        if os.path.exists(snapshot):  # some are too large to be carried along
            segments = [{"device": 0, **segment} for segment in json.load(open(snapshot, encoding="utf-8"))]
            with open(os.path.join(hook, "1.snapshot.first.json"), "w", encoding="utf-8") as f:
                json.dump({"format": 1, "segments_omitted": 0, "segments": segments}, f)
        events.append({"t": int(end * NS) + 1, "pid": 1, "what": "exception",
                       "chain": [{"type": "torch.OutOfMemoryError", "message": message, "frames": []}]})
    with open(os.path.join(hook, "events"), "w", encoding="utf-8") as f:
        f.write("".join(json.dumps(event) + "\n" for event in events))
    run = subprocess.run([driver, scratch, "0", str(int(end * NS) + NS)], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{folder}: {run.stderr}")
    return json.loads(run.stdout)["facts"]


def read_gpu(path):
    rows = [line.split(",") for line in open(path, encoding="utf-8") if line.count(",") >= 4]
    used = [int(r[1]) * MIB for r in rows]
    return used, int(rows[0][3]) * MIB if rows else 0


def facts_of(a, folder):
    facts = {"report.gpu": "NVIDIA H200", "log.output_read": True, "kmsg.readable": True}
    rc = int(open(os.path.join(folder, "rc")).read().strip() or 0)
    facts["target.exit_code"] = rc
    if rc > 128:
        facts.update({"target.signal": rc - 128, "target.exit_code": None})
    used, total = read_gpu(os.path.join(folder, "gpu.csv"))
    listed = [{"name": "gpu.0.vram.total_bytes", "value": total, "when": "static", "source": "gpu.csv"},
              {"name": "gpu.0.vram.used_bytes", "value": used[0], "when": "baseline", "source": "gpu.csv"},
              {"name": "gpu.0.vram.used_bytes", "value": max(used), "when": "impact", "source": "gpu.csv"}]
    with tempfile.TemporaryDirectory() as scratch:
        listed += hook_facts(a.hook_facts, folder, scratch)
    listed += [{"name": k, "value": v, "when": "impact", "source": "recording"}
               for k, v in facts.items() if v is not None]
    return {"format": 1, "facts": listed}


def judge(a, folder):
    with tempfile.TemporaryDirectory() as scratch:
        facts, args = os.path.join(scratch, "facts.json"), os.path.join(scratch, "args")
        with open(facts, "w", encoding="utf-8") as f:
            json.dump(facts_of(a, folder), f)
        with open(args, "w", encoding="utf-8") as f:
            f.write("\n".join(["--stderr", os.path.join(folder, "stderr"), "--dmesg", os.path.join(folder, "dmesg"),
                               "--facts", facts]) + "\n")
        run = subprocess.run([a.driver, os.path.join(a.templates, "tree.json"), os.path.join(a.templates, "defects.json"),
                              "--batch", "--starve"], input=args + "\n", capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{folder}: {run.stderr}")
    return json.loads(run.stdout)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--driver", required=True)
    p.add_argument("--hook-facts", required=True)
    p.add_argument("--templates", required=True)
    p.add_argument("--recordings", required=True)
    a = p.parse_args()
    bad = trials = 0
    for name, want in EXPECTED.items():
        v = judge(a, os.path.join(a.recordings, name))
        ok = v["class"] in want and (name == "ok") == (v["subclass"] == "nothing failed") and v["vendor"] == "nvidia"
        print(f"{'ok ' if ok else 'BAD'} {name:14} {v['class']:16} {v['subclass']:24} {v['confidence']:7} {v['path'][-1]['node']}")
        wrong = [s for s in v["starved"] if s["confidence"] == "high" and s["class"] not in want | {"unknown"}]
        for s in wrong:
            print(f"BAD {name:14} without {s['without']}: {s['class']} at high confidence")
        trials += len(v["starved"])
        bad += len(wrong) + (not ok)
    print(f"{trials} times one fact was taken away; it made no wrong answer sure" if bad == 0 else f"{bad} wrong")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
