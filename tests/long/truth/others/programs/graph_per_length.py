# SPDX-License-Identifier: Apache-2.0
"""Embedding server that captures a CUDA graph for every prompt length it meets, to save launch time.
The user replays a captured graph when the same length comes again, and never drops one."""
import time

import numpy as np
import torch
import torch.nn as nn

DIM, DEPTH, BATCH = 1024, 6, 8


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv, self.o = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.up, self.down = nn.Linear(DIM, 4 * DIM), nn.Linear(4 * DIM, DIM)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, 8, -1).permute(2, 0, 3, 1, 4)
        att = torch.softmax(q @ k.transpose(-1, -2) / 11.3, -1)
        x = x + self.o((att @ v).transpose(1, 2).reshape(b, t, DIM))
        return x + self.down(torch.relu(self.up(self.n2(x))))


class Server:
    def __init__(self):
        self.model = nn.Sequential(*[Block() for _ in range(DEPTH)]).to("cuda").eval()
        self.side = torch.cuda.Stream()
        self.graphs = {}

    def capture(self, length):
        static_in = torch.zeros(BATCH, length, DIM, device="cuda")
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            for _ in range(2):
                self.model(static_in)
        torch.cuda.current_stream().wait_stream(self.side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            static_out = self.model(static_in)
        self.graphs[length] = (graph, static_in, static_out)

    @torch.no_grad()
    def embed(self, x):
        length = x.shape[1]
        if length not in self.graphs:
            self.capture(length)
        graph, static_in, static_out = self.graphs[length]
        for _ in range(10):
            static_in.copy_(x)
            graph.replay()
        return static_out.mean(1).cpu()


def main(requests=2000):
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(9 * 2**30 / total)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    server, t0 = Server(), time.time()
    for i in range(requests):
        length = int(rng.integers(160, 520))
        x = torch.from_numpy(rng.standard_normal((BATCH, length, DIM), dtype=np.float32)).to("cuda")
        vec = server.embed(x)
        if i % 5 == 0:
            print(f"request {i} length {length} graphs {len(server.graphs)} norm {vec.norm():.2f} "
                  f"{time.time() - t0:.1f}s", flush=True)


if __name__ == "__main__":
    main()
