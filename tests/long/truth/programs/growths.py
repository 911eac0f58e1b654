# SPDX-License-Identifier: Apache-2.0
"""Growth by design: what grows is used again in every step, or is the result; the card is too small for the plan."""
import copy

from registry import program


@program("growth", "every decoded token reads all keys and values before it", cures=["growth"])
def growth_decode_pages(run):
    """Decodes with attention over a paged key-value cache that gets a page per 64 tokens in each of 12 layers."""
    torch = run.torch()
    layers, heads, width = 12, 16, 128
    batch = run.rows(1 / 110, layers * 2 * 64 * heads * width * 2)
    caches = [[] for _ in range(layers)]
    for _ in run.steps(pause=0.05):
        for pages in caches:
            pages.append(torch.randn(2, batch, heads, 64, width, device=run.device, dtype=torch.bfloat16))
            if run.cured():
                del pages[:-8]
            query = torch.randn(batch, heads, 1, width, device=run.device, dtype=torch.bfloat16)
            sum((query @ page[0].transpose(-1, -2)).softmax(-1) @ page[1] for page in pages)


@program("growth", "the agent samples from all transitions; the planned million of them is more than the card holds",
         cures=["growth"])
def growth_replay_buffer(run):
    """Fills a replay buffer of frames on the card, and learns from random parts of it."""
    torch = run.torch()
    net = torch.nn.Sequential(torch.nn.Conv2d(4, 16, 8, 4), torch.nn.ReLU(), torch.nn.Flatten(),
                              torch.nn.LazyLinear(6)).to(run.device)
    frames, buffer = run.rows(1 / 500, 4 * 84 * 84), []
    for step in run.steps(pause=0.012):
        buffer.append(torch.randint(0, 255, (frames, 4, 84, 84), dtype=torch.uint8, device=run.device))
        if run.cured():
            del buffer[:-20]
        batch = torch.cat([part[:8] for part in buffer[-8:]] + [buffer[step * 7 % len(buffer)][:8]])
        net(batch.float() / 255).pow(2).mean().backward()
        net.zero_grad()


@program("growth", "the token embeddings are the index; all are searched at the end", cures=["growth"])
def growth_passage_index(run):
    """Encodes passages with a BERT and collects the embeddings of all tokens for an index on the card."""
    torch = run.torch()
    from transformers import BertConfig, BertModel
    config = BertConfig(hidden_size=768, num_hidden_layers=2, num_attention_heads=12, intermediate_size=1536)
    model = BertModel(config).to(run.device, torch.bfloat16).eval()
    index, batch = [], run.rows(1 / 400, 256 * 768 * 4)
    for _ in run.steps(pause=0.005):
        tokens = torch.randint(0, 30000, (batch, 256), device=run.device)
        with torch.inference_mode():
            index.append(torch.nn.functional.normalize(model(tokens).last_hidden_state.float(), dim=-1))
        if run.cured():
            del index[:-4]


@program("growth", "nothing is kept between steps; each step is longer, and its attention grows with the square",
         scales="limit", cures=["growth"])
def growth_length_curriculum(run):
    """Trains attention on sequences that get 160 tokens longer in each step."""
    torch = run.torch()
    project = torch.nn.Linear(1024, 3 * 1024).to(run.device)
    for step in run.steps(pause=0.03):
        length = 256 + 160 * (min(step, 5) if run.cured() else step)
        x = torch.randn(4, length, 1024, device=run.device)
        q, k, v = project(x).view(4, length, 3, 16, 64).permute(2, 0, 3, 1, 4)
        ((q @ k.transpose(-1, -2) / 8).softmax(-1) @ v).pow(2).mean().backward()
        project.zero_grad()


@program("growth", "the beam widens by 3 % in a step, and the search needs all states to trace its best path back",
         cures=["growth"])
