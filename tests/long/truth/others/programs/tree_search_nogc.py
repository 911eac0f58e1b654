# SPDX-License-Identifier: Apache-2.0
# Latent-space tree search for planning (a MuZero-like player without the training part).
# The collector is off, because its pauses showed up in the 99th percentile of the move times.
import gc
import math
import time

import torch

gc.disable()
ROWS, WIDTH, ACTIONS, SIMULATIONS = 8192, 2048, 4, 48


class Node:
    __slots__ = ("parent", "action", "latent", "children", "visits", "value", "prior")

    def __init__(self, parent, action, latent, prior):
        self.parent, self.action, self.latent, self.prior = parent, action, latent, prior
        self.children, self.visits, self.value = {}, 0, 0.0

    def score(self, total):
        mean = self.value / self.visits if self.visits else 0.0
        return mean + 1.25 * self.prior * math.sqrt(total + 1) / (1 + self.visits)


class Player:
    def __init__(self):
        torch.manual_seed(0)
        self.dynamics = torch.randn(ACTIONS, WIDTH, WIDTH, device="cuda") / math.sqrt(WIDTH)
        self.policy = torch.randn(WIDTH, ACTIONS, device="cuda") / math.sqrt(WIDTH)
        self.head = torch.randn(WIDTH, device="cuda") / math.sqrt(WIDTH)

    @torch.no_grad()
    def expand(self, parent, action):
        latent = torch.tanh_(parent.latent @ self.dynamics[action])
        pooled = latent.mean(0)
        node = Node(parent, action, latent, 0.0)
        parent.children[action] = node
        return node, torch.softmax(pooled @ self.policy, 0).tolist(), (pooled @ self.head).item()

    @torch.no_grad()
    def move(self, observation):
        root = Node(None, None, torch.tanh(observation), 1.0)
        priors = {id(root): [1 / ACTIONS] * ACTIONS}
        for _ in range(SIMULATIONS):
            node = root
            while len(node.children) == ACTIONS:
                node = max(node.children.values(), key=lambda c: c.score(node.visits))
            action = next(a for a in range(ACTIONS) if a not in node.children)
            child, p, value = self.expand(node, action)
            child.prior = priors[id(node)][action]
            priors[id(child)] = p
            while child is not None:
                child.visits += 1
                child.value += value
                child = child.parent
        return max(root.children.values(), key=lambda c: c.visits).action


def play(moves):
    player, t0 = Player(), time.time()
    state = torch.randn(ROWS, WIDTH, device="cuda")
    for n in range(moves):
        action = player.move(state)
        state = torch.roll(state, action + 1, 1)
        if n % 5 == 0:
            alive = sum(type(o) is Node for o in gc.get_objects())
            print(f"move {n} action {action} nodes alive {alive} (a search makes {SIMULATIONS + 1}) "
                  f"{torch.cuda.memory_allocated() / 2**30:.1f} GiB {time.time() - t0:.1f}s", flush=True)


if __name__ == "__main__":
    play(300)
    print("game over")
