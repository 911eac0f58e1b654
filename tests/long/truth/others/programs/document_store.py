# SPDX-License-Identifier: Apache-2.0
"""Sorts a corpus in big buffers, embeds documents of all lengths, drops the duplicates, sorts once more."""
import random
import time

import torch

FRACTION = 0.25
torch.cuda.set_per_process_memory_fraction(FRACTION)
total = torch.cuda.get_device_properties(0).total_memory * FRACTION
BUFFER = 2 << 30
random.seed(17)


def sort_in_buffers(count):
    buffers = [torch.empty(BUFFER // 4, device="cuda", dtype=torch.int32) for _ in range(count)]
    for number, buffer in enumerate(buffers):
        buffer.random_()
        if number:
            buffer[: 1 << 20].copy_(buffers[number - 1][: 1 << 20].sort().values)
    return int(buffers[-1][0])


count = int(total / BUFFER) - 1
print("sorted, first", sort_in_buffers(count), flush=True)
documents = {}
size = 0
while size < (count - 0.3) * BUFFER:
    tokens = random.randint(5_000, 50_000)
    name = len(documents)
    documents[name] = torch.randn(tokens, 1024, device="cuda")
    size += tokens * 4096
    time.sleep(0.02)
    if name % 20 == 0:
        print(f"step {name} documents, {size / 2**30:.1f} GiB", flush=True)
duplicates = random.sample(sorted(documents), int(len(documents) * 0.6))
for name in duplicates:
    del documents[name]
left = sum(d.numel() * 4 for d in documents.values())
print(f"{len(documents)} documents stay, {left / 2**30:.1f} GiB", flush=True)
print("sorted again, first", sort_in_buffers(count // 3))
