# SPDX-License-Identifier: Apache-2.0
"""x4 super-resolution with a metrics log that is plotted at the end of the run."""
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self, ch=32):
        super().__init__()
        self.head = nn.Conv2d(3, ch, 3, padding=1)
        self.body = nn.Sequential(nn.Conv2d(ch, ch, 3, padding=1), nn.ReLU(True), nn.Conv2d(ch, ch, 3, padding=1))
        self.tail = nn.Sequential(nn.Conv2d(ch, 48, 3, padding=1), nn.PixelShuffle(4))

    def forward(self, x):
        h = self.head(x)
        return self.tail(h + self.body(h)) + F.interpolate(x, scale_factor=4, mode="nearest")


def psnr(pred, hr):
    return -10 * torch.log10(((pred - hr) ** 2).mean())


def edge_error(pred, hr):
    d = pred - hr
    return (d[..., 1:] - d[..., :-1]).abs().mean()


def batches(n, size=2048, batch=16):
    gen = torch.Generator("cuda").manual_seed(0)
    for _ in range(n):
        hr = torch.rand(batch, 3, size, size, device="cuda", generator=gen)
        yield F.avg_pool2d(hr, 4), hr


def train(steps=600):
    torch.manual_seed(0)
    net = Net().cuda()
    opt = torch.optim.Adam(net.parameters(), 2e-4)
    log, t0 = [], time.time()
    for step, (lr_img, hr) in enumerate(batches(steps)):
        pred = net(lr_img)
        loss = F.l1_loss(pred, hr)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        log.append({"step": step, "loss": loss.item(), "psnr": psnr(pred, hr), "edges": edge_error(pred, hr)})
        if step % 5 == 0:
            print("step %d loss %.4f psnr %.2f  %.1f GiB for %d log lines  %.1fs" % (
                step, log[-1]["loss"], float(log[-1]["psnr"]), torch.cuda.memory_allocated() / 2**30, len(log),
                time.time() - t0), flush=True)
    return log


if __name__ == "__main__":
    history = train()
    print("best psnr", max(float(line["psnr"]) for line in history))
