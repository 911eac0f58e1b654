# SPDX-License-Identifier: Apache-2.0
"""Answers chat requests with asyncio; a request that takes longer than two minutes is broken off."""
import asyncio
import itertools
import random

import torch
import torch.nn.functional as F

GIB = 12
LAYERS, HEADS, DIM = 24, 16, 64
WIDTH = HEADS * DIM
TIMEOUT = 120.0


class Request:
    ids = itertools.count()

    def __init__(self, length):
        self.id = next(self.ids)
        self.length = length
        self.kv = None
        self.done = False


class Engine:
    def __init__(self):
        torch.manual_seed(0)
        self.qkv = [torch.randn(WIDTH, 3 * WIDTH, device="cuda", dtype=torch.bfloat16) / 32 for _ in range(LAYERS)]
        self.running = {}

    def abort(self, request):
        if not request.done:
            print(f"request {request.id} broken off", flush=True)
            self.running.pop(request.id, None)

    @torch.inference_mode()
    def prefill(self, request):
        x = torch.randn(1, request.length, WIDTH, device="cuda", dtype=torch.bfloat16)
        request.kv = []
        for weight in self.qkv:
            q, k, v = (x @ weight).view(1, -1, 3, HEADS, DIM).permute(2, 0, 3, 1, 4)
            request.kv.append((k.contiguous(), v.contiguous()))
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = F.layer_norm(out.transpose(1, 2).reshape(1, -1, WIDTH), (WIDTH,))
        return x[:, -1:]

    @torch.inference_mode()
    def decode(self, request, x):
        for weight, (k, v) in zip(self.qkv, request.kv):
            q = (x @ weight)[..., :WIDTH].view(1, 1, HEADS, DIM).transpose(1, 2)
            x = F.layer_norm(F.scaled_dot_product_attention(q, k, v).reshape(1, 1, WIDTH), (WIDTH,))
        return x

    async def answer(self, length):
        request = Request(length)
        self.running[request.id] = request
        asyncio.get_running_loop().call_later(TIMEOUT, self.abort, request)
        x = self.prefill(request)
        words = []
        for _ in range(8):
            x = self.decode(request, x)
            words.append(x.float().abs().mean().item())
            await asyncio.sleep(0.02)
        request.done = True
        del self.running[request.id]
        return request.id, sum(words)


async def client(engine, seed, turns=60):
    rng = random.Random(seed)
    for _ in range(turns):
        number, score = await engine.answer(rng.randrange(1024, 4096, 64))
        print(f"answered {number} score {score:.3f} running {len(engine.running)}", flush=True)


async def main():
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(GIB * 2**30 / total)
    engine = Engine()
    await asyncio.gather(*(client(engine, seed) for seed in range(2)))
    print("all clients served")


if __name__ == "__main__":
    asyncio.run(main())
