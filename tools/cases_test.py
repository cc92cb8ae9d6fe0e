#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of tools/cases.py."""

import unittest

import cases

PAGE = """# Cases

| case | what | test | notes |
| --- | --- | --- | --- |
| T061 | admission | `Governor.T061_Admission` | |
"""


class Cases(unittest.TestCase):
    def test_a_running_test_satisfies_its_row(self):
        self.assertEqual(cases.faults_of(PAGE, ["Governor.T061_Admission"]), [])

    def test_no_test(self):
        found = cases.faults_of(PAGE, ["Governor.T062_Admission", "Governor.T0610_X"])
        self.assertIn("no running test that carries its id", found[0])

    def test_another_name_than_the_row_says(self):
        found = cases.faults_of(PAGE, ["Governor.T061_Other"])
        self.assertEqual(len(found), 1)
        self.assertIn("is named Governor.T061_Admission", found[0])

    def test_a_case_twice(self):
        found = cases.faults_of(PAGE + "| T061 | again | | |\n", ["Governor.T061_Admission"])
        self.assertIn("already", found[0])

    def test_a_broken_row(self):
        found = cases.faults_of(PAGE + "| T062 | two cells\n", ["Governor.T061_Admission"])
        self.assertIn("not a row", found[0])

    def test_an_empty_page(self):
        self.assertIn("empty", cases.faults_of("# Cases\n", [])[0])


if __name__ == "__main__":
    unittest.main()
