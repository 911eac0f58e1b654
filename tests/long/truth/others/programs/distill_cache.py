# SPDX-License-Identifier: Apache-2.0
"""Distillation with two cached sets of logits on the GPU.

Stage A needs the teacher's logits of all 80 batches at once (its scores are centred per class).
Stage B drops them and caches the student's, which has the smaller vocabulary.
Stage C fits one temperature on the first 24 batches, joined into one tensor.
"""
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--batches", type=int, default=80)
parser.add_argument("--tokens", type=int, default=8192)
parser.add_argument("--teacher-vocab", type=int, default=51200)
parser.add_argument("--student-vocab", type=int, default=30720)
parser.add_argument("--fit", type=int, default=24)
parser.add_argument("--width", type=int, default=4096)
args = parser.parse_args()


def hidden(i):
    g = torch.Generator("cuda").manual_seed(i)
    return torch.randn(args.tokens, args.width, device="cuda", dtype=torch.bfloat16, generator=g)


def logits(head, i):
    return (hidden(i) @ head).float()


def memory(tag):
    stats = torch.cuda.memory_stats()
    used, held = stats["allocated_bytes.all.current"], stats["reserved_bytes.all.current"]
    gib = 1 / 2**30
    print(f"{tag}: allocated {used * gib:.2f}, reserved {held * gib:.2f}, idle {(held - used) * gib:.2f}, "
          f"free on the device {torch.cuda.mem_get_info()[0] * gib:.2f} GiB", flush=True)


@torch.no_grad()
def main():
    torch.manual_seed(0)
    teacher = torch.randn(args.width, args.teacher_vocab, device="cuda", dtype=torch.bfloat16) / 64
    student = torch.randn(args.width, args.student_vocab, device="cuda", dtype=torch.bfloat16) / 64

    cache = [logits(teacher, i) for i in range(args.batches)]
    mean = torch.zeros(args.teacher_vocab, device="cuda")
    for t in cache:
        mean += t.mean(0) / len(cache)
    memory("teacher cached")
    entropy = [(t - mean).softmax(1).amax(1).mean().item() for t in cache[:4]]
    del t, cache

    cache = [logits(student, i) for i in range(args.batches)]
    memory("student cached")
    want = args.fit * args.tokens * args.student_vocab * 4 / 2**30
    print(f"joining {args.fit} batches: {want:.2f} GiB in one tensor", flush=True)
    joined = torch.cat(cache[:args.fit])
    temperature = joined.mul_(0.5).logsumexp(1).mean().item()
    print("temperature", temperature, "confidence", entropy)


main()
