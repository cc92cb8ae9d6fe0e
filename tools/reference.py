#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the reference pages of the library from the comments of its public headers.

    tools/reference.py            writes docs/reference/c-api.md and cpp-api.md
    tools/reference.py --check    says which of them is not what the headers give; exit code 1

What stands in a page: the `///` text at the top of a header, and each declaration at the left
margin that has a `///` text above it or a `///<` text behind it. Bodies of functions and what is
private are left out; comments inside a struct stay where they are.
"""

import argparse
import re
import sys
from pathlib import Path

PAGES = {
    "c-api.md": ("C interface", ["weir.h", "weir_types.h"],
                 "Link `weir::c` (shared) or `weir::governor` (static); see "
                 "[the guide](../guide/embed.md)."),
    "cpp-api.md": ("C++ interface",
                   ["governor.h", "policy.h", "rule.h", "demand.h", "decision.h", "signal.h",
                    "usage.h", "memory.h", "reservation.h", "ids.h", "units.h", "time.h",
                    "result.h", "rng.h"],
                   "Link `weir::governor` (static); see [the guide](../guide/embed.md). It has no "
                   "stable ABI: build against the version that is linked."),
}
LABEL = re.compile(r"(?:^|(?<=[.;)] ))(Units|Errors|Threads|Time|Source|ABI|Invariants"
                   r"|Life of a call)(?= ?[:(])")
TYPE = re.compile(r"^(?:template <[^{;]*>\s*)?(?:typedef )?(?:enum|struct|class|union)\b")


def prose(lines):
    """The text of `///` lines as Markdown: labels begin a line, what is indented stays as it is."""
    out, paragraph = [], []

    def close():
        text = " ".join(paragraph)
        paragraph.clear()
        starts = [found.start() for found in LABEL.finditer(text)]
        pieces = [text[a:b].strip() for a, b in zip([0, *starts], [*starts, len(text)])]
        for piece in filter(None, pieces):
            out.extend([LABEL.sub(r"**\1**", piece, count=1), ""])

    for line in lines:
        text = line.strip().removeprefix("///").removeprefix("<").removeprefix(" ")
        if text.startswith("  "):
            if paragraph:
                close()
            if out and out[-1] == "" and len(out) > 1 and out[-2].startswith("    "):
                out.pop()
            out.extend(["    " + text.strip(), ""])
        elif text:
            paragraph.append(text)
        else:
            close()
    close()
    return out


def take_declaration(lines, at):
    """The lines of the declaration that begins at `at`, and the line after it."""
    taken, depth, entered = [], 0, False
    while at < len(lines):
        line = lines[at]
        code = line.split("//")[0]
        depth += code.count("{") - code.count("}") + code.count("(") - code.count(")")
        entered = entered or "{" in code
        taken.append(line)
        at += 1
        if depth == 0 and (code.rstrip().endswith(";") or (entered and "}" in code)):
            break
    return taken, at


def shown(declaration):
    """The declaration as a page shows it."""
    text = "\n".join(declaration)
    if TYPE.match(text):
        text = re.sub(r"\n private:.*\n(?=\};)", "\n", text, flags=re.DOTALL)
        lines = text.replace("///<", "//").replace("///", "//").split("\n")
    else:
        lines = re.sub(r"\s*\{.*", ";", text, flags=re.DOTALL).split("\n")
    return [line.rstrip() for line in lines]


def name_of(declaration, text):
    """What the declaration is called: its identifier or, for what has none, its first sentence."""
    code = " ".join(line.split("//")[0].strip() for line in declaration)
    code = re.sub(r"^template <[^>]*>\s*", "", code)
    if found := re.match(r"#define (\w+)", code):
        return found.group(1)
    if found := re.match(r"(?:typedef )?(?:enum class|enum|struct|class)\s*(?:\[\[\w+\]\]\s*)?"
                         r"(\w+)", code):
        return found.group(1)
    if TYPE.match(code):
        return re.split(r"[.:](?:\s|$)", " ".join(line.strip("/ ") for line in text))[0]
    if found := re.match(r"using (\w+) =", code) or re.match(r"typedef \S+ (\w+);", code):
        return found.group(1)
    if found := re.search(r"(\w+)\(", code.removeprefix("WEIR_API ")):
        return found.group(1)
    found = re.search(r"(\w+)\s*(?:=.*)?;", code)
    return found.group(1) if found else code


def page_of(header, text):
    """The section of one header."""
    lines = text.split("\n")
    out = [f"## weir/{header}", ""]
    at, comment = 0, []
    while at < len(lines):
        line = lines[at]
        if line.startswith("///"):
            comment.append(line)
            at += 1
        elif comment and not line.strip():
            out += prose(comment)
            comment, at = [], at + 1
        elif comment or ("///<" in line and re.match(r"#define|typedef", line)):
            declaration, after = take_declaration(lines, at) if comment else ([line], at + 1)
            if not comment:
                comment = [line[line.index("///<"):]]
                declaration = [line[:line.index("///<")]]
            out += [f"### {name_of(declaration, comment)}", "", "```cpp", *shown(declaration),
                    "```", "", *prose(comment)]
            comment, at = [], after
        else:
            at += 1
    return out


def made(root, page):
    title, headers, first = PAGES[page]
    out = [f"# {title}", "", "Made from the headers by `tools/reference.py`; a test keeps it true.",
           first, ""]
    for header in headers:
        out += page_of(header, (root / "include/weir" / header).read_text())
    return "\n".join(out).rstrip() + "\n"


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    stale = []
    for page in PAGES:
        path = options.root / "docs/reference" / page
        text = made(options.root, page)
        if not options.check:
            path.write_text(text)
        elif not path.is_file() or path.read_text() != text:
            stale.append(page)
    for page in stale:
        print(f"docs/reference/{page}:1: not what the headers give; run tools/reference.py")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
