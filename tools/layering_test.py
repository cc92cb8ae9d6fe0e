#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A test per rule of tools/layering.py."""

import unittest

import layering

TABLE = {
    "third_parties": {"fmt": ["fmt/"], "yaml-cpp": ["yaml-cpp/"], "gtest": ["gtest/"],
                      "openssl": ["openssl/"]},
    "tests": {"third_party": ["gtest"]},
    "public_headers": {"weir/governor.h": "governor"},
    "folders": {
        "base": {"own": [], "third_party": ["fmt"]},
        "governor": {"own": ["base"]},
        "dialects": {"own": ["base"]},
        "config": {"own": ["base"], "third_party_cc": ["yaml-cpp"]},
        "emulator": {"own": ["base", "emulator/model"]},
        "emulator/model": {"own": ["base"]},
        "cli": {"own": ["*"]},
        "apps": {"own": ["*"]},
    },
}


def faults(path, *includes, table=None):
    layers = layering.Layers(table or TABLE)
    text = "".join(f"#include {include}\n" for include in includes)
    return list(layering.check_text(layers, path, text))


class Includes(unittest.TestCase):
    def clean(self, path, *includes):
        self.assertEqual(faults(path, *includes), [])

    def bad(self, path, include, words):
        found = faults(path, include)
        self.assertEqual(len(found), 1, found)
        self.assertIn(words, found[0])

    def test_itself_and_what_is_below(self):
        self.clean("src/governor/x.cc", '"governor/y.h"', '"weir/time.h"', "<vector>")

    def test_a_folder_beside(self):
        self.bad("src/governor/x.cc", '"dialects/dialect.h"', "governor must not include dialects")

    def test_public_headers_belong_to_base_unless_said(self):
        self.clean("src/dialects/x.h", '"weir/usage.h"')
        self.bad("src/dialects/x.h", '"weir/governor.h"', "must not include governor")
        self.bad("include/weir/time.h", '"weir/governor.h"', "base must not include governor")
        self.clean("include/weir/governor.h", '"weir/time.h"')

    def test_the_longest_folder_counts(self):
        self.clean("src/emulator/x.cc", '"emulator/model/rules.h"')
        self.bad("src/emulator/model/rules.cc", '"emulator/server.h"', "must not include emulator")

    def test_third_party(self):
        self.clean("src/base/x.h", "<fmt/format.h>")
        self.bad("src/governor/x.cc", "<openssl/evp.h>", "governor must not use openssl")

    def test_third_party_in_cc_only(self):
        self.clean("src/config/x.cc", "<yaml-cpp/yaml.h>")
        self.bad("src/config/x.h", "<yaml-cpp/yaml.h>", "in .cc files only")

    def test_tests_may_use_their_framework(self):
        self.clean("src/governor/x_test.cc", "<gtest/gtest.h>")
        self.clean("src/governor/fake_world.h", "<gtest/gtest.h>")
        self.bad("src/governor/x.cc", "<gtest/gtest.h>", "must not use gtest")

    def test_an_unknown_third_party(self):
        self.bad("src/base/x.cc", "<zlib.h>", "does not know")

    def test_system_headers_are_free(self):
        self.clean("src/base/x.cc", "<sys/epoll.h>", "<unistd.h>", "<cstdint>")

    def test_everything_for_the_shell(self):
        self.clean("src/cli/x.cc", '"governor/y.h"')
        self.clean("apps/weir/main.cc", '"cli/main_cli.h"')

    def test_an_unknown_folder(self):
        self.bad("src/misc/x.cc", "<vector>", "not in tools/layers.toml")


class Table(unittest.TestCase):
    def with_exceptions(self, *entries):
        return {**TABLE, "exceptions": list(entries)}

    def test_an_exception_excuses(self):
        entry = {"file": "src/config/hash.cc", "includes": "openssl/", "reason": "one hash"}
        layers = layering.Layers(self.with_exceptions(entry))
        found = layering.check_text(layers, "src/config/hash.cc", "#include <openssl/evp.h>\n")
        self.assertEqual(list(found), [])
        self.assertEqual(list(layering.unused(layers)), [])

    def test_an_unused_exception_fails(self):
        entry = {"file": "src/config/hash.cc", "includes": "openssl/", "reason": "one hash"}
        layers = layering.Layers(self.with_exceptions(entry))
        self.assertIn("not needed any more", list(layering.unused(layers))[0])

    def test_an_exception_needs_its_reason(self):
        layers = layering.Layers(self.with_exceptions({"file": "a", "includes": "b"}))
        self.assertIn("lacks reason", list(layers.faults_of_table())[0])

    def test_a_cycle_fails(self):
        table = {"folders": {"a": {"own": ["b"]}, "b": {"own": ["a"]}}}
        self.assertIn("a cycle", list(layering.Layers(table).faults_of_table())[0])

    def test_an_unknown_folder_fails(self):
        table = {"folders": {"a": {"own": ["nowhere"]}}}
        self.assertIn("unknown folder", list(layering.Layers(table).faults_of_table())[0])


if __name__ == "__main__":
    unittest.main()
