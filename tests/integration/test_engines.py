#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The reports of inference engines reach the verdict, however long they ran before they failed. So do the counters of
JAX, TensorFlow, CuPy and ONNX Runtime, through the Python hook. All are stand-ins (tests/fixtures/hook)."""
import json
import os
import subprocess

import support
from support import PYTHON, SOURCE
from hooked import Direct, STUB

MESSAGES = os.path.join(SOURCE, "tests", "fixtures", "messages")

# Prints so many bytes, the engine's start report, so many bytes again, and then ends as the engine does.
ENGINE = """
import os, sys, time
report = open(sys.argv[1]).read().splitlines(True)
split = [i for i, line in enumerate(report) if sys.argv[2] in line][0]
before, after = int(sys.argv[3]), int(sys.argv[4])

def noise(size):
    line = "slot update_slots: id 0 | task %d | prompt done, 512 tokens\\n"
    while size > 0:
        text = "".join(line % i for i in range(100))
        size -= os.write(2, text.encode())
        time.sleep(0.0005)  # 12 MB/s: above 50, not every line is looked at

noise(before)
for line in report[:split]:
    os.write(2, line.encode())
noise(after)
os.write(2, "".join(report[split:]).encode())
sys.exit(1)
"""


def alone(case):
    """A machine of its own. Nobody else writes to its kernel log."""
    os.makedirs(case.path("machine", "dev"), exist_ok=True)
    with open(case.path("machine", "dev", "kmsg"), "w", encoding="utf-8"):
        pass
    case.environ["ROCMCRASH_SYSROOT"] = case.path("machine")


class LongRun(support.Case):
    def engine(self, fixture, split, before, after):
        alone(self)
        script = self.write("engine.py", ENGINE)
        done = self.run_it(PYTHON, "-S", script, os.path.join(MESSAGES, fixture), split, str(before), str(after))
        self.assertEqual(done.status, 1)
        return self.only_bundle(done)

    def test_llama_after_the_head(self):
        """The report is neither in the kept beginning of the output nor in its kept end."""
        bundle = self.engine("m_llama_kv.txt", "cudaMalloc failed", 80000, 2000000)
        self.assertEqual(bundle.value("msg.ggml_model_buffer_bytes"), int(19100.25 * (1 << 20)))
        self.assertEqual(bundle.value("msg.ggml_free_at_start_bytes"), 24470 << 20)
        self.assertEqual(bundle.value("msg.ggml_context_tokens"), 65536)
        self.assertEqual(bundle.value("f.engine_part"), "KV cache")
        self.assertEqual(bundle.value("f.engine_fits_context_count"), 25856)
        self.assertEqual(bundle.verdict["path"][-1]["node"], "engine-part-too-large")
        self.assertIn("a context of 25856 tokens would fit", bundle.text("SUMMARY.md"))
        output = bundle.text("output/stderr.txt")
        self.assertEqual(output.count("ROCm0 model buffer size"), 1)
        where = [output.find(text) for text in ("of what follows only these lines are kept]\n", "ROCm0 model buffer size",
                                                "not kept]\n", "cudaMalloc failed")]
        if where[0] < 0:  # the machine was busy: the more of the rest is lost, the earlier the kept end begins
            self.assertTrue(0 <= where[1] < where[3], where)
            return
        self.assertTrue(0 <= where[0] < where[1] < where[2] < where[3], where)
        self.assertFalse("n_batch" in output)  # no line of the report about memory

    def test_vllm_in_the_tail(self):
        """The kept end has the report, so it is not kept twice."""
        bundle = self.engine("m_vllm_estimate.txt", "ERROR", 2000000, 20000)
        self.assertEqual(bundle.value("msg.vllm_weights_bytes"), round(14.9595 * (1 << 30)))
        self.assertEqual(bundle.value("f.engine_fits_context_count"), 32560)
        self.assertEqual(bundle.verdict["path"][-1]["node"], "engine-setting")
        self.assertIn("--max-model-len 32560", bundle.text("SUMMARY.md"))
        output = bundle.text("output/stderr.txt")
        self.assertEqual(output.count("Loading model weights took"), 1)
        self.assertFalse("of what follows only" in output)


# As vLLM: the start report on stdout, the failure on stderr.
SPLIT = """
import os, sys
report = open(sys.argv[1]).read().splitlines(True)
for i, line in enumerate(report):
    os.write(2 if sys.argv[2] in line else 1, line.encode())
