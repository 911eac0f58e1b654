# SPDX-License-Identifier: Apache-2.0
"""Faults on request: refusals, delays, page faults and hangs as the driver delivers them."""

import errno
import os
import re
import time

import emulated
from emulated import GIB, MIB


class Refusals(emulated.Case):
    def program(self, host, faults=None):
        return self.start(host, emulated.program("kfd_memory"), faults=faults)

    def errors(self, running, kind, count):
        return [int(running.ask(kind, 4096)[2]) for _ in range(count)]

    def test_the_nth_of_a_kind(self):
        one = self.program(self.machine(), "alloc kind=gtt nth=2 count=2 errno=EINVAL")
        self.assertEqual(self.errors(one, "gtt", 4), [0, errno.EINVAL, errno.EINVAL, 0])
        self.assertEqual(self.errors(one, "vram", 2), [0, 0])

    def test_host_visible_vram_only(self):
        host = self.machine()
        one = self.program(host, "alloc kind=public errno=EINVAL")
        self.assertEqual(self.errors(one, "public", 2), [errno.EINVAL] * 2)
        self.assertEqual(self.errors(one, "vram", 2), [0, 0])
        self.assertEqual({r["reason"] for r in host.journal("alloc", result=-errno.EINVAL)},
                         {"injected"})

    def test_the_control_file_changes_a_running_program(self):
        host = self.machine()
        one = self.program(host)
        self.assertEqual(self.errors(one, "vram", 1), [0])
        with open(host.path("emulator/faults"), "w", encoding="ascii") as file:
            file.write("# from now on\nalloc kind=vram\n")
        self.assertEqual(self.errors(one, "vram", 2), [errno.ENOMEM] * 2)
        with open(host.path("emulator/faults"), "w", encoding="ascii"):
            pass
        self.assertEqual(self.errors(one, "vram", 1), [0])

    def test_a_bad_rule_is_reported(self):
        host = self.machine()
        one = self.program(host, "alloc kind=bananas; alloc nth=1 count=1")
        self.assertEqual(self.errors(one, "vram", 2), [errno.ENOMEM, 0])
        self.assertEqual(len(host.journal("bad-rule")), 1)

    def test_latency(self):
        one = self.program(self.machine(), "latency kind=vram ms=60")
        started = time.monotonic()
        self.errors(one, "vram", 3)
        self.assertGreaterEqual(time.monotonic() - started, 0.18)

    def test_a_single_refusal_is_swallowed_by_the_runtime(self):
        for count, status in ((1, "0x0"), (2, "0x1008")):
            with self.subTest(count=count):
                host = self.machine(name=f"m{count}")
                one = self.start(host, emulated.program("hsa_memory"))
                with open(host.path("emulator/faults"), "w", encoding="ascii") as file:
                    file.write(f"alloc kind=vram count={count}\n")
                self.assertEqual(one.ask("alloc", 8 * MIB)[2], status)
                self.assertEqual(len(host.journal("alloc", reason="injected")), count)


