# SPDX-License-Identifier: Apache-2.0
"""Evaluates a ViT-like encoder with four loader workers and a confusion matrix at the end.
The site's job script sets 256 open files per process; the same is set here."""
import resource
import time

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


class Spectra(Dataset):
    def __len__(self):
        return 64 * 900

    def __getitem__(self, n):
        g = torch.Generator().manual_seed(n)
        return torch.randn(64, 48, generator=g), n % 20, n


def main():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True, norm_first=True)
    model = nn.Sequential(nn.Linear(48, 1024), nn.TransformerEncoder(layer, 12, enable_nested_tensor=False),
                          nn.Linear(1024, 20)).cuda().eval()
    bank = torch.randn(24 * 2**28 // 1024, 1024, device="cuda")  # 24 GiB of reference embeddings
    loader = DataLoader(Spectra(), batch_size=64, num_workers=4)
    predicted, truth, numbers, t0 = [], [], [], time.time()
    with torch.inference_mode():
        for n, (x, label, number) in enumerate(loader):
            scores = model(x.cuda()).mean(1)
            predicted.append(scores.argmax(1).cpu())
            truth.append(label)
            numbers.append(number)
            if n % 20 == 0:
                near = (bank[:65536] @ torch.randn(1024, device="cuda")).argmax().item()
                print(f"batch {n} nearest {near} {time.time() - t0:.1f}s", flush=True)
    p, t = torch.cat(predicted), torch.cat(truth)
    print("accuracy", (p == t).float().mean().item(), "numbers", torch.cat(numbers).numel())


if __name__ == "__main__":
    main()