os.write(1, b"The answer is 42, said Ann.\\n" * int(sys.argv[3]))
os.write(1, report[0].encode().rstrip())  # no line's end
sys.exit(1)
"""


class Stdout(support.Case):
    def vllm(self, how, before=b"", noise=10, stderr=subprocess.PIPE, options=()):
        alone(self)
        script = self.write("engine.py", SPLIT)
        path = self.path("out.log")
        with open(path, "wb") as file:
            file.write(before)
        with open(path, how) as out:
            if "r" in how:
                out.seek(len(before))
            process = self.start(PYTHON, "-S", script, os.path.join(MESSAGES, "m_vllm_estimate.txt"), "ERROR", str(noise),
                                 stdout=out, stderr=stderr, options=options)
            _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1)
        return self.only_bundle(self.finished(process, b"", err or b""))

    def test_a_file_is_read(self):
        """Only the run's own output, not earlier text, whether the file is appended to or written from the middle."""
        for how in ("ab", "r+b", "wb"):
            with self.subTest(how=how):
                before = b"" if how == "wb" else b"Loading model weights took 99.0000 GB\n"
                bundle = self.vllm(how, before)
                self.assertEqual(bundle.value("msg.vllm_weights_bytes"), round(14.9595 * (1 << 30)))
                self.assertIn("stdout line ", bundle.fact("msg.vllm_weights_bytes")["source"])
                self.assertEqual(bundle.verdict["path"][-1]["node"], "engine-setting")
                self.assertIn("--max-model-len 32560", bundle.text("SUMMARY.md"))
                self.assertNotIn("Ann", bundle.text("stdout/stdout.txt"))
                self.assertEqual(self.verb("triage", "--json", bundle.path).returncode, 0)
                again = json.loads(self.verb("triage", "--json", bundle.path).stdout)
                self.assertEqual((again["class"], again["confidence"]),
                                 (bundle.verdict["class"], bundle.verdict["confidence"]))
                os.unlink(bundle.path)

    def test_a_long_file(self):
        """60 MB: the start and the end are searched, and little is kept."""
        bundle = self.vllm("wb", noise=2200000)
        self.assertEqual(bundle.value("msg.vllm_weights_bytes"), round(14.9595 * (1 << 30)))
        self.assertLess(len(bundle.text("stdout/stdout.txt")), 16384)
        self.assertTrue(bundle.text("stdout/stdout.txt").endswith("\n"))

    def test_a_line_where_the_parts_meet(self):
        """The first part ends 8 MiB from the start. A message across that border stays whole and is kept once."""
        alone(self)
        message = b"Loading model weights took 9.0000 GB in 3 s\n"
        for after in (b"", b"x\n" * (20 << 20)):  # the second part follows at once, or begins 32 MiB before the end
            with self.subTest(after=len(after)):
                with open(self.path("text"), "wb") as text:
                    text.write(b"x\n" * ((4 << 20) - 10) + message + after)
                with open(self.path("out.log"), "wb") as out:
                    process = self.start("/bin/sh", "-c", "ulimit -c 0; cat text; kill -SEGV $$", stdout=out,
                                         stderr=subprocess.PIPE, cwd=self.folder)
                    _, err = process.communicate(timeout=60)
                bundle = self.only_bundle(self.finished(process, b"", err))
                text = bundle.text("stdout/stdout.txt") if "stdout/stdout.txt" in bundle.files else ""
                self.assertEqual(text, "" if after else message.decode())
                os.unlink(bundle.path)

    def test_what_is_not_read(self):
        for options, keywords in ((["--no-follow", "--always"], {}), ([], {"stderr": subprocess.STDOUT})):
            with self.subTest(options=options):
                bundle = self.vllm("wb", options=options, **keywords)
                self.assertNotIn("stdout/stdout.txt", bundle.files)
                self.assertEqual(bundle.row("stdout")["reason"], "stdout is no file of its own")
                os.unlink(bundle.path)

    def test_a_file_that_is_gone(self):
        alone(self)
        with open(self.path("out.log"), "wb") as out:
            process = self.start("/bin/sh", "-c", "ulimit -c 0; mv out.log gone; echo Loading model weights took 9 GB > out.log; kill -SEGV $$",
                                 stdout=out, stderr=subprocess.PIPE, cwd=self.folder)
            _, err = process.communicate(timeout=60)
        bundle = self.only_bundle(self.finished(process, b"", err))
        self.assertEqual((bundle.row("stdout")["status"], bundle.row("stdout")["reason"]),
                         ("failed", "stdout's file: another file has its name"))


