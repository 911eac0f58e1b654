# SPDX-License-Identifier: Apache-2.0
"""Trains from 4,000 shards that are all kept open."""
import os
import resource
import tempfile

import torch

soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 1024), hard))
model = torch.nn.Linear(1024, 16).cuda()
with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
    shards = []
    for number in range(4000):
        path = os.path.join(folder, f"shard_{number:05d}.bin")
        with open(path, "wb") as file:
            file.write(torch.rand(16, 1024).numpy().tobytes())
        shards.append(open(path, "rb"))
        if number % 100 == 0:
            rows = torch.frombuffer(bytearray(shards[-1].read()), dtype=torch.float32).view(-1, 1024)
            print(f"shard {number} mean {model(rows.cuda()).mean().item():.4f}", flush=True)
print("shards", len(shards))
