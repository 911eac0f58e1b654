# SPDX-License-Identifier: Apache-2.0
"""LLM serving with a prefix cache: the keys and values of the prompts used last stay on the GPU, within a budget
of bytes; the oldest go first."""
import time
from collections import OrderedDict

import numpy as np
import torch

GIB, BUDGET = 14, int(10 * 2**30)
LAYERS, WIDTH = 20, 1024
BYTES_PER_TOKEN = LAYERS * 2 * WIDTH * 2


class PrefixCache:
    def __init__(self, budget):
        self.budget, self.used = budget, 0
        self.entries = OrderedDict()

    def get(self, key):
        if key in self.entries:
            self.entries.move_to_end(key)
            return self.entries[key]
        return None

    def make_room(self, size):
        while self.entries and self.used + size > self.budget:
            _, old = self.entries.popitem(last=False)
            self.used -= old.nbytes

    def put(self, key, value):
        self.entries[key] = value
        self.used += value.nbytes


@torch.inference_mode()
def prefill(weights, tokens):
    """Keys and values of all layers of a prompt in one tensor, as the attention kernel wants them."""
    hidden = torch.empty(tokens, WIDTH, device="cuda", dtype=torch.bfloat16).normal_()
    kv = torch.empty(LAYERS, tokens, 2 * WIDTH, device="cuda", dtype=torch.bfloat16)
    for layer, weight in enumerate(weights):
        torch.mm(hidden, weight, out=kv[layer])
    return kv


def main():
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(GIB * 2**30 / total)
    torch.manual_seed(0)
    weights = [torch.randn(WIDTH, 2 * WIDTH, device="cuda", dtype=torch.bfloat16) / 32 for _ in range(LAYERS)]
    rng = np.random.default_rng(12)
    cache = PrefixCache(BUDGET)
    hits, start = 0, time.time()
    for turn in range(1500):
        user = int(rng.zipf(1.3)) % 400
        tokens = int(np.clip(rng.lognormal(8.5, 0.9), 256, 24576))
        kv = cache.get((user, tokens // 4096))
        if kv is None:
            cache.make_room(tokens * BYTES_PER_TOKEN)
            kv = prefill(weights, tokens)
            cache.put((user, tokens // 4096), kv)
        else:
            hits += 1
        time.sleep(0.01)
        if turn % 25 == 0:
            answer = kv[-1, -1, 0].item()
            print(f"turn {turn} hits {hits} cached {cache.used >> 20} MiB in {len(cache.entries)} prompts "
                  f"answer {answer:+.2f} {time.time() - start:.1f}s", flush=True)
    print("hit rate", hits / 1500)


if __name__ == "__main__":
    main()
