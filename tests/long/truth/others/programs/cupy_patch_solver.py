# SPDX-License-Identifier: Apache-2.0
"""Domain decomposition with CuPy.

A first guess is made on the whole domain in one array. Then 80 patches are set up, each with an operator
(kept for all iterations) and a residual field (needed until all patches have exchanged their borders).
Then the coarse problem is assembled in one dense array.
"""
import time
import cupy as cp

MIB = 2 ** 20
DOMAIN = 112 * 1024 * MIB // 4        # float32
OPERATOR = 256 * MIB // 4
RESIDUAL = 1126 * MIB // 4
COARSE = 40 * 1024 * MIB // 4
PATCHES = 80

pool = cp.get_default_memory_pool()
start = time.time()


def note(text):
    free, total = cp.cuda.runtime.memGetInfo()
    print('%5.1fs %-22s used %6.1f  pool %6.1f  idle %6.1f  free on device %6.1f GiB' % (
        time.time() - start, text, pool.used_bytes() / 1024 / MIB, pool.total_bytes() / 1024 / MIB,
        pool.free_bytes() / 1024 / MIB, free / 1024 / MIB), flush=True)


def first_guess():
    u = cp.full(DOMAIN, 0.25, dtype=cp.float32)
    cp.sin(u, out=u)
    return float(u[:: DOMAIN // 64].mean())


def set_up(patch):
    op = cp.full(OPERATOR, 1.0 + 0.01 * patch, dtype=cp.float32)
    cp.sqrt(op, out=op)
    r = cp.full(RESIDUAL, 0.5, dtype=cp.float32)
    r *= 1.0 / (1 + patch)
    return op, r


def main():
    level = first_guess()
    note('first guess')
    operators, residuals = [], []
    for patch in range(PATCHES):
        op, r = set_up(patch)
        operators.append(op)
        residuals.append(r)
    note('patches set up')
    border = [float(a[0] - b[-1]) for a, b in zip(residuals, residuals[1:])]
    del op, r
    residuals.clear()
    note('borders exchanged')
    print('coarse problem asks for %.1f GiB' % (COARSE * 4 / 1024 / MIB), flush=True)
    coarse = cp.zeros(COARSE, dtype=cp.float32)
    for patch, op in enumerate(operators):
        coarse[patch * OPERATOR // 2:(patch + 1) * OPERATOR // 2] += op[::2]
    note('coarse problem')
    print('level', level, 'jump', max(border), 'coarse', float(coarse[0]))


if __name__ == '__main__':
    main()
