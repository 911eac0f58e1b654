# SPDX-License-Identifier: Apache-2.0
"""SUMMARY.md and the last lines say what was measured: no more, and nothing that another line denies."""

import json
import os
import re
import time

import support
from support import HIP_OOM, PYTHON


class NoGpu(support.Case):
    """A message of a GPU, on a machine where the kernel shows none."""

    def said(self, text):
        os.mkdir(self.path("machine"))
        self.environ["ROCMCRASH_SYSROOT"] = self.path("machine")
        code = f"import sys\nsys.stderr.write({text!r})\nsys.exit(1)"
        self.done = self.run_it(PYTHON, "-c", code)
        return self.only_bundle(self.done)

    def test_out_of_memory_is_by_the_message_alone(self):
        bundle = self.said(HIP_OOM)
        summary = bundle.text("SUMMARY.md")
        self.assertEqual((bundle.verdict["class"], bundle.verdict["confidence"]), ("capacity", "low"))
        self.assertIn("says the program", summary.splitlines()[0])
        self.assertIn("**Machine:** no GPU found (no amdgpu card and no KFD node)", summary)
        missing = summary.split("**Missing**")[1].split("```")[0].strip().splitlines()
        self.assertIn("- Counters of a GPU: none was found.", missing)
        self.assertLessEqual(len(missing), 2, "and the kernel log")
        against = summary.split("**What speaks against it**")[1].split("**")[0]
        self.assertIn("no GPU was found on this machine", against)


class HostMemory(support.Case):
    def test_an_error_that_the_program_raises_is_no_kill(self):
        done = self.run_it(PYTHON, "-c", "raise MemoryError()")
        bundle = self.only_bundle(done)
        self.assertEqual(bundle.verdict["class"], "host-oom")
        said = bundle.verdict["sentence"]
        self.assertIn("did not get host memory", said)
        for untold in ("kill", "GPU"):
            self.assertNotIn(untold, said)
        # the run that failed does not pass the check
        self.assertEqual(bundle.verdict["verify"], "the same command runs past this line")
        if bundle.value("host.mem_available_bytes") > bundle.value("host.mem_total_bytes") // 2:
            self.assertIn("since RAM was there", bundle.verdict["advice"][0])

    def test_a_worker_that_was_killed(self):
        said = "RuntimeError: DataLoader worker (pid 77) is killed by signal: Killed.\n"
        done = self.run_it(PYTHON, "-c", f"import sys\nsys.stderr.write({said!r})\nsys.exit(1)")
        verdict = self.only_bundle(done).verdict
        if verdict["class"] == "host-oom":  # a kernel log without a kill tells that it was somebody else
            self.assertIn("SIGKILL ended a worker process", verdict["sentence"])


    def test_a_figure_that_was_computed_says_so(self):
        """The counters at the end are not those of the refusal: what was left then follows from others."""
        code = "import resource\nresource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))\nx = []\nwhile True: x.append(b'x' * (8 << 20))"
        summary = self.only_bundle(self.python(code)).text("SUMMARY.md")
        row = next(line for line in summary.splitlines() if line.startswith("| `.` available"))
        if "VmHWM" in row:
            self.assertIn("| computed from /proc/meminfo MemAvailable; ", row)
        self.assertIn("| RAM at the failure |", summary)


class NoCause(support.Case):
    def test_nothing_is_said_to_be_missing_where_nothing_is(self):
        summary = self.only_bundle(self.run_it(PYTHON, "-c", "import sys; sys.exit(7)", options=["--bundle-on=always"])).text("SUMMARY.md")
        self.assertIn("- the output holds no message of a known GPU or memory failure [stderr]", summary)
        for words in ("[command line]", "listed as missing", "rule of the tree"):
            self.assertNotIn(words, summary.split("## Details")[0])


