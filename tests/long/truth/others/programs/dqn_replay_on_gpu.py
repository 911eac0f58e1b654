# SPDX-License-Identifier: Apache-2.0
"""DQN with 128 vectorised environments; transitions stay on the GPU so that sampling is fast.
The user chose the paper's replay size of one million transitions."""
import collections
import random
import time

import numpy as np
import torch
import torch.nn as nn

ENVS = 128


class QNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
                                 nn.Conv2d(64, 64, 3, 1), nn.ReLU(), nn.Flatten(), nn.Linear(3136, 512),
                                 nn.ReLU(), nn.Linear(512, 6))

    def forward(self, x):
        return self.net(x)


class VecEnv:
    def __init__(self):
        self.rng = np.random.default_rng(0)
        self.frames = np.zeros((ENVS, 4, 84, 84), np.float32)

    def step(self, actions):
        new = self.rng.random((ENVS, 84, 84), dtype=np.float32) * 0.1
        new[np.arange(ENVS), actions * 12] = 1.0
        self.frames = np.concatenate([self.frames[:, 1:], new[:, None]], 1)
        reward = (actions == self.rng.integers(0, 6, ENVS)).astype(np.float32)
        return self.frames, reward, self.rng.random(ENVS) < 0.01


def main(steps=7812):
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(8 * 2**30 / total)
    torch.manual_seed(0), random.seed(0)
    env, q, target = VecEnv(), QNet().to("cuda"), QNet().to("cuda")
    opt = torch.optim.Adam(q.parameters(), 1e-4)
    memory = collections.deque(maxlen=1_000_000 // ENVS)
    obs = torch.from_numpy(env.frames).to("cuda")
    t0 = time.time()
    for step in range(steps):
        with torch.no_grad():
            act = q(obs).argmax(1)
        act[torch.rand(ENVS, device="cuda") < 0.1] = 0
        frames, reward, done = env.step(act.cpu().numpy())
        nxt = torch.from_numpy(frames).to("cuda")
        memory.append((obs, act, torch.from_numpy(reward).to("cuda"), nxt, torch.from_numpy(done).to("cuda")))
        obs = nxt.clone()
        if len(memory) > 8:
            for _ in range(2):
                o, a, r, n, d = (torch.cat(t) for t in zip(*random.sample(memory, 4)))
                with torch.no_grad():
                    goal = r + 0.99 * target(n).amax(1) * (~d)
                loss = nn.functional.smooth_l1_loss(q(o).gather(1, a[:, None])[:, 0], goal)
                opt.zero_grad()
                loss.backward()
                opt.step()
            if step % 40 == 0:
                target.load_state_dict(q.state_dict())
                print(f"step {step} replay {len(memory) * ENVS} loss {loss.item():.4f} {time.time() - t0:.1f}s", flush=True)


if __name__ == "__main__":
    main()
