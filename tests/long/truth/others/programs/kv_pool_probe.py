# SPDX-License-Identifier: Apache-2.0
"""Start of an inference server: finds how large a key/value pool the card can give, then decodes in it."""
import time

import torch

GIB = 2**30
PAGE = 16 * 8 * 128 * 2 * 2  # tokens, heads, head size, key and value, bytes


def largest_pool(total, reserve=6 * GIB):
    """Largest pool that still leaves the reserve; asks the driver instead of trusting any number."""
    size = total
    while size > GIB:
        try:
            probe = torch.empty(size + reserve, dtype=torch.uint8, device="cuda")
        except torch.cuda.OutOfMemoryError:
            print(f"  {size / GIB:.1f} GiB + reserve: refused", flush=True)
            size -= 4 * GIB
            continue
        del probe
        torch.cuda.empty_cache()
        return size
    raise SystemExit("no room for a pool")


@torch.inference_mode()
def serve():
    torch.manual_seed(0)
    w = [torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) / 90 for _ in range(40)]
    size = largest_pool(torch.cuda.get_device_properties(0).total_memory)
    pages = size // PAGE
    pool = torch.empty(pages, 2, 16, 8, 128, dtype=torch.bfloat16, device="cuda")
    print(f"pool of {pages} pages, {pool.nbytes / GIB:.1f} GiB", flush=True)
    x, t0 = torch.randn(2048, 8192, device="cuda", dtype=torch.bfloat16), time.time()
    for token in range(120):
        for layer in w:
            x = torch.nn.functional.rms_norm(x @ layer, (8192,)) + x * 0.5
        kv = x[:, :2048].reshape(-1, 2, 1, 8, 128)
        where = (torch.arange(len(kv), device="cuda") * 7919 + token * 104729) % pages
        pool[where, :, token % 16] = kv[:, :, 0]
        if token % 30 == 0:
            print(f"token {token} {x.float().norm().item():.1f} {time.time() - t0:.1f}s", flush=True)
    for chunk in pool.split(pages // 64 + 1):
        chunk.zero_()
    torch.cuda.synchronize()
    print("served, pool used to", round(torch.cuda.max_memory_allocated() / GIB, 1), "GiB")


if __name__ == "__main__":
    serve()
