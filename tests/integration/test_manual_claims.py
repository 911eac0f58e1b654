# SPDX-License-Identifier: Apache-2.0
"""Tries each claim of rocmcrash(1): each option of a run and of a verb, each exit status, file and example. An option
that the page has and no test here (or in ELSEWHERE) is a failure: see `Complete`."""

import ast
import concurrent.futures
import json
import os
import re
import shutil
import signal
import subprocess
import tarfile
import tempfile
import unittest

import support
from replay import GIB, Machine

PAGE = os.path.join(os.path.dirname(os.path.dirname(support.ROCMCRASH)), "src", "cli", "manual", "rocmcrash.1")
# Options that need a machine, a framework or an allocator: the test that has it and names the option.
ELSEWHERE = {
    "run --hang-after": "hang:Hang.hang",
    "run --on-hang": "hang:StandsStill.test_it_is_looked_at_and_ended",
    "run --full-bundles": "fleet:Fleet.test_all_of_them_full",
    "run --event-to": "fleet:Fleet.test_event",
    "fleet --html": "fleet:Fleet.test_page",
    "fleet --csv": "fleet:Fleet.test_table",
    "fleet --openmetrics": "fleet:Fleet.test_metrics",
    "run --bundle-at": "bundle_at:BundleAt.test_wrong_conditions",
    "snap --watch": "watch:SnapWatch.test_a_bundle_when_it_comes_to_hold",
    "snap --times": "watch:SnapWatch.test_wrong_words",
    "watch --output-dir": "watch:WatchCase.watch",
    "watch --bundle-at": "watch:Watch.test_wrong_words",
    "watch --hang-after": "watch:Watch.test_options",
    "watch --quiet": "watch:Watch.test_options",
    "watch --color": "watch:Watch.test_options",
    "watch --json": "watch:Watch.crash",
    "watch --keep": "watch:Watch.test_options",
    "watch --sysroot": "watch:Watch.test_options",
    "snap --color": "snap:WhatCanBeHad.test_options",
    "snap --keep": "snap:WhatCanBeHad.test_options",
    "snap --quiet": "snap:WhatCanBeHad.test_options",
    "snap --output-dir": "snap:SnapCase.snap",
    "snap --sysroot": "snap:ToldApart.test_gpu_hang_by_the_kernel_log",
    "snap --tree": "snap:NotNoticed.test_tree_of_eight",
    "run --torch-history": "hook_bundles:Bundles.test_who_grew",
    "run --include": "privacy:PlantedInRun.test_a_dump_only_when_included",
    "redact --include": "surface:Foreign.test_binary_only_when_included",
    "rerun --trace-alloc": "samples:Rerun.test_trace",
    "try --with": "try:Findings.test_postponed",
    "try --without": "try:Findings.test_one_allocator_setting",
    "try --with-arg": "try:Findings.test_breaks_otherwise",
    "try --with-limit": "try:Findings.test_descriptors",
    "try --suggested": "try:Findings.test_bundle",
    "try --yes": "try:Findings.test_bundle",
    "try --error": "try:Findings.setUpClass",
    "try --first": "try:Findings.test_descriptors",
    "try --json": "try:Findings.setUpClass",
    "try --output-dir": "try:TryCase.launch",
    "try --fail-after": "try:Findings.test_hang",
    "try --pass-after": "try:Findings.test_hang",
    "fit --vary": "try:Fit.test_the_largest",
    "fit --model": "fit_model:FitModel.fit",
    "fit --room": "fit_model:FitModel.test_what_is_counted_and_what_is_not",
    "fit --json": "try:Fit.test_the_largest",
    "fit --output-dir": "try:Fit.fit",
    "fit --fail-after": "try:Fit.test_times",
    "fit --pass-after": "try:Fit.test_times",
    "try --runs": "try:Budgets.test_runs",
    "try --for": "try:Budgets.test_time",
    "show --no-pager": "terminal:Show.test_pager",
    "list --class": "terminal:Listing.test_one_class",
    "list --prune": "terminal:Listing.test_prune",
    "list --yes": "terminal:Listing.test_prune",
    "stacks --json": "verbs:Verbs.test_a_process_of_ours",
    "snap --json": "verbs:Verbs.test_a_process_of_ours",
    "release --json": "verbs:Verbs.test_a_process_of_ours",
    "complete --json": "verbs:Verbs.call",
    "export --torch": "export:Torch.export",
    "recover --json": "caller_dies:ProcessTheCallerStarted.everything",
}
OOM = "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 24.00 GiB of which 1.00 GiB is free."
ABORT = "import os, sys; print('read /home/marlowe/data.txt', file=sys.stderr); os.abort()"


