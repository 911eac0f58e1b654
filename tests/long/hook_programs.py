# SPDX-License-Identifier: Apache-2.0
"""Programs that end, on a real GPU, in one way each: hook_programs.py NAME. Run by hook_gpu.py.

Sizes are shares of the card, so that any card is filled; none of them is that of a recording.
"""
import ctypes
import json
import os
import random
import signal
import sys
import time

MIB, GIB = 1 << 20, 1 << 30


def torch_and_total():
    import torch
    return torch, torch.cuda.get_device_properties(0).total_memory


def block(torch, size):
    return torch.empty(int(size), dtype=torch.uint8, device="cuda")


def small_step(torch, weights, size=512):
    x = torch.randn(size, size, device="cuda")
    for w in weights:
        x = torch.relu(x @ w)
    return x.sum()


def weights_of(torch, count=8, size=512):
    return [torch.randn(size, size, device="cuda") / size ** 0.5 for _ in range(count)]


def capacity():
    """Layers of 3.1 to 4.7 GiB are loaded until the card is full."""
    torch, _ = torch_and_total()
    layers, rng = [], random.Random(5)
    while True:
        layers.append(block(torch, rng.uniform(3.1, 4.7) * GIB).fill_(1))
        time.sleep(0.05)


def capacity_step():
    """Steady steps, then a batch whose activations need two thirds of the card beside the model."""
    torch, total = torch_and_total()
    model = block(torch, 0.45 * total)
    for _ in range(120):
        activations = block(torch, 0.1 * total)
        time.sleep(0.02)
        del activations
    block(torch, 0.66 * total)
    return model


def fragmentation():
    """Blocks of 3 to 9 MiB fill most of the card; 60 % go at random; then 5 GiB at a time."""
    torch, total = torch_and_total()
    rng = random.Random(11)
    blocks, size = [], 0
    while size < 0.92 * total:
        blocks.append(block(torch, rng.uniform(3, 9) * MIB))
        size += blocks[-1].numel()
    rng.shuffle(blocks)
    del blocks[:int(0.6 * len(blocks))]
    time.sleep(1)
    large = []
    while True:
        large.append(block(torch, 5 * GIB))


def leak():
    """Every step keeps its outputs in a list."""
    torch, total = torch_and_total()
    weights, history = weights_of(torch), []
    while True:
        work = block(torch, 0.02 * total)
        history.append(block(torch, total / 300))
        small_step(torch, weights).item()
        del work
        time.sleep(0.05)


def leak_swap():
    """A model of a third of the card is loaded and dropped; a part of each stays referenced."""
    torch, total = torch_and_total()
    kept = []
    while True:
        model = [block(torch, 0.06 * total) for _ in range(5)]
        for _ in range(4):
            time.sleep(0.1)
        kept.append(block(torch, 0.015 * total))
        model.clear()
        time.sleep(0.1)


def held():
    """hook_gpu.py has started another process that holds four fifths of the card."""
    torch, total = torch_and_total()
    model = block(torch, 0.1 * total)
    time.sleep(1)
    block(torch, 0.25 * total)
    return model


def hold():
    torch, total = torch_and_total()
    keep = block(torch, 0.8 * total)
    print("held", flush=True)
    time.sleep(600)
    return keep


def raw_malloc(torch):
    """The runtime's own allocation, beside PyTorch's: size -> error code."""
    name = "libamdhip64.so" if torch.version.hip else "libcudart.so"
    with open("/proc/self/maps", encoding="utf-8") as maps:
        path = next(line.split()[-1] for line in maps if name in line)
    function = getattr(ctypes.CDLL(path), "hipMalloc" if torch.version.hip else "cudaMalloc")
    return lambda size: function(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(int(size)))


def cache_greed():
    """PyTorch's cache keeps what a plain cudaMalloc then does not get."""
    torch, total = torch_and_total()
    blocks = [block(torch, 0.047 * total) for _ in range(20)]
    small = block(torch, 30 * MIB)
    blocks.clear()
    time.sleep(1.5)
    code = raw_malloc(torch)(0.2 * total)
    if code != 0:
        raise RuntimeError(f"cudaMalloc returned {code} for {int(0.2 * total)} bytes")
    return small


def beside():
    """An extension forgets a buffer in each step; PyTorch itself stays as it is."""
    torch, total = torch_and_total()
    model, weights = block(torch, 0.3 * total), weights_of(torch)
    malloc, forgotten = raw_malloc(torch), total // 700  # the driver is asked each second or two
    while torch.cuda.mem_get_info()[0] > 0.06 * total:  # the failure is to be PyTorch's
        work = block(torch, 0.05 * total)
        small_step(torch, weights).item()
        malloc(forgotten)
        time.sleep(0.05)
        del work
        torch.cuda.empty_cache()
    block(torch, 0.1 * total)
    return model


