#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""llama.cpp with its CUDA backend on a real NVIDIA GPU under rocmcrash: a KV cache that cannot fit, weights that
another process leaves no room for, weights larger than the card; and what the bundles say would fit does.

usage: llama_cuda.py [CASE...]      with ROCMCRASH=path of the program, LLAMA=path of llama-completion
       llama_cuda.py --hold FREE    takes memory of the first GPU until FREE bytes are left; prints what there is

Bundles and logs are left in $OUT or a new folder; the models, files of holes, are not. Each case is run twice: with
llama.cpp's messages as they are, and with its report of its memory (LLAMA_ARG_LOG_VERBOSITY=4). Exit 77: no such
program, no GPU.
"""
import contextlib
import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import llama_case  # noqa: E402
import support  # noqa: E402
from llama_case import GIB, MIB  # noqa: E402

ROCMCRASH = os.environ.get("ROCMCRASH", "rocmcrash")
REPORT = {"LLAMA_ARG_LOG_VERBOSITY": "4"}  # -lv 4 is read too late for the line of the device
WIDE = 8192
LAYER_BYTES = 12.25 * 2 * WIDE * WIDE  # of gguf_model's: 1.53 GiB
NO_MMAP = ("-lm", "none")  # mapped, all of the file would be read before anything is asked of the GPU


class Driver:
    """The first GPU by libcuda alone; a context of this process, which takes some memory itself."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *args):
        code = getattr(self.cuda, name)(*args)
        if code != 0:
            raise OSError(f"{name}: error {code}")

    def memory(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return {"free": free.value, "total": total.value}

    def take(self, size):
        self.call("cuMemAlloc_v2", ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(size))


def hold(leave):
    driver = Driver()
    size = driver.memory()["free"] - leave
    if leave > 0 and size > 0:
        driver.take(size // (2 * MIB) * 2 * MIB)
    print(json.dumps(driver.memory()), flush=True)
    sys.stdin.read()  # until who asked ends


@contextlib.contextmanager
def held(leave=0):
    """A process that leaves so much of the GPU (0: holds nothing but its context), and what it saw."""
    with subprocess.Popen([sys.executable, os.path.abspath(__file__), "--hold", str(leave)], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as process:
        try:
            yield json.loads(process.stdout.readline() or "null")
        finally:
            process.stdin.close()
            process.wait()


def memory():
    """None: no GPU."""
    with held() as seen:
        return seen


class Cuda(llama_case.LlamaCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        seen = memory()
        if seen is None:
            raise unittest.SkipTest("there is no NVIDIA GPU here")
        cls.total = seen["total"]
        if seen["free"] < 0.95 * cls.total:
            raise unittest.SkipTest(f"the GPU is not empty: {seen}")
        cls.out = os.path.join(os.environ.get("OUT") or tempfile.mkdtemp(prefix="rc-llama-out-"), "llama")
        print(f"GPU: {cls.total / GIB:.1f} GiB, {seen['free'] / GIB:.1f} free; bundles in {cls.out}", flush=True)

    def run_llama(self, name, context, *options, layers=99, model=None, **environ):
        start = time.monotonic()
        root = os.path.join(self.out, name.replace(" ", "-"))
        os.makedirs(root)
        done, bundle = self.run_program(ROCMCRASH, root, ["-ngl", str(layers), "-c", str(context), *options],
                                        model=model, **environ)
        for kind in ("stdout", "stderr"):
            with open(os.path.join(root, kind), "w", encoding="utf-8") as file:
                file.write(getattr(done, kind))
        said = "no bundle"
        if bundle is not None:
            verdict = bundle.verdict
            said = (f"{verdict['class']}/{verdict['subclass']} {verdict['confidence']} {verdict['path'][-1]['node']}: "
                    f"{verdict['sentence']}")
        print(f"{name}: exit {done.returncode}, {time.monotonic() - start:.1f} s, {said}", flush=True)
        return done, bundle

    def check_runs(self, name, *args, **kwargs):
        done, bundle = self.run_llama(name, *args, **kwargs)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        self.assertIsNone(bundle)

    def check_part(self, done, bundle, part, last_line):
        """The confidence that is to be expected: llama.cpp loses its last lines now and then, without rocmcrash too
        (the thread that writes its log is not waited for); then the part is known by its size alone."""
        said = last_line in done.stderr
        self.assertEqual(bundle.value("msg.ggml_refused_part"), part if said else None)
        return "high" if said else "medium"

    def check_verdict(self, bundle, *want):
        verdict = bundle.verdict
        self.assertEqual((verdict["class"], verdict["subclass"], verdict["confidence"])[:len(want)], want,
                         verdict["sentence"])

    def check_report(self, done, bundle, tensor_bytes):
        """The facts have the figures that llama.cpp printed, and the driver's figures of the GPU."""
        free = int(re.search(r"using device CUDA0 .* - (\d+) MiB free", done.stderr).group(1)) * MIB
        total = int(re.search(r"Device 0: .*VRAM: (\d+) MiB", done.stderr).group(1)) * MIB
        self.assertEqual(bundle.value("msg.ggml_free_at_start_bytes"), free)
        self.assertEqual(bundle.value("msg.ggml_device_total_bytes"), total)
        self.assertAlmostEqual(total / self.total, 1, delta=0.02)
        buffer = bundle.value("msg.ggml_model_buffer_bytes")
        if buffer is not None:  # all but the embeddings, which stay with the CPU
            self.assertAlmostEqual(buffer / tensor_bytes, 1, delta=0.02)

    def test_enough_memory_is_no_failure(self):
        self.check_runs("enough", 512)

    def refused_cache(self, name, **environ):
        """Expected: the KV cache of a context of 1.4 times the card; the context that is said runs."""
        per_token = 2 * 2 * 2048 * self.model.layers
        context = int(1.4 * self.total / per_token) // 256 * 256
        done, bundle = self.run_llama(name, context, **environ)
        self.assertIn("cudaMalloc failed: out of memory", done.stderr)
        self.assertEqual(bundle.value("oom.requested_bytes"), context * per_token)
        self.check_model(bundle)
        sure = self.check_part(done, bundle, "KV cache", "failed to allocate buffer for kv cache")
        self.check_verdict(bundle, "capacity", "engine's parts", sure)
        self.assertEqual(bundle.value("f.engine_part"), "KV cache")
        fits = bundle.value("f.engine_fits_context_count")
        self.assertTrue(0.5 * self.total < fits * per_token < self.total, fits)
        self.assertIn(f"a context of {fits:.0f} tokens would fit", bundle.text("SUMMARY.md"))
        return done, bundle, int(fits)

    def test_kv_cache(self):
        _, _, fits = self.refused_cache("kv")
        self.check_runs("kv that is said to fit", fits)

    def test_kv_cache_with_report(self):
        done, bundle, fits = self.refused_cache("kv-report", **REPORT)
        self.check_report(done, bundle, self.model.tensor_bytes)
        self.assertEqual(bundle.value("f.engine_asked_context_count"), bundle.value("msg.ggml_context_tokens"))
        self.check_runs("kv with report that is said to fit", fits, **REPORT)

    def refused_by_holder(self, name, model, **environ):
        """Expected: the weights alone would have had room, another process is why they have not."""
        done, bundle = self.run_llama(name, 512, *NO_MMAP, model=model, **environ)
        self.assertIn("cudaMalloc failed: out of memory", done.stderr)
        self.check_part(done, bundle, "weights", "unable to allocate CUDA0 buffer")
        self.check_model(bundle, model)
        self.check_verdict(bundle, "held-by-other")
        return done, bundle

    def test_held_by_other(self):
        model = llama_case.Model(os.path.join(self.folder, "wide-f16.gguf"), width=WIDE,
                                 layers=int(0.175 * self.total / LAYER_BYTES))
        with held(int(0.13 * self.total)) as seen:
            print(f"held: {seen}", flush=True)
            done, bundle = self.refused_by_holder("held-report", model, **REPORT)
            self.check_report(done, bundle, model.tensor_bytes)
            self.check_verdict(bundle, "held-by-other", "occupied at start", "medium")
            layers = bundle.value("f.engine_fits_layers_count")
            self.assertTrue(0 < layers < model.layers, layers)
            done, bundle = self.refused_by_holder("held-short", model)  # by the driver's count before the start
            self.check_verdict(bundle, "held-by-other", "occupied at start", "medium")
            self.check_runs("held, layers that are said to fit", 512, *NO_MMAP, layers=int(layers), model=model)
        with held(int(0.07 * self.total)):  # less than a tenth of the GPU was free
            self.refused_by_holder("held", model)
        self.check_runs("held no more", 512, *NO_MMAP, model=model)

    def refused_weights(self, name, model, **environ):
        """Expected: the weights of a model of 1.07 times the card, and how many of its layers have room."""
        done, bundle = self.run_llama(name, 512, *NO_MMAP, model=model, **environ)
        self.assertIn("cudaMalloc failed: out of memory", done.stderr)
        self.check_model(bundle, model)
        sure = self.check_part(done, bundle, "weights", "unable to allocate CUDA0 buffer")
        self.check_verdict(bundle, "capacity", "engine's parts", sure)
        self.assertEqual(bundle.value("f.engine_part"), "weights")
        layers = bundle.value("f.engine_fits_layers_count")
        share = layers / (model.layers + 1) * model.tensor_bytes / self.total
        self.assertTrue(0.8 < share < 0.95, (layers, share))
        return done, bundle

    def test_weights(self):
        model = llama_case.Model(os.path.join(self.folder, "huge-f16.gguf"), width=WIDE,
                                 layers=int(1.07 * self.total / LAYER_BYTES))
        done, bundle = self.refused_weights("weights-report", model, **REPORT)
        self.check_report(done, bundle, model.tensor_bytes)
        self.refused_weights("weights", model)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--hold"]:
        try:
            hold(int(sys.argv[2]))
        except (OSError, AttributeError) as error:
            sys.exit(f"llama_cuda.py: {error}")
    else:
        support.main()
