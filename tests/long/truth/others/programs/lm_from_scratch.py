# SPDX-License-Identifier: Apache-2.0
"""Trains a GPT-2 shaped model of 1.3 billion weights from scratch on legal texts."""
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel

GIB = 16
ACCUMULATE, LENGTH = 8, 512


def batches(vocabulary):
    generator = torch.Generator().manual_seed(0)
    while True:
        yield torch.randint(vocabulary, (1, LENGTH), generator=generator).to("cuda")


def decay_groups(model):
    plain = [p for p in model.parameters() if p.ndim < 2]
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    return [{"params": matrices, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}]


def main():
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(GIB * 2**30 / total)
    torch.manual_seed(0)
    config = GPT2Config(n_embd=2048, n_layer=24, n_head=16, n_positions=LENGTH, use_cache=False)
    with torch.device("cuda"):
        model = GPT2LMHeadModel(config)
    model.train()
    count = sum(p.numel() for p in model.parameters())
    print(f"{count / 1e9:.2f} billion weights, {torch.cuda.memory_allocated() / 2**30:.1f} GiB", flush=True)
    optimizer = torch.optim.AdamW(decay_groups(model), lr=2e-4, betas=(0.9, 0.95))
    data = batches(config.vocab_size)
    start = time.time()
    for step in range(20):
        for micro in range(ACCUMULATE):
            tokens = next(data)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = model(input_ids=tokens, labels=tokens).loss / ACCUMULATE
            loss.backward()
            print(f"step {step} micro {micro} loss {loss.item() * ACCUMULATE:.3f} {time.time() - start:.1f}s", flush=True)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"step {step} done", flush=True)


if __name__ == "__main__":
    main()