class Environment(support.Case):
    """The variables are the user's: what rocmcrash adds for its own ends is left out."""

    def ends(self, **variables):
        self.environ.update(variables)
        return self.only_bundle(self.run_it(PYTHON, "-c", "raise ValueError('x')", options=["--always"]))

    def test_what_we_add_is_not_shown(self):
        bundle = self.ends()
        self.assertEqual([name for name in ("env.LD_PRELOAD", "env.PYTHONPATH") if name in bundle.facts], [])
        for ours in ("librocmcrash", "PYTHONPATH"):
            self.assertNotIn(ours, bundle.text("environment/environment.txt"))

    def test_what_the_user_set_is(self):
        bundle = self.ends(LD_PRELOAD="libm.so.6", PYTHONPATH="/usr/share/x")
        self.assertEqual(bundle.value("env.LD_PRELOAD"), "libm.so.6")
        self.assertIn("PYTHONPATH=", bundle.text("environment/environment.txt"))


class Unheard(support.Case):
    """A signal is a signal, whether or not somebody reads what the program prints."""

    def same(self, code):
        first = self.only_bundle(self.run_it(PYTHON, "-c", code))
        heard = first.verdict
        with open(os.devnull, "wb") as nowhere:
            process = self.start(PYTHON, "-c", code, stderr=nowhere)
            process.communicate(timeout=support.PATIENCE_S)
        unheard = [bundle.verdict for bundle in self.bundles() if bundle.path != first.path]
        self.assertEqual(len(unheard), 1)
        for key in ("class", "subclass", "confidence", "advice", "file_at"):
            self.assertEqual(heard[key], unheard[0][key], key)
        return heard

    def test_a_crash(self):
        self.assertEqual(self.same("import ctypes; ctypes.string_at(0)")["class"], "app-bug")

    def test_a_kill(self):
        self.assertEqual(self.same("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")["subclass"], "killed by SIGKILL")


