#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small programs on ONNX Runtime, JAX and CuPy for ROCm that end in one way each; the GPU has 2 GiB, for ONNX Runtime 1.

usage: framework_programs.py FRAMEWORK ENDING | hold MIB
"""
import os
import sys

MIB = 1 << 20
FLOATS = MIB // 4
STEPS = 400


# --- CuPy: a pool that splits and keeps ---

def cupy_array(mib):
    import cupy
    return cupy.empty(int(mib * FLOATS), dtype=cupy.float32)


def cupy_capacity():
    weights = [cupy_array(100) for _ in range(12)]
    return weights, cupy_array(1400)


def cupy_limit():
    import cupy
    cupy.get_default_memory_pool().set_limit(size=512 * MIB)
    return [cupy_array(100) for _ in range(12)]


def cupy_leak():
    kept = []
    for step in range(STEPS):
        work = [cupy_array(60) for _ in range(4)]
        kept.append(cupy_array(8))
        pause(step)
        del work
    return kept


def cupy_fragmentation():
    """33 MiB in each place of 64: a flat live set of 900 MiB beside as much that serves no 200."""
    blocks = [cupy_array(64) for _ in range(28)]
    blocks.clear()
    kept = [cupy_array(33) for _ in range(28)]
    for step in range(40):
        passing = cupy_array(20)
        pause(step)
        del passing
    return kept, cupy_array(400)


def cupy_held():
    return [cupy_array(100) for _ in range(9)]


def cupy_healthy():
    for step in range(30):
        work = [cupy_array(100) for _ in range(6)]
        pause(step)
        del work


# --- JAX: XLA's BFC, which takes 3/4 of the GPU at its start ---

def jax_array(mib):
    import jax
    import numpy as np
    array = jax.device_put(np.zeros(int(mib * FLOATS), dtype=np.float32))
    return array.block_until_ready()


def jax_capacity():
    return jax_array(900), jax_array(1000)


def jax_limit():
    os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = "0.25"
    return [jax_array(100) for _ in range(8)]


def jax_leak():
    kept = []
    for step in range(STEPS):
        work = [jax_array(60) for _ in range(4)]
        kept.append(jax_array(16))
        pause(step)
        for array in work:
            array.delete()
    return kept


def jax_fragmentation():
    blocks = [jax_array(50) for _ in range(28)]
    for block in blocks[::2]:
        block.delete()
    for step in range(20):
        jax_array(20).delete()
        pause(step)
    return blocks, jax_array(300)


def jax_held():
    return [jax_array(100) for _ in range(9)]


def jax_healthy():
    for step in range(12):
        work = [jax_array(100) for _ in range(6)]
        pause(step)
        for array in work:
            array.delete()


# --- ONNX Runtime: an arena (BFC) a session ---

def onnx_session(mib, count=4, **options):
    """`count` products with weights of `mib` MiB each."""
    import numpy as np
    import onnx
    import onnxruntime
    rows = 1024
    columns = int(mib * FLOATS) // rows
    names = [f"w{i}" for i in range(count)]
    weights = [onnx.helper.make_tensor(name, onnx.TensorProto.FLOAT, [rows, columns],
                                       np.zeros((rows, columns), dtype=np.float32).tobytes(), raw=True) for name in names]
    nodes = [onnx.helper.make_node("MatMul", ["x", name], [f"y{name}"]) for name in names]
    nodes.append(onnx.helper.make_node("Sum", [f"y{name}" for name in names], ["y"]))
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(nodes, "graph", [info("x", onnx.TensorProto.FLOAT, ["batch", rows])],
                                   [info("y", onnx.TensorProto.FLOAT, ["batch", columns])], weights)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    model.ir_version = 9
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=[("ROCMExecutionProvider", options)])
    if session.get_providers()[0] != "ROCMExecutionProvider":
        sys.exit("onnxruntime did not take the GPU")
    return session


def onnx_run(session, batch):
    import numpy as np
    return session.run(None, {"x": np.zeros((batch, 1024), dtype=np.float32)})


def onnx_capacity():
    return onnx_session(200, 6)


def onnx_limit():
    return onnx_session(100, 8, gpu_mem_limit=str(400 * MIB))


def onnx_leak():
    """A model is loaded for each request and stays."""
    kept = []
    for step in range(STEPS):
        kept.append(onnx_session(12, 2, arena_extend_strategy="kSameAsRequested"))
        pause(step)
    return kept


def onnx_fragmentation():
    """Batches in turn: the arena keeps regions of every size, and none serves the largest."""
    session = onnx_session(40, 2, arena_extend_strategy="kSameAsRequested")
    for step in range(60):
        onnx_run(session, 300 + 37 * (step * 7 % 40))
        pause(step)
    return session


def onnx_held():
    return onnx_session(100, 6)


def onnx_healthy():
    session = onnx_session(40, 4)
    for step in range(20):
        onnx_run(session, 16)
        pause(step)


def pause(step):
    """A program that computes takes its time; the sampler sees a tenth of a second."""
    import time
    if step % 4 == 0:
        time.sleep(0.03)


def hold(mib):
    import cupy
    kept = cupy.cuda.alloc(int(mib) * MIB)
    print("ready", flush=True)
    sys.stdin.read()
    return kept


if __name__ == "__main__":
    if sys.argv[1] == "hold":
        hold(sys.argv[2])
    else:
        globals()[f"{sys.argv[1]}_{sys.argv[2]}"]()
        print("done", flush=True)
