# SPDX-License-Identifier: Apache-2.0
"""Leaks in programs on Lightning, transformers, GPyTorch, PyTorch Geometric, JAX and CuPy."""
from registry import program


@program("leak", "outputs with their graphs stay in a list of the module that no epoch end clears", cures=["growth"])
def leak_lightning_outputs(run):
    """A Lightning module appends each step's output, as its old hooks did, and never clears the list."""
    torch = run.torch()
    import pytorch_lightning as lightning
    rows = run.rows(1 / 350, 2048)

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.Tanh(), torch.nn.Linear(512, 512))
            self.outputs = []

        def training_step(self, batch, index):
            run.pause(0.02)
            out = self.net(torch.randn(rows, 512, device=self.device))
            self.outputs.append({"loss": out.pow(2).mean(), "out": out.detach()})
            return self.outputs[-1]["loss"]

        def on_train_batch_end(self, *_):
            if run.cured():
                self.outputs.clear()
            run.step()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 1e-3)

    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.zeros(100000, 1)), batch_size=1)
    lightning.Trainer(max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False,
                      enable_progress_bar=False, enable_model_summary=False).fit(Module(), data)


@program("leak", "the sessions are over and their caches are never asked for again, yet the table keeps them",
         scales="limit", cures=["growth"])
def leak_finished_sessions(run):
    """A chat server keeps the key-value cache of every session, also when it is closed."""
    torch = run.torch()
    from transformers import LlamaConfig, LlamaForCausalLM
    config = LlamaConfig(hidden_size=1024, num_hidden_layers=16, num_attention_heads=16, num_key_value_heads=16,
                         intermediate_size=2048, vocab_size=8192, max_position_embeddings=4096)
    model, sessions = LlamaForCausalLM(config).to(run.device, torch.bfloat16).eval(), {}
    for step in run.steps(pause=0.04):
        prompt = torch.randint(0, 8192, (16, 1024), device=run.device)
        with torch.inference_mode():
            out = model(input_ids=prompt, use_cache=True, logits_to_keep=1)
            for _ in range(2):
                token = out.logits[:, -1:].argmax(-1)
                out = model(input_ids=token, past_key_values=out.past_key_values, use_cache=True)
        sessions[step] = out.past_key_values
        if run.cured():
            del sessions[step]


@program("leak", "each refit's posterior covariance is kept for a plot that only shows the last", cures=["growth"])
def leak_gp_posteriors(run):
    """Refits a Gaussian process (GPyTorch) as data come in, and keeps every posterior on a dense grid."""
    torch = run.torch()
    import gpytorch

    class Model(gpytorch.models.ExactGP):
        def __init__(self, x, y, likelihood):
            super().__init__(x, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    posteriors = []
    grid = torch.linspace(0, 1, int((run.budget / 250 / 4) ** 0.5), device=run.device)
    for _ in run.steps(pause=0.02):
        x = torch.rand(300, device=run.device)
        likelihood = gpytorch.likelihoods.GaussianLikelihood()
        model = Model(x, (6 * x).sin(), likelihood).to(run.device).eval()
        with torch.no_grad():
            posterior = model(grid)
            posteriors.append((posterior.mean, posterior.covariance_matrix))
        if run.cured():
            del posteriors[:-1]


@program("leak", "the cache's key is the identity of an object that lives for one step, so no entry is used twice",
         cures=["growth"])
def leak_geometric_cache(run):
    """Caches expanded edge features of each graph (PyTorch Geometric) by the object's id."""
    torch = run.torch()
    from torch_geometric.data import Data
    from torch_geometric.nn import GCNConv
    layer, cache = GCNConv(64, 64).to(run.device), {}
    nodes = max(1000, run.rows(1 / 300, 16 * 64 * 4))
    for step in run.steps(pause=0.02):
        edges = torch.randint(0, nodes, (2, nodes * 16), device=run.device)
        graph = Data(x=torch.randn(nodes, 64, device=run.device), edge_index=edges)
        key = (step, id(graph))
        with torch.no_grad():
            cache[key] = graph.x[graph.edge_index[0]]
            layer(graph.x, graph.edge_index)
        if run.cured():
            cache.clear()


@program("leak", "every state of the loop is kept for a debugger, though only the last is used", cures=["growth"],
         library="jax")
def leak_jax_history(run):
    """A JAX training loop appends each step's state to a list."""
    jax = run.jax()
    rows = run.rows(1 / 300, 4096)
    step_of = jax.jit(lambda state: jax.numpy.tanh(state) * 0.99)
    state, history = jax.numpy.ones((rows, 1024)), []
    for _ in run.steps(pause=0.025):
        state = step_of(state).block_until_ready()
        history.append(state)
        if run.cured():
            del history[:-1]


@program("leak", "a view of ten numbers keeps the whole array alive", cures=["growth"], library="cupy")
def leak_cupy_views(run):
    """Keeps the first ten scores of every batch (CuPy) for a preview, as a slice and not as a copy."""
    cupy = run.cupy()
    preview = []
    count = run.rows(1 / 400, 4)
    for _ in run.steps(pause=0.018):
        scores = cupy.random.standard_normal(count, dtype=cupy.float32)
        scores *= 0.5
        preview.append(scores[:10].copy() if run.cured() else scores[:10])
