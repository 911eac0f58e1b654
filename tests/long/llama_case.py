# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of llama.cpp (llama_hip.py on an emulated GPU, llama_cuda.py on a real one): a model that
knows nothing, a run of llama-completion under rocmcrash, and its bundle."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "integration"))
import gguf_model  # noqa: E402
import support  # noqa: E402

PROGRAM = os.environ.get("LLAMA") or "llama-completion"
MIB = 1 << 20
GIB = 1 << 30
LAYERS = 8
FULL_HASH_MAX = 2 * GIB  # larger files rocmcrash hashes in part


class Model:
    def __init__(self, path, layers=LAYERS, width=2048):
        self.path, self.layers = path, layers
        self.tensor_bytes = gguf_model.write(path, layers, width)

    def sha256(self):
        digest = hashlib.sha256()
        with open(self.path, "rb") as file:
            while block := file.read(MIB):
                digest.update(block)
        return digest.hexdigest()


class LlamaCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if shutil.which(PROGRAM) is None:
            raise unittest.SkipTest(f"there is no program {PROGRAM} here")
        folder = tempfile.TemporaryDirectory(prefix="rc-llama-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.model = Model(os.path.join(cls.folder, "nothing-f16.gguf"))
        cls.sha256 = cls.model.sha256()

    def run_program(self, rocmcrash, root, options, model=None, before=(), **environ):
        """Its result and its bundle (None without a failure); `root` is a folder for what is written."""
        out = os.path.join(root, "bundles")
        os.makedirs(out)
        command = [PROGRAM, "-m", (model or self.model).path, "-fit", "off", "-n", "2", "-p", "a", "-no-cnv", *options]
        environ = dict(os.environ, ROCMCRASH_STATE_DIR=os.path.join(root, "state"), **environ)
        done = subprocess.run([*before, rocmcrash, "--output-dir", out, "--", *command], env=environ,
                              capture_output=True, text=True, errors="replace", timeout=300, stdin=subprocess.DEVNULL,
                              check=False)
        bundle = None
        if done.returncode != 0:
            path = support.wait_for(lambda: [os.path.join(out, n) for n in os.listdir(out)
                                             if n.endswith(".tar.gz")], "the bundle", 90)[0]
            bundle = support.Bundle(path)
        return done, bundle

    def check_model(self, bundle, model=None):
        model = model or self.model
        self.assertEqual(bundle.value("models.0.quantisation"), "F16")
        self.assertEqual(bundle.value("models.0.tensor_bytes"), model.tensor_bytes)
        if model.tensor_bytes < FULL_HASH_MAX:
            self.assertEqual(bundle.value("models.0.sha256"), self.sha256)
            self.assertIn(self.sha256, bundle.text("SUMMARY.md"))
