# SPDX-License-Identifier: Apache-2.0
"""Leaks in plain PyTorch: what a step needed stays reachable, though nothing reads it again."""
import functools
import gc
import queue
import random
import threading
import time

from registry import program


def mlp(torch, run, width, depth=3):
    layers = [module for _ in range(depth) for module in (torch.nn.Linear(width, width), torch.nn.ReLU())]
    return torch.nn.Sequential(*layers).to(run.device)


@program("leak", "the predictions of finished epochs are never read again, yet stay in the list", cures=["growth"])
def leak_epoch_predictions(run):
    """Evaluates epoch after epoch; a list of predictions for the metric is never cleared."""
    torch = run.torch()
    model, predictions = mlp(torch, run, 1000), []
    rows = run.rows(1 / 400, 4000)
    for step in run.steps(pause=0.02):
        if run.cured() and step % 10 == 0:
            predictions.clear()
        with torch.no_grad():
            predictions.append(model(torch.randn(rows, 1000, device=run.device)))


@program("leak", "the state carries the graph of all steps before it; no backward ever uses it", cures=["growth"])
def leak_recurrent_state(run):
    """Streams data through a GRU cell without no_grad; the state is never detached."""
    torch = run.torch()
    cell = torch.nn.GRUCell(256, 256).to(run.device)
    rows = run.rows(1 / 6000, 1024)
    state = torch.zeros(rows, 256, device=run.device)
    for _ in run.steps(pause=0.015):
        state = cell(torch.randn(rows, 256, device=run.device), state)
        if run.cured():
            state = state.detach()


@program("leak", "each step registers one more hook, none is removed, and each keeps what it saw", cures=["growth"])
def leak_hook_per_step(run):
    """Looks at an activation by a forward hook that is registered in every step and never removed."""
    torch = run.torch()
    model = mlp(torch, run, 2048)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    rows = run.rows(1 / 300, 8192)
    for _ in run.steps(pause=0.025):
        seen = []
        handle = model[2].register_forward_hook(lambda module, inputs, output, seen=seen: seen.append(output.detach()))
        loss = model(torch.randn(rows, 2048, device=run.device)).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if run.cured():
            handle.remove()


@program("leak", "closures that wait for a flush that never comes hold the batch and its output; slow, many steps",
         cures=["growth"])
def leak_deferred_callbacks(run):
    """Queues a closure per step for a later logging round; the round is never reached."""
    torch = run.torch()
    model, callbacks = mlp(torch, run, 512, depth=2), []
    rows = run.rows(1 / 5000, 2048)
    for step in run.steps(pause=0.002):
        x = torch.randn(rows, 512, device=run.device)
        with torch.no_grad():
            y = model(x)
        callbacks.append(lambda x=x, y=y, step=step: print(step, float((x - y).abs().mean())))
        if len(callbacks) >= (8 if run.cured() else 1_000_000):
            callbacks.clear()


@program("leak", "the cache is keyed by two random lengths, so that entries are hardly ever used again or evicted",
         cures=["growth"])