def page_text():
    return re.sub(r"\\f.", "", support.read(PAGE).replace("\\-", "-"))


def options_of_page():
    """{"run --quiet": "-q", "doctor --all": "-a", ...}"""
    page = page_text()
    parts = {"run": page[page.index(".SH OPTIONS"):page.index(".SH VERBS")]}
    for part in page[page.index(".SH VERBS"):page.index(".SH EXIT STATUS")].split(".SS ")[1:]:
        parts[part.split()[0]] = part
    return {f"{verb} --{name}": short for verb, text in parts.items()
            for short, name in re.findall(r"^(?:(-\w), )?--([\w-]+)", text, re.M) if name != "help"}


def at_once(*calls):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        return [future.result() for future in [pool.submit(call) for call in calls]]


class Claims(support.Case):
    """Two bundles, made once: a program that aborts, and the same on a machine with a GPU."""

    first = second = root = None

    @classmethod
    def setUpClass(cls):
        if not os.path.exists(PAGE):
            raise unittest.SkipTest("the programs under test are not in a build tree")
        if Claims.first is None:
            made = cls("setUp")
            made.setUp()
            unittest.addModuleCleanup(made.doCleanups)
            machine = Machine(made.path("machine"))
            machine.gpu(24 * GIB, 1 << 30).ram(64 * GIB, 50 * GIB)
            Claims.root = machine.top
            runs = at_once(lambda: made.run_of(ABORT), lambda: made.run_of(ABORT, "--sysroot=" + machine.top))
            Claims.first, Claims.second = (made.only_bundle(run).path for run in runs)

    def run_of(self, code, *options, **kwargs):
        """Runs a Python program in a folder of its own, with these options only."""
        folder = tempfile.mkdtemp(dir=self.folder)
        done = subprocess.run([support.ROCMCRASH, *options, "--", support.PYTHON, "-c", code], cwd=folder, text=True,
                              capture_output=True, env={**self.environ, **kwargs}, check=False, timeout=60)
        bundles = [support.Bundle(os.path.join(folder, name)) for name in os.listdir(folder) if name.endswith(".tar.gz")]
        return Run(done, folder, bundles)

    def only_bundle(self, run):
        self.assertEqual(len(run.bundles), 1, run.stderr)
        return run.bundles[0]

    def out(self, *words, status=0, **kwargs):
        done = self.verb(*words, **kwargs)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout

    def json(self, *words, status=0):
        return json.loads(self.out(*words, status=status))


class Run:
    def __init__(self, done, folder, bundles):
        self.status, self.stdout, self.stderr = done.returncode, done.stdout, done.stderr
        self.folder, self.bundles = folder, bundles
        self.own = [line for line in done.stderr.splitlines() if "rocmcrash: " in line]


