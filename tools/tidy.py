#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The repository's own linter: house rules that need no compiler.

    tools/tidy.py [--root DIR] [FILE...]

Without files it reads what git tracks or would track. Each fault is one line,
`path:line: rule: what is wrong; what to do instead`; the exit code is 1 if there is any.
A line may be let off one rule, with the reason beside it:

    something();  // tidy: allow clock (why)
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

MAX_COLUMNS = 100
MAX_FILE_LINES = 800
MAX_HEADER_LINES = 400
MAX_FUNCTION_LINES = 120
MAX_BLOB_BYTES = 1 << 20

CODE = {".cc", ".c", ".h"}
SCRIPTS = {".py", ".sh", ".cmake", ".ts", ".js", ".mjs", ".css"}
# Text whose lines are data, prose or tables, or have a formatter of their own: their length is no
# matter of style here.
LONG_LINES = {".md", ".json", ".csv", ".svg", ".txt", ".yaml", ".yml", ".html", ".http", ".sse",
              ".css", ".js", ".mjs", ".ts"}
# A raw string cannot be broken without changing it, and clang-format leaves it alone.
RAW_STRING = re.compile(r'R"[^()\\ ]{0,16}\(')

# (rule, pattern, where it is allowed, what to use instead)
BANNED = [
    ("clock", re.compile(r"\b(?:steady|system|high_resolution)_clock::now\b|\bclock_gettime\s*\("),
     ("src/net/", "src/cli/", "apps/", "bench/", "tests/", "examples/"),
     "take `now` as an argument; only the shell reads a clock"),
    ("rand", re.compile(r"\bstd::(?:rand|random_device|mt19937(?:_64)?)\b|(?<![\w:.])s?rand\s*\("),
     (), "use weir::Rng with a seed that comes from outside"),
    ("sleep", re.compile(r"\bsleep_for\b|\bsleep_until\b|(?<![\w.])u?sleep\s*\(|\bnanosleep\s*\("),
     (), "wait for a condition with a deadline"),
    ("cout", re.compile(r"\bstd::c(?:out|err|log)\b|(?<![\w:.])printf\s*\("),
     ("src/cli/", "apps/", "bench/", "tests/", "examples/"),
     "write to the stream or the logger that was passed in"),
    ("regex", re.compile(r"\bstd::w?regex\b|#include <regex>"), (),
     "parse by hand; std::regex recurses on input and allocates"),
    ("format", re.compile(r"\bstd::(?:format|print|println)\b|#include <(?:format|print)>"), (),
     "use fmt; g++ 12 has neither"),
    ("throw", re.compile(r"(?<![\w\"])throw\b(?!\s*\()"), ("tests/", "bench/"),
     "return Result<T>; our code throws nothing"),
]

MARKS = re.compile(r"\b(?:TODO|FIXME|HACK|XXX)\b")
MACHINE_PATHS = re.compile(r"(?<![\w.}$])/(?:tmp|work|root|home)/[.a-z]")
SKIPPED = {".cc": re.compile(r"\bGTEST_SKIP\b|\bDISABLED_")}
for script in (".ts", ".js", ".mjs"):
    SKIPPED[script] = re.compile(r"\.skip\(|\btest\.todo\b")
ALLOW = re.compile(r"(?://|#)\s*tidy:\s*allow\s+([a-z-]+)\s+\(([^)]+)\)")
SPDX = "SPDX-License-Identifier: Apache-2.0"
# The linter and its tests must be able to name what they forbid.
OWN = {"tools/tidy.py", "tools/tidy_test.py"}


class Fault:
    def __init__(self, path, line, rule, text):
        self.path, self.line, self.rule, self.text = path, line, rule, text

    def __str__(self):
        return f"{self.path}:{self.line}: {self.rule}: {self.text}"


