# SPDX-License-Identifier: Apache-2.0
"""rocmcrash around a program that runs out of memory on an emulated GPU: what the bundle says equals
what the emulated kernel decided."""

import os
import sys

import emulated
from emulated import GIB, MIB

sys.path.insert(0, os.path.join(emulated.SOURCE, "tests", "integration"))
import support  # noqa: E402

FIRST_PID_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO


class Bundles(emulated.Case):
    def recorded_run(self, host, *argv, faults=None, inside=False, expected=1, **kwargs):
        """Runs the program under rocmcrash, which sees the machine through its sysroot, or (inside)
        is on the machine itself. `expected`: how many bundles."""
        if not os.path.exists(emulated.ROCMCRASH):
            self.skipTest("rocmcrash is not built here")
        outdir = os.path.join(self.folder, "out")
        os.makedirs(outdir, exist_ok=True)
        inner = host.environ(faults)
        changed = {name: inner[name] for name in ("EMULATOR_ROOT", "EMULATOR_FAULTS", "LD_PRELOAD", "ROCMCRASH_LOADER")
                   if name in inner}
        environ = dict(os.environ, ROCMCRASH_STATE_DIR=os.path.join(self.folder, "state"),
                       XDG_CACHE_HOME=os.path.join(self.folder, "cache"))
        command = [emulated.ROCMCRASH, "--output-dir", outdir, "--"]
        if inside:
            environ.update(changed)
        else:
            environ["ROCMCRASH_SYSROOT"] = host.root
            command += ["env", *(f"{name}={value}" for name, value in changed.items())]
        kwargs = kwargs or {"capture_output": True}
        done = emulated.subprocess.run([*command, *argv], env=environ, text=True, timeout=60, check=False, **kwargs)
        bundles = [name for name in os.listdir(outdir) if name.endswith(".tar.gz")]
        self.assertEqual(len(bundles), expected, done.stderr)
        return done, support.Bundle(os.path.join(outdir, bundles[0])) if expected else None

    def test_capacity(self):
        host = self.machine("gfx90a", vram=1 * GIB)
        done, bundle = self.recorded_run(host, emulated.program("hip_memory"), str(100 * MIB))
        self.assertEqual(done.returncode, 1)
        refused = host.journal("alloc", result=-12)
        self.assertEqual({r["size"] for r in refused}, {100 * MIB})
        self.assertEqual(bundle.value("gpu.0.vram.used_bytes", "impact"), refused[-1]["vram_used"])
        self.assertEqual(bundle.value("gpu.0.vram.total_bytes", "impact"), 1 * GIB)
        self.assertEqual(bundle.value("gpu.0.vram.used_bytes", "baseline"), 32 * MIB)
        self.assertEqual(bundle.value("gpu.0.vram.used_bytes", "after"), 32 * MIB)
        self.assertEqual(bundle.verdict["class"], "capacity", bundle.verdict["sentence"])

    def test_an_error_on_a_stream_that_is_not_read(self):
        """If stderr is not read, an error of a program that used a GPU may be the GPU's. Else it is a plain error."""
        host = self.machine("gfx90a", vram=1 * GIB)
        program = ["sh", "-c", 'printf "%s\\n" "$2" | "$1" >/dev/null; exit 1', "sh", emulated.program("kfd_memory")]
        with open(os.devnull, "wb") as null:
            _, bundle = self.recorded_run(host, *program, f"vram {MIB}", stderr=null)
            self.assertEqual(bundle.row("output")["status"], "skipped")
            os.unlink(bundle.path)
            self.recorded_run(host, *program, "", stderr=null, expected=0)
        self.recorded_run(host, *program, f"vram {MIB}", expected=0)

    def test_rocmcrash_on_the_machine_itself(self):
        """Then fdinfo, libdrm and HSA answer too, and agree."""
        host = self.machine("gfx90a", vram=1 * GIB)
        version = host.run(emulated.ROCMCRASH, "--version")
        if version.returncode != 0:
            self.skipTest("this rocmcrash cannot be preloaded: " + version.stderr[:80])
        _, bundle = self.recorded_run(host, emulated.program("hip_memory"), str(100 * MIB),
                                      inside=True)
        last = host.journal("alloc", result=-12)[-1]
        self.assertEqual(bundle.value("gpu.0.vram.used_bytes", "impact"), last["vram_used"])
        # KFD uses the pids of the first pid namespace: in another namespace they may be anybody's.
        ours = os.readlink("/proc/self/ns/pid") == FIRST_PID_NAMESPACE
        self.assertEqual(bundle.value("proc.0.kfd_vram_bytes", "impact"),
                         last["kfd_vram"] if ours else None)
        # A process of a tenth of a second may be gone before its render node was looked for: the
        # figure is then absent, never another one.
        self.assertIn(bundle.value("proc.0.drm_vram_bytes", "impact"), (None, last["kfd_vram"]))
        self.assertEqual(bundle.value("gpu.0.hsa.pool_bytes"), 1 * GIB)
        self.assertEqual(bundle.value("gpu.0.drm.vram_usable_bytes"), 1 * GIB - 32 * MIB)
        self.assertEqual(bundle.verdict["class"], "capacity", bundle.verdict["sentence"])

    def test_page_fault(self):
        host = self.machine("gfx90a", vram=1 * GIB)
        done, bundle = self.recorded_run(host, emulated.program("hip_memory"), "kernel",
                                         faults="page-fault on=dispatch address=0x7f1234567000")
        self.assertEqual(done.returncode, 1 if emulated.faults_are_errors() else -6)
        self.assertEqual(bundle.value("kmsg.page_fault_address"), "0x00007f1234567000")
        self.assertIn("fault", bundle.verdict["class"] + bundle.verdict["subclass"],
                      bundle.verdict["sentence"])


if __name__ == "__main__":
    emulated.main()
