#!/usr/bin/env bash
# Times `fivefold data build` with the byte tokenizer beside `LC_ALL=C wc -w` on the same cached file, by turns, and writes
# bench/results/data_build.md.
#
# Usage: bench/data_build.sh [FIVEFOLD [TEXT]]
# Without TEXT the repository's own sources and pages, repeated to 256 MiB. ROUNDS turns (7). PREFIX: a command that both run under, such
# as "chrt -r 1" on a machine with other work.
set -euo pipefail
cd "$(dirname "$0")/.."
fivefold=${1:-build/fivefold} text=${2:-} rounds=${ROUNDS:-7}
read -ra prefix <<< "${PREFIX:-}"
out=bench/results/data_build.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [[ -z $text ]]; then
  text=$work/text.txt
  cat docs/*.md ./*.md ./*/*.cpp ./*/*.h > "$work/once"
  copies=$((256 * 1024 * 1024 / $(stat -c %s "$work/once")))
  for _ in $(seq "$copies"); do cat "$work/once"; done > "$text"
fi
bytes=$(stat -c %s "$text")

# Seconds of a command.
TIMEFORMAT=%R
seconds() { { time "$@" > "$work/said" 2> "$work/failed"; } 2>&1 || { cat "$work/failed" >&2; exit 1; }; }
# Peak resident KiB of a build of the file.
peak() { /usr/bin/time -f %M "$fivefold" data build --out "$work/peak.tok" "$1" 2>&1 > /dev/null | tail -n 1; }

cat "$text" > /dev/null  # into the page cache
for _ in $(seq "$rounds"); do
  seconds env LC_ALL=C "${prefix[@]}" wc -w "$text" >> "$work/wc"
  seconds "${prefix[@]}" "$fivefold" data build --out "$work/text.tok" "$text" >> "$work/build"
done
head -c $((bytes / 16)) "$text" > "$work/small.txt"

# "median s | least s | MB/s at the median"
row() { sort -n "$1" | awk -v bytes="$bytes" '{s[NR] = $1} END {m = s[int((NR + 1) / 2)]; printf "%.2f | %.2f | %.0f", m, s[1], bytes / m / 1e6}'; }
cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)
{
  echo "# Making byte tokens"
  echo
  echo "A text of $bytes bytes in the page cache, $rounds runs of each program by turns (\`bench/data_build.sh\`)."
  echo "$(date -u +%Y-%m-%d), $cpu, $(nproc) cores, $("$fivefold" --version), $(wc --version | head -1)${prefix:+; both under \`${prefix[*]}\`}."
  echo
  echo "| program | median s | least s | MB/s |"
  echo "|---|---|---|---|"
  echo "| \`LC_ALL=C wc -w\` | $(row "$work/wc") |"
  echo "| \`fivefold data build\` | $(row "$work/build") |"
  echo
  echo "The build writes $(stat -c %s "$work/text.tok") bytes, to the disk's cache and then to the disk. Its peak memory is" \
       "$(peak "$text") KiB for this text and $(peak "$work/small.txt") KiB for its first sixteenth."
} > "$out"
cat "$out"