def on_the_way():
    """The same, slower, and ended by something else long before the card is full; says the truth."""
    torch, total = torch_and_total()
    malloc, step, began = raw_malloc(torch), total // 1500, time.monotonic()
    model = block(torch, 0.2 * total)
    for _ in range(160):
        malloc(step)
        time.sleep(0.1)
    free = torch.cuda.mem_get_info()[0]
    rate = 160 * step / (time.monotonic() - began)
    print(json.dumps({"full_in_min": free / rate / 60}), flush=True)
    raise LookupError("nothing to do with memory")
    return model


def graphs():
    """Graphs of many shapes, each with a pool of its own, lie idle; then a batch without a graph."""
    torch, total = torch_and_total()
    kept = []
    for i in range(6):
        size = int(0.1 * total) + i * GIB
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            work = block(torch, size)
            work.fill_(1)
            del work
        kept.append(graph)
    model = block(torch, 0.1 * total)
    time.sleep(0.5)
    block(torch, 0.5 * total)
    return model


def expandable():
    """Fragments of expandable segments: small blocks that live long keep their pages."""
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = os.environ["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"
    fragmentation()


def who_grew():
    """leak, with call sites recorded: run with --torch-history."""
    torch, total = torch_and_total()
    weights, history = weights_of(torch), []
    steady = [block(torch, 0.02 * total) for _ in range(8)]

    def remember():
        history.append(block(torch, total / 600))
    while True:
        work = block(torch, 0.02 * total)
        remember()
        small_step(torch, weights).item()
        del work
        time.sleep(0.05)
    return steady


def net_of(torch, width=4096, depth=12):
    return torch.nn.Sequential(*[m for _ in range(depth) for m in (torch.nn.Linear(width, width), torch.nn.GELU())]).cuda()


def retain():
    """losses.append(loss): the graph of each step stays, and is a third of what the step takes."""
    torch, _ = torch_and_total()
    net, losses = net_of(torch), []
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)
    while True:
        optimizer.zero_grad()
        loss = net(torch.randn(2048, 4096, device="cuda")).pow(2).mean()
        loss.backward(retain_graph=True)
        optimizer.step()
        losses.append(loss)
        loss.item()


def load_weights():
    """A checkpoint larger than the card: parts of one size, each converted on the card. It grows as a leak does."""
    torch, total = torch_and_total()
    parts = []
    while True:
        wide = torch.zeros(int(total / 60 / 2), dtype=torch.float32, device="cuda")
        parts.append(wide.to(torch.float16))
        del wide
        time.sleep(0.25)


def in_backward():
    """The thread that asks is autograd's own, and has no Python in it."""
    torch, total = torch_and_total()
    x = torch.zeros(int(0.18 * total / 4), device="cuda", requires_grad=True)
    y = x.exp().exp().exp().exp()  # each keeps what it made for the way back
    time.sleep(0.5)
    y.sum().backward()


def second_gpu():
    """The second card is full, the first nearly empty."""
    torch, total = torch_and_total()
    first = block(torch, 0.02 * total)
    second = [torch.empty(int(0.11 * total), dtype=torch.uint8, device="cuda:1") for _ in range(8)]
    time.sleep(0.5)
    second.append(torch.empty(int(0.2 * total), dtype=torch.uint8, device="cuda:1"))
    return first


def rank(_, share):
    torch, total = torch_and_total()
    parts = []
    for _ in range(10):
        parts.append(block(torch, share * total / 10))
        time.sleep(0.2)
    time.sleep(2)


def ranks():
    """Two ranks of a job on one card: neither would have failed alone."""
    import torch.multiprocessing
    torch.multiprocessing.spawn(rank, args=(0.6,), nprocs=2)