GIB = 1 << 30
THREADS = "import os; print(len(os.listdir('/proc/self/task')))\n"
WAIT = """
import glob, os, time
def wait_for(name, rows):
    path = os.environ["ROCMCRASH_HOOK"].split(":", 2)[2] + "/hook/" + name if "ROCMCRASH_HOOK" in os.environ else ""
    for _ in range(2000 if path else 0):
        if os.path.exists(path) and open(path).read().count("\\n") >= rows:
            break
        time.sleep(0.005)
"""


class Xla(Direct):
    """The hook in a Python with JAX or TensorFlow."""

    def rows(self, pattern):
        return [line.split(",") for line in self.lines(pattern)]

    def test_jax(self):
        run = self.same("-c", WAIT + """
import jax
kept = [jax.zeros(2 << 30) for _ in range(5)]
more = jax.zeros(3 << 30)
wait_for("%d.jax.csv" % os.getpid(), 2)
del more
jax.zeros(9 << 30)
""", path=[STUB])
        self.assertIn("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9663676416 bytes.", run.stderr)
        record = self.one_json("*.jax.json")
        self.assertEqual((record["platforms"], record["devices"], record["kind"]), ("rocm,cpu", 1, "AMD Instinct MI300X"))
        self.assertEqual(record["stats"]["0"]["bytes_in_use"], 10 * GIB)
        self.assertEqual(record["stats"]["0"]["peak_bytes_in_use"], 13 * GIB)
        self.assertEqual(record["stats"]["0"]["bytes_limit"], 18 * GIB)
        rows = self.rows("*.jax.csv")
        self.assertTrue(all(row[1] == "0" and len(row) == 10 for row in rows), rows)
        self.assertIn(str(13 * GIB), [row[2] for row in rows])
        self.assertEqual(rows[-1][2:5], [str(10 * GIB), str(13 * GIB), str(18 * GIB)])
        self.assertEqual([e["platform"] for e in self.events("jax backend")], ["rocm", "cpu"])
        self.assertEqual(self.events("trouble"), [])

    def test_jax_is_never_initialised(self):
        run = self.same("-c", "import jax\nfrom jax._src import xla_bridge\nimport time; time.sleep(0.3)\n" + THREADS +
                        "print(dict(xla_bridge._backends), isinstance(xla_bridge._backends, dict))", path=[STUB])
        self.assertEqual(run.stdout, "1\n{} True\n")
        self.assertEqual(self.written("*.jax.*"), [])
        self.assertEqual(len(self.events("jax")), 1)

    def test_jax_on_the_host(self):
        run = self.same("-c", "import jax\nx = jax.zeros(5)\nimport time; time.sleep(0.3)\n" + THREADS + "jax.zeros(1 << 50)",
                        path=[STUB], more={"STUB_JAX_PLATFORMS": "cpu"})
        self.assertEqual(run.stdout, "1\n")
        self.assertEqual([e["platform"] for e in self.events("jax backend")], ["cpu"])
        self.assertEqual(self.written("*.jax.*"), [])
        self.assertEqual(self.events("trouble"), [])

    def test_jax_that_is_other_than_expected(self):
        """The program does not see it; the manifest has it once."""
        for mode in ("list", "raises"):
            with self.subTest(mode):
                self.run_dir = self.path("run-" + mode)
                self.hook = os.path.join(self.run_dir, "hook")
                self.same("-c", "import jax, time\nx = jax.zeros(5)\ntime.sleep(0.5)\nprint(x.size)\n1 / 0", path=[STUB],
                          more={"STUB_JAX": mode})
                self.assertEqual(len(self.events("trouble")), 1, self.events("trouble"))
                self.assertEqual(self.written("*.jax.*"), [])

    def test_jax_and_forks(self):
        """The parent goes on. A child that did not create the devices records nothing about them."""
        self.same("-c", WAIT + """
import jax
x = jax.zeros(1 << 30)
wait_for("%d.jax.csv" % os.getpid(), 1)
for _ in range(5):
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
y = jax.zeros(1 << 30)
name = "%d.jax.csv" % os.getpid()
path = os.environ.get("ROCMCRASH_HOOK", "::").split(":", 2)[2] + "/hook/" + name
wait_for(name, open(path).read().count("\\n") + 2 if os.path.exists(path) else 0)
""", path=[STUB])
        self.assertEqual(self.rows("*.jax.csv")[-1][2], str(2 * GIB))
        self.assertEqual(self.events("trouble"), [])

    def test_jax_after_torch(self):
        self.same("-c", "import torch, jax\nx = jax.zeros(7)\n1 / 0", path=[STUB])
        self.assertEqual(self.one_json("*.jax.json")["stats"]["0"]["bytes_in_use"], 7)

    def test_tensorflow(self):
        self.same("-c", WAIT + """
import tensorflow as tf
tf.zeros(3 << 30)
wait_for("%d.tensorflow.csv" % os.getpid(), 2)
1 / 0
""", path=[STUB])
        self.assertEqual(self.one_json("*.tensorflow.json")["stats"]["0"],
                         {"bytes_in_use": 3 * GIB, "peak_bytes_in_use": 3 * GIB})
        self.assertEqual(self.rows("*.tensorflow.csv")[-1][1:5], ["0", str(3 * GIB), str(3 * GIB), ""])

    def test_tensorflow_is_never_initialised(self):
        run = self.same("-c", "import tensorflow, time\nfrom tensorflow.python.eager import context\ntime.sleep(0.3)\n"
                        "print(context._context)", path=[STUB])
        self.assertEqual(run.stdout, "None\n")
        self.assertEqual(self.written("*.tensorflow.*"), [])

    def test_tensorflow_without_a_gpu(self):
        """The thread that waited for a GPU ends."""
        run = self.same("-c", "import tensorflow, time, os\ntensorflow.zeros(5)\n"
                        "for _ in range(400):\n    if len(os.listdir('/proc/self/task')) == 1: break\n    time.sleep(0.01)\n" +
                        THREADS, path=[STUB], more={"STUB_TF_GPUS": "0"})
        self.assertEqual(run.stdout, "1\n")
        self.assertEqual([e["gpus"] for e in self.events("tensorflow context")], [0])
        self.assertEqual(self.written("*.tensorflow.*"), [])

    def test_spawned_workers(self):
        """As vLLM starts its own: a fresh interpreter by multiprocessing's `spawn`."""
        script = self.write("engine.py", """
import multiprocessing

def worker():
    import torch
    kept = [torch.empty(1 << 30) for _ in range(100)]

if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=worker)
    process.start()
    process.join()
    print(process.exitcode)
""")
        run = self.go(script, path=[STUB])
        self.assertEqual(run.stdout, "1\n", run.stderr)
        record = self.one_json("*.oom.first.json")
        self.assertEqual(record["requested"], GIB)
        self.assertIn("worker", [frame[2] for frame in record["stacks"][0]["frames"]])


