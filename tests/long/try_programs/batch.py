# SPDX-License-Identifier: Apache-2.0
"""Trains for three steps: memory grows with --batch_size. 2 GiB is what it may use."""
import argparse
import torch
parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int, default=64)
size = parser.parse_args().batch_size
torch.manual_seed(0)
torch.cuda.set_per_process_memory_fraction(2 * 2**30 / torch.cuda.get_device_properties(0).total_memory)
model = torch.nn.Sequential(*[layer for _ in range(8) for layer in (torch.nn.Linear(2048, 2048), torch.nn.GELU())]).cuda()
optimiser = torch.optim.Adam(model.parameters())
for step in range(3):
    loss = model(torch.randn(size, 128, 2048, device="cuda")).square().mean()
    loss.backward()
    optimiser.step()
    optimiser.zero_grad()
    print("step", step, flush=True)
