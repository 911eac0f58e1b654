# SPDX-License-Identifier: Apache-2.0
"""rocmcrash try: plain programs with planted causes, run for real. The statistics are tested by unit.campaign; here the
allowed error is large, so that campaigns are short."""

import concurrent.futures
import glob
import json
import os
import re
import resource
import signal
import subprocess

import sys
import tempfile

import support
from support import HIP_OOM, PYTHON

sys.path.insert(0, os.path.join(support.SOURCE, "samples"))
import on_emulator  # noqa: E402

BUILD = os.path.dirname(os.path.dirname(os.path.abspath(support.ROCMCRASH)))
ERROR = "0.2"
STARTED_BY_THEN = "6s"  # what ends at once has ended, on a busy machine, too
# Opens 300 files and fails with Python's message.
DESCRIPTORS = "files = [open('/dev/null') for _ in range(300)]"
# PyTorch's message after so many steps.
OUT_OF_MEMORY = f"""
import os, sys
for step in range(102 if os.environ.get('LATER') else 100):
    print('step', step)
sys.stdout.flush()
if {{condition}}:
    sys.stderr.write({HIP_OOM!r})
    sys.exit(1)
"""
HANG = "import os, time; time.sleep(0 if os.environ.get('QUICK') else 1000)"


class TryCase(support.Case):
    @staticmethod
    def few_descriptors():
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))

    def launch(self, out, *words, **kwargs):
        os.makedirs(self.path(out), exist_ok=True)
        kwargs.setdefault("env", self.environ)
        return subprocess.Popen([support.ROCMCRASH, "try", "--output-dir", self.path(out), *words], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, **kwargs)

    def campaign_bundle(self, out):
        found = glob.glob(self.path(out, "*.tar.gz"))
        self.assertEqual(len(found), 1, found)
        return support.Bundle(found[0])


