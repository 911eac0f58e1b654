# SPDX-License-Identifier: Apache-2.0
"""Fine-tunes a 600M-parameter transformer in fp32; 48 micro-batches are accumulated before the first Adam step.
The user saw that forward and backward fit in his 8 GiB slice, so he expects the run to go through."""
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

DIM, DEPTH, HEADS, VOCAB, TOKENS = 2048, 12, 16, 4096, 1024


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv, self.o = nn.Linear(DIM, 3 * DIM, bias=False), nn.Linear(DIM, DIM, bias=False)
        self.up, self.down = nn.Linear(DIM, 4 * DIM, bias=False), nn.Linear(4 * DIM, DIM, bias=False)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(a.transpose(1, 2).reshape(b, t, DIM))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM)
        self.blocks = nn.Sequential(*[Block() for _ in range(DEPTH)])
        self.head = nn.Linear(DIM, VOCAB, bias=False)

    def forward(self, ids):
        return self.head(self.blocks(self.emb(ids)))


def main():
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(8 * 2**30 / total)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    with torch.device("cuda"):
        model = LM()
    opt = torch.optim.Adam(model.parameters(), lr=1e-5)
    print("parameters", sum(p.numel() for p in model.parameters()) // 10**6, "M", flush=True)
    t0 = time.time()
    for update in range(3):
        opt.zero_grad(set_to_none=True)
        for micro in range(48):
            ids = torch.from_numpy(rng.integers(0, VOCAB, (2, TOKENS // 2 + 1))).to("cuda")
            loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()) / 48
            loss.backward()
            if micro % 8 == 0:
                print(f"update {update} micro {micro} loss {loss.item() * 48:.3f} {time.time() - t0:.1f}s", flush=True)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        print("updated", update, flush=True)


if __name__ == "__main__":
    main()
