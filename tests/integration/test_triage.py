#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`rocmcrash triage`: --explain, several bundles, the collection as its README feeds it, and the speed."""
import io
import json
import os
import shutil
import statistics
import subprocess
import sys
import tarfile
import time

import support

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "corpus"))
import collection  # noqa: E402

OOM = ("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 6.64 GiB. GPU 0 has a total capacity of 19.92 GiB "
       "of which 6.22 GiB is free. Of the allocated memory 5.34 GiB is allocated by PyTorch, and 7.10 GiB is reserved "
       "by PyTorch but unallocated.\n")
SHARED = os.path.join(os.environ.get("ROCMCRASH_SOURCE", os.path.join(HERE, "..", "..")), "..", "shared")
# by how much a loaded machine may exceed 20 ms for a bundle and 2 s for the collection; a sanitized build is not timed
with open(support.ROCMCRASH, "rb") as program:
    SLACK = float("inf") if b"__asan_report_" in program.read() else 10


class Explain(support.Case):
    def test_why_not(self):
        done = self.verb("triage", "--explain", "capacity", "-", input=OOM)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("fragmentation, medium", done.stdout)
        self.assertIn("Why not capacity?", done.stdout)
        self.assertRegex(done.stdout, r"larger-than-gpu: .* no\n +fails +requested > GPU total \[requested 6.64 GiB, GPU total 19.92")

    def test_why(self):
        done = self.verb("triage", "--explain=fragmentation", "-", input=OOM)
        self.assertIn("Why fragmentation?", done.stdout)
        self.assertRegex(done.stdout, r"Why fragmentation\?\n  idle-by-message: .* yes\n +holds ")  # it decided, so it comes first

    def test_json(self):
        done = self.verb("triage", "--json", "--explain", "leak", "-", input=OOM)
        nodes = {n["node"]: n for n in json.loads(done.stdout)["explain"]}
        self.assertEqual(nodes["leak-while-running"]["answer"], "no")
        self.assertTrue(any("missing: samples" in text for text in nodes["leak-while-running"]["unknown"]))

    def test_no_such_class(self):
        done = self.verb("triage", "--explain", "bogus", "-", input=OOM)
        self.assertEqual((done.returncode, done.stdout), (125, ""))
        self.assertIn("no class 'bogus'", done.stderr)
        self.assertIn("page-fault", done.stderr)


class Nothing(support.Case):
    """A text without a failure is not called one; a text with one is."""

    def judged(self, text):
        done = self.verb("triage", self.write("pasted.txt", text))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_a_text_without_a_failure(self):
        for text in ("hello world\n", "step 1\nstep 2\nloss 0.3\n"):
            self.assertEqual(self.judged(text), "rocmcrash: the text tells of no failure that rocmcrash knows\n")

    def test_a_text_with_one(self):
        for text in ("Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nValueError: x\n",
                     "Memory access fault by GPU node-1 (Agent handle: 0x1) on address 0x2. Reason: Unknown.\n"):
            self.assertNotIn("tells of no failure", self.judged(text))


