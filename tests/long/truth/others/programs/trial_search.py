# SPDX-License-Identifier: Apache-2.0
"""A search over learning rates; every trial reports through the bus that the dashboard listens to as well."""
import random
from collections import defaultdict

import torch
from torch import nn

torch.cuda.set_per_process_memory_fraction(0.2)


class Bus:
    def __init__(self):
        self.listeners = defaultdict(list)

    def on(self, name, listener):
        self.listeners[name].append(listener)

    def emit(self, name, **what):
        for listener in self.listeners[name]:
            listener(**what)


BUS = Bus()


class Trial:
    def __init__(self, number, rate):
        self.number, self.rate, self.best = number, rate, float("inf")
        self.model = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 4096), nn.GELU(),
                                   nn.Linear(4096, 1024)).cuda()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=rate)
        BUS.on("trial_end", self.finished)

    def finished(self, number, best):
        if number == self.number:
            print(f"trial {number} rate {self.rate:.2e} best {best:.4f}", flush=True)

    def run(self, data):
        for start in range(0, 40):
            batch = data[torch.randint(0, len(data), (512,), device="cuda")]
            loss = nn.functional.mse_loss(self.model(batch), batch)
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self.optimizer.step()
            self.best = min(self.best, loss.item())
        BUS.emit("trial_end", number=self.number, best=self.best)
        return self.best


random.seed(0)
data = torch.randn(100_000, 1024, device="cuda")
results = []
for number in range(600):
    trial = Trial(number, 10 ** random.uniform(-5, -2))
    results.append(trial.run(data))
    del trial
print("best of all", min(results))
