# SPDX-License-Identifier: Apache-2.0
"""`watch PID`: a process that somebody else started is watched and not disturbed. `snap --watch`: a bundle when a
condition becomes true."""

import json
import os
import signal
import subprocess

import support
from support import PATIENCE_S, PYTHON, ROCMCRASH, Case, is_running, read, state, wait_for

DIES = """
import os, sys, threading, time
for _ in range(20):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
print('ready', flush=True)
os.read(0, 1)
"""
SEGFAULT = DIES + "import ctypes\ndef here():\n    ctypes.string_at(0)\nhere()\n"
ENDS = DIES + "os._exit(int(sys.argv[1]))\n"
OOM = DIES + f"print({support.HIP_OOM!r}, flush=True)\nos._exit(1)\n"


class WatchCase(Case):
    def live(self, code, *argv, stdout=subprocess.PIPE, **kwargs):
        """A process that is ready; a byte on its stdin lets it go on."""
        process = subprocess.Popen([PYTHON, "-c", code, *argv], stdin=subprocess.PIPE, stdout=stdout, env=self.environ,
                                   **kwargs)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        if stdout == subprocess.PIPE:
            self.addCleanup(process.stdout.close)
            self.assertEqual(process.stdout.readline(), b"ready\n")
        return process

    def watch(self, pid, *options, **kwargs):
        """Starts `watch` and returns when it says that it watches."""
        watcher = subprocess.Popen([ROCMCRASH, "watch", "--output-dir", self.outdir, *options, str(pid)],
                                   env=self.environ, stderr=subprocess.PIPE, bufsize=0, **kwargs)
        self.addCleanup(watcher.stderr.close)
        self.addCleanup(watcher.wait)
        self.addCleanup(watcher.kill)
        self.said = watcher.stderr.readline().decode()
        return watcher

    def let_go_on(self, process):
        process.stdin.write(b"x")
        process.stdin.flush()
        process.wait()

    def end(self, watcher):
        self.said += watcher.communicate(timeout=PATIENCE_S)[1].decode()
        return watcher.returncode, self.bundles()


