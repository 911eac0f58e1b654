# SPDX-License-Identifier: Apache-2.0
"""Pathology: a slide is first looked at as a whole, then the tiles that look worst are read closely and kept for
the comparison with the other slides of the same patient."""
import time

import numpy as np
import torch

GIB = 16
PATCH, WIDTH, EMBED = 192, 4096, 256          # 8 x 8 pixels in colour
TILE = 2048                                    # patches in a tile
SLIDES = [524_288, 540_672, 532_480]           # patches of each slide


class Reader:
    def __init__(self):
        self.inside = torch.randn(PATCH, WIDTH, device="cuda") / PATCH ** 0.5
        self.outside = torch.randn(WIDTH, EMBED, device="cuda") / WIDTH ** 0.5
        self.score = torch.randn(EMBED, 1, device="cuda") / EMBED ** 0.5

    def features(self, patches):
        return torch.mm(patches, self.inside).relu_()

    def overview(self, patches):
        """One number for each patch of the slide."""
        embedded = torch.mm(self.features(patches), self.outside)
        return torch.mm(embedded, self.score).squeeze(1)


def scan(rng, count):
    """The scanner's file, as float patches on the host."""
    strip = rng.standard_normal((16384, PATCH), dtype=np.float32)
    return torch.from_numpy(np.tile(strip, (count // 16384 + 1, 1))[:count])


@torch.no_grad()
def main():
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(GIB * 2**30 / total)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    reader = Reader()
    torch.mm(torch.randn(64, PATCH, device="cuda"), reader.inside)
    suspicious = []
    start = time.time()
    for number, count in enumerate(SLIDES):
        host = scan(rng, count)
        grades = reader.overview(host.to("cuda")).cpu().numpy()
        print(f"slide {number}: {count} patches, grade {grades.mean():+.3f}, {time.time() - start:.1f}s", flush=True)
        tiles = grades[:count // TILE * TILE].reshape(-1, TILE).max(axis=1)
        for rank, tile in enumerate(np.argsort(-tiles)[:72]):
            patches = host[tile * TILE:(tile + 1) * TILE].to("cuda")
            suspicious.append((number, int(tile), reader.features(patches)))
            time.sleep(0.03)
            if rank % 12 == 0:
                used, held = torch.cuda.memory_allocated() >> 20, torch.cuda.memory_reserved() >> 20
                print(f"  tile {tile}: {used} MiB of {held} MiB", flush=True)
    same = [torch.mm(a[2][:256], b[2][:256].T).mean().item() for a, b in zip(suspicious, suspicious[1:])]
    print(f"{len(suspicious)} tiles compared, mean likeness {np.mean(same):.3f}")


if __name__ == "__main__":
    main()
