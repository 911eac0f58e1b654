# SPDX-License-Identifier: Apache-2.0
"""Trains a ResNet-50 with a large batch, as a paper did on many cards."""
import torch
import torchvision

model = torchvision.models.resnet50(weights=None).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1.6, momentum=0.9)
for step in range(100):
    images = torch.rand(2560, 3, 224, 224, device="cuda")
    labels = torch.randint(0, 1000, (2560,), device="cuda")
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.3f}", flush=True)