class Strangers(support.Case):
    """Texts of programs and versions that are in no collection, and once got a wrong answer."""

    def class_of(self, text):
        done = self.verb("triage", "--json", "-", input=text)
        verdict = json.loads(done.stdout)
        return verdict["class"], verdict["confidence"]

    def test_a_warning_before_the_failure(self):
        warning = 'rocblaslt error: Could not load "TensileLibrary_lazy_gfx1999.dat"\n'
        refused = ("ggml_backend_cuda_buffer_type_alloc_buffer: allocating 14100.00 MiB on device 0: "
                   "cudaMalloc failed: out of memory\nunable to allocate ROCm0 buffer\n")
        self.assertEqual(self.class_of(warning + refused)[0], "capacity")
        self.assertEqual(self.class_of(warning), ("arch-mismatch", "medium"))
        self.assertEqual(self.class_of(warning.replace("rocblaslt", "rocBLAS") + refused)[0],
                         "arch-mismatch")

    def test_warnings_of_a_healthy_start(self):
        """Real programs print these warnings and then work for days. They must not outweigh the real cause."""
        warnings = (
            "libibverbs: Warning: couldn't load driver 'libx.so': libx.so: cannot open shared object file: No such file",
            "UserWarning: Failed to load image Python extension: '/opt/image.so: undefined symbol: _ZN3c10'",
            "UserWarning: Attempting to use hipBLASLt on an unsupported architecture! Overriding blas backend to hipblas",
            "WARNING: Could not find the bitsandbytes ROCm binary at PosixPath(/opt/libbitsandbytes_rocm64.so)",
            "A module that was compiled using NumPy 1.x cannot be run in",
            'time=10:00 level=WARN msg="amdgpu is not supported (supported types:[gfx1030])" gpu_type=gfx1036',
            "INFO:jax._src.xla_bridge:925: Unable to initialize backend 'tpu': INTERNAL: libtpu.so: cannot open shared "
            "object file: No such file or directory",
            "ggml_vulkan: No devices found.",
            "GPU 0: uncorrectable ECC errors: 0, correctable: 2",
            "Found device 0: AMD Instinct MI210 with compute capability 9.0",
            "WARNING: size mismatch for head.weight: copying a param with shape [10], skipped",
            "autotuning BLOCK_M: 128 failed: out of resource: shared memory, Required: 98304. Skipping.")
        ends = (("Traceback (most recent call last):\n  File \"t.py\", line 8, in <module>\nKeyError: 'mask'\n", "app-bug"),
                ("Watchdog caught collective operation timeout: WorkNCCL(SeqNum=411, OpType=ALLREDUCE) ran for 600004 ms\n",
                 "collective"),
                ("ggml_backend_cuda_buffer_type_alloc_buffer: allocating 14100.00 MiB on device 0: cudaMalloc failed: "
                 "out of memory\nunable to allocate ROCm0 buffer\n", "capacity"))
        for warning in warnings:
            for end, wanted in ends:
                self.assertEqual(self.class_of(warning + "\n" + end)[0], wanted, warning + "\n" + end)
            self.assertNotEqual(self.class_of(warning + "\n")[1], "high", warning)
        warned = f"echo '{warnings[1].replace(chr(39), '')}' >&2; ulimit -c 0; kill -SEGV $$"
        bundle = self.only_bundle(self.run_it("/bin/sh", "-c", warned, options=["--quiet"]))
        self.assertEqual(bundle.verdict["class"], "app-bug")

    def test_a_tool_that_could_not_be_loaded(self):
        missed = "amd-smi: error while loading shared libraries: libdrm_amdgpu.so.1: cannot open shared object file: No such"
        raised = "Traceback (most recent call last):\n  File \"t.py\", line 8, in <module>\n%s\n"
        self.assertEqual(self.class_of(missed + "\n"), ("version-mismatch", "high"))
        self.assertEqual(self.class_of(missed + "\n" + raised % "KeyError: 'x'")[0], "app-bug")
        self.assertEqual(self.class_of(missed + "\n" + raised % "subprocess.CalledProcessError: Command failed"),
                         ("version-mismatch", "high"))
        self.assertEqual(self.class_of(raised % ("ImportError: " + missed))[0], "version-mismatch")
        for end, wanted in (("exit 127", "version-mismatch"), ("ulimit -c 0; kill -SEGV $$", "app-bug")):
            shutil.rmtree(self.outdir)
            os.mkdir(self.outdir)
            done = self.run_it("/bin/sh", "-c", f"echo '{missed}' >&2; {end}", options=["--quiet"])
            self.assertEqual(self.only_bundle(done).verdict["class"], wanted, end)

    def test_an_exception_beside_a_hang_of_the_desktop(self):
        log = self.write("dmesg", "[ 1234.001000] amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=11, "
                         "emitted seq=13\n[ 1234.001010] amdgpu 0000:03:00.0: amdgpu:  Process Xorg pid 1500 thread "
                         "Xorg:cs0 pid 1510\n[ 1234.001020] amdgpu 0000:03:00.0: amdgpu: GPU reset begin!\n")
        for text, wanted in (("Traceback (most recent call last):\n  File \"t.py\", line 8, in <module>\nKeyError: 'x'\n",
                              "medium"),
                             ("Traceback (most recent call last):\n  File \"t.py\", line 8, in <module>\n"
                              "RuntimeError: HIP error: unspecified launch failure\n", "high")):
            done = self.verb("triage", "--json", f"--kernel-log={log}", "-", input=text)
            verdict = json.loads(done.stdout)
            self.assertEqual((verdict["class"], verdict["confidence"]), ("gpu-hang", wanted), text)

    def test_a_watchdog_that_passes_on(self):
        text = ("Process group watchdog thread terminated with exception: %s: %s\n"
                "terminate called after throwing an instance of 'c10::DistBackendError'\n")
        self.assertNotEqual(self.class_of(text % ("HIP error", "operation not permitted"))[0], "collective")
        self.assertEqual(self.class_of(text % ("NCCL error", "aborted"))[0], "collective")

    def test_words_of_other_programs(self):
        for text, wanted in (
                ("ERROR: LoadError: Out of GPU memory trying to allocate 8.000 GiB", "capacity"),
                ("amrex::Abort::0::Out of gpu memory. Free: 20971520 Asked: 536870912 !!!", "capacity"),
                ("DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 joined.", "collective"),
                ("torch.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of memory)\n"
                 "Currently allocated     : 14.80 GiB\nRequested               : 512.00 MiB\n"
                 "Device limit            : 15.98 GiB\nFree (according to CUDA): 18.00 MiB", "capacity"),
                ("torch.OutOfMemoryError: Allocation on device", "capacity")):
            self.assertEqual(self.class_of("Traceback (most recent call last):\n" + text + "\n")[0], wanted, text)

    def test_noticed_without_a_traceback(self):
        """Programs that print one line and end with a plain exit status: that line causes the bundle."""
        for line, wanted in (("ggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory", "capacity"),
                             ('Error: DriverError(CUDA_ERROR_OUT_OF_MEMORY, "out of memory")', "capacity"),
                             ("slurmstepd: error: Detected 1 oom_kill event in StepId=9.0.", "host-oom")):
            shutil.rmtree(self.outdir)
            os.mkdir(self.outdir)
            done = self.run_it("/bin/sh", "-c", 'echo "$1" >&2; exit 1', "sh", line, options=["--quiet"])
            self.assertEqual(self.only_bundle(done).verdict["class"], wanted, line)


