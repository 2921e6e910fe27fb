#!/usr/bin/env python3
"""Counts the single test cases in a ctest log and prints, for each failure, the line that runs exactly it again.

Usage: test_summary.py LastTest.log COMMAND, where COMMAND -R REGEX runs a part of the tests. Ends with 'N passed, N failed, N skipped'; exit status 1 when a case failed or no
case ran. A ctest entry that is no GoogleTest suite counts as one case.
"""
import pathlib
import re
import sys

ENTRY = re.compile(r"^\d+/\d+ Test: (\S+)$", re.MULTILINE)
CASE = re.compile(r"\[( RUN      |       OK |  FAILED  |  SKIPPED )\] (\S+?\.\S+?)(?:, where | \(\d+ ms\)|$)", re.MULTILINE)


def outcomes(name, text):
    """{case: 'passed' | 'failed' | 'skipped'} of one ctest entry. A case that began and never ended has failed."""
    passed = re.search(r"^Test Passed\.$", text, re.MULTILINE) is not None
    seen = {}
    for mark, case in CASE.findall(text):
        seen.setdefault(case, set()).add(mark.strip())  # several ranks may report the same case
    result = {}
    for case, marks in seen.items():
        ended = marks & {"OK", "SKIPPED"}
        if "FAILED" in marks or (not ended and not passed):
            result[case] = "failed"
        else:
            result[case] = "skipped" if "SKIPPED" in marks else "passed"
    if not passed and "failed" not in result.values():
        result[""] = "failed"  # the process itself: a crash between cases, a leak, a timeout
    return result or {"": "passed"}


def rerun_line(command, entry, case):
    """The line for one case, or for a whole entry where no case is to blame."""
    if case:
        program = re.match(r"mpi\.np\d+|[^.]+", entry)[0]
        entry = f"{program}.{case}"
    label = " --label slow" if "test" in command and re.search(r"(^|[./])Slow|^quickstart", entry) else ""
    return f"{command}{label} -R '^{re.escape(entry)}" + ("$'" if case else "'")


def main():
    path = pathlib.Path(sys.argv[1])
    text = path.read_text(errors="replace") if path.exists() else ""
    starts = list(ENTRY.finditer(text))
    ends = [start.start() for start in starts[1:]] + [len(text)]
    count = {"passed": 0, "failed": 0, "skipped": 0}
    reruns = []
    for start, end in zip(starts, ends):
        for case, outcome in outcomes(start[1], text[start.end():end]).items():
            count[outcome] += 1
            if outcome == "failed":
                reruns.append(rerun_line(sys.argv[2], start[1], case))
    for line in reruns:
        print(f"failed; again: {line}")
    print(f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
    return 1 if count["failed"] or not starts else 0


if __name__ == "__main__":
    sys.exit(main())
