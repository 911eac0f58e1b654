# SPDX-License-Identifier: Apache-2.0
"""Reads 96 copies of a book (other names swapped in) into a small Llama, 512 tokens of each at a time.
The whole book is 16k tokens; the answers need the keys and values of all of it."""
import time

import torch
from transformers import DynamicCache, LlamaConfig, LlamaModel

BATCH, CHUNK, BOOK = 96, 512, 16384

config = LlamaConfig(
    vocab_size=32000,
    hidden_size=3072,
    intermediate_size=4096,
    num_hidden_layers=24,
    num_attention_heads=24,
    num_key_value_heads=24,
    max_position_embeddings=BOOK,
    attn_implementation="sdpa",
)


def build():
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = LlamaModel(config)
    return model.eval()


@torch.inference_mode()
def read_book(model):
    book = torch.randint(0, config.vocab_size, (BATCH, BOOK), generator=torch.Generator().manual_seed(1))
    cache = DynamicCache(config=config)
    t0 = time.time()
    for start in range(0, BOOK, CHUNK):
        ids = book[:, start:start + CHUNK].to("cuda")
        out = model(input_ids=ids, past_key_values=cache, use_cache=True)
        seen = cache.get_seq_length()
        kv = seen * BATCH * config.num_hidden_layers * config.hidden_size * 2 * 2
        print(f"read {seen:6d} tokens of each, keys and values {kv / 2**30:6.1f} GiB, "
              f"allocated {torch.cuda.memory_allocated() / 2**30:6.1f} GiB, {time.time() - t0:.1f}s", flush=True)
    return out.last_hidden_state[:, -1].float().norm(dim=-1)


if __name__ == "__main__":
    net = build()
    print("parameters", sum(p.numel() for p in net.parameters()) // 10**6, "M", flush=True)
    print("answers", read_book(net).mean().item())