class Findings(TryCase):
    """All campaigns run at once, because they mostly wait. Each test checks one."""

    @classmethod
    def setUpClass(cls):
        made = cls("setUp")
        made.setUp()
        cls.addClassCleanup(made.doCleanups)
        cls.made = made
        failed = made.run_it(PYTHON, "-c", DESCRIPTORS, options=["--keep=homes,paths,projects"], preexec_fn=cls.few_descriptors)
        cls.first_bundle = made.only_bundle(failed).path
        with_setting = {**made.environ, "PYTORCH_ALLOC_CONF": "max_split_size_mb:20"}
        program = OUT_OF_MEMORY.format
        campaigns = {
            "descriptors": (["--with-limit", "nofile=512", "--with", "UNRELATED=1", "--first", "--", PYTHON, "-c", DESCRIPTORS],
                            {"preexec_fn": cls.few_descriptors}),
            "bundle": (["--yes", "--suggested", "--with", 'UNRELATED_PASSWORD=zy"qjzvkx ${mwpq}', "--first", cls.first_bundle],
                       {"preexec_fn": cls.few_descriptors}),
            "allocator": (["--without", "PYTORCH_ALLOC_CONF", "--", PYTHON, "-c",
                           program(condition="os.environ.get('PYTORCH_ALLOC_CONF')")], {"env": with_setting}),
            "postponed": (["--with", "LATER=1", "--", PYTHON, "-c", program(condition="True")], {}),
            "otherwise": (["--with-arg", "--strange", "--", PYTHON, "-c",
                           "import sys\nif '--strange' in sys.argv: sys.exit(2)\n" + program(condition="True")], {}),
            "hang": (["--fail-after", STARTED_BY_THEN, "--with", "QUICK=@someone", "--", PYTHON, "-c", HANG], {}),
            "long": (["--pass-after", STARTED_BY_THEN, "--with", "LONG=1", "--", PYTHON, "-c",
                      "import os, sys, time; time.sleep(1000 if 'LONG' in os.environ else 0); sys.exit(3)"], {}),
        }
        with concurrent.futures.ThreadPoolExecutor(len(campaigns)) as pool:
            started = {name: made.launch(name, "--json", "--error", ERROR, *words, **more)
                       for name, (words, more) in campaigns.items()}
            outputs = {name: pool.submit(process.communicate, timeout=300) for name, process in started.items()}
            said = {name: future.result() for name, future in outputs.items()}
        cls.results = {name: (started[name].returncode, *said[name]) for name in campaigns}

    def result(self, name, status):
        code, out, err = self.results[name]
        self.assertEqual(code, status, out + err)
        return json.loads(out)

    def cell(self, result, identity):
        return next(cell for cell in result["cells"] if cell["id"] == identity)

    def test_descriptors(self):
        """--with-limit cures, --first ends the campaign."""
        result = self.result("descriptors", 0)
        self.assertEqual(result["status"], "confirmed")
        self.assertIn("confirmed: with nofile=512 0 of 3 runs failed, without it 3 of 3", result["sentence"])
        self.assertEqual(self.cell(result, "yours-1")["finding"], "cures")
        self.assertEqual(self.cell(result, "yours-2")["finding"], "undecided")
        self.assertEqual(self.cell(result, "yours-2")["failed"], 3)

    def test_bundle(self):
        """BUNDLE with --yes and --suggested: the table knows which limit to raise when descriptors run out."""
        if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 512:
            self.skipTest("the hard limit of open files is too low")
        result = self.result("bundle", 0)
        self.assertEqual(result["decided_by"], "more-files")
        self.assertEqual(self.cell(result, "more-files")["change"], "nofile=hard")

    def test_one_allocator_setting(self):
        """--without"""
        result = self.result("allocator", 0)
        self.assertIn("confirmed: with PYTORCH_ALLOC_CONF unset 0 of 2 runs failed", result["sentence"])

    def test_postponed(self):
        """--with a variable that only postpones the failure by 2 %."""
        result = self.result("postponed", 1)
        self.assertEqual(result["measure"], "lines printed")
        self.assertEqual(self.cell(result, "yours-1")["finding"], "postpones")
        self.assertIn("LATER=1 only postpones by 2.0 %", result["sentence"])
        self.assertEqual(result["status"], "no-help")

    def test_breaks_otherwise(self):
        """--with-arg that ends the program for another reason is no cure."""
        result = self.result("otherwise", 1)
        self.assertEqual(self.cell(result, "yours-1")["finding"], "otherwise")
        self.assertEqual(self.cell(result, "yours-1")["other_failure"], "exit code 2")

    def test_hang(self):
        """--fail-after: a run that does not end in time has failed; --pass-after: a run that lasts so long has not."""
        self.assertEqual(self.result("hang", 0)["status"], "confirmed")
        self.assertEqual(self.result("hang", 0)["runs"][0].get("failure", "no end"), "no end")
        self.assertEqual(self.result("long", 0)["status"], "confirmed")

    def test_a_change_is_no_mention(self):
        """The summary always shows the change as code."""
        summary = self.made.campaign_bundle("hang").text("SUMMARY.md")
        self.assertRegex(summary, "^# confirmed: with `QUICK=@someone` [0-9]+ of ")
        self.assertIn("**Try first:** Keep this change: `QUICK=@someone`", summary)
        self.assertIn("| `QUICK=@someone` |", summary)
        self.assertNotIn("@someone", re.sub("`[^`]*`", "", summary))

    def test_the_bundle_of_the_campaign(self):
        bundle = self.made.campaign_bundle("descriptors")
        self.assertRegex(bundle.name, "-resource-limit-confirmed$")
        self.assertEqual(self.verb("verify", bundle.path).returncode, 0)
        self.assertEqual(bundle.verdict["experiment"]["status"], "confirmed")
        self.assertTrue(bundle.verdict["sentence"].startswith("confirmed: with nofile=512 "))
        self.assertEqual(bundle.verdict["advice"], ["Keep this change: nofile=512"])
        self.assertEqual(bundle.verdict.keys() & {"signature", "file_at", "runner_up"}, set())
        self.assertEqual(bundle.row("experiment")["status"], "ok")
        self.assertIn("| `nofile=512` | 3 | 0 | cures |", bundle.text("SUMMARY.md"))
        self.assertEqual(json.loads(bundle.text("experiment/changed.facts.json"))["format"], 1)
        table = json.loads(bundle.text("experiment/experiment.json"))
        self.assertEqual(len(table["runs"]), 9)

    def test_each_verb_tells_the_campaign(self):
        """It does not show the single run, whose verdict and advice are out of date."""
        bundle = self.made.campaign_bundle("descriptors")
        headline = "confirmed: with nofile=512 0 of 3 runs failed, without it 3 of 3 (resource-limit, medium confidence)"
        advice = "Keep this change: nofile=512"
        self.assertTrue(bundle.text("SUMMARY.md").startswith(f"# {headline}\n"))
        for words, first in ((["show"], headline), (["issue"], f"Title: {headline}"), (["triage"], f"rocmcrash: {headline}")):
            said = self.verb(*words, bundle.path).stdout
            self.assertEqual(said.split("\n")[0], first)
            self.assertIn(advice, said)
            self.assertIn("Out of file descriptors", said)
            for of_one_run in ("ulimit -n", "File at", "Signature", "below 50 %"):
                self.assertNotIn(of_one_run, said, words)
        again = json.loads(self.verb("triage", "--json", bundle.path).stdout)
        for key in ("class", "confidence", "sentence", "advice", "verify", "experiment"):
            self.assertEqual(again[key], bundle.verdict[key], key)
        self.assertEqual(again.keys() & {"signature", "file_at", "runner_up"}, set())
        self.assertIn(headline, self.verb("triage", os.path.dirname(bundle.path)).stdout)

    def test_a_secret_with_a_quote_is_hidden_whole(self):
        bundle = self.made.campaign_bundle("bundle")
        for name in ("verdict.json", "SUMMARY.md", "experiment/experiment.json", "experiment/table.md"):
            text = bundle.text(name)
            self.assertNotRegex(text, "qjzvkx|mwpq", name)
            if name.startswith("experiment/"):
                self.assertRegex(text, "UNRELATED_PASSWORD=<secret:[a-z-]+>", name)

    def test_each_run_has_its_bundle(self):
        runs = glob.glob(self.made.path("descriptors", "rocmcrash-try-*", "*", "*.tar.gz"))
        self.assertEqual(len(runs), 9)
        self.assertEqual(len({os.path.basename(os.path.dirname(path))[5:] for path in runs}), 3)

    def test_what_is_not_confirmed_keeps_its_verdict(self):
        bundle = self.made.campaign_bundle("postponed")
        self.assertEqual(bundle.verdict["class"], "capacity")
        self.assertEqual(bundle.verdict["experiment"]["status"], "no-help")
        self.assertFalse(bundle.verdict["sentence"].startswith(("confirmed", "refuted")))
        said = self.verb("triage", bundle.path).stdout
        self.assertIn("(capacity, ", said.split("\n")[0])
        self.assertIn("rocmcrash: experiment: none of 1 changes helps", said)