def leak_mask_cache(run):
    """Caches attention masks by (queries, keys) without a bound; the lengths are random."""
    torch = run.torch()
    rng, side = random.Random(7), int((run.budget / 400 / 2) ** 0.5)

    @functools.lru_cache(maxsize=4 if run.cured() else None)
    def mask(queries, keys):
        return torch.ones(queries, keys, dtype=torch.float16, device=run.device).tril_()

    for _ in run.steps(pause=0.02):
        bias = mask(rng.randint(side // 2, side * 3 // 2), rng.randint(side // 2, side * 3 // 2))
        scores = torch.randn(64, bias.shape[1], dtype=torch.float16, device=run.device) + bias[:64]
        scores.softmax(-1)


@program("leak", "the kept exceptions' tracebacks keep the frames, and these the activations of failed steps",
         cures=["growth"])
def leak_exception_frames(run):
    """Collects the exceptions of bad samples to report them later."""
    torch = run.torch()
    model, failures = mlp(torch, run, 1024), []
    rows = run.rows(1 / 500, 4096)

    def process(step):
        hidden = model[:2](torch.randn(rows, 1024, device=run.device))
        if step % 3 == 0:
            raise ValueError(f"sample {step} has no label")
        return hidden.mean()

    for step in run.steps(pause=0.012):
        try:
            with torch.no_grad():
                process(step)
        except ValueError as error:
            failures.append(str(error) if run.cured() else error)


@program("leak", "prompts of finished tasks and their Adam states stay in the optimizer, though never trained again",
         cures=["growth"])
def leak_param_groups(run):
    """Tunes a prompt per task; each is added to the optimizer as a group, none is taken out."""
    torch = run.torch()
    model = mlp(torch, run, 1024).requires_grad_(False)
    first = torch.nn.Parameter(torch.zeros(1024, device=run.device))
    optimizer = torch.optim.Adam([first], 1e-3)
    rows = run.rows(1 / 2000, 4096)
    for _ in run.steps(pause=0.008):
        prompt = torch.nn.Parameter(torch.zeros(rows, 1024, device=run.device))
        if run.cured():
            optimizer = torch.optim.Adam([first], 1e-3)
        optimizer.add_param_group({"params": [prompt]})
        for _ in range(2):
            optimizer.zero_grad()
            model(prompt).pow(2).mean().backward()
            optimizer.step()


@program("leak", "a graph with its private pool is captured for every request, though all have one shape",
         cures=["growth"])
def leak_graph_per_request(run):
    """Captures a CUDA graph for each request and keeps it, for a replay that never comes."""
    torch = run.torch()
    model, graphs = mlp(torch, run, 1024), []
    rows = run.rows(1 / 700, 4096)
    model(torch.randn(8, 1024, device=run.device)).mean().backward()
    for _ in run.steps(pause=0.03):
        if run.cured():
            graphs.clear()
        x = torch.randn(rows, 1024, device=run.device)
        graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(graph):
            y = model(x)
        graph.replay()
        graphs.append((graph, x, y))


@program("leak", "the monitored value is summed with its graph, which no backward frees", cures=["growth"])
def leak_monitored_norm(run):
    """Trains, and sums the norm of a hidden layer for the log without detaching it."""
    torch = run.torch()
    model = mlp(torch, run, 1024)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    rows, monitored = run.rows(1 / 500, 4096), 0.0
    for _ in run.steps(pause=0.012):
        hidden = model[:4](torch.randn(rows, 1024, device=run.device))
        loss = model[4:](hidden).pow(2).mean()
        norm = hidden.pow(2).mean()
        monitored = monitored + (norm.detach() if run.cured() else norm)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


@program("leak", "batches in reference cycles are freed by the cycle collector only, which is off", cures=["growth"])
def leak_cycles_without_gc(run):
    """Switches the garbage collector off for speed; each batch points to itself through its state."""
    torch = run.torch()
    gc.disable()
    model = mlp(torch, run, 1024)

    class Batch:
        def __init__(self, data):
            self.data = data
            self.state = {} if run.cured() else {"owner": self}

    rows = run.rows(1 / 700, 4096)
    for _ in run.steps(pause=0.01):
        batch = Batch(torch.randn(rows, 1024, device=run.device))
        with torch.no_grad():
            model(batch.data)


@program("leak", "the thread that takes from the queue died of an error, the queue has no bound", cures=["growth"])
def leak_dead_consumer(run):
    """Hands outputs to a logging thread by a queue; the thread ended long ago."""
    torch = run.torch()
    model, outputs = mlp(torch, run, 1024), queue.Queue()
    rows = run.rows(1 / 900, 4096)

    def consume():
        for number in range(10 ** 9):
            histogram = outputs.get().histc(10)
            if number == 20 and not run.cured():
                return histogram.no_such_name

    threading.Thread(target=consume, daemon=True).start()
    for _ in run.steps(pause=0.008):
        with torch.no_grad():
            outputs.put(model(torch.randn(rows, 1024, device=run.device)))
        while run.cured() and outputs.qsize() > 4:
            time.sleep(0.001)


@program("leak", "clones of all gradients are kept per step, only the last two are ever compared", cures=["growth"])
def leak_gradient_snapshots(run):
    """Follows how the gradient turns; the history of gradients has no bound."""
    torch = run.torch()
    width = int((run.budget / 250 / 4 / 4) ** 0.5)
    model, history = mlp(torch, run, width, depth=4), []
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    for _ in run.steps(pause=0.025):
        model(torch.randn(256, width, device=run.device)).pow(2).mean().backward()
        history.append([parameter.grad.clone() for parameter in model.parameters()])
        if len(history) > 1:
            sum(float((a * b).sum()) for a, b in zip(history[-1], history[-2]))
        if run.cured():
            del history[:-2]
        optimizer.step()
        optimizer.zero_grad()


@program("leak", "memory is flat for 200 steps; then attention maps for a plot are kept, and nobody clears them",
         cures=["growth"])
def leak_late_start(run):
    """Trains steadily for some seconds; after warm-up a debugging aid starts to keep attention maps."""
    torch = run.torch()
    width, kept = 512, []
    attention = torch.nn.MultiheadAttention(width, 8, batch_first=True).to(run.device)
    optimizer = torch.optim.SGD(attention.parameters(), 1e-3)
    batch = run.rows(1 / 250, 8 * 512 * 512 * 4)
    for step in run.steps(pause=0.02):
        x = torch.randn(batch, 512, width, device=run.device)
        y, maps = attention(x, x, x, need_weights=True, average_attn_weights=False)
        y.pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step > 200 and not run.cured():
            kept.append(maps.detach())


@program("leak", "peaks go up and down with the batch; what stays after each epoch grows by 2.5 % of the memory",
         cures=["growth"])
def leak_below_sawtooth(run):
    """Batches of rising size in every epoch; the epoch's features stay in a log."""
    torch = run.torch()
    model, log = mlp(torch, run, 1024), []
    for _ in run.steps(pause=0.02):
        for part in range(1, 9):
            rows = run.rows(part / 130, 4096)
            model(torch.randn(rows, 1024, device=run.device)).mean().backward()
            run.pause(0.01)
        log.append(torch.randn(run.rows(1 / 40, 4096), 1024, device=run.device))
        if run.cured():
            log.clear()
