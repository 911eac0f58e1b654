# SPDX-License-Identifier: Apache-2.0
"""Programs that end well: plain ones, ones that grow to a bound, and ones that are refused and go on."""
from registry import program


def mlp(torch, run, width=1024, depth=4):
    layers = [module for _ in range(depth) for module in (torch.nn.Linear(width, width), torch.nn.GELU())]
    return torch.nn.Sequential(*layers).to(run.device)


def train_step(torch, run, model, rows):
    model(torch.randn(rows, 1024, device=run.device)).pow(2).mean().backward()
    model.zero_grad()


@program("healthy", "the search for a batch ends with a refusal by intent; half of the last batch that ran is used")
def ok_batch_finder(run):
    """Doubles the batch until memory is refused, then trains with half of the largest that ran."""
    torch = run.torch()
    model, rows = mlp(torch, run), run.rows(1 / 1000, 4096)
    while True:
        try:
            train_step(torch, run, model, rows)
        except torch.OutOfMemoryError:
            break
        rows *= 2
        run.pause(0.2)
    model.zero_grad()
    torch.cuda.empty_cache()
    for _ in run.steps(40, pause=0.05):
        train_step(torch, run, model, rows // 4)


@program("healthy", "each refused batch is cut in two and done again")
def ok_retry_halves(run):
    """Now and then a batch is too large; it is split and repeated."""
    torch = run.torch()
    model, split = mlp(torch, run), 0

    def learn(rows):
        nonlocal split
        try:
            train_step(torch, run, model, rows)
            return
        except torch.OutOfMemoryError:
            split += 1
        model.zero_grad()
        learn(rows // 2)
        learn(rows // 2)

    for step in run.steps(150, pause=0.04):
        learn(run.rows(0.2 if step % 50 == 30 else 0.01, 4096))
    print("split", split, "batches")


@program("healthy", "what does not fit goes to the host; all is computed in the end")
def ok_offload_after_refusal(run):
    """Keeps activations on the card until refused, then moves the older ones to the host."""
    torch = run.torch()
    on_card, on_host = [], []
    for number in run.steps(46, pause=0.12):
        try:
            on_card.append(torch.full((run.share(0.025) // 4,), float(number), device=run.device))
        except torch.OutOfMemoryError:
            on_host.extend(tensor.cpu() for tensor in on_card[:4])
            del on_card[:4]
            on_card.append(torch.full((run.share(0.025) // 4,), float(number), device=run.device))
    print("sum", sum(float(tensor[0]) for tensor in on_card + on_host))


@program("healthy", "the refused product is computed in parts")
def ok_chunks_after_refusal(run):
    """Tries all pairs at once, is refused, and takes them a thousand rows at a time."""
    torch = run.torch()
    points = torch.randn(int((run.budget * 1.2 / 4) ** 0.5), 16, device=run.device)
    try:
        nearest = torch.cdist(points, points).topk(2, largest=False).values
    except torch.OutOfMemoryError as error:
        print("in parts:", str(error)[:60])
        nearest = None
    if nearest is None:
        parts = points.split(-(-len(points) // 60))
        nearest = torch.cat([torch.cdist(parts[number], points).topk(2, largest=False).values
                             for number in run.steps(len(parts), pause=0.08)])
    print(float(nearest[:, 1].mean()))


@program("healthy", "plain training, steady memory")
def ok_plain_vision(run):
    """Trains a ResNet-18 (torchvision) for 150 steps."""
    torch = run.torch()
    import torchvision
    model = torchvision.models.resnet18().to(run.device)
    optimizer = torch.optim.SGD(model.parameters(), 1e-2, momentum=0.9)
    for _ in run.steps(150, pause=0.03):
        x, y = torch.randn(64, 3, 128, 128, device=run.device), torch.randint(0, 1000, (64,), device=run.device)
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()


@program("healthy", "uses most of the memory from the first step to the last")
def ok_close_to_the_limit(run):
    """Trains with a batch chosen so that little memory stays free."""
    torch = run.torch()
    model = mlp(torch, run)
    for _ in run.steps(50, pause=0.1):
        train_step(torch, run, model, run.rows(0.06, 4096))


@program("healthy", "the cache grows to its window and no further")
def ok_sliding_window(run):
    """Decodes with a key-value cache that keeps the last 60 pages."""
    torch = run.torch()
    pages = []
    for _ in run.steps(240, pause=0.03):
        pages.append(torch.randn(run.rows(1 / 100, 4096), 1024, device=run.device))
        if len(pages) > 60:
            pages.pop(0)
        sum(float(page[0, 0]) for page in pages[::10])


@program("healthy", "the buffer fills to its size and then replaces the oldest")
def ok_ring_buffer(run):
    """A replay buffer that is full after a third of the run."""
    torch = run.torch()
    ring, place = [None] * 70, 0
    for _ in run.steps(220, pause=0.03):
        ring[place] = torch.randint(0, 255, (run.rows(0.01, 84 * 84), 84, 84), dtype=torch.uint8, device=run.device)
        place = (place + 1) % len(ring)
    print("filled", sum(frame is not None for frame in ring))


@program("healthy", "the index is complete at 70 % of the memory", library="cupy")
def ok_index_completes(run):
    """CuPy: a list of parts grows steadily to the end of the data, and is then searched."""
    cupy = run.cupy()
    parts = []
    for _ in run.steps(140, pause=0.04):
        parts.append(cupy.random.random((run.rows(0.005, 512), 128), dtype=cupy.float32))
    query = cupy.ones(128, dtype=cupy.float32)
    print(max(float((part @ query).max()) for part in parts))


@program("healthy", "steady memory in the pool", library="jax")
def ok_jax_training(run):
    """JAX: trains a small network by gradient descent."""
    jax = run.jax()
    rows = run.rows(0.01, 4096)

    def loss_of(weights, x):
        for weight in weights:
            x = jax.nn.relu(x @ weight)
        return (x ** 2).mean()

    @jax.jit
    def step_of(weights, key):
        gradients = jax.grad(loss_of)(weights, jax.random.normal(key, (rows, 1024)))
        return [weight - 0.01 * gradient for weight, gradient in zip(weights, gradients)]

    weights = [jax.random.normal(jax.random.key(n), (1024, 1024)) / 32 for n in range(4)]
    for step in run.steps(150, pause=0.03):
        weights = jax.block_until_ready(step_of(weights, jax.random.key(step)))


@program("healthy", "asks once for more than any card has, as a probe, and goes on without")
def ok_probe(run):
    """Probes for a large cache, takes a small one when refused, and works."""
    torch = run.torch()
    cache = None
    for gib in (4096, 1024):
        try:
            cache = torch.empty(gib << 30, dtype=torch.uint8, device=run.device)
        except torch.OutOfMemoryError:
            print("no cache of", gib, "GiB")
    model = mlp(torch, run)
    for _ in run.steps(120, pause=0.04):
        train_step(torch, run, model, run.rows(0.01, 4096))
    print("cache", cache is not None)


@program("healthy", "a cycle from the output through ctx, which the cycle collector finds: memory rises and falls")
def ok_cycles_collected(run):
    """A hand-written autograd function keeps its output as an attribute of ctx."""
    torch = run.torch()

    class Gate(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.result = x.sigmoid()
            return ctx.result

        @staticmethod
        def backward(ctx, gradient):
            return gradient * ctx.result * (1 - ctx.result)

    weight = torch.nn.Parameter(torch.randn(1024, 1024, device=run.device) / 32)
    rows = run.rows(1 / 400, 4096)
    for _ in run.steps(400, pause=0.018):
        Gate.apply(torch.randn(rows, 1024, device=run.device) @ weight).mean().backward()
        weight.grad = None
