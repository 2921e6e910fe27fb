#!/usr/bin/env python3
"""One training step of a Llama-shaped model in PyTorch on a GPU, for bench/run_gpu.sh to time beside ours.

Usage: peer_train.py MODEL [--sequence S] [--batch B] [--steps K] [--warmup W] [--attention flash|cudnn] [--recompute] [--eager]
Prints one JSON line: milliseconds a step (median), tokens/s, model TFLOP/s, peak memory, loss.

The step: f32 weights, bf16 arithmetic by autocast, scaled_dot_product_attention, cross entropy over whole logits, torch.compile,
clipping of the global norm, fused AdamW. Random tokens, random weights. Model FLOPs as `fivefold bench step` counts them: 6 a weight of a
product (head included, embedding not) and a token, and 6 x layers x width x sequence for the causal half of attention.
"""
import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

VOCAB, EPS, THETA = 128256, 1e-5, 500000.0
# width, layers, heads, kv heads, ffn
SHAPES = {"llama-1b": (2048, 16, 32, 8, 8192), "llama-3b": (3072, 28, 24, 8, 8192), "llama-8b": (4096, 32, 32, 8, 14336)}


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.rms_norm(x, x.shape[-1:], self.weight.to(x.dtype), EPS)


def rotate(x, cos, sin):
    """x [B, S, H, hd], halves turned against each other."""
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)


class Block(nn.Module):
    def __init__(self, width, heads, kv_heads, ffn):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, width // heads
        self.attention_norm, self.mlp_norm = RmsNorm(width), RmsNorm(width)
        self.qkv = nn.Linear(width, (heads + 2 * kv_heads) * self.head_dim, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate_up = nn.Linear(width, 2 * ffn, bias=False)
        self.down = nn.Linear(ffn, width, bias=False)

    def attention(self, x, cos, sin):
        batch, rows, _ = x.shape
        sizes = [n * self.head_dim for n in (self.heads, self.kv_heads, self.kv_heads)]
        q, k, v = (part.view(batch, rows, -1, self.head_dim) for part in self.qkv(x).split(sizes, -1))
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        y = F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)), is_causal=True, enable_gqa=True)
        return self.out(y.transpose(1, 2).flatten(2))

    def forward(self, x, cos, sin):
        x = x + self.attention(self.attention_norm(x), cos, sin)
        gate, up = self.gate_up(self.mlp_norm(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Decoder(nn.Module):
    def __init__(self, width, layers, heads, kv_heads, ffn, sequence, recompute):
        super().__init__()
        self.recompute = recompute
        self.embedding = nn.Embedding(VOCAB, width)
        self.blocks = nn.ModuleList(Block(width, heads, kv_heads, ffn) for _ in range(layers))
        self.norm = RmsNorm(width)
        self.head = nn.Linear(width, VOCAB, bias=False)
        frequency = THETA ** (-torch.arange(0, width // heads, 2) / (width // heads))
        angle = torch.outer(torch.arange(sequence), frequency)[:, None, :]
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def forward(self, tokens, targets):
        x = self.embedding(tokens).to(torch.bfloat16)
        for block in self.blocks:
            x = checkpoint(block, x, self.cos, self.sin, use_reentrant=False) if self.recompute else block(x, self.cos, self.sin)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1).float(), targets.flatten())


def model_flops_per_token(width, layers, heads, kv_heads, ffn, sequence):
    block = width * (width + 2 * kv_heads * (width // heads)) + width * width + 3 * width * ffn
    return 6 * (layers * block + VOCAB * width) + 6 * layers * width * sequence


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=SHAPES)
    parser.add_argument("--sequence", type=int, default=4096)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=4)
    parser.add_argument("--attention", choices=("flash", "cudnn"), default="cudnn")
    parser.add_argument("--recompute", action="store_true")
    parser.add_argument("--eager", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(0)
    shape = SHAPES[args.model]
    with torch.device("cuda"):
        model = Decoder(*shape, args.sequence, args.recompute)
    for p in model.parameters():
        if p.dim() > 1:
            nn.init.normal_(p, std=0.02)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def loss_of(tokens, targets):
        with torch.autocast("cuda", torch.bfloat16):
            return model(tokens, targets)

    forward = loss_of if args.eager else torch.compile(loss_of)
    batches = [torch.randint(0, VOCAB, (args.batch, args.sequence + 1), device="cuda") for _ in range(4)]
    backend = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}[args.attention]
    seconds = []
    with sdpa_kernel([backend]):
        for step in range(args.warmup + args.steps):
            batch = batches[step % len(batches)]
            torch.cuda.synchronize()
            start = time.perf_counter()
            loss = forward(batch[:, :-1], batch[:, 1:])
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            torch.cuda.synchronize()
            seconds.append(time.perf_counter() - start)
    median = statistics.median(seconds[args.warmup:])
    rate = args.batch * args.sequence / median
    print(json.dumps({"model": args.model, "sequence": args.sequence, "batch": args.batch, "attention": args.attention,
                      "compiled": not args.eager, "recompute": args.recompute, "milliseconds": round(median * 1e3, 2),
                      "tokens_per_second": round(rate),
                      "model_tflops": round(rate * model_flops_per_token(*shape, args.sequence) * 1e-12, 1),
                      "peak_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2), "loss": round(loss.item(), 4),
                      "torch": torch.__version__}), flush=True)


if __name__ == "__main__":
    main()
