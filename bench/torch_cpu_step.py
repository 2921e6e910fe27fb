#!/usr/bin/env python3
"""The training step of bench/cpu_step.conf in PyTorch on the CPU, for bench/cpu_step.sh to time beside ours.

Usage: torch_cpu_step.py [--variant NAME|all] [--steps K] [--warmup W] [--threads N]. Prints one line a variant:
milliseconds a step (median, min), loss. Every variant computes the same step: forward, backward, clip of the global norm, AdamW without
decay on one-dimensional parameters. They differ in how the work is cut into kernels; the fastest is the one to compare with:
  eager   plain modules of library calls, q/k/v and gate/up as one product each
  fused   norm, rotary, attention and SwiGLU as autograd functions whose backward is written out, so fewer passes over memory
  script  the modules of `eager` through torch.jit.script
  sdpa    `eager` with scaled_dot_product_attention (PyTorch 2)
  compile `sdpa` through torch.compile (PyTorch 2, needs a C++ compiler)
"""
import argparse
import math
import statistics
import time

import torch
import torch.nn.functional as F

LAYERS, HIDDEN, HEADS, HEAD_DIM, FFN, VOCAB, SEQUENCE, BATCH = 4, 256, 4, 64, 1024, 256, 256, 8
EPS, THETA, LR, CLIP, DECAY = 1e-5, 10000.0, 3e-4, 1.0, 0.1


def rotate_half(x):
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


class Kernels(torch.nn.Module):
    """The memory-bound parts as chains of library calls, differentiated by autograd."""

    def __init__(self):
        super().__init__()
        angle = torch.outer(torch.arange(SEQUENCE).float(), THETA ** (-torch.arange(0, HEAD_DIM, 2).float() / HEAD_DIM))
        self.register_buffer("cos", torch.cat((angle, angle), -1).cos())
        self.register_buffer("sin", torch.cat((angle, angle), -1).sin())
        self.register_buffer("mask", torch.full((SEQUENCE, SEQUENCE), float("-inf")).triu(1))

    def norm(self, x, weight):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS) * weight

    def rotary(self, x):
        return x * self.cos + rotate_half(x) * self.sin

    def attend(self, q, k, v):  # [B, H, S, hd]
        q, k, v = (t.reshape(BATCH * HEADS, SEQUENCE, HEAD_DIM) for t in (q, k, v))
        scores = torch.baddbmm(self.mask, q, k.transpose(1, 2), alpha=1 / math.sqrt(HEAD_DIM))
        return torch.bmm(scores.softmax(-1), v).view(BATCH, HEADS, SEQUENCE, HEAD_DIM)

    def swiglu(self, x):
        gate, up = x.chunk(2, -1)
        return F.silu(gate) * up


class SdpaKernels(Kernels):
    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class NormFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        rstd = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_().div_(x.shape[-1]).add_(EPS).rsqrt_()
        normed = x * rstd
        ctx.save_for_backward(normed, rstd, weight)
        return normed * weight

    @staticmethod
    def backward(ctx, dy):
        normed, rstd, weight = ctx.saved_tensors
        product = dy * normed
        d_weight = product.sum((0, 1))
        mean = torch.matmul(product, weight).unsqueeze_(-1).div_(normed.shape[-1])
        return (dy * weight).addcmul_(normed, mean, value=-1).mul_(rstd), d_weight


class SwigluFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        gate, up = x.chunk(2, -1)
        sigmoid = torch.sigmoid(gate)
        ctx.save_for_backward(x, sigmoid)
        return (sigmoid * gate).mul_(up)

    @staticmethod
    def backward(ctx, dy):
        x, sigmoid = ctx.saved_tensors
        gate, up = x.chunk(2, -1)
        dx = torch.empty_like(x)
        d_gate, d_up = dx.chunk(2, -1)
        silu = sigmoid * gate
        torch.mul(dy, silu, out=d_up)
        slope = torch.addcmul(sigmoid, silu, 1 - sigmoid)
        torch.mul(slope.mul_(up), dy, out=d_gate)
        return dx


class AttendFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, mask):
        scale = 1 / math.sqrt(HEAD_DIM)
        p = torch.baddbmm(mask, q, k.transpose(1, 2), alpha=scale).softmax(-1)
        ctx.save_for_backward(q, k, v, p)
        return torch.bmm(p, v)

    @staticmethod
    def backward(ctx, d_out):
        q, k, v, p = ctx.saved_tensors
        scale = 1 / math.sqrt(HEAD_DIM)
        dp = torch.bmm(d_out, v.transpose(1, 2))
        ds = torch._softmax_backward_data(dp, p, -1, p.dtype).mul_(scale)
        return torch.bmm(ds, k), torch.bmm(ds.transpose(1, 2), q), torch.bmm(p.transpose(1, 2), d_out), None


class RotaryFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, cos, sin):
        ctx.save_for_backward(cos, sin)
        return (x * cos).addcmul_(rotate_half(x), sin)

    @staticmethod
    def backward(ctx, dy):
        cos, sin = ctx.saved_tensors
        return (dy * cos).addcmul_(rotate_half(dy), sin, value=-1), None, None


class FusedKernels(Kernels):
    def norm(self, x, weight):
        return NormFunction.apply(x, weight)

    def rotary(self, x):
        return RotaryFunction.apply(x, self.cos, self.sin)

    def attend(self, q, k, v):
        q, k, v = (t.reshape(BATCH * HEADS, SEQUENCE, HEAD_DIM) for t in (q, k, v))
        return AttendFunction.apply(q, k, v, self.mask).view(BATCH, HEADS, SEQUENCE, HEAD_DIM)

    def swiglu(self, x):
        return SwigluFunction.apply(x)


class Block(torch.nn.Module):
    def __init__(self, kernels):
        super().__init__()
        self.kernels = kernels
        self.norm1 = torch.nn.Parameter(torch.ones(HIDDEN))
        self.norm2 = torch.nn.Parameter(torch.ones(HIDDEN))
        self.qkv = torch.nn.Linear(HIDDEN, 3 * HEADS * HEAD_DIM, bias=False)
        self.out = torch.nn.Linear(HEADS * HEAD_DIM, HIDDEN, bias=False)
        self.gate_up = torch.nn.Linear(HIDDEN, 2 * FFN, bias=False)
        self.down = torch.nn.Linear(FFN, HIDDEN, bias=False)

    def forward(self, x):
        qkv = self.qkv(self.kernels.norm(x, self.norm1)).view(BATCH, SEQUENCE, 3, HEADS, HEAD_DIM)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        a = self.kernels.attend(self.kernels.rotary(q), self.kernels.rotary(k), v)
        x = x + self.out(a.transpose(1, 2).reshape(BATCH, SEQUENCE, HEADS * HEAD_DIM))
        return x + self.down(self.kernels.swiglu(self.gate_up(self.kernels.norm(x, self.norm2))))


class Model(torch.nn.Module):
    def __init__(self, kernels):
        super().__init__()
        self.kernels = kernels
        self.embed = torch.nn.Embedding(VOCAB, HIDDEN)
        self.blocks = torch.nn.ModuleList([Block(kernels) for _ in range(LAYERS)])
        self.norm = torch.nn.Parameter(torch.ones(HIDDEN))
        self.head = torch.nn.Linear(HIDDEN, VOCAB, bias=False)
        for p in self.parameters():
            if p.dim() > 1:
                torch.nn.init.normal_(p, std=0.02)

    def forward(self, tokens, targets):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.kernels.norm(x, self.norm))
        return F.cross_entropy(logits.view(-1, VOCAB), targets.view(-1))


def clip_gradients(parameters):
    """clip_grad_norm_ in as few passes as this version of PyTorch offers."""
    gradients = [p.grad for p in parameters]
    norm = torch.stack(torch._foreach_norm(gradients)).norm()
    torch._foreach_mul_(gradients, min(1.0, CLIP / (float(norm) + 1e-6)))


def make_step(variant):
    torch.manual_seed(1)
    kernels = {"eager": Kernels, "script": Kernels, "fused": FusedKernels}.get(variant, SdpaKernels)()
    model = Model(kernels)
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(
        [{"params": [p for p in parameters if p.dim() > 1], "weight_decay": DECAY},
         {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0}],
        lr=LR, betas=(0.9, 0.95), foreach=True)
    forward = model
    if variant == "script":
        forward = torch.jit.trace(model, (torch.zeros(BATCH, SEQUENCE, dtype=torch.long),
                                          torch.zeros(BATCH, SEQUENCE, dtype=torch.long)), check_trace=False)
    if variant == "compile":
        forward = torch.compile(model)

    def step(tokens, targets):
        optimizer.zero_grad(set_to_none=True)
        loss = forward(tokens, targets)
        loss.backward()
        clip_gradients(parameters)
        optimizer.step()
        return loss.detach()

    return step, sum(p.numel() for p in parameters)


def run(variant, steps, warmup):
    step, count = make_step(variant)
    times = []
    for i in range(warmup + steps):
        ids = torch.randint(VOCAB, (BATCH, SEQUENCE + 1))
        tokens, targets = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
        start = time.perf_counter()
        loss = step(tokens, targets)
        value = loss.item()
        if i >= warmup:
            times.append((time.perf_counter() - start) * 1e3)
    print(f"torch {torch.__version__} {variant:8} median {statistics.median(times):.2f} ms, min {min(times):.2f} ms, "
          f"loss {value:.4f}, {count} parameters", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variant", default="all")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    variants = ["eager", "fused", "script"]
    if hasattr(F, "scaled_dot_product_attention"):
        variants += ["sdpa", "compile"]
    for variant in variants if args.variant == "all" else [args.variant]:
        run(variant, args.steps, args.warmup)


if __name__ == "__main__":
    main()
