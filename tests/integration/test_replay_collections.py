# SPDX-License-Identifier: Apache-2.0
"""Failures of the collections, replayed: with the same output, the same end, and the counters where they are known."""

import collections
import json
import os
import re
import signal
import subprocess
import sys
import unittest

import support
from replay import GIB, MIB, QUIET_LOG, Replay, in_parallel, summary
from support import RECORDED, SHARED, SOURCE

CORPUS = os.path.join(SHARED, "corpus", "cases.jsonl")
RECORDINGS = os.path.join(RECORDED, "recordings")


def match_texts():
    """The texts that the relay searches for, from its table (the trigger rules)."""
    rules = os.path.join(SOURCE, "templates", "messages.rules")
    compiler = os.path.join(SOURCE, "src", "message_rules", "compile.py")
    table = subprocess.run([sys.executable, "-B", compiler, rules, "--relay", "/dev/stdout"], check=True,
                           capture_output=True, text=True).stdout
    found = re.findall(r'\{MATCH_(?!REPORT)\w+, "((?:[^"\\]|\\.)*)"\}', table)
    return [text.encode().decode("unicode_escape") for text in found]


# Kernel lines that name a GPU failure or an OOM kill, whatever the program said.
KERNEL_TEXTS = re.compile(r"page fault \(src_id:|timeout, signaled seq=|MES failed to resp|"
                          r"invoked oom-killer|Killed process \d|GPU reset begin|"
                          r"Not enough memory for command submission")


def end_of(stderr, dmesg):
    """How a program with this output ends."""
    if re.search(r"Killed process|oom-kill:", dmesg) or re.search(r"(?m)\bKilled$", stderr):
        return signal.SIGKILL
    if re.search(r"Segmentation fault|SIGSEGV", stderr):
        return signal.SIGSEGV
    if re.search(r"Memory access fault by GPU|HW Exception by GPU|Aborted|SIGABRT|terminate called|"
                 r"aborting with error", stderr):
        return signal.SIGABRT
    return 0


def strictness(case, name):
    if name == "unknown":
        return "unknown"
    if name == case["label"]:
        return "strict"
    return "lenient" if name in (case.get("also") or []) else "wrong"


# Names in reports that mean exactly one chip.
CHIPS = [(r"Strix Halo|8060S|8050S|AI Max", "gfx1151"), (r"780M|Phoenix|7940HS|7840", "gfx1103"),
         (r"890M|880M|Strix Point", "gfx1150"), (r"680M", "gfx1035"), (r"MI300X", "gfx942"),
         (r"MI2[15]0", "gfx90a"), (r"MI100", "gfx908"), (r"7900", "gfx1100"), (r"7800|7700", "gfx1101"),
         (r"7600", "gfx1102"), (r"9070|R9700", "gfx1201"), (r"9060", "gfx1200"),
         (r"6[89]00|6950", "gfx1030"), (r"6600|6650", "gfx1032"), (r"6700|6750", "gfx1031"),
         (r"5700", "gfx1010"), (r"5500", "gfx1012"), (r"Radeon VII|MI[56]0", "gfx906"),
         (r"Vega|MI25", "gfx900")]


def chip_of(words):
    named = re.search(r"gfx\d+[0-9a-f]{2}", words)
    if named:
        return named.group()
    return next((gfx for pattern, gfx in CHIPS if re.search(pattern, words)), None)


