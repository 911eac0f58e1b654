# SPDX-License-Identifier: Apache-2.0
"""Exact Gaussian-process regression: hyper-parameters are fitted on 6000 points, then all 90000 points are used.
The user thinks that what worked on the subset works on the whole set."""
import math
import time

import torch


def kernel(a, b, log_scale, log_amp):
    d2 = (a * a).sum(1, keepdim=True) - 2 * a @ b.T + (b * b).sum(1)
    return torch.exp(2 * log_amp - 0.5 * d2.clamp_min(0) * torch.exp(-2 * log_scale))


def nll(x, y, log_scale, log_amp, log_noise):
    k = kernel(x, x, log_scale, log_amp)
    k = k + torch.eye(len(x), device=x.device) * (torch.exp(2 * log_noise) + 1e-3)
    chol = torch.linalg.cholesky(k)
    alpha = torch.cholesky_solve(y[:, None], chol)[:, 0]
    return 0.5 * y @ alpha + chol.diagonal().log().sum() + 0.5 * len(x) * math.log(2 * math.pi)


def main(n_all=90000, n_sub=6000):
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(8 * 2**30 / total)
    torch.manual_seed(0)
    x = torch.rand(n_all, 6, device="cuda")
    y = torch.sin(6 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.1 * torch.randn(n_all, device="cuda")
    hyper = [torch.tensor(v, device="cuda", requires_grad=True) for v in (-0.5, 0.0, -1.5)]
    opt = torch.optim.Adam(hyper, lr=0.03)
    t0 = time.time()
    for it in range(90):
        pick = torch.randperm(n_all, device="cuda")[:n_sub]
        opt.zero_grad()
        loss = nll(x[pick], y[pick], *hyper) / n_sub
        loss.backward()
        opt.step()
        if it % 10 == 0:
            print(f"it {it} nll {loss.item():.4f} scale {hyper[0].exp().item():.3f} {time.time() - t0:.1f}s", flush=True)
    print("final fit on all points", flush=True)
    with torch.no_grad():
        k = kernel(x, x, hyper[0], hyper[1])
        k.diagonal().add_(torch.exp(2 * hyper[2]) + 1e-3)
        alpha = torch.cholesky_solve(y[:, None], torch.linalg.cholesky(k))
    print("alpha", alpha.norm().item())


if __name__ == "__main__":
    main()