class Pools(Direct):
    """The hook in a Python with CuPy or ONNX Runtime."""

    def test_cupy_before_it_unwinds(self):
        run = self.same("-c", WAIT + """
import cupy
kept = [cupy.zeros(2 << 30) for _ in range(7)]
wait_for("%d.cupy.csv" % os.getpid(), 2)
try:
    work = cupy.zeros(4 << 30)
    cupy.zeros(9 << 30)
finally:
    del work
""", path=[STUB])
        self.assertIn("OutOfMemoryError: Out of memory allocating 9,663,676,416 bytes", run.stderr)
        self.assertNotIn("rocmcrash_", run.stderr)  # no frame of the hook; the checkout's folder may have our name
        record = self.one_json("*.cupy.json")
        self.assertEqual(record["stats"], {"0": {"bytes_in_use": 18 * GIB, "pool_bytes": 18 * GIB}})
        refused = record["refused"]
        self.assertEqual((refused["requested"], refused["pool_bytes"], refused["device"], refused["count"]),
                         (9 * GIB, 18 * GIB, 0, 1))
        self.assertIn(["0", str(14 * GIB)], [row.split(",")[1:3] for row in self.lines("*.cupy.csv")])
        self.assertEqual(self.events("trouble"), [])

    def test_cupy_tries_again(self):
        """Of many refusals the first one is recorded and, at the end, the last one."""
        self.same("-c", """
import cupy
kept = cupy.zeros(15 << 30)
for size in range(60, 10, -1):
    try:
        cupy.zeros(size << 30)
    except cupy.memory.OutOfMemoryError:
        pass
cupy.zeros(7 << 30)
""", path=[STUB])
        refused = self.one_json("*.cupy.json")["refused"]
        self.assertEqual((refused["requested"], refused["count"]), (7 * GIB, 51))

    def test_cupy_is_not_used(self):
        self.same("-c", "import cupy, time\ntime.sleep(0.2)\n1 / 0", path=[STUB])
        self.assertEqual(self.written("*.cupy.*"), [])

    def test_sessions_of_onnxruntime(self):
        self.same("-c", """
import onnxruntime
options = [("ROCMExecutionProvider", {"gpu_mem_limit": "419430400"})]
kept = [onnxruntime.InferenceSession(bytes([i % 2]) * 9000, options) for i in range(12)]
onnxruntime.InferenceSession("m.onnx", options, fails=True)
""", path=[STUB])
        record = self.one_json("*.onnxruntime.json")
        self.assertEqual((record["sessions"], record["models"], record["running"]), (12, 2, False))
        self.assertEqual(record["options"], {"ROCMExecutionProvider": {"gpu_mem_limit": "419430400"}})

    def test_a_session_that_runs(self):
        self.same("-c", "import onnxruntime\none = onnxruntime.InferenceSession('m.onnx')\none.run()", path=[STUB])
        record = self.one_json("*.onnxruntime.json")
        self.assertEqual((record["sessions"], record["models"], record["running"]), (1, 1, True))

    def test_another_exception(self):
        self.same("-c", "import onnxruntime\none = onnxruntime.InferenceSession('m.onnx')\n1 / 0", path=[STUB])
        self.assertEqual(self.written("*.onnxruntime.json"), [])


