# SPDX-License-Identifier: Apache-2.0
"""Policy training in PyTorch against a physics service in its own process (JAX), both on the one GPU."""
import os
import subprocess
import sys
import time

import torch
import torch.nn as nn

HERE = os.path.dirname(os.path.abspath(__file__))


class Physics:
    """The service of helpers/physics_server.py; one line each way per step."""

    def __init__(self):
        self.proc = subprocess.Popen([sys.executable, os.path.join(HERE, "helpers", "physics_server.py")],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.proc.stdout.readline().strip() != "ready":
            raise SystemExit("physics service did not start")

    def step(self, torque):
        self.proc.stdin.write(f"{torque}\n")
        self.proc.stdin.flush()
        return float(self.proc.stdout.readline())

    def close(self):
        self.proc.stdin.close()
        self.proc.wait(20)


def policy(width=16384, depth=10):
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(width, 1))


def train(physics, steps=10):
    with torch.device("cuda"):
        net = policy()
    opt = torch.optim.Adam(net.parameters(), 1e-5)
    print("policy of", sum(p.numel() for p in net.parameters()) // 10**6, "M parameters", flush=True)
    t0 = time.time()
    for n in range(steps):
        obs = torch.randn(4096, 16384, device="cuda")
        action = net(obs)
        reward = physics.step(round(action.mean().item(), 4))
        loss = (action.squeeze(1) - reward).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {n} reward {reward:.4f} {torch.cuda.memory_allocated() / 2**30:.1f} GiB {time.time() - t0:.1f}s",
              flush=True)


if __name__ == "__main__":
    torch.manual_seed(0)
    physics = Physics()
    try:
        train(physics)
    finally:
        physics.close()
    print("trained")
