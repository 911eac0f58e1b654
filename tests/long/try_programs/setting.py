# SPDX-License-Identifier: Apache-2.0
"""Fails only where sizes are rounded up to powers of two (PYTORCH_CUDA_ALLOC_CONF=roundup_power2_divisions:1)."""
import torch
torch.cuda.set_per_process_memory_fraction(2 * 2**30 / torch.cuda.get_device_properties(0).total_memory)
kept = []
for step in range(3):
    kept.append(torch.empty(600 * 2**20, dtype=torch.uint8, device="cuda"))
    print("step", step, flush=True)
