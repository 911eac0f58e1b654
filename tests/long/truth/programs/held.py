# SPDX-License-Identifier: Apache-2.0
"""Another process holds most of the card; alone, the program would run. Each needs the whole card for itself.

The other process ends with its standard input, and so with the program, however that dies.
"""
import subprocess
import sys

from registry import program

HOLDERS = {
    "torch": """
import torch
free = torch.cuda.mem_get_info()[0]
kept = [torch.ones(int(free * SHARE / 16) // 4, device="cuda") for _ in range(16)]
torch.cuda.synchronize()
""",
    "trainer": """
import threading, time, torch
free = torch.cuda.mem_get_info()[0]
width = int((free * SHARE / 4 / 8 / 4) ** 0.5)
model = torch.nn.Sequential(*[torch.nn.Linear(width, width, device="cuda") for _ in range(8)])
optimizer = torch.optim.Adam(model.parameters(), foreach=False)
def train():
    while True:
        model(torch.randn(8, width, device="cuda")).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        torch.cuda.synchronize()
        ready.set()
        time.sleep(0.05)
ready = threading.Event()
threading.Thread(target=train, daemon=True).start()
ready.wait()
""",
    "jax": """
import os
os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = str(SHARE)
import jax
kept = jax.numpy.ones((1024, 1024)).block_until_ready()
""",
    "cupy": """
import cupy
free = cupy.cuda.runtime.memGetInfo()[0]
kept = [cupy.ones(int(free * SHARE / 32), dtype=cupy.uint8) for _ in range(32)]
cupy.cuda.Device().synchronize()
""",
}
WAIT = "\nimport sys\nprint('ready', flush=True)\nsys.stdin.read()\n"


def hold(run, kind, share, session=False):
    """Starts the other process and waits until it holds its share of what is free."""
    if run.cured("other"):
        return None
    code = f"SHARE = {share}\n" + HOLDERS[kind] + WAIT
    other = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                             start_new_session=session)
    if other.stdout.readline().strip() != "ready":
        raise RuntimeError("the other process did not start")
    return other


def train(run, torch, size, steps):
    """A model whose weights and gradients need so many bytes."""
    width = int((size / 2 / 8 / 4) ** 0.5)
    model = torch.nn.Sequential(*[torch.nn.Linear(width, width, device=run.device) for _ in range(8)])
    for _ in run.steps(steps, pause=0.05):
        model(torch.randn(16, width, device=run.device)).pow(2).mean().backward()
        model.zero_grad()


def whole(torch):
    return torch.cuda.mem_get_info()[1]


@program("held", "a server in another process holds 85 % of the card, this program needs 40 %", scales="none",
         cures=["other"])
def held_by_server(run):
    """A child process with PyTorch serves a model while this one begins to train."""
    other = hold(run, "torch", 0.85)
    torch = run.torch()
    train(run, torch, 0.4 * whole(torch), 60)
    print("other", other and other.pid)


@program("held", "JAX in another process has taken its usual three quarters in advance; this program needs half",
         scales="none", cures=["other"])
def held_by_jax_pool(run):
    """A notebook with JAX is open beside this program; it computed one small thing."""
    other = hold(run, "jax", 0.75)
    torch = run.torch()
    train(run, torch, 0.5 * whole(torch), 60)
    print("other", other and other.pid)


@program("held", "another training holds 80 %; this one runs for 100 steps and then needs what the other has",
         scales="none", cures=["other"])
def held_by_second_training(run):
    """Two trainings share the card; this one's evaluation comes when there is no room."""
    other = hold(run, "trainer", 0.8)
    torch = run.torch()
    train(run, torch, 0.08 * whole(torch), 100)
    for _ in run.steps(1):
        print(float(torch.zeros(int(whole(torch) * 0.35) // 4, device=run.device).sum()))
    print("other", other and other.pid)


@program("held", "a worker of an earlier run, in a session of its own, still holds 90 %", scales="none",
         cures=["other"])
def held_by_stale_worker(run):
    """An earlier run left a worker with CuPy behind; this run loads weights."""
    other = hold(run, "cupy", 0.9, session=True)
    torch = run.torch()
    size, weights = 0.3 * whole(torch), []
    for _ in run.steps(30, pause=0.1):
        weights.append(torch.ones(int(size / 30) // 4, device=run.device))
    print("other", other and other.pid)
