# SPDX-License-Identifier: Apache-2.0
"""Ten questions that the forms of trackers ask (ROCm, PyTorch, vLLM, llama.cpp), asked of the summaries of many kinds
of failures on a recorded machine. Each summary answers them before the reasons, or says that the answer is not
known."""

import os
import re

import support
from support import PYTHON, SOURCE
from test_engines import MESSAGES

MACHINE = os.path.join(SOURCE, "samples", "machine", "rx7900xtx")
SAYS = "import os, sys; sys.stderr.write(open(sys.argv[1]).read()); sys.stderr.flush(); os._exit(1)\n"
TORCH = """
class OutOfMemoryError(RuntimeError):
    pass
OutOfMemoryError.__module__ = "torch"
def step(batch):
    raise OutOfMemoryError("HIP out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 23.98 GiB of "
                           "which 4.00 MiB is free. Of the allocated memory 23.20 GiB is allocated by PyTorch, and "
                           "100.00 MiB is reserved by PyTorch but unallocated.")
step(64)
"""
OPENS = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
def load():
    files = [open("/dev/null") for _ in range(100)]
load()
"""
ABORTS = "import os, sys; sys.stderr.write({!r}); sys.stderr.flush(); os.abort()\n"
# The program's name and text; the summary's heading; the program's message.
KINDS = [
    ("torch_oom.py", TORCH, r"GPU out of memory: 20.00 GiB wanted, 4.0 MiB free of 23.98 GiB \(capacity, ",
     "Tried to allocate 20.00 GiB."),
    ("many_files.py", OPENS, r"Out of file descriptors: (\d+ open of|this process may open) 64 \(resource-limit, ", "Too many open files"),
    ("segv.py", "import ctypes; ctypes.string_at(8)\n", r"The program died of SIGSEGV at address 0x8, near a null pointer, in .*\(app-bug, ", None),
    ("fault.py", ABORTS.format("Memory access fault by GPU node-1 (Agent handle: 0x55) on address 0x7f0011220000. Reason: "
                               "Page not present or supervisor privilege.\n"),
     r"GPU memory access fault at 0x7f0011220000 \(page-fault, ", "Memory access fault by GPU node-1"),
    ("hang.py", ABORTS.format("HW Exception by GPU node-1 (Agent handle: 0x55d0c0) reason :GPU Hang\n"),
     r"The GPU stopped answering \(gpu-hang, ", "reason :GPU Hang"),
    ("no_gpu.py", "raise RuntimeError('No HIP GPUs are available')\n", r"No usable GPU \(no-device, ",
     "No HIP GPUs are available"),
    ("no_code.py", "raise RuntimeError('HIP error: no kernel image is available for execution on the device')\n",
     r"The program has no code for this GPU, gfx1100 \(arch-mismatch, ", "no kernel image is available"),
    ("vllm.py", "m_vllm_estimate.txt", r"\((capacity|resource-limit), ", "ERROR"),
    ("llama.py", "m_llama_kv.txt", r"\(capacity, ", "failed"),
    ("numba.py", "import sys\nsys.stderr.write('Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY\\n')\nsys.exit(1)\n",
     r"GPU out of memory", "CUDA_ERROR_OUT_OF_MEMORY"),
]


class Questions(support.Case):
    def bundle_of(self, name, code):
        self.environ.update(ROCMCRASH_SYSROOT=MACHINE, HIP_VISIBLE_DEVICES="0", PYTORCH_HIP_ALLOC_CONF="max_split_size_mb:512",
                            GPU_MAX_ALLOC_PERCENT="90")
        arguments = []
        if code.endswith(".txt"):
            code, arguments = SAYS, [os.path.join(MESSAGES, code)]
        for earlier in self.bundles():
            os.unlink(earlier.path)
        script = self.write(name, "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n" + code)
        return self.only_bundle(self.run_it(PYTHON, script, *arguments))

    def test_each_is_answered(self):
        kinds = set()
        for name, code, heading, said in KINDS:
            with self.subTest(name=name):
                bundle = self.bundle_of(name, code)
                summary = bundle.text("SUMMARY.md")
                lines = summary.splitlines()
                kinds.add(bundle.verdict["class"])
                first = summary[:summary.index("## Why this verdict")]
                machine = next(line for line in lines if line.startswith("- **Machine:**"))
                run = next(line for line in lines if line.startswith("- **Run:**"))
                settings = next(line for line in lines if line.startswith("- **Settings:**"))
                answers = {
                    "what failed": re.search("^# .*" + heading, lines[0]),
                    "the error message as it was": said is None or said in first,
                    "where": re.search(r'File ".*' + re.escape(name) + '"|Where it crashed|```text', first),
                    "the command": re.search(r"\*\*Command:\*\* `.*" + re.escape(name), first),
                    "which GPU, with how much memory": "gfx1100" in machine and "GiB" in machine,
                    "the system and its versions": "Linux" in machine and "Python" in machine,
                    "how it ended, when, after how long": re.search(
                        r"ended (with exit status 1|by SIG\w+), after .*, began \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", run),
                    "what was set": "HIP_VISIBLE_DEVICES=0" in settings and "max_split_size_mb:512" in settings,
                    "who held the memory": re.search(r"\| GPU 0 .*GiB", first),
                    "what to try, or what to add": re.search(
                        r"\*\*(Try first:\*\* \S.*\n(.*\n)*\*\*To check:\*\* \S|The kernel log is missing)", first),
                    "how sure, and why": ("confidence" in lines[0] or "unknown" in lines[0]) and
                                         "**What decides it**\n\n- " in summary,
                    "whether it is a known one": re.search(r"signature `rc-[0-9a-z-]+`", lines[-1]),
                }
                self.assertEqual([question for question, answer in answers.items() if not answer], [], "\n" + first)
                self.assertLess(len(first.splitlines()), 90)
                odd = [line for line in lines if line.startswith("- **Odd setting:** ")]
                self.assertEqual([re.search(r"GPU\\?_MAX\\?_ALLOC\\?_PERCENT=90 has no effect", line) is not None for line in odd], [True], odd)
                self.assertIn(f"-{bundle.verdict['signature']['id']}.tar.gz", os.path.basename(bundle.path))
        self.assertGreaterEqual(len(kinds), 5)


if __name__ == "__main__":
    support.main()
