#!/usr/bin/env bash
# What must hold on a machine with a GPU, one after another, with a verdict for each and one at the end.
#
#   tools/gpu_checks.sh [BUILD] [CHECK ...]      (default build/cuda, all checks)
#
#   ops         every op's cases on the device: against the CPU, guards, poisoned memory, equal bits when run again
#   sanitize    the same under compute-sanitizer's memcheck and racecheck (SANITIZE_FILTER: which of them, default GpuOps.*)
#   layouts     stored trajectories and bf16 over layouts of eight ranks that share the device
#   mpi         layouts under mpirun -np 4
#   references  fivefold parity --reference in f32 on the device, every stored trajectory, on one rank and on four
#   curve       500 steps in bf16 and in f32 on the same data: the losses at the end differ by less than 0.5 %
#   memory      fivefold plan's peak of every tag against what a run used (MEMORY_MODEL, default llama-1b)
set -uo pipefail
cd "$(dirname "$0")/.."
build=build/cuda
[[ $# -gt 0 && -d $1 ]] && build=$1 && shift
checks=("$@")
[[ ${#checks[@]} -eq 0 ]] && checks=(ops sanitize layouts mpi references curve memory)
fivefold=$build/launcher/fivefold
[[ -x $fivefold ]] || fivefold=$build/fivefold
tests=$build/tests
[[ -d $tests ]] || tests=$build  # programs that were carried here alone
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

show() { echo "+ $*" >&2; "$@"; }
# Runs tests, of which none may be skipped for want of a device.
run_tests() {
  show "$@" > "$work/tests" 2>&1
  local code=$?
  grep -vE '^\[ +(RUN|OK) ' "$work/tests" | tail -40
  [[ $code -eq 0 ]] && ! grep -q 'no CUDA device' "$work/tests" && grep -qE 'PASSED.* [1-9][0-9]* test' "$work/tests"
}

check_ops() { run_tests "$tests/test_core" --gtest_filter='Gpu*' && run_tests "$tests/test_kernels" --gtest_filter='Gpu*'; }

check_sanitize() {
  local filter=${SANITIZE_FILTER:-GpuOps.*} tool
  for tool in memcheck racecheck; do
    show compute-sanitizer --tool "$tool" --error-exitcode 9 "$tests/test_kernels" --gtest_filter="$filter" > "$work/$tool" 2>&1 \
      || { tail -30 "$work/$tool"; return 1; }
    tail -2 "$work/$tool"
  done
}

check_layouts() { run_tests "$tests/test_launcher" --gtest_filter='*Gpu*'; }

check_mpi() { run_tests mpirun -np 4 --oversubscribe --bind-to none "$tests/test_mpi" --gtest_filter='Gpu*'; }

check_references() {
  local folder failed=0
  for folder in tests/fixtures/hf/*/; do
    [[ -f $folder/reference.json ]] || continue
    for ranks in "" "--ranks 4 --parallel.shard=2 --parallel.tp=2 --parallel.zero=3"; do
      # shellcheck disable=SC2086
      show "$fivefold" parity --reference "$folder" --train.device=cuda $ranks > "$work/parity" 2>&1 \
        || { cat "$work/parity"; failed=1; }
    done
  done
  return $failed
}

# Mean loss of the last 50 steps, and that of the validation behind them.
ends() {
  grep -v '"split"' "$1" | tail -50 | sed -E 's/.*"loss":([0-9.]+).*/\1/' | awk '{sum += $1} END {print sum / NR}'
  grep '"split"' "$1" | tail -1 | sed -E 's/.*"loss":([0-9.]+).*/\1/'
}

# Text that is always at hand: this program's own.
check_curve() {
  local precision
  find . -path ./build -prune -o \( -name '*.cpp' -o -name '*.h' -o -name '*.cu' -o -name '*.md' \) -print | sort | xargs cat > "$work/text.txt"
  show "$fivefold" data build --out "$work/train.tok" --valid-out "$work/valid.tok" --valid-fraction 0.05 --separator '\n\n' "$work/text.txt" \
    || return 1
  for precision in f32 bf16; do
    show "$fivefold" train --run.dir="$work" --run.name="$precision" --run.steps=500 --train.precision="$precision" --train.device=cuda \
      --model.family=llama --model.layers=6 --model.hidden=384 --model.heads=6 --model.kv_heads=2 --model.ffn=1024 --model.vocab=257 \
      --model.context=512 --data.train="$work/train.tok" --data.valid="$work/valid.tok" --train.global_batch=16 --train.micro_batch=16 \
      --optimizer.lr=1e-3 --optimizer.warmup_steps=50 --log.every=100 || return 1
  done
  paste <(ends "$work/f32/metrics.jsonl") <(ends "$work/bf16/metrics.jsonl") | awk '
    { apart = ($2 - $1) / $1 * 100; printf "%s: f32 %.4f, bf16 %.4f, %+.3f %%\n", NR == 1 ? "last 50 steps" : "validation", $1, $2, apart
      if (apart > 0.5 || apart < -0.5 || !($1 > 0)) bad = 1 }
    END { exit bad || NR != 2 }'
}

# Lines "tag now peak" of both, in bytes of rank 0.
check_memory() {
  local settings=(--model.preset="${MEMORY_MODEL:-llama-1b}" --train.precision=bf16 --data.sequence=4096 --train.global_batch=4 --train.micro_batch=4)
  show "$fivefold" plan "${settings[@]}" > "$work/plan" || return 1
  show "$fivefold" bench step "${settings[@]}" --train.device=cuda --steps 2 --warmup 1 > "$work/step" || return 1
  python3 tools/compare_memory.py "$work/plan" "$work/step"
}

declare -A verdict
failed=0
for check in "${checks[@]}"; do
  declare -F "check_$check" > /dev/null || { echo "gpu_checks.sh: no check '$check'; --help is the head of the file" >&2; exit 2; }
  echo "== $check"
  start=$SECONDS
  if "check_$check"; then verdict[$check]=passed; else verdict[$check]=FAILED failed=1; fi
  echo "== $check ${verdict[$check]} in $((SECONDS - start)) s"
done
for check in "${checks[@]}"; do echo "$check: ${verdict[$check]}"; done
exit $failed
