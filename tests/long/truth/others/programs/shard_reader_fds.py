# SPDX-License-Identifier: Apache-2.0
"""Trains on a data set of many small shard files, each kept open by the reader 'for fast seeks'.
The user runs under the cluster's limit of 256 open files per process (set below as the job script does)."""
import atexit
import os
import resource
import shutil
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn

resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
ROWS, FEAT, SHARDS = 512, 256, 400


class ShardReader:
    def __init__(self, folder):
        self.folder, self.handles = folder, {}

    def read(self, n):
        if n not in self.handles:
            self.handles[n] = open(os.path.join(self.folder, f"shard{n:05d}.bin"), "rb")
        f = self.handles[n]
        f.seek(0)
        return np.frombuffer(f.read(), np.float16).reshape(ROWS, FEAT)


def write_shards(folder):
    rng = np.random.default_rng(0)
    for n in range(SHARDS):
        with open(os.path.join(folder, f"shard{n:05d}.bin"), "wb") as f:
            f.write(rng.standard_normal((ROWS, FEAT), dtype=np.float32).astype(np.float16).tobytes())


def main():
    folder = tempfile.mkdtemp(prefix="shards")
    reader = ShardReader(folder)

    def tidy():
        for f in reader.handles.values():
            f.close()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(tidy)
    write_shards(folder)
    torch.cuda.set_per_process_memory_fraction(4 * 2**30 / torch.cuda.get_device_properties(0).total_memory)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(FEAT, 2048), nn.GELU(), nn.Linear(2048, 2048), nn.GELU(), nn.Linear(2048, FEAT)).to("cuda")
    opt = torch.optim.AdamW(model.parameters(), 1e-4)
    t0 = time.time()
    for n in range(SHARDS):
        rows = reader.read(n).astype(np.float32)
        rows = rows[np.lexsort(rows.T[:24])]
        x = torch.from_numpy(rows).to("cuda").repeat(16, 1)
        for _ in range(3):
            loss = (model(x + 0.1 * torch.randn_like(x)) - x).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        if n % 20 == 0:
            print(f"shard {n} loss {loss.item():.4f} {time.time() - t0:.1f}s", flush=True)
    print("done")


if __name__ == "__main__":
    main()