class Emulated(TryCase):
    """A copy engine that stands still on the emulated GPU: the verdict chooses the change that confirms it."""

    def test_copy_engine(self):
        if not os.path.exists(os.path.join(BUILD, "samples", "copy_engine")):
            self.skipTest("the samples are not built here: they need the package libamdhip64-dev")
        if on_emulator.machine.MODELS[on_emulator.DEFAULT_MODEL].get("is_apu", False):
            self.skipTest("SAMPLES_MODEL is an APU")
        with tempfile.TemporaryDirectory(prefix="rc-try-machine-") as folder:
            run = on_emulator.Run("copy_engine", BUILD, folder)
            done = subprocess.run([run.keeper, run.machine, support.ROCMCRASH, "try", "--json", "--error", ERROR, "--first", "--with",
                                   "HSA_ENABLE_SDMA=0", "--output-dir", self.outdir, "--", run.program], capture_output=True, text=True,
                                  timeout=300, env=run.environ({"ROCMCRASH_STATE_DIR": self.path("state")}), check=False)
            if "cannot be preloaded" in done.stderr:
                self.skipTest(done.stderr[:80])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual((result["status"], result["class_before"]), ("confirmed", "sdma"))
        self.assertRegex(result["sentence"], r"^confirmed: with HSA_ENABLE_SDMA=0 0 of (\d) runs failed, without it \1 of \1; ")


