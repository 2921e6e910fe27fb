#!/usr/bin/env python3
"""Fails when a file includes a header of a layer above it, or a library header outside the files named for it.

Usage: check_layers.py [ROOT]. The layers are the table in docs/tour.md; the linker holds the same rule for symbols.
"""
import pathlib
import re
import sys

from sources import report, source_files

BELOW = {  # layer -> what it may include besides itself
    "core": [],
    "kernels": ["core"],
    "parallel": ["core", "kernels"],
    "model": ["core", "kernels", "parallel"],
    "checkpoint": ["core", "parallel/mesh", "parallel/comm"],
    "data": ["core"],
    "launcher": ["core", "kernels", "parallel", "model", "checkpoint", "data"],
}
NARROWER = {  # parts of a layer that may include less than the layer
    "parallel/mesh": ["core", "parallel/comm"],
    "parallel/comm": ["core", "parallel/mesh"],
}
LIBRARIES = [  # headers of a library, and the files that may include them
    ("MPI", r"mpi\.h$", r"(^|/)mpi_[^/]*\.(cpp|h)$|^tests/mpi/"),
    ("NCCL", r"nccl\.h$", r"(^|/)nccl_[^/]*\.(cpp|h)$|^tests/.*nccl_"),
    ("CUDA", r"(cuda\w*|cublas\w*|cudnn\w*|nvtx\w*|curand\w*)\.h$|^(cub|cute|cutlass|cuda|thrust|nvtx3)/|^mma\.h$",
     r"\.cuh?$|_cuda\.(cpp|h)$|(^|/)cuda_[^/]*\.h$|(^|/)nccl_[^/]*\.(cpp|h)$"),
    ("Boost.Log", r"^boost/log/", r"^core/log\.cpp$"),
    ("Boost.Program_options", r"^boost/program_options", r"^launcher/"),
    ("oneDNN", r"^(oneapi/)?dnnl", r"_onednn\.cpp$"),
    ("BLAS", r"^cblas\.h$", r"^kernels/cpu/|^tests/kernels/"),
]


def may_include(path, header):
    """True where the layer of path may use this header of the project."""
    layer = path.parts[0]
    if layer not in BELOW:
        return True  # tests and benchmarks: the linker decides
    part = "/".join(path.parts[:2])
    allowed = [part, *NARROWER[part]] if part in NARROWER else [layer, *BELOW[layer]]
    return any(header.startswith(folder + "/") for folder in allowed)


def problems_of(root, path):
    for number, line in enumerate((root / path).read_text().splitlines(), 1):
        found = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
        if not found:
            continue
        quoted, header = found[1] == '"', found[2]
        if header.split("/")[0] in BELOW:
            if not may_include(path, header):
                yield f"{path}:{number}: {path.parts[0]} may not include {header}"
            continue
        if quoted and "/" not in header and (root / path.parent / header).exists():
            yield f'{path}:{number}: write "{path.parent / header}": includes start at the repository'
        for library, headers, files in LIBRARIES:
            if re.search(headers, header) and not re.search(files, str(path)):
                yield f"{path}:{number}: {library} header {header} belongs in files matching {files}"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    return report([p for path in source_files(root) for p in problems_of(root, path)], "layers")


if __name__ == "__main__":
    sys.exit(main())
