# SPDX-License-Identifier: Apache-2.0
"""Speech recogniser trained with CTC. A flight recorder keeps the debug messages back and shows them when an
error is logged."""
import logging
import logging.handlers
import time

import numpy as np
import torch
from torch import nn

log = logging.getLogger("asr")
log.setLevel(logging.DEBUG)
log.propagate = False
screen = logging.StreamHandler()
recorder = logging.handlers.MemoryHandler(50_000, flushLevel=logging.ERROR, target=screen, flushOnClose=False)
log.addHandler(recorder)

VOCAB, MELS, BATCH, FRAMES = 5000, 80, 32, 480


class Recogniser(nn.Module):
    def __init__(self, width=512):
        super().__init__()
        self.front = nn.Linear(MELS, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            for _ in range(4))
        self.head = nn.Linear(width, VOCAB)

    def forward(self, mel):
        x = self.front(mel)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


def batches(count, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        mel = rng.standard_normal((BATCH, FRAMES, MELS), dtype=np.float32)
        text = rng.integers(1, VOCAB, (BATCH, 40))
        yield torch.from_numpy(mel).cuda(), torch.from_numpy(text).cuda()


def main():
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(13 * 2**30 / total)
    torch.manual_seed(0)
    model = Recogniser().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    ctc = nn.CTCLoss(zero_infinity=True)
    frames = torch.full((BATCH,), FRAMES, dtype=torch.long)
    letters = torch.full((BATCH,), 40, dtype=torch.long)
    start = time.time()
    for step, (mel, text) in enumerate(batches(600)):
        logits = model(mel)
        log.debug("step %d logits %s", step, logits)
        loss = ctc(logits.log_softmax(dim=2).transpose(0, 1), text, frames, letters)
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        log.debug("step %d gradient norm %s", step, norm)
        time.sleep(0.1)
        if step % 5 == 0:
            print(f"step {step} ctc {loss.item():.3f} {time.time() - start:.1f}s", flush=True)
    print("trained")


if __name__ == "__main__":
    main()
