#!/usr/bin/env bash
# The body of ./dev quickstart: a token file from real English text, training on 8 ranks under mpirun that share pipeline, data
# and tensor parallelism, a rank killed half-way, training on from the last checkpoint under another layout (context instead of
# data parallelism), then the loss curve and a sample.
# Text: the King James Version, out of copyright, as Debian's package bible-kjv prints it.
#
#   quickstart.sh FIVEFOLD RUN_DIR
set -euo pipefail
fivefold=$1 dir=$2
ranks=8
first_layout=(--parallel.pp=2 --parallel.shard=2 --parallel.tp=2 --parallel.zero=3)
second_layout=(--parallel.pp=2 --parallel.cp=2 --parallel.tp=2 --parallel.schedule=zb-h1)
half=200
here=$(cd "$(dirname "$0")/.." && pwd)
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

show() { echo "+ $*"; "$@"; }

# A chapter is a document: a blank line where the number before the colon changes; the verse numbers go.
chapters() {
  bible -f gen1:1-rev22:21 |
    awk '{ chapter = $1; sub(/:.*/, "", chapter); if (chapter != last && NR > 1) print ""; last = chapter; sub(/^[^ ]* /, ""); print }'
}

train=(mpirun -np "$ranks" --oversubscribe --bind-to none "$fivefold" train --config "$here/configs/quickstart.conf"
  "--run.dir=$dir" "--data.train=$dir/train.tok" "--data.valid=$dir/valid.tok")
metrics=$dir/quickstart/metrics.jsonl

# Ends one rank the hard way once the run is half done.
kill_one_rank_half_way() {
  local job=$1 rank
  until [[ -f $metrics ]] && (($(wc -l <"$metrics") >= half)); do
    sleep 0.2
    kill -0 "$job" 2>/dev/null || return 0
  done
  rank=$(pgrep -P "$job" | head -1)
  echo "+ kill -KILL $rank    # one rank dies, as a node might"
  kill -KILL "$rank"
}

rm -rf "$dir" && mkdir -p "$dir"
echo "+ bible -f gen1:1-rev22:21 > $dir/kjv.txt"
chapters >"$dir/kjv.txt"
show "$fivefold" data build --out "$dir/train.tok" --valid-out "$dir/valid.tok" --valid-fraction 0.05 --separator '\n\n' "$dir/kjv.txt"

echo "+ ${train[*]} ${first_layout[*]} &"
"${train[@]}" "${first_layout[@]}" &
job=$!
kill_one_rank_half_way "$job"
wait "$job" && { echo "quickstart: the run was to be killed half-way and was not" >&2; exit 1; }

echo "+ ${train[*]} ${second_layout[*]}    # goes on from the last checkpoint, cut another way"
"${train[@]}" "${second_layout[@]}"

bigram=$("$fivefold" data info "$dir/train.tok" --bigram | awk '/^bigram/ { print $2 }')
show python3 "$here/tools/loss_curve.py" "$metrics" "bigram table of the text=$bigram"
show "$fivefold" generate --checkpoint "$dir/quickstart" --prompt "And it came to pass" --max-tokens 200 --seed 1 --temperature 0.8

valid=$(grep '"split":"valid"' "$metrics" | tail -1 | sed 's/.*"loss":\([0-9.]*\).*/\1/')
awk -v valid="$valid" -v bigram="$bigram" 'BEGIN {
  printf "validation loss %.4f, bigram table %.4f: %s\n", valid, bigram, valid < bigram ? "the model has learned more than pairs" : "NOT below the table"
  exit !(valid < bigram) }'