class Crash(support.Case):
    """The address and the frame of a crash stand in the heading, not only in a table."""

    def head_and_summary(self, code):
        text = self.only_bundle(self.run_it(PYTHON, "-c", code)).text("SUMMARY.md")
        return text.splitlines()[0], text

    def test_a_null_pointer(self):
        head, text = self.head_and_summary("import ctypes; ctypes.string_at(0)")
        self.assertRegex(head, r"died of SIGSEGV at address 0x0, a null pointer, in \S+\+0x")
        self.assertIn("Where it crashed, innermost first:", text)

    def test_another_address(self):
        head, _ = self.head_and_summary("import ctypes; ctypes.string_at(0x123450)")
        self.assertRegex(head, r"at address 0x123\w+, in ")

    def test_a_recursion_without_end(self):
        """CPython 3.11 guards Python's own recursion only: a repr() in C, with the guard off, does not end by itself."""
        code = ("import sys, threading; sys.setrecursionlimit(10**9)\ndef f(n):\n    return sorted([n], key=f)\n")
        for call in ("f(0)", "t = threading.Thread(target=f, args=(0,)); t.start(); t.join()"):
            done = self.run_it(PYTHON, "-c", code + call)
            text = self.only_bundle(done).text("SUMMARY.md")
            self.assertRegex(text.splitlines()[0], r"SIGSEGV at address 0x\w+, a stack overflow, in ")
            self.assertIn("- the stack was full: its limit is ", text)
            for bundle in done.bundles:
                os.unlink(bundle.path)

    def test_no_address_of_a_signal_that_was_sent(self):
        head, _ = self.head_and_summary("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
        self.assertNotIn("at address", head)

    def test_what_it_said_last(self):
        _, text = self.head_and_summary("import os; os.write(2, b\"a.out: a.c:2: main: Assertion `n > 5' failed.\\n\"); os.abort()")
        self.assertRegex(text.replace("\\", ""), r"- it said: a\.out: a\.c:2: main: Assertion \S+ > 5' \[stderr line 1\]")

    def test_memory_that_was_freed_twice(self):
        """glibc's own message, and no frame of glibc in the heading."""
        head, text = self.head_and_summary("import ctypes; c = ctypes.CDLL(None); c.malloc.restype = ctypes.c_void_p\n"
                                           "c.free.argtypes = [ctypes.c_void_p]; p = c.malloc(64); c.free(p); c.free(p)")
        self.assertIn("SIGABRT, in ", head)
        self.assertNotIn("libc.so", head)
        self.assertIn("it said: free(): double free detected", text)

    def test_the_line_of_python_by_faulthandler(self):
        """The hook turns it on where a library with native code is imported, as numpy is."""
        script = self.write("bad.py", "import ctypes\ndef load():\n    ctypes.string_at(0)\nload()\n")
        advice = "With PYTHONFAULTHANDLER=1 Python prints it"
        bundle = self.only_bundle(self.run_it(PYTHON, script))
        self.assertIn(advice, bundle.text("SUMMARY.md"))
        self.assertNotIn("of Python's threads", bundle.text("SUMMARY.md"))
        os.unlink(bundle.path)
        self.write("numpy.py", "")
        with open(script, encoding="utf-8") as file:
            code = file.read()
        self.write("bad.py", "import numpy\n" + code)
        text = self.only_bundle(self.run_it(PYTHON, script)).text("SUMMARY.md")
        self.assertIn("Python stood at bad.py:4 in load", text.replace("\\", ""))
        self.assertNotIn(advice, text)

    def test_an_exception_has_its_text_and_its_line(self):
        script = self.write("bad.py", "def load(size):\n    raise ValueError('size must be > 0')\nload(0)\n")
        text = self.only_bundle(self.run_it(PYTHON, script, options=["--always"])).text("SUMMARY.md").replace("\\", "")
        self.assertIn("ValueError (size must be > 0), at bad.py:2 in load", text)
        self.assertIn("Start from the traceback: the last frame of the program's own code, bad.py:2 in load", text)

    def test_a_kill_that_it_sent_itself(self):
        _, text = self.head_and_summary("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
        self.assertIn("the thread stood in kill() then: the program may have sent the signal itself", text)

    def test_it_did_not_crash_where_a_kill_found_it(self):
        _, text = self.head_and_summary("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
        self.assertNotIn("Where it crashed", text)
        if "innermost first" in text:
            self.assertIn("Where it was when SIGKILL came, innermost first:", text)


class Numbers(support.Case):
    def test_the_record_of_the_run_has_words(self):
        bundle = self.only_bundle(self.run_it(PYTHON, "-c", "raise ValueError('x')", options=["--trace=late"]))
        words = json.loads(bundle.text("run/run.json"))["in_words"]
        self.assertRegex(words.pop("began"), r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$")
        self.assertEqual(words, {"target": "ended with exit status 1", "stderr": "a pipe", "trace": "late"})

    def test_no_file_is_there_twice(self):
        bundle = self.only_bundle(self.run_it(PYTHON, "-c", "raise ValueError('x')"))
        texts = [text for text in bundle.files.values() if len(text) > 40]
        self.assertEqual(len(texts), len(set(texts)))
        rows = bundle.text("telemetry/telemetry.csv").splitlines()
        self.assertEqual(len(rows), len(set(rows)))

    def test_one_thread(self):
        bundle = self.only_bundle(self.run_it(PYTHON, "-c", "raise ValueError('x')"))
        self.assertIn("threads copied: 1 of 1", bundle.text("stacks/stacks.0.txt"))
        self.assertIn("1 of 1 thread copied", bundle.text("impact/0/impact.txt"))

    def test_several_threads(self):
        code = "import os, threading, time\nfor _ in range(2):\n    threading.Thread(target=time.sleep, args=(9,)).start()\nos.abort()"
        bundle = self.only_bundle(self.run_it(PYTHON, "-c", code))
        self.assertRegex(bundle.text("stacks/stacks.0.txt"), r"threads copied: [123] of 3")


class StoodStill(support.Case):
    """A bundle of a program that stands still, and the one of its end, which rocmcrash makes."""

    STUCK = "import time\ndef wait_for_it():\n    time.sleep(1000)\nwait_for_it()\n"

    def test_both_bundles_tell_of_the_other(self):
        script = self.write("stuck.py", self.STUCK)
        began = time.time()
        done = self.run_it(PYTHON, script, options=["--hang-after=2s", "--on-hang=kill"])
        bundles = {("snapshot" in os.path.basename(b.path)): b for b in done.bundles}
        live, end = bundles[True], bundles[False]
        why = "no output, CPU time or I/O for"
        run = {name: re.search(r"\*\*Run:\*\* (.*)", b.text("SUMMARY.md"))[1] for name, b in (("live", live), ("end", end))}
        start = time.strftime("began %Y-%m-%d %H:%M", time.gmtime(began))  # the minute may end in between
        late = time.strftime("began %Y-%m-%d %H:%M", time.gmtime(began + 10))
        for said in run.values():
            self.assertTrue(start in said or late in said, said)
        self.assertEqual(re.search(r"began [^,]*", run["live"])[0], re.search(r"began [^,]*", run["end"])[0])
        self.assertRegex(run["live"], rf"snapshot after [\d.]+ m?s \({why}")
        self.assertIn(os.path.basename(live.path).replace(".tar.gz", ""), run["end"])
        self.assertIn(why, run["end"])
        head = end.text("SUMMARY.md").splitlines()[0]
        self.assertIn("until rocmcrash ended it (--on-hang=kill)", head)
        self.assertIn("at stuck.py:3 in wait_for_it", head)
        above = end.text("SUMMARY.md").split("## Why this verdict")[0]
        self.assertEqual(above.count("until rocmcrash ended it"), 1, "the heading is not said again")

    def test_where_its_output_is_a_file(self):
        """Our own lines are in it, too: they are no words of the program, and the other bundle keeps its name."""
        script = self.write("stuck.py", self.STUCK)
        with open(self.path("both.txt"), "wb") as both:
            process = self.start(PYTHON, script, options=["--hang-after=2s", "--on-hang=kill"], stdout=both, stderr=both)
            process.wait(support.PATIENCE_S)
        bundles = self.bundles()
        live, = [bundle.name for bundle in bundles if "-snapshot" in bundle.name]
        end, = [bundle.text("SUMMARY.md") for bundle in bundles if "-snapshot" not in bundle.name]
        self.assertNotIn("rocmcrash: the program stood still", end)
        self.assertRegex(end, rf"a bundle was made: \S*{live.replace('.tar.gz', '')}")

    def test_below_a_launcher(self):
        """Named is what stands, with its line, and not the shell that waits for it."""
        script = self.write("stuck.py", "import threading\nlock = threading.Lock()\ndef take():\n    lock.acquire()\ntake()\ntake()\n")
        for launcher in (["sh", "-c", f"{PYTHON} {script}; true"], ["timeout", "100", PYTHON, script]):
            done = self.run_it(*launcher, options=["--hang-after=2s", "--on-hang=kill"])
            for bundle in done.bundles:
                self.assertEqual(bundle.verdict["path"][-1]["node"], "alive-self-wait", bundle.verdict["sentence"])
                text = bundle.text("SUMMARY.md")
                self.assertIn("at stuck.py:4 in take", text.splitlines()[0])
                self.assertRegex(text, r"Where it stood, lines of Python, innermost first:\n\n```text\n\S*stuck.py:4 in take\n\S*stuck.py:6 in <module>\n```")
                self.assertRegex(text, r"- it stands at stuck.py:4 in take \[waits/python\.\d\.txt\]")
            self.assertEqual(len(done.bundles), 2)
            for bundle in done.bundles:
                os.unlink(bundle.path)

    def test_a_signal_of_somebody_else_is_not_ours(self):
        script = self.write("stuck.py", "import os, signal, threading, time\nthreading.Timer(6, os.kill, "
                            "(os.getpid(), signal.SIGTERM)).start()\n" + self.STUCK)
        done = self.run_it(PYTHON, script, options=["--hang-after=1s"])
        for bundle in done.bundles:
            self.assertNotIn("rocmcrash ended it", bundle.text("SUMMARY.md"))


if __name__ == "__main__":
    support.main()