def without_literals(lines):
    """The lines with comments and the insides of string and character literals blanked, so that
    only code is searched for banned calls. Raw strings over several lines are followed."""
    out, in_block, raw_end = [], False, None
    for line in lines:
        kept, at = [], 0
        while at < len(line):
            rest = line[at:]
            if raw_end is not None:
                end = line.find(raw_end, at)
                if end < 0:
                    at = len(line)
                else:
                    at, raw_end = end + len(raw_end), None
            elif in_block:
                end = line.find("*/", at)
                in_block = end < 0
                at = len(line) if end < 0 else end + 2
            elif rest.startswith("//"):
                break
            elif rest.startswith("/*"):
                in_block, at = True, at + 2
            elif raw := re.match(r'R"([^()\\ ]{0,16})\(', rest):
                raw_end, at = ")" + raw.group(1) + '"', at + raw.end()
            elif line[at] == "'" and at and line[at - 1].isalnum():
                at += 1  # a digit separator
            elif line[at] in "\"'":
                quote, at = line[at], at + 1
                kept.append(quote)
                while at < len(line) and line[at] != quote:
                    at += 2 if line[at] == "\\" else 1
                kept.append(quote)
                at += 1
            else:
                kept.append(line[at])
                at += 1
        out.append("".join(kept))
    return out


def raw_string_lines(text):
    """The numbers of the lines that a raw string over several lines covers."""
    lines = set()
    for found in re.finditer(r'R"([^()\\ ]{0,16})\((?:.|\n)*?\)\1"', text):
        first = text.count("\n", 0, found.start()) + 1
        lines.update(range(first, first + found.group(0).count("\n") + 1))
    return lines


def function_lengths(code):
    """(first line, lines) of each function body: a block opened by a line that ends a parameter
    list or an initialiser list. Only bodies are measured, found by counting braces; namespaces,
    classes, enums and initialisers are blocks too, but not functions."""
    stack, found, head = [], [], ""
    for number, line in enumerate(code, 1):
        if line.lstrip().startswith("#"):
            continue
        for letter in line:
            if letter == "{":
                text = head.strip()
                is_type = re.search(r"\b(?:namespace|class|struct|enum|union)\b[^()]*$", text)
                is_function = bool(re.search(r"\)[^=;]*$", text)) and not is_type
                is_function = is_function and not re.search(r"=\s*$", text)
                stack.append((number, is_function))
                head = ""
            elif letter == "}":
                if stack:
                    first, is_function = stack.pop()
                    if is_function:
                        found.append((first, number - first + 1))
                head = ""
            elif letter == ";":
                head = ""
            else:
                head += letter
        head += " "
    return found


def check_code(path, lines, faults, allowed):
    code = without_literals(lines)
    for number, line in enumerate(code, 1):
        for rule, pattern, places, instead in BANNED:
            if path.startswith(places) if places else False:
                continue
            if rule == "throw" and not path.startswith(("src/", "include/", "apps/")):
                continue
            if pattern.search(line) and rule not in allowed.get(number, ()):
                faults.append(Fault(path, number, rule, instead))
    for first, length in function_lengths(code):
        if length > MAX_FUNCTION_LINES and "function-length" not in allowed.get(first, ()):
            faults.append(Fault(path, first, "function-length",
                                f"{length} lines; split it, at most {MAX_FUNCTION_LINES}"))
    limit = MAX_HEADER_LINES if path.endswith(".h") else MAX_FILE_LINES
    if len(lines) > limit:
        faults.append(Fault(path, limit + 1, "file-length",
                            f"{len(lines)} lines; split it by noun, at most {limit}"))
    if path.endswith(".h") and not any(line.strip() == "#pragma once" for line in lines[:4]):
        faults.append(Fault(path, 1, "pragma-once", "write #pragma once below the SPDX line"))


def check_markdown(path, lines, faults):
    titles, fenced = [], False
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced and line.startswith("# "):
            titles.append(number)
    if not titles:
        faults.append(Fault(path, 1, "title", "begin the page with one `# Title`"))
    for number in titles[1:]:
        faults.append(Fault(path, number, "title", "one `# Title` a page; make this a `##`"))


