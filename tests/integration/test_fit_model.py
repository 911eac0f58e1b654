# SPDX-License-Identifier: Apache-2.0
"""rocmcrash fit --model: what a model's header says about memory, and where the search starts. The sizes of real models
are in
unit.model_cache."""

import json
import os
import shutil
import struct
import sys

import support
from replay import GIB, MIB, Machine
from support import PYTHON

sys.path.insert(0, os.path.join(support.SOURCE, "tests", "long"))
import gguf_model  # noqa: E402

LAYERS, WIDTH = 4, 512
CACHE = LAYERS * 2 * WIDTH  # numbers for a token: every head has its own K and V
PROGRAM = "import sys\nif int(sys.argv[sys.argv.index('{option}') + 1]) > {limit}: sys.exit(3)"
CONFIG = {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}


class FitModel(support.Case):
    def setUp(self):
        super().setUp()
        self.model = self.path("m.gguf")
        self.weights = gguf_model.write(self.model, LAYERS, WIDTH)

    def fit(self, *words, status=0, model=None, **kwargs):
        done = self.verb("fit", "--model", model or self.model, *words, **kwargs)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def estimate(self, *words, **kwargs):
        return json.loads(self.fit("--json", *words, **kwargs).stdout)["estimate"]

    def safetensors(self, folder, rows, config=CONFIG, shards=("model.safetensors",)):
        """A tensor of `rows` x 64 for K and V of each of two layers, the same in each file."""
        os.makedirs(self.path(folder), exist_ok=True)
        size = rows * 64 * 2
        for number, name in enumerate(shards):
            header = json.dumps({f"model.layers.{number}.self_attn.{kind}_proj.weight":
                                 {"dtype": "BF16", "shape": [rows, 64], "data_offsets": [i * size, (i + 1) * size]}
                                 for i, kind in enumerate("kv")}).encode()
            with open(self.path(folder, name), "wb") as file:
                file.write(struct.pack("<Q", len(header)) + header)
                file.truncate(8 + len(header) + 2 * size)
        self.write(os.path.join(folder, "config.json"), json.dumps(config))
        return self.path(folder)

    def test_what_is_counted_and_what_is_not(self):
        said = self.fit("--room", "2GiB").stdout
        self.assertIn("llama, F16, 4 layers, made for 131072 tokens", said)
        self.assertIn("counted: KV cache 8.0 KiB a token in f16", said)
        self.assertIn("not counted: buffers of the computation", said)
        found = self.estimate("--room", "2GiB")
        self.assertEqual((found["weights_bytes"], found["cache_elements_a_token"]), (self.weights, CACHE))
        left = 2 * GIB - self.weights
        self.assertEqual(found["rooms"][0]["room_for_tokens"],
                         {"f16": left // (CACHE * 2), "q8_0": left * 32 // (CACHE * 34), "q4_0": left * 32 // (CACHE * 18)})

    def test_the_free_memory_of_the_gpu(self):
        machine = Machine(self.path("machine"))
        machine.gpu(24 * GIB, 700 * MIB).ram(64 * GIB, 50 * GIB)
        self.environ["ROCMCRASH_SYSROOT"] = machine.top
        found = self.estimate()
        self.assertEqual([(room["gpu"], room["free_bytes"]) for room in found["rooms"]], [(0, 24 * GIB - 700 * MIB)])

    def test_no_gpu_and_too_little_room(self):
        os.makedirs(self.path("nothing", "sys"))
        self.environ["ROCMCRASH_SYSROOT"] = self.path("nothing")
        self.assertIn("of no GPU could be read", self.fit().stdout)
        self.assertIn("less than the weights need", self.fit("--room", "1MiB").stdout)

    def search(self, option, first):
        """A tenth is reserved for what is not counted. The answer and the number of runs do not depend on that."""
        limit = first + 3
        done = self.fit("--json", "--room", "64MiB", "--vary", f"{option} 1..40000", "--output-dir", self.outdir, "--", PYTHON, "-S", "-c",
                        PROGRAM.format(option=option, limit=limit), option, "1", timeout=300)
        result = json.loads(done.stdout)
        self.assertEqual(result["runs"][0]["value"], first)
        self.assertEqual(result["largest_that_runs"], limit)
        self.assertLessEqual(len(result["runs"]), 15 + 2 + 1)

    def test_a_search_of_tokens_starts_from_it(self):
        self.search("--ctx-size", int((0.9 * 64 * MIB - self.weights) // (CACHE * 2)))

    def test_a_search_of_layers_starts_from_it(self):
        self.search("--n-gpu-layers", LAYERS + 1)

    def test_another_option_starts_as_ever(self):
        done = self.fit("--json", "--room", "64MiB", "--vary", "--batch 1..8", "--output-dir", self.outdir, "--", PYTHON, "-S", "-c",
                        PROGRAM.format(option="--batch", limit=5), "--batch", "1", timeout=120)
        self.assertEqual(json.loads(done.stdout)["runs"][0]["value"], 1)

    def test_safetensors(self):
        """K and V of two layers: config.json says how many, the shards' index which files there are."""
        folder = self.safetensors("two", 32, shards=("a.safetensors", "b.safetensors"))
        self.write("two/model.safetensors.index.json", json.dumps({"weight_map": {"x": "a.safetensors", "y": "b.safetensors", "z": "a.safetensors"}}))
        for model in (folder, os.path.join(folder, "b.safetensors")):
            found = self.estimate("--room", "1GiB", model=model)
            self.assertEqual((found["weights_bytes"], found["cache_elements_a_token"]), (4 * 32 * 64 * 2, 2 * 2 * 32))
        self.assertIn("128 bytes a token in 8 bits", self.fit("--room", "1GiB", model=folder).stdout)

    def test_what_is_not_known_is_said(self):
        for folder, config, said in (("mla", {**CONFIG, "kv_lora_rank": 512}, "KV cache: unknown: K and V are kept as one compressed vector (MLA)"),
                                     ("differ", {**CONFIG, "num_hidden_layers": 5}, "KV cache: unknown: its tensors make"),
                                     ("bare", {}, "KV cache: unknown: layers, heads")):
            out = self.fit("--room", "1GiB", model=self.safetensors(folder, 32, config)).stdout
            self.assertIn(said, out)
            self.assertIn("the weights fit, of the context nothing is known", out)
            self.assertNotIn("tokens in", out)

    def write_part(self, number, keys):
        """One layer's K and V; the keys of a split GGUF, of which only the first part has the metadata."""
        keys = [gguf_model.key("split.no", gguf_model.U32, number), gguf_model.key("split.count", gguf_model.U32, 2), *keys]
        shape = struct.pack("<IQQ", 2, WIDTH, WIDTH)
        infos = [gguf_model.string(f"blk.{number}.attn_{kind}.weight") + shape + struct.pack("<IQ", 1, i * WIDTH * WIDTH * 2)
                 for i, kind in enumerate("kv")]
        head = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(keys)) + b"".join(keys + infos)
        path = self.path(f"split-0000{number + 1}-of-00002.gguf")
        with open(path, "wb") as file:
            file.write(head)
            file.truncate(gguf_model.padded(len(head)) + 2 * WIDTH * WIDTH * 2)
        return path

    def test_parts_of_a_gguf(self):
        first = self.write_part(0, [gguf_model.key(name, kind, value) for name, kind, value in (
            ("general.architecture", gguf_model.STRING, "llama"), ("llama.block_count", gguf_model.U32, 2),
            ("llama.embedding_length", gguf_model.U32, WIDTH), ("llama.attention.head_count", gguf_model.U32, 16),
            ("llama.attention.head_count_kv", gguf_model.U32, 16))])
        self.assertIn("split-00002-of-00002.gguf", self.fit("--room", "1GiB", model=first, status=2).stderr)
        second = self.write_part(1, [])
        found = self.estimate("--room", "1GiB", model=first)
        self.assertEqual((found["weights_bytes"], found["cache_elements_a_token"]), (4 * WIDTH * WIDTH * 2, 2 * 2 * WIDTH))
        self.assertIn("name the first one", self.fit("--room", "1GiB", model=second, status=2).stderr)

    def test_garbage(self):
        with open(self.model, "rb") as file:
            whole = file.read()
        cases = {"cut.gguf": whole[:300], "short.gguf": whole[:-4096], "noise.gguf": bytes(range(256)) * 40, "empty.gguf": b"",
                 "text.gguf": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "x.safetensors": b"\xff" * 64}
        for name, data in cases.items():
            os.makedirs(self.path("bad"), exist_ok=True)
            with open(self.path("bad", name), "wb") as file:
                file.write(data)
            done = self.fit("--room", "1GiB", model=self.path("bad", name), status=2)
            self.assertNotIn("counted", done.stdout, name)
            self.assertIn("rocmcrash: ", done.stderr, name)
        self.fit("--room", "1GiB", model=self.path("bad"), status=2)
        shutil.rmtree(self.path("bad"))
        self.fit("--room", "1GiB", model=self.path("bad"), status=2)

    def test_an_index_that_leads_out(self):
        folder = self.safetensors("out", 32)
        self.write("out/model.safetensors.index.json", json.dumps({"weight_map": {"x": "../m.gguf"}}))
        self.assertIn("outside of it", self.fit("--room", "1GiB", model=folder, status=2).stderr)

    def test_usage(self):
        for words in (["--room", "much"], ["--room", "-1GiB"], ["--vary", "--ctx 1..2"], ["--", "true"]):
            self.fit(*words, status=125)


if __name__ == "__main__":
    support.main(side_by_side=3)