class GpuFaults(emulated.Case):
    def run_kernel(self, host, faults):
        one = self.start(host, emulated.program("hip_memory"), faults=faults)
        self.assertEqual(one.ask("alloc", 100 * MIB)[3], "hipSuccess")
        one.send("memset", 0)
        return one

    def check_end(self, one, address=""):
        """A page fault ends the program, or (ROCm 7.2) its next call fails."""
        if emulated.faults_are_errors():
            self.assertEqual(one.answer()[3], "hipErrorIllegalAddress")
            self.assertEqual(one.finish()[0], 0)
            return
        status, _, stderr = one.finish()
        self.assertEqual(status, -6)
        self.assertIn("Memory access fault by GPU node-1", stderr)
        self.assertIn(f"on address {address}", stderr)

    def test_page_fault(self):
        host = self.machine(vram=1 * GIB)
        one = self.run_kernel(host, "page-fault on=dispatch address=0x7f1234567890")
        self.check_end(one, "0x7f1234567000. Reason: Page not present or supervisor privilege.")
        log = "\n".join(host.kernel_log())
        self.assertIn("in page starting at address 0x00007f1234567000 from IH client", log)
        self.assertRegex(log, rf"for process hip_memory pid {one.process.pid} thread ")
        pasid = re.search(r"\[gfxhub0\] no-retry page fault .* pasid:(\d+)\)", log).group(1)
        self.assertGreaterEqual(int(pasid), 0x8000)

    def test_page_fault_of_a_newer_chip(self):
        host = self.machine("gfx1100", vram=1 * GIB)
        one = self.start(host, emulated.program("hip_memory"), faults="page-fault on=dispatch",
                         environ={"HSA_OVERRIDE_GFX_VERSION": "10.3.0"})
        self.assertEqual(one.ask("alloc", 100 * MIB)[3], "hipSuccess")
        one.send("memset", 0)
        self.check_end(one)
        log = "\n".join(host.kernel_log())
        self.assertIn("[gfxhub] page fault (src_id:0", log)
        self.assertIn("GCVM_L2_PROTECTION_FAULT_STATUS:0x", log)

    def test_hang_that_nobody_notices(self):
        host = self.machine(vram=1 * GIB)
        one = self.run_kernel(host, "hang on=dispatch")
        emulated.wait_for(lambda: host.journal("hang"), "the hang")
        self.assertIsNone(one.process.poll())
        self.assertEqual(host.kernel_log(), [])
        one.kill()

    def test_hang_that_the_driver_resets(self):
        """ROCr 5.2.3 has no handler for the hardware exception: there the program stays stuck, newer
        ones abort with "HW Exception by GPU node"."""
        host = self.machine(vram=1 * GIB)
        one = self.run_kernel(host, "hang on=dispatch reset-ms=50")
        emulated.wait_for(lambda: host.journal("reset"), "the reset")
        log = "\n".join(host.kernel_log())
        self.assertIn("cp queue preemption time out", log)
        self.assertIn("GPU reset begin!", log)
        self.assertIn("VRAM is lost due to GPU reset!", log)
        if one.process.poll() is None:
            one.kill()

    def test_stuck_copy_engine_works_without_it(self):
        faults = "hang on=copy"
        host = self.machine(vram=1 * GIB)
        one = self.start(host, emulated.program("hip_memory"), faults=faults)
        self.assertEqual(one.ask("alloc", 100 * MIB)[3], "hipSuccess")
        one.send("roundtrip", 0)
        emulated.wait_for(lambda: host.journal("hang"), "the hang")
        one.kill()
        other = self.start(host, emulated.program("hip_memory"), faults=faults,
                           environ={"HSA_ENABLE_SDMA": "0"})
        self.assertEqual(other.ask("alloc", 100 * MIB)[3], "hipSuccess")
        self.assertEqual(other.ask("roundtrip", 0)[3], "hipSuccess")  # by kernels, which do nothing

    def test_stuck_copy_engine_that_the_driver_resets(self):
        """The scheduler of the kernel's own jobs says which ring it was, before any reset."""
        host = self.machine(vram=1 * GIB)
        one = self.start(host, emulated.program("hip_memory"), faults="hang on=copy reset-ms=50")
        self.assertEqual(one.ask("alloc", 100 * MIB)[3], "hipSuccess")
        one.send("roundtrip", 0)
        emulated.wait_for(lambda: host.journal("reset"), "the reset")
        log = host.kernel_log()
        self.assertIn("ring sdma0 timeout", log[0])
        self.assertNotIn("cp queue preemption", "\n".join(log))
        if one.process.poll() is None:
            one.kill()

    def test_fault_on_request_of_the_control_file(self):
        host = self.machine(vram=1 * GIB)
        one = self.start(host, emulated.program("hip_memory"))
        self.assertEqual(one.ask("alloc", 100 * MIB)[3], "hipSuccess")
        self.assertEqual(one.ask("roundtrip", 0)[3], "hipSuccess")
        with open(host.path("emulator/faults"), "w", encoding="ascii") as file:
            file.write("page-fault on=now\n")
        emulated.wait_for(lambda: host.journal("page-fault"), "the page fault")
        if emulated.faults_are_errors():
            one.send("memset", 0)
        self.check_end(one)

    def test_a_counter_that_is_a_fifo_does_not_hold_the_program(self):
        host = self.machine(vram=1 * GIB)
        path = host.path("sys/class/drm/card0/device/mem_info_vram_used")
        os.unlink(path)
        os.mkfifo(path)
        one = self.start(host, emulated.program("kfd_memory"))
        self.assertEqual(one.ask("vram", 1 * MIB)[2], "0")
        self.assertEqual(host.process_vram(one.process.pid), 1 * MIB)


if __name__ == "__main__":
    emulated.main()
