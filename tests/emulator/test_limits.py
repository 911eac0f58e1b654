# SPDX-License-Identifier: Apache-2.0
"""The limits of the kernels, to the byte, by the ioctls themselves: no runtime in between."""

import errno
import os
import subprocess
import resource

import emulated
from emulated import GIB, MIB

ENOMEM = errno.ENOMEM


class Limits(emulated.Case):
    def program(self, host, **kwargs):
        running = self.start(host, emulated.program("kfd_memory"), **kwargs)
        self.assertEqual(running.ready[0], "ready")
        return running

    def ask(self, running, kind, size):
        return int(running.ask(kind, size)[2])

    def refusals(self, host):
        return [(r["kind"], r["result"], r["reason"]) for r in host.journal("alloc")
                if r["result"] != 0]

    def test_vram_ends_at_the_byte(self):
        """Limit = bank - page tables (1/16384, at least 8 MiB) - what the driver pinned."""
        host = self.machine("gfx90a", vram=1 * GIB, base=32 * MIB)
        limit = 1 * GIB - 8 * MIB - 32 * MIB
        one = self.program(host)
        self.assertEqual(self.ask(one, "vram", limit - 4096), 0)
        self.assertEqual(self.ask(one, "vram", 8192), ENOMEM)
        self.assertEqual(self.ask(one, "vram", 4096), 0)
        self.assertEqual(self.ask(one, "vram", 1), ENOMEM)
        self.assertEqual(self.limit_of(host), limit)
        self.assertEqual(host.counter("vram_used"), limit + 32 * MIB)
        self.assertEqual(host.process_vram(one.process.pid), limit)
        self.assertEqual(self.refusals(host), [("vram", -ENOMEM, "vram limit")] * 2)
        self.assertEqual(one.ask("free", 0), ["free", "0", "0"])
        self.assertEqual(host.counter("vram_used"), 4096 + 32 * MIB)
        self.assertEqual(one.ask("free", 0)[2], str(errno.EINVAL))
        self.assertEqual(one.finish()[0], 0)
        self.wait_for_counter(host, "vram_used", 32 * MIB)
        self.assertFalse(os.path.exists(host.path(f"sys/class/kfd/kfd/proc/{one.process.pid}")))

    def test_a_large_card_keeps_more_back(self):
        host = self.machine("gfx942", "gfx942")
        one = self.program(host)
        self.assertEqual(self.ask(one, "vram", 4096), 0)
        bank = 196592 * MIB
        self.assertEqual(self.limit_of(host), bank - 2 * bank // 16384 - 32 * MIB)

    def test_kernel_6_1_rounds_up(self):
        host = self.machine("gfx90a", vram=1 * GIB, kernel="6.1")
        limit = 1 * GIB - 8 * MIB - 32 * MIB
        one = self.program(host)
        self.assertEqual(self.ask(one, "vram", limit - 2 * MIB + 4096), 0)
        self.assertEqual(self.ask(one, "vram", 4096), ENOMEM)

    def test_gtt_by_the_ttm_limit(self):
        """6.1: 3/8 of the RAM that was free at module load; 6.12: pages_limit."""
        for kernel, free, limit in (("6.1", 8 * GIB, 3 * GIB), ("6.12", None, 2 * GIB)):
            with self.subTest(kernel=kernel):
                host = self.machine("gfx90a", name=kernel, kernel=kernel, ram=16 * GIB, free=free,
                                    pages_limit=2 * GIB // 4096, gtt=16 * GIB)
                one = self.program(host)
                self.assertEqual(self.ask(one, "gtt", limit), 0)
                self.assertEqual(self.ask(one, "gtt", 4096), ENOMEM)
                self.assertEqual(self.refusals(host), [("gtt", -ENOMEM, "ttm limit")])
                self.assertEqual(host.counter("gtt_used"), limit)
                self.assertEqual(self.ask(one, "userptr", 4096), 0)

    def test_gtt_by_the_size_of_its_manager(self):
        host = self.machine("gfx90a", gtt=1 * GIB)
        one = self.program(host)
        self.assertEqual(self.ask(one, "gtt", 1 * GIB), 0)
        self.assertEqual(self.ask(one, "gtt", 4096), ENOMEM)
        self.assertEqual(self.refusals(host), [("gtt", -ENOMEM, "gtt full")])

    def test_userptr_by_the_system_limit(self):
        host = self.machine("gfx90a", ram=16 * GIB)
        limit = 16 * GIB - 16 * GIB // 64 - 3 * GIB
        one = self.program(host)
        self.assertEqual(self.ask(one, "userptr", limit), 0)
        self.assertEqual(self.ask(one, "userptr", 4096), ENOMEM)
        self.assertEqual(self.refusals(host), [("userptr", -ENOMEM, "system limit")])

    def test_apu_of_6_12_serves_vram_from_gtt(self):
        host = self.machine("gfx1151", ram=128 * GIB, pages_limit=96 * GIB // 4096)
        one = self.program(host)
        bank = 96 * GIB
        kept = max(bank // 16384, 8 * MIB) + 32 * MIB
        self.assertEqual(int(one.ask("available")[1]), bank - kept)
        self.assertEqual(self.ask(one, "vram", bank), 0)
        self.assertEqual(self.ask(one, "vram", 4096), ENOMEM)
        self.assertEqual(self.refusals(host), [("vram", -ENOMEM, "ttm limit")])
        self.assertEqual(host.counter("gtt_used"), bank)
        self.assertEqual(host.counter("vram_used"), 32 * MIB)
        self.assertEqual(host.process_vram(one.process.pid), bank)

    def test_apu_of_6_1_has_its_carve_out(self):
        host = self.machine("gfx1151", kernel="6.1", vram=512 * MIB)
        one = self.program(host)
        limit = 512 * MIB - 8 * MIB - 32 * MIB
        self.assertEqual(self.ask(one, "vram", limit), 0)
        self.assertEqual(self.ask(one, "vram", 4096), ENOMEM)
        self.assertEqual(host.counter("gtt_used"), 0)

    def test_small_bar(self):
        host = self.machine("gfx90a", vram=8 * GIB, visible=256 * MIB)
        one = self.program(host)
        self.assertEqual(self.ask(one, "public", 1 * MIB), errno.EINVAL)
        self.assertEqual(self.ask(one, "vram", 1 * MIB), 0)
        self.assertEqual(self.refusals(host), [("vram", -errno.EINVAL, "small bar")])
        self.assertEqual(host.kernel_log(),
                         ["amdgpu: Alloc host visible vram on small bar is not allowed"])
        large = self.program(self.machine("gfx90a", name="large", vram=8 * GIB))
        self.assertEqual(self.ask(large, "public", 1 * MIB), 0)

    def test_graphics_memory_is_evicted_to_gtt(self):
        """KFD's limit does not know graphics clients: TTM moves them when VRAM is really full."""
        host = self.machine("gfx90a", vram=1 * GIB)
        compositor, one = self.program(host), self.program(host)
        self.assertEqual(self.ask(compositor, "gem", 256 * MIB), 0)
        limit = 1 * GIB - 8 * MIB - 32 * MIB
        self.assertEqual(self.ask(one, "vram", limit), 0)
        moved = 256 * MIB - 8 * MIB
        self.assertEqual([r["size"] for r in host.journal("evict")], [moved])
        self.assertEqual(host.counter("vram_used"), 1 * GIB)
        self.assertEqual(host.counter("gtt_used"), moved)
        self.assertEqual(self.ask(compositor, "gem", 4096), ENOMEM)
        self.assertEqual(int(one.ask("free", 0)[2]), 0)
        self.assertEqual(host.counter("gtt_used"), 0)
        self.assertEqual(host.counter("vram_used"), 256 * MIB + 32 * MIB)

    def test_two_processes_share_a_budget_and_death_gives_it_back(self):
        host = self.machine("gfx90a", vram=1 * GIB, keeper=False)
        limit = 1 * GIB - 8 * MIB - 32 * MIB
        holder, other = self.program(host), self.program(host)
        self.assertEqual(self.ask(holder, "vram", 600 * MIB), 0)
        self.assertEqual(self.ask(other, "vram", 600 * MIB), ENOMEM)
        self.assertEqual(self.ask(other, "vram", limit - 600 * MIB), 0)
        self.assertEqual(int(other.ask("available")[1]), 0)
        holder.kill()
        self.assertEqual(self.ask(other, "vram", 600 * MIB), 0)
        self.assertEqual([r["dead"] for r in host.journal("reap")], [holder.process.pid])
        self.assertEqual(host.counter("vram_used"), 1 * GIB - 8 * MIB)

    def test_the_keeper_gives_back_what_the_dead_held(self):
        host = self.machine("gfx90a", vram=1 * GIB, keeper=False)
        keeper = emulated.subprocess.Popen([emulated.KEEPER, host.root],
                                           stdin=emulated.subprocess.PIPE)
        one = self.program(host)
        self.assertEqual(self.ask(one, "vram", 600 * MIB), 0)
        self.assertEqual(host.counter("vram_used"), 632 * MIB)
        one.kill()
        emulated.wait_for(lambda: host.counter("vram_used") == 32 * MIB, "the keeper")
        self.assertEqual(os.listdir(host.path("sys/class/kfd/kfd/proc")), [])
        keeper.communicate(timeout=emulated.DEADLINE_S)
        self.assertEqual(keeper.returncode, 0)

    def test_the_keeper_runs_a_program(self):
        host = self.machine("gfx90a", vram=1 * GIB, keeper=False)
        done = emulated.subprocess.run(
            [emulated.KEEPER, host.root, emulated.program("kfd_memory")], text=True,
            input=f"vram {600 * MIB}\n", capture_output=True, timeout=emulated.DEADLINE_S,
            check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.splitlines(), ["ready 1 0", "vram 1 0"])
        self.assertEqual(host.counter("vram_used"), 32 * MIB)
        for argv, status in ((["sh", "-c", "exit 7"], 7), (["sh", "-c", "kill -9 $$"], 137),
                             (["/no/such/program"], 127)):
            done = emulated.subprocess.run([emulated.KEEPER, host.root, *argv],
                                           capture_output=True, check=False)
            self.assertEqual(done.returncode, status)

    def test_a_child_opens_the_device_anew(self):
        host = self.machine("gfx90a", vram=1 * GIB)
        one = self.program(host)
        self.assertEqual(self.ask(one, "vram", 100 * MIB), 0)
        self.assertEqual(one.ask("fork", 200 * MIB), ["fork", str(errno.EBADF), "0"])
        host.reap()
        self.assertEqual(host.counter("vram_used"), 132 * MIB)
        self.assertEqual(self.ask(one, "vram", 100 * MIB), 0)
        peak = max(r["vram_used"] for r in host.journal("alloc"))
        self.assertEqual(peak, 332 * MIB)

    def test_exec_gives_back(self):
        host = self.machine("gfx90a", vram=1 * GIB)
        script = f"""
import fcntl, os, struct
kfd = os.open('/dev/kfd', os.O_RDWR | os.O_CLOEXEC)
request = 3 << 30 | 40 << 16 | ord('K') << 8 | 0x16  # AMDKFD_IOC_ALLOC_MEMORY_OF_GPU
fcntl.ioctl(kfd, request, struct.pack('4Q2I', 1 << 32, {300 * MIB}, 0, 0, 51966, 1))
os.execv({emulated.program('kfd_memory')!r}, ['kfd_memory'])
"""
        one = self.start(host, emulated.sys.executable, "-c", script)
        self.assertEqual(self.ask(one, "vram", 100 * MIB), 0)
        self.assertEqual([r["size"] for r in host.journal("alloc")], [300 * MIB, 100 * MIB])
        self.assertEqual(host.process_vram(one.process.pid), 100 * MIB)
        self.assertEqual(host.counter("vram_used"), 132 * MIB)

    def test_non_root(self):
        if os.getuid() != 0:
            self.skipTest("already no root")
        host = self.machine("gfx90a", vram=1 * GIB, keeper=False)
        os.chmod(self.folder, 0o755)
        for folder, _, names in os.walk(host.root):
            os.chown(folder, 65534, 65534)
            for name in names:
                os.chown(os.path.join(folder, name), 65534, 65534, follow_symlinks=False)
        for path in (emulated.LIBRARY, emulated.program("kfd_memory")):
            done = subprocess.run(["test", "-r", path], user=65534, group=65534, extra_groups=[], check=False)
            if done.returncode != 0:
                self.skipTest(f"user 65534 cannot reach {path}")
        one = self.program(host, user=65534)
        self.assertEqual(self.ask(one, "vram", 100 * MIB), 0)
        self.assertEqual(host.process_vram(one.process.pid), 100 * MIB)

    def test_one_descriptor_a_handle(self):
        host = self.machine("gfx90a")
        soft = 64

        def limit_descriptors():
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, soft))

        one = self.program(host, faults="fds", preexec_fn=limit_descriptors)
        errors = [self.ask(one, "vram", 4096) for _ in range(soft)]
        first = errors.index(errno.EMFILE)
        self.assertEqual(errors[:first], [0] * first)
        self.assertEqual(set(errors[first:]), {errno.EMFILE})
        self.assertGreater(first, soft // 2)
        self.assertEqual(len(os.listdir(f"/proc/{one.process.pid}/fd")), soft)
        self.assertEqual(int(one.ask("free", 0)[2]), 0)
        self.assertEqual(self.ask(one, "vram", 4096), 0)

    def test_mappings_run_out(self):
        host = self.machine("gfx90a")
        one = self.program(host)
        with open(f"/proc/{one.process.pid}/maps", encoding="ascii") as maps:
            lines = len(maps.readlines())
        host_faults = host.path("emulator/faults")
        with open(host_faults, "w", encoding="ascii") as file:
            file.write(f"mappings max={lines + 8}\n")
        errors = []
        for number in range(12):
            self.assertEqual(self.ask(one, "vram", 8192), 0)
            errors.append(int(one.ask("map", number)[2]))
        first = errors.index(ENOMEM)
        self.assertTrue(1 <= first <= 8, errors)
        self.assertEqual(set(errors[first:]), {ENOMEM})


if __name__ == "__main__":
    emulated.main()
