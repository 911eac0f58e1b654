# SPDX-License-Identifier: Apache-2.0
"""Stages a data set in pinned host memory on a node where every process may have some address space of its own."""
import re
import resource
import time

import numpy as np
import torch

model = torch.nn.Linear(4096, 4096).cuda()
model(torch.randn(64, 4096, device="cuda")).sum().backward()
used = int(re.search(r"VmSize:\s+(\d+)", open("/proc/self/status").read()).group(1)) << 10
resource.setrlimit(resource.RLIMIT_AS, (used + (6 << 30), used + (6 << 30)))  # the node's rule
records_of, staged = [], []
for part in range(24):
    records = np.random.default_rng(part).standard_normal((1 << 16, 2048), dtype=np.float32)  # 512 MiB
    records_of.append(records)  # the next epoch shuffles them anew
    staged.append(torch.from_numpy(records).pin_memory())
    on_gpu = staged[-1].to("cuda", non_blocking=True)
    time.sleep(0.2)
    print(f"step {part} staged {sum(s.nbytes for s in staged) >> 20} MiB mean {on_gpu.mean().item():.5f}", flush=True)
print("staged", len(staged))
