# SPDX-License-Identifier: Apache-2.0
"""Builds an atlas from the scans of a cohort: coarse maps of all patients give the template, then every
patient's descriptor is compared with every place in it."""
import time

import numpy as np
import torch

GIB = 12
PATIENTS = 880
CELLS, CHANNELS, LATENT = 2304, 1024, 192      # a coarse map has 9 MiB, a descriptor a little under 1.7 MiB


def read_scan(rng, base, number):
    """Block means of a scan (the files lie in a cache that the preprocessing made)."""
    shifted = np.roll(base, number, axis=0)
    shifted[:8] += rng.standard_normal((8, base.shape[1]), dtype=np.float32)
    return torch.from_numpy(shifted)


class Encoder:
    def __init__(self):
        generator = torch.Generator().manual_seed(7)
        self.up = (torch.randn(64, CHANNELS, generator=generator) / 8).to("cuda")
        self.down = (torch.randn(CHANNELS, LATENT, generator=generator) / 32).to("cuda")

    def coarse(self, blocks):
        return torch.mm(blocks, self.up).tanh_()

    def descriptor(self, coarse):
        return torch.mm(coarse, self.down)


@torch.no_grad()
def main():
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(GIB * 2**30 / total)
    rng = np.random.default_rng(0)
    base = rng.standard_normal((CELLS, 64), dtype=np.float32)
    encoder = Encoder()
    start = time.time()

    coarse, descriptors = [], []
    for number in range(PATIENTS):
        blocks = read_scan(rng, base, number).to("cuda")
        coarse.append(encoder.coarse(blocks))
        descriptors.append(encoder.descriptor(coarse[-1]))
        if number % 80 == 0:
            print(f"patient {number} read, {torch.cuda.memory_allocated() >> 20} MiB, {time.time() - start:.1f}s", flush=True)
    centre = torch.zeros(CELLS, CHANNELS, device="cuda")
    for step in range(5):
        total_weight = 0.0
        update = torch.zeros_like(centre)
        for patient in coarse[::8]:
            weight = torch.exp(-(patient - centre).square().mean()).item()
            update.add_(patient, alpha=weight)
            total_weight += weight
        centre.copy_(update / total_weight)
        print(f"template step {step} weight {total_weight:.2f} {time.time() - start:.1f}s", flush=True)
    template = encoder.descriptor(centre)
    del coarse, patient, update, blocks

    print(f"template done, {torch.cuda.memory_allocated() >> 20} MiB in use", flush=True)
    for first in range(0, PATIENTS, 220):
        batch = torch.stack(descriptors[first:first + 220]).flatten(0, 1)
        fit = torch.mm(batch, template.T)
        print(f"patients {first}..{first + 219} fit {fit.amax(dim=1).mean().item():.3f}", flush=True)
        del batch, fit


if __name__ == "__main__":
    main()
