# SPDX-License-Identifier: Apache-2.0
"""Other readers see the same: rocm-smi, fdinfo in its three generations, the journal itself."""

import os
import re

import emulated
from emulated import GIB, MIB


class RocmSmi(emulated.Case):
    def smi(self, host, *options):
        done = host.run(emulated.tool("rocm-smi", "rocm-smi"), *options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_memory_and_processes_of_another_program(self):
        host = self.machine("gfx90a", vram=1 * GIB)
        one = self.start(host, emulated.program("kfd_memory"))
        self.assertEqual(one.ask("vram", 300 * MIB)[2], "0")
        text = self.smi(host, "--showmeminfo", "vram")
        self.assertIn(f"VRAM Total Memory (B): {1 * GIB}", text)
        self.assertIn(f"VRAM Total Used Memory (B): {332 * MIB}", text)
        text = self.smi(host, "--showpids")
        line = next(line for line in text.splitlines() if line.startswith(str(one.process.pid)))
        self.assertIn(str(300 * MIB), line.split())

    def test_several_cards(self):
        host = self.machine("gfx90a", "gfx90a", vram=[1 * GIB, 2 * GIB])
        text = self.smi(host, "--showmeminfo", "vram")
        self.assertEqual(re.findall(r"Total Memory \(B\): (\d+)", text), [str(1 * GIB), str(2 * GIB)])


class Fdinfo(emulated.Case):
    def keys(self, host, pid):
        """{key: value} of the one render node that the program has open, by its own path."""
        folder = host.path("proc", str(pid), "fdinfo")
        names = os.listdir(folder)
        self.assertEqual(len(names), 1)
        self.assertEqual(os.readlink(host.path("proc", str(pid), "fd", names[0])),
                         "/dev/dri/renderD128")
        done = host.run("cat", f"/proc/{pid}/fdinfo/{names[0]}")
        self.assertEqual(done.returncode, 0, done.stderr)
        return dict(line.split(":", 1) for line in done.stdout.splitlines() if line)

    def program(self, fdinfo):
        host = self.machine("gfx90a", name=fdinfo, vram=1 * GIB, fdinfo=fdinfo)
        one = self.start(host, emulated.program("kfd_memory"))
        self.assertEqual(one.ask("vram", 64 * MIB)[2], "0")
        self.assertEqual(one.ask("gtt", 4096)[2], "0")
        return host, one

    def test_linux_6_1(self):
        host, one = self.program("6.1")
        keys = self.keys(host, one.process.pid)
        self.assertEqual(keys["drm-driver"].strip(), "amdgpu")
        self.assertEqual(keys["drm-pdev"].strip(), "0000:03:00.0")
        self.assertEqual(keys["drm-memory-vram"], "\t65536 KiB")
        self.assertEqual(keys["drm-memory-gtt"], " \t4 KiB")
        self.assertFalse([key for key in keys if key.startswith("amd-")])

    def test_linux_6_12(self):
        host, one = self.program("6.12")
        keys = self.keys(host, one.process.pid)
        self.assertEqual(keys["amd-requested-vram"], "\t65536 KiB")
        self.assertEqual(keys["amd-evicted-vram"], "\t0 KiB")
        self.assertIn("amd-memory-visible-vram", keys)
        self.assertNotIn("drm-total-vram", keys)

    def test_linux_7_2(self):
        host, one = self.program("7.2")
        keys = self.keys(host, one.process.pid)
        self.assertEqual(keys["drm-total-vram"], "\t64 MiB")
        self.assertEqual(keys["drm-resident-gtt"], "\t4 KiB")
        self.assertEqual(keys["drm-total-cpu"], "\t0")
        self.assertNotIn("amd-memory-visible-vram", keys)

    def test_an_open_file_stays_live(self):
        """Readers keep it open, as they do in /proc."""
        host, one = self.program("6.12")
        folder = host.path("proc", str(one.process.pid), "fdinfo")
        with open(os.path.join(folder, os.listdir(folder)[0]), encoding="ascii") as file:
            self.assertIn("drm-memory-vram:\t65536 KiB", file.read())
            self.assertEqual(one.ask("vram", 64 * MIB)[2], "0")
            file.seek(0)
            self.assertIn("drm-memory-vram:\t131072 KiB", file.read())

    def test_evicted_memory_of_a_graphics_client(self):
        host = self.machine("gfx90a", vram=1 * GIB)
        compositor = self.start(host, emulated.program("kfd_memory"))
        one = self.start(host, emulated.program("kfd_memory"))
        self.assertEqual(compositor.ask("gem", 256 * MIB)[2], "0")
        self.assertEqual(one.ask("vram", 1 * GIB - 40 * MIB)[2], "0")
        self.assertEqual(compositor.ask("gtt", 4096)[2], "0")  # writes its fdinfo anew
        keys = self.keys(host, compositor.process.pid)
        self.assertEqual(keys["amd-evicted-vram"], f"\t{248 * 1024} KiB")
        self.assertEqual(keys["amd-requested-vram"], f"\t{256 * 1024} KiB")


class Journal(emulated.Case):
    def test_it_is_whole_and_in_order(self):
        """Replayed, the journal gives the totals that each of its records states."""
        host = self.machine("gfx90a", vram=1 * GIB)
        programs = [self.start(host, emulated.program("kfd_memory")) for _ in range(3)]
        for step in range(60):
            program = programs[step % 3]
            program.send("vram", (step % 7 + 1) * 4096)
            if step >= 6 and step % 5 == 0:
                program.answer()
                program.send("free", step // 30)
            program.answer()
        records = host.journal()
        self.assertEqual([r["seq"] for r in records], list(range(1, len(records) + 1)))
        held = 0
        for r in records:
            if r.get("kind") == "vram" and r.get("result", 0) == 0:
                held += r["size"] if r["event"] == "alloc" else -r["size"]
                self.assertEqual(r["kfd_vram"], held)
        self.assertEqual(host.counter("vram_used"), held + 32 * MIB)
        self.assertEqual(sum(host.process_vram(p.process.pid) for p in programs), held)

    def test_it_can_go_elsewhere(self):
        host = self.machine("gfx90a")
        path = os.path.join(self.folder, "elsewhere")
        one = self.start(host, emulated.program("kfd_memory"), environ={"EMULATOR_LOG": path})
        self.assertEqual(one.ask("vram", 4096)[2], "0")
        self.assertEqual(host.journal(), [])
        with open(path, encoding="utf-8") as file:
            self.assertIn('"event":"alloc"', file.read())


if __name__ == "__main__":
    emulated.main()
