# SPDX-License-Identifier: Apache-2.0
"""The ledger of the library that is preloaded into the target: it has what the (emulated) driver decided."""

import contextlib
import glob
import os
import shutil
import subprocess

import ledger_file
import ledger_oracle
import support
from preloaded import BUILD, LIBRARY, Alone, emulated, need, need_preload

SCHEDULE = os.path.join(BUILD, "tests", "unit", "inject", "ledger_schedule")
SCHEDULES = 40


class Oracle(support.Case):
    """Compares the ledger with the driver's journal."""

    def setUp(self):
        super().setUp()
        need(SCHEDULE, "libdrm-dev")
        need(emulated.LIBRARY, "libdrm-dev")
        self.runner = ledger_oracle.Runner(emulated, LIBRARY, SCHEDULE, self.folder)

    def check(self, seeds, **kwargs):
        decisions, processes = 0, 0
        for seed in seeds:
            wrong, count, images = self.runner.run(seed, **kwargs)
            self.assertEqual(wrong, [])
            decisions += count
            processes += images
        return decisions, processes

    def test_random_schedules(self):
        decisions, processes = self.check(range(SCHEDULES))
        self.assertGreater(decisions, SCHEDULES * 20)
        self.assertGreater(processes, SCHEDULES)  # there were forks and execs

    def test_killed_at_any_moment(self):
        for step in range(10):
            self.check([5000 + step], steps=100000, kill_after_s=0.05 + step * 0.01)

    def test_threads_at_the_same_moment(self):
        self.check(range(9000, 9005), steps=150, threads=4)


