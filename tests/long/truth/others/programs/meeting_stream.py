# SPDX-License-Identifier: Apache-2.0
"""Transcribes an endless meeting: each new chunk of speech attends to everything said before."""
import time

import numpy as np
import torch
import torch.nn.functional as F

GIB = 12
LAYERS, HEADS, DIM = 16, 16, 64
WIDTH, CHUNK = HEADS * DIM, 4096


class StreamingEncoder:
    def __init__(self):
        torch.manual_seed(0)
        self.qkv = [torch.randn(WIDTH, 3 * WIDTH, device="cuda", dtype=torch.bfloat16) / 32 for _ in range(LAYERS)]
        self.past = [([], []) for _ in range(LAYERS)]

    @torch.inference_mode()
    def __call__(self, frames):
        x = frames
        for weight, (keys, values) in zip(self.qkv, self.past):
            q, k, v = (x @ weight).view(1, CHUNK, 3, HEADS, DIM).permute(2, 0, 3, 1, 4)
            keys.append(k.contiguous())
            values.append(v.contiguous())
            out = F.scaled_dot_product_attention(q, torch.cat(keys, dim=2), torch.cat(values, dim=2))
            x = x + out.transpose(1, 2).reshape(1, CHUNK, WIDTH)
            x = F.layer_norm(x, (WIDTH,))
        return x


def main():
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(GIB * 2**30 / total)
    encoder = StreamingEncoder()
    rng = np.random.default_rng(0)
    start = time.time()
    for chunk in range(240):
        sound = rng.standard_normal((1, CHUNK, WIDTH), dtype=np.float32)
        frames = torch.from_numpy(sound).to("cuda", torch.bfloat16)
        states = encoder(frames)
        words = states.float().norm(dim=2).argmax().item()
        time.sleep(0.05)
        if chunk % 4 == 0:
            print(f"chunk {chunk} heard {(chunk + 1) * CHUNK} frames, word {words}, {time.time() - start:.1f}s", flush=True)
    print("meeting over")


if __name__ == "__main__":
    main()
