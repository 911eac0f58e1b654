#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""llama.cpp with its HIP backend on an emulated GPU under rocmcrash: refused weights and a refused KV cache
give bundles that name which of the two it was, the model's hash and quantisation, and what would have
fitted; and what they say would fit does. Run by rocm_sid."""

import json
import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "samples"))
import llama_case  # noqa: E402
import on_emulator  # noqa: E402
import support  # noqa: E402
from llama_case import LAYERS, MIB  # noqa: E402

BUILD = os.environ.get("ROCMCRASH_BUILD", "")
KEEPER = os.path.join(BUILD, "tests", "emulator", "emulator-keeper")
ROCMCRASH = os.path.join(BUILD, "bin", "rocmcrash")


class Llama(llama_case.LlamaCase):
    def run_llama(self, name, vram, context, layers=99):
        """Its result, its bundle (None without a failure), and the machine."""
        root = os.path.join(self.folder, name)
        on_emulator.machine.make(root, [on_emulator.DEFAULT_MODEL], vram=vram)
        done, bundle = self.run_program(ROCMCRASH, root, ["-ngl", str(layers), "-c", str(context)],
                                        before=[KEEPER, root])
        return done, bundle, root

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
    print("llama.cpp:", json.dumps(shutil.which(llama_case.PROGRAM)))
    support.main()
