#!/usr/bin/env python3
"""Draws the losses of a metrics.jsonl in the terminal: one row a slice of the run, a mark per loss, and reference lines.

usage: loss_curve.py METRICS [NAME=VALUE ...]
"""
import json
import sys

ROWS, WIDTH = 20, 60


def read(path):
    train, valid = [], []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            entry = json.loads(line)
            if entry["loss"] is not None:
                (valid if entry.get("split") == "valid" else train).append((entry["samples"], entry["step"], entry["loss"]))
    return train, valid


def slices(points):
    """At most ROWS groups of neighbouring points: (first sample, last step, mean loss)."""
    points = sorted(points)
    size = max(1, -(-len(points) // ROWS))
    for i in range(0, len(points), size):
        part = points[i : i + size]
        yield part[-1][0], part[-1][1], sum(loss for _, _, loss in part) / len(part)


def draw(train, valid, references):
    top = max([loss for _, _, loss in slices(train)] + list(references.values())) * 1.02

    def column(loss):
        return min(WIDTH - 1, int(loss / top * WIDTH))

    print(f"{'step':>6} {'loss':>7}  0{'nats a token':^{WIDTH - 2}}{top:.1f}")
    for _, step, loss in slices(train):
        row = [" "] * WIDTH
        for value in references.values():
            row[column(value)] = "|"
        row[column(loss)] = "*"
        print(f"{step:>6} {loss:7.3f}  {''.join(row)}")
    for _, step, loss in valid:
        print(f"validation after step {step}: {loss:.4f}")
    for name, value in references.items():
        print(f"{name} (|): {value:.4f}")


def main(arguments):
    if not arguments:
        sys.exit(__doc__)
    train, valid = read(arguments[0])
    references = {name: float(value) for name, value in (a.split("=", 1) for a in arguments[1:])}
    draw(train, valid, references)


main(sys.argv[1:])
