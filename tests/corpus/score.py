#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Score the triage on the labelled reports: strict, lenient, unknown, wrong; per class and overall.

Feeds every case with log text to diagnose_files as the collection's README says, prints a table and
the confusion matrix. --check exits 1 below the project's floor. Exit 77: no collection here.
"""
import argparse, collections, json, os, random, re, subprocess, sys, tempfile, time

FLOOR_STRICT, CEILING_WRONG = 0.75, 0.08


def load(shared):
    path = os.path.join(shared, "corpus", "cases.jsonl")
    if not os.path.exists(path):
        print(f"skipped: no {path}")
        sys.exit(77)
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def perturb(text, rng):
    """Other pids, addresses and times; figures scaled, so that no rule can know a case by them."""
    if not text:
        return text
    text = re.sub(r"0x[0-9a-f]{6,}", lambda m: "0x%x" % rng.getrandbits(44), text)
    text = re.sub(r"\bpid[:= ]+\d+", lambda m: "pid %d" % rng.randrange(1000, 90000), text)
    scale = rng.uniform(0.98, 1.0)  # one factor for all, so that the arithmetic stays true
    return re.sub(r"(\d+\.\d+) (GiB|MiB)\b",
                  lambda m: "%.2f %s" % (float(m.group(1)) * scale, m.group(2)), text)


def write_case(case, folder, index, change):
    files, ctx = [], case.get("context") or {}
    env = ctx.get("env") or {}
    parts = {"--stderr": case.get("stderr"), "--dmesg": case.get("dmesg"), "--smi": ctx.get("rocm_smi"),
             "--env": "".join(f"{k}={v}\n" for k, v in env.items()) if isinstance(env, dict) else str(env)}
    for option, text in parts.items():
        if text:
            path = os.path.join(folder, f"{index}{option[1:]}")
            with open(path, "w", encoding="utf-8") as f:
                f.write(change(text) if option != "--env" else text)
            files += [option, path]
    facts = {f"report.{k}": case.get(k) or "" for k in ("gpu", "rocm", "framework")}
    path = os.path.join(folder, f"{index}-facts")
    with open(path, "w", encoding="utf-8") as f:
        json.dump({k: v for k, v in facts.items() if v}, f)
    args = os.path.join(folder, f"{index}-args")
    with open(args, "w", encoding="utf-8") as f:
        f.write("\n".join(files + ["--facts", path]) + "\n")
    return args


def judge(driver, templates, cases, change=lambda t: t):
    with tempfile.TemporaryDirectory() as folder:
        lines = [write_case(c, folder, i, change) for i, c in enumerate(cases)]
        began = time.monotonic()
        run = subprocess.run([driver, os.path.join(templates, "tree.json"),
                              os.path.join(templates, "defects.json"), "--batch"],
                             input="\n".join(lines) + "\n", capture_output=True, text=True)
        seconds = time.monotonic() - began
    if run.returncode != 0:
        sys.exit(f"driver failed: {run.stderr.strip()}")
    return [json.loads(line) for line in run.stdout.splitlines()], seconds


def grade(case, verdict):
    if verdict["class"] == "unknown":
        return "unknown"
    if verdict["class"] == case["label"]:
        return "strict"
    return "lenient" if verdict["class"] in (case.get("also") or []) else "wrong"


def percent(n, of):
    return f"{100 * n / of:5.1f} %" if of else "    -  "


def totals(cases, verdicts):
    count = collections.Counter(grade(c, v) for c, v in zip(cases, verdicts))
    n, answered = len(cases), len(cases) - count["unknown"]
    return {"n": n, "strict": count["strict"], "lenient": count["strict"] + count["lenient"],
            "unknown": count["unknown"], "wrong": count["wrong"], "answered": answered}


def line(name, t):
    print(f"{name:26} {t['n']:4}  strict {percent(t['strict'], t['n'])}  lenient {percent(t['lenient'], t['n'])}"
          f"  unknown {percent(t['unknown'], t['n'])}  wrong {percent(t['wrong'], t['n'])}"
          f"  lenient of answered {percent(t['lenient'], t['answered'])}")


def report(cases, verdicts, seconds):
    for label in sorted({c["label"] for c in cases}):
        rows = [(c, v) for c, v in zip(cases, verdicts) if c["label"] == label]
        line(label, totals(*zip(*rows)))
    print("-" * 130)
    line("all", totals(cases, verdicts))
    sure = [(c, v) for c, v in zip(cases, verdicts) if c["confidence"] != "low"]
    line("label high or medium", totals(*zip(*sure)))
    for level in ("high", "medium", "low"):
        rows = [(c, v) for c, v in zip(cases, verdicts) if v["confidence"] == level and v["class"] != "unknown"]
        if rows:
            line(f"answered at {level}", totals(*zip(*rows)))
    print("keyword baseline (a dozen expressions, whole collection): strict 56 %")
    print(f"{len(cases)} cases in {seconds:.2f} s")
    confusion = collections.Counter((c["label"], v["class"]) for c, v in zip(cases, verdicts)
                                    if grade(c, v) in ("wrong", "lenient"))
    print("label -> answer (not strict):")
    for (label, answer), n in sorted(confusion.items()):
        print(f"  {label:18} -> {answer:18} {n}")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--driver", required=True)
    p.add_argument("--templates", required=True)
    p.add_argument("--shared", required=True)
    p.add_argument("--check", action="store_true")
    p.add_argument("--list", action="store_true", help="every case that is not strict")
    a = p.parse_args()
    cases = [c for c in load(a.shared) if (c.get("context") or {}).get("log_text")]
    verdicts, seconds = judge(a.driver, a.templates, cases)
    report(cases, verdicts, seconds)
    rng = random.Random(1)
    changed, _ = judge(a.driver, a.templates, cases, lambda t: perturb(t, rng))
    line("numbers perturbed", totals(cases, changed))
    if a.list:
        for c, v in zip(cases, verdicts):
            g = grade(c, v)
            if g != "strict":
                node = v["path"][-1]["node"]
                print(f"{g:8} {c['id']:50} {c['label']:16} {v['class']:16} {v['confidence']:7} {node}")
    t = totals(cases, verdicts)
    high_wrong = sum(grade(c, v) == "wrong" and v["confidence"] == "high" for c, v in zip(cases, verdicts))
    if a.check and (t["strict"] < FLOOR_STRICT * t["n"] or t["wrong"] > CEILING_WRONG * t["n"] or high_wrong):
        sys.exit("below the floor")


if __name__ == "__main__":
    main()
