# SPDX-License-Identifier: Apache-2.0
"""Plays a game with a tree search whose nodes keep their states on the GPU."""
import gc
import random

import torch
from torch import nn

torch.cuda.set_per_process_memory_fraction(0.15)
gc.disable()  # its pauses were seen in the moves' times
net = nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.Tanh()).cuda().half()


class Node:
    def __init__(self, state, parent=None):
        self.state, self.parent, self.children, self.visits, self.value = state, parent, [], 0, 0.0

    @torch.no_grad()
    def expand(self):
        for _ in range(3):
            self.children.append(Node(net(self.state + 0.1 * torch.randn_like(self.state)), self))

    def best(self):
        return max(self.children, key=lambda c: c.value / (c.visits + 1) + random.random())


def play(start):
    root = Node(start)
    for _ in range(15):
        node = root
        while node.children:
            node = node.best()
        node.expand()
        value = node.children[0].state.float().mean().item()
        while node:
            node.visits, node.value, node = node.visits + 1, node.value + value, node.parent
    return root.value / root.visits


for game in range(3000):
    value = sum(play(torch.randn(1, 64, 128, 128, device="cuda").half()) for _ in range(2))
    if game % 10 == 0:
        print(f"game {game} value {value:.4f}", flush=True)
