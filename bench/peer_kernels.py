#!/usr/bin/env python3
"""Kernels of a training step through PyTorch's own best routes, at the shapes of `fivefold bench ops --device cuda`.

Usage: peer_kernels.py [copy] [gemm] [attention] [memory] [grouped]     (default: all)
Prints one line a kernel: name, shape, milliseconds (median by CUDA events), TFLOP/s, TB/s. Operations and bytes are counted as ours are:
each operand once, the causal half of attention, 2.5 x the forward's work for its backward. Random data.
"""
import statistics
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

BF16, DEVICE = torch.bfloat16, "cuda"
ROWS = 16384


def seconds_of(run, budget=0.1, samples=7):
    """Median seconds of run() over samples of as many runs as fit."""
    def sample(runs):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(runs):
            run()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3 / runs

    sample(3)
    runs = max(1, min(1000, int(budget / samples / max(sample(1), 1e-7))))
    return statistics.median(sample(runs) for _ in range(samples))


def report(name, shape, seconds, flops=0, nbytes=0):
    print(f"{name:<22} {shape:<46} {seconds * 1e3:10.4f} ms {flops / seconds * 1e-12:9.2f} TFLOP/s {nbytes / seconds * 1e-12:7.3f} TB/s",
          flush=True)


def normal(*shape, dtype=BF16, grad=False):
    return torch.randn(*shape, device=DEVICE, dtype=dtype, requires_grad=grad)


def copy():
    a = normal(1 << 30)
    b = torch.empty_like(a)
    report("copy", "2 GiB", seconds_of(lambda: b.copy_(a)), nbytes=2 * a.nbytes)


def gemm():
    linears = [(ROWS, 3072, 2048), (ROWS, 2048, 2048), (ROWS, 16384, 2048), (ROWS, 2048, 8192), (4096, 128256, 2048),
               (ROWS, 5120, 3072), (ROWS, 3072, 3072), (ROWS, 16384, 3072), (ROWS, 3072, 8192), (4096, 128256, 3072),
               (ROWS, 6144, 4096), (ROWS, 4096, 4096), (ROWS, 28672, 4096), (ROWS, 4096, 14336), (4096, 128256, 4096)]
    for rows, out, width in linears:
        x, w, dy = normal(rows, width), normal(out, width), normal(rows, out)
        work = 2 * rows * out * width
        shape = f"T={rows},out={out},in={width}"
        report("gemm forward", shape, seconds_of(lambda: x @ w.t()), work)
        report("gemm input gradient", shape, seconds_of(lambda: dy @ w), work)
        report("gemm weight gradient", shape + " (bf16 out)", seconds_of(lambda: dy.t() @ x), work)


def attention():
    for batch, length in ((4, 4096), (2, 8192)):
        for head_dim in (64, 128):
            for name, backend in (("flash", SDPBackend.FLASH_ATTENTION), ("cudnn", SDPBackend.CUDNN_ATTENTION)):
                q = normal(batch, 32, length, head_dim, grad=True)
                k, v = (normal(batch, 8, length, head_dim, grad=True) for _ in range(2))
                work = 4 * batch * 32 * head_dim * length * (length + 1) / 2
                shape = f"{batch}x{length},H=32_8,hd={head_dim},{name}"
                with sdpa_kernel([backend]):
                    run = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
                    out = run()
                    d_out = torch.randn_like(out)
                    report("attention forward", shape, seconds_of(run), work)
                    report("attention backward", shape,
                           seconds_of(lambda: torch.autograd.grad(out, (q, k, v), d_out, retain_graph=True)), 2.5 * work)


def norms():
    for width in (2048, 3072, 4096):
        x, w, dy = normal(ROWS, width, grad=True), normal(width, grad=True), normal(ROWS, width)
        norm = torch.compile(lambda x, w: F.rms_norm(x, (x.shape[-1],), w, 1e-5))
        y = norm(x, w)
        shape = f"T={ROWS},D={width}"
        report("rmsnorm forward", shape, seconds_of(lambda: norm(x, w)), nbytes=2 * x.nbytes)
        report("rmsnorm backward", shape, seconds_of(lambda: torch.autograd.grad(y, (x, w), dy, retain_graph=True)),
               nbytes=3 * x.nbytes)


def swiglu():
    for ffn in (8192, 14336):
        x, dy = normal(ROWS, 2 * ffn, grad=True), normal(ROWS, ffn)

        def activation(x):
            gate, up = x.chunk(2, -1)
            return F.silu(gate) * up

        run = torch.compile(activation)
        y = run(x)
        report("swiglu forward", f"T={ROWS},F={ffn}", seconds_of(lambda: run(x)), nbytes=3 * dy.nbytes)
        report("swiglu backward", f"T={ROWS},F={ffn}",
               seconds_of(lambda: torch.autograd.grad(y, x, dy, retain_graph=True)), nbytes=5 * dy.nbytes)


def cross_entropy():
    logits = normal(4096, 128256, grad=True)
    target = torch.randint(0, 128256, (4096,), device=DEVICE)
    loss = torch.compile(lambda x: F.cross_entropy(x.float(), target))
    report("cross entropy, both ways", "R=4096,V=128256 (ideal bytes)",
           seconds_of(lambda: torch.autograd.grad(loss(logits), logits)), nbytes=2 * logits.nbytes)


def adamw():
    weight = normal(1 << 28, dtype=torch.float32, grad=True)
    weight.grad = torch.randn_like(weight)
    optimizer = torch.optim.AdamW([weight], fused=True)
    optimizer.step()
    report("adamw fused", "n=2^28, f32 without a copy", seconds_of(optimizer.step), nbytes=7 * weight.nbytes)


def memory():
    norms()
    swiglu()
    cross_entropy()
    adamw()


def zipf(rows, groups):
    """Rows of each group by Zipf's law, the remainder with the first: as our cases have them."""
    harmonic = sum(1 / g for g in range(1, groups + 1))
    counts = [int(rows / (harmonic * g)) for g in range(1, groups + 1)]
    counts[0] += rows - sum(counts)
    return counts


def grouped():
    groups, rows, width = 64, 8 * ROWS, 2048
    x, w = normal(rows, width), normal(groups, width, width)
    for name, counts in (("even", [rows // groups] * groups), ("skewed", zipf(rows, groups))):
        ends = torch.tensor(counts).cumsum(0).to(torch.int32).to(DEVICE)
        report("grouped gemm", f"R={rows},G={groups},2048x2048,{name}", seconds_of(lambda: torch._grouped_mm(x, w, ends)),
               2 * rows * width * width)


if __name__ == "__main__":
    for part in sys.argv[1:] or ("copy", "gemm", "attention", "memory", "grouped"):
        globals()[part]()
        torch.cuda.empty_cache()