def growth_beam_states(run):
    """A beam search with a widening beam keeps the states of every generation."""
    torch = run.torch()
    move = torch.randn(1024, 1024, device=run.device) / 32
    generations = [torch.randn(run.rows(1 / 2000, 4096), 1024, device=run.device)]
    for _ in run.steps(pause=0.05):
        children = torch.tanh(generations[-1] @ move)
        best = children.norm(dim=1).topk(max(1, int(len(children) * 0.03))).indices
        generations.append(torch.cat([children, children[best] * 1.01]))
        del children
        if run.cured():
            generations = [generations[-1][:1000].clone()]


@program("growth", "the backward through the whole rollout needs the graph of each of its steps", cures=["growth"])
def growth_differentiable_rollout(run):
    """Simulates particles under a learned force, to differentiate through all time steps at the end."""
    torch = run.torch()
    force = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Tanh(), torch.nn.Linear(256, 64)).to(run.device)
    rows = run.rows(1 / 400, (64 * 2 + 256) * 4)
    place = torch.randn(rows, 64, device=run.device)
    speed = torch.zeros_like(place)
    for step in run.steps(20000, pause=0.018):
        speed = 0.99 * speed + 0.01 * force(place)
        place = place + 0.01 * speed
        if run.cured() and step % 20 == 19:
            place.pow(2).mean().backward()
            place, speed = place.detach(), speed.detach()
    place.pow(2).mean().backward()


@program("growth", "each loss compares with the whole bank; joining old and new bank needs both at once",
         cures=["growth"])
def growth_memory_bank(run):
    """A contrastive loss against a bank of all features so far, joined by cat in every step."""
    torch = run.torch()
    encoder = torch.nn.Linear(1024, 1024).to(run.device)
    rows = run.rows(1 / 150, 4096)
    bank = torch.zeros(1, 1024, device=run.device)
    for _ in run.steps(pause=0.1):
        features = torch.nn.functional.normalize(encoder(torch.randn(rows, 1024, device=run.device)), dim=1)
        (features[:256] @ bank.T).logsumexp(1).mean().backward()
        encoder.zero_grad()
        bank = torch.cat([bank, features.detach()])
        if run.cured():
            bank = bank[-4 * rows:].clone()


@program("growth", "every member of the ensemble votes; there are simply more members than fit", cures=["growth"])
def growth_snapshot_ensemble(run):
    """Adds a copy of the model to an ensemble after each cycle, and averages the votes of all."""
    torch = run.torch()
    width = int((run.budget / 40 / 4 / 8) ** 0.5)
    model = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(8)]).to(run.device)
    optimizer, members = torch.optim.SGD(model.parameters(), 1e-3), []
    for step in run.steps(pause=0.01):
        x = torch.randn(64, width, device=run.device)
        model(x).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 12 == 11:
            members.append(copy.deepcopy(model).requires_grad_(False))
            if run.cured():
                del members[:-3]
            sum(member(x) for member in members)


@program("growth", "the kernel matrix grows with the square of the observations; each round needs all of them",
         scales="limit", cures=["growth"])
