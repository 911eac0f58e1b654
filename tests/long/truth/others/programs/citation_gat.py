# SPDX-License-Identifier: Apache-2.0
"""A graph attention network on a whole citation graph (drawn by chance), without sampling of neighbours."""
import torch
from torch_geometric.nn import GATConv

NODES, EDGES = 2_000_000, 90_000_000
torch.manual_seed(0)
x = torch.randn(NODES, 128, device="cuda")
edges = torch.randint(0, NODES, (2, EDGES), device="cuda")
labels = torch.randint(0, 40, (NODES,), device="cuda")
first = GATConv(128, 32, heads=8, add_self_loops=False).cuda()
second = GATConv(256, 40, heads=1, add_self_loops=False).cuda()
optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=5e-3)
for epoch in range(20):
    out = second(torch.relu(first(x, edges)), edges)
    loss = torch.nn.functional.cross_entropy(out, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.3f}", flush=True)
