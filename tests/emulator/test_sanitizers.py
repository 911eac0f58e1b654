# SPDX-License-Identifier: Apache-2.0
"""The library under the address, undefined-behaviour and thread sanitizers, with threads and forks,
alone and with ROCr around it; and its books balance afterwards."""

import os
import signal
import subprocess

import emulated
from emulated import GIB, MIB

SEEDS = (1, 2, 3)
ROUNDS = 400


class Stress(emulated.Case):
    def stress(self, name, seed, **environ):
        host = self.machine("gfx90a", name=f"seed{seed}", vram=256 * MIB)
        done = host.run(emulated.program(name), str(seed), str(ROUNDS),
                        environ=dict(environ, LD_PRELOAD=""))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stderr, "")
        return host, done.stdout.split("\n")[:-1]

    def check_books(self, host, lines):
        """For each process: the program and the journal agree on the memory that it holds."""
        believed = {}
        for line in lines:
            pid, held = map(int, line.split())
            believed[pid] = believed.get(pid, 0) + held
        held = dict.fromkeys(believed, 0)
        for r in host.journal(kind="vram"):
            if r.get("result", 0) == 0:
                held[r["pid"]] += r["size"] if r["event"] == "alloc" else -r["size"]
        self.assertEqual(held, believed)
        host.reap()
        self.assertEqual(host.counter("vram_used"), 32 * MIB)
        self.assertEqual(host.counter("gtt_used"), 0)
        self.assertGreater(len(host.journal("alloc", result=-12)), 0)

    def test_address_and_undefined(self):
        for seed in SEEDS:
            with self.subTest(seed=seed):
                self.check_books(*self.stress("kfd_stress_address", seed))

    def test_thread(self):
        for seed in SEEDS:
            with self.subTest(seed=seed):
                host, lines = self.stress("kfd_stress_thread", seed,
                                          TSAN_OPTIONS="halt_on_error=1 exitcode=66")
                self.check_books(host, lines)


class Killed(emulated.Case):
    def test_death_at_any_moment(self):
        """kill -9 in the middle of everything, the shared lock included: nothing stays behind."""
        host = self.machine("gfx90a", vram=1 * GIB)
        environ = dict(host.environ(), LD_PRELOAD="")
        for step in range(12):
            # Rounds for seconds: the journal, which is read whole, must not outgrow its reader on a busy machine.
            process = subprocess.Popen([emulated.program("kfd_stress_address"), str(step), "1500"],
                                       env=environ, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL, start_new_session=True)
            emulated.wait_for(lambda p=process: host.journal("alloc", pid=p.pid), "allocations")
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=emulated.DEADLINE_S)
        self.wait_for_counter(host, "vram_used", 32 * MIB)
        self.wait_for_counter(host, "gtt_used", 0)
        one = self.start(host, emulated.program("kfd_memory"))
        self.assertEqual(one.ask("vram", 1 * GIB - 40 * MIB)[2], "0")


class WithRocr(emulated.Case):
    def test_the_address_sanitizer_beside_rocr(self):
        """An uninstrumented program needs the sanitizer's runtime first in LD_PRELOAD."""
        found = subprocess.run([os.environ.get("CC", "cc"), "-print-file-name=libasan.so"],
                               capture_output=True, text=True, check=False).stdout.strip()
        library = os.path.join(emulated.BUILD, "librocmcrash-emulator-asan.so")
        if not os.path.isabs(found) or not os.path.exists(library):
            self.skipTest("no shared libasan of this compiler (clang links it statically)")
        # Debian's libasan.so is a linker script's name for the versioned file.
        runtime = os.path.realpath(found)
        host = self.machine("gfx90a", vram=1 * GIB)
        one = self.start(host, emulated.program("hsa_memory"), preload=f"{runtime}:{library}",
                         environ={"ASAN_OPTIONS": "detect_leaks=0"})  # ROCr's own
        self.assertEqual(one.ready[:3], ["ready", "1", "0x0"])
        self.assertEqual(one.ask("fill", 100 * MIB)[2], "0x1008")
        self.assertEqual(one.ask("copy", 0)[2], "0x0")
        status, _, stderr = one.finish()
        self.assertEqual(status, 0, stderr)
        self.assertNotIn("AddressSanitizer", stderr)
        self.assertNotIn("runtime error", stderr)


if __name__ == "__main__":
    emulated.main()
