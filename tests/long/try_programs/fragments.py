# SPDX-License-Identifier: Apache-2.0
"""Survivors lie in each half of large segments, whose rests are too small for what comes then. Expandable segments
make one piece of the rests. With --grow it goes on to keep more and more, so that they only postpone the end."""
import sys
import torch
MIB = 2**20
torch.cuda.set_per_process_memory_fraction(2 * 2**30 / torch.cuda.get_device_properties(0).total_memory)


def take(mib):
    print("take", mib, flush=True)
    return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")


first = [take(400) for _ in range(4)]
del first
kept = [take(210) for _ in range(4)]
if "--grow" not in sys.argv:
    kept.append(take(500))
while "--grow" in sys.argv:
    kept.append(take(100))
