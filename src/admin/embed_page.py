#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the dashboard's files into one C++ source: embed_page.py OUTPUT WEB_FOLDER."""
import pathlib
import sys

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


def literal(data: bytes) -> str:
    """The bytes as adjacent string literals, one for each piece of the source."""
    pieces = []
    for start in range(0, len(data), 64):
        text = "".join(f"\\{byte:03o}" if byte < 32 or byte > 126 or chr(byte) in '"\\?'
                       else chr(byte) for byte in data[start:start + 64])
        pieces.append(f'    "{text}"')
    return "\n".join(pieces) or '    ""'


def main() -> int:
    output, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    files = sorted(path for path in folder.iterdir() if path.suffix in TYPES)
    lines = ["// Made by embed_page.py from web/.", '#include "admin/admin.h"', "",
             "namespace weir::admin {", "namespace {", ""]
    rows = []
    for number, path in enumerate(files):
        data = path.read_bytes()
        lines += [f"constexpr char kFile{number}[] =", literal(data) + ";", ""]
        name = "/" if path.name == "index.html" else f"/{path.name}"
        rows.append(f'    {{"{name}", "{TYPES[path.suffix]}", {{kFile{number}, {len(data)}}}}},')
    lines += ["constexpr PageFile kFiles[] = {", *rows, "};", "", "}  // namespace", "",
              "const PageFile* find_page_file(std::string_view path) {",
              "  for (const auto& file : kFiles) {", "    if (file.path == path) return &file;",
              "  }", "  return nullptr;", "}", "", "}  // namespace weir::admin", ""]
    output.write_text("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
