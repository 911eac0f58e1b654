# SPDX-License-Identifier: Apache-2.0
"""In 30 % of the runs the batch is too large; no variable has to do with it."""
import random
import torch
torch.cuda.set_per_process_memory_fraction(2 * 2**30 / torch.cuda.get_device_properties(0).total_memory)
batch = torch.empty((3 if random.SystemRandom().random() < 0.3 else 1) * 2**30, dtype=torch.uint8, device="cuda")
