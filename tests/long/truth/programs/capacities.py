# SPDX-License-Identifier: Apache-2.0
"""Capacity: one step, or the model, needs more than there is; nothing grew before and nothing is in pieces."""
import copy

from registry import program


@program("capacity", "weights and gradients fit; Adam's two states are made in the first step and do not",
         cures=["size"])
def cap_adam_states(run):
    """Fourteen large layers of 28 % of the card; the first step of Adam needs the same twice more."""
    torch = run.torch()
    width = int((run.budget * (0.12 if run.cured("size") else 0.28) / 14 / 4) ** 0.5)
    model = torch.nn.Sequential(*[torch.nn.Linear(width, width, device=run.device) for _ in range(14)])
    optimizer = torch.optim.Adam(model.parameters(), 1e-4)
    for _ in run.steps(60, pause=0.05):
        model(torch.randn(16, width, device=run.device)).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()


@program("capacity", "the activations of the first batch need several times the card", cures=["size"])
def cap_vision_batch(run):
    """Trains a vision transformer (torchvision) with a batch that is far too large."""
    torch = run.torch()
    import torchvision
    model = torchvision.models.vit_b_16().to(run.device)
    batch = run.rows(1, (800 if run.cured("size") else 60) << 20)
    for _ in run.steps(20):
        x = torch.randn(batch, 3, 224, 224, device=run.device)
        torch.nn.functional.cross_entropy(model(x), torch.zeros(batch, dtype=torch.long, device=run.device)).backward()
        model.zero_grad()


@program("capacity", "six times the resolution of before needs 36 times the activations", cures=["size"])
def cap_resolution(run):
    """Trains a convolutional network at 512 pixels for some seconds, then continues at 3072."""
    torch = run.torch()
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 32, 3, padding=1), torch.nn.ReLU(),
                              torch.nn.Conv2d(32, 32, 3, padding=1), torch.nn.ReLU(),
                              torch.nn.Conv2d(32, 3, 3, padding=1)).to(run.device)
    images = run.rows(1 / 50, 32 * 512 * 512 * 4)
    for step in run.steps(90, pause=0.05):
        side = 3072 if step >= 80 and not run.cured("size") else 512
        net(torch.randn(images, 3, side, side, device=run.device)).pow(2).mean().backward()
        net.zero_grad()


@program("capacity", "the scores of attention grow with the square of the length; their softmax does not fit",
         cures=["size"])
def cap_attention_scores(run):
    """Computes attention over one long document without a fused kernel."""
    torch = run.torch()
    length = int((run.budget * 0.6 / 32) ** 0.5)
    for step in run.steps(40, pause=0.1):
        n = length if step >= 30 and not run.cured("size") else length // 16
        q, k, v = torch.randn(3, 16, n, 64, device=run.device, dtype=torch.bfloat16)
        (q @ k.transpose(-1, -2)).softmax(-1, dtype=torch.float32).to(v.dtype) @ v


@program("capacity", "logits of a large vocabulary, and their copy in float32 for the loss", cures=["size"])
def cap_vocabulary_logits(run):
    """Trains a small GPT-2 (transformers) whose vocabulary makes the logits larger than all else."""
    torch = run.torch()
    from transformers import GPT2Config, GPT2LMHeadModel
    config = GPT2Config(vocab_size=128256, n_embd=256, n_layer=2, n_head=4, n_positions=1024)
    model = GPT2LMHeadModel(config).to(run.device, torch.bfloat16)
    batch = run.rows(0.04 if run.cured("size") else 0.4, 1024 * 128256 * 2)
    for _ in run.steps(20, pause=0.05):
        tokens = torch.randint(0, 128256, (batch, 1024), device=run.device)
        model(input_ids=tokens, labels=tokens).loss.backward()
        model.zero_grad()


@program("capacity", "the weights alone are 1.3 times what there is", cures=["size"])
def cap_weights(run):
    """Builds a model layer by layer on the card, as a loader does, and runs out on the way."""
    torch = run.torch()
    width = int((run.budget * (0.6 if run.cured("size") else 1.3) / 64 / 4) ** 0.5)
    layers = torch.nn.ModuleList()
    for _ in run.steps(64, pause=0.08):
        layers.append(torch.nn.Linear(width, width, device=run.device))
    print("loaded", len(layers))


