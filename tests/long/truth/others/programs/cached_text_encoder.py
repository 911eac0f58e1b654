# SPDX-License-Identifier: Apache-2.0
"""Text-conditioned training; the frozen text encoder is wrapped in lru_cache so that repeated captions are free.
The user thinks that there are only 500 captions, so the cache stays small."""
import functools
import time

import numpy as np
import torch
import torch.nn as nn

CAPTIONS, T, DIM = 500, 128, 1024


class TextEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20000, DIM)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(DIM, 16, 4096, 0.0, batch_first=True) for _ in range(6))

    @functools.lru_cache(maxsize=None)
    def encode(self, ids):
        with torch.no_grad():
            h, taps = self.emb(ids), []
            for n, layer in enumerate(self.layers):
                h = layer(h)
                if n >= 4:
                    taps.append(h)
            return torch.cat(taps, -1)


def tokenize(rng, captions, rows):
    out = []
    for r in rows:
        words = captions[r].split()
        ids = [sum(ord(c) * 131 ** i for i, c in enumerate(w)) % 20000 for w in words][:T]
        out.append(ids + [0] * (T - len(ids)))
    return torch.tensor(out)


def main(steps=600):
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(6 * 2**30 / total)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    captions = [" ".join("".join(chr(97 + c) for c in rng.integers(0, 26, 7)) for _ in range(140)) for _ in range(CAPTIONS)]
    encoder = TextEncoder().to("cuda").eval()
    adapter = nn.Sequential(nn.Linear(2 * DIM, 2048), nn.GELU(), nn.Linear(2048, 256)).to("cuda")
    opt = torch.optim.AdamW(adapter.parameters(), 1e-4)
    t0 = time.time()
    for step in range(steps):
        ids = tokenize(rng, captions, rng.integers(0, CAPTIONS, 32)).to("cuda")
        target = torch.randn(32, 256, device="cuda")
        cond = encoder.encode(ids)
        loss = (adapter(cond).mean(1) - target).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f} {time.time() - t0:.1f}s", flush=True)


if __name__ == "__main__":
    main()
