# SPDX-License-Identifier: Apache-2.0
"""Gaussian splatting of a street scene: rounds of optimisation, then points are cloned and pruned."""
import time

import torch
from torch import nn

GIB = 16
POINTS, SIZE, SH = 600_000, 1024, 48
CHANNELS = {"xyz": 3, "sh": SH, "scale": 3, "rotation": 4, "opacity": 1}


class Scene:
    def __init__(self, points):
        self.values = {}
        groups = []
        for name, channels in CHANNELS.items():
            self.values[name] = nn.Parameter(0.3 * torch.randn(points, channels, device="cuda"))
            groups.append({"params": [self.values[name]], "name": name})
        self.optimizer = torch.optim.Adam(groups, lr=1e-3)

    def render(self, view):
        v = self.values
        turned = v["xyz"] @ view
        depth = turned[:, 2].abs() + 1.0
        column = ((turned[:, 0] / depth + 1) * 0.5 * SIZE).clamp(0, SIZE - 1).long()
        row = ((turned[:, 1] / depth + 1) * 0.5 * SIZE).clamp(0, SIZE - 1).long()
        colour = v["sh"].view(-1, 16, 3).mean(dim=1) + 0.01 * v["rotation"].sum(dim=1, keepdim=True)
        weight = torch.sigmoid(v["opacity"]) * torch.exp(-v["scale"].square().sum(dim=1, keepdim=True)) / depth[:, None]
        image = torch.zeros(SIZE * SIZE, 3, device="cuda")
        return image.index_add(0, row * SIZE + column, colour * weight)

    def replace(self, name, rows):
        """Puts the chosen rows of a tensor, with their Adam moments, in the place of the tensor."""
        for group in self.optimizer.param_groups:
            if group["name"] != name:
                continue
            old = group["params"][0]
            state = self.optimizer.state[old]
            new = nn.Parameter(old.detach()[rows])
            self.optimizer.state[new] = {
                "step": state["step"].clone(),
                "exp_avg": state["exp_avg"][rows],
                "exp_avg_sq": state["exp_avg_sq"][rows],
            }
            group["params"][0] = new
            self.values[name] = new

    @torch.no_grad()
    def densify(self, fraction=0.1):
        count = len(self.values["opacity"])
        change = int(fraction * count)
        slope = self.values["xyz"].grad.norm(dim=1)
        busy = slope.topk(change).indices
        alive = self.values["opacity"].squeeze(1).topk(count - change).indices
        rows = torch.cat([alive, busy])
        for name in CHANNELS:
            self.replace(name, rows)
        return count


def main():
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(GIB * 2**30 / total)
    torch.manual_seed(0)
    scene = Scene(POINTS)
    start = time.time()
    for around in range(300):
        for _ in range(5):
            view = torch.linalg.qr(torch.randn(3, 3)).Q.to("cuda")
            photo = torch.rand(SIZE * SIZE, 3, device="cuda")
            loss = (scene.render(view) - photo).abs().mean()
            scene.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            scene.optimizer.step()
            time.sleep(0.04)
        count = scene.densify()
        print(f"round {around} points {count} L1 {loss.item():.4f} {time.time() - start:.1f}s", flush=True)


if __name__ == "__main__":
    main()