@program("capacity", "the matrix fits in JAX's pool, its product does not; the card beside the pool is not used",
         cures=["size"], library="jax")
def cap_jax_pool(run):
    """JAX: squares a matrix that needs 60 % of its pool."""
    jax = run.jax()
    side = int((run.budget * (0.2 if run.cured("size") else 0.6) / 2) ** 0.5) // 256 * 256
    small = jax.numpy.ones((1024, 1024))
    for _ in run.steps(60, pause=0.05):
        small = jax.numpy.tanh(small @ small)
    large = jax.numpy.ones((side, side), dtype=jax.numpy.bfloat16).block_until_ready()
    for _ in run.steps(1):
        print(float((large @ large)[0, 0]))


@program("capacity", "the program limits itself to a tenth of its share; the training needs more, the card has it",
         cures=["size"])
def cap_own_fraction(run):
    """Limits itself by set_per_process_memory_fraction, as on a shared card, and trains what needs more."""
    torch = run.torch()
    torch.cuda.set_per_process_memory_fraction(run.fraction / 10)
    rows = run.rows((0.1 if run.cured("size") else 1.0) / 80, 4096)
    model = torch.nn.Sequential(*[m for _ in range(8) for m in (torch.nn.Linear(1024, 1024), torch.nn.Tanh())])
    model.to(run.device)
    for step in run.steps(80, pause=0.05):
        model(torch.randn(rows if step > 60 else rows // 8, 1024, device=run.device)).mean().backward()
        model.zero_grad()


@program("capacity", "the signal fits, the result of the transform beside it does not", cures=["size"], library="cupy")
def cap_cupy_transform(run):
    """CuPy: the Fourier transform of a signal that is more than half of the card."""
    cupy = run.cupy()
    short = cupy.ones((64, 1 << 16), dtype=cupy.complex64)
    for _ in run.steps(60, pause=0.05):
        cupy.fft.fft(short)
    rows = run.rows(0.1 if run.cured("size") else 0.55, 8 << 20)
    signal = cupy.ones((rows, 1 << 20), dtype=cupy.complex64)
    for _ in run.steps(1):
        print(float(abs(cupy.fft.fft(signal)[0, 0])))


@program("capacity", "kernel, noise and root are three matrices of 40 % each", cures=["size"])
def cap_gaussian_process(run):
    """Fits an exact Gaussian process in double precision to too many points."""
    torch = run.torch()
    full = int((run.budget * 0.4 / 8) ** 0.5)
    for step in run.steps(40, pause=0.1):
        count = full if step >= 30 and not run.cured("size") else full // 16
        x = torch.rand(count, 1, device=run.device, dtype=torch.float64)
        kernel = (x - x.T).square_().mul_(-10).exp_()
        noise = torch.eye(count, device=run.device, dtype=torch.float64)
        torch.linalg.cholesky(kernel + 0.1 * noise)


@program("capacity", "one request for all pairs of distances, 1.4 times the card", cures=["size"])
def cap_all_pairs(run):
    """Computes the distances of all pairs of two large sets at once."""
    torch = run.torch()
    side = int((run.budget * (0.1 if run.cured("size") else 1.4) / 4) ** 0.5)
    left, right = torch.randn(2, side, 16, device=run.device)
    for _ in run.steps(60, pause=0.05):
        torch.cdist(left[:2000], right[:2000]).min(1)
    for _ in run.steps(1):
        print(float(torch.cdist(left, right).min(1).values.mean()))


@program("capacity", "training is steady; the evaluation's batch is 100 times as large", cures=["size"])
def cap_evaluation_batch(run):
    """Trains steadily, then evaluates the whole validation set in one batch."""
    torch = run.torch()
    model = torch.nn.Sequential(*[m for _ in range(4) for m in (torch.nn.Linear(2048, 2048), torch.nn.ReLU())])
    model.to(run.device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    rows = run.rows(1 / 200, 8192)
    for _ in run.steps(120, pause=0.05):
        model(torch.randn(rows, 2048, device=run.device)).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    for _ in run.steps(1):
        with torch.no_grad():
            model.eval()(torch.randn(rows * (1 if run.cured("size") else 100), 2048, device=run.device))


@program("capacity", "one document is 30 times as long as the others, whose lengths vary without a trend",
         cures=["size"])
def cap_outlier_document(run):
    """Trains on documents of random length; step 300 brings a very long one."""
    torch = run.torch()
    model = torch.nn.Sequential(*[m for _ in range(6) for m in (torch.nn.Linear(1024, 1024), torch.nn.GELU())])
    model.to(run.device)
    for step in run.steps(320, pause=0.025):
        part = torch.rand(1).item() / 150 + 1 / 300
        if step == 300 and not run.cured("size"):
            part = 0.2
        model(torch.randn(run.rows(part, 4096), 1024, device=run.device)).pow(2).mean().backward()
        model.zero_grad()


@program("capacity", "one-hot in 64 bit and its copy in 32 bit together are 1.2 times the card", cures=["size"])
def cap_one_hot(run):
    """Encodes tokens one-hot before a matrix product."""
    torch = run.torch()
    weights = torch.randn(50000, 8, device=run.device)
    rows = run.rows(0.8, 8 * 50000)
    for step in run.steps(70, pause=0.1):
        tokens = torch.randint(0, 50000, (rows if step == 60 and not run.cured("size") else rows // 50,),
                               device=run.device)
        torch.nn.functional.one_hot(tokens, 50000).float() @ weights


@program("capacity", "the compiled step keeps the activations of a batch that needs 1.6 times the card", cures=["size"])
def cap_compiled_step(run):
    """Trains a compiled model (torch.compile), then with too large a batch."""
    torch = run.torch()
    model = torch.nn.Sequential(*[m for _ in range(4) for m in (torch.nn.Linear(1024, 1024), torch.nn.Tanh())])
    step_of = torch.compile(model.to(run.device), dynamic=True)
    for step in run.steps(40, pause=0.05):
        rows = run.rows(0.2 if step == 30 and not run.cured("size") else 0.01, 4096)
        step_of(torch.randn(rows, 1024, device=run.device)).pow(2).mean().backward()
        model.zero_grad()


@program("capacity", "the penalty of every 40th step differentiates twice, which needs twice the activations",
         cures=["size"])
def cap_gradient_penalty(run):
    """Trains a critic with a gradient penalty that is computed now and then only."""
    torch = run.torch()
    critic = torch.nn.Sequential(*[m for _ in range(5) for m in (torch.nn.Linear(1024, 1024), torch.nn.Softplus())])
    critic.to(run.device)
    rows = run.rows(0.01 if run.cured("size") else 0.06, 4096)
    for step in run.steps(90, pause=0.05):
        x = torch.randn(rows, 1024, device=run.device, requires_grad=True)
        score = critic(x).mean()
        if step % 40 == 39:
            gradient, = torch.autograd.grad(score, x, create_graph=True)
            score = score + gradient.pow(2).sum()
        score.backward()
        critic.zero_grad()
        x.grad = None


@program("capacity", "weights, gradients and Adam's states take 88 %; the copy of the best weights needs 22 % more",
         cures=["size"])
def cap_best_copy(run):
    """Trains close to the limit and copies the model when the validation improves for the first time."""
    torch = run.torch()
    width = int((run.budget * (0.1 if run.cured("size") else 0.22) / 10 / 4) ** 0.5)
    model = torch.nn.Sequential(*[torch.nn.Linear(width, width, device=run.device) for _ in range(10)])
    optimizer = torch.optim.Adam(model.parameters(), 1e-4, foreach=False)
    best = None
    for step in run.steps(40, pause=0.1):
        model(torch.randn(16, width, device=run.device)).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        if step == 30:
            best = copy.deepcopy(model)
    print("best", best is not None)


@program("capacity", "weights are 40 % of the pool, the two states of Adam as much each", cures=["size"], library="jax")
def cap_jax_adam(run):
    """JAX: initialises Adam's states for a model of 40 % of the pool."""
    jax = run.jax()
    side = int((run.budget * (0.1 if run.cured("size") else 0.4) / 16 / 4) ** 0.5)
    weights = []
    for number in run.steps(16, pause=0.2):
        weights.append(jax.numpy.full((side, side), 1e-3 * number).block_until_ready())
    states = []
    for _ in run.steps(2, pause=0.5):
        states.append([jax.numpy.zeros_like(weight).block_until_ready() for weight in weights])