class Quoted(support.Case):
    """A program that shows or survives somebody's message, and ends by a mistake of its own."""
    MESSAGES = (
        "Memory access fault by GPU node-1 (Agent handle: 0x55d0c8a0) on address 0x7f0000000000. Reason: Page not present or "
        "supervisor privilege.",
        "RuntimeError: No HIP GPUs are available",
        "HIP error: invalid device function",
        "ImportError: libamdhip64.so.6: cannot open shared object file: No such file or directory")
    MISTAKE = 'Traceback (most recent call last):\n  File "train.py", line 7, in <module>\n    load(cfg)\nValueError: bad config\n'

    def judged(self, text):
        return json.loads(self.verb("triage", "--json", "-", input=text).stdout)

    def test_a_quoted_message_is_not_sure(self):
        for message in self.MESSAGES:
            for frame in ('grep: pattern "%s" not found', "WARNING: caught: %s -- continuing on the CPU", "Assistant: %s means a driver problem."):
                verdict = self.judged("loading\n" + frame % message + "\n" + self.MISTAKE)
                self.assertNotEqual(verdict["confidence"], "high", frame % message)

    def test_the_same_message_as_the_last_word(self):
        for message in self.MESSAGES:
            self.assertEqual(self.judged("loading\n" + message + "\n")["confidence"], "high", message)

    def test_a_message_in_a_sentence_is_not_sure(self):
        for message in self.MESSAGES:
            self.assertNotEqual(self.judged('the manual says that "%s" means a driver problem\n' % message)["confidence"], "high", message)
            self.assertEqual(self.judged('error: "%s"\n' % message)["confidence"], "high", message)

    def test_a_rank_that_failed_by_itself_leaves_others_waiting(self):
        waits = ("[rank3]:[E ProcessGroupNCCL.cpp:690] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=77, "
                 "OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600042 milliseconds before timing out.\n")
        first = "[rank1]: FileNotFoundError: [Errno 2] No such file or directory: 'shard-07.bin'\n"
        self.assertEqual(self.judged("step 12\n" + waits)["confidence"], "high")
        self.assertNotEqual(self.judged("step 12\n" + first + waits)["confidence"], "high")

    def test_a_failure_that_the_program_fell_back_from(self):
        """One line that says so is enough, whatever ended the program later. No program falls back from a fault, which aborts it."""
        for message in (m for m in self.MESSAGES if not m.startswith("Memory access fault")):
            for error in ("OSError: [Errno 28] No space left on device", "BrokenPipeError: [Errno 32] Broken pipe", "KeyboardInterrupt", "TimeoutError"):
                verdict = self.judged(message + "\nfalling back to CPU\n" + self.MISTAKE.replace("ValueError: bad config", error))
                self.assertNotEqual(verdict["confidence"], "high", (message, error))

    def test_steps_after_a_watchdog(self):
        """A rank that goes on may not have waited for the one that the watchdog tells of."""
        watchdog = "[rank1]: [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=42, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.\n"
        for count, end, sure in ((0, "", True), (2, "", False), (40, "", False), (40, "KeyboardInterrupt\n", False)):
            text = watchdog + "".join("step %d/500 loss 0.%d\n" % (i, i) for i in range(count)) + end
            self.assertEqual(self.judged(text)["confidence"] == "high", sure, (count, end))

    FAILURES = MESSAGES + (
        "HW Exception by GPU node-1 (Agent handle: 0x55d0) reason :GPU Hang",
        "Unable to allocate 298. GiB for an array with shape (200000, 200000) and data type float64",
        "ValueError: To serve at least one request with the models's max seq len (32768), (4.00 GiB KV cache is needed, which is larger than the "
        "available KV cache memory (1.10 GiB).",
        "amdgpu 0000:43:00.0: amdgpu: Uncorrectable hardware errors(1 in UMC block) detected",
        "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600011 milliseconds "
        "before timing out.",
        "OSError: [Errno 24] Too many open files",
        "HIP out of memory. Tried to allocate 18014398509.00 GiB. GPU 0 has a total capacity of 23.98 GiB of which 22.10 GiB is free.")
    SURVIVED = ("%s\nstep 1 loss 2.0\nstep 2 loss 1.9\n", 'the archive has "%s" as an example\n')

    def test_another_error_ended_the_program(self):
        """No message is the cause that stands in quotation marks, or after which two steps were made."""
        for message in self.FAILURES:
            for frame in self.SURVIVED:
                for error in ("RuntimeError: the validation set is empty", "AssertionError: wrong shape", "KeyError: 'loss'"):
                    verdict = self.judged("loading\n" + frame % message + self.MISTAKE.replace("ValueError: bad config", error))
                    self.assertEqual((verdict["class"], verdict["confidence"]), ("app-bug", "medium"), (frame % message, error))

    def test_an_error_of_the_program_after_it_is_a_doubt(self):
        """Nothing shows that the program went on: the message may be the cause, but that is not sure."""
        for message in self.FAILURES:
            for error in ("RuntimeError: the validation set is empty", "AssertionError: wrong shape", "KeyError: 'loss'"):
                verdict = self.judged("loading\n" + message + "\n" + self.MISTAKE.replace("ValueError: bad config", error))
                self.assertNotEqual(verdict["confidence"], "high", (message, error))

    HANDLED = (
        "[W] flash-attn not used: RuntimeError: HIP error: invalid device function",
        "WARNING: xformers disabled: hipErrorNoBinaryForGpu",
        "hipErrorIllegalAddress caught in autotune config 7, config skipped",
        "DataLoader worker (pid 33) is killed by signal: Killed. restarted",
        "WARNING: could not pin memory: mlock: Cannot allocate memory",
        "WARNING: CUDA driver version is insufficient for CUDA runtime version (nvml probe)",
        "/dev/kfd: permission denied in a helper, retried as video",
        "this machine was OOM-killed yesterday")

    def test_a_handled_failure_is_not_the_cause_of_a_refused_request(self):
        """The line says itself that the failure was handled; no step or epoch shows it."""
        llama = ("ggml_backend_cuda_buffer_type_alloc_buffer: allocating 23000.00 MiB on device 0: cudaMalloc failed: out of memory\n"
                 "llama_model_load: error loading model: unable to allocate ROCm0 buffer\n")
        full = ("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 15.98 GiB of "
                "which 0.10 GiB is free. Of the allocated memory 15.00 GiB is allocated by PyTorch, and 0.10 GiB is reserved by "
                "PyTorch but unallocated.\n")
        for end in (full, llama):
            alone = self.judged("loading\n" + end)["class"]
            for message in self.HANDLED:
                self.assertEqual(self.judged("loading\n" + message + "\nINFO loading weights took 12.3 seconds\n" + end)["class"],
                                 alone, (message, end))

    def test_a_handled_failure_alone_is_not_sure(self):
        for message in self.HANDLED:
            self.assertNotEqual(self.judged("loading\n" + message + "\n")["confidence"], "high", message)

    def test_a_fault_beside_a_refused_request_is_not_sure(self):
        """One may have followed from the other, and memory may have been short."""
        for end in ("", "[rank1]: "):
            verdict = self.judged(OOM + end + "Memory access fault by GPU node-2 (Agent handle: 0x55) on address 0x7f0000000000. "
                                  "Reason: Unknown.\n")
            self.assertEqual((verdict["class"], verdict["confidence"]), ("page-fault", "medium"))
            self.assertNotIn("memory was", verdict["sentence"])

    def test_nothing_is_said_of_memory_that_nobody_measured(self):
        verdict = self.judged("Memory access fault by GPU node-1 (Agent handle: 0x55) on address 0x7f0000000000. "
                              "Reason: Page not present or supervisor privilege.\n")
        self.assertEqual(verdict["class"], "page-fault")
        self.assertNotIn("memory was", verdict["sentence"])

    def test_a_consequence_is_not_another_error(self):
        """The error names another process, or the GPU: the message before it stays the cause."""
        for message in self.FAILURES:
            alone = self.judged("loading\n" + message + "\n")
            for error in ("RuntimeError: worker 1 exited with code -6", "EngineDeadError: EngineCore encountered an issue."):
                verdict = self.judged("loading\n" + self.SURVIVED[0] % message + self.MISTAKE.replace("ValueError: bad config", error))
                self.assertEqual(verdict["class"], alone["class"], (message, error))

    def confidence_of_fault(self, end):
        bundle = self.only_bundle(self.run_it("sh", "-c", f"echo '{self.MESSAGES[0]}' >&2; {end}", options=("--always",)))
        self.assertEqual(bundle.verdict["class"], "page-fault")
        return bundle.verdict["confidence"]

    def test_a_fault_with_an_abort_is_sure(self):
        self.assertEqual(self.confidence_of_fault("kill -ABRT $$"), "high")

    def test_a_fault_without_an_abort_is_not_sure(self):
        self.assertEqual(self.confidence_of_fault("exit 1"), "medium")