class OptionsOfARun(Claims):
    def test_run_output_dir(self):
        folders = [tempfile.mkdtemp(dir=self.folder) for _ in range(2)]
        *runs, here = at_once(lambda: self.run_of(ABORT, "-o", folders[0]), lambda: self.run_of(ABORT, "--output-dir=" + folders[1]),
                              lambda: self.run_of(ABORT))
        self.assertEqual([run.bundles for run in runs], [[], []])
        for run, words in (*((run, "'rocmcrash show BUNDLE' prints it") for run in runs), (here, "'rocmcrash show' prints it")):
            self.assertIn("rocmcrash: next: " + words, run.stderr)
        self.assertEqual([len(os.listdir(folder)) for folder in folders], [1, 1])

    def test_run_bundle_on(self):
        survived = f"import sys; print({OOM!r}, file=sys.stderr)"
        cases = [("failure", ABORT, 1), ("failure", survived, 0), ("failure", "1 / 0", 0), ("error", "1 / 0", 1),
                 ("signal", "1 / 0", 0), ("signal", ABORT, 1), ("oom", survived, 1), ("oom", "1 / 0", 0), ("always", "pass", 1)]
        runs = at_once(*(lambda when=when, code=code: self.run_of(code, "--bundle-on=" + when) for when, code, _ in cases))
        for case, run in zip(cases, runs):
            self.assertEqual(len(run.bundles), case[2], case)

    def test_run_always(self):
        self.assertEqual(len(self.run_of("pass", "--always").bundles), 1)

    def test_run_finish_within(self):
        """The slow collectors get the time that remains after the verdict."""
        no_hashing = "--hash-budget=0s"
        none, usual = at_once(lambda: self.run_of(ABORT, no_hashing, "--finish-within=1ms"),
                              lambda: self.run_of(ABORT, no_hashing, "--finish-within=60s"))
        self.assertEqual([self.only_bundle(run).row("python")["status"] for run in (none, usual)], ["skipped", "ok"])

    def test_run_hash_budget(self):
        header = json.dumps({"w": {"dtype": "U8", "shape": [1 << 26], "data_offsets": [0, 1 << 26]}}).encode()
        with open(self.path("w.safetensors"), "wb") as file:
            file.write(len(header).to_bytes(8, "little") + header)
            file.truncate(8 + len(header) + (1 << 26))
        code = f"import os; f = open({self.path('w.safetensors')!r}); os.abort()"
        none, usual = at_once(lambda: self.run_of(code, "--hash-budget=0s"), lambda: self.run_of(code))
        self.assertEqual(self.only_bundle(usual).row("models")["status"], "ok")
        self.assertNotEqual(self.only_bundle(none).row("models")["status"], "ok")

    def test_run_trace(self):
        modes = ("auto", "eager", "late", "none")
        runs = at_once(*(lambda mode=mode: self.run_of(ABORT, "--trace=" + mode) for mode in modes))
        self.assertEqual([self.only_bundle(run).value("run.traced") is True for run in runs], [True, True, True, False])

    def test_run_follow(self):
        """stdout in its own pipe is read only with "all". With "none" not even stderr is read."""
        said = "import os, sys; text = b'HIP out of memory\\n'; os.write(1, text); os.write(2, text); os.abort()"
        for mode, files in (("stderr", {"output/stderr.txt"}), ("all", {"output/stderr.txt", "stdout/stdout.txt"}),
                            ("none", set())):
            bundle = self.only_bundle(self.run_of(said, f"--follow={mode}"))
            self.assertEqual({"output/stderr.txt", "stdout/stdout.txt"} & set(bundle.files), files)

    def test_run_no_follow(self):
        self.assertNotIn("output/stderr.txt", self.only_bundle(self.run_of(ABORT, "--no-follow")).files)
        self.assertIn("output/stderr.txt", support.Bundle(self.first).files)

    def test_run_orphan(self):
        for what, ends in (("kill", True), ("keep", False)):
            process = subprocess.Popen([support.ROCMCRASH, "--orphan=" + what, "-o", self.outdir, "--", "sleep", "1000"], env=self.environ)
            target = self.target_pid(process.pid)
            support.wait_for(lambda pid=target: support.comm(pid) == "sleep", "the program to run")
            recorder = self.helper(process.pid, "recorder")
            process.kill()
            process.wait()
            if ends:
                support.wait_for(lambda pid=target: not support.is_running(pid), "the program to be killed")
            else:
                self.assertTrue(support.is_running(target))
                os.kill(target, signal.SIGKILL)
            support.wait_for(lambda pid=recorder: not support.is_running(pid), "the recorder to end")

    def test_run_inject(self):
        """The library is in the program's memory map; the hook's facts about (a stand-in for) PyTorch are in the
        bundle."""
        code = "import os, torch; torch.empty(1 << 20); print('librocmcrash-ledger' in open('/proc/self/maps').read(), flush=True); os.abort()"
        torch = os.path.join(support.SOURCE, "tests", "fixtures", "hook")
        cases = {"all": (True, True), "python": (False, True), "ledger": (True, False), "none": (False, False)}
        runs = at_once(*(lambda what=what: self.run_of(code, "--inject=" + what, PYTHONPATH=torch) for what in cases))
        for (what, expected), run in zip(cases.items(), runs):
            hook = any(name.startswith("hook/") for name in self.only_bundle(run).files)
            self.assertEqual((run.stdout.strip() == "True", hook), expected, (what, run.stderr))

    def test_run_quiet(self):
        *quiet, usual = at_once(*(lambda words=words: self.run_of(ABORT, *words) for words in (["-q"], ["--quiet"], [])))
        self.assertEqual([(len(run.bundles), run.own) for run in quiet], [(1, []), (1, [])])
        self.assertGreater(len(usual.own), 3)

    def test_run_color(self):
        whens = ("always", "never", "auto")
        runs = at_once(*(lambda when=when: self.run_of(ABORT, "--color=" + when, TERM="xterm") for when in whens))
        self.assertEqual(["\x1b[" in run.stderr for run in runs], [True, False, False])

    def test_run_keep(self):
        self.assertIn("/home/marlowe", self.only_bundle(self.run_of(ABORT, "--keep=homes,users")).text("output/stderr.txt"))
        self.assertNotIn("marlowe", support.Bundle(self.first).text("output/stderr.txt"))

    def test_run_preview(self):
        lines = self.run_of(ABORT, "--preview").own
        shown = [at for at, line in enumerate(lines) if "'/home/marlowe' -> <home" in line]
        self.assertEqual(len(shown), 1, lines)
        self.assertLess(shown[0], [at for at, line in enumerate(lines) if line.startswith("rocmcrash: bundle: ")][0])

    def test_run_site(self):
        """The site's rules read the text as it is in the bundle (rocmcrash-tree(5))."""
        self.write("site/messages.rules", "rule own\n  line data.txt\n  set site.seen true\n  match read data.txt\n"
                   "rule raw\n  line /home/marlowe\n  set site.raw true\n  match read /home/marlowe/x\n")
        bundle = self.only_bundle(self.run_of(ABORT, "--site=" + self.path("site")))
        self.assertEqual((bundle.value("site.seen"), bundle.value("site.raw")), (True, None))
        self.assertIsNone(support.Bundle(self.first).value("site.seen"))

    def test_run_sysroot(self):
        self.assertEqual(support.Bundle(self.second).value("gpu.0.vram.total_bytes"), 24 * GIB)
        self.assertIsNone(support.Bundle(self.first).value("gpu.0.vram.total_bytes"))
        by_variable = self.only_bundle(self.run_of(ABORT, ROCMCRASH_SYSROOT=self.root))
        self.assertEqual(by_variable.value("gpu.0.vram.total_bytes"), 24 * GIB)

    def test_run_version(self):
        for option in ("-V", "--version"):
            self.assertRegex(self.out(option), r"^rocmcrash \d+\.\d+\.\d+")


