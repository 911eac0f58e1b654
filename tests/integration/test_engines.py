#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What inference engines print of themselves reaches the verdict, however long they ran before they failed."""
import os

import support
from support import PYTHON, SOURCE

MESSAGES = os.path.join(SOURCE, "tests", "fixtures", "messages")

# Prints the report of a start behind so much, then runs so long, then ends as the engine does.
ENGINE = """
import os, sys
report = open(sys.argv[1]).read().splitlines(True)
split = [i for i, line in enumerate(report) if sys.argv[2] in line][0]
before, after = int(sys.argv[3]), int(sys.argv[4])

def noise(size):
    line = "slot update_slots: id 0 | task %d | prompt done, 512 tokens\\n"
    while size > 0:
        text = "".join(line % i for i in range(100))
        size -= os.write(2, text.encode())

noise(before)
for line in report[:split]:
    os.write(2, line.encode())
noise(after)
os.write(2, "".join(report[split:]).encode())
sys.exit(1)
"""


class LongRun(support.Case):
    def engine(self, fixture, split, before, after):
        script = self.write("engine.py", ENGINE)
        done = self.run_it(PYTHON, "-S", script, os.path.join(MESSAGES, fixture), split, str(before), str(after))
        self.assertEqual(done.status, 1)
        return self.only_bundle(done)

    def test_llama_behind_the_head(self):
        """Neither in the beginning of the output that is kept, nor in its end."""
        bundle = self.engine("m_llama_kv.txt", "cudaMalloc failed", 80000, 2000000)
        self.assertEqual(bundle.value("msg.ggml_model_buffer_bytes"), int(19100.25 * (1 << 20)))
        self.assertEqual(bundle.value("msg.ggml_free_at_start_bytes"), 24470 << 20)
        self.assertEqual(bundle.value("msg.ggml_context_tokens"), 65536)
        self.assertEqual(bundle.value("f.engine_part"), "KV cache")
        self.assertEqual(bundle.value("f.engine_fits_context_count"), 25856)
        self.assertEqual(bundle.verdict["path"][-1]["node"], "X7")
        self.assertIn("a context of 25856 tokens would fit", bundle.text("SUMMARY.md"))
        output = bundle.text("output/stderr.txt")
        self.assertEqual(output.count("ROCm0 model buffer size"), 1)
        where = [output.find(text) for text in ("of what follows only these lines are kept]\n", "ROCm0 model buffer size",
                                                "not kept]\n", "cudaMalloc failed")]
        self.assertTrue(0 <= where[0] < where[1] < where[2] < where[3], where)
        self.assertFalse("n_batch" in output)  # no line of the report that tells of memory

    def test_vllm_in_the_tail(self):
        """Kept there already: not twice."""
        bundle = self.engine("m_vllm_estimate.txt", "ERROR", 2000000, 20000)
        self.assertEqual(bundle.value("msg.vllm_weights_bytes"), round(14.9595 * (1 << 30)))
        self.assertEqual(bundle.value("f.engine_fits_context_count"), 32560)
        self.assertEqual(bundle.verdict["path"][-1]["node"], "U2")
        self.assertIn("--max-model-len 32560", bundle.text("SUMMARY.md"))
        output = bundle.text("output/stderr.txt")
        self.assertEqual(output.count("Loading model weights took"), 1)
        self.assertFalse("of what follows only" in output)


if __name__ == "__main__":
    support.main()
