# SPDX-License-Identifier: Apache-2.0
"""An agent with a replay buffer of the last 20,000 steps of 512 games, kept on the GPU."""
import random
from collections import deque

import torch
from torch import nn

torch.cuda.set_per_process_memory_fraction(0.3)
CAPACITY, GAMES = 20_000, 512
buffer = deque(maxlen=CAPACITY)
net = nn.Sequential(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 1),
                    nn.ReLU(), nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 6)).cuda()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-4)
frame = torch.randint(0, 255, (GAMES, 4, 84, 84), device="cuda", dtype=torch.uint8)
for step in range(100_000):
    with torch.no_grad():
        action = net(frame.float() / 255).argmax(1)
    following = frame.roll(1, dims=1)
    following[:, 0] = torch.randint(0, 255, (GAMES, 84, 84), device="cuda", dtype=torch.uint8)
    reward = (action == step % 6).float()
    buffer.append((frame, action, reward, following.clone()))
    frame = following
    if len(buffer) > 64 and step % 4 == 0:
        old, did, got, new = random.choice(buffer)
        with torch.no_grad():
            target = got + 0.99 * net(new.float() / 255).amax(1)
        loss = nn.functional.smooth_l1_loss(net(old.float() / 255).gather(1, did[:, None])[:, 0], target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 200 == 0:
            print(f"step {step} buffer {len(buffer)} of {CAPACITY} loss {loss.item():.4f}", flush=True)
