# SPDX-License-Identifier: Apache-2.0
"""rocminfo sees each machine as it was made or recorded."""

import re

import emulated
from emulated import GIB, MIB


def gpus_of(text):
    """[(name, KiB of the device pool)] of rocminfo's output."""
    agents = re.split(r"\*{7}\s+Agent \d+\s+\*{7}", text)
    found = []
    for agent in agents:
        if re.search(r"Device Type:\s+GPU", agent):
            name = re.search(r"^\s+Name:\s+(\S+)", agent, re.MULTILINE).group(1)
            pool = re.search(r"COARSE GRAINED\s+Size:\s+(\d+)\(", agent)
            found.append((name, int(pool.group(1)) if pool else None))
    return found


class Rocminfo(emulated.Case):
    def rocminfo(self, host, override=None):
        environ = {"HSA_OVERRIDE_GFX_VERSION": override} if override else {}
        done = host.run(emulated.tool("rocminfo", "rocminfo"), environ=environ)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("*** Done ***", done.stdout)
        self.assertIn("ROCk module is loaded", done.stdout)
        self.assertEqual(host.journal("unknown"), [])
        return gpus_of(done.stdout)

    def test_generated_machines(self):
        for model, kib in (("gfx90a", 65520 << 10), ("gfx1030", 16368 << 10),
                           ("gfx1100", 24560 << 10), ("gfx942", 196592 << 10)):
            with self.subTest(model=model):
                host = self.machine(model, name=model)
                found = self.rocminfo(host) or self.rocminfo(host, emulated.OVERRIDE[model])
                self.assertEqual([size for _, size in found], [kib])
                if model in ("gfx90a", "gfx1030"):
                    self.assertEqual(found[0][0], model)

    def test_apu_shows_the_bank_of_its_kernel(self):
        """6.1 shows the carve-out, 6.12 what TTM may bind."""
        for kernel, kib in (("6.1", 512 << 10), ("6.12", 96 << 20)):
            with self.subTest(kernel=kernel):
                host = self.machine("gfx1151", name=kernel, kernel=kernel, ram=128 * GIB,
                                    pages_limit=96 * GIB // 4096)
                self.assertEqual([size for _, size in self.rocminfo(host, "10.3.0")], [kib])
                self.assertEqual(host.counter("vram_total"), 512 * MIB)
                self.assertEqual(host.counter("gtt_total"),
                                 64 * GIB if kernel == "6.1" else 96 * GIB)

    def test_several_gpus_with_their_own_sizes(self):
        host = self.machine("gfx90a", "gfx90a", "gfx90a", vram=[1 * GIB, 2 * GIB, 3 * GIB])
        self.assertEqual([size for _, size in self.rocminfo(host)], [1 << 20, 2 << 20, 3 << 20])

    def test_small_bar(self):
        host = self.machine("gfx90a", vram=8 * GIB, visible=256 * MIB)
        self.assertEqual([size for _, size in self.rocminfo(host)], [8 << 20])

    def test_recorded_mi210(self):
        host, gpus = self.recorded("k8sdp-mi210x8-gfx90a-kfd")
        self.assertEqual(len(gpus), 8)
        self.assertEqual(self.rocminfo(host), [("gfx90a", 65520 << 10)] * 8)

    def test_recorded_mi300x_in_partitions(self):
        host, gpus = self.recorded("k8sdp-mi300x8-cpx-gfx942-kfd")
        self.assertEqual(len(gpus), 63)
        found = self.rocminfo(host) or self.rocminfo(host, "9.0.10")
        self.assertEqual([size for _, size in found], [196592 * 1024 // 8] * 63)

    def test_without_a_machine_nothing_changes(self):
        host = self.machine("gfx90a")
        environ = host.environ()
        del environ["EMULATOR_ROOT"]
        for argv in (["ls", "/sys/class"], ["cat", "/proc/self/comm"], ["stat", "/dev/null"]):
            plain = emulated.subprocess.run(argv, capture_output=True, check=False)
            preloaded = emulated.subprocess.run(argv, env=environ, capture_output=True,
                                                check=False)
            self.assertEqual((preloaded.returncode, preloaded.stdout, preloaded.stderr),
                             (plain.returncode, plain.stdout, plain.stderr))
        self.assertEqual(host.journal(), [])


if __name__ == "__main__":
    emulated.main()
