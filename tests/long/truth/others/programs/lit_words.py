# SPDX-License-Identifier: Apache-2.0
"""A word model in Lightning; the accuracy over the whole validation set is worked out at the end of every epoch."""
import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.cuda.set_per_process_memory_fraction(0.15)
WORDS = 32_000


class WordModel(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Embedding(WORDS, 256), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, WORDS))
        self.outputs = []

    def training_step(self, batch, index):
        words, following = batch
        return nn.functional.cross_entropy(self.net(words), following)

    def validation_step(self, batch, index):
        words, following = batch
        self.outputs.append((self.net(words), following))

    def on_validation_epoch_end(self):
        right = sum((logits.argmax(-1) == following).sum() for logits, following in self.outputs[-8:])
        print(f"epoch {self.current_epoch} right {int(right)}", flush=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def some(count):
    return TensorDataset(torch.randint(0, WORDS, (count,)), torch.randint(0, WORDS, (count,)))


trainer = L.Trainer(accelerator="gpu", devices=1, max_epochs=500, logger=False, enable_checkpointing=False,
                    enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0)
trainer.fit(WordModel(), DataLoader(some(8 * 512), batch_size=512), DataLoader(some(4 * 512), batch_size=512))
