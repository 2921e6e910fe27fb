"""The project's own source files, for the checks beside this file."""
import pathlib

FOLDERS = ["core", "kernels", "parallel", "model", "checkpoint", "data", "launcher", "bench", "tests", "docs"]
SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}


def source_files(root):
    """Paths of all C++ and CUDA sources below root, relative to it, sorted."""
    root = pathlib.Path(root)
    found = [path for folder in FOLDERS for path in (root / folder).rglob("*") if path.suffix in SUFFIXES]
    return sorted(path.relative_to(root) for path in found)


def report(problems, name):
    """Prints the problems and one closing line; returns the exit status."""
    for problem in problems:
        print(problem)
    print(f"{name}: {len(problems)} problem(s)")
    return 1 if problems else 0
