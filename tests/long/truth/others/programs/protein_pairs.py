# SPDX-License-Identifier: Apache-2.0
"""Embeds protein pairs; when a batch does not fit it is halved and the same proteins are tried again."""
import time

import torch

GIB = 12
PROTEINS, RESIDUES, WIDTH = 1024, 384, 64


class PairBlock(torch.nn.Module):
    """Outer product of the residues, mixed by triangle multiplication."""

    def __init__(self):
        super().__init__()
        self.left = torch.nn.Linear(21, WIDTH)
        self.right = torch.nn.Linear(21, WIDTH)
        self.out = torch.nn.Linear(WIDTH, 16)

    def forward(self, residues):
        a, b = self.left(residues), self.right(residues)
        pair = torch.relu_(a[:, :, None, :] * b[:, None, :, :])
        channels_first = pair.permute(0, 3, 1, 2).contiguous()
        triangle = torch.matmul(channels_first, channels_first.transpose(2, 3))
        return self.out(triangle.mean(dim=3).transpose(1, 2)).mean(dim=1)


def embed(model, proteins, batch):
    done, parts = 0, []
    while done < len(proteins):
        failed = False
        try:
            residues = proteins[done:done + batch].to("cuda")
            parts.append(model(residues).cpu())
        except torch.OutOfMemoryError:
            failed = True
        if failed:
            if batch == 1:
                raise RuntimeError("a single protein does not fit")
            batch //= 2
            torch.cuda.empty_cache()
            print(f"batch too large, now {batch}", flush=True)
            continue
        done += batch
        if done // batch % 8 == 0:
            print(f"{min(done, len(proteins))} proteins embedded", flush=True)
        time.sleep(0.02)
    return torch.cat(parts), batch


@torch.inference_mode()
def main():
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(GIB * 2**30 / total)
    torch.manual_seed(0)
    model = PairBlock().to("cuda")
    proteins = torch.nn.functional.one_hot(torch.randint(21, (PROTEINS, RESIDUES)), 21).float()
    start = time.time()
    vectors, batch = embed(model, proteins, batch=512)
    print(f"{len(vectors)} vectors, batch {batch}, norm {vectors.norm():.2f}, {time.time() - start:.1f}s")


if __name__ == "__main__":
    main()