class Long(support.Case):
    """The failure is at the end of a log, however long the log is."""

    def test_the_end_decides(self):
        log = self.path("long.txt")
        with open(log, "w", encoding="ascii") as file:
            file.write("epoch 3, step 12: loss 2.31, 14.2 samples/s\n" * 250000)
            file.write(OOM)
        self.assertGreater(os.path.getsize(log), 10 << 20)
        by_name = self.verb("triage", "--json", log)
        with open(log, encoding="ascii") as file:
            by_stdin = self.verb("triage", "--json", "-", input=file.read())
        for done in (by_name, by_stdin):
            verdict = json.loads(done.stdout)
            self.assertEqual(verdict["class"], "fragmentation", done.stderr)
            self.assertIn("line 250001", " ".join(verdict["why"]))


class Bundles(support.Case):
    def without_facts_of(self, path, source):
        """The bundle as rules would make it that find nothing in that text."""
        poor = self.path("poor.tar.gz")
        with tarfile.open(path) as old, tarfile.open(poor, "w:gz") as new:
            for member in filter(tarfile.TarInfo.isfile, old):
                data = old.extractfile(member).read()
                if member.name.endswith("/facts.json"):
                    document = json.loads(data)
                    document["facts"] = [f for f in document["facts"] if not f.get("source", "").startswith(source)
                                         and not f["name"].startswith(("f.", "evidence."))]
                    data = json.dumps(document).encode()
                member.size = len(data)
                new.addfile(member, io.BytesIO(data))
        return poor

    def test_the_texts_of_a_bundle_are_read_again(self):
        """The finisher, the bundle and the same text pasted give the same."""
        text = "fatal: could not allocate 3.0 GiB on device 0 (free 1.0 GiB, total 16.0 GiB)"
        bundle = self.only_bundle(self.run_it("/bin/sh", "-c", f"echo '{text}' >&2; ulimit -c 0; kill -ABRT $$",
                                              options=["--quiet"]))
        self.assertEqual(bundle.value("oom.requested_bytes"), 3 << 30)
        self.assertEqual(bundle.fact("oom.requested_bytes")["source"], "stderr line 1")
        poor = self.without_facts_of(bundle.path, "stderr")
        verdicts = [json.loads(self.verb("triage", "--json", path).stdout) for path in (bundle.path, poor)]
        for verdict in verdicts:
            self.assertEqual((verdict["class"], verdict["confidence"]),
                             (bundle.verdict["class"], bundle.verdict["confidence"]))
            self.assertEqual(verdict["class"], "capacity")

    def two(self):
        for _ in range(2):
            self.run_it("/bin/sh", "-c", "kill -SEGV $$", options=["--quiet"])
        return [bundle.path for bundle in self.bundles()]

    def test_several_bundles(self):
        paths = self.two()
        done = self.verb("triage", *paths)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual([line for line in done.stdout.splitlines() if line in paths], paths)
        done = self.verb("triage", paths[0], self.path("none.tar.gz"), paths[1])
        self.assertEqual(done.returncode, 2)
        self.assertIn("none.tar.gz", done.stderr)
        self.assertEqual(done.stdout.count("app-bug, "), 2)

    def test_a_folder_as_json(self):
        names = [os.path.basename(path) for path in self.two()]
        done = self.verb("triage", "--json", self.outdir)
        decoder, text, found = json.JSONDecoder(), done.stdout.lstrip(), []
        while text:
            document, end = decoder.raw_decode(text)
            found.append(document["file"])
            text = text[end:].lstrip()
        self.assertEqual(found, names)

    def test_a_log_of_later_completes_a_bundle(self):
        paths = self.two()
        now = time.monotonic()  # lines outside of the run's time are left out
        fault = (f"[{now:12.6f}] amdgpu 0000:03:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:8 pasid:32769)\n"
                 f"[{now:12.6f}] amdgpu 0000:03:00.0: amdgpu:   in page starting at address 0x00007f0000000000 from client 10\n")
        log = self.path("dmesg")
        with open(log, "w", encoding="ascii") as file:
            file.write(fault)
        done = self.verb("triage", "--json", f"--kernel-log={log}", paths[0])
        if "it has its kernel log already" in done.stderr:  # root, on a machine that lets it read its log
            self.assertEqual(done.returncode, 2)
        else:
            self.assertEqual(json.loads(done.stdout)["class"], "page-fault", done.stderr)
        for files in (paths, [self.outdir]):  # for which bundle would the log be?
            done = self.verb("triage", f"--kernel-log={log}", *files)
            self.assertEqual((done.returncode, done.stdout), (125, ""))
            self.assertIn("of one run", done.stderr)
        facts, output = self.path("facts.json"), self.path("stderr")
        with open(facts, "w", encoding="ascii") as file:  # from a machine whose log was read, without its lines
            json.dump({"format": 1, "facts": [{"name": "kmsg.readable", "value": True, "when": "static",
                                               "source": "/dev/kmsg"}]}, file)
        with open(output, "w", encoding="ascii") as file:
            file.write("Aborted\n")
        done = self.verb("triage", "--json", f"--kernel-log={log}", f"--facts={facts}", output)
        self.assertEqual(json.loads(done.stdout)["class"], "page-fault", done.stderr)
        done = self.verb("triage", log, paths[0])
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("is a bundle", done.stderr)

    def test_speed(self):
        path = self.two()[0]
        taken = []
        for _ in range(15):
            began = time.monotonic()
            self.verb("triage", "--json", path)
            taken.append(time.monotonic() - began)
        print(f"one bundle: {1000 * statistics.median(taken):.1f} ms (median of {len(taken)}, with the start of the program)")
        self.assertLess(statistics.median(taken), 0.020 * SLACK)


