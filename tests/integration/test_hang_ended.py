# SPDX-License-Identifier: Apache-2.0
"""A signal that ends a program while it stands still leaves a bundle of what it did; not where it only waited for somebody
who had to speak first."""

import glob
import os
import signal
import subprocess

import support
from hangs import IN_LOCK, STUCK, HangCase
from support import PATIENCE_S, PYTHON, wait_for

HANDLES = """
import os, signal, sys, threading
taken = []
def handler(signo, frame):
    taken.append(signo)
    print('took', len(taken), file=sys.stderr, flush=True)
    if len(taken) == LAST:
        os._exit(STATUS)
signal.signal(signal.SIGINT, handler)
print('begins', file=sys.stderr, flush=True)
def stuck():
    while True:
        signal.pause()
stuck()
"""
LISTENS = """
import select, socket, sys
s = socket.create_server(('127.0.0.1', 0))
print('begins', file=sys.stderr, flush=True)
WAIT
"""
PROMPT = "import sys\nprint('begins', file=sys.stderr, flush=True)\nsys.stdin.readline()\n"
# Its end takes a while, and in that time it waits for nobody.
PROMPT_OF_A_SLOW_END = """
import os, signal, time
def handler(*_):
    time.sleep(3)
    os._exit(3)
signal.signal(signal.SIGINT, handler)
""" + PROMPT


PAUSE = "34"  # __NR_pause


class Ended(HangCase):
    """The snapshot of --hang-after says that the program stands still by now."""

    def begin(self, code, **kwargs):
        process = self.start(PYTHON, "-c", code, options=("--hang-after=1s",), stderr=subprocess.PIPE, bufsize=0,
                             start_new_session=True, **kwargs)
        line = process.stderr.readline()
        while line != b"begins\n":
            self.assertNotEqual(line, b"", "it ended at once")
            line = process.stderr.readline()
        return process

    def rest(self, process):
        _, err = process.communicate(timeout=PATIENCE_S)
        self.done = self.finished(process, b"", err)
        return self.others()

    def end(self, code, signo, **kwargs):
        process = self.begin(code, **kwargs)
        self.is_seen_to_stand_still(process.pid)
        os.killpg(process.pid, signo)  # as a terminal and a scheduler do
        return self.rest(process)

    def terminal(self):
        master, slave = os.openpty()
        self.addCleanup(os.close, master)
        self.addCleanup(os.close, slave)
        return slave


class LeavesABundle(Ended):
    def test_ctrl_c_leaves_what_it_did(self):
        bundle, = self.end(STUCK, signal.SIGINT)
        self.assertEqual(self.done.status, -signal.SIGINT)
        self.assertEqual(bundle.wrong_facts(), [])
        self.assertEqual(bundle.value("run.still_signal"), "SIGINT")
        self.assertGreaterEqual(bundle.value("run.still_ms"), 1000)
        self.assertEqual(bundle.verdict["path"][-1]["node"], "alive-self-wait", bundle.verdict["sentence"])
        self.assertIn("in stuck", bundle.value("snap.python_stack"))
        self.assertRegex(bundle.value("snap.native_stack"), IN_LOCK)
        self.assertIn("alive: a snapshot", bundle.text("impact/0/impact.txt"))
        self.assertNotIn("missing:", self.done.stderr)

    def test_its_tree_is_in_it(self):
        code = f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {STUCK!r}]).wait()"
        bundle, = self.end(code, signal.SIGTERM)
        self.assertEqual(bundle.value("snap.processes_count"), 2)
        self.assertIn("in stuck", "".join(bundle.text(f"waits/python.{i}.txt") for i in range(2)))

    def test_its_own_handler_decides(self):
        bundle, = self.end(HANDLES.replace("LAST", "1").replace("STATUS", "3"), signal.SIGINT)
        self.assertEqual(self.done.status, 3)
        self.assertIn("took 1", self.done.stderr)
        self.assertIn("in stuck", bundle.value("snap.python_stack"))

    def test_a_message_of_failure_comes_first(self):
        bundle, = self.end(f"import sys\nsys.stderr.write({support.HIP_OOM!r})\n" + STUCK, signal.SIGINT)
        self.assertEqual(bundle.verdict["class"], "capacity")
        self.assertEqual(bundle.value("run.still_signal"), "SIGINT")

    def test_a_client_that_waits_for_an_answer(self):
        """It waits for somebody, too: but not to be called."""
        self.assertEqual(len(self.end(LISTENS.replace("WAIT", "a, b = socket.socketpair(); a.recv(1)"), signal.SIGTERM)), 1)

    def test_of_an_ordinary_user(self):
        """As an ordinary user, whom Yama lets trace his children only."""
        support.need_ordinary_user(self)
        os.chmod(self.folder, 0o777)
        os.chmod(self.outdir, 0o777)
        process = self.begin(STUCK, user=support.NOBODY, group=support.NOBODY, extra_groups=[])
        bundle = wait_for(self.snapshots, "the snapshot")[0]
        self.assertIn("in stuck", bundle.value("snap.python_stack"))
        self.assertRegex(bundle.value("snap.native_stack"), IN_LOCK)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)


