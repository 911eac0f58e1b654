# SPDX-License-Identifier: Apache-2.0
"""k-means over 100 GiB of embeddings on one card, with a JSON report at the end."""
import json
import time

import torch

N, D, K, ITER = 50 * 2**20, 1024, 512, 4     # bfloat16: 100 GiB
BLOCK = 2**18

torch.manual_seed(0)
data = torch.empty(N, D, dtype=torch.bfloat16, device="cuda")
for s in range(0, N, BLOCK):
    data[s:s + BLOCK].normal_()
centres = data[:K].float()
assigned = torch.empty(N, dtype=torch.int32, device="cuda")
print("loaded %.1f GiB" % (torch.cuda.memory_allocated() / 2**30), flush=True)

curve, t0 = [], time.time()
for it in range(ITER):
    sums, counts = torch.zeros_like(centres), torch.zeros(K, device="cuda")
    inertia = torch.zeros((), device="cuda")
    c = centres.to(torch.bfloat16)
    half = centres.square().sum(1) / 2
    for s in range(0, N, BLOCK):
        x = data[s:s + BLOCK]
        best = ((x @ c.T).float() - half).max(1)
        assigned[s:s + BLOCK] = best.indices.int()
        inertia -= best.values.sum()
        member = torch.zeros(len(x), K, dtype=torch.bfloat16, device="cuda").scatter_(1, best.indices[:, None], 1.0)
        sums += (member.T @ x).float()
        counts += torch.bincount(best.indices, minlength=K)
    centres = sums / counts.clamp_min(1)[:, None]
    curve.append(inertia / N)
    print(f"iteration {it} inertia {curve[-1].item():.4f} empty {(counts == 0).sum().item()} {time.time() - t0:.1f}s",
          flush=True)

report = {"rows": N, "clusters": K, "seconds": time.time() - t0, "largest": counts.max().item(), "inertia": curve[-1]}
print(json.dumps(report, indent=1))