class OptionsOfVerbs(Claims):
    def test_show(self):
        """--all, --section, --raw, --json, --color"""
        plain, everything = self.out("show", self.first), self.out("show", "-a", self.first)
        self.assertEqual(everything, self.out("show", "--all", self.first))
        self.assertNotIn("run.traced", plain)
        self.assertIn("run.traced", everything)
        section = self.out("show", "--section=MEMORY", self.first)
        self.assertTrue(section.startswith("Memory\n"), section[:50])
        self.assertLess(len(section), len(plain) / 2)
        self.assertEqual(self.out("show", "--raw", self.first), support.Bundle(self.first).text("SUMMARY.md"))
        self.assertEqual(self.json("show", "--json", self.first)["verdict"]["class"], "app-bug")
        self.assertIn("\x1b[", self.out("show", "--color=always", self.first))
        self.assertNotIn("\x1b[", self.out("show", "--color=never", self.first) + plain)

    def test_issue(self):
        """--for, --json"""
        made = {name: self.json("issue", "--for", name, "--json", self.first)
                for name in ("rocm", "pytorch", "vllm", "llama.cpp", "jax", "drm-amd", "other")}
        self.assertEqual(len({document["body"] for document in made.values()}), 7)
        self.assertEqual({name: document["tracker"] for name, document in made.items()}, {name: name for name in made})
        self.assertTrue({"title", "body", "link", "makes_public"} <= set(made["rocm"]), made["rocm"].keys())

    def test_open(self):
        """--output, --print, --json"""
        page = support.Bundle(self.first).text("report.html")
        self.assertEqual(self.out("open", "-o", "-", self.first), page)
        self.out("open", "--output=" + self.path("page.html"), self.first)
        self.assertEqual(support.read(self.path("page.html")), page)
        self.environ["BROWSER"] = self.write("browser", f"#!/bin/sh\ntouch {self.path('started')}\n", 0o755)
        said = self.out("open", "--print", self.first)
        self.assertEqual(support.read(re.search(r"/\S+\.html", said).group()), page)
        self.assertEqual(support.read(self.json("open", "--json", self.first)["page"]), page)
        self.assertFalse(os.path.exists(self.path("started")))
        self.assertEqual(self.verb("open", "--json", "-o", "-", self.first).returncode, 125)

    def test_list(self):
        """--json"""
        folder = os.path.dirname(self.first)
        self.assertIn(os.path.basename(self.first), self.out("list", folder))
        rows = [json.loads(line) for line in self.out("list", "--json", folder).splitlines()]
        self.assertEqual([os.path.basename(row["path"]) for row in rows], [os.path.basename(self.first)])

    def test_collectors(self):
        """--json"""
        done = self.verb("collectors", "--json")
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([row["name"] for row in rows], [line.split()[0] for line in self.verb("collectors").stdout.splitlines()])
        self.assertTrue(all(row["describe"] and row["phase"] for row in rows))

    def test_verify(self):
        """--json"""
        self.assertTrue(self.json("verify", "--json", self.first)["good"])
        bad = self.write("bad.tar.gz", "no archive")
        self.assertFalse(self.json("verify", "--json", bad, status=1)["good"])

    def test_triage(self):
        """--kernel-log, --env, --facts, --tree, --explain, --json"""
        log = self.write("log", OOM + "\n")
        self.assertEqual(self.json("triage", "--json", log)["class"], "capacity")
        self.assertIn("Why not leak?", self.out("triage", "--explain=leak", log))
        kernel = self.write("dmesg", "[ 99.1] amdgpu 0000:03:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:3 pasid:32772)\n"
                            "[ 99.2] amdgpu 0000:03:00.0: amdgpu:   in page starting at address 0x00007f9a10e00000 from client 10\n")
        crash = self.write("crash", "Memory access fault by GPU node-1 (Agent handle: 0x55d0) on address 0x7f9a10e00000. Reason: Unknown.\n")
        self.assertEqual(self.json("triage", "--json", "--kernel-log=" + kernel, crash)["class"], "page-fault")
        tree = self.write("tree.json", "{}")
        self.assertIn("tree.json", self.verb("triage", "--tree=" + tree, log).stderr)
        facts = self.write("facts.json", json.dumps({"target.signal": 11, "target.signal_name": "SEGV"}))
        self.assertEqual(self.json("triage", "--json", "--facts=" + facts, self.write("none", "x\n"))["class"], "app-bug")
        fault = self.json("triage", "--json", "--env=" + self.write("env", "HSA_OVERRIDE_GFX_VERSION=10.3.0\n"), crash)
        self.assertNotEqual(fault, self.json("triage", "--json", crash))

    def test_diff(self):
        """--json, --all, --order"""
        document = self.json("diff", "--json", self.first, self.second, status=1)
        self.assertFalse(document["same"])
        self.assertGreater(len(self.out("diff", "-a", self.first, self.second, status=1)),
                           len(self.out("diff", self.first, self.second, status=1)))
        order = json.loads(support.read(os.path.join(support.SOURCE, "templates", "diff.json")))
        self.assertIn("order.json", self.verb("diff", "--order=" + self.write("order.json", "{}"), self.first, self.second).stderr)
        self.out("diff", "--order=" + self.write("order.json", json.dumps(order)), self.first, self.second, status=1)

    def test_doctor(self):
        """--json, --all, --facts, --rules, --sysroot"""
        there = ["doctor", "--sysroot=" + self.root]
        report = json.loads(self.verb(*there, "--json", "--", "/bin/true").stdout)
        self.assertNotIn("no-gpu", [finding["id"] for finding in report["findings"]])
        self.assertTrue(report["not_asked"])
        self.assertIn("????", self.verb(*there, "--all", "--", "/bin/true").stdout)
        self.assertNotIn("????", self.verb(*there, "--", "/bin/true").stdout)
        facts = self.write("facts.json", json.dumps({"gpu.present": False, "gpu.count": 0}))
        self.assertIn("no-gpu", self.out("doctor", "--facts=" + facts, status=2))
        rules = json.loads(support.read(os.path.join(support.SOURCE, "templates", "doctor.json")))
        rules["rules"] = [rule for rule in rules["rules"] if rule["id"] != "no-gpu"]
        self.assertNotIn("no-gpu", self.verb("doctor", "--facts=" + facts, "--rules=" + self.write("r.json", json.dumps(rules))).stdout)

    def test_fleet(self):
        """--json, --rows, --no-pager"""
        self.assertEqual(self.json("fleet", "--json", self.first, self.second)["bundles"], 2)
        ranks = [self.only_bundle(self.run_of(ABORT, RANK=rank, WORLD_SIZE="2")).path for rank in "01"]
        whole = self.out("fleet", "--no-pager", *ranks)
        self.assertIn("and 1 more (--rows)", self.out("fleet", "--rows=1", *ranks))
        self.assertNotIn("(--rows)", whole)

    def test_export(self):
        """--trace, --output, --json"""
        trace = json.loads(self.out("export", "--trace", self.first))
        self.assertIn("traceEvents", trace)
        for option in (("-o", self.path("a.json")), ("--output=" + self.path("a.json"),)):
            told = self.json("export", "-t", "--json", *option, self.first)
            self.assertEqual(told["bytes"], os.path.getsize(told["output"]))
            with open(self.path("a.json"), encoding="utf-8") as file:
                self.assertEqual(json.load(file), trace)
            os.remove(self.path("a.json"))

    def test_reveal(self):
        """--json"""
        run = self.run_of(ABORT)
        names = self.json("reveal", "--json", self.only_bundle(run).path)
        self.assertIn("/home/marlowe", names.values())
        hidden = next(name for name, value in names.items() if value == "/home/marlowe")
        self.assertIn("/home/marlowe/data.txt", self.out("reveal", run.bundles[0].path, self.write("t", f"read {hidden}/data.txt\n")))

    def test_redact(self):
        """--keep, --preview, --json"""
        log = self.write("log", "user marlowe reads /home/marlowe/data.txt\n")
        clean = self.out("redact", log)
        self.assertNotIn("marlowe", clean)
        told = self.json("redact", "--json", log)
        self.assertEqual((told["text"], told["preview"]), (clean, False))
        self.assertGreater(sum(told["replaced"].values()), 0)
        with open(log, "ab") as file:
            file.write(b"a\0b\n")
        self.assertTrue(self.json("redact", "--json", log)["text"].endswith("a\ufffdb\n"))
        self.assertIn("/home/marlowe", self.out("redact", "--keep=homes,users", log))
        done = self.verb("redact", "--preview", log)
        self.assertIn("/home/marlowe", done.stdout + done.stderr)
        self.assertIn(" -> <", done.stdout + done.stderr)
        before = os.listdir(self.folder)
        self.verb("redact", "--preview", self.first)
        self.assertEqual(os.listdir(self.folder), before)

    def test_rerun(self):
        """--yes, --output-dir, --json"""
        run = self.run_of(ABORT)
        path = self.only_bundle(run).path
        for words in (["-y", "-o", self.outdir], ["--yes", "--output-dir=" + self.outdir]):
            done = self.verb("rerun", *words, path)
            self.assertEqual(done.returncode, 128 + signal.SIGABRT, done.stderr)
            self.assertEqual(len(os.listdir(self.outdir)), 1)
            os.remove(os.path.join(self.outdir, os.listdir(self.outdir)[0]))
        told = self.json("rerun", "--json", "-y", path, status=128 + signal.SIGABRT)
        self.assertEqual((told["status"], told["class"]), (128 + signal.SIGABRT, support.Bundle(told["bundle"]).verdict["class"]))
        done = self.verb("rerun", path, stdin=subprocess.DEVNULL)
        self.assertNotEqual(done.returncode, 128 + signal.SIGABRT)  # nobody said yes

    def test_config(self):
        """--json"""
        names = {row["name"] for row in self.json("config", "--json")["settings"]}
        for name in names:
            self.assertIn(name, self.out("config"))


