# SPDX-License-Identifier: Apache-2.0
"""Hyper-parameter sweep of 40 trials in one process; the best trial may be exported at the end.
The user thinks each trial frees its model when train() returns."""
import random
import time

import numpy as np
import torch
import torch.nn as nn


class Study:
    def __init__(self):
        self.scores, self.on_finish = [], []

    def report(self, cfg, score, export):
        self.scores.append((score, cfg))
        self.on_finish.append(export)

    def finish(self):
        best = min(range(len(self.scores)), key=lambda i: self.scores[i][0])
        self.on_finish[best]()


def make_model(width, depth):
    layers = [nn.Linear(512, width), nn.ReLU()]
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 1))


def train(study, cfg, data, targets, steps=16):
    model = make_model(cfg["width"], cfg["depth"]).to("cuda")
    opt = torch.optim.AdamW(model.parameters(), cfg["lr"], weight_decay=cfg["wd"])
    for _ in range(steps):
        rows = np.random.randint(0, len(data), 8192)
        x, y = torch.from_numpy(data[rows]).to("cuda"), torch.from_numpy(targets[rows]).to("cuda")
        loss = (model(x)[:, 0] - y).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()

    def export():
        torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "cfg": cfg}, "/dev/null")

    study.report(cfg, loss.item(), export)


def main(trials=40):
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(9 * 2**30 / total)
    random.seed(0), np.random.seed(0), torch.manual_seed(0)
    data = np.random.standard_normal((60000, 512)).astype(np.float32)
    targets = np.sin(data[:, 0] * data[:, 1]).astype(np.float32)
    study, t0 = Study(), time.time()
    for trial in range(trials):
        cfg = dict(width=random.choice([2048, 2304, 2560]), depth=random.choice([5, 6, 7]),
                   lr=10 ** random.uniform(-5, -3), wd=random.choice([0, 0.01]))
        train(study, cfg, data, targets)
        print(f"trial {trial} {cfg} loss {study.scores[-1][0]:.4f} {time.time() - t0:.1f}s", flush=True)
    study.finish()


if __name__ == "__main__":
    main()
