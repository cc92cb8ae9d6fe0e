# SPDX-License-Identifier: Apache-2.0
"""What was learned of a provider's limits outlives the process, over real sockets."""

import json
import os
import subprocess
import unittest

from tests.support import configs
from tests.support.processes import WEIR, Emulator, Folder, Gateway, request_json, wait_until

TOKEN = {"authorization": "Bearer test-admin-token"}


def meters(gateway):
    _, seen = request_json(gateway.admin_port, "GET", "/admin/v1/deployments", headers=TOKEN)
    return seen["deployments"][0]["meters"]


class Learned(unittest.TestCase):
    """A limit that was learned is kept from the first second of the next process on."""

    def setUp(self):
        self.folder = Folder()
        self.addCleanup(self.folder.remove)

    def load(self, gateway, seconds):
        path = self.folder.write("workload.yaml", (
            f"seed: 5\nduration: {seconds}s\narrivals: {{per_minute: 12000}}\n"
            "input_tokens: {mean: 30, sigma: 50%}\noutput_tokens: {mean: 20, sigma: 50%, cap: 40}\n"
            "stream: 50%\nretry: {attempts: 1}\n"))
        done = subprocess.run([WEIR, "load", "--url", f"http://127.0.0.1:{gateway.port}/v1",
                               "--workload", path, "--json"], capture_output=True,
                              timeout=seconds + 60, check=False)
        self.assertIn(done.returncode, (0, 1), done.stderr)

    def check(self, end, extra="stores: {state: state}\n"):
        """Told 1000 in 6 s, really 600. Returns the refusals of the second process."""
        emulator = Emulator(self.folder, configs.emulator(
            ["{unit: requests, amount: 600, per: 60s, enforce: sliding}"],
            latency="{first_token: 20ms, per_output_token: 1ms}"), time_scale=10)
        self.addCleanup(emulator.kill)
        text = configs.gateway(
            emulator.port, model="'*'", deployment_extra="counts: {rejected: false}",
            rules=["{unit: requests, amount: 1000, per: 6s, enforce: sliding}"],
            shaping="{start: empty, strategy: adaptive, guard: 60ms}",
            classes={"standard": "{max_wait: 1s, depth: 10k}"}, extra=extra)
        first = Gateway(self.folder, text)
        self.addCleanup(first.kill)
        self.load(first, 30)
        learned = meters(first)[0]
        self.assertLess(learned["kept"], 640)
        self.assertFalse(learned["recalled"])
        told = first.wait_event("limit_learned", what="limit")
        self.assertEqual((told["deployment"], told["before"]), ("main", 1000))
        self.assertLess(told["kept"], 640)
        end(first)
        before = emulator.counters()["refused"]
        second = Gateway(self.folder, text)
        self.addCleanup(second.kill)
        kept = meters(second)[0]
        self.load(second, 12)
        self.assertEqual(second.stop(), 0)
        return learned, kept, emulator.counters()["refused"] - before

    def assert_kept(self, learned, kept, refused):
        print(f"told 1000, really 600: kept {learned['kept']} before and {kept['kept']} after, "
              f"then {refused} refusals in 12 s")
        self.assertTrue(kept["recalled"])
        self.assertLess(kept["kept"], 640)
        self.assertGreater(kept["kept"], 500)
        self.assertIsNotNone(kept["refused_seconds_ago"])
        # Once or twice it is asked whether the limit rose.
        self.assertLessEqual(refused, 3)

    def test_a_learned_limit_survives_sigterm(self):
        self.assert_kept(*self.check(lambda gateway: self.assertEqual(gateway.stop(), 0)))

    def test_a_learned_limit_survives_kill_9(self):
        path = os.path.join(self.folder.path, "state")

        def written_then_killed(gateway):
            def written():
                with open(path, encoding="utf-8") as file:
                    return any("limit" in meter for meter in json.load(file)["meters"])
            wait_until(written, "the limit stands in the file", 25)
            gateway.kill()
        self.assert_kept(*self.check(written_then_killed))

    def test_without_a_file_it_is_learned_anew(self):
        _, kept, refused = self.check(lambda gateway: gateway.stop(), extra="")
        print(f"without a file: {refused} refusals in 12 s")
        self.assertFalse(kept["recalled"])
        self.assertEqual(kept["kept"], 1000)
        self.assertGreater(refused, 0)


if __name__ == "__main__":
    unittest.main()