class Noted(Alone):
    """The ledger of a program on the emulated machine."""

    def environ(self):
        return {**self.ledger.environ, "LD_PRELOAD": f"{LIBRARY}:{emulated.LIBRARY}"}

    def program(self, name, host=None, **kwargs):
        host = host or self.machine("gfx90a", vram=1 * emulated.GIB)
        return self.start(host, emulated.program(name), environ=self.environ(), **kwargs)

    def test_retry_and_success(self):
        one = self.program("kfd_memory")
        first = one.ask("vram", 900 << 20)
        self.assertEqual(first, ["vram", "1", "0"])
        self.assertEqual(one.ask("vram", 200 << 20)[2], "12")
        self.assertEqual(one.ask("vram", 200 << 20)[2], "12")
        self.assertEqual(one.ask("free", 0)[2], "0")
        self.assertEqual(one.ask("vram", 200 << 20)[2], "0")
        self.assertEqual(one.ask("gtt", 4096)[2], "0")
        ledger = self.ledger.read()
        self.assertEqual([(r.retry_of, r.size, r.error, r.live) for r in ledger.refusals],
                         [(0, 200 << 20, 12, 900 << 20), (1, 200 << 20, 12, 900 << 20)])
        self.assertGreater(ledger.refusals[0].satisfied_ns, ledger.refusals[1].time_ns)
        self.assertEqual(ledger.gpus[0].live[0], 200 << 20)
        self.assertEqual(ledger.gpus[0].peak[0], 900 << 20)
        sizes = {(s.bytes, s.kind): (s.allocations, s.frees) for s in ledger.sizes}
        self.assertEqual(sizes, {(900 << 20, 0): (1, 1), (200 << 20, 0): (1, 0), (4096, 1): (1, 0)})
        self.assertEqual([ledger_file.EVENTS[e.type] for e in ledger.events],
                         ["alloc", "refused", "refused", "free", "alloc", "alloc"])

    def test_mapping_and_descriptor_limits(self):
        host = self.machine("gfx90a", vram=1 * emulated.GIB)
        one = self.program("kfd_memory", host, faults="alloc kind=gtt errno=EMFILE")
        self.assertEqual(one.ask("gtt", 4096)[2], "24")
        refusal = self.ledger.read().refusals[0]
        self.assertEqual((refusal.error, refusal.operation), (24, 0))
        self.assertGreater(refusal.fds, 4)
        self.assertGreater(refusal.fds_limit, refusal.fds)
        self.assertGreater(refusal.mappings, 10)
        self.assertGreater(refusal.mappings_limit, refusal.mappings)

    def test_exec_into_a_program_without_gpu(self):
        code = ("import fcntl, os, struct\n"
                "kfd = os.open('/dev/kfd', os.O_RDWR)\n"
                "args = struct.pack('=QQQQII', 1 << 32, 1 << 20, 0, 0, 51966, 1)\n"
                "fcntl.ioctl(kfd, 0xc0284b16, args)\n"
                "try: os.execv('/nowhere', ['x'])\n"
                "except OSError: print('alive', flush=True)\n"
                "if input() == 'go': os.execv('/bin/cat', ['cat'])\n")
        host = self.machine("gfx90a", vram=1 * emulated.GIB)
        one = self.start(host, "/usr/bin/python3", "-S", "-c", code, environ=self.environ())
        self.assertEqual(one.ready, ["alive"])
        ledger = self.ledger.read()
        self.assertEqual(ledger_file.LIVES[ledger.processes[0].life], "alive")
        self.assertEqual(ledger.gpus[0].live[0], 1 << 20)
        one.send("go")
        support.wait_for(lambda: support.comm(one.process.pid) == "cat", "the exec")
        self.assertEqual(one.ask("still", "there"), ["still", "there"])
        ledger = self.ledger.read()
        self.assertEqual(ledger_file.LIVES[ledger.processes[0].life], "execed")
        self.assertEqual((ledger.gpus[0].live[0], ledger.accounts[0].live), (0, 1 << 20))

    def test_mmap_that_fails(self):
        host = self.machine("gfx90a", vram=1 * emulated.GIB)
        one = self.program("kfd_memory", host)
        with open(f"/proc/{one.process.pid}/maps", encoding="ascii") as maps:
            lines = len(maps.readlines())
        with open(host.path("emulator/faults"), "w", encoding="ascii") as file:
            file.write(f"mappings max={lines + 4}\n")
        errors = []
        for number in range(8):
            self.assertEqual(one.ask("gtt", 8192)[2], "0")
            errors.append(one.ask("map", number)[2])
        self.assertIn("12", errors)
        failed = self.ledger.read().refusals
        self.assertEqual(len(failed), errors.count("12"))
        self.assertEqual({(r.operation, r.error, r.size, r.kind) for r in failed},
                         {(ledger_file.OPERATIONS.index("mmap"), 12, 8192, 1)})
        self.assertGreaterEqual(failed[0].mappings, lines)

    def test_gem_and_one_gpu(self):
        """ROCr's calls to the driver show which render node and which KFD node are the same GPU."""
        one = self.program("hsa_memory")
        self.assertEqual(one.ready[0], "ready")
        ledger = self.ledger.read()
        self.assertEqual([(g.kfd_gpu_id, g.render_minor) for g in ledger.gpus.values()],
                         [(51966, 128)])

    def test_refused_inside_hip(self):
        done = self.machine("gfx90a", vram=1 * emulated.GIB).run(
            emulated.program("hip_memory"), str(3 << 30), environ=self.environ())
        self.assertEqual(done.returncode, 1)
        ledger = self.ledger.read()
        self.assertEqual(ledger.refusals, [])
        self.assertEqual([(r.function, r.size, r.error, r.kernel_refusals)
                          for r in ledger.hip_refusals], [(b"hipMalloc", 3 << 30, 2, 0)])

    def test_refused_by_the_driver_below_hip(self):
        done = self.machine("gfx90a", vram=1 * emulated.GIB).run(
            emulated.program("hip_memory"), str(100 << 20), environ=self.environ())
        self.assertEqual(done.returncode, 1)
        ledger = self.ledger.read()
        self.assertEqual([(r.size, r.error, r.retry_of) for r in ledger.refusals],
                         [(100 << 20, 12, 0), (100 << 20, 12, 1)])
        self.assertEqual([(r.function, r.size, r.kernel_refusals, r.kernel_refusal)
                          for r in ledger.hip_refusals], [(b"hipMalloc", 100 << 20, 2, 2)])

    def test_hip_by_address(self):
        """A runtime that was loaded with RTLD_LOCAL, its functions found by dlsym(), as Python and Triton do."""
        emulated.program("hip_memory")
        code = ("import ctypes, sys\n"
                "hip = ctypes.CDLL('libamdhip64.so.5')\n"
                "p, n = ctypes.c_void_p(), ctypes.c_size_t\n"
                "class Extent(ctypes.Structure):\n"
                " _fields_ = [('w', n), ('h', n), ('d', n)]\n"
                "print(hip.hipMalloc(ctypes.byref(p), n(4 << 30)), hip.hipGetLastError())\n"
                "print(hip.hipMalloc3D((n * 4)(), Extent(1 << 20, 1 << 10, 4)))\n"
                "print(hip.hipMalloc(ctypes.byref(p), n(1 << 20)))\n")
        host = self.machine("gfx90a", vram=1 * emulated.GIB)
        plain = host.run("/usr/bin/python3", "-S", "-c", code)
        if plain.returncode != 0:
            self.skipTest("no libamdhip64.so.5 here")
        done = host.run("/usr/bin/python3", "-S", "-c", code, environ=self.environ())
        self.assertEqual((done.stdout, done.stderr), (plain.stdout, plain.stderr))
        self.assertEqual(done.stdout, "2 2\n2\n0\n")
        self.assertEqual([(r.function, r.size, r.kernel_refusals)
                          for r in self.ledger.read().hip_refusals],
                         [(b"hipMalloc", 4 << 30, 0), (b"hipMalloc3D", 4 << 30, 0)])

    def test_no_symbol_of_hip_where_there_is_none(self):
        code = ("import ctypes\n"
                "try: print(ctypes.CDLL(None).hipMalloc)\n"
                "except AttributeError as error: print(error)\n")
        environ = dict(os.environ)
        plain = subprocess.run(["/usr/bin/python3", "-S", "-c", code], env=environ,
                               capture_output=True, text=True, check=False)
        done = subprocess.run(["/usr/bin/python3", "-S", "-c", code], capture_output=True,
                              text=True, check=False, env={**environ, **self.ledger.environ})
        self.assertIn("undefined symbol", plain.stdout)
        self.assertEqual((done.stdout, done.stderr), (plain.stdout, plain.stderr))
        self.assertEqual(self.ledger.read().raw.attached, 0)  # nothing to write

    def test_silent_sampler_costs_once(self):
        self.ledger.add_counters()
        one = self.program("kfd_memory")
        self.assertEqual(one.ask("vram", 4 << 30)[2], "12")
        raw = self.ledger.read().raw
        self.assertEqual((raw.counters_asked, raw.counters_late), (1, 1))
        self.assertGreaterEqual(raw.counters_waited_ns, 50e6)
        self.assertLess(raw.counters_waited_ns, 500e6)
        self.assertEqual(self.ledger.read().refusals[0].counters_ns, 0)
        for times in range(2, 14):
            self.ledger.write(counters_asked_ns=1)  # as if the second had passed
            self.assertEqual(one.ask("vram", 4 << 30)[2], "12")
            again = self.ledger.read().raw
            self.assertEqual((again.counters_asked, again.counters_late), (min(times, 10), 1))
            self.assertEqual(again.counters_waited_ns, raw.counters_waited_ns)

    def test_models(self):
        folder = os.path.join(self.folder, "models")
        os.mkdir(folder)
        for name, size in (("small.gguf", 10), ("list.pth", 10), ("weights.pt", 1 << 20),
                           ("firmware.bin", 1 << 20), ("pytorch_model-1.bin", 1 << 20)):
            with open(os.path.join(folder, name), "wb") as file:
                file.truncate(size)
        code = ("import os, sys\n"
                "os.chdir(sys.argv[1])\n"
                "for name in sorted(os.listdir('.')) * 2: open(name, 'rb').close()\n"
                "try: open('missing.safetensors')\n"
                "except OSError: pass\n")
        done = subprocess.run(["/usr/bin/python3", "-S", "-c", code, folder], check=False,
                              env={**os.environ, **self.ledger.environ})
        self.assertEqual(done.returncode, 0)
        self.assertEqual([(m.path.decode(), m.error) for m in self.ledger.read().models],
                         [(os.path.join(folder, "pytorch_model-1.bin"), 0),
                          (os.path.join(folder, "small.gguf"), 0),
                          (os.path.join(folder, "weights.pt"), 0), ("missing.safetensors", 2)])


