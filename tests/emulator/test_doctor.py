# SPDX-License-Identifier: Apache-2.0
"""`rocmcrash doctor` on an emulated machine: the distribution's HSA runtime answers, and what a
program holds is seen with its name."""

import json
import os
import subprocess
import unittest

import emulated
from emulated import DEADLINE_S, GIB, KEEPER, ROCMCRASH, SOURCE, program

STEERING = ("HIP_", "HSA_", "ROCR_", "ROCM_", "GPU_", "AMD_", "PYTORCH_", "LD_LIBRARY_PATH")


@unittest.skipUnless(os.path.exists(ROCMCRASH), "no rocmcrash was built")
class Doctor(emulated.Case):
    def doctor(self, host, environ=None):
        env = {k: v for k, v in os.environ.items() if not k.startswith(STEERING)}
        env.update(ROCMCRASH_TEMPLATES=os.path.join(SOURCE, "templates"), **(environ or {}))
        done = subprocess.run([KEEPER, host.root, ROCMCRASH, "doctor", "--json", "--", "/bin/true"],
                              env=env, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        self.assertIn(done.returncode, (0, 1, 2), done.stderr)
        report = json.loads(done.stdout)
        return {f["id"]: f for f in report["findings"] if f["severity"] != "note"}, report

    def needs_runtime(self, report):
        if any("cannot open shared object" in n["missing"] for n in report["not_asked"]):
            self.skipTest("no libhsa-runtime64 is installed here")

    def test_a_healthy_machine(self):
        found, report = self.doctor(self.machine("gfx90a", vram=16 * GIB))
        self.needs_runtime(report)
        self.assertEqual(found, {})

    def test_a_chip_that_the_runtime_does_not_know(self):
        found, report = self.doctor(self.machine("gfx90a", "gfx1100", vram=16 * GIB))
        self.needs_runtime(report)
        if not found:
            self.skipTest("this release of ROCm knows gfx1100")
        self.assertEqual([(f, d["gpus"]) for f, d in found.items()], [("runtime-knows-not-gpu", "1")])

    def test_an_override_that_keeps_the_runtime_from_starting(self):
        found, _ = self.doctor(self.machine("gfx90a", vram=16 * GIB),
                               {"HSA_OVERRIDE_GFX_VERSION": "gfx90a"})
        self.assertEqual(list(found), ["override-invalid"])

    def test_an_apu_with_the_default_limit(self):
        found, _ = self.doctor(self.machine("gfx1151", ram=64 * GIB))
        self.assertIn("ttm-half", found)
        self.assertIn("amd-ttm --set 57 (or boot with ttm.pages_limit=14942208)",
                      found["ttm-half"]["mend"])

    def test_who_holds_the_memory(self):
        host = self.machine("gfx90a", vram=8 * GIB)
        holder = self.start(host, program("kfd_memory"))
        self.assertEqual(int(holder.ask("vram", 6 * GIB)[2]), 0)
        found, _ = self.doctor(host)
        self.assertIn("vram-held", found)
        if os.readlink("/proc/self/ns/pid") != "pid:[4026531836]":
            return  # KFD's pids are those of the first namespace: nobody's name is known
        self.assertIn(f"the largest process is kfd_memory, pid {holder.process.pid}, with 6.00 GiB",
                      found["vram-held"]["say"])


if __name__ == "__main__":
    emulated.main()
