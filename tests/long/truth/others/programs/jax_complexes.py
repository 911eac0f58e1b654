# SPDX-License-Identifier: Apache-2.0
# Protein complexes in JAX: 88 chains are embedded (kept), their pair tensors are compared and dropped,
# then one large complex is folded with the chains' embeddings as input.
import sys

import jax
import jax.numpy as jnp

CHAINS, L, C, COMPLEX = 88, 2048, 128, 8192
SINGLE = (L * 2, 12288)


@jax.jit
def embed(seed):
    r = jax.lax.broadcasted_iota(jnp.float32, SINGLE, 0)
    c = jax.lax.broadcasted_iota(jnp.float32, SINGLE, 1)
    return jnp.sin(r * 0.37 + c * 0.011 + seed).astype(jnp.bfloat16)


@jax.jit
def pair(single):
    a = single[:L, :C]
    return a[:, None, :] * a[None, :, :]


@jax.jit
def complex_pair(x, y):
    reps = COMPLEX // L
    a, b = jnp.tile(x[:L, :C], (reps, 1)), jnp.tile(y[:L, :C], (reps, 1))
    return a[:, None, :] + b[None, :, :]


@jax.jit
def contact(p):
    return jnp.max(p[::64, ::64])


def memory(tag):
    m = jax.local_devices()[0].memory_stats()
    g = 2.0**30
    print(f"{tag}: in use {m['bytes_in_use'] / g:.1f} of {m['bytes_limit'] / g:.1f} GiB, largest free block "
          f"{m.get('largest_free_block_bytes', -1) / g:.2f} GiB", flush=True)


def main():
    singles, pairs = [], []
    for n in range(CHAINS):
        s = embed(float(n))
        p = pair(s)
        p.block_until_ready()
        singles.append(s)
        pairs.append(p)
    memory("chains embedded")
    scores = [float(contact(p)) for p in pairs]
    del p, s
    pairs.clear()
    memory("pair tensors dropped")
    print(f"complex of {COMPLEX} residues: {COMPLEX * COMPLEX * C * 2 / 2**30:.1f} GiB", flush=True)
    big = complex_pair(singles[0], singles[1])
    big.block_until_ready()
    memory("complex")
    print("contact", float(contact(big)), "best chain", max(scores))
    return 0


if __name__ == "__main__":
    sys.exit(main())
