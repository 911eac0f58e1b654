# SPDX-License-Identifier: Apache-2.0
"""SUMMARY.md and the last lines say what was measured: no more, and nothing that another line denies."""

import os

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


if __name__ == "__main__":
    support.main()
