#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks docs/reference/cases.md against the tests that really run.

    tools/cases.py --build build/release [--page docs/reference/cases.md]

The page holds one table, `| case | what | test | notes |`. Every case named in it must have a
running CTest test whose name carries its id, and every test the row names in backticks must be
one of those. Exit code 1 if any does not hold.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

ROW = re.compile(r"^\|\s*(T\d{3})\s*\|([^|]*)\|([^|]*)\|([^|]*)\|\s*$")
ANY_ID = re.compile(r"^\|\s*(T\d+)")


def rows_of(page):
    """Yields (line, id, what, [test names], notes) of the table; None in place of a bad row."""
    for number, line in enumerate(page.splitlines(), 1):
        found = ROW.match(line)
        if found:
            case, what, tests, notes = (part.strip() for part in found.groups())
            yield number, case, what, re.findall(r"`([^`]+)`", tests), notes
        elif ANY_ID.match(line):
            yield number, None, line, [], ""


def carries(name, case):
    return re.search(re.escape(case) + r"(?!\d)", name) is not None


def faults_of(page, tests):
    """What is wrong with the page, given the names of the tests that run."""
    seen, faults = {}, []
    for number, case, what, named, _ in rows_of(page):
        if case is None:
            faults.append(f"{number}: not a row of four cells: {what}")
            continue
        if case in seen:
            faults.append(f"{number}: {case} stands on line {seen[case]} already")
        seen[case] = number
        running = [name for name in tests if carries(name, case)]
        if not running:
            faults.append(f"{number}: {case} has no running test that carries its id")
        for name in named:
            if not any(name == test or test.endswith("." + name) for test in running):
                faults.append(f"{number}: {case}: no running test is named {name}")
    if not seen:
        faults.append("1: the table of cases is empty")
    return faults


def running_tests(build):
    listed = subprocess.run(["ctest", "--test-dir", str(build), "--show-only=json-v1"],
                            check=True, capture_output=True, stdin=subprocess.DEVNULL)
    names = []
    for test in json.loads(listed.stdout)["tests"]:
        properties = {entry["name"]: entry["value"] for entry in test.get("properties", [])}
        if not properties.get("DISABLED", False):
            names.append(test["name"])
    return names


def main(arguments=None):
    root = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=root / "build/release")
    parser.add_argument("--page", type=Path, default=root / "docs/reference/cases.md")
    options = parser.parse_args(arguments)
    page = options.page.read_text()
    faults = faults_of(page, running_tests(options.build))
    for fault in faults:
        print(f"{options.page.name}:{fault}")
    count = sum(1 for row in rows_of(page) if row[1])
    print(f"cases: {count} cases, {len(faults)} faults", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