class TheRest(Claims):
    def status(self, *words):
        return subprocess.run([support.ROCMCRASH, *words], env=self.environ, cwd=self.folder, capture_output=True, check=False).returncode

    def test_exit_status(self):
        text = self.write("text", "no program")
        self.assertEqual(self.status("--", "sh", "-c", "exit 7"), 7)
        self.assertEqual(self.status("-q", "--", "sh", "-c", "kill -TERM $$"), -signal.SIGTERM)
        self.assertEqual(self.status("--bundle-on=nonsense", "--", "true"), 125)
        self.assertEqual(self.status("--", text), 126)
        self.assertEqual(self.status("--", "/nowhere/program"), 127)
        page = page_text()
        told = page[page.index(".SH EXIT STATUS"):page.index(".SH CONFIGURATION")]
        self.assertEqual(re.findall(r"^\.B (\d+)$", told, re.M), ["125", "126", "127", "0", "1", "2", "125"])
        bad = self.write("bad.tar.gz", "no archive")
        facts = self.write("facts.json", json.dumps({"gpu.present": False, "gpu.count": 0}))
        cases = {0: [("verify", self.first), ("diff", self.first, self.first), ("show", self.first)],
                 1: [("verify", bad), ("diff", self.first, self.second)],
                 2: [("show",), ("show", bad), ("triage", "/nowhere"), ("release", "1"), ("doctor", "--facts=" + facts)],
                 125: [("show", "--frobnicate"), ("release", "x"), ("doctor", "--frobnicate")]}
        for status, verbs in cases.items():
            for words in verbs:
                self.assertEqual(self.status(*words), status, words)

    def test_description(self):
        self.assertEqual(self.run_of("pass").bundles, [])
        bundle = support.Bundle(self.first)
        with tarfile.open(self.first) as tar:
            self.assertEqual(len({name.split("/")[0] for name in tar.getnames()}), 1)
        self.assertTrue(bundle.verdict["class"] and bundle.verdict["why"])
        secret = "hf_" + "0123456789abcdefghijABCDEFGHIJ0123"
        run = self.run_of(ABORT.replace("read ", secret + " "), "--keep=homes,users,paths")
        self.assertNotIn(secret, self.only_bundle(run).text("output/stderr.txt"))  # secrets always

    def test_configuration(self):
        """A later source has precedence; integration.config tests /etc."""
        self.write("config/rocmcrash/config", "# of ours\nbundle-on = always\nquiet = yes\n")
        run = self.run_of("pass")
        self.assertEqual((len(run.bundles), run.own), (1, []))
        self.assertEqual(self.run_of("pass", ROCMCRASH_BUNDLE_ON="failure").bundles, [])
        self.assertEqual(len(self.run_of("pass", "--always", ROCMCRASH_BUNDLE_ON="failure").bundles), 1)
        self.write("config/rocmcrash/config", "bundle-on = always\ncolour = never\n")
        run = self.run_of("print(1)")
        self.assertEqual((run.status, run.stdout), (125, ""))
        self.assertIn("config:2:", run.stderr)

    def test_environment(self):
        """ROCMCRASH_STATE_DIR, XDG_STATE_HOME, ROCMCRASH_TEMPLATES; integration.config has the variables of
        settings."""
        del self.environ["ROCMCRASH_STATE_DIR"]
        runs = at_once(lambda: self.run_of(ABORT, ROCMCRASH_STATE_DIR=self.path("named")),
                       lambda: self.run_of(ABORT, XDG_STATE_HOME=self.path("xdg")), lambda: self.run_of(ABORT, HOME=self.path("home"), XDG_STATE_HOME=""))
        for run in runs:
            self.only_bundle(run)
        for name in ("named", "xdg/rocmcrash", "home/.local/state/rocmcrash"):
            self.assertTrue(os.path.isdir(self.path(name)), name)
        self.environ["ROCMCRASH_TEMPLATES"] = self.path("nowhere")
        run = self.run_of(ABORT)
        self.only_bundle(run)
        self.assertEqual(run.stderr.count("nowhere' is not used: it has no tree.json that can be read; our own templates are used"), 1)
        if os.geteuid() == 0:
            shutil.copytree(os.path.join(os.environ["ROCMCRASH_SOURCE"], "templates"), self.path("foreign"))
            os.chown(self.path("foreign"), 65534, 65534)
            self.environ["ROCMCRASH_TEMPLATES"] = self.path("foreign")
            run = self.run_of(ABORT)
            self.only_bundle(run)
            self.assertIn("foreign' is not used: it belongs to another user", run.stderr)

    def test_verbs_without_options(self):
        self.assertEqual(self.status("collectors"), 0)
        self.assertEqual(self.status("recover"), 0)
        self.assertIn("doctor", self.out("help"))
        self.assertEqual(self.out("help", "doctor"), self.out("doctor", "--help"))
        self.assertIn("show", self.out("--help"))

    def test_examples(self):
        """These are the examples of the page."""
        page = page_text()
        commands = re.findall(r"^\.B (rocmcrash .*)$", page[page.index(".SH EXAMPLES"):page.index(".SH SEE ALSO")], re.M)
        self.assertEqual(len(commands), 3)
        self.write("train.py", ABORT)
        self.write("log.txt", OOM + "\n")
        self.assertTrue(os.path.exists(self.first))
        folder = os.path.join(self.folder, "bin")
        os.mkdir(folder)
        os.symlink(support.ROCMCRASH, os.path.join(folder, "rocmcrash"))
        os.symlink(support.PYTHON, os.path.join(folder, "python"))
        self.environ["PATH"] = folder + ":" + self.environ["PATH"]
        said = []
        for command in commands:
            done = subprocess.run(["sh", "-c", command.replace("BUNDLE", self.first)], cwd=self.folder, env=self.environ,
                                  capture_output=True, text=True, check=False)
            said.append((done.returncode, done.stdout + done.stderr))
        self.assertEqual([status for status, _ in said], [128 + signal.SIGABRT, 0, 0])
        bundles = [name for name in os.listdir(self.folder) if name.endswith(".tar.gz")]
        self.assertRegex(said[0][1], f"(?m)^rocmcrash: bundle: .*{re.escape(bundles[0])}$")
        self.assertIn("What to try", said[1][1])
        self.assertIn("(capacity, ", said[2][1])


class Complete(support.Case):
    def test_every_option_has_a_test(self):
        if not os.path.exists(PAGE):
            self.skipTest("the programs under test are not in a build tree")
        here = {}
        for name, owner in (("run", OptionsOfARun), ("", OptionsOfVerbs)):
            for test in (word for word in dir(owner) if word.startswith("test_")):
                verb, _, option = test[5:].partition("_") if name else (test[5:], "", "")
                words = ["--" + option.replace("_", "-")] if name else re.findall(r"--[\w-]+", getattr(owner, test).__doc__)
                here.update({f"{verb} {word}": test for word in words})
        for option, place in ELSEWHERE.items():
            file, _, name = place.partition(":")
            self.assertIn(option.split()[1], self.source_of(file, *name.split(".")), option)
        self.assertEqual(sorted([*here, *ELSEWHERE]), sorted(options_of_page()))

    @staticmethod
    def source_of(file, owner, test):
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), f"test_{file}.py"), encoding="utf-8") as stream:
            text = stream.read()
        classes = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef) and node.name == owner]
        return next(ast.get_source_segment(text, node) for node in classes[0].body if getattr(node, "name", "") == test)


if __name__ == "__main__":
    support.main()
