# SPDX-License-Identifier: Apache-2.0
"""The library as a stranger gets it: installed into a folder of its own, found by CMake, built into
the examples, and governing their calls to the emulator without a gateway."""

import os
import re
import subprocess
import unittest

from tests.support import configs
from tests.support.processes import Emulator, Folder

BUILD = os.environ.get("WEIR_BUILD", "build/release")
CALLS, REQUESTS, WINDOW_MS = 60, 20, 2000
# Told a little more than the truth: what a busy machine takes between "the bytes were handed to the
# kernel" and "the emulator read them" is not what is tested here.
TOLD_MS = WINDOW_MS + 200


def run(*command, **options):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=200, check=False, **options)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def figures(line):
    """`calls 60 served 60 …` as a map."""
    return {name: float(value) for name, value in re.findall(r"(\w+) ([\d.]+)", line)}


class Library(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Folder()
        cls.addClassCleanup(cls.folder.remove)
        cls.prefix = os.path.join(cls.folder.path, "prefix")
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)

    def build(self, example, *arguments):
        """The example built against the installed package alone; its program."""
        tree = os.path.join(self.folder.path, example)
        run("cmake", "-S", f"examples/{example}", "-B", tree, "-DCMAKE_BUILD_TYPE=Release",
            f"-DCMAKE_PREFIX_PATH={self.prefix}", "-DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF",
            *arguments)
        run("cmake", "--build", tree)
        return os.path.join(tree, example)

    def emulator(self):
        emulator = Emulator(self.folder, configs.emulator(
            [f"{{unit: requests, amount: {REQUESTS}, per: {WINDOW_MS}ms, enforce: sliding}}"]))
        self.addCleanup(emulator.kill)
        return emulator, f"http://127.0.0.1:{emulator.port}/v1/chat/completions"

    def judge(self, governed, bare):
        """Runs both commands, each against an emulator that has seen nothing."""
        emulator, url = self.emulator()
        told = figures(run(*governed(url)))
        counters = emulator.counters()
        print(f"governed: {told}")
        self.assertEqual((told["served"], told["provider_429"]), (CALLS, 0))
        self.assertEqual((counters["admitted"], counters["refused"]), (CALLS, 0))
        emulator, url = self.emulator()
        done = subprocess.run(bare(url), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=60, check=False)
        straight = figures(done.stdout)
        print(f"without a governor: {straight}")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertGreater(straight["provider_429"], 0)
        self.assertEqual(straight["provider_429"], emulator.counters()["refused"])

    def test_the_cpp_example_meets_no_429(self):
        program = self.build("embed", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror")
        told = ["--calls", str(CALLS), "--requests", str(REQUESTS), "--window-ms", str(TOLD_MS)]
        self.judge(lambda url: [program, *told, url],
                   lambda url: [program, *told, "--no-governor", url])

    def test_the_c_example_meets_no_429(self):
        program = self.build("embed-c", "-DCMAKE_C_FLAGS=-Wall -Wextra -pedantic -Werror")
        told = [str(CALLS), str(REQUESTS), str(TOLD_MS)]
        self.judge(lambda url: [program, url, *told],
                   lambda url: [program, "--no-governor", url, *told])

    def test_the_guides_programs_print_what_it_says(self):
        with open("docs/guide/embed.md", encoding="utf-8") as file:
            guide = file.read()
        programs = re.findall(r"```(c|cpp)\n(.*?)```\n\n```text\n(.*?)```", guide, re.DOTALL)
        self.assertEqual([language for language, _, _ in programs], ["c", "cpp"])
        libraries = os.path.dirname(self.shared_library())
        for language, source, printed in programs:
            path = self.folder.write(f"guide.{language}", source)
            program = os.path.join(self.folder.path, f"guide-{language}")
            common = ["-Wall", "-Wextra", "-Werror", f"-I{self.prefix}/include", path, "-o",
                      program]
            if language == "c":
                run("cc", "-std=c99", "-pedantic", *common, f"-L{libraries}", "-lweir",
                    f"-Wl,-rpath,{libraries}")
            else:
                run("c++", "-std=c++23", *common, os.path.join(libraries, "libweir.a"))
            self.assertEqual(run(program), printed)

    def shared_library(self):
        return next(os.path.join(place, "libweir.so") for place, _, names in os.walk(self.prefix)
                    if "libweir.so" in names)

    def test_the_package_is_the_library_and_nothing_else(self):
        files = [os.path.relpath(os.path.join(place, name), self.prefix)
                 for place, _, names in os.walk(self.prefix) for name in names]
        strange = [name for name in files if not re.fullmatch(
            r"include/weir/\w+\.h|lib.*/libweir\.(a|so[.\d]*)|lib.*/cmake/weir/weir[\w-]+\.cmake"
            r"|lib.*/pkgconfig/weir\.pc", name)]
        self.assertEqual(strange, [])
        for wanted in ("include/weir/weir.h", "include/weir/governor.h"):
            self.assertIn(wanted, files)
        # A program that was built on this machine must not be needed to use it on another.
        for name in files:
            if name.endswith((".cmake", ".pc", ".h")):
                with open(os.path.join(self.prefix, name), encoding="utf-8") as file:
                    text = file.read()
                self.assertNotIn(os.path.realpath("."), text, name)
                self.assertNotIn(self.prefix, text, name)

    def test_the_shared_library_shows_the_c_interface_only(self):
        library = self.shared_library()
        shown = [line.split()[2] for line in run("nm", "-D", "--defined-only", library).split("\n")
                 if line]
        names = {name.split("@")[0] for name in shown}
        with open(os.path.join(self.prefix, "include/weir/weir.h"), encoding="utf-8") as header:
            declared = set(re.findall(r"^WEIR_API [^(]*?(\w+)\(", header.read(), re.MULTILINE))
        self.assertEqual(names - {"WEIR_0"}, declared)
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", library))
        self.assertEqual([name for name in needed if not re.match(
            r"lib(stdc\+\+|m|gcc_s|c)\.so|ld-linux", name)], [])
        self.assertIn("[libweir.so.0]", run("readelf", "-d", library))


if __name__ == "__main__":
    unittest.main()