class WholeInput(support.Case):
    """Nothing is cut without a note."""

    def log(self, name, lines, message=""):
        path = self.path(name)
        with open(path, "w", encoding="ascii") as file:
            for half in range(2):
                file.writelines(f"step {i} ran, loss 0.5, gpu memory in use 12.3 GiB of 15.9\n" for i in range(lines // 2))
                file.write(message if half == 0 else "")
        return path

    def test_a_message_in_the_middle_of_a_long_log(self):
        done = self.verb("triage", "--json", self.log("log", 400000, OOM))
        self.assertEqual(json.loads(done.stdout)["class"], "fragmentation")
        self.assertEqual(done.stderr, "")

    def test_too_many_messages_are_told_of(self):
        done = self.verb("triage", "--json", self.log("log", 150000, "RuntimeError: HIP error\n" * 300000))
        self.assertIn("lines with words of failure", done.stderr)

    def test_a_message_followed_by_much_output(self):
        program = ("import sys\nw = sys.stderr.write\nw('begin of the run\\n' * 9000)\nw(sys.argv[1])\n"
                   "for i in range(20000): w(f'step {i} of a long way to the end of this program\\n')\nsys.exit(1)\n")
        bundle = self.only_bundle(self.run_it(sys.executable, "-c", program, OOM, options=["--quiet"]))
        self.assertEqual(bundle.verdict["class"], "fragmentation")

    PRINTS = ("import os, sys\ntotal, at, words = int(sys.argv[1]) << 20, float(sys.argv[2]), sys.argv[3].encode()\n"
              "def put(data):\n    while data: data = data[os.write(2, data):]\n"
              "block, done = b'step 123 ran, loss 0.5, 14.2 samples/s\\n' * 1600, 0\nput(b'the first line\\n')\n"
              "while done < total * at: put(block); done += len(block)\n"
              "for i in range(0, len(words), 7): put(words[i:i + 7])\n"
              "while done < total: put(block); done += len(block)\nput(b'the last line\\n')\nsys.exit(1)\n")

    def printed(self, mebibytes, at, words, stderr):
        shutil.rmtree(self.outdir)
        os.mkdir(self.outdir)
        process = self.start(sys.executable, "-c", self.PRINTS, str(mebibytes), str(at), words, options=["--quiet"], stderr=stderr)
        if process.stderr is not None:
            with process.stderr:
                while process.stderr.read(1 << 20):
                    pass
        process.wait(timeout=60)
        bundle = self.only_bundle(self.finished(process))
        text = bundle.text("output/stderr.txt")
        self.assertTrue(text.startswith("the first line\n"), text[:200])
        self.assertTrue(text.endswith("the last line\n"), text[-200:])
        return bundle

    def test_much_output_with_the_message_anywhere(self):
        """The program writes to a file faster than it is read, and the message in pieces of seven bytes."""
        for at in (0.01, 0.5, 0.99):
            with open(self.path("stderr"), "wb") as file:
                bundle = self.printed(24, at, OOM, file)
            self.assertEqual(bundle.verdict["class"], "fragmentation", at)

    def test_more_output_than_can_be_looked_at(self):
        """A pipe's writer must not wait for us: a line says how much was not searched, and the failure leaves a
        bundle."""
        text = self.printed(200, 0.5, "no word of failure\n", subprocess.PIPE).text("output/stderr.txt")
        self.assertIn("[rocmcrash: ", text)

    def test_kinds_of_files(self):
        path = self.path("utf16")
        with open(path, "wb") as file:
            file.write(OOM.encode("utf-16"))
        done = self.verb("triage", "--json", path)
        self.assertEqual((json.loads(done.stdout)["class"], done.stderr), ("fragmentation", ""))
        with open(path, "wb") as file:
            file.write(bytes(range(32)) * 8)
        done = self.verb("triage", "--json", path)
        self.assertEqual((json.loads(done.stdout)["class"], done.returncode), ("unknown", 0))
        self.assertIn("is not text", done.stderr)
        done = self.verb("triage", "/dev/null")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (2, "", "rocmcrash: '/dev/null' is empty: there is nothing to judge\n"))

    def test_speed(self):
        for lines, limit in ((120000, 0.4), (1500000, 3.0)):
            path = self.log("long", lines)
            began = time.monotonic()
            self.verb("triage", "--json", path)
            seconds = time.monotonic() - began
            print(f"{os.path.getsize(path) >> 20} MiB of log: {seconds:.2f} s")
            self.assertLess(seconds, limit * SLACK)


class Collection(support.Case):
    def test_every_case_as_the_readme_feeds_it(self):
        if not os.path.exists(os.path.join(SHARED, "corpus", "cases.jsonl")):
            self.skipTest("no collection here")
        cases = [c for c in collection.load(SHARED) if (c.get("context") or {}).get("log_text")]
        lines = []
        for i, case in enumerate(cases):
            shown, argv = collection.fields(case), ["triage", "--json"]
            for name, option in (("dmesg", "--kernel-log"), ("env", "--env")):
                if shown[name]:
                    argv += [option, self.write(f"{i}-{name}", shown[name])]
            facts = {f"report.{k}": shown[k] for k in ("gpu", "rocm", "framework") if shown[k]}
            argv += ["--facts", self.write(f"{i}-facts", json.dumps(facts))]
            argv += [self.write(f"{i}-{name}", shown[name]) for name in ("stderr", "smi") if shown[name]]
            lines.append(argv)
        began = time.monotonic()
        verdicts = [json.loads(self.verb(*argv).stdout) for argv in lines]
        seconds = time.monotonic() - began
        grades = [collection.grade(case, v["class"]) for case, v in zip(cases, verdicts)]
        print(f"{len(cases)} cases, a process each: {seconds:.2f} s; " +
              ", ".join(f"{g} {grades.count(g)}" for g in ("strict", "lenient", "unknown", "wrong")))
        self.assertLess(seconds, 2 * SLACK)
        for case, verdict, grade in zip(cases, verdicts, grades):
            self.assertFalse(grade == "wrong" and verdict["confidence"] == "high", case["id"])
        self.assertGreater(grades.count("strict") + grades.count("lenient"), 0.9 * len(cases))


if __name__ == "__main__":
    support.main()
