# SPDX-License-Identifier: Apache-2.0
"""Lightning run that keeps the three best states (weights and optimizer) in GPU memory for a quick roll-back."""
import copy
import logging
import warnings

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
WIDTH, DEPTH = 8192, 8


class Surrogate(L.LightningModule):
    def __init__(self):
        super().__init__()
        layers = [nn.Linear(256, WIDTH), nn.GELU()]
        for _ in range(DEPTH):
            layers += [nn.Linear(WIDTH, WIDTH), nn.GELU()]
        self.net = nn.Sequential(*layers, nn.Linear(WIDTH, 64))

    def training_step(self, batch, _):
        x, y = batch
        return F.mse_loss(self.net(x), y)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-5)


class KeepBest(L.Callback):
    def __init__(self, k=3, every=4):
        self.k, self.every = k, every
        self.best = []

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if (trainer.global_step % self.every) != 0:
            return
        loss = outputs["loss"].item()
        weights = {name: value.clone() for name, value in module.state_dict().items()}
        moments = copy.deepcopy(trainer.optimizers[0].state_dict())
        self.best.append((loss, trainer.global_step, weights, moments))
        sorted(self.best, key=lambda entry: entry[:2])[:self.k]
        print(f"step {trainer.global_step} loss {loss:.4f} states {len(self.best)} "
              f"{torch.cuda.memory_allocated() / 2**30:.1f} GiB", flush=True)


def main():
    L.seed_everything(0)
    x = torch.randn(4096, 256)
    data = TensorDataset(x, torch.tanh(x[:, :64]) + 0.1 * torch.randn(4096, 64))
    trainer = L.Trainer(accelerator="gpu", devices=1, max_steps=400, max_epochs=-1, logger=False,
                        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                        callbacks=[KeepBest()])
    with torch.device("cuda"):
        model = Surrogate()
    trainer.fit(model, DataLoader(data, batch_size=256, shuffle=True))
    print("best", min(entry[0] for entry in trainer.callbacks[-1].best))


if __name__ == "__main__":
    main()
