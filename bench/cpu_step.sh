#!/usr/bin/env bash
# Times the training step of bench/cpu_step.conf in fivefold and in PyTorch (Debian: python3-torch) on the CPU, by turns in one run,
# and writes bench/results/cpu_step.md.
#
# Usage: bench/cpu_step.sh [FIVEFOLD]        (default build/fivefold)
# ROUNDS turns (5) of STEPS steps (10) each. PYTHON: the interpreter that has torch (python3). PREFIX: a command that both run under, such
# as "chrt -r 1" on a machine with other work. TORCH_ENV: variables for PyTorch alone.
set -euo pipefail
cd "$(dirname "$0")/.."
fivefold=${1:-build/fivefold}
rounds=${ROUNDS:-5} steps=${STEPS:-10} python=${PYTHON:-python3}
read -ra prefix <<< "${PREFIX:-}"
# OpenMP threads that spin between parallel loops take the cores from OpenBLAS's own threads: without this the step takes half as long again.
read -ra torch_env <<< "${TORCH_ENV:-OMP_WAIT_POLICY=passive}"
out=bench/results/cpu_step.md

"$python" -c 'import torch' || { echo "cpu_step.sh: $python has no torch: install python3-torch or set PYTHON" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# "NAME MEDIAN MIN" lines from the output of either program.
times() { sed -nE "s/.*$1 +median ([0-9.]+) ms, min ([0-9.]+) ms.*/\1 \2/p"; }

for round in $(seq "$rounds"); do
  "${prefix[@]}" "$fivefold" bench step --config bench/cpu_step.conf --steps "$steps" --warmup 2 | times step: | sed 's/^/fivefold /' >> "$work/times"
  env "${torch_env[@]}" "${prefix[@]}" "$python" bench/torch_cpu_step.py --steps "$steps" --warmup 2 > "$work/torch"
  while read -r variant; do
    times "$variant" < "$work/torch" | sed "s/^/$variant /" >> "$work/times"
  done < <(awk '{print $3}' "$work/torch")
  echo "turn $round of $rounds" >&2
done
"${prefix[@]}" "$fivefold" bench step --config bench/cpu_step.conf --steps "$steps" --warmup 2 --profile > "$work/profile"

# Median of the rounds' medians, and the least of all steps.
summary() {
  awk -v name="$1" '$1 == name {print $2, $3}' "$work/times" | sort -n |
    awk '{median[NR] = $1; if (NR == 1 || $2 < least) least = $2} END {printf "%.1f | %.1f", median[int((NR + 1) / 2)], least}'
}
cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)
{
  echo "# Training step on the CPU against PyTorch"
  echo
  echo "4 layers, 256 wide, 4 heads of 64, SwiGLU of 1024, vocabulary 256, untied head (4.33 million parameters), sequence 256, batch 8, f32,"
  echo "AdamW with clipping, 2 threads. Milliseconds a step; $rounds turns of $steps steps each, by turns in one run of \`bench/cpu_step.sh\`."
  echo
  echo "$(date -u +%Y-%m-%d), $cpu, $(nproc) cores, $("$fivefold" --version), PyTorch $("$python" -c 'import torch; print(torch.__version__)')" \
       "with \`${torch_env[*]}\`${prefix:+, both under \`${prefix[*]}\`}."
  echo
  echo "| program | median | least |"
  echo "|---|---|---|"
  echo "| fivefold | $(summary fivefold) |"
  awk '$1 != "fivefold" {print $1}' "$work/times" | sort -u | while read -r variant; do
    echo "| PyTorch, $variant | $(summary "$variant") |"
  done
  echo
  echo "The variants of PyTorch are those of \`bench/torch_cpu_step.py\`. One step of fivefold by op (\`bench step --profile\`):"
  echo
  echo '```'
  sed -n '/^op, /,$p' "$work/profile"
  echo '```'
} > "$out"
cat "$out"