def sampled(parts=400, steps=1250):
    """The loop with the hook's sampling thread at ten a second and without, in turn in one process: what the
    thread costs, without what differs from process to process. Run under rocmcrash."""
    import gc
    import torch
    weights = weights_of(torch, 4, 256)
    for _ in range(500):
        small_step(torch, weights, 256)
    torch.cuda.synchronize()
    names = next(o for o in gc.get_objects() if type(o) is dict and o.get("__name__") == "rocmcrash_torch")
    names["sampler"]._period_of_age.__func__.__globals__["PERIODS"] = ((1e9, 0.1),)
    names["sampler"].stop()
    took = {"with": [], "without": []}
    for i in range(parts):
        kind = "with" if i % 4 in (0, 3) else "without"
        if kind == "with":
            names["sampler"].start()
        begun = time.perf_counter()
        for _ in range(steps):
            small_step(torch, weights, 256)
        torch.cuda.synchronize()
        took[kind].append(time.perf_counter() - begun)
        if kind == "with":
            names["sampler"].stop()
    medians = {kind: sorted(values)[len(values) // 2] for kind, values in took.items()}
    print(json.dumps({"parts": parts, "part_s": medians["without"], "ratio_of_medians": medians["with"] / medians["without"],
                      "ratio_of_means": sum(took["with"]) / sum(took["without"]),
                      "ratio_of_means_95": interval(took["with"], took["without"])}))
    names["sampler"].start()


def interval(some, others, draws=2000):
    """95 % of the ratios of means of as many parts, drawn from these with replacement."""
    rng = random.Random(7)
    ratios = sorted(sum(rng.choices(some, k=len(some))) / sum(rng.choices(others, k=len(others))) for _ in range(draws))
    return [round(ratios[int(share * draws)], 4) for share in (0.025, 0.975)]


def marks(count=300):
    """How long what a mark does holds the interpreter: with `count` blocks in use."""
    torch, _ = torch_and_total()
    keep = [block(torch, (i % 7 + 1) << 18) for i in range(count)]
    took = []
    for _ in range(200):
        begun = time.perf_counter()
        torch.cuda.memory.memory_snapshot()
        took.append(time.perf_counter() - begun)
    print(json.dumps({"blocks": len(keep), "median_us": sorted(took)[100] * 1e6, "worst_us": max(took) * 1e6}))


def illegal():
    """A kernel writes far beyond its tensor."""
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def stray(pointer, offset):
        tl.store(pointer + offset, 1.0)

    weights = weights_of(torch)
    for _ in range(20):
        small_step(torch, weights).item()
    x = torch.zeros(1024, device="cuda")
    stray[(1,)](x, 1 << 41)
    torch.cuda.synchronize()


def killed():
    """SIGKILL in the middle of a step."""
    torch, total = torch_and_total()
    weights, keep = weights_of(torch), block(torch, 0.3 * total)
    for step in range(1000):
        small_step(torch, weights)
        if step == 400:
            time.sleep(1.5)
            os.kill(os.getpid(), signal.SIGKILL)
    return keep


def swallowed():
    """The exception is caught, and the process leaves without a word."""
    torch, total = torch_and_total()
    model = block(torch, 0.7 * total)
    time.sleep(0.5)
    try:
        block(torch, 0.5 * total)
    except Exception:
        os._exit(3)
    return model


def healthy(steps=300):
    torch, total = torch_and_total()
    weights = weights_of(torch)
    for _ in range(steps):
        work = block(torch, 0.01 * total)
        small_step(torch, weights).item()
        del work
    torch.cuda.synchronize()
    print(json.dumps({"mem_get_info": torch.cuda.mem_get_info(),
                      "stats": torch.cuda.memory_stats()}))


def handled():
    """A batch size is looked for by failing; the run ends well."""
    torch, total = torch_and_total()
    for share in (1.5, 1.1, 0.5):
        try:
            work = block(torch, share * total)
            break
        except torch.OutOfMemoryError:
            continue
    del work
    healthy(50)


def equal():
    """Prints torch's own figures at the failure, to be compared with the observer's."""
    torch, total = torch_and_total()
    rng = random.Random(3)
    keep = [block(torch, rng.uniform(1, 30) * MIB) for _ in range(2000)]
    for _ in range(900):
        keep.pop(rng.randrange(len(keep)))
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        other = block(torch, 300 * MIB)
    del other
    told = []
    torch._C._cuda_attach_out_of_memory_observer(lambda *values: told.append(values))
    try:
        block(torch, 0.99 * total)
    except torch.OutOfMemoryError as error:
        idle = [b["size"] for s in torch.cuda.memory_snapshot() for b in s["blocks"]
                if b["state"] == "inactive"]
        print(json.dumps({"stats": torch.cuda.memory_stats(), "told": told[0], "idle": idle,
                          "message": str(error)}))
        raise


def cpu():
    """PyTorch on the CPU: the card must not be touched."""
    import torch
    x = torch.randn(256, 256)
    for _ in range(50):
        x = torch.relu(x @ x.T) / 256
    with open("/proc/self/maps", encoding="utf-8") as maps:
        text = maps.read()
    print(json.dumps({"initialised": torch.cuda.is_initialized(),
                      "nvidia": "/dev/nvidia" in text, "kfd": "/dev/kfd" in text}))


def loop(steps=1300, parts=20):
    """Small steps, as many as the interpreter can start: the overhead is largest here. The CPU time of
    the loop counts our threads in it, and not what others do with the machine; wall time does."""
    start = time.monotonic()
    import torch
    weights = weights_of(torch, 4, 256)
    for _ in range(50):
        small_step(torch, weights, 256)
    torch.cuda.synchronize()
    ready, cpu = time.monotonic(), time.process_time()
    took = []
    for _ in range(parts):
        begun = time.monotonic()
        for step in range(steps):
            value = small_step(torch, weights, 256)
            if step % 50 == 0:
                value.item()
        torch.cuda.synchronize()
        took.append(time.monotonic() - begun)
    print(json.dumps({"loop_s": sum(took), "loop_cpu_s": time.process_time() - cpu,
                      "part_s": sorted(took)[len(took) // 2], "import_s": ready - start}))


if __name__ == "__main__":
    globals()[sys.argv[1]](*[int(word) for word in sys.argv[2:]])
