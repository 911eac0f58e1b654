# SPDX-License-Identifier: Apache-2.0
"""Language-model pre-training with a sequence-length curriculum: 128 tokens more at every stage.
The user wants to reach 4096 tokens with the batch size he chose for the short stages."""
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB, DIM, HEADS, DEPTH, BATCH = 8000, 512, 8, 4, 8


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv, self.proj = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.mlp = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM))

    def forward(self, x, mask):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        att = (q @ k.transpose(-1, -2)) * (DIM // HEADS) ** -0.5
        att = F.dropout(att.masked_fill(mask[:t, :t], float("-inf")).softmax(-1), 0.1)
        x = x + self.proj((att @ v).transpose(1, 2).reshape(b, t, DIM))
        return x + self.mlp(self.n2(x))


class GPT(nn.Module):
    def __init__(self, longest=4096):
        super().__init__()
        self.tok, self.pos = nn.Embedding(VOCAB, DIM), nn.Embedding(longest, DIM)
        self.blocks = nn.ModuleList(Block() for _ in range(DEPTH))
        self.head = nn.Linear(DIM, VOCAB)
        self.register_buffer("mask", torch.ones(longest, longest, dtype=torch.bool).triu(1))

    def forward(self, ids):
        x = self.tok(ids) + self.pos.weight[: ids.shape[1]]
        for b in self.blocks:
            x = b(x, self.mask)
        return self.head(x)


def read_batch(rng, length):
    """A slow home-made tokenizer."""
    rows = []
    for _ in range(BATCH):
        text = rng.integers(97, 123, 6 * length).astype(np.uint8).tobytes().decode()
        words = [text[i:i + 6] for i in range(0, len(text), 6)]
        rows.append([sum(ord(c) * 31 ** j for j, c in enumerate(w)) % VOCAB for w in words])
    return torch.tensor(rows)


def main():
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(8 * 2**30 / total)
    torch.manual_seed(0)
    rng = np.random.default_rng(1)
    model = GPT().to("cuda")
    opt = torch.optim.AdamW(model.parameters(), 3e-4)
    step, t0 = 0, time.time()
    for length in range(256, 4097, 128):
        torch.cuda.empty_cache()
        for _ in range(8):
            ids = read_batch(rng, length + 1).to("cuda")
            ids[ids >= VOCAB] = 0
            logits = model(ids[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            step += 1
        print(f"step {step} length {length} loss {loss.item():.3f} {time.time() - t0:.1f}s", flush=True)


if __name__ == "__main__":
    main()
