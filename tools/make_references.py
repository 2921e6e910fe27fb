#!/usr/bin/env python3
"""Makes the reference trajectories under tests/fixtures/hf that cover what the first four lack.

Usage: make_references.py OUTDIR [NAME ...]. Needs torch 2.11 or later and transformers 5.17; runs on the CPU in seconds.
Each folder holds what `fivefold parity --reference` reads: config.json and the initial weights as transformers saves
them, reference.safetensors and reference.json. Arithmetic is f64 (transformers keeps norms, softmax, rotary tables and
the loss in f32), stored as f32; a second run in plain f32 says how far rounding alone carries.
"""
import copy
import json
import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file

HYPER = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.95, "eps": 1e-6, "weight_decay": 0.1, "clip": 1.0, "steps": 10, "batch": 4,
         "seq": 32, "decay": "parameters with two or more dimensions, embeddings included; one-dimensional ones not",
         "loss": "mean cross entropy over B*(T-1) next-token targets"}
SHAPE = {"vocab_size": 120, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 256, "initializer_range": 0.05, "rms_norm_eps": 1e-6,
         "tie_word_embeddings": False, "use_cache": False, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": None}


def rope(**parameters):
    return {"rope_parameters": {"rope_theta": 1000.0, **parameters}}


# name -> (config class, what differs from SHAPE, dtype of the saved weights, size at which transformers starts a new file)
CASES = {
    "qwen2": ("Qwen2Config", {"tie_word_embeddings": True, **rope(rope_type="default")}, torch.float32, "1GB"),
    "mistral_window": ("MistralConfig", {"head_dim": 8, "sliding_window": 8, **rope(rope_type="default")},
                       torch.float32, "1GB"),
    # Wavelengths of the four pairs of dims are 6, 35, 199 and 1117 tokens: one is kept, one blends, two stretch.
    "llama3_scaling": ("LlamaConfig", rope(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                           original_max_position_embeddings=64), torch.float32, "1GB"),
    "linear_scaling": ("LlamaConfig", rope(rope_type="linear", factor=4.0), torch.float32, "1GB"),
    "yarn_scaling": ("LlamaConfig", rope(rope_type="yarn", factor=4.0, original_max_position_embeddings=64),
                     torch.float32, "1GB"),
    "llama_bf16_sharded": ("LlamaConfig", rope(rope_type="default"), torch.bfloat16, "30KB"),
}


def make_model(config, dtype, seed):
    """Random weights, one-dimensional ones moved off their initial values, all rounded to the dtype of the file."""
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
            parameter.copy_(parameter.to(dtype))
    return model.train()


def stored(tensor):
    """A copy as it is written: later steps change the original in place."""
    return tensor.detach().to(torch.float32, copy=True).contiguous()


def train(model, tokens, precision):
    """Runs the steps; returns the tensors of reference.safetensors and the lists of reference.json."""
    model = copy.deepcopy(model).to(precision)
    named = dict(model.named_parameters())
    groups = [{"params": [p for p in named.values() if p.ndim >= 2], "weight_decay": HYPER["weight_decay"]},
              {"params": [p for p in named.values() if p.ndim < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=HYPER["lr"], betas=(HYPER["beta1"], HYPER["beta2"]), eps=HYPER["eps"])
    tensors, lists = {}, {"loss": [], "grad_norm": [], "aux_loss": []}
    for step in range(HYPER["steps"]):
        batch = tokens[step].long()
        output = model(input_ids=batch, labels=batch)
        optimizer.zero_grad()
        output.loss.backward()
        if step == 0:
            tensors["logits"] = stored(output.logits)
            tensors.update({f"grad.{name}": stored(p.grad) for name, p in named.items()})
        norm = torch.nn.utils.clip_grad_norm_(named.values(), HYPER["clip"])
        optimizer.step()
        lists["loss"].append(output.loss.item())
        lists["grad_norm"].append(norm.item())
        lists["aux_loss"].append(None)
    tensors.update({f"final.{name}": stored(p) for name, p in named.items()})
    return tensors, lists


def distance(a, b, prefix):
    """Largest difference of two runs' tensors of one kind, relative to each tensor's largest element."""
    return max(((a[n] - b[n]).abs().max() / a[n].abs().max()).item() for n in a if n.startswith(prefix)
               and not n.endswith("k_proj.bias"))  # the gradient of a k bias is zero in truth


def make(out, name, seed):
    kind, differences, dtype, shard = CASES[name]
    config = getattr(transformers, kind)(**{**SHAPE, **differences})
    model = make_model(config, dtype, seed)
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    copy.deepcopy(model).to(dtype).save_pretrained(folder, max_shard_size=shard)
    (folder / "generation_config.json").unlink(missing_ok=True)
    files = sorted(path.name for path in folder.glob("*.safetensors"))
    wanted = ["model.safetensors"]
    if dtype == torch.bfloat16:
        wanted = [f"model-{i:05}-of-00002.safetensors" for i in (1, 2)]
    assert [f for f in files if f != "reference.safetensors"] == wanted, files

    tokens = torch.randint(0, config.vocab_size, (HYPER["steps"], HYPER["batch"], HYPER["seq"]), dtype=torch.int32)
    tensors, lists = train(model, tokens, torch.float64)
    rough, rough_lists = train(model, tokens, torch.float32)
    save_file({"tokens": tokens, **tensors}, folder / "reference.safetensors")
    summary = {
        "precision": "f64 arithmetic, stored f32",
        "f32_run_of_the_same_differs_by": {
            **{key: max(abs(x - y) for x, y in zip(lists[key], rough_lists[key])) for key in ("loss", "grad_norm")},
            "grad": distance(tensors, rough, "grad."), "final": distance(tensors, rough, "final.")},
        "family": config.model_type, "transformers": transformers.__version__, "torch": torch.__version__,
        "hyper": HYPER, **lists}
    (folder / "reference.json").write_text(json.dumps(summary, indent=1) + "\n")
    for path in folder.iterdir():
        path.chmod(0o644)
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{name}: {size / 1e3:.0f} kB, loss {lists['loss'][0]:.4f} to {lists['loss'][-1]:.4f}, f32 differs by "
          f"{summary['f32_run_of_the_same_differs_by']}")


def main():
    if len(sys.argv) < 2:
        print(__doc__)
        return 2
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    out, names = pathlib.Path(sys.argv[1]), sys.argv[2:] or list(CASES)
    for name in names:
        make(out, name, seed=1 + list(CASES).index(name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
