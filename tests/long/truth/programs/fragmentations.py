# SPDX-License-Identifier: Apache-2.0
"""Fragmentation: small survivors pin the segments of a cache, and what is free is in pieces too small.

Rules of PyTorch's allocator that these use: up to 1 MiB comes out of segments of 2 MiB, below 10 MiB out of
segments of 20 MiB, more has a segment of its own size; a free block is split for a smaller request; a stream
uses its own blocks only; a segment goes back to the driver only when all of it is free. The cure 'holes' moves
the survivors to the host and back at the point where they begin to matter: the same bytes are alive then.
"""
import os
import random

from registry import MIB, program


def compact(run, torch, tensors):
    """The survivors leave the card and come back, so that whole segments can be released in between."""
    if run.cured("holes"):
        host = [tensor.cpu() for tensor in tensors]
        tensors.clear()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        tensors.extend(tensor.to(run.device) for tensor in host)


def block(run, torch, size):
    return torch.empty(int(size) // 4, device=run.device)


def use_blocks(run, torch, part, count):
    """The phase that needs room: so many blocks, each a part of what the program may take, all used at once."""
    blocks = []
    for _ in run.steps(count, pause=0.05):
        blocks.append(block(run, torch, run.share(part)).normal_())
    return sum(float(b[0]) for b in blocks)


@program("fragmentation", "a table of 16 MiB pins the workspace of each of 20 streams, 90 % of the card, for others",
         cures=["holes"])
def frag_stream_workspaces(run):
    """Twenty streams with a large workspace each, in which each leaves a small table; then one large matrix."""
    torch = run.torch()
    tables, streams = [], [torch.cuda.Stream() for _ in range(20)]
    for number in run.steps(len(streams), pause=0.3):
        with torch.cuda.stream(streams[number]):
            work = block(run, torch, run.share(0.9 / len(streams))).normal_()
            best = float(work[:1000].max())
            del work
            tables.append(torch.full((4 * MIB,), best, device=run.device))
    torch.cuda.synchronize()
    compact(run, torch, tables)
    use_blocks(run, torch, 0.1, 4)


@program("fragmentation", "each segment of 2 MiB keeps two rows of 24 KiB alive, 97 % of it is free and unusable",
         cures=["holes"])
def frag_raw_and_rows(run):
    """Loads samples with a small row each, drops the samples, keeps the rows, then trains with large blocks."""
    torch = run.torch()
    samples, rows = [], []
    for _ in run.steps(int(run.share(0.85) / MIB / 100), pause=0.002):
        for _ in range(100):
            raw = torch.zeros(256_000, device=run.device)
            samples.append(raw)
            rows.append(raw[:6144].clone())
    samples.clear()
    compact(run, torch, rows)
    use_blocks(run, torch, 0.03, 12)


@program("fragmentation", "one page of 4 MiB in five survives, in every segment of 20 MiB", cures=["holes"])
def frag_prefix_pages(run):
    """Serves requests with five pages of key-value cache each, keeps the prefix pages, then loads a reranker."""
    torch = run.torch()
    requests, prefixes = [], []
    for _ in run.steps(int(run.share(0.9) / MIB / 20 / 16), pause=0.015):
        for _ in range(16):
            requests.append([torch.zeros(2, 16, 128, 512, dtype=torch.bfloat16, device=run.device) for _ in range(5)])
    prefixes.extend(pages[0] for pages in requests)
    requests.clear()
    compact(run, torch, prefixes)
    use_blocks(run, torch, 0.02, 20)


@program("fragmentation", "half of each segment of 20 MiB is free, in holes of 9.5 MiB; 12 MiB are asked for",
         cures=["holes"])
def frag_half_evicted(run):
    """A cache of images on the card; every second one is dropped, then larger images are to fill the room."""
    torch = run.torch()
    cache = []
    for _ in run.steps(int(run.share(0.9) / MIB / 20 / 16), pause=0.01):
        cache.extend(block(run, torch, 9.5 * MIB).zero_() for _ in range(32))
    del cache[::2]
    compact(run, torch, cache)
    larger = []
    for _ in run.steps(int(run.share(0.3) / MIB / 12 / 16), pause=0.01):
        larger.extend(block(run, torch, 12 * MIB).normal_() for _ in range(16))
    print("images", len(cache), len(larger))


@program("fragmentation", "the warm-up's segments are cut into shards and small tables; the tables stay between holes",
         cures=["holes"])
def frag_warm_up_then_shards(run):
    """Warms up with the largest batch, loads raw shards with a small table each, drops the shards, trains."""
    torch = run.torch()
    model = torch.nn.Sequential(*[m for _ in range(4) for m in (torch.nn.Linear(2048, 2048), torch.nn.GELU())])
    model = model.to(run.device)
    model(torch.randn(run.rows(0.08, 8192), 2048, device=run.device)).mean().backward()
    model.zero_grad()
    raws, tables = [], []
    for _ in run.steps(140, pause=0.03):
        raws.append(block(run, torch, run.share(0.005)).normal_())
        tables.append(block(run, torch, run.share(0.0004)).copy_(raws[-1][:run.share(0.0004) // 4]))
    raws.clear()
    compact(run, torch, tables)
    use_blocks(run, torch, 0.02, 36)


@program("fragmentation", "each step's input is larger than all holes before it, and 45 % of each old one is a hole",
         cures=["holes"])
def frag_sorted_lengths(run):
    """Encodes documents sorted by length; the states of each batch, 55 % of it, stay on the card."""
    torch = run.torch()
    states, previous = [], 0
    for step in run.steps(64, pause=0.08):
        size = run.share(0.012 + 0.00025 * step)
        hidden = block(run, torch, size).normal_()
        states.append(block(run, torch, 0.55 * size).copy_(hidden[:int(0.55 * size) // 4]))
        previous += float(hidden[0])
        del hidden
        if step == 46:
            compact(run, torch, states)


@program("fragmentation", "a feature of 2 MiB survives in every segment of 20 MiB that the graphs' activations filled",
         cures=["holes"])
def frag_accumulated_graphs(run):
    """Sums the loss of thousands of small graphs, keeps a feature of each, then doubles the resolution."""
    torch = run.torch()
    layer, features, losses = torch.nn.Linear(512, 512).to(run.device), [], 0.0
    for _ in run.steps(int(run.share(0.8) / MIB / 16 / 10), pause=0.003):
        for _ in range(10):
            out = layer(torch.randn(3072, 512, device=run.device)).tanh()
            features.append(out[:1024].detach().clone())
            losses = losses + out.mean()
    losses.backward()
    layer.zero_grad()
    del out, losses
    compact(run, torch, features)
    use_blocks(run, torch, 0.02, 25)


@program("fragmentation", "the survivors of each level leave holes smaller than the tiles of the next level",
         cures=["holes"])
def frag_tile_pyramid(run):
    """Builds a pyramid of tiles of 1.25, 9.25 and 37 MiB; of each level a part survives."""
    torch = run.torch()
    kept = []
    for size, part, every, pause in ((1.25, 0.45, 8, 0.03), (9.25, 0.42, 2, 0.03)):
        level, batch = [], int(160 / size)
        for _ in run.steps(int(run.share(part) / (160 * MIB)), pause=pause):
            level.extend(block(run, torch, size * MIB).zero_() for _ in range(batch))
        kept.extend(level[::every])
        level.clear()
    compact(run, torch, kept)
    large = []
    for _ in run.steps(int(run.share(0.35) / (37 * MIB * 8)), pause=0.03):
        large.extend(block(run, torch, 37 * MIB).normal_() for _ in range(8))


@program("fragmentation", "tables of hot and cold experts lie between the experts in segments that held whole files",
         cures=["holes"])
def frag_expert_swap(run):
    """Reads files of weights as one block each, then experts of random size into that room; most are swapped out."""
    torch = run.torch()
    rng = random.Random(11)
    files = [block(run, torch, run.share(0.13)).normal_() for _ in range(7)]
    print("read", len(files), "files")
    files.clear()
    experts, tables = [], []
    for _ in run.steps(140, pause=0.03):
        experts.append(block(run, torch, run.share(rng.uniform(0.003, 0.009))).normal_())
        tables.append(block(run, torch, run.share(0.0004)).zero_())
    hot = experts[::20]
    experts.clear()
    tables.extend(hot)
    hot.clear()
    compact(run, torch, tables)
    use_blocks(run, torch, 0.03, 18)


@program("fragmentation", "a setting rounds requests just above a power of two up by half: waste inside blocks, not between",
         cures=["holes"])
def frag_power_of_two(run):
    """Keeps features under a setting that rounds sizes up in large steps."""
    if not run.cured("holes"):
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "roundup_power2_divisions:2"
    torch = run.torch()
    power = 1 << (int(run.share(0.012)).bit_length() - 1)
    features = []
    for _ in run.steps(int(run.share(0.85) / (1.02 * power)), pause=0.06):
        features.append(block(run, torch, 1.02 * power).normal_())
    print("mean", sum(float(feature[0]) for feature in features))


@program("fragmentation", "small results of the first pass lie between the freed images of one pool chunk",
         cures=["holes"], library="cupy")
def frag_cupy_images(run):
    """CuPy: warms the pool up with one large array, cuts images and small results from it, drops the images."""
    cupy = run.cupy()
    warm = cupy.zeros(run.share(0.9) // 4, dtype=cupy.float32)
    del warm
    images, results = [], []
    for _ in run.steps(130, pause=0.04):
        images.append(cupy.ones(run.share(0.006) // 4, dtype=cupy.float32))
        results.append(images[-1][:run.share(0.0004) // 4] * 2)
    images.clear()
    if run.cured("holes"):
        host = [cupy.asnumpy(result) for result in results]
        results.clear()
        cupy.get_default_memory_pool().free_all_blocks()
        results.extend(cupy.asarray(result) for result in host)
    cubes = []
    for _ in run.steps(20, pause=0.05):
        cubes.append(cupy.ones(run.share(0.025) // 4, dtype=cupy.float32))


@program("fragmentation", "features lie between the holes of dropped images in the one arena of JAX's pool",
         cures=["holes"], library="jax")
def frag_jax_features(run):
    """JAX: puts images on the device with a small feature each, drops the images, then needs large arrays."""
    jax = run.jax()
    images, features = [], []
    for _ in run.steps(130, pause=0.04):
        images.append(jax.numpy.zeros(run.share(0.0065) // 4).block_until_ready())
        features.append(jax.numpy.ones(run.share(0.0004) // 4).block_until_ready())
    images.clear()
    if run.cured("holes"):
        host = [jax.device_get(feature) for feature in features]
        features.clear()
        features.extend(jax.device_put(feature) for feature in host)
    grids = []
    for _ in run.steps(20, pause=0.05):
        grids.append(jax.numpy.zeros(run.share(0.025) // 4).block_until_ready())
