#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what real programs ask PyTorch's allocator for, on a real GPU, until memory is refused: fixtures of tests/lab.

usage: record_traces.py OUT [NAME...]      NAME.trace.gz each; a program runs in a process of its own

A line: "a ID BYTES", "f ID", "s" (a step ends), "r BYTES" (refused, and swallowed by PyTorch); the first line is a JSON header with what PyTorch itself counted at the
refusal. Sizes and order only: nothing of the programs' data is in it.
"""
import gzip
import json
import os
import subprocess
import sys
import time

ALLOWED = 6 << 30  # of the GPU: programs fail soon, and their traces stay small
ENTRIES_MAX = 1000000


def block(width, torch):
    nn = torch.nn
    return nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True, dropout=0.1)


def transformer(layers, width, torch):
    return torch.nn.Sequential(*[block(width, torch) for _ in range(layers)]).cuda()


def train_longer(torch, step):
    """Adam; sequences become longer until one does not fit."""
    model = transformer(6, 768, torch)
    optimizer = torch.optim.Adam(model.parameters())
    for n in range(400):
        x = torch.randn(8, 64 + 24 * n, 768, device="cuda")
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        optimizer.step()
        step()


def train_first_step(torch, step):
    """The first batch does not fit."""
    model = transformer(12, 1024, torch)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(10):
        optimizer.zero_grad()
        model(torch.randn(64, 512, 1024, device="cuda")).pow(2).mean().backward()
        optimizer.step()
        step()


def convolution(torch):
    nn = torch.nn
    sizes = (3, 64, 128, 256, 256)
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Conv2d(a, b, 3, stride=2, padding=1), nn.BatchNorm2d(b), nn.ReLU()]
    return nn.Sequential(*layers).cuda()


def outputs_kept(torch, step):
    """Evaluation keeps every output."""
    model, kept = convolution(torch), []
    with torch.no_grad():
        for _ in range(2000):
            kept.append(model[:6](torch.randn(16, 3, 192, 192, device="cuda")))
            step()


def graph_kept(torch, step):
    """total += loss keeps the graph of every step."""
    model, total = convolution(torch), 0.0
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(500):
        loss = model(torch.randn(8, 3, 160, 160, device="cuda")).pow(2).mean()
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()
        total = total + loss
        step()


def cache_by_concatenation(torch, step):
    """A KV cache as transformers' dynamic one."""
    layers = 24
    cache = [torch.zeros(16, 8, 256, 128, device="cuda", dtype=torch.half) for _ in range(2 * layers)]
    while True:
        for i, old in enumerate(cache):
            cache[i] = torch.cat([old, torch.zeros(16, 8, 16, 128, device="cuda", dtype=torch.half)], dim=2)
        torch.randn(16, 32000, device="cuda").softmax(-1)
        step()


def lengths_and_cache(torch, step):
    """Batches of all lengths beside a cache of bounded size, which is replaced at random."""
    import random
    rng = random.Random(5)
    model, cache = transformer(4, 768, torch), []
    with torch.no_grad():
        for _ in range(1500):
            x = model(torch.randn(rng.randint(1, 24), rng.randint(64, 2048), 768, device="cuda"))
            cache.append(x[:, ::5].clone())
            del x
            while sum(c.numel() * 4 for c in cache) > ALLOWED * 0.45:
                cache.pop(rng.randrange(len(cache)))
            step()


def images_of_all_sizes(torch, step):
    """Training on pictures whose edges differ, each a bit larger at most than before."""
    import random
    rng = random.Random(9)
    model = convolution(torch)
    optimizer = torch.optim.Adam(model.parameters())
    for n in range(800):
        edge = rng.randint(96, 256 + 3 * n)
        optimizer.zero_grad()
        model(torch.randn(24, 3, edge, rng.randint(96, 256 + 3 * n), device="cuda")).pow(2).mean().backward()
        optimizer.step()
        step()


PROGRAMS = {f.__name__: f for f in (train_longer, train_first_step, outputs_kept, graph_kept, cache_by_concatenation,
                                    lengths_and_cache, images_of_all_sizes)}


def trace_of(entries, ends_us):
    names, lines, last, at = {}, [], 0, 0
    refusals = [i for i, entry in enumerate(entries) if entry["action"] == "oom"]
    for entry in entries[:refusals[-1] if refusals else None]:  # PyTorch swallows some: of workspaces
        while at < len(ends_us) and entry.get("time_us", 0) > ends_us[at]:
            lines.append("s")
            at += 1
        if entry["action"] == "alloc":
            last += 1
            names[entry["addr"]] = last
            lines.append(f"a {last} {entry['size']}")
        elif entry["action"] == "free_completed" and entry["addr"] in names:
            lines.append(f"f {names.pop(entry['addr'])}")
        elif entry["action"] == "oom":
            lines.append(f"r {entry['size']}")
    return lines


def record(name, out):
    import torch
    torch.cuda.init()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(ALLOWED / total)
    torch.cuda.memory._record_memory_history("all", context=None, max_entries=ENTRIES_MAX)
    seen, ends = [], []

    def refused(_device, requested, allowed, _free):
        stats = torch.cuda.memory_stats()
        seen.append({"requested": requested, "allowed": allowed, "allocated": stats["allocated_bytes.all.current"],
                     "reserved": stats["reserved_bytes.all.current"], "retries": stats["num_alloc_retries"],
                     "split_idle": stats["inactive_split_bytes.all.current"], "peak": stats["allocated_bytes.all.peak"]})
    torch._C._cuda_attach_out_of_memory_observer(refused)
    message = ""
    try:
        PROGRAMS[name](torch, lambda: ends.append(time.time_ns() // 1000))
    except torch.OutOfMemoryError as error:
        message = str(error).split(". Process")[0]
    entries = torch.cuda.memory._snapshot()["device_traces"][0]
    lines = trace_of(entries, ends)
    header = {"program": name, "what": PROGRAMS[name].__doc__, "torch": torch.__version__, "steps": len(ends),
              "refused": seen[-1] if seen and message else None, "refusals": len(seen), "message": message}
    with gzip.GzipFile(os.path.join(out, name + ".trace.gz"), "wb", mtime=0) as file:
        file.write((json.dumps(header) + "\n" + "\n".join(lines) + "\n").encode())
    print(name, len(entries), len(lines), json.dumps(header["refused"]), flush=True)


def main():
    out, names = sys.argv[1], sys.argv[2:] or list(PROGRAMS)
    if len(names) == 1 and os.environ.get("RECORD_TRACES_CHILD"):
        record(names[0], out)
        return 0
    for name in names:
        done = subprocess.run([sys.executable, os.path.abspath(__file__), out, name], check=False, timeout=90,
                              env=dict(os.environ, RECORD_TRACES_CHILD="1"))
        if done.returncode != 0:
            print(name, "failed", done.returncode, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
