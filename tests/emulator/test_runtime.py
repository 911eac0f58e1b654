# SPDX-License-Identifier: Apache-2.0
"""The unmodified runtimes fail by their own errors, and journal, counters and answers agree."""

import emulated
from emulated import GIB, MIB

OUT_OF_RESOURCES = "0x1008"
OUT_OF_MEMORY = "hipErrorOutOfMemory"


class Runtime(emulated.Case):
    def vram_of(self, host, pid):
        """The VRAM that the process holds by the journal, which is replayed."""
        held = 0
        for r in host.journal(pid=pid, kind="vram"):
            if r["event"] == "alloc" and r["result"] == 0:
                held += r["size"]
            elif r["event"] == "free":
                held -= r["size"]
        return held

    def check_agreement(self, host, running, base=32 * MIB):
        held = self.vram_of(host, running.process.pid)
        self.assertEqual(host.process_vram(running.process.pid), held)
        self.assertEqual(host.counter("vram_used"), held + base)
        self.assertEqual(host.journal("unknown"), [])
        return held


class Hsa(Runtime):
    def program(self, host, **kwargs):
        running = self.start(host, emulated.program("hsa_memory"), **kwargs)
        self.assertEqual(running.ready[:3], ["ready", "1", "0x0"])
        return running

    def test_fails_at_exactly_the_budget(self):
        host = self.machine("gfx90a", vram=1 * GIB)
        one = self.program(host)
        self.assertEqual(one.ask("alloc", 100 * MIB)[2], "0x0")
        rest = self.limit_of(host) - self.check_agreement(host, one)
        over = rest + 2 * MIB  # libhsakmt asks in steps of 2 MiB
        self.assertEqual(one.ask("alloc", over)[2], OUT_OF_RESOURCES)
        self.assertEqual(one.ask("alloc", rest)[2], "0x0")
        self.assertEqual(self.check_agreement(host, one), self.limit_of(host))
        self.assertEqual(one.ask("alloc", 4 * MIB)[2], OUT_OF_RESOURCES)
        # ROCr trims its caches and asks again: two refusals each.
        self.assertEqual([(r["size"], r["result"]) for r in host.journal("alloc", reason="vram limit")],
                         [(over, -12)] * 2 + [(4 * MIB, -12)] * 2)
        status, _, stderr = one.finish()
        self.assertEqual(status, 0)
        self.assertIn("alloc failed", stderr)
        self.wait_for_counter(host, "vram_used", 32 * MIB)  # the exit gave it back

    def test_two_programs_share_the_gpu(self):
        host = self.machine("gfx90a", vram=1 * GIB)
        holder, other = self.program(host), self.program(host)
        self.assertEqual(holder.ask("alloc", 600 * MIB)[2], "0x0")
        self.assertEqual(other.ask("alloc", 600 * MIB)[2], OUT_OF_RESOURCES)
        holder.kill()
        self.assertEqual(other.ask("alloc", 600 * MIB)[2], "0x0")
        self.check_agreement(host, other)

    def test_copies_reach_the_memory(self):
        host = self.machine("gfx90a", vram=1 * GIB)
        one = self.program(host)
        self.assertEqual(one.ask("alloc", 100 * MIB)[2], "0x0")
        self.assertEqual(one.ask("copy", 0)[2], "0x0")
        self.assertEqual(sum(r["size"] for r in host.journal("copy")), 1 * MIB)

    def test_stray_copy_is_a_page_fault(self):
        host = self.machine("gfx90a", vram=1 * GIB)
        one = self.program(host)
        self.assertEqual(one.ask("alloc", 100 * MIB)[2], "0x0")
        one.send("stray", 0)
        status, _, stderr = one.finish()
        self.assertEqual(status, -6)
        fault = host.journal("page-fault")[0]["address"]
        page = int(fault, 16) & ~4095
        self.assertIn(f"on address {page:#x}. Reason: Page not present or supervisor privilege.",
                      stderr)
        held = [r for r in host.journal("alloc", kind="vram") if r["size"] == 100 * MIB]
        self.assertEqual(page, int(held[0]["va"], 16) + 1 * GIB)


