# SPDX-License-Identifier: Apache-2.0
"""Chat gateway: asyncio front end, one GPU worker, the key/value caches of open chats in a dict.
Three clients at a time; each opens a chat, asks one follow-up question and says goodbye."""
import asyncio
import json
import time

import torch
from transformers import DynamicCache, GPT2Config, GPT2LMHeadModel

CONFIG = GPT2Config(vocab_size=16384, n_positions=4096, n_embd=2048, n_layer=24, n_head=16, attn_implementation="sdpa")
PROMPT, FOLLOW_UP, SAMPLES = 2048, 64, 4


class Gateway:
    def __init__(self):
        torch.manual_seed(0)
        torch.set_default_dtype(torch.bfloat16)
        with torch.device("cuda"):
            self.model = GPT2LMHeadModel(CONFIG).eval()
        self.sessions = {}
        self.active = 0
        self.served = 0
        self.gpu = asyncio.Lock()

    @torch.inference_mode()
    def _run(self, cache, ids):
        out = self.model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
        return out.logits[:, -1].argmax(-1)

    async def handle(self, line):
        msg = json.loads(line)
        if msg["op"] == "open":
            sid = int(msg["session"])
            self.sessions[sid] = DynamicCache(config=CONFIG)
            self.active += 1
        elif msg["op"] == "close":
            # the client may have gone already, so a missing entry is fine
            self.sessions.pop(msg["session"], None)
            self.active -= 1
            self.served += 1
            return {"ok": True}
        async with self.gpu:
            gen = torch.Generator().manual_seed(msg["seed"])
            ids = torch.randint(0, CONFIG.vocab_size, (SAMPLES, msg["tokens"]), generator=gen).cuda()
            return {"answer": self._run(self.sessions[int(msg["session"])], ids).tolist()}


async def client(gateway, first, stride, chats):
    for n in range(first, chats, stride):
        sid = str(100000 + n)
        await gateway.handle(json.dumps({"op": "open", "session": sid, "seed": n, "tokens": PROMPT}))
        await asyncio.sleep(0)
        await gateway.handle(json.dumps({"op": "more", "session": sid, "seed": n + 7, "tokens": FOLLOW_UP}))
        await gateway.handle(json.dumps({"op": "close", "session": sid}))


async def report(gateway, t0):
    while True:
        await asyncio.sleep(0.5)
        print(f"{time.time() - t0:5.1f}s served {gateway.served} active {gateway.active} entries {len(gateway.sessions)} "
              f"{torch.cuda.memory_allocated() / 2**30:.1f} GiB", flush=True)


async def main():
    gateway = Gateway()
    watcher = asyncio.create_task(report(gateway, time.time()))
    await asyncio.gather(*(client(gateway, k, 3, 400) for k in range(3)))
    watcher.cancel()
    print("served", gateway.served)


asyncio.run(main())
