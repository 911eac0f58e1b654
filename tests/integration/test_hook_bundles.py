# SPDX-License-Identifier: Apache-2.0
"""The evidence of the hook in bundles: whole runs with a stand-in for PyTorch."""

import csv
import json
import os
import signal
import subprocess
import sys
import unittest

import support
from support import PYTHON, ROCMCRASH, wait_for
from hooked import FRAGMENT, GIB, MIB, STUB


class Bundles(support.Case):
    def setUp(self):
        super().setUp()
        self.environ["PYTHONPATH"] = STUB
        os.mkdir(self.path("machine"))  # no kernel log: it may have other tests' faults
        self.environ["ROCMCRASH_SYSROOT"] = self.path("machine")
        self.environ["PYTHONDONTWRITEBYTECODE"] = "1"

    def test_fragmentation(self):
        done = self.python(FRAGMENT + "while True: large.append(torch.empty(6 << 30))")
        bundle = self.only_bundle(done)
        self.assertEqual(bundle.verdict["class"], "fragmentation")
        self.assertNotEqual(bundle.verdict["confidence"], "low")
        self.assertEqual(bundle.value("torch.requested_bytes"), 6 * GIB)
        self.assertEqual(bundle.value("oom.requested_bytes"), 6 * GIB)
        self.assertLess(bundle.value("torch.largest_inactive_bytes"), 20 * MIB + 1)
        self.assertEqual(bundle.value("torch.inactive_bytes"),
                         bundle.value("torch.reserved_bytes") - bundle.value("torch.allocated_bytes"))
        self.assertEqual(bundle.value("hook.exception_type"), "torch.OutOfMemoryError")
        self.assertEqual(bundle.row("hook")["status"], "ok")
        self.assertIn("in empty", bundle.text("stacks/python.txt"))
        self.assertTrue(bundle.text("telemetry/torch-stats.csv").startswith("time_s,device,allocated_bytes,"))
        self.assertIn("torch.OutOfMemoryError", bundle.text("hook/exception.txt"))

    def test_fragmentation_behind_a_slow_load(self):
        """The hook takes many samples of it: they rise as it loads, and that is no growth."""
        code = FRAGMENT.replace("range(2500)]", "range(2500) if time.sleep(0.0003) is None]")
        self.assertIn("sleep", code)
        done = self.python("import time\n" + code + "time.sleep(0.4)\ntorch.empty(6 << 30)")
        bundle = self.only_bundle(done)
        self.assertGreaterEqual(bundle.value("torch.half_run_peak_bytes"), GIB)  # there were enough samples for halves
        self.assertEqual(bundle.verdict["class"], "fragmentation")
        self.assertNotEqual(bundle.verdict["confidence"], "low")

    def test_leak(self):
        code = "import time, torch\nkeep, work = [], None\nwhile True:\n    work = torch.empty(2 << 30)\n" \
               "    keep.append(torch.empty(60 << 20))\n    time.sleep(0.05)\n    work = None\n"
        bundle = self.only_bundle(self.python(code))
        self.assertEqual(bundle.verdict["class"], "leak")
        self.assertGreaterEqual(bundle.value("torch.growth.samples"), 20)
        self.assertEqual(bundle.value("f.growth.total_bytes"), bundle.value("torch.growth.total_bytes"))
        self.assertEqual(bundle.value("torch.growth.steady"), True)
        self.assertEqual(bundle.value("f.torch_grown_block_bytes"), 60 * MIB)
        self.assertRegex(bundle.value("torch.grown_by_size"), r"^[\d.]+ [MG]iB in \d+ blocks up to 100 MiB")
        self.assertIsNone(bundle.value("torch.grown_site"))
        self.assertIsNone(bundle.value("f.torch_full_in_min"))  # it is full
        self.assert_memory_rows(bundle)

    def assert_memory_rows(self, bundle):
        """The allocator's own figures before, at the peak and at the failure."""
        last = json.loads(bundle.text("hook/oom-first.json"))["stats"]["0"]
        for what in ("allocated", "reserved"):
            row = next(line for line in bundle.text("SUMMARY.md").splitlines()
                       if line.startswith(f"| PyTorch, {what} |")).split(" | ")
            figures = last[f"{what}_bytes"]["all"]
            self.assertEqual(row[1:6], ["16.00 GiB", "0 bytes", f"{figures['peak'] / GIB:.2f} GiB",
                                        f"{figures['current'] / GIB:.2f} GiB", "–"])
            self.assertRegex(row[6], r"^PyTorch in process \d+, at the out-of-memory observer")

    def test_who_grew(self):
        script = self.write("train.py", "import time, torch\nkeep, work = [], None\nsteady = torch.empty(3 << 30)\n"
                            "def remember():\n    keep.append(torch.empty(120 << 20))\nwhile True:\n"
                            "    work = torch.empty(2 << 30)\n    remember()\n    time.sleep(0.05)\n    work = None\n")
        bundle = self.only_bundle(self.run_it(PYTHON, script, options=("--torch-history",)))
        self.assertRegex(bundle.value("torch.grown_site"), r"train\.py:5 remember < .*train\.py:8 <module>$")
        grew = bundle.value("torch.grown_site_bytes")
        self.assertEqual(grew, bundle.value("torch.grown_site_blocks_count") * (120 << 20))
        self.assertGreater(bundle.value("torch.grown_ms"), 1900)
        self.assertRegex(bundle.text("SUMMARY.md").split("## What to try")[0], r"train\.py:5`? remember")

    def test_swallowed_out_of_memory(self):
        swallow = "import os, torch\nkeep = torch.empty(10 << 30)\ntry:\n    torch.empty(9 << 30)\n" \
                  "except torch.OutOfMemoryError:\n    os._exit(%d)"
        bundle = self.only_bundle(self.python(swallow % 3))
        self.assertEqual(bundle.verdict["class"], "capacity")
        self.assertEqual(bundle.value("oom.free_bytes"), 6 * GIB)
        os.remove(bundle.path)
        self.assertEqual(self.python(swallow % 0).bundles, [])  # there may have been a request for it
        self.only_bundle(self.python(swallow % 0, options=("--bundle-on=oom",)))

    def test_exception_in_a_log_of_the_command(self):
        """Its output goes to a file of its own, as launch scripts have it; the allocator is not PyTorch's."""
        script = self.write("raises.py", "class OutOfMemoryError(RuntimeError): pass\nraise OutOfMemoryError('out of memory')\n")
        log = self.path("own.log")
        done = self.run_it("/bin/sh", "-c", f"'{PYTHON}' '{script}' >'{log}' 2>&1")
        self.assertEqual(done.status, 1)
        self.assertIn("OutOfMemoryError", self.only_bundle(done).text("hook/events.jsonl"))

    def test_killed_while_the_exception_unwinds(self):
        code = "import os, signal, torch\nkeep = torch.empty(10 << 30)\ntry:\n    torch.empty(9 << 30)\n" \
               "finally:\n    os.kill(os.getpid(), signal.SIGKILL)"
        bundle = self.only_bundle(self.python(code))
        self.assertEqual(bundle.value("target.signal"), signal.SIGKILL)
        self.assertEqual(bundle.value("torch.requested_bytes"), 9 * GIB)

    def test_another_failure_after_a_handled_one(self):
        code = "import torch\nkeep = torch.empty(10 << 30)\ntry:\n    torch.empty(9 << 30)\n" \
               "except torch.OutOfMemoryError:\n    pass\nassert keep is None, 'wrong shape'\n"
        bundle = self.only_bundle(self.python(code))
        self.assertNotEqual(bundle.verdict["class"], "capacity")
        self.assertIsNone(bundle.value("oom.seen"))
        self.assertEqual(bundle.value("torch.ooms_count"), 1)

    def test_healthy_leaves_nothing(self):
        done = self.python("import torch\nfor _ in range(100): torch.empty(1 << 30)\nprint('done')")
        self.assertEqual((done.status, done.stdout, done.stderr, done.bundles), (0, "done\n", "", []))
        done = self.python("import torch; raise SystemExit(4)")
        self.assertEqual((done.status, done.stderr, done.bundles), (4, "", []))
        runs = self.path("state", "runs")
        wait_for(lambda: not os.path.isdir(runs) or os.listdir(runs) == [], "the folder of runs to be empty")

    def test_trouble_is_in_the_manifest(self):
        self.environ["STUB_TORCH_OLD"] = "1"
        done = self.python(FRAGMENT + "while True: large.append(torch.empty(6 << 30))")
        bundle = self.only_bundle(done)
        self.assertEqual(bundle.row("hook")["status"], "partial")
        self.assertIn("AttributeError", bundle.row("hook")["reason"])
        # from the uncaught exception
        self.assertEqual(bundle.value("torch.inactive_bytes"),
                         bundle.value("torch.reserved_bytes") - bundle.value("torch.allocated_bytes"))

    def test_nowhere_to_write_is_in_the_manifest(self):
        """The hook's folder cannot be made: the program goes on, and the bundle says what is missing."""
        code = "import os, time\nrun = os.environ['ROCMCRASH_HOOK'].split(':', 2)[2]\n" \
               "while not os.path.isdir(run): time.sleep(0.01)\nopen(run + '/hook', 'w').close()\n"
        done = self.python(code + FRAGMENT + "while True: large.append(torch.empty(6 << 30))")
        bundle = self.only_bundle(done)
        self.assertEqual((done.status, done.stderr.count("Traceback")), (1, 1))
        self.assertEqual(bundle.row("hook")["status"], "failed")
        self.assertIn("version of torch: NotADirectoryError: Not a directory", bundle.row("hook")["reason"])
        self.assertEqual(bundle.verdict["class"], "fragmentation")  # from the message alone

    def test_a_python_that_is_a_shell_script(self):
        python = self.write("python", f"#!/bin/sh\nexec {PYTHON} \"$@\"\n")
        os.chmod(python, 0o755)
        code = self.write("fails.py", FRAGMENT + "while True: large.append(torch.empty(6 << 30))")
        bundle = self.only_bundle(self.run_it(python, code))
        self.assertEqual(bundle.value("torch.requested_bytes"), 6 * GIB)

    def test_native_stack_is_that_of_the_fault(self):
        """faulthandler raises the signal again, on its own stack: the stack of the first signal is kept."""
        self.write("site/numpy.py", "")
        self.environ["PYTHONPATH"] = self.path("site")
        bundle = self.only_bundle(self.python("import numpy, ctypes; ctypes.string_at(1)"))
        stacks = [text for name, text in bundle.files.items() if name.startswith("stacks/stacks.")]
        if bundle.row("stacks").get("status") not in ("ok", "partial") or not stacks:
            self.skipTest("no stacks: " + bundle.row("stacks").get("reason", ""))
        text = stacks[0].decode()
        self.assertIn("SIGSEGV at 0x1", text)
        self.assertIn("in _start", text)
        self.assertNotIn("truncated", text)
        self.assertIn(b"Segmentation fault", bundle.files["hook/faults.txt"])

    def test_export_and_one_clock(self):
        done = self.python(FRAGMENT + "import time; time.sleep(0.5)\nwhile True: large.append(torch.empty(6 << 30))")
        bundle = self.only_bundle(done)
        trace = self.path("trace.json")
        for argv in (["export", bundle.path, "--trace", "-o", trace], ["export", "--trace", bundle.path]):
            run = self.verb(*argv)
            self.assertEqual((run.returncode, run.stderr), (0, ""))
        with open(trace, encoding="utf-8") as file:
            self.assertEqual(file.read(), run.stdout)
        events = json.loads(run.stdout)["traceEvents"]
        at = {e["name"]: e["ts"] / 1e6 for e in events if e["ph"] == "i"}
        rows = list(csv.DictReader(bundle.text("telemetry/telemetry.csv").splitlines()))
        torch_rows = list(csv.DictReader(bundle.text("telemetry/torch-stats.csv").splitlines()))
        self.assertFalse([row for row in rows + torch_rows if None in row or None in row.values()])
        for table in (rows, torch_rows):
            times = [float(row["time_s"]) for row in table]
            self.assertEqual(times, sorted(times))
        oom = next(time for name, time in at.items() if name.startswith("out of memory: 6442450944 bytes"))
        flagged = {row["flags"]: float(row["time_s"]) for row in rows if row["flags"]}
        self.assertLess(flagged["baseline"], float(torch_rows[0]["time_s"]))
        self.assertLess(float(torch_rows[0]["time_s"]), oom)
        self.assertLess(oom, flagged["after"])
        counted = {e["args"]["value"] for e in events if e["ph"] == "C" and e["name"] == "allocated_bytes"}
        self.assertEqual(counted, {int(row["allocated_bytes"]) for row in torch_rows})
        self.assertIn("torch 2.11.0+stub", at)
        for argv, status in ((["export", "--trace"], 125),
                             (["export", "--trace", bundle.path, "x"], 125),
                             (["export", "--trace", trace], 2), (["export", "--trace", "/no/such"], 2),
                             (["export", "--trace", "-o", "/no/such/x", bundle.path], 2)):
            run = self.verb(*argv)
            self.assertEqual((run.returncode, run.stdout), (status, ""), argv)
            self.assertEqual(len(run.stderr.splitlines()), 1, run.stderr)

    def test_stacks_of_a_hanging_program(self):
        self.write("site/numpy.py", "")
        self.environ["PYTHONPATH"] = self.path("site")
        code = "import numpy, threading, time\ndef worker():\n    time.sleep(600)\n" \
               "threading.Thread(target=worker, daemon=True).start()\ndef hanging():\n    print('there', flush=True)\n" \
               "    while True: pass\nhanging()\n"
        process = self.start(PYTHON, "-c", code, stdout=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        process.stdout.readline()
        target = self.target_pid(process.pid)
        for pid in (target, target, process.pid):  # given rocmcrash's own pid, the program that it runs is shown
            done = self.verb("stacks", str(pid))
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("in hanging", done.stdout)
            self.assertIn("in worker", done.stdout)
            self.assertEqual(done.stdout.count("most recent call first"), 2)
        self.assertIsNone(process.poll())
        for word, status in ((str(self.helper(process.pid, "sampler")), 2), ("999999999", 2), ("x", 125), ("0", 125)):
            done = self.verb("stacks", word)
            self.assertEqual((done.returncode, done.stdout, len(done.stderr.splitlines())), (status, "", 1))
        self.assertEqual(self.verb("stacks", "999999999").stderr, "rocmcrash: there is no process 999999999\n")

    def test_inject_none(self):
        done = self.python(FRAGMENT + "while True: large.append(torch.empty(6 << 30))",
                           options=("--inject=none",))
        bundle = self.only_bundle(done)
        self.assertEqual(bundle.row("hook")["status"], "skipped")
        done = self.run_it("/bin/sh", "-c", "echo $ROCMCRASH_HOOK$PYTHONPATH", options=("--inject=ledger",))
        self.assertEqual(done.stdout, STUB + "\n")

    def test_workers_are_told_apart(self):
        code = "import os, subprocess, sys, torch\nif len(sys.argv) > 1:\n    keep = torch.empty(10 << 30)\n" \
               "    torch.empty(9 << 30)\nelse:\n    keep = torch.empty(1 << 30)\n" \
               "    sys.exit(subprocess.call([sys.executable, __file__, 'worker'], env=dict(os.environ)))\n"
        done = self.run_it(PYTHON, self.write("train.py", code))
        bundle = self.only_bundle(done)
        self.assertEqual(bundle.value("torch.allocated_bytes"), 10 * GIB)
        self.assertEqual(bundle.verdict["class"], "capacity")


if __name__ == "__main__":
    if not ROCMCRASH or sys.version_info < (3, 8):
        sys.exit(77)
    unittest.TestCase.maxDiff = 2000
    support.main()