class Hip(Runtime):
    def program(self, host, **kwargs):
        running = self.start(host, emulated.program("hip_memory"), **kwargs)
        self.assertEqual(running.ready[0], "ready")
        self.assertNotEqual(running.ready[1], "0")
        return running

    def test_fails_at_exactly_the_budget(self):
        host = self.machine("gfx90a", vram=1 * GIB)
        one = self.program(host)
        self.assertEqual(one.ask("alloc", 100 * MIB)[3], "hipSuccess")
        rest = self.limit_of(host) - self.check_agreement(host, one)
        self.assertEqual(one.ask("alloc", rest + 2 * MIB)[3], OUT_OF_MEMORY)
        self.assertEqual({r["size"] for r in host.journal("alloc", result=-12)}, {rest + 2 * MIB})
        self.assertEqual(one.ask("alloc", rest)[3], "hipSuccess")
        self.assertEqual(self.check_agreement(host, one), self.limit_of(host))
        one.finish()

    def test_fill_in_pieces(self):
        host = self.machine("gfx90a", vram=1 * GIB)
        one = self.program(host)
        _, count, _, name = one.ask("fill", 100 * MIB)
        self.assertEqual((int(count), name), (9, OUT_OF_MEMORY))
        self.check_agreement(host, one)
        self.assertEqual(one.ask("free", 0)[3], "hipSuccess")
        self.assertEqual(one.ask("alloc", 100 * MIB)[3], "hipSuccess")

    def test_over_the_device_is_refused_without_an_ioctl(self):
        host = self.machine("gfx90a", vram=1 * GIB)
        one = self.program(host)
        self.assertEqual(one.ask("alloc", 1 * MIB)[3], "hipSuccess")
        before = host.journal("alloc")
        self.assertEqual(one.ask("alloc", 2 * GIB)[3], OUT_OF_MEMORY)
        asked = [r for r in host.journal("alloc")[len(before):] if r["size"] >= 1 * GIB]
        self.assertEqual(asked, [])
        self.assertEqual(host.journal("alloc", result=-12), [])

    def test_copies_and_kernels_complete(self):
        host = self.machine("gfx90a", vram=1 * GIB)
        one = self.program(host)
        self.assertEqual(one.ask("alloc", 100 * MIB)[3], "hipSuccess")
        self.assertEqual(one.ask("roundtrip", 0), ["roundtrip", "1", "0", "hipSuccess"])
        self.assertEqual(one.ask("memset", 0)[3], "hipSuccess")
        self.assertGreaterEqual(len(host.journal("dispatch")), 1)
        status, _, stderr = one.finish()
        own = [line for line in stderr.splitlines() if "detected by SharedSignalPool" not in line]  # ROCr 7.2
        self.assertEqual((status, own), (0, []))

    def test_pinned_host_memory_ends_at_the_system_limit(self):
        """hipHostMalloc of ROCr 5.2.3 takes ordinary pages and gives them to KFD as userptr."""
        host = self.machine("gfx90a", vram=1 * GIB, ram=4 * GIB)
        limit = (4 * GIB - 4 * GIB // 64) // 2
        one = self.program(host)
        _, count, _, name = one.ask("hostfill", 64 * MIB)
        self.assertEqual(name, OUT_OF_MEMORY)
        self.assertGreaterEqual(int(count), 28)
        last = host.journal("alloc", result=-12)[-1]
        self.assertEqual((last["kind"], last["reason"]), ("userptr", "system limit"))
        self.assertLessEqual(last["system_used"], limit)
        self.assertGreater(last["system_used"] + last["size"], limit)
        self.assertEqual(host.counter("gtt_used") + host.counter("preempt_used"),
                         last["system_used"])

    def test_two_gpus_are_filled_apart(self):
        host = self.machine("gfx90a", "gfx90a", vram=[1 * GIB, 2 * GIB])
        one = self.program(host)
        self.assertEqual(one.ready[1], "2")
        counts = []
        for number in range(2):
            self.assertEqual(one.ask("device", number)[3], "hipSuccess")
            counts.append(int(one.ask("fill", 100 * MIB)[1]))
        self.assertEqual(counts, [9, 20])
        for card, gpu in enumerate((51966, 51966 + 1111)):
            self.assertEqual(host.counter("vram_used", card),
                             host.process_vram(one.process.pid, gpu) + 32 * MIB)

    def test_apu_fills_gtt(self):
        """With the override that owners of the chip use on an old runtime."""
        host = self.machine("gfx1151", ram=16 * GIB, pages_limit=1 * GIB // 4096)
        one = self.program(host, environ={"HSA_OVERRIDE_GFX_VERSION": "10.3.0"})
        self.assertEqual(one.ask("fill", 100 * MIB)[3], OUT_OF_MEMORY)
        self.assertEqual(host.journal("alloc", result=-12)[-1]["reason"], "ttm limit")
        self.assertEqual(host.counter("vram_used"), 32 * MIB)
        self.assertGreater(host.counter("gtt_used"), 900 * MIB)


if __name__ == "__main__":
    emulated.main()
