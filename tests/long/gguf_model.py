#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a llama model in GGUF that loads and knows nothing: every weight is 0, as a hole in the file.

usage: gguf_model.py FILE [--layers N] [--embedding N]
"""
import argparse
import struct
import sys

U32, F32, STRING, ARRAY, I32 = 4, 6, 8, 9, 5
F16_TENSOR, F32_TENSOR = 1, 0
MOSTLY_F16 = 1
ALIGNMENT = 32
HEADS, FEED_FORWARD_FACTOR, CONTEXT = 16, 2.75, 131072
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6


def string(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(data)) + data


def value(kind, item):
    if kind == STRING:
        return string(item)
    return struct.pack({U32: "<I", F32: "<f", I32: "<i"}[kind], item)


def key(name, kind, item):
    return string(name) + struct.pack("<I", kind) + value(kind, item)


def array(name, kind, items):
    head = string(name) + struct.pack("<IIQ", ARRAY, kind, len(items))
    return head + b"".join(value(kind, item) for item in items)


def vocabulary():
    tokens = [b"<unk>", b"<s>", b"</s>"] + [b"<0x%02X>" % i for i in range(256)]
    types = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256
    words = ["\u2581hello", "\u2581", "a", "b"]
    return tokens + [word.encode() for word in words], types + [NORMAL] * len(words)


def tensors(layers, width, tokens):
    inner = int(width * FEED_FORWARD_FACTOR)
    yield "token_embd.weight", (width, tokens), F16_TENSOR
    yield "output.weight", (width, tokens), F16_TENSOR
    yield "output_norm.weight", (width,), F32_TENSOR
    for layer in range(layers):
        block = f"blk.{layer}."
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            yield f"{block}{name}.weight", (width, width), F16_TENSOR
        yield f"{block}attn_norm.weight", (width,), F32_TENSOR
        yield f"{block}ffn_norm.weight", (width,), F32_TENSOR
        yield f"{block}ffn_gate.weight", (width, inner), F16_TENSOR
        yield f"{block}ffn_up.weight", (width, inner), F16_TENSOR
        yield f"{block}ffn_down.weight", (inner, width), F16_TENSOR


def bytes_of(shape, kind):
    count = 1
    for size in shape:
        count *= size
    return count * (2 if kind == F16_TENSOR else 4)


def padded(size):
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def write(path, layers=8, width=2048):
    """Returns the bytes of the tensors."""
    tokens, types = vocabulary()
    keys = [
        key("general.architecture", STRING, "llama"), key("general.name", STRING, "nothing"),
        key("general.file_type", U32, MOSTLY_F16), key("llama.context_length", U32, CONTEXT),
        key("llama.embedding_length", U32, width), key("llama.block_count", U32, layers),
        key("llama.feed_forward_length", U32, int(width * FEED_FORWARD_FACTOR)),
        key("llama.attention.head_count", U32, HEADS),
        key("llama.attention.head_count_kv", U32, HEADS),
        key("llama.attention.layer_norm_rms_epsilon", F32, 1e-5),
        key("llama.rope.dimension_count", U32, width // HEADS),
        key("llama.vocab_size", U32, len(tokens)), key("tokenizer.ggml.model", STRING, "llama"),
        array("tokenizer.ggml.tokens", STRING, tokens),
        array("tokenizer.ggml.scores", F32, [0.0] * len(tokens)),
        array("tokenizer.ggml.token_type", I32, types),
        key("tokenizer.ggml.bos_token_id", U32, 1), key("tokenizer.ggml.eos_token_id", U32, 2),
        key("tokenizer.ggml.unknown_token_id", U32, 0)]
    infos, offset = [], 0
    for name, shape, kind in tensors(layers, width, len(tokens)):
        infos.append(string(name) + struct.pack("<I", len(shape))
                     + b"".join(struct.pack("<Q", size) for size in shape)
                     + struct.pack("<IQ", kind, offset))
        offset += padded(bytes_of(shape, kind))
    head = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(keys)) + b"".join(keys + infos)
    with open(path, "wb") as file:
        file.write(head)
        file.truncate(padded(len(head)) + offset)
    return offset


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--embedding", type=int, default=2048)
    options = parser.parse_args()
    print(write(options.file, options.layers, options.embedding))
    return 0


if __name__ == "__main__":
    sys.exit(main())
