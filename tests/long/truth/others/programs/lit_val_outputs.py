# SPDX-License-Identifier: Apache-2.0
"""Lightning-style classifier: 120 training batches, then validation_step outputs are collected for the epoch end.
The user computes the mean validation loss and the confusion matrix once per epoch."""
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class LitClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        chans, layers = [3, 32, 64, 128], []
        for i, o in zip(chans, chans[1:]):
            layers += [nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(), nn.MaxPool2d(2)]
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(128, 100)
        self.validation_outputs = []

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))

    def training_step(self, batch):
        x, y = batch
        return F.cross_entropy(self(x), y)

    def validation_step(self, batch):
        x, y = batch
        logits = self(x)
        out = {"loss": F.cross_entropy(logits, y), "preds": logits.argmax(-1), "target": y}
        self.validation_outputs.append(out)
        return out

    def on_validation_epoch_end(self):
        loss = torch.stack([o["loss"] for o in self.validation_outputs]).mean()
        self.validation_outputs.clear()
        return loss.item()


class Trainer:
    def __init__(self, train_batches=120, val_batches=200):
        self.n_train, self.n_val = train_batches, val_batches
        self.rng = np.random.default_rng(0)

    def loader(self, n):
        for _ in range(n):
            img = self.rng.standard_normal((32, 3, 96, 96), dtype=np.float32)
            img = np.clip(img * 0.2 + 0.5, 0, 1) ** 1.1
            yield torch.from_numpy(img).to("cuda"), torch.from_numpy(self.rng.integers(0, 100, 32)).to("cuda")

    def fit(self, model, epochs=2):
        opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
        t0 = time.time()
        for epoch in range(epochs):
            model.train()
            for i, batch in enumerate(self.loader(self.n_train)):
                loss = model.training_step(batch)
                opt.zero_grad()
                loss.backward()
                opt.step()
            print(f"epoch {epoch} train loss {loss.item():.3f} {time.time() - t0:.1f}s", flush=True)
            model.eval()
            for i, batch in enumerate(self.loader(self.n_val)):
                out = model.validation_step(batch)
                if i % 10 == 0:
                    print(f"  val batch {i} loss {out['loss'].item():.3f} {time.time() - t0:.1f}s", flush=True)
            print(f"epoch {epoch} val loss {model.on_validation_epoch_end():.3f}", flush=True)


if __name__ == "__main__":
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(10 * 2**30 / total)
    torch.manual_seed(0)
    Trainer().fit(LitClassifier().to("cuda"))