class LeavesNone(Ended):
    def test_one_that_takes_it_and_ends_well(self):
        self.assertEqual(self.end(HANDLES.replace("LAST", "1").replace("STATUS", "0"), signal.SIGINT), [])
        self.assertEqual(self.done.status, 0)

    def test_a_second_signal_comes_through(self):
        process = self.begin(HANDLES.replace("LAST", "2").replace("STATUS", "3"))
        wait_for(self.snapshots, "the snapshot")
        os.kill(process.pid, signal.SIGINT)
        self.assertEqual(process.stderr.readline(), b"took 1\n")
        # A signal that comes just before pause() is not taken: Python runs the handler only when pause() returns.
        target = self.target_pid(process.pid)
        wait_for(lambda: support.read(f"/proc/{target}/syscall").split(" ")[0] == PAUSE, "pause()")
        os.kill(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
        self.assertIn(b"took 2", err)
        self.assertEqual(process.returncode, 3)

    def server(self, wait):
        self.assertEqual(self.end(LISTENS.replace("WAIT", wait), signal.SIGTERM), [])
        self.assertEqual(self.done.status, -signal.SIGTERM)

    def test_a_server_in_accept(self):
        self.server("s.accept()")

    def test_a_server_in_epoll(self):
        self.server("e = select.epoll(); e.register(s, select.EPOLLIN); e.poll()")

    def test_a_server_in_poll(self):
        self.server("p = select.poll(); p.register(s, select.POLLIN); p.poll()")

    def test_a_server_in_select(self):
        self.server("select.select([s], [], [])")

    def test_a_prompt(self):
        found = self.end(PROMPT, signal.SIGINT, stdin=self.terminal())
        self.assertEqual([bundle.verdict["sentence"] for bundle in found], [])
        self.assertEqual(self.done.status, -signal.SIGINT)

    def test_a_prompt_that_ends_before_the_second_look(self):
        """The first look is there; the second comes 0.9 s later, when the program does something else."""
        process = self.begin(PROMPT_OF_A_SLOW_END, stdin=self.terminal())
        events = os.path.join(self.environ["ROCMCRASH_STATE_DIR"], "runs", "*", "events")
        wait_for(lambda: any("snapshot: " in support.read(path) for path in glob.glob(events)), "the standstill")
        os.killpg(process.pid, signal.SIGINT)
        found = self.rest(process)
        self.assertEqual([bundle.verdict["sentence"] for bundle in found], [])
        self.assertEqual(self.done.status, 3)

    def test_one_that_works(self):
        process = self.begin("import sys, time\nprint('begins', file=sys.stderr, flush=True)\nwhile True: pass")
        os.kill(process.pid, signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
        self.assertEqual(self.bundles(), [])


if __name__ == "__main__":
    support.main(side_by_side=6)