def growth_bayes_observations(run):
    """Bayesian optimisation: an exact Gaussian process on a fifth more observations in each round."""
    torch = run.torch()
    torch.set_default_dtype(torch.float64)
    points = torch.rand(2000, 8, device=run.device)
    for _ in run.steps(pause=0.15):
        kernel = torch.cdist(points, points).square_().mul_(-2).exp_()
        kernel.diagonal().add_(0.1)
        root = torch.linalg.cholesky(kernel)
        weights = torch.cholesky_solve(points.sum(1, keepdim=True).sin(), root)
        print("points", len(points), float(weights.mean()))
        if not run.cured():
            points = torch.cat([points, torch.rand(len(points) // 5, 8, device=run.device)])


@program("growth", "all samples of the chains are the result", cures=["growth"], library="jax")
def growth_mcmc_samples(run):
    """JAX: a random-walk sampler for many chains; the samples stay on the device for the posterior."""
    jax = run.jax()
    chains = run.rows(1 / 250, 4096)

    @jax.jit
    def walk(key, place):
        step_key, accept_key = jax.random.split(key)
        moved = place + 0.1 * jax.random.normal(step_key, place.shape)
        gain = ((place ** 2).sum(1) - (moved ** 2).sum(1)) / 2
        accept = jax.numpy.log(jax.random.uniform(accept_key, gain.shape)) < gain
        return jax.numpy.where(accept[:, None], moved, place)

    key, place, samples = jax.random.key(0), jax.numpy.zeros((chains, 1024)), []
    for step in run.steps(50000, pause=0.03):
        place = walk(jax.random.fold_in(key, step), place).block_until_ready()
        samples.append(place)
        if run.cured():
            del samples[:-1]
    print(float(sum(sample.mean() for sample in samples)))


@program("growth", "the table of all partitions is the result; joining needs old and new at once", cures=["growth"],
         library="cupy")
def growth_cupy_table(run):
    """CuPy: joins arriving partitions to one table and looks at its last row."""
    cupy = run.cupy()
    rows = run.rows(1 / 120, 64 * 8)
    table = cupy.zeros((1, 64))
    for _ in run.steps(pause=0.12):
        table = cupy.concatenate([table, cupy.random.random((rows, 64))])
        if run.cured():
            table = table[-2 * rows:].copy()
        print(float(table[-1].sum()))


@program("growth", "messages go over all edges so far, whose number grows by 8 % in a step", cures=["growth"])
def growth_temporal_graph(run):
    """Trains a graph network (PyTorch Geometric) on a graph to which each time step adds edges."""
    torch = run.torch()
    from torch_geometric.nn import GCNConv
    first, second = GCNConv(64, 64).to(run.device), GCNConv(64, 64).to(run.device)
    nodes = max(1000, run.rows(1 / 1000, 256))
    x = torch.randn(nodes, 64, device=run.device)
    edges = torch.randint(0, nodes, (2, run.rows(1 / 300, 256)), device=run.device)
    for _ in run.steps(pause=0.06):
        second(first(x, edges).relu(), edges).pow(2).mean().backward()
        if not run.cured():
            edges = torch.cat([edges, torch.randint(0, nodes, (2, edges.shape[1] // 12), device=run.device)], dim=1)


@program("growth", "the schedule makes the batch 4 % larger in each step; nothing is kept", cures=["growth"])
def growth_batch_ramp(run):
    """A batch-size schedule in place of a falling learning rate."""
    torch = run.torch()
    layers = [module for _ in range(6) for module in (torch.nn.Linear(1024, 1024), torch.nn.GELU())]
    model = torch.nn.Sequential(*layers).to(run.device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    for step in run.steps(pause=0.05):
        rows = run.rows(1.04 ** (0 if run.cured() else step) / 3000, 4096)
        model(torch.randn(rows, 1024, device=run.device)).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()


@program("growth", "each turn is encoded with all turns before it, as no cache is used", scales="limit",
         cures=["growth"])
def growth_chat_turns(run):
    """Chats in a batch of 64 (transformers, no cache): the whole history is the prompt of every turn."""
    torch = run.torch()
    from transformers import LlamaConfig, LlamaForCausalLM
    config = LlamaConfig(hidden_size=1024, num_hidden_layers=4, num_attention_heads=16, num_key_value_heads=4,
                         intermediate_size=2048, vocab_size=32000, max_position_embeddings=1 << 16)
    model = LlamaForCausalLM(config).to(run.device, torch.bfloat16).eval()
    history = torch.randint(0, 32000, (64, 512), device=run.device)
    for _ in run.steps(pause=0.05):
        with torch.inference_mode():
            answer = model(input_ids=history, use_cache=False).logits.argmax(-1)[:, -512:]
        history = torch.cat([history, answer], dim=1)
        if run.cured():
            history = history[:, -1024:]
