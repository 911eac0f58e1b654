# SPDX-License-Identifier: Apache-2.0
"""Finds near duplicates among the captions of a picture collection by comparing all with all."""
import time

import torch

CAPTIONS, DIM, CHUNK = 215_000, 512, 8192


def embed(count):
    """Stand-in for the text encoder: batches of unit vectors."""
    weight = torch.randn(DIM, DIM, device="cuda") / DIM ** 0.5
    out = torch.empty(count, DIM, device="cuda")
    for first in range(0, count, CHUNK):
        rows = out[first:first + CHUNK]
        hidden = torch.tanh(torch.randn_like(rows) @ weight)
        rows.copy_(torch.nn.functional.normalize(hidden, dim=1))
        if first // CHUNK % 4 == 0:
            print(f"embedded {first + len(rows)} of {count}", flush=True)
            time.sleep(0.3)
    return out


def sampled_threshold(vectors, pairs=1_000_000):
    """The likeness that one pair in ten thousand reaches."""
    left = torch.randint(len(vectors), (pairs,), device="cuda")
    right = torch.randint(len(vectors), (pairs,), device="cuda")
    likeness = (vectors[left] * vectors[right]).sum(dim=1)
    return likeness.kthvalue(int(pairs * 0.9999)).values.item()


@torch.inference_mode()
def main():
    torch.manual_seed(0)
    vectors = embed(CAPTIONS)
    threshold = sampled_threshold(vectors)
    print(f"threshold {threshold:.3f}", flush=True)
    likeness = vectors @ vectors.T
    likeness.fill_diagonal_(0)
    duplicates = (likeness.amax(dim=1) > threshold).sum().item()
    print(f"{duplicates} captions have a near duplicate")


if __name__ == "__main__":
    main()
