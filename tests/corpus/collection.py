# SPDX-License-Identifier: Apache-2.0
"""The collection of labelled reports, fed to the judge as its README says. Used by score.py."""
import json, os, subprocess, sys, tempfile, time

import tree_files


def load(shared):
    path = os.path.join(shared, "corpus", "cases.jsonl")
    if not os.path.exists(path):
        print(f"skipped: no {path}")
        sys.exit(77)
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def source_of(case):
    """https://github.com/OWNER/NAME/issues/N -> OWNER/NAME: who wrote the texts."""
    return "/".join(case["source"].split("/")[3:5])


def fields(case):
    """What a judge may see of a case: never its label, its id or its source."""
    ctx = case.get("context") or {}
    env = ctx.get("env") or {}
    return {"stderr": case.get("stderr") or "", "dmesg": case.get("dmesg") or "", "smi": ctx.get("rocm_smi") or "",
            "env": "".join(f"{k}={v}\n" for k, v in env.items()) if isinstance(env, dict) else str(env),
            "gpu": case.get("gpu") or "", "rocm": case.get("rocm") or "", "framework": case.get("framework") or ""}


def write_case(shown, folder, index):
    """-> the path of a file with the driver's arguments."""
    args = []
    for name in ("stderr", "dmesg", "smi", "env"):
        if shown[name]:
            path = os.path.join(folder, f"{index}-{name}")
            with open(path, "w", encoding="utf-8") as f:
                f.write(shown[name])
            args += [f"--{name}", path]
    facts = {f"report.{k}": shown[k] for k in ("gpu", "rocm", "framework") if shown[k]}
    path = os.path.join(folder, f"{index}-facts")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(facts, f)
    path_of_args = os.path.join(folder, f"{index}-args")
    with open(path_of_args, "w", encoding="utf-8") as f:
        f.write("\n".join(args + ["--facts", path]) + "\n")
    return path_of_args


class Judge:
    """The driver with a tree; one process for all cases of a call."""

    def __init__(self, driver, templates):
        self.driver, self.templates = driver, templates
        self.tree = tree_files.load(templates)

    def run(self, shown, options=(), without_nodes=()):
        """-> ([one JSON object a case], seconds). `without_nodes`: ids that the tree shall not have."""
        with tempfile.TemporaryDirectory() as folder:
            tree = os.path.join(folder, "tree.json")
            kept = dict(self.tree, nodes=[n for n in self.tree["nodes"] if n["id"] not in without_nodes])
            with open(tree, "w", encoding="utf-8") as f:
                json.dump(kept, f)
            lines = [write_case(s, folder, i) for i, s in enumerate(shown)]
            began = time.monotonic()
            run = subprocess.run([self.driver, tree, os.path.join(self.templates, "defects.json"), "--batch", *options],
                                 input="\n".join(lines) + "\n", capture_output=True, text=True)
            seconds = time.monotonic() - began
        if run.returncode != 0:
            sys.exit(f"driver failed: {run.stderr.strip()}")
        return [json.loads(line) for line in run.stdout.splitlines()], seconds


def grade(case, answer):
    if answer == "unknown":
        return "unknown"
    if answer == case["label"]:
        return "strict"
    return "lenient" if answer in (case.get("also") or []) else "wrong"
