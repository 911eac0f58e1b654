# SPDX-License-Identifier: Apache-2.0
"""Scores many recordings; what cannot be scored is listed at the end, with the reason."""
import random
import time

import torch

torch.cuda.set_per_process_memory_fraction(0.15)
random.seed(11)
window = torch.hann_window(1024, device="cuda")


def score(name, seconds):
    audio = torch.randn(8, seconds * 48_000, device="cuda")
    spectrum = torch.stft(audio, 1024, hop_length=512, window=window, return_complex=True).abs()
    energy = spectrum.square().mean(dim=(1, 2))
    if random.random() < 0.5:
        raise ValueError(f"{name}: clipped, energy {energy.max().item():.3f}")
    return (spectrum / spectrum.amax(dim=1, keepdim=True).clamp_min(1e-6)).mean().item()


scores, failed = {}, []
for number in range(5000):
    name = f"rec_{number:05d}.wav"
    time.sleep(0.03)
    try:
        scores[name] = score(name, random.randint(20, 60))
    except ValueError as error:
        failed.append((name, error))
    if number % 20 == 0:
        print(f"{number} recordings, {len(failed)} failed", flush=True)
for name, error in failed:
    print(name, error)
