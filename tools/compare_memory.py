#!/usr/bin/env python3
"""Compares the memory that `fivefold plan` predicts with what `fivefold bench step` used, tag by tag.

Usage: compare_memory.py PLAN_OUTPUT STEP_OUTPUT. Exit code 1 where a tag of at least 1 % of the total, or the total, is more than 5 % off.
"""
import re
import sys

UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def bytes_of(number, unit):
    return float(number) * UNITS[unit]


def predicted(text):
    """{tag: bytes} of the largest rank, from the table under 'memory of a rank at most'."""
    table = text.split("memory of a rank at most", 1)[1]
    return {tag: bytes_of(*value) for tag, *value in re.findall(r"^(\w+) +([\d.]+) ([KMGT]?i?B)", table, re.M)}


def used(text):
    return {tag: bytes_of(*value) for tag, *value in re.findall(r"^(\w+): peak ([\d.]+) ([KMGT]?i?B)", text, re.M)}


def main():
    plan, step = (open(path, encoding="utf-8").read() for path in sys.argv[1:3])
    guess, real = predicted(plan), used(step)
    total = real["together"]
    bad = False
    print(f"{'tag':<16}{'predicted MiB':>16}{'used MiB':>16}{'difference':>12}")
    for tag in sorted(set(guess) | set(real), key=lambda t: -real.get(t, 0)):
        a, b = guess.get(tag, 0), real.get(tag, 0)
        if max(a, b) == 0:
            continue
        apart = (a - b) / b * 100 if b else float("inf")
        counts = max(a, b) >= 0.01 * total
        bad = bad or (counts and abs(apart) > 5)
        print(f"{tag:<16}{a / 2**20:>16.1f}{b / 2**20:>16.1f}{apart:>11.2f}%{'' if counts else '  (below 1 % of all)'}")
    return bad


if __name__ == "__main__":
    sys.exit(main())
