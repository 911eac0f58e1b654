#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Judge the recordings of real GPU memory failures: folder -> facts -> diagnose_files -> class.

What the sampler and the torch hook would have known is taken from gpu.csv, steps.jsonl and
oom.json; growth is judged as the telemetry does: minima of windows, median slope, rising share.
"""
import argparse, json, os, statistics, subprocess, sys, tempfile

EXPECTED = {
    "capacity": {"capacity"}, "capacity_act": {"capacity"}, "fragmentation": {"fragmentation"},
    "frag_churn": {"fragmentation"}, "leak": {"leak"}, "leak_swap": {"leak"}, "held": {"held-by-other"},
    "cache_starves": {"fragmentation"}, "fault": {"app-bug", "page-fault"}, "segv": {"app-bug"},
    "ok": {"unknown"},
}
MIB, WINDOWS = 1 << 20, 64


def growth(values, seconds):
    n = min(WINDOWS, len(values) // 4)  # a window holds a step and its release
    if n < 4:
        return {}
    low = [min(values[i * len(values) // n:(i + 1) * len(values) // n]) for i in range(n)]
    slopes = [(low[k] - low[i]) / (k - i) for i in range(n) for k in range(i + 1, n)]
    rising = sum(b > a for a, b in zip(low, low[1:]))
    return {"f.growth.samples": len(values), "f.growth.total_bytes": low[-1] - low[0],
            "f.growth.rising_share_percent": 100.0 * rising / (n - 1),
            "f.growth.slope_bytes_per_s": int(statistics.median(slopes) * n / max(seconds, 1e-3)),
            "f.growth.duration_ms": int(seconds * 1000)}


def read_gpu(path):
    rows = [line.split(",") for line in open(path, encoding="utf-8") if line.count(",") >= 4]
    used = [int(r[1]) * MIB for r in rows]
    return used, int(rows[0][3]) * MIB if rows else 0


def facts_of(folder):
    facts = {"report.gpu": "NVIDIA H200", "log.output_read": True, "kmsg.readable": True}
    rc = int(open(os.path.join(folder, "rc")).read().strip() or 0)
    facts["target.exit_code"] = rc
    if rc > 128:
        facts.update({"target.signal": rc - 128, "target.exit_code": None})
    used, total = read_gpu(os.path.join(folder, "gpu.csv"))
    listed = [{"name": "gpu.0.vram.total_bytes", "value": total, "when": "static", "source": "gpu.csv"},
              {"name": "gpu.0.vram.used_bytes", "value": used[0], "when": "baseline", "source": "gpu.csv"},
              {"name": "gpu.0.vram.used_bytes", "value": max(used), "when": "impact", "source": "gpu.csv"}]
    steps = os.path.join(folder, "steps.jsonl")
    rows = [json.loads(x) for x in open(steps, encoding="utf-8")] if os.path.exists(steps) else []
    stats = rows[-1]["stats"] if rows else {}
    oom = os.path.join(folder, "oom.json")
    if os.path.exists(oom):
        stats = json.load(open(oom)).get("stats") or stats
    for fact, key in (("allocated_bytes", "allocated_bytes.all.current"), ("reserved_bytes", "reserved_bytes.all.current"),
                      ("allocated_total_bytes", "allocated_bytes.all.allocated"),
                      ("freed_total_bytes", "allocated_bytes.all.freed")):
        if key in stats:
            facts[f"torch.{fact}"] = stats[key]
    series = [r["stats"]["allocated_bytes.all.current"] for r in rows
              if "allocated_bytes.all.current" in r.get("stats", {})]
    if series:
        facts.update(growth(series, rows[-1]["t"] - rows[0]["t"]))
    listed += [{"name": k, "value": v, "when": "impact", "source": "recording"}
               for k, v in facts.items() if v is not None]
    return {"format": 1, "facts": listed}


def judge(a, folder):
    with tempfile.TemporaryDirectory() as scratch:
        facts, args = os.path.join(scratch, "facts.json"), os.path.join(scratch, "args")
        with open(facts, "w", encoding="utf-8") as f:
            json.dump(facts_of(folder), f)
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
