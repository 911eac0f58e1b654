#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""llama.cpp with its HIP backend on an emulated GPU under rocmcrash: refused weights and a refused KV cache
give bundles that name which of the two it was, the model's hash and quantisation, and what would have
fitted; and what they say would fit does. Run by rocm_sid."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "samples"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))
import gguf_model  # noqa: E402
import on_emulator  # noqa: E402
import support  # noqa: E402

BUILD = os.environ.get("ROCMCRASH_BUILD", "")
KEEPER = os.path.join(BUILD, "tests", "emulator", "emulator-keeper")
ROCMCRASH = os.path.join(BUILD, "bin", "rocmcrash")
PROGRAM = "llama-completion"
MIB = 1 << 20
LAYERS = 8


class Llama(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if shutil.which(PROGRAM) is None:
            raise unittest.SkipTest("needs the packages llama.cpp and libggml0-backend-hip")
        cls.folder = tempfile.TemporaryDirectory(prefix="rc-llama-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.model = os.path.join(cls.folder.name, "nothing-f16.gguf")
        cls.tensor_bytes = gguf_model.write(cls.model, layers=LAYERS)
        digest = hashlib.sha256()
        with open(cls.model, "rb") as file:
            while block := file.read(MIB):
                digest.update(block)
        cls.sha256 = digest.hexdigest()

    def run_llama(self, name, vram, context, layers=99):
        """Its result, its bundle (None without a failure), and the machine."""
        root = os.path.join(self.folder.name, name)
        on_emulator.machine.make(root, [on_emulator.DEFAULT_MODEL], vram=vram)
        out = os.path.join(root, "bundles")
        os.makedirs(out)
        command = [PROGRAM, "-m", self.model, "-ngl", str(layers), "-fit", "off", "-c", str(context),
                   "-n", "2", "-p", "a", "-no-cnv"]
        command = [ROCMCRASH, "--output-dir", out, "--", *command]
        environ = dict(os.environ, ROCMCRASH_STATE_DIR=os.path.join(root, "state"))
        done = subprocess.run([KEEPER, root, *command], env=environ, capture_output=True, text=True,
                              errors="replace", timeout=300, stdin=subprocess.DEVNULL, check=False)
        bundle = None
        if done.returncode != 0:
            path = support.wait_for(lambda: [os.path.join(out, n) for n in os.listdir(out)
                                             if n.endswith(".tar.gz")], "the bundle", 90)[0]
            bundle = support.Bundle(path)
        return done, bundle, root

    def check_model(self, bundle):
        self.assertEqual(bundle.value("models.0.sha256"), self.sha256)
        self.assertEqual(bundle.value("models.0.quantisation"), "F16")
        self.assertEqual(bundle.value("models.0.tensor_bytes"), self.tensor_bytes)
        self.assertIn(self.sha256, bundle.text("SUMMARY.md"))

    def test_enough_memory_is_no_failure(self):
        done, bundle, _ = self.run_llama("enough", 4096 * MIB, 512)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        self.assertIsNone(bundle)

    def test_refused_weights(self):
        done, bundle, _ = self.run_llama("weights", 700 * MIB, 512)
        self.assertIn("unable to allocate ROCm0 buffer", done.stderr)
        verdict = bundle.verdict
        self.assertEqual((verdict["class"], verdict["subclass"], verdict["confidence"]),
                         ("capacity", "model weights", "high"), verdict["sentence"])
        self.check_model(bundle)
        layers = bundle.value("f.fits_layers_count")
        self.assertTrue(0 < layers < LAYERS, layers)
        fitted, _, _ = self.run_llama("fewer layers", 700 * MIB, 512, layers=layers)
        self.assertEqual(fitted.returncode, 0, fitted.stderr[-2000:])

    def test_refused_kv_cache(self):
        done, bundle, root = self.run_llama("kv", 1536 * MIB, 16384)
        self.assertIn("failed to allocate buffer for kv cache", done.stderr)
        verdict = bundle.verdict
        self.assertEqual((verdict["class"], verdict["subclass"], verdict["confidence"]),
                         ("capacity", "KV cache", "high"), verdict["sentence"])
        self.check_model(bundle)
        self.assertEqual(bundle.value("f.asked_context_count"), 16384)
        refused = [r for r in on_emulator.journal(root) if r["event"] == "alloc" and r["result"] < 0]
        self.assertEqual(bundle.value("ledger.refused.size_bytes"), refused[-1]["size"])
        self.assertEqual(bundle.value("ledger.refused.live_bytes"), refused[-1]["kfd_vram"])
        context = bundle.value("f.fits_context_count")
        self.assertTrue(0 < context < 16384, context)
        fitted, _, _ = self.run_llama("less context", 1536 * MIB, context)
        self.assertEqual(fitted.returncode, 0, fitted.stderr[-2000:])


if __name__ == "__main__":
    print("llama.cpp:", json.dumps(shutil.which(PROGRAM)))
    support.main()
