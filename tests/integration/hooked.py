# SPDX-License-Identifier: Apache-2.0
"""A Python with the hook, without rocmcrash around it: for the tests of the hook."""

import ast
import glob
import json
import os
import re
import subprocess

import support
from support import PYTHON, SOURCE

HOOK = os.path.join(SOURCE, "src", "inject", "python")
STUB = os.path.join(SOURCE, "tests", "fixtures", "hook")
MIB, GIB = 1 << 20, 1 << 30
FRAGMENT = """
import random, sys, torch
rng = random.Random(7)
blocks = [torch.empty(rng.randint(2, 9) << 20) for _ in range(2500)]
rng.shuffle(blocks)
del blocks[:1400]
large = []
"""


def pythons():
    """Every Python 3.8 or newer that is installed here, the system's first."""
    found = {}
    for path in [PYTHON, *sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python"))),
                 *sorted(glob.glob("/usr/bin/python3.[0-9]*"))]:
        run = subprocess.run([path, "-I", "-c", "import sys; print(sys.version_info[:2])"],
                             capture_output=True, text=True, check=False)
        if run.returncode == 0:
            version = ast.literal_eval(run.stdout)
            if version >= (3, 8):
                found.setdefault(version, path)
    return found


class Direct(support.Case):
    """A Python with the hook's variables, without rocmcrash around it."""

    def setUp(self):
        super().setUp()
        self.run_dir = self.path("run")
        self.hook = self.path("run", "hook")
        for name in ("PYTHONPATH", "ROCMCRASH_HOOK"):
            self.environ.pop(name, None)

    def env(self, hooked=True, path=(), words="", **more):
        env = dict(self.environ)
        parts = ([HOOK] if hooked else []) + list(path)
        if parts:
            env["PYTHONPATH"] = ":".join(parts)
        if hooked:
            env["ROCMCRASH_HOOK"] = f"{os.getpid()}:{words}:{self.run_dir}"
        return dict(env, PYTHONDONTWRITEBYTECODE="1", **more)

    def go(self, *argv, hooked=True, python=PYTHON, path=(), words="", more=None, **kwargs):
        return subprocess.run([python, *argv], capture_output=True, text=True, check=False,
                              env=self.env(hooked, path, words, **(more or {})), timeout=120, **kwargs)

    def same(self, *argv, **kwargs):
        """Status, stdout and stderr are those without the hook; returns the run with it."""
        plain, hooked = self.go(*argv, hooked=False, **kwargs), self.go(*argv, **kwargs)
        seen = [re.sub(r"0x[0-9a-f]{6,}|PYI-\d+", "0x", repr((run.returncode, run.stdout, run.stderr)))
                for run in (plain, hooked)]
        self.assertEqual(seen[0], seen[1], argv)
        return hooked

    def events(self, what):
        text = support.read(os.path.join(self.hook, "events"))
        return [e for e in map(json.loads, text.splitlines()) if e["what"] == what]

    def written(self, pattern):
        return sorted(os.path.basename(p) for p in glob.glob(os.path.join(self.hook, pattern)))

    def one_json(self, pattern):
        paths = glob.glob(os.path.join(self.hook, pattern))
        self.assertEqual(len(paths), 1, (pattern, self.written("*")))
        with open(paths[0], encoding="utf-8") as file:
            return json.load(file)

    def lines(self, pattern):
        names = self.written(pattern)
        self.assertEqual(len(names), 1, (pattern, self.written("*")))
        return support.read(os.path.join(self.hook, names[0])).splitlines()
