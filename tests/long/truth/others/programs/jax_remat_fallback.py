# SPDX-License-Identifier: Apache-2.0
"""Trains a deep MLP tower in JAX. Keeping all activations is fastest, so that is tried first;
if the device refuses, the step is rebuilt with rematerialisation."""
import time

import jax
import jax.numpy as jnp

TOKENS, D, F, LAYERS = 524288, 1024, 4096, 32


def layer(x, w):
    h = jax.nn.gelu(x @ w["up"])
    y = x + h @ w["down"]
    return y * jax.lax.rsqrt(jnp.mean(jnp.square(y.astype(jnp.float32)), -1, keepdims=True) + 1e-6).astype(y.dtype)


def make_step(remat):
    f = jax.checkpoint(layer) if remat else layer

    def loss(params, x):
        y, _ = jax.lax.scan(lambda h, w: (f(h, w), None), x, params)
        return jnp.mean(jnp.square(y.astype(jnp.float32)) * jnp.linspace(0, 1, D))

    @jax.jit
    def step(params, x):
        value, grads = jax.value_and_grad(loss)(params, x)
        return jax.tree.map(lambda p, g: p - 0.01 * g.astype(p.dtype), params, grads), value

    return step


def main():
    k1, k2, k3 = jax.random.split(jax.random.key(0), 3)
    params = {"up": jax.random.normal(k1, (LAYERS, D, F), jnp.bfloat16) * 0.03,
              "down": jax.random.normal(k2, (LAYERS, F, D), jnp.bfloat16) * 0.015}
    x = jax.random.normal(k3, (TOKENS, D), jnp.bfloat16)
    for remat in (False, True):
        step, t0 = make_step(remat), time.time()
        try:
            params, value = jax.block_until_ready(step(params, x))
        except jax.errors.JaxRuntimeError as err:
            if "RESOURCE_EXHAUSTED" not in str(err) or remat:
                raise
            print("does not fit with all activations kept, using rematerialisation", flush=True)
            continue
        print(f"first step {float(value):.5f} remat={remat} {time.time() - t0:.1f}s", flush=True)
        break
    for n in range(3):
        params, value = step(params, x)
        print("step", n, float(value), flush=True)
    print("trained, peak %.1f GiB" % (jax.local_devices()[0].memory_stats()["peak_bytes_in_use"] / 2**30))


if __name__ == "__main__":
    main()
