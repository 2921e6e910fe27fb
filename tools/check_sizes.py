#!/usr/bin/env python3
"""Fails when a file or a function is longer than the project's bars, and prints the distribution of lengths.

Usage: check_sizes.py [ROOT]. Bars: 400 lines a file, 80 a host function, 120 a kernel (.cu, .cuh); over all host code
the median function stays within 8 lines and the 90th percentile within 30. Needs universal-ctags.
"""
import json
import pathlib
import shutil
import subprocess
import sys

from sources import report, source_files

FILE_LINES, HOST_LINES, KERNEL_LINES = 400, 80, 120
HOST_MEDIAN, HOST_P90 = 8, 30


def function_lengths(root, paths):
    """[(lines, path, first line, name)] of every function with a body, signature included."""
    command = ["ctags", "--output-format=json", "--languages=C++,CUDA", "--langmap=C++:.h.cpp,CUDA:.cu.cuh",
               "--kinds-C++=f", "--kinds-CUDA=f", "--fields=+ne", "-L", "-"]
    listing = subprocess.run(command, input="\n".join(map(str, paths)), capture_output=True, text=True, check=True,
                             cwd=root)
    tags = [json.loads(line) for line in listing.stdout.splitlines()]
    return [(tag["end"] - tag["line"] + 1, tag["path"], tag["line"], tag["name"]) for tag in tags if "end" in tag]


def percentile(lengths, part):
    ordered = sorted(lengths)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    if not shutil.which("ctags"):
        print("check_sizes.py needs ctags (Debian and Ubuntu: universal-ctags)")
        return 2
    paths = source_files(root)
    files = [(len((root / path).read_text().splitlines()), path) for path in paths]
    problems = [f"{path}: {lines} lines, the bar is {FILE_LINES}" for lines, path in files if lines > FILE_LINES]

    host = []
    for lines, path, first, name in function_lengths(root, paths):
        kernel = path.endswith((".cu", ".cuh"))
        bar = KERNEL_LINES if kernel else HOST_LINES
        if lines > bar:
            problems.append(f"{path}:{first}: {name} has {lines} lines, the bar is {bar}")
        if not kernel and not path.startswith("tests/"):
            host.append(lines)
    median, p90 = percentile(host, 0.5), percentile(host, 0.9)
    if median > HOST_MEDIAN or p90 > HOST_P90:
        problems.append(f"functions: median {median} (bar {HOST_MEDIAN}), 90th percentile {p90} (bar {HOST_P90})")
    print(f"{len(files)} files, median {percentile([f[0] for f in files], 0.5)} lines, longest {max(files)[0] if files else 0}; "
          f"{len(host)} host functions: median {median}, p90 {p90}, p99 {percentile(host, 0.99)}, "
          f"longest {max(host, default=0)}")
    return report(problems, "sizes")


if __name__ == "__main__":
    sys.exit(main())
