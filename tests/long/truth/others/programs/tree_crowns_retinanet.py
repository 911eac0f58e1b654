# SPDX-License-Identifier: Apache-2.0
"""Fine-tunes RetinaNet on aerial tiles with one box per tree crown. Most tiles hold a few hundred trees;
the last one of the epoch is an oil-palm plantation with 245 x 245 of them."""
import math
import time

import torch
from torchvision.models.detection import retinanet_resnet50_fpn

SIZE = 1024
TREES = [320, 900, 150, 2400, 700, 1200, 245 * 245]


def tile(number, trees):
    g = torch.Generator().manual_seed(number)
    image = torch.rand(3, SIZE, SIZE, generator=g)
    side = math.ceil(math.sqrt(trees))
    pitch = SIZE / side
    row, col = torch.arange(trees) // side, torch.arange(trees) % side
    corner = torch.stack([col, row], 1) * pitch
    width = pitch * (0.6 + 0.3 * torch.rand(trees, 1, generator=g))
    return image.cuda(), {"boxes": torch.cat([corner, corner + width], 1).cuda(),
                          "labels": torch.ones(trees, dtype=torch.int64).cuda()}


torch.manual_seed(0)
model = retinanet_resnet50_fpn(weights=None, weights_backbone=None, num_classes=2, min_size=SIZE, max_size=SIZE)
model.cuda().train()
optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1e-5, momentum=0.9)
began = time.time()
for number, trees in enumerate(TREES):
    image, target = tile(number, trees)
    torch.cuda.reset_peak_memory_stats()
    print(f"tile {number}: {trees} trees", flush=True)
    losses = model([image], [target])
    total = sum(losses.values())
    optimizer.zero_grad()
    total.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(f"   loss {total.item():.3f}  peak {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB  {time.time() - began:.1f}s",
          flush=True)
print("epoch done")
