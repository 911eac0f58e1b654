# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of the ledger's library: its path, and the check that it can be preloaded."""

import os
import shutil
import subprocess
import sys
import unittest

import ledger_file
import support

BUILD = os.path.dirname(os.path.dirname(support.ROCMCRASH))
LIBRARY = os.path.join(BUILD, "bin", "librocmcrash-ledger.so")
CC = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
os.environ["EMULATOR_BUILD"] = os.path.join(BUILD, "tests", "emulator")
sys.path.insert(0, os.path.join(support.SOURCE, "tests", "emulator"))
import emulated  # noqa: E402


def need(path, package):
    if not os.path.exists(path):
        raise unittest.SkipTest(f"{os.path.basename(path)} is not built here: it needs {package}")
    return path


def need_preload():
    """Skips the test if rocmcrash carries a sanitizer: then nothing can be preloaded into it."""
    done = subprocess.run([support.ROCMCRASH, "--version"], capture_output=True, text=True,
                          check=False, env={**os.environ, "LD_PRELOAD": LIBRARY})
    if done.returncode != 0:
        raise unittest.SkipTest("this rocmcrash cannot be preloaded: " + done.stderr[:80])


class Alone(emulated.Case):
    """Runs the program with the library, but without rocmcrash."""

    def setUp(self):
        super().setUp()
        need(emulated.LIBRARY, "libdrm-dev")
        self.ledger = ledger_file.Fresh(LIBRARY)
        self.addCleanup(self.ledger.close)
