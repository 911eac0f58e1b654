# SPDX-License-Identifier: Apache-2.0
"""Streaming server: 55 long and 55 short sessions in turn, from memory that is reserved once at the start.
When the long sessions have ended, slightly longer ones arrive; the user counts on the memory of the old ones."""
import time

import numpy as np
import torch

DIM = 4096
LONG, SHORT, LONGER = 12288, 4096, 15360


def open_session(prompt, weight, tokens):
    state = torch.empty(tokens, DIM, device="cuda", dtype=torch.bfloat16)
    for _ in range(6):
        torch.mm(prompt[:tokens], weight, out=state)
    return state


@torch.no_grad()
def main():
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(8 * 2**30 / total)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    prompt = torch.empty(LONGER, DIM, device="cuda", dtype=torch.bfloat16)
    weight = (torch.randn(DIM, DIM, device="cuda") / 64).to(torch.bfloat16)
    torch.mm(prompt[:SHORT], weight)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    arena = torch.empty(7 * 2**30, device="cuda", dtype=torch.uint8)  # one cudaMalloc now, none later
    del arena
    sessions, t0 = {}, time.time()

    def read_prompt():
        text = rng.standard_normal((512, DIM), dtype=np.float32) + rng.standard_normal((512, DIM), dtype=np.float32)
        host = torch.from_numpy(text).to(torch.bfloat16)
        for row in range(0, LONGER, 512):
            prompt[row:row + 512].copy_(host)

    for i in range(55):
        read_prompt()
        sessions["long", i] = open_session(prompt, weight, LONG)
        sessions["short", i] = open_session(prompt, weight, SHORT)
        if i % 5 == 0:
            print(f"open {i} {sessions['short', i][0, 0].item():.3f} {time.time() - t0:.1f}s", flush=True)
    for i in range(55):
        del sessions["long", i]
    print(f"{torch.cuda.memory_allocated() >> 20} MiB in use of {torch.cuda.memory_reserved() >> 20} MiB", flush=True)
    for i in range(30):
        read_prompt()
        sessions["longer", i] = open_session(prompt, weight, LONGER)
        print(f"longer session {i} opened {time.time() - t0:.1f}s", flush=True)
    print("served", len(sessions))


if __name__ == "__main__":
    main()
