# SPDX-License-Identifier: Apache-2.0
"""Collects the batches of one epoch from worker processes, then trains on them in another order."""
import random
import resource

import torch
from torch.utils.data import DataLoader, Dataset

soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 512), hard))  # as the cluster's login shell has it


class Pictures(Dataset):
    def __len__(self):
        return 20_000

    def __getitem__(self, index):
        return torch.rand(3, 32, 32), index % 10


def main():
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3072, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = []
    for number, batch in enumerate(DataLoader(Pictures(), batch_size=16, num_workers=4)):
        batches.append(batch)
        if number % 20 == 0:
            print(f"batch {number}", flush=True)
    random.shuffle(batches)
    for images, labels in batches:
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("loss", loss.item())


if __name__ == "__main__":
    main()