class Collections(Replay):
    def outside_facts(self, bundle):
        """Every fact that comes from no text, as input of `triage` beside the texts. The recorded kernel log is of
        another boot, so its times cannot be compared with the run's."""
        path = self.path(f"facts-{os.path.basename(bundle.name)}-{id(bundle)}.json")
        listed = [fact for facts in bundle.facts.values() for fact in facts
                  if fact.get("when") != "log" and not fact["name"].startswith("run.start_") and not (
                      fact["name"].startswith("f.") and not fact["name"].startswith("f.growth"))]
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"format": 1, "facts": listed}, file)
        return path

    def check_same_verdict(self, done, texts):
        """Compares the bundle's verdict, that of the bundle judged again, and that of the texts with the bundle's
        facts."""
        bundle = done.bundles[0]
        self.assertEqual(self.triage(bundle.path), bundle.verdict)
        files = []
        if texts.get("kernel"):
            files += ["--kernel-log", self.write(f"k-{id(bundle)}", texts["kernel"])]
        files += ["--facts", self.outside_facts(bundle)]
        if texts.get("stderr"):
            files.append(self.write(f"s-{id(bundle)}", texts["stderr"]))
        again = self.triage(*files)
        if again["subclass"] == "by the reporter's words":  # what a program prints is no report
            return self.assertEqual(bundle.verdict["class"], "unknown")
        keys = ("class", "subclass", "confidence", "vendor")
        if [again[k] for k in keys] != [bundle.verdict[k] for k in keys]:
            # triage also reads the figures and the joined lines of a text: that is more evidence, but never more
            # confidence
            self.read_otherwise += 1
            self.assertNotEqual(again["confidence"], "high")

    def check_sound(self, done):
        bundle = done.bundles[0]
        self.assertNotIn("crashed", [item["status"] for item in bundle.manifest["items"]])
        self.assertEqual(self.verb("verify", bundle.path).returncode, 0)