class Budgets(TryCase):
    def try_it(self, *words, status):
        process = self.launch("out", *words)
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, status, out + err)
        return out, err

    def test_runs(self):
        out, err = self.try_it("--runs", "2", "--with", "A=1", "--", "sh", "-c", "exit 3", status=1)
        self.assertIn("undecided: these runs were too few; without a change 1 of 1 runs failed", out)
        self.assertNotIn("probability", out)  # of no finding
        self.assertNotIn("did not fail", err)
        self.assertEqual(err.count("failed: exit code 3"), 2)

    def test_a_command_that_does_not_fail_is_told(self):
        out, err = self.try_it("--runs", "8", "--with", "A=1", "--", "true", status=1)
        self.assertEqual(err.count("3 runs without a change did not fail: "), 1)
        self.assertIn("not reproduced: ", out)
        self.assertNotIn("probability", out)

    def test_nothing_to_try(self):
        bundle = self.only_bundle(self.run_it("/bin/sh", "-c", "ulimit -c 0; kill -ABRT $$"))
        err = self.try_it("--yes", bundle.path, status=2)[1]
        self.assertIn("no change is known that fits app-bug: name one (--with=NAME=VALUE)", err)
        err = self.try_it("--runs=2", "--", "true", status=2)[1]
        self.assertIn("the command did not fail in 2 runs: there is nothing to try", err)

    def test_time(self):
        """--for also ends a run that goes on. That run counts for nothing."""
        out, err = self.try_it("--for", "1s", "--with", "A=1", "--", "sleep", "1000", status=1)
        self.assertIn("rocmcrash: undecided: no run without a change had a result", out)
        self.assertEqual(err.count("rocmcrash: run "), 1)
        self.assertIn("says nothing: it was ended", err)

    def test_a_folder_with_the_signs_of_a_pattern(self):
        process = self.launch("of [ab]*?", "--runs", "2", "--with", "A=1", "--", "sh", "-c", "exit 3")
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 1, out + err)
        self.assertEqual(err.count("failed: exit code 3"), 2, err)
        self.assertEqual(len([name for name in os.listdir(self.path("of [ab]*?")) if name.endswith(".tar.gz")]), 1)

    def test_signals_that_the_caller_ignores(self):
        """The end of a run is seen even if the caller ignores SIGCHLD. The command gets the caller's dispositions:
        SIGCHLD ignored, SIGHUP not."""
        def ignore():
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
        program = (f"import sys; open({self.path('seen')!r}, 'w').write(next(l for l in open('/proc/self/status') if l.startswith('SigIgn')));"
                   "sys.exit(3)")
        process = self.launch("out", "--runs", "2", "--with", "A=1", "--", PYTHON, "-S", "-c", program, preexec_fn=ignore)
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 1, out + err)
        self.assertEqual(err.count("failed: exit code 3"), 2, err)
        ignored = int(support.read(self.path("seen")).split()[1], 16)
        self.assertEqual([ignored >> (number - 1) & 1 for number in (signal.SIGCHLD, signal.SIGHUP)], [1, 0])

    def test_runs_that_leave_no_bundle(self):
        """No run of the change says anything about the command."""
        away = f"test -z \"$A\" || rm -r {self.path('out')}/rocmcrash-try-*/*-yours-1; exit 3"
        out, err = self.try_it("--with", "A=1", "--json", "--", "sh", "-c", away, status=1)
        cell = json.loads(out)["cells"][1]
        self.assertEqual((cell["runs"], cell["failed"], cell["finding"]), (0, 0, "lost"))
        self.assertEqual(err.count("A=1: says nothing: it left no bundle"), 3, err)
        self.assertEqual(json.loads(out)["status"], "undecided")

    def test_a_change_is_for_the_program_alone(self):
        """Neither a variable nor a limit reaches rocmcrash itself; and the program's environment does not show how the
        change was passed."""
        told = self.path("told")
        program = f"""
import json, os, resource, sys
def parent(name):
    return open('/proc/%d/%s' % (os.getppid(), name)).read()
files = next(line for line in parent('limits').splitlines() if line.startswith('Max open files')).split()[3]
ours = [entry for entry in parent('environ').split(chr(0)) if entry.startswith('A=')]
row = dict(files=resource.getrlimit(resource.RLIMIT_NOFILE)[0], a=os.environ.get('A'), parent_files=int(files), parent_a=ours,
           change=os.environ.get('ROCMCRASH_CHANGE'))
with open({told!r}, 'a') as f:
    f.write(json.dumps(row) + chr(10))
sys.exit(3)
"""
        now = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        out, err = self.try_it("--runs", "3", "--with", "A=1", "--with-limit", "nofile=99", "--json", "--", PYTHON, "-S", "-c", program, status=1)
        self.assertEqual([run["failure"] for run in json.loads(out)["runs"]], ["exit code 3"] * 3, err)
        rows = [json.loads(line) for line in support.read(told).splitlines()]
        self.assertEqual({(row["parent_files"], tuple(row["parent_a"]), row["change"]) for row in rows}, {(now, (), None)})
        self.assertEqual({(row["files"], row["a"]) for row in rows}, {(now, None), (now, "1"), (99, None)})

    def test_limits_with_which_rocmcrash_could_not_run(self):
        out, err = self.try_it("--runs", "2", "--with-limit", "as=100000", "--json", "--", "sh", "-c", "exit 3", status=1)
        self.assertEqual(sorted(run["end"] for run in json.loads(out)["runs"]), ["failed", "failed"], err)

    def test_ctrl_c_tells_what_is_known(self):
        process = self.launch("out", "--with", "A=1", "--", "sh", "-c", f"echo $$ > {self.path('pid')}; exec sleep 1000")
        self.wait_for_file(self.path("pid"))
        target = int(support.wait_for(lambda: support.read(self.path("pid")).strip(), "the pid"))
        support.wait_for(lambda: support.comm(target) == "sleep", "the program")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1, out + err)
        self.assertIn("says nothing", err)
        self.assertIn("rocmcrash: undecided: no run without a change had a result", out)
        self.assertFalse(support.is_running(target))

    def test_what_cannot_be_tried(self):
        for words, status, said in ((["--with", "A", "--", "true"], 125, "NAME=VALUE"), (["--with-limit", "files=1", "--", "true"], 125, "a limit is"),
                                    (["--runs", "1", "--", "true"], 125, "--runs"), (["--", self.path("nothing")], 2, "was not started: rocmcrash: "),
                                    ([], 125, "usage"), ([self.path("nothing.tar.gz")], 2, "nothing.tar.gz")):
            _, err = self.try_it(*words, status=status)
            self.assertIn(said, err)

    def test_progress_on_a_terminal(self):
        command = [support.ROCMCRASH, "try", "--runs", "2", "--with", "A=1", "-o", self.outdir, "--", "sh", "-c", "sleep 0.3; exit 3"]
        status, seen = self.on_terminal(command, {**self.environ, "TERM": "xterm"})
        self.assertEqual(status, 1, seen)
        self.assertIn("run 1: ", seen)
        self.assertRegex(seen, r"run 2: .*\((about|at most) \d+:\d\d left\)")


