# SPDX-License-Identifier: Apache-2.0
"""--bundle-at: a bundle when a condition comes to hold, once a crossing, and the program goes on."""

import os
import signal
import subprocess

import support
from hangs import HangCase
from support import PATIENCE_S, PYTHON, wait_for

GROWS = ("import os, sys\nheld = bytearray(b'x' * (200 << 20))\nprint('begins', file=sys.stderr, flush=True)\n"
         "os.read(0, 1)\nprint('goes on', file=sys.stderr, flush=True)")
SPINS = "import sys\nprint('begins', file=sys.stderr, flush=True)\ndef spins():\n    while True: pass\nspins()"


class BundleAt(HangCase):
    def test_a_bundle_once_a_crossing_and_the_program_goes_on(self):
        process = self.start(PYTHON, "-c", GROWS, options=("--bundle-at=fds>100000,rss>150MiB",),
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        bundle = wait_for(self.bundles, "the bundle")[0]
        out, err = process.communicate(b"x", timeout=PATIENCE_S)
        done = self.finished(process, out, err)
        self.assertEqual(done.status, 0)
        self.assertIn("goes on", done.stderr)
        self.assertIn(f"a condition of --bundle-at was met; bundle of that moment: {bundle.path}", done.stderr)
        self.assertEqual(len(done.bundles), 1)
        self.assertEqual(bundle.wrong_facts(), [])
        self.assertIn("rss>150MiB (it is ", bundle.value("run.snapshot_why"))
        self.assertIn("stacks/stacks.0.txt", bundle.files)

    def test_one_that_spins_says_nothing(self):
        """No standstill, for it works; its user knows how often it speaks."""
        with open(self.path("stdout"), "wb") as stdout:
            process = self.start(PYTHON, "-c", SPINS, options=("--bundle-at=silent>2s", "--hang-after=1s"), stdout=stdout,
                                 stderr=subprocess.PIPE)
        bundle = wait_for(self.bundles, "the bundle")[0]
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_S)
        self.assertRegex(bundle.value("run.snapshot_why"), r"^silent>2s \(it is [\d.]+ s\)$")
        self.assertEqual(bundle.verdict["path"][-1]["node"], "alive-runs", bundle.verdict["sentence"])
        if os.geteuid() == 0:
            self.assertIn("in spins", bundle.value("snap.python_stack"))

    def speaks(self, stream):
        """On a busy machine it may wait for a CPU for some seconds before it speaks again."""
        code = f"import sys, time\nfor _ in range(40):\n    print('.', file=sys.{stream}, flush=True)\n    time.sleep(.2)"
        with open(self.path("stdout"), "wb") as stdout:
            process = self.start(PYTHON, "-c", code, options=("--bundle-at=silent>6s",), stdout=stdout, stderr=subprocess.PIPE)
            _, err = process.communicate(timeout=PATIENCE_S)
        done = self.finished(process, b"", err)
        self.assertEqual((done.status, done.bundles), (0, []), done.stderr)

    def test_one_that_speaks_on_stderr_is_not_silent(self):
        self.speaks("stderr")

    def test_one_that_speaks_on_stdout_is_not_silent(self):
        self.speaks("stdout")

    def silent_to_a_pipe(self, *options, known):
        """Its stdout is a pipe. It waits for the bundle of that moment, which a busy machine makes slowly."""
        code = (f"import glob, time\nend = time.monotonic() + {60 if known else 3}\n"
                f"while time.monotonic() < end and not glob.glob({self.outdir + '/*.tar.gz'!r}): time.sleep(0.1)")
        done = self.run_it(PYTHON, "-c", code, options=("--bundle-at=silent>1s", *options))
        self.assertEqual((done.status, len(done.bundles)), (0, int(known)), done.stderr)
        self.assertEqual("--bundle-at=silent>1s: that was never known here" in done.stderr, not known)

    def test_what_is_read_by_us_is_known(self):
        self.silent_to_a_pipe("--follow=all", known=True)

    def test_what_goes_past_us_is_not_called_silence(self):
        self.silent_to_a_pipe(known=False)

    def test_without_the_output_nothing_is_called_silence(self):
        self.silent_to_a_pipe("--follow=none", known=False)

    def test_silence_of_somebody_elses_program_is_not_known(self):
        for verb, option in (("snap", "--watch"), ("watch", "--bundle-at")):
            done = self.verb(verb, f"{option}=silent>1s", str(os.getpid()))
            self.assertEqual(done.returncode, 125)
            self.assertIn("known only of a program that rocmcrash starts", done.stderr)

    def test_what_is_never_known_is_said(self):
        done = self.run_it(PYTHON, "-c", "pass", options=("--bundle-at=vram>1%",))
        self.assertEqual((done.status, done.bundles), (0, []))
        self.assertIn("--bundle-at=vram>1%: that was never known here", done.stderr)

    def test_wrong_conditions(self):
        for text in ("", "vram", "vram>90", "vram>190%", "x>1%", "rss>9%", "vram_growth>1GiB", "vram>1%," * 5):
            done = self.verb(f"--bundle-at={text}", "--", "true")
            self.assertEqual(done.returncode, 125, text)
            self.assertIn("condition" if "GiB" not in text and "90" not in text and "9%" not in text else "compared",
                          done.stderr, text)


if __name__ == "__main__":
    support.main(side_by_side=6)
