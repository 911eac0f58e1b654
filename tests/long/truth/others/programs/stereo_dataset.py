# SPDX-License-Identifier: Apache-2.0
"""Loads stereo pairs, works out which are sharp from both, keeps the left images as one training tensor."""
import torch

FRACTION = 0.3
torch.cuda.set_per_process_memory_fraction(FRACTION)
total = torch.cuda.get_device_properties(0).total_memory * FRACTION
pairs = int(total * 0.92 / (20 << 20))
lefts, rights = [], []
for number in range(pairs):
    lefts.append(torch.empty(2, 1024, 1024, device="cuda").normal_())
    rights.append(torch.empty(2, 1024, 1024, device="cuda").normal_())
    if number % 50 == 0:
        sharp = (lefts[-1][0, ::8, ::8] - rights[-1][0, ::8, ::8]).abs().mean().item()
        print(f"step {number} of {pairs} sharpness {sharp:.3f}", flush=True)
agreement = [(left[0, :64, :64] * right[0, :64, :64]).mean() for left, right in zip(lefts, rights)]
agreement = torch.stack(agreement).cpu()
rights.clear()
training = torch.stack(lefts)
lefts.clear()
print("training tensor", tuple(training.shape), "agreement", agreement.mean().item())
for epoch in range(5):
    batch = training[torch.randint(0, pairs, (32,), device="cuda")]
    print(f"epoch {epoch} mean {batch.mean().item():.4f}", flush=True)