def check_lock(path, lines, faults):
    for number, line in enumerate(lines, 1):
        if '"resolved"' in line:
            faults.append(Fault(path, number, "lock-resolved",
                                "leave out `resolved`; the lock must not name one registry"))
            return


def needs_spdx(path, suffix, first):
    name = os.path.basename(path)
    if "/golden/" in path or "/corpus/" in path:
        return False
    return (suffix in CODE | SCRIPTS or name == "CMakeLists.txt" or first.startswith("#!")
            or (suffix in {".yaml", ".yml"} and path.startswith(("config/", "scenarios/"))))


def check_file(root, path, faults):
    full = root / path
    if full.is_symlink() or not full.is_file():
        return
    size = full.stat().st_size
    if size > MAX_BLOB_BYTES:
        faults.append(Fault(path, 1, "blob", f"{size} bytes; nothing over 1 MiB is committed"))
        return
    data = full.read_bytes()
    if b"\0" in data:
        return
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        if "/corpus/" not in path:
            faults.append(Fault(path, 1, "utf-8", "text is UTF-8"))
        return
    if "/corpus/" in path:
        return
    check_text(path, text, faults)


def check_text(path, text, faults):
    lines = text.splitlines()
    suffix = os.path.splitext(path)[1]
    name = os.path.basename(path)
    allowed = {}
    for number, line in enumerate(lines, 1):
        for rule, _ in ALLOW.findall(line):
            allowed.setdefault(number, set()).add(rule)
    if lines and needs_spdx(path, suffix, lines[0]) and not any(SPDX in l for l in lines[:3]):
        faults.append(Fault(path, 1, "spdx", f"begin with the line {SPDX}"))
    in_raw = raw_string_lines(text) if suffix in CODE else set()
    data_text = suffix in LONG_LINES or name in {"LICENSE", "package-lock.json"}
    for number, line in enumerate(lines, 1):
        here = allowed.get(number, ())
        raw = suffix in CODE and (number in in_raw or RAW_STRING.search(line))
        if len(line) > MAX_COLUMNS and not (data_text or raw) and "columns" not in here:
            faults.append(Fault(path, number, "columns",
                                f"{len(line)} columns; at most {MAX_COLUMNS}"))
        if path in OWN:
            continue
        if MARKS.search(line) and "mark" not in here:
            faults.append(Fault(path, number, "mark", "do it, or file it; no marks in the tree"))
        if MACHINE_PATHS.search(line) and "machine-path" not in here:
            faults.append(Fault(path, number, "machine-path",
                                "a path of one machine; make it relative or an argument"))
        if suffix in SKIPPED and SKIPPED[suffix].search(line) and "skip" not in here:
            faults.append(Fault(path, number, "skip", "a test runs or goes; say why if it must"))
        if line != line.rstrip() and suffix not in {".md", ".txt", ".http", ".sse"}:
            faults.append(Fault(path, number, "trailing-space", "cut it"))
    if suffix in CODE:
        check_code(path, lines, faults, allowed)
    if suffix == ".md" and not path.startswith("changelog.d/"):
        check_markdown(path, lines, faults)
    if name == "package-lock.json":
        check_lock(path, lines, faults)
    if re.search(r"(^|/)(utils?|common|helpers?)/", path):
        faults.append(Fault(path, 1, "folder", "name the folder by a noun of the field"))


def tracked(root):
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True, capture_output=True).stdout.decode()
    return sorted(set(name for name in listed.split("\0") if name))


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("files", nargs="*")
    options = parser.parse_args(arguments)
    faults = []
    files = options.files or tracked(options.root)
    for path in files:
        check_file(options.root, path, faults)
    for fault in faults:
        print(fault)
    print(f"tidy: {len(files)} files, {len(faults)} faults", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
