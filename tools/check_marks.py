#!/usr/bin/env python3
"""Fails on marks of unfinished work, commented-out code, disabled tests, feature #ifdefs and paths of one machine.

Usage: check_marks.py [ROOT].
"""
import pathlib
import re
import subprocess
import sys

from sources import report, source_files

UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|not imple" r"mented|unimple" r"mented)\b")
CODE = re.compile(r"^\s*//+\s*(?:return\b.*;|(?:auto|const|int|bool|float|double|void|std::)\b[^,]*;|[\w.:>-]+\(.*\);"
                  r"|(?:if|for|while) \(.*\)(?: \{| .*;)|#\s*(?:include|define|if|endif)\b.*|\})\s*$")
DISABLED = re.compile(r"\bDISABLED_|\b(?:EXPECT|ASSERT)_TRUE\(true\)")
FEATURE_IF = re.compile(r"^\s*#\s*(?:if|ifdef|ifndef|elif)\b.*(?:CUDA|NCCL|MPI|DNNL)")
MACHINE = re.compile(r"(?<![\w.$}])/(?:ho" r"me|ro" r"ot|wo" r"rk|t" r"mp|Us" r"ers)/\w")
TEXT = {".py", ".sh", ".md", ".txt", ".cmake", ".json", ".conf", ".yml", ""} | {".h", ".cpp", ".cu", ".cuh"}


def source_problems(root, path):
    """Problems that only source code can have."""
    for number, line in enumerate((root / path).read_text().splitlines(), 1):
        if CODE.match(line):
            yield f"{path}:{number}: commented-out code: {line.strip()}"
        if DISABLED.search(line):
            yield f"{path}:{number}: a disabled or empty test"
        if FEATURE_IF.match(line) and "__CUDA" not in line:
            yield f"{path}:{number}: an optional feature is a file chosen by CMake, not an #if"


def text_problems(root, path):
    """Problems that any text can have."""
    for number, line in enumerate((root / path).read_text(errors="replace").splitlines(), 1):
        if UNFINISHED.search(line):
            yield f"{path}:{number}: unfinished: {line.strip()}"
        if MACHINE.search(line):
            yield f"{path}:{number}: a path of one machine: {line.strip()}"


def tracked_text(root):
    listing = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=root,
                             capture_output=True, text=True)
    names = [pathlib.Path(name) for name in listing.stdout.splitlines()]
    return [name for name in names if name.suffix in TEXT and "fixtures" not in name.parts and (root / name).is_file()]


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    problems = [p for path in source_files(root) for p in source_problems(root, path)]
    problems += [p for path in tracked_text(root) for p in text_problems(root, path)]
    return report(problems, "marks")


if __name__ == "__main__":
    sys.exit(main())