class JaxBundle(support.Case):
    def test_bundle(self):
        alone(self)
        script = self.write("train.py", """
import jax
kept = [jax.zeros(4 << 30) for _ in range(4)]
jax.zeros(5 << 30)
""")
        done = self.run_it(PYTHON, script, env=dict(self.environ, PYTHONPATH=STUB, PYTHONDONTWRITEBYTECODE="1"))
        bundle = self.only_bundle(done)
        self.assertEqual(bundle.value("jax.in_use_bytes", "impact"), 16 * GIB)
        self.assertEqual(bundle.value("jax.limit_bytes"), 18 * GIB)
        self.assertEqual(bundle.value("jax.platforms"), "rocm,cpu")
        self.assertEqual(bundle.value("f.pool_free_bytes"), 2 * GIB)
        self.assertTrue(bundle.value("f.pool_preallocated"))
        self.assertTrue(bundle.value("vendor.amd"))
        self.assertEqual(bundle.value("oom.requested_bytes"), 5 * GIB)
        self.assertEqual(bundle.verdict["class"], "capacity")
        summary = bundle.text("SUMMARY.md")
        self.assertRegex(summary, r"\| JAX, in use of its pool \| 18.00 GiB \|.* 16.00 GiB \|")
        self.assertIn("neither a leak nor another process", summary)
        self.assertIn("hook/jax-exit.json", bundle.files)


if __name__ == "__main__":
    support.main()