class Recorded(support.Case):
    """With rocmcrash around it, on the emulated machine."""

    def setUp(self):
        super().setUp()
        need(emulated.LIBRARY, "libdrm-dev")
        need_preload()
        self.host = emulated.Machine(emulated.machine.make(
            self.path("machine"), ("gfx90a",), vram=1 << 30, base=32 << 20))

    def on_machine(self, *argv, ours=False, options=(), **kwargs):
        command = self.command(*argv, options=options) if ours else list(argv)
        return [emulated.KEEPER, self.host.root, *command]

    def ledger_in_run_dir(self):
        """None until the first copy of it is written."""
        found = glob.glob(self.path("state", "runs", "*", "ledger"))
        try:
            return found[0] if found and ledger_file.read(found[0]) else None
        except (ValueError, AssertionError):
            return None

    def test_tools_print_the_same(self):
        for tool, *options in (("rocminfo",), ("rocm-smi",), ("rocm-smi", "--showmeminfo", "vram"),
                               ("rocm-smi", "--showpids"), ("rocm-smi", "-a")):
            if shutil.which(tool) is None:
                self.skipTest(f"{tool} is not installed here")
            runs = [subprocess.run(self.on_machine(tool, *options, ours=ours), env=self.environ,
                                   capture_output=True, timeout=60, check=False)
                    for ours in (False, True)]
            plain, ours = runs
            with self.subTest(tool=tool, options=options):
                self.assertEqual(plain.returncode, ours.returncode)
                self.assertEqual(plain.stdout.decode(), ours.stdout.decode())
                self.assertEqual(plain.stderr.decode(), ours.stderr.decode())

    def silent(self, status, *lines):
        """A program that prints nothing and ends with that status."""
        code = "printf '%s\\n' \"$@\" | " + emulated.program("kfd_memory") + f" >/dev/null; exit {status}"
        done = subprocess.run(self.on_machine("/bin/sh", "-c", code, "sh", *lines, ours=True),
                              env=self.environ, capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return self.bundles()

    def test_refusal_that_nobody_printed(self):
        bundles = self.silent(5, "vram 838860800", "vram 419430400")
        self.assertEqual(len(bundles), 1)
        self.assertEqual(bundles[0].verdict["class"], "capacity", bundles[0].verdict["sentence"])
        self.assertIn("400", bundles[0].verdict["sentence"])

    def test_no_bundle_without_a_refusal_that_lasted(self):
        self.assertEqual(self.silent(5, "vram 838860800"), [])
        self.assertEqual(self.silent(5, "vram 838860800", "vram 419430400", "free 0",
                                     "vram 419430400"), [])
        self.assertEqual(self.silent(0, "vram 838860800", "vram 419430400"), [])

    def test_no_figures_without_a_gpu(self):
        """No figures are known of a process that only opened a model (llama.cpp with another vendor's GPU)."""
        model = self.path("model.gguf")
        with open(model, "wb") as file:
            file.truncate(1 << 20)
        code = f"import os; open({model!r}, 'rb').close(); os.abort()"
        bundle = self.only_bundle(self.run_it("/usr/bin/python3", "-S", "-c", code))
        self.assertIn("ledger.attached_count", bundle.facts)  # the ledger was there
        self.assertNotIn("ledger.gtt.live_bytes", bundle.facts)
        self.assertIsNone(bundle.value("ledger.vram.live_bytes"))
        self.assertNotIn("by the ledger", bundle.text("SUMMARY.md"))

    def test_copy_survives_everybody(self):
        """The sampler answers at the refusal. The copy on disk has the answer after all processes are killed."""
        process = subprocess.Popen(
            self.on_machine(emulated.program("kfd_memory"), ours=True), env=self.environ, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        self.addCleanup(process.communicate)
        for line in ("vram 104857600\n", "gtt 8192\n", "vram 3221225472\n"):
            process.stdin.write(line)
        process.stdin.flush()
        answers = [process.stdout.readline().split() for _ in range(4)]
        self.assertEqual(answers[3], ["vram", "2", "12"])
        path = support.wait_for(self.ledger_in_run_dir, "the copy of the ledger")
        support.wait_for(lambda: len(ledger_file.read(path).refusals) == 1, "the refusal in it")
        supervisor = support.children(process.pid)[0]
        target = self.target_pid(supervisor)
        ours = [supervisor, target] + [self.helper(supervisor, name) for name in support.HELPERS]
        for pid in ours:
            with contextlib.suppress(ProcessLookupError):  # killing one may end others
                os.kill(pid, 9)
        support.wait_for(lambda: not any(map(support.is_running, ours)), "their ends")
        ledger = ledger_file.read(path)
        refusal = ledger.refusals[0]
        self.assertEqual((refusal.size, refusal.error, refusal.live), (3 << 30, 12, 100 << 20))
        self.assertGreater(refusal.counters_ns, refusal.time_ns)
        self.assertEqual(ledger.raw.counters_late, 0)
        self.assertEqual({(ledger_file.KINDS[e.kind], e.size) for e in ledger.live},
                         {("vram", 100 << 20), ("gtt", 8192)})
        self.assertEqual(list(ledger.processes.values())[0].pid, target)

    def start_silent(self, *options):
        """A program that ends with status 5 at the end of its input."""
        process = subprocess.Popen(
            self.on_machine("/bin/sh", "-c", emulated.program("kfd_memory") + "; exit 5", ours=True,
                            options=options),
            env=self.environ, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)
        self.addCleanup(process.communicate)
        return process, support.wait_for(lambda: support.children(process.pid), "rocmcrash")[0]

    def answers(self, process, *lines):
        for line in lines:
            process.stdin.write(line + "\n")
        process.stdin.flush()
        return [process.stdout.readline() for _ in lines]

    def test_no_recorder_at_the_end(self):
        """The supervisor gives the finisher what the recorder did not write to disk."""
        process, supervisor = self.start_silent()
        process.stdout.readline()
        last = 0
        for _ in range(9):  # it is replaced eight times
            last = support.wait_for(
                lambda: next((pid for pid in support.children(supervisor) if pid != last and
                              support.comm(pid) == support.HELPERS["recorder"]), 0), "a recorder")
            os.kill(last, 9)
        support.wait_for(lambda: not support.is_running(last), "its end")
        self.answers(process, "vram 838860800", "vram 419430400")
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 5)
        bundles = self.bundles()
        self.assertEqual(len(bundles), 1)
        self.assertEqual(bundles[0].verdict["class"], "capacity", bundles[0].verdict["sentence"])

    def test_what_changed_before_the_supervisor_was_killed(self):
        """Without a failure a copy is made every half minute; the last copy is made at the end."""
        process, supervisor = self.start_silent("--trace=none")
        process.stdout.readline()
        self.answers(process, "vram 3221225472")
        path = support.wait_for(self.ledger_in_run_dir, "the copy of the ledger")
        support.wait_for(lambda: ledger_file.read(path).refusals, "the refusal in it")
        self.answers(process, "vram 10485760")
        kept = ledger_file.read(path).accounts
        os.kill(supervisor, 9)
        bundle = support.wait_for(self.bundles_that_are_whole, "the bundle")[0]
        self.assertEqual([a.live for a in kept if a.live], [])  # otherwise the test proves nothing
        self.assertEqual(bundle.value("run.supervisor_killed"), True)
        self.assertIn(10485760, [fact["value"] for facts in bundle.facts.values() for fact in facts
                                 if fact["name"].startswith("ledger.") and "value" in fact])

    def bundles_that_are_whole(self):
        try:
            return self.bundles()
        except (OSError, KeyError, EOFError):
            return []

    def test_end_of_a_process_is_noticed(self):
        """The memory of a killed child stays in the child's account and is no longer in the GPU's sum."""
        code = ("import os, subprocess, sys\n"
                "def run(*lines):\n"
                "  p = subprocess.Popen([sys.argv[1]], stdin=-1, stdout=-1, text=True)\n"
                "  for line in lines: print(line, file=p.stdin, flush=True)\n"
                "  for _ in range(len(lines) + 1): p.stdout.readline()\n"
                "  return p\n"
                "p = run('vram 10485760'); p.kill(); p.wait()\n"
                "p = run('vram 4096', 'vram 3221225472')\n"
                "print('ready', flush=True)\n"
                "sys.stdin.read()\n")
        process = subprocess.Popen(
            self.on_machine("/usr/bin/python3", "-S", "-c", code, emulated.program("kfd_memory"),
                            ours=True), env=self.environ, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.assertEqual(process.stdout.readline(), "ready\n")
        path = support.wait_for(self.ledger_in_run_dir, "the copy of the ledger")
        support.wait_for(lambda: ledger_file.read(path).refusals, "the refusal in it")
        ledger = ledger_file.read(path)
        lives = [ledger_file.LIVES[p.life] for _, p in sorted(ledger.processes.items())]
        self.assertEqual(lives, ["ended", "alive"])
        self.assertEqual(sorted(a.live for a in ledger.accounts), [4096, 10485760])
        self.assertEqual(ledger.gpus[0].live[0], 4096)


if __name__ == "__main__":
    support.main()
