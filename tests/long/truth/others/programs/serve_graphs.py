# SPDX-License-Identifier: Apache-2.0
"""Serves a feed-forward model; for every number of tokens the work is recorded as a CUDA graph and played again."""
import random
import time

import torch
from torch import nn

torch.cuda.set_per_process_memory_fraction(0.3)
model = nn.Sequential(nn.Linear(4096, 16384), nn.GELU(), nn.Linear(16384, 4096), nn.LayerNorm(4096),
                      nn.Linear(4096, 16384), nn.GELU(), nn.Linear(16384, 4096)).cuda().half().eval()


class Recorded:
    def __init__(self, tokens):
        self.input = torch.zeros(tokens, 4096, device="cuda", dtype=torch.half)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            model(self.input)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.output = model(self.input)

    def __call__(self, tokens):
        self.input.copy_(tokens)
        self.graph.replay()
        return self.output.clone()


recorded = {}
random.seed(5)
with torch.inference_mode():
    for request in range(5000):
        tokens = random.randint(512, 8192)
        if tokens not in recorded:
            recorded[tokens] = Recorded(tokens)
        answer = recorded[tokens](torch.randn(tokens, 4096, device="cuda", dtype=torch.half))
        time.sleep(0.04)  # until the next request
        if request % 10 == 0:
            print(f"request {request} tokens {tokens} mean {answer.float().mean().item():.4f}", flush=True)
