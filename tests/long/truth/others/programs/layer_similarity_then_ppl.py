# SPDX-License-Identifier: Apache-2.0
"""Layer study of a 60-layer residual stack.
 1. outliers: all layers' activations at once (the cross-layer maximum per token needs them together)
 2. CKA: one Gram matrix over 15360 tokens per layer, kept, since every pair of layers is compared
 3. perplexity over the 128k vocabulary, all 26 documents in one go, logits in fp32
"""
import torch

LAYERS, WIDTH, TOKENS, GRAM = 60, 8192, 81920, 15360
VOCAB, DOCS, DOC_LEN = 128256, 26, 8192
GIB = 2.0 ** 30


def say(what):
    a, r = torch.cuda.memory_allocated() / GIB, torch.cuda.memory_reserved() / GIB
    free = torch.cuda.mem_get_info()[0] / GIB
    print(f"[{what}] allocated {a:.1f} reserved {r:.1f} (idle {r - a:.1f}) free on the device {free:.1f} GiB", flush=True)


def step(x, w):
    return torch.nn.functional.rms_norm(x @ w, (WIDTH,)).add_(x)


def outliers(x, weights):
    acts = []
    for w in weights:
        x = step(x, w)
        acts.append(x)
    say("activations of all layers")
    top = torch.stack([a.amax(-1) for a in acts])
    return top.float().argmax(0).bincount(minlength=LAYERS)


def grams(x, weights):
    out = []
    for w in weights:
        x = step(x, w)
        f = x.float()
        f -= f.mean(0)
        out.append(f @ f.T)
    return out


def cka(a, b):
    return ((a.flatten() @ b.flatten()) / (a.norm() * b.norm())).item()


def main():
    torch.manual_seed(0)
    dev = "cuda"
    weights = [torch.randn(WIDTH, WIDTH, device=dev, dtype=torch.bfloat16) / 90 for _ in range(LAYERS)]
    tokens = torch.randn(TOKENS, WIDTH, device=dev, dtype=torch.bfloat16)
    print("loudest layers", outliers(tokens, weights).topk(3).indices.tolist(), flush=True)
    ks = grams(tokens[:GRAM], weights)
    say("Gram matrices")
    print("cka first-last", round(cka(ks[0], ks[-1]), 4), flush=True)

    head = torch.empty(VOCAB, WIDTH, device=dev).normal_(0, 0.01)
    docs = torch.randn(DOCS, DOC_LEN, WIDTH, device=dev, dtype=torch.bfloat16)
    need = DOCS * DOC_LEN * VOCAB * 4 / GIB
    say(f"before the logits, which need {need:.1f} GiB")
    hidden = docs.view(-1, WIDTH)
    logits = torch.empty(DOCS * DOC_LEN, VOCAB, device=dev)
    for i in range(0, len(hidden), DOC_LEN):
        torch.mm(hidden[i:i + DOC_LEN].float(), head.T, out=logits[i:i + DOC_LEN])
    say("logits")
    target = torch.randint(0, VOCAB, (len(hidden),), device=dev)
    nll = logits.logsumexp(1) - logits.gather(1, target[:, None])[:, 0]
    print("perplexity", nll.mean().exp().item(), "pairs", [[cka(a, b) for a in ks[::20]] for b in ks[::20]])


main()