class Watch(WatchCase):
    def crash(self):
        process = self.live(SEGFAULT)
        watcher = self.watch(process.pid, "--json", stdout=subprocess.PIPE)
        self.addCleanup(watcher.stdout.close)
        self.let_go_on(process)
        out, err = watcher.communicate(timeout=PATIENCE_S)
        (bundle,) = self.bundles()
        self.assertEqual((watcher.returncode, process.returncode), (1, -signal.SIGSEGV), err)
        told = json.loads(out)
        self.assertEqual((told["verb"], told["status"], told["class"]), ("watch", 0, bundle.verdict["class"]))
        self.assertEqual(os.path.realpath(told["bundle"]), os.path.realpath(bundle.path))
        os.unlink(bundle.path)
        self.assertIn(b"rocmcrash: ", err)  # text for readers
        self.assertEqual(bundle.value("target.failed_pid"), process.pid)
        return bundle

    def test_a_crash(self):
        # On a busy machine a thread may get no CPU within 20 ms. Then it does not stop in time and is left out.
        for _ in range(8):
            bundle = self.crash()
            if "21 of 21 threads copied" in bundle.text("impact/0/impact.txt"):
                break
        self.assertEqual(bundle.wrong_facts(), [])
        self.assertEqual(bundle.value("target.signal_name"), "SEGV")
        self.assertGreaterEqual(bundle.value("run.attached_after_ms"), 0)
        self.assertIn("21 of 21 threads copied", bundle.text("impact/0/impact.txt"))
        self.assertIn("telemetry/telemetry.csv", bundle.files)
        self.assertNotIn('"baseline"', bundle.text("facts.json"))  # the memory in use before the watching is not known

    def test_exit_codes(self):
        for code in (0, 3):
            with self.subTest(code=code):
                self.setUp()
                process = self.live(ENDS, str(code))
                watcher = self.watch(process.pid)
                self.let_go_on(process)
                status, bundles = self.end(watcher)
                self.assertEqual((status, len(bundles), process.returncode), (code != 0, code != 0, code))
                self.assertIn(f"ended with exit code {code}", self.said)

    def test_its_messages_in_a_file(self):
        with open(self.path("log"), "ab") as log:
            log.write(support.HIP_OOM.replace("HIP", "an older HIP").encode())
            log.flush()
            process = self.live(OOM, stdout=log)
        wait_for(lambda: read(self.path("log")).endswith("ready\n"), "its start")
        watcher = self.watch(process.pid)
        self.let_go_on(process)
        _, (bundle,) = self.end(watcher)
        self.assertEqual(bundle.verdict["class"], "capacity")
        self.assertNotIn("an older HIP", "".join(bundle.text(name) for name in bundle.files if name.startswith("stdout/")))

    def test_asked_to_end_it_leaves_none(self):
        process = self.live(DIES)
        watcher = self.watch(process.pid)
        process.terminate()
        process.wait()
        self.assertEqual(self.end(watcher), (1, []))
        self.assertIn("ended by signal 15", self.said)

    def test_ctrl_c_ends_the_watching_only(self):
        process = self.live(DIES)
        watcher = self.watch(process.pid)
        wait_for(lambda: "TracerPid:\t0\n" not in read(f"/proc/{process.pid}/status"), "the tracer")
        watcher.send_signal(signal.SIGINT)
        self.assertEqual(self.end(watcher), (0, []))
        self.assertIn("it goes on", self.said)
        self.is_unharmed(process)

    def is_unharmed(self, process):
        wait_for(lambda: "TracerPid:\t0\n" in read(f"/proc/{process.pid}/status"), "its release")
        wait_for(lambda: state(process.pid) == "S", "its sleep")
        self.let_go_on(process)
        self.assertEqual(process.returncode, 0)

    def test_our_death_does_not_harm_it(self):
        for name in ("tracer", "sampler", "recorder", None):
            with self.subTest(killed=name or "watch itself"):
                process = self.live(DIES)
                watcher = self.watch(process.pid)
                victim = self.helper(watcher.pid, name) if name else watcher.pid
                os.kill(victim, signal.SIGKILL)
                wait_for(lambda: not is_running(victim) or state(victim) == "Z", "its death")
                if name in ("tracer", None):
                    wait_for(lambda: "TracerPid:\t0\n" in read(f"/proc/{process.pid}/status") or name is None, "its release")
                self.let_go_on(process)
                self.assertEqual(process.returncode, 0)
                if name:
                    self.assertEqual(watcher.wait(timeout=PATIENCE_S), 0)

    def test_options(self):
        """Options, with a process that somebody else started and that stands still."""
        self.write("machine/dev/kmsg", "")
        process = self.live(DIES)
        watcher = self.watch(process.pid, "--hang-after=1s", "--color=never", "--keep=users", "--sysroot=" + self.path("machine"))
        bundle = wait_for(self.bundles, "its snapshot")[0]
        self.assertIn("no output, CPU time or I/O for", bundle.value("run.snapshot_why"))
        self.let_go_on(process)
        self.assertEqual(self.end(watcher)[0], 0)
        self.assertIn("stood still", self.said)
        process = self.live(ENDS, "3")
        watcher = subprocess.Popen([ROCMCRASH, "watch", "--quiet", "--output-dir", self.outdir, str(process.pid)],
                                   env=self.environ, stderr=subprocess.PIPE)
        wait_for(lambda: "TracerPid:\t0\n" not in read(f"/proc/{process.pid}/status"), "the tracer")
        self.let_go_on(process)
        self.assertEqual(watcher.communicate(timeout=PATIENCE_S)[1], b"")
        self.assertEqual(len([bundle for bundle in self.bundles() if "-snapshot" not in bundle.name]), 1)

    def test_one_that_may_not_be_traced(self):
        run = self.start(PYTHON, "-c", ENDS, "3", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(run.stdout.close)
        self.assertEqual(run.stdout.readline(), b"ready\n")
        target = self.target_pid(run.pid)
        wait_for(lambda: "TracerPid:\t0\n" not in read(f"/proc/{target}/status"), "the other tracer")
        watcher = self.watch(target)
        run.communicate(b"x", timeout=PATIENCE_S)
        self.end(watcher)
        self.assertIn("another program traces it", self.said)
        self.assertIn(f"process {target} ", self.said)
        known = "ended with exit code 3" in self.said
        self.assertTrue(known or "how is not known" in self.said, self.said)  # depending on the kernel
        self.assertEqual(watcher.returncode, 1)

    def test_another_users_process(self):
        support.need_visible_processes(self)
        process = self.live(DIES)
        os.chmod(self.folder, 0o777)
        os.chmod(self.outdir, 0o777)
        watcher = self.watch(process.pid, user=support.NOBODY, group=support.NOBODY, extra_groups=[])
        self.let_go_on(process)
        self.end(watcher)
        self.assertIn("cannot be traced (Operation not permitted)", self.said)
        self.assertRegex(self.said, "ended with exit code 0|has ended; how is not known")

    def test_wrong_words(self):
        gone = subprocess.Popen(["true"])
        gone.wait()
        done = self.verb("watch", str(gone.pid))
        self.assertEqual(done.returncode, 2)
        self.assertIn("no process", done.stderr)
        for words in ((), ("",), ("0",), ("-1",), ("x",), ("99999999999",), ("1", "2"), ("--bundle-at=vram", "1"),
                      ("--hang-after=soon", "1")):
            self.assertEqual(self.verb("watch", *words).returncode, 125, words)


class SnapWatch(WatchCase):
    GROWS = ("import os, time\nprint('ready', flush=True)\nos.read(0, 1)\nheld = bytearray(b'x' * (200 << 20))\n"
             "os.read(0, 1)\n")

    def test_a_bundle_when_it_comes_to_hold(self):
        process = self.live(self.GROWS)
        snap = subprocess.Popen([ROCMCRASH, "snap", "-q", "--output-dir", self.outdir, "--watch=rss>150MiB", str(process.pid)],
                                env=self.environ)
        process.stdin.write(b"x")
        process.stdin.flush()
        self.assertEqual(snap.wait(timeout=PATIENCE_S), 0)
        bundle, = self.bundles()
        self.assertIn("rss>150MiB (it is ", bundle.value("run.snapshot_why"))
        self.assertTrue(is_running(process.pid))

    def test_the_process_ends_first(self):
        process = self.live(ENDS, "0")
        snap = subprocess.Popen([ROCMCRASH, "snap", "--output-dir", self.outdir, "--watch=rss>900GiB", str(process.pid)],
                                env=self.environ, stderr=subprocess.PIPE, text=True)
        wait_for(lambda: "/memfd:" in read(f"/proc/{snap.pid}/maps"), "its place for counters")  # it has found the process
        self.let_go_on(process)
        _, err = snap.communicate(timeout=PATIENCE_S)
        self.assertEqual((snap.returncode, self.bundles()), (2, []))
        self.assertRegex(err, "ended before the condition held|never known")

    def test_what_cannot_be_read_is_said_at_the_start(self):
        process = self.live(self.GROWS)
        os.mkdir(self.path("empty"))
        snap = subprocess.Popen([ROCMCRASH, "snap", "--sysroot", self.path("empty"), "--watch=vram>90%,rss>900GiB", str(process.pid)],
                                env=self.environ, stderr=subprocess.PIPE)
        self.addCleanup(snap.communicate)
        self.addCleanup(snap.kill)
        os.set_blocking(snap.stderr.fileno(), False)
        self.assertEqual(wait_for(snap.stderr.read, "a word"), b"rocmcrash: --watch=vram>90%: that cannot be read here\n")

    def test_wrong_words(self):
        for words in (("--watch=vram", "1"), ("--watch=", "1"), ("--times=2", "1"), ("--times=0", "--watch=rss>1GiB", "1"),
                      ("--times=x", "--watch=rss>1GiB", "1")):
            self.assertEqual(self.verb("snap", *words).returncode, 125, words)


if __name__ == "__main__":
    support.main()
