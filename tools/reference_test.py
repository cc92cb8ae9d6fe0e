#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tools/reference.py makes of a header."""

import unittest

import reference

HEADER = """// SPDX
#pragma once

/// What it is for.
/// Units: seconds. Errors: none.

#define LIMIT 3  ///< the most

namespace weir {

/// A pair.
struct Pair {
  int left = 0;  ///< the left one
 private:
  int hidden_ = 0;
};

/// Adds.
///   one + one
constexpr int add(int left,
                  int right) {
  return left + right;
}

/// What comes back. Not zero: an error.
enum { DONE, FAILED };

int undocumented();

}  // namespace weir
"""


class Reference(unittest.TestCase):
    def setUp(self):
        self.page = reference.page_of("pair.h", HEADER)
        self.text = "\n".join(self.page)

    def test_the_text_at_the_top_and_its_labels(self):
        self.assertEqual(self.page[:8], ["## weir/pair.h", "", "What it is for.", "",
                                         "**Units**: seconds.", "", "**Errors**: none.", ""])

    def test_each_documented_declaration_is_named(self):
        titles = [line for line in self.page if line.startswith("### ")]
        self.assertEqual(titles, ["### LIMIT", "### Pair", "### add", "### What comes back"])
        self.assertNotIn("undocumented", self.text)

    def test_private_members_and_bodies_stay_out(self):
        self.assertIn("  int left = 0;  // the left one\n};", self.text)
        self.assertNotIn("hidden_", self.text)
        self.assertIn("                  int right);\n```", self.text)
        self.assertNotIn("return", self.text)

    def test_what_is_indented_stays_a_line_of_its_own(self):
        self.assertIn("\n    one + one\n", self.text)


if __name__ == "__main__":
    unittest.main()
