# SPDX-License-Identifier: Apache-2.0
"""Fine-tunes a language model of two billion parameters (here with random weights) in the usual mixed precision."""
import torch
from torch import nn

torch.manual_seed(0)
WIDTH, LAYERS = 2560, 24


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = self.qkv(self.before(x)).view(b, n, 3, 20, WIDTH // 20).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(b, n, WIDTH))
        return x + self.down(nn.functional.gelu(self.up(self.between(x))))


with torch.device("cuda"):
    model = nn.Sequential(nn.Embedding(32_000, WIDTH), *[Block() for _ in range(LAYERS)], nn.Linear(WIDTH, 32_000))
print(sum(p.numel() for p in model.parameters()) / 1e9, "billion parameters", flush=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for step in range(30):
    tokens = torch.randint(0, 32_000, (8, 1025), device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        logits = model(tokens[:, :-1])
    loss = nn.functional.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.3f}", flush=True)
