#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks who includes whom against tools/layers.toml.

    tools/layering.py [--root DIR]

Each fault is one line, `path:line: what is wrong`; the exit code is 1 if there is any. Standard
and system headers are free. A third party that layers.toml does not name is a fault.
"""

import argparse
import re
import sys
import tomllib
from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')
# Angle includes without a dot are the standard library's; these are the system's.
SYSTEM = re.compile(r"^(?:sys|netinet|arpa|linux|bits|net)/|^(?:unistd|fcntl|poll|signal|errno|"
                    r"netdb|pthread|sched|time|string|stdlib|stdint|termios|spawn|malloc|"
                    r"sanitizer/[a-z_]+|immintrin|arm_neon|emmintrin|x86intrin|cxxabi|execinfo|"
                    r"pwd|dirent|stdio|math|stddef|limits|ctype|assert|syscall|getopt|valgrind/"
                    r"[a-z]+)\.h$")
TEST_FILE = re.compile(r"(?:_test|_fuzz|_bench)\.(?:cc|h)$|/fake_[a-z_]+\.h$")


class Layers:
    def __init__(self, table):
        self.folders = table.get("folders", {})
        self.third_parties = table.get("third_parties", {})
        self.tests = set(table.get("tests", {}).get("third_party", []))
        self.public = table.get("public_headers", {})
        self.exceptions = table.get("exceptions", [])
        self.used = set()

    def faults_of_table(self):
        for index, entry in enumerate(self.exceptions):
            missing = [key for key in ("file", "includes", "reason") if not entry.get(key)]
            if missing:
                yield f"tools/layers.toml: exception {index + 1} lacks {', '.join(missing)}"
        for name, folder in self.folders.items():
            for other in folder.get("own", []):
                if other != "*" and other not in self.folders:
                    yield f"tools/layers.toml: {name} names an unknown folder {other}"
        yield from self.cycles()

    def cycles(self):
        done = set()

        def visit(name, path):
            if name in path:
                yield "tools/layers.toml: a cycle: " + " -> ".join(path[path.index(name):] + [name])
                return
            if name in done:
                return
            for other in self.folders.get(name, {}).get("own", []):
                if other != "*":
                    yield from visit(other, path + [name])
            done.add(name)

        for name in self.folders:
            yield from visit(name, [])

    def folder_of(self, path):
        """The layer a path below src/ (or an include) belongs to: the longest folder that fits."""
        parts = path.split("/")[:-1]
        for length in range(len(parts), 0, -1):
            name = "/".join(parts[:length])
            if name in self.folders:
                return name
        return None

    def third_party_of(self, include):
        for name, prefixes in self.third_parties.items():
            if any(include.startswith(prefix) for prefix in prefixes):
                return name
        return None

    def excused(self, path, include):
        for index, entry in enumerate(self.exceptions):
            if entry.get("file") == path and include.startswith(entry.get("includes", "\0")):
                self.used.add(index)
                return True
        return False

    def judge(self, path, layer, include, quoted):
        """What is wrong with `path` of `layer` including `include`, or None."""
        rules = self.folders[layer]
        in_cc = path.endswith(".cc")
        if include.startswith("weir/"):
            other = self.public.get(include, "base")
        else:
            other = self.folder_of(include)
        if other is not None:
            own = rules.get("own", [])
            if other == layer or "*" in own or other in own:
                return None
            return f"{layer} must not include {other} ({include})"
        party = self.third_party_of(include)
        if party is not None:
            if party in rules.get("third_party", []):
                return None
            if party in rules.get("third_party_cc", []):
                return None if in_cc else f"{layer} may use {party} in .cc files only"
            if TEST_FILE.search(path) and party in self.tests:
                return None
            return f"{layer} must not use {party} ({include})"
        if quoted:
            return None  # beside the file, or made by the build
        if "." not in include or SYSTEM.search(include):
            return None
        return f"an include that tools/layers.toml does not know: <{include}>"


def layer_of_file(layers, path):
    if path.startswith("src/"):
        return layers.folder_of(path[len("src/"):])
    if path.startswith("apps/"):
        return "apps"
    if path.startswith("include/"):
        return layers.public.get(path[len("include/"):], "base")
    return None


def check_text(layers, path, text):
    """Yields the faults of one file."""
    layer = layer_of_file(layers, path)
    if layer is None:
        yield f"{path}:1: the folder is not in tools/layers.toml"
        return
    for number, line in enumerate(text.splitlines(), 1):
        found = INCLUDE.match(line)
        if not found:
            continue
        fault = layers.judge(path, layer, found.group(2), found.group(1) == '"')
        if fault and not layers.excused(path, found.group(2)):
            yield f"{path}:{number}: {fault}"


def unused(layers):
    for index, entry in enumerate(layers.exceptions):
        if index not in layers.used:
            yield (f"tools/layers.toml: the exception of {entry.get('file')} for "
                   f"{entry.get('includes')} is not needed any more; take it out")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    root = parser.parse_args(arguments).root
    layers = Layers(tomllib.loads((root / "tools/layers.toml").read_text()))
    faults = list(layers.faults_of_table())
    count = 0
    for top in ("src", "apps", "include"):
        for full in sorted((root / top).rglob("*")):
            if full.suffix in {".cc", ".c", ".h"}:
                count += 1
                path = full.relative_to(root).as_posix()
                faults += check_text(layers, path, full.read_text())
    faults += unused(layers)
    for fault in faults:
        print(fault)
    print(f"layering: {count} files, {len(faults)} faults", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
