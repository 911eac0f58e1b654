# SPDX-License-Identifier: Apache-2.0
"""Lattice Boltzmann flow through a porous rock (D3Q19), sized so that the card's share is nearly used up."""
import itertools
import time

import torch

GIB, SIDE = 12, 400
OMEGA = 1.2
VELOCITIES = [c for c in itertools.product((0, 1, -1), repeat=3) if sum(map(abs, c)) <= 2]
WEIGHTS = [{0: 1 / 3, 1: 1 / 18, 2: 1 / 36}[sum(map(abs, c))] for c in VELOCITIES]


class Lattice:
    def __init__(self):
        shape = (SIDE, SIDE, SIDE)
        self.f = torch.empty(19, *shape, device="cuda")
        self.g = torch.empty_like(self.f)
        for i, weight in enumerate(WEIGHTS):
            self.f[i].fill_(weight)
        self.rho = torch.empty(shape, device="cuda")
        self.u = torch.empty(3, *shape, device="cuda")
        self.rock = torch.rand(shape, device="cuda") < 0.05

    def macroscopic(self):
        torch.sum(self.f, dim=0, out=self.rho)
        self.u.zero_()
        for i, c in enumerate(VELOCITIES):
            for axis in range(3):
                if c[axis]:
                    self.u[axis].add_(self.f[i], alpha=c[axis])
        self.u.div_(self.rho)
        self.u[0].add_(1e-5)
        self.u.masked_fill_(self.rock, 0.0)

    def collide_and_stream(self):
        square = self.u[0].square()
        square.addcmul_(self.u[1], self.u[1]).addcmul_(self.u[2], self.u[2])
        for i, (c, weight) in enumerate(zip(VELOCITIES, WEIGHTS)):
            along = torch.zeros_like(square)
            for axis in range(3):
                if c[axis]:
                    along.add_(self.u[axis], alpha=c[axis])
            equilibrium = along.square().mul_(4.5).add_(along, alpha=3).add_(square, alpha=-1.5).add_(1)
            equilibrium.mul_(self.rho).mul_(weight)
            equilibrium.lerp_(self.f[i], 1 - OMEGA)
            self.g[i].copy_(torch.roll(equilibrium, c, dims=(0, 1, 2)))
            del along, equilibrium
        self.f, self.g = self.g, self.f


@torch.no_grad()
def main():
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(GIB * 2**30 / total)
    torch.manual_seed(0)
    lattice = Lattice()
    start = time.time()
    for step in range(60):
        lattice.macroscopic()
        lattice.collide_and_stream()
        if step % 10 == 0:
            flow = lattice.u[0].mean().item()
            print(f"step {step} flow {flow:.3e} {torch.cuda.max_memory_reserved() / 2**30:.2f} of {GIB} GiB "
                  f"{time.time() - start:.1f}s", flush=True)
    print(f"permeability {lattice.u[0].mean().item() / 1e-5:.4f}")


if __name__ == "__main__":
    main()
