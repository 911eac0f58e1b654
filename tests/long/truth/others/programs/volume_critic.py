# SPDX-License-Identifier: Apache-2.0
"""A Wasserstein critic that tells reconstructed CT blocks from measured ones, with a gradient penalty."""
import time
import warnings

import numpy as np
import torch
from torch import nn

warnings.filterwarnings("ignore")
GIB = 14
BATCH, SHAPE = 8, (160, 192, 192)


class Critic(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.stem = nn.Conv3d(1, width, 8, stride=8)
        self.down = nn.Conv3d(width, 2 * width, 2, stride=2)
        self.head = nn.Linear(2 * width, 1)
        self.act = nn.Softplus()

    def forward(self, block):
        h = self.act(self.stem(block))
        h = self.act(self.down(h))
        return self.head(h.mean(dim=(2, 3, 4))).squeeze(1)


def penalty(critic, real, fake):
    """One-sided gradient penalty at random points between the measured and the reconstructed block."""
    mix = torch.rand(len(real), 1, 1, 1, 1, device=real.device)
    between = torch.lerp(fake, real, mix).requires_grad_()
    critic(between).sum().backward(create_graph=True)
    slope = between.grad.flatten(1).norm(dim=1)
    return (slope - 1).clamp_min(0).square().mean()


class Blocks:
    """Cuts blocks out of a scan that is kept on the host."""

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)
        z, y, x = (n + 64 for n in SHAPE)
        self.scan = self.rng.standard_normal((z, y, x), dtype=np.float32)

    def __call__(self):
        out = np.empty((BATCH, 1, *SHAPE), np.float32)
        for i in range(BATCH):
            z, y, x = self.rng.integers(0, 64, 3)
            out[i, 0] = self.scan[z:z + SHAPE[0], y:y + SHAPE[1], x:x + SHAPE[2]]
        return torch.from_numpy(out).to("cuda")


def main():
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(GIB * 2**30 / total)
    torch.manual_seed(1)
    blocks = Blocks()
    critic = Critic().to("cuda")
    optimizer = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.0, 0.9))
    start = time.time()
    for step in range(400):
        real = blocks()
        fake = real + 0.3 * torch.randn_like(real)
        gp = penalty(critic, real, fake)
        optimizer.zero_grad(set_to_none=True)
        loss = critic(fake).mean() - critic(real).mean() + 10 * gp
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print(f"step {step:4d} critic {loss.item():+.4f} gp {gp.item():.4f} {time.time() - start:.1f}s", flush=True)
    torch.save(critic.state_dict(), "/tmp/critic.pt")


if __name__ == "__main__":
    main()
