# SPDX-License-Identifier: Apache-2.0
"""Limits and closed streams of the caller: they are the target's, and neither fail us nor change."""

import os
import resource
import signal
import subprocess

import support
from support import PYTHON, ROCMCRASH


class Limits(support.Case):
    """The caller's limits are the target's: they must not make us fail it, nor change."""

    # Whoever adopts orphans (prctl 37) is no more than it was.
    CODE = ("import ctypes, resource as r;n = ctypes.c_int(-1);"
            "ctypes.CDLL(None).prctl(37, ctypes.byref(n), 0, 0, 0);print(n.value, [r.getrlimit(i) for i in (r.RLIMIT_FSIZE,r.RLIMIT_AS,"
            "r.RLIMIT_NOFILE,r.RLIMIT_NPROC,r.RLIMIT_CORE,r.RLIMIT_DATA)])")

    def compare(self, limits, user=None):
        def prepare():
            for which, value in limits:
                resource.setrlimit(which, (value, value))
            if user is not None:
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
        plain = subprocess.run([PYTHON, "-c", self.CODE], preexec_fn=prepare, capture_output=True,
                               check=True)
        done = subprocess.run([ROCMCRASH, "--output-dir", "/", "--", PYTHON, "-c", self.CODE],
                              preexec_fn=prepare, capture_output=True, check=False, timeout=60,
                              env=self.environ)
        self.assertEqual((done.returncode, done.stdout), (0, plain.stdout), done.stderr)
        return done.stderr

    def test_limits_that_hold_for_root(self):
        for limits in ([(resource.RLIMIT_FSIZE, 4096)], [(resource.RLIMIT_NOFILE, 12)],
                       [(resource.RLIMIT_NOFILE, 64)], [(resource.RLIMIT_AS, 40 << 20)],
                       [(resource.RLIMIT_DATA, 30 << 20)]):
            with self.subTest(limits=limits):
                if limits[0][0] in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
                    self.skip_if_sanitized("which needs terabytes of address space")
                self.compare(limits)

    def test_limits_of_an_ordinary_user(self):
        support.need_ordinary_user(self)
        user = 60123  # nobody else's, so that RLIMIT_NPROC counts us alone
        for limits in ([(resource.RLIMIT_FSIZE, 4096)], [(resource.RLIMIT_NPROC, 1)],
                       [(resource.RLIMIT_NPROC, 2)], [(resource.RLIMIT_NPROC, 3)],
                       [(resource.RLIMIT_NPROC, 4)], [(resource.RLIMIT_NPROC, 5)]):
            with self.subTest(limits=limits):
                self.compare(limits, user)

    def test_relay_that_cannot_be_forked_is_none(self):
        """Then stderr goes straight through, whatever is written."""
        support.need_ordinary_user(self)

        def prepare():
            resource.setrlimit(resource.RLIMIT_NPROC, (2, 2))
            os.setgroups([])
            os.setgid(60124)
            os.setuid(60124)
        done = subprocess.run([ROCMCRASH, "--", PYTHON, "-c",
                               "import sys; sys.stderr.write('x'*300000)"], preexec_fn=prepare,
                              capture_output=True, check=False, timeout=60, env=self.environ)
        self.assertEqual(done.returncode, 0, done.stderr[:200])
        self.assertEqual(done.stderr.count(b"x"), 300000)

    def test_bundle_under_a_small_file_size_limit(self):
        def prepare():
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        done = self.run_it("/bin/sh", "-c", "ulimit -c 0; kill -SEGV $$", preexec_fn=prepare)
        self.assertEqual(done.status, -signal.SIGSEGV)
        self.only_bundle(done)

    def test_bundle_with_closed_streams(self):
        done = subprocess.run(["/bin/sh", "-c", '"$@" <&- >&- 2>&-', "sh",
                               *self.command("/bin/sh", "-c", "ulimit -c 0; kill -SEGV $$")],
                              env=self.environ, check=False, timeout=30)
        self.assertEqual(done.returncode, 128 + signal.SIGSEGV)
        self.assertEqual(len(self.bundles()), 1)


if __name__ == "__main__":
    support.main()