@unittest.skipUnless(os.path.isfile(CORPUS), f"no {CORPUS}")
class Corpus(Collections):
    read_otherwise = 0  # cases that a run and triage judge differently

    def steps_of(self, m, case):
        stderr, dmesg = case.get("stderr") or "", case.get("dmesg") or ""
        ending = end_of(stderr, dmesg)
        kernel = dmesg
        if ending == signal.SIGKILL:  # the report's pid was that of the program
            kernel = re.sub(r"(Killed process )\d+|(task=\S+,pid=)\d+",
                            lambda hit: (hit.group(1) or hit.group(2)) + "{pid}", kernel)
        if "page fault (src_id:" in kernel:
            kernel = re.sub(r"\bpid \d+", "pid {pid}", kernel)
        steps = [["stderr", stderr if stderr.endswith("\n") or not stderr else stderr + "\n"]]
        if dmesg:
            m.put("dev/kmsg", QUIET_LOG)
            steps.append(["append", m.at("dev/kmsg"), kernel + "\n"])
        steps.append(["kill", ending] if ending else ["exit", 1])
        return steps, ending

    def run_case(self, item):
        index, case = item
        m = self.machine(str(index))
        if case["vendor"] == "amd":
            m.node(chip_of(case.get("gpu") or ""))
        steps, ending = self.steps_of(m, case)
        env = {k: str(v) for k, v in (case["context"].get("env") or {}).items()}
        options = ["--finish-within=2s", "--quiet"]
        done = self.replay(m, steps, options, env)
        asked = (ending or any(text in steps[0][1] for text in match_texts())
                 or KERNEL_TEXTS.search(case.get("dmesg") or ""))
        triggered = bool(done.bundles)
        if not triggered:
            done = self.replay(m, steps, [*options, "--always"], env)
        return done, m, steps, asked, triggered, ending

    def test_every_case(self):
        with open(CORPUS, encoding="utf-8") as file:
            cases = [case for case in map(json.loads, file) if case["context"].get("log_text")]
        results = in_parallel(self.run_case, enumerate(cases))
        counts, unseen, quiet = collections.Counter(), [], 0
        for case, (done, m, steps, asked, triggered, ending) in zip(cases, results):
            with self.subTest(case=case["id"]):
                self.assertEqual(done.status, -ending if ending else 1)
                self.assertEqual(done.stderr, steps[0][1])
                self.assertEqual(len(done.bundles), 1)
                self.assertTrue(triggered or not asked, "no bundle although the rules ask for one")
                if not triggered:
                    unseen.append(case["id"])
                self.check_sound(done)
                self.check_same_verdict(done, {"stderr": steps[0][1], "kernel": support.read(
                    m.at("dev/kmsg"))})
                verdict = done.bundles[0].verdict
                grade = strictness(case, verdict["class"])
                counts[grade] += 1
                quiet += not steps[0][1]
                if grade in ("wrong", "unknown"):
                    print(f"{grade:8} {case['id']:52} {case['label']:16} {summary(verdict)}")
                self.assertFalse(grade == "wrong" and verdict["confidence"] == "high", case["id"])
        self.assertLessEqual(self.read_otherwise, len(cases) // 30)
        total = len(cases)
        print(f"{total} cases ({quiet} without any stderr): " + ", ".join(
            f"{name} {counts[name]} ({100 * counts[name] / total:.1f} %)"
            for name in ("strict", "lenient", "unknown", "wrong")))
        print(f"ended with status 1 and no known message, so only --always leaves a bundle: {len(unseen)}")
        for name in unseen:
            print("  " + name)
        self.assertLessEqual(counts["wrong"], 0.10 * total)


# The accepted classes of each recording, by its README; "unknown" is accepted, too. tests/corpus/recordings.py
# says why frag_churn has two.
TRUE_OF = {"capacity": ["capacity"], "capacity_act": ["capacity"], "fragmentation": ["fragmentation"],
           "frag_churn": ["fragmentation", "capacity"], "leak": ["leak", "capacity"],
           "leak_swap": ["leak", "capacity"], "held": ["held-by-other"],
           "cache_starves": ["fragmentation", "capacity"], "fault": ["page-fault", "app-bug"],
           "segv": ["app-bug"], "ok": []}


class Recordings(Collections):
    def counters(self, folder):
        """The recording's used and total memory as a driver would show it, thinned to 2.4 s."""
        rows = [line.split(",") for line in support.read(os.path.join(folder, "gpu.csv")).splitlines()
                if line.count(",") >= 4]
        used = [int(row[1]) * MIB for row in rows]
        step = max(1, len(used) // 24)
        return used[::step], max(used), int(rows[0][3]) * MIB

    def run_recording(self, name):
        folder = os.path.join(RECORDINGS, name)
        m = self.machine(name)
        used, peak, total = self.counters(folder)
        m.gpu(total, used[0], "gfx942").ram(256 * GIB, 200 * GIB)
        m.put("dev/kmsg", support.read(os.path.join(folder, "dmesg")) or QUIET_LOG)
        stderr = support.read(os.path.join(folder, "stderr"))
        code = int(support.read(os.path.join(folder, "rc")).strip())
        steps = []
        for value in used[1:]:
            steps += [["write", m.used, f"{value}\n"], ["sleep", 0.1]]
        if code:
            steps.append(["write", m.used, f"{peak}\n"])
        steps += [["stderr", stderr], ["kill", code - 128] if code > 128 else ["exit", code]]
        return self.replay(m, steps), stderr, code, m

    def test_every_recording(self):
        self.assertEqual(sorted(TRUE_OF), sorted(
            n for n in os.listdir(RECORDINGS) if os.path.isdir(os.path.join(RECORDINGS, n))))
        results = in_parallel(self.run_recording, TRUE_OF)
        for name, (done, stderr, code, m) in zip(TRUE_OF, results):
            with self.subTest(recording=name):
                self.assertEqual(done.status, code if code <= 128 else 128 - code)
                self.assertEqual(done.target_stderr, stderr)
                self.assertEqual(len(done.bundles), 0 if name == "ok" else 1)
                if name == "ok":
                    self.assertEqual(done.stderr, "")
                    continue
                self.check_sound(done)
                self.check_same_verdict(done, {"stderr": stderr, "kernel": support.read(
                    m.at("dev/kmsg"))})
                verdict = done.bundles[0].verdict
                print(f"{name:14} {summary(verdict)}")
                self.assertIn(verdict["class"], [*TRUE_OF[name], "unknown"])


if __name__ == "__main__":
    support.main()
