# SPDX-License-Identifier: Apache-2.0
"""Whale song: the recordings of a hydrophone, shortest first, are filtered and kept in half precision on the GPU."""
import time

import numpy as np
import torch

GIB = 14
MINUTE = 96_000 * 60
RECORDINGS = 48


def lengths():
    """Samples of each recording; the catalogue is sorted, as bucketed batches want it later."""
    rng = np.random.default_rng(4)
    minutes = 13.65 + 0.273 * np.arange(RECORDINGS) + rng.uniform(0, 0.05, RECORDINGS)
    return [int(m * MINUTE) for m in sorted(minutes)]


def high_pass_(wave, window=4096):
    """Takes the mean of each window away, in place."""
    body = wave[:len(wave) // window * window].view(-1, window)
    body.sub_(body.mean(dim=1, keepdim=True))
    return wave


@torch.no_grad()
def main():
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(GIB * 2**30 / total)
    sizes = lengths()
    sea = np.random.default_rng(0).standard_normal(MINUTE, dtype=np.float32)
    sea = np.tile(sea, sizes[-1] // MINUTE + 1)
    kept = []
    start = time.time()
    for number, samples in enumerate(sizes):
        wave = torch.from_numpy(sea[:samples]).to("cuda")
        high_pass_(wave)
        wave.div_(wave.norm(p=float("inf")))
        kept.append(wave.to(torch.bfloat16))
        del wave
        time.sleep(0.1)
        if number % 3 == 0:
            print(f"recording {number}: {samples / MINUTE:.2f} min, kept {torch.cuda.memory_allocated() >> 20} MiB, "
                  f"{time.time() - start:.1f}s", flush=True)

    model = torch.nn.Sequential(
        torch.nn.Linear(4096, 512), torch.nn.GELU(), torch.nn.Linear(512, 8)).to("cuda", torch.bfloat16)
    calls = 0
    for wave in kept:
        part = wave[:4096 * 256].view(256, 4096)
        calls += model(part).argmax(dim=1).ne(0).sum().item()
    print(f"{calls} windows with a call in {len(kept)} recordings")


if __name__ == "__main__":
    main()
