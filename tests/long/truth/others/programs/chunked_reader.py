# SPDX-License-Identifier: Apache-2.0
"""A Llama (its weights are random) reads 96 long documents, 256 tokens at a time, and keeps their keys and values."""
import torch
from transformers import LlamaConfig, LlamaForCausalLM

config = LlamaConfig(vocab_size=8000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=16,
                     num_attention_heads=8, num_key_value_heads=8, max_position_embeddings=65536)
torch.set_default_device("cuda")
torch.set_default_dtype(torch.bfloat16)
model = LlamaForCausalLM(config).eval()
documents = torch.randint(0, 8000, (96, 65536))
past = None
with torch.inference_mode():
    for start in range(0, 65536, 256):
        answer = model(input_ids=documents[:, start:start + 256], past_key_values=past, use_cache=True)
        past = answer.past_key_values
        following = answer.logits[:, -1].argmax(-1)
        print(f"step {start // 256} read {start + 256} tokens, next of the first {following[0].item()}", flush=True)