class Fit(support.Case):
    PROGRAM = """
import sys, time
size = int(sys.argv[sys.argv.index("--size") + 1])
if size > {limit}:
    time.sleep({sleep})
    sys.stderr.write({message!r})
    sys.exit(1)
"""

    def fit(self, *words, status=0, limit=5, sleep=0, message=HIP_OOM):
        program = self.PROGRAM.format(limit=limit, sleep=sleep, message=message)
        done = subprocess.run([support.ROCMCRASH, "fit", "--output-dir", self.outdir, *words, "--", PYTHON, "-c", program, "--size", "64"],
                              capture_output=True, text=True, timeout=120, env=self.environ, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout

    def test_the_largest(self):
        """--vary with one word and --json; log2(8) + 2 runs at most and one that checks, each with its bundle."""
        result = json.loads(self.fit("--vary", "--size=1..8", "--json"))
        self.assertEqual((result["largest_that_runs"], result["smallest_that_fails"]), (5, 6))
        self.assertLessEqual(len(result["runs"]), 6)
        self.assertEqual(len(glob.glob(os.path.join(self.outdir, "rocmcrash-fit-*", "*", "*.tar.gz"))), len(result["runs"]))

    def test_a_failure_that_comes_and_goes(self):
        """No answer is given if the smallest failing value runs the next time."""
        program = f"""
import os, sys
if "6" in sys.argv and not os.path.exists({self.path("failed")!r}):
    open({self.path("failed")!r}, "w").close()
    sys.exit(3)
"""
        done = subprocess.run([support.ROCMCRASH, "fit", "-o", self.outdir, "--vary", "--size 5..6", "--", PYTHON, "-c", program],
                              capture_output=True, text=True, timeout=120, env=self.environ, check=False)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn("rocmcrash: --size 6 failed in 1 of 2 runs: the failure does not depend on --size alone", done.stdout)
        self.assertNotIn("largest", done.stdout)

    def test_two_words_and_another_failure(self):
        out = self.fit("--vary", "--size", "4..6", message="ValueError: odd\n")
        self.assertIn("--size 5 is the largest value that runs; 6 fails", out)
        self.assertIn("no lack of GPU memory: exit code 1", out)

    def test_no_value_runs(self):
        out = self.fit("--vary", "--size=4..6", limit=0, message="ValueError: odd\n", status=1)
        self.assertIn("rocmcrash: the failure is no lack of GPU memory: exit code 1\n", out)

    def test_what_an_engine_says_would_fit(self):
        """vLLM's message has the length of the context that fits: it is tried next; bisection would need 17 runs."""
        program = """
import sys
size = int(sys.argv[sys.argv.index("--max-model-len") + 1])
if size > 28592:
    print(f"ValueError: To serve at least one request with the models's max seq len ({size}), (9.92 GiB KV cache is needed, which is "
          "larger than the available KV cache memory (3.93 GiB). Based on the available memory, the estimated maximum model length is "
          "28592.", file=sys.stderr)
    sys.exit(1)
"""
        done = subprocess.run([support.ROCMCRASH, "fit", "-o", self.outdir, "--json", "--vary", "--max-model-len 4096..131072", "--", PYTHON, "-c",
                               program], capture_output=True, text=True, timeout=120, env=self.environ, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual(result["largest_that_runs"], 28592)
        self.assertLess(len(result["runs"]), 10)

    def test_one_word_before_an_option_with_two_dots(self):
        os.mkdir(os.path.join(self.outdir, "other"))
        self.fit("--vary", "--size 5..6", f"--output-dir={self.outdir}/../{os.path.basename(self.outdir)}/other")
        self.assertEqual(len(os.listdir(os.path.join(self.outdir, "other"))), 1)

    def test_ends_of_the_range(self):
        self.assertIn("no value runs: --size 2 fails", self.fit("--vary", "--size 2..3", limit=1, status=1))
        self.assertIn("--size 2 runs, the largest of the range", self.fit("--vary", "--size 1..2"))

    def test_workers_do_not_live_on(self):
        """A worker of an earlier run would hold memory that the next run needs. It ignores SIGHUP, as under nohup."""
        said = self.path("workers")
        code = f"""
import os, signal, time
if os.fork() == 0:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with open({said!r}, "a") as stream:
        stream.write(f"{{os.getpid()}}\\n")
time.sleep(1000)
"""
        done = subprocess.run([support.ROCMCRASH, "fit", "--output-dir", self.outdir, "--vary", "--size 1..2", "--fail-after", STARTED_BY_THEN, "--",
                               PYTHON, "-c", code, "--size", "1"], capture_output=True, text=True, timeout=120, env=self.environ, check=False)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        pids = support.read(said).split()
        self.assertGreaterEqual(len(pids), 2)
        self.assertEqual([pid for pid in pids if os.path.exists(f"/proc/{pid}")], [])

    def test_times(self):
        """--fail-after and --pass-after: values that take long count as failed, or as passed."""
        self.assertIn("--size 5 is", self.fit("--vary", "--size 5..6", "--fail-after", STARTED_BY_THEN, sleep=1000))
        self.assertIn("--size 6 runs", self.fit("--vary", "--size 5..6", "--pass-after", STARTED_BY_THEN, sleep=1000))

    def test_usage(self):
        for words in (["--vary", "size 1..2"], ["--vary", "--size 2..1"], ["--vary", "--size 1..x"], []):
            self.fit(*words, status=125)


if __name__ == "__main__":
    support.main(side_by_side=4)
