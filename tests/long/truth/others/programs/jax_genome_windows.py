# SPDX-License-Identifier: Apache-2.0
"""Scores genome windows with one attention block, at ever wider context, to see where the gain ends."""
import os
import time

os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = "0.17"   # about 24 GiB of the card
import jax
import jax.numpy as jnp

HEADS, DIM = 8, 64
WIDTH = HEADS * DIM


def init(key):
    a, b, c = jax.random.split(key, 3)
    return {
        "letters": jax.random.normal(a, (5, WIDTH)) * 0.02,
        "qkv": jax.random.normal(b, (WIDTH, 3, HEADS, DIM)) / WIDTH ** 0.5,
        "out": jax.random.normal(c, (HEADS, DIM, 5)) / WIDTH ** 0.5,
    }


@jax.jit
def attention(params, letters):
    x = params["letters"][letters]
    q, k, v = jnp.einsum("td,dchk->chtk", x, params["qkv"])
    weights = jnp.einsum("hqk,hsk->hqs", q, k) / DIM ** 0.5
    distance = jnp.abs(jnp.arange(len(letters))[:, None] - jnp.arange(len(letters))[None, :])
    weights = jax.nn.softmax(weights - 0.001 * distance, axis=-1)
    mixed = jnp.einsum("hqs,hsk->hqk", weights, v)
    logits = jnp.einsum("hqk,hkc->qc", mixed, params["out"])
    # the sharpness of the map is reported beside the score
    return jax.nn.log_softmax(logits), weights.max(axis=-1).mean()


def main():
    params = init(jax.random.key(0))
    for context in (2048, 4096, 8192, 49152):
        scores = []
        start = time.time()
        for window in range(6):
            letters = jax.random.randint(jax.random.key(window), (context,), 0, 4)
            logp, sharpness = attention(params, letters)
            scores.append(float(logp[jnp.arange(context - 1), letters[1:]].mean()))
            time.sleep(0.05)
        print(f"context {context} score {sum(scores) / 6:.4f} sharpness {float(sharpness):.4f} "
              f"{time.time() - start:.1f}s", flush=True)


if __name__ == "__main__":
    main()
