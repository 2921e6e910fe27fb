#!/usr/bin/env bash
# Times kernels and training steps on one GPU, ours and PyTorch's by turns in the same run, and writes bench/results/gpu.md.
#
# Usage: bench/run_gpu.sh [FIVEFOLD]           (default build/fivefold)
# MODELS: steps to time (llama-1b llama-3b; llama-8b runs a sequence at a time with recompute=selective and the f32 master
# split into the bf16 copy and 16 bits more, and without a peer, which needs more memory).
# ATTENTIONS: forms of PyTorch's attention to try (cudnn; also flash), the faster one counts; each compiles the model anew.
# PEER_KERNELS=no leaves out the peer's kernels (40 s).
# SECONDS_OP: time for a case of an op (0.1). STEPS (10). PYTHON: the interpreter that has torch (python3); without one the peer's
# columns stay empty. OUT: the file to write. SETTINGS: further --section.key=value for our steps.
set -euo pipefail
cd "$(dirname "$0")/.."
fivefold=${1:-build/fivefold}
read -ra models <<< "${MODELS:-llama-1b llama-3b}"
read -ra settings <<< "${SETTINGS:-}"
attentions=${ATTENTIONS:-cudnn} seconds=${SECONDS_OP:-0.1} steps=${STEPS:-10} python=${PYTHON:-python3} out=${OUT:-bench/results/gpu.md}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

query() { nvidia-smi --query-gpu="$1" --format=csv,noheader | head -1; }
peer=no
"$python" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2> /dev/null && peer=yes
batch=4

# What a step of MODEL prints, and its figures: milliseconds, tokens/s, MFU, peak memory.
ours() {
  local model=$1 micro=$batch more=()
  [[ $model == llama-8b ]] && micro=1 more=(--train.recompute=selective --train.master=split)
  "$fivefold" bench step --model.preset="$model" --train.precision=bf16 --train.device=cuda --data.sequence=4096 \
    --train.global_batch="$batch" --train.micro_batch="$micro" "${more[@]}" "${settings[@]}" --steps "$steps" --warmup 3 --profile
}
figure() { sed -nE "s/$2/\1/p" "$work/$1" | head -1; }

for model in "${models[@]}"; do
  echo "run_gpu.sh: $model" >&2
  ours "$model" > "$work/$model" || echo "failed: see above" > "$work/$model"
  [[ $peer == yes && $model != llama-8b ]] || continue
  for attention in $attentions; do
    "$python" bench/peer_train.py "$model" --batch "$batch" --steps "$steps" --attention "$attention" > "$work/$model.$attention" \
      || true
  done
done
echo "run_gpu.sh: kernels" >&2
"$fivefold" bench ops --device cuda --seconds "$seconds" > "$work/ops"
[[ $peer == no || ${PEER_KERNELS:-yes} == no ]] || "$python" bench/peer_kernels.py > "$work/peer_ops"

field() { [[ ! -f $work/$1 ]] || sed -nE "s/.*\"$2\": ([0-9.]+).*/\1/p" "$work/$1" | head -1; }
row() {
  local model=$1 mine best="" rate name=""
  mine=$(figure "$model" '^([0-9]+) tokens\/s.*')
  for attention in $attentions; do
    rate=$(field "$model.$attention" tokens_per_second)
    [[ -n $rate && ( -z $best || $rate -gt $best ) ]] && best=$rate name=$attention
  done
  echo "| $model, sequence 4096, batch $batch | $(figure "$model" '^step: median ([0-9.]+) ms.*') | ${mine:-failed} |" \
    "$(figure "$model" '.*MFU ([0-9.]+) %.*') | ${best:--}${name:+ ($name)} |" \
    "$([[ -n $best && -n $mine ]] && awk -v a="$mine" -v b="$best" 'BEGIN {printf "%.3f", a / b}' || echo -) |"
}
{
  echo "# One GPU"
  echo
  echo "$(date -u '+%Y-%m-%d %H:%M UTC'), $(query name), driver $(query driver_version), $(nvidia-smi | grep -o "CUDA Version: [0-9.]*"),"
  echo "clocks now $(query clocks.sm) / $(query clocks.mem), at most $(query clocks.max.sm) / $(query clocks.max.mem), power limit $(query power.limit)."
  echo "$("$fivefold" --version); PyTorch $("$python" -c 'import torch; print(torch.__version__)' 2> /dev/null || echo none), compiled, fused AdamW, f32 weights."
  echo "Written by \`bench/run_gpu.sh\`: medians, random tokens and weights, MFU by the datasheet's dense bf16 rate."
  echo
  echo "| step | ms | tokens/s | MFU % | PyTorch's tokens/s (its faster attention) | ratio |"
  echo "|---|---|---|---|---|---|"
  for model in "${models[@]}"; do row "$model"; done
  for model in "${models[@]}"; do
    printf '\n## %s\n\n```\n' "$model"
    cat "$work/$model"
    echo '```'
  done
  printf '\n## Kernels\n\n`fivefold bench ops --device cuda`:\n\n```\n'
  cat "$work/ops"
  echo '```'
  if [[ -f $work/peer_ops ]]; then
    printf '\n`bench/peer_kernels.py`, in the same run:\n\n```\n'
    cat "$work/peer_ops"
    echo '```'
  fi
} > "$out"
sed -n '1,20p' "$out"
