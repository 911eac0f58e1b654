# SPDX-License-Identifier: Apache-2.0
"""Saliency audit: Grad-CAM maps of four stages for every batch, to find images that are classified by their frame."""
import time

import torch
import torch.nn.functional as F
from torchvision.models import resnet50


class GradCAM:
    """Heat maps of some layers of a model for one batch."""

    def __init__(self, model, layers):
        self.model = model
        self.activations, self.gradients = [], []
        for layer in layers:
            layer.register_forward_hook(self._forward)

    def _forward(self, module, args, output):
        self.activations.append(output.detach())
        output.register_hook(self._backward)

    def _backward(self, grad):
        self.gradients.insert(0, grad.detach())

    def __call__(self, images):
        scores = self.model(images)
        self.model.zero_grad(set_to_none=True)
        scores.max(1).values.sum().backward()
        maps = []
        for a, g in zip(self.activations, self.gradients):
            weight = g.mean((2, 3), keepdim=True)
            cam = F.relu((weight * a).sum(1, keepdim=True))
            maps.append(F.interpolate(cam, size=images.shape[-2:], mode="bilinear"))
        return torch.stack(maps).mean(0)


def border_share(cam, width=24):
    inner = cam[..., width:-width, width:-width].sum()
    return (1 - inner / cam.sum().clamp_min(1e-9)).item()


def main():
    torch.manual_seed(0)
    model = resnet50(weights=None).cuda().eval()
    stages = [model.layer1[0], model.layer1[1], model.layer1[2], model.layer2[3]]
    suspicious, t0 = 0, time.time()
    for batch in range(200):
        images = torch.rand(256, 3, 224, 224, device="cuda")
        cam = GradCAM(model, stages)
        suspicious += border_share(cam(images)) > 0.6
        del cam
        hooks = sum(len(m._forward_hooks) for m in model.modules())
        print(f"batch {batch:3d} suspicious {suspicious} hooks {hooks} "
              f"{torch.cuda.memory_allocated() / 2**30:.1f} GiB {time.time() - t0:.1f}s", flush=True)
    print("audit finished")


if __name__ == "__main__":
    main()
