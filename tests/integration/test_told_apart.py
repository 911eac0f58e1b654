# SPDX-License-Identifier: Apache-2.0
"""`snap` of programs that look alike: a kernel that never ends (on the emulated GPU), a collective, a slow server of files;
each with what is not one. The rest is in test_snap.py (ToldApart)."""

import glob
import os
import signal
import socket
import subprocess
import sys
import tempfile

import support
from support import PYTHON, ROCMCRASH, state, wait_for
from test_snap import SnapCase

sys.path.insert(0, os.path.join(support.SOURCE, "samples"))
import on_emulator  # noqa: E402

BUILD = os.path.dirname(os.path.dirname(os.path.abspath(ROCMCRASH)))
TORCH = os.environ.get("ROCMCRASH_TORCH_PYTHON")
RANK = """
import os, time, torch, torch.distributed as dist
dist.init_process_group('gloo')
dist.all_reduce(torch.ones(1))
def elsewhere():
    time.sleep(600)
print('ready', flush=True)
if dist.get_rank() == 1:
    elsewhere()
dist.all_reduce(torch.ones(1))
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class EmulatedGpu(SnapCase):
    def setUp(self):
        super().setUp()
        if not os.path.exists(os.path.join(BUILD, "samples", "hang")):
            self.skipTest("the samples are not built here: they need the package libamdhip64-dev")

    def sample(self, near_miss):
        """Its watchdog's signal is blocked, so that it waits for as long as the test wants."""
        run = on_emulator.Run("hang", BUILD, tempfile.mkdtemp(dir=self.folder), near_miss=near_miss)
        with open(os.path.join(run.machine, "emulator", "faults"), "w", encoding="ascii") as file:
            file.write("hang on=dispatch nth=%d\n" % (99 if near_miss else 3))  # without reset-ms: for ever
        keeper = subprocess.Popen(run.command(bare=True), env=run.environ(),
                                  preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM]))
        self.addCleanup(keeper.wait)
        pid = wait_for(lambda: next(iter(support.children(keeper.pid)), 0), "the sample")
        self.addCleanup(os.kill, pid, signal.SIGKILL)  # the keeper ends with it
        if not near_miss:
            wait_for(lambda: any(record["event"] == "hang" for record in on_emulator.journal(run.machine)), "the hang")
        return run, pid

    def look(self, run, pid, busy):
        percent, = glob.glob(os.path.join(run.machine, "sys/class/drm/card*/device/gpu_busy_percent"))
        with open(percent, "w", encoding="ascii") as file:
            file.write(f"{busy}\n")
        return self.snap(pid, "--sysroot", run.machine)

    def arrives(self, run, pid, node):
        """It takes a while to get where it will stay."""
        wait_for(lambda: self.look(run, pid, busy=100).verdict["path"][-1]["node"] == node, node, timeout_s=100)

    def test_a_kernel_that_never_ends(self):
        run, pid = self.sample(near_miss=False)
        self.arrives(run, pid, "alive-gpu-busy")
        self.is_told(self.look(run, pid, busy=0), "alive-gpu-wait")

    def test_a_deadlock_beside_a_busy_gpu(self):
        run, pid = self.sample(near_miss=True)
        self.arrives(run, pid, "alive-deadlock")


class Collective(SnapCase):
    WAITS = "import os\ndef all_reduce():\n    os.read(0, 1)\n"

    def test_by_the_frame_of_python(self):
        for name, node in (("distributed_c10d", "alive-collective"), ("my_own_reduce", "alive")):
            self.write(f"{name}.py", self.WAITS)
            process = self.live(PYTHON, "-c", f"import {name}\nprint('ready', flush=True)\n{name}.all_reduce()", cwd=self.folder,
                                stdin=subprocess.PIPE)
            self.addCleanup(process.stdin.close)
            self.settled(process.pid)
            bundle = self.snap(process.pid)
            missing = bundle.fact("snap.python_stack")
            if missing.get("status", "present") != "present":
                self.skipTest(missing["reason"])
            self.is_told(bundle, node)

    def test_two_ranks_of_a_real_pytorch(self):
        """The rank that waits, and the one that is elsewhere."""
        if TORCH is None:
            self.skipTest("ROCMCRASH_TORCH_PYTHON names no Python with PyTorch")
        port = free_port()
        ranks = [subprocess.Popen([TORCH, "-c", RANK], stdout=subprocess.PIPE, text=True,
                                  env=dict(self.environ, RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                                           MASTER_PORT=str(port))) for rank in range(2)]
        for process in ranks:
            self.addCleanup(process.wait)
            self.addCleanup(process.stdout.close)
            self.addCleanup(process.kill)
        for process in ranks:
            self.assertEqual(process.stdout.readline(), "ready\n")
        for process, node in zip(ranks, ("alive-collective", "alive-sleep")):
            wait_for(lambda pid=process.pid: state(pid) == "S", "its wait")
            self.is_told(self.snap(process.pid), node)


class SlowServer(SnapCase):
    def test_a_server_that_answers_late_blocks_nobody(self):
        server, reader = self.reader_of_fuse(
            "import os\nfile = os.open(PATH, os.O_RDONLY)\n"
            "while True:\n    os.pread(file, 4096, 0)\n    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)", read_takes_s=.02)
        wait_for(lambda: server.reads > 9 and state(reader.pid) == "D", "its reads")
        bundle = self.snap(reader.pid)
        self.assertIsNone(bundle.value("snap.blocked"))
        self.assertNotEqual(bundle.verdict["path"][-1]["node"], "alive-blocked")


if __name__ == "__main__":
    support.main()
