#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A test per rule of tools/tidy.py: what it must find and what it must leave alone."""

import tempfile
import unittest
from pathlib import Path

import tidy

HEAD = "// SPDX-License-Identifier: Apache-2.0\n"


def rules(path, text):
    faults = []
    tidy.check_text(path, text, faults)
    return [fault.rule for fault in faults]


class Banned(unittest.TestCase):
    def found(self, rule, code, path="src/governor/x.cc"):
        self.assertEqual(rules(path, HEAD + code + "\n"), [rule])

    def clean(self, code, path="src/governor/x.cc"):
        self.assertEqual(rules(path, HEAD + code + "\n"), [])

    def test_clock(self):
        self.found("clock", "auto t = std::chrono::steady_clock::now();")
        self.clean("auto t = std::chrono::steady_clock::now();", "src/net/x.cc")
        self.clean("auto t = std::chrono::steady_clock::now();", "src/cli/x.cc")

    def test_rand(self):
        self.found("rand", "int i = rand();")
        self.found("rand", "std::random_device d;")
        self.clean("int i = grand();")

    def test_sleep(self):
        self.found("sleep", "std::this_thread::sleep_for(x);", "tests/x.cc")
        self.found("sleep", "usleep(3);")

    def test_cout(self):
        self.found("cout", "std::cout << 1;")
        self.clean("std::cout << 1;", "apps/weir/main.cc")

    def test_regex(self):
        self.found("regex", "std::regex r;")

    def test_format(self):
        self.found("format", "std::format(x);")

    def test_throw(self):
        self.found("throw", "throw Fault{};")
        self.clean("throw Fault{};", "tests/x.cc")

    def test_comments_and_literals_are_not_code(self):
        self.clean("// std::cout, throw and rand() are not used")
        self.clean('auto s = "throw std::cout rand()";')
        self.clean("/* throw\n throw */")
        self.clean('auto s = R"(throw\nthrow)";')
        self.found("throw", "auto n = 1'000; throw n;")

    def test_a_line_is_let_off_with_a_reason(self):
        self.clean("throw 1;  // tidy: allow throw (the vendor's callback wants it)")
        self.found("throw", "throw 1;  // tidy: allow throw")


class Shape(unittest.TestCase):
    def test_columns(self):
        self.assertEqual(rules("src/a/x.cc", HEAD + "/" * 101 + "\n"), ["columns"])
        self.assertEqual(rules("docs/x.md", "# T\n" + "a" * 300 + "\n"), [])
        raw = HEAD + 'auto s = R"(' + "a" * 300 + '\n' + "b" * 300 + ')";\n'
        self.assertEqual(rules("src/a/x.cc", raw), [])

    def test_function_length(self):
        body = "".join("  f();\n" for _ in range(120))
        long_one = HEAD + "void g(int a)\n    const {\n" + body + "}\n"
        self.assertEqual(rules("src/a/x.cc", long_one), ["function-length"])
        short = HEAD + "void g() {\n" + "  f();\n" * 100 + "}\n"
        self.assertEqual(rules("src/a/x.cc", short), [])
        table = HEAD + "namespace weir {\n" + "int x;\n" * 200 + "}\n"
        self.assertEqual(rules("src/a/x.cc", table), [])
        array = HEAD + "const int k[] = {\n" + "1,\n" * 200 + "};\n"
        self.assertEqual(rules("src/a/x.cc", array), [])

    def test_file_length(self):
        self.assertEqual(rules("src/a/x.cc", HEAD + "int a;\n" * 800), ["file-length"])
        header = HEAD + "#pragma once\n" + "int a;\n" * 399
        self.assertEqual(rules("src/a/x.h", header), ["file-length"])

    def test_pragma_once(self):
        self.assertEqual(rules("src/a/x.h", HEAD + "int a;\n"), ["pragma-once"])

    def test_spdx(self):
        self.assertEqual(rules("src/a/x.cc", "int a;\n"), ["spdx"])
        self.assertEqual(rules("tools/x", "#!/bin/sh\n"), ["spdx"])

    def test_marks(self):
        self.assertEqual(rules("docs/x.md", "# T\nTODO later\n"), ["mark"])

    def test_machine_paths(self):
        self.assertEqual(rules("docs/x.md", "# T\nsee /home/me/x\n"), ["machine-path"])
        self.assertEqual(rules("docs/x.md", "# T\nsee /var/lib/weir\n"), [])

    def test_skip(self):
        self.assertEqual(rules("tests/x.cc", HEAD + "TEST(A, DISABLED_b) {}\n"), ["skip"])

    def test_trailing_space(self):
        self.assertEqual(rules("src/a/x.cc", HEAD + "int a; \n"), ["trailing-space"])

    def test_title(self):
        self.assertEqual(rules("docs/x.md", "text\n"), ["title"])
        self.assertEqual(rules("docs/x.md", "# A\n# B\n"), ["title"])
        self.assertEqual(rules("docs/x.md", "# A\n```\n# B\n```\n"), [])

    def test_lock(self):
        self.assertEqual(rules("a/package-lock.json", '{"resolved": "x"}\n'), ["lock-resolved"])

    def test_folder(self):
        self.assertEqual(rules("src/utils/x.cc", HEAD), ["folder"])

    def test_blob(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "big.bin").write_bytes(b"\0" * (tidy.MAX_BLOB_BYTES + 1))
            faults = []
            tidy.check_file(Path(folder), "big.bin", faults)
            self.assertEqual([fault.rule for fault in faults], ["blob"])

    def test_utf8(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "x.cc").write_bytes(b"\xff\xfe\n")
            faults = []
            tidy.check_file(Path(folder), "x.cc", faults)
            self.assertEqual([fault.rule for fault in faults], ["utf-8"])


if __name__ == "__main__":
    unittest.main()
