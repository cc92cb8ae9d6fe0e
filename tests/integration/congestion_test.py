# SPDX-License-Identifier: Apache-2.0
"""Strategy adaptive before a provider that answers more slowly the more it has to do: the calls in
flight stay near the knee of the emulator, whatever is asked for."""

import subprocess
import unittest

from tests.support import configs
from tests.support.processes import WEIR, Emulator, Folder, Gateway, request_json, wait_until

KNEE = 16


class Congestion(unittest.TestCase):
    def setUp(self):
        self.folder = Folder()
        self.addCleanup(self.folder.remove)

    def start(self, strategy):
        # Up to 16 in flight an answer takes a second: 16 a second, and 32 a second come.
        emulator = Emulator(self.folder, configs.emulator(
            ["{unit: requests, amount: 1000k, per: 60s, enforce: sliding}"],
            latency="{first_token: 50ms, per_output_token: 10ms, noise: 5%, "
                    f"knee: {KNEE}, slope: 100%, first_token_slope: 100%}}"))
        self.addCleanup(emulator.kill)
        gateway = Gateway(self.folder, configs.gateway(
            emulator.port, rules=["{unit: requests, amount: 1000k, per: 60s, enforce: sliding}"],
            model="'*'", shaping=f"{{start: full, strategy: {strategy}}}",
            classes={"standard": "{max_wait: 2s, depth: 10k}"}))
        self.addCleanup(gateway.kill)
        path = self.folder.write("workload.yaml", (
            "seed: 5\nduration: 40s\narrivals: {per_minute: 1920}\n"
            "input_tokens: {mean: 100, sigma: 30%}\n"
            "output_tokens: {mean: 95, sigma: 20%, cap: 200}\n"
            "stream: 100%\nretry: {attempts: 1}\n"))
        load = subprocess.Popen([WEIR, "load", "--url", f"http://127.0.0.1:{gateway.port}/v1",
                                 "--workload", path, "--json"], stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)
        self.addCleanup(load.kill)
        return gateway, load

    def test_calls_in_flight_stay_near_the_knee(self):
        gateway, load = self.start("adaptive")
        gateway.wait_event("congestion_set_in", deadline_s=35, deployment="main")
        limits = []

        def watched():
            limits.append(gateway.metric_sum("weir_congestion_limit"))
            return load.poll() is not None
        wait_until(watched, "the load's end", 90)
        settled = [limit for limit in limits if limit > 0]
        print(f"limits seen: {min(settled):.0f} to {max(settled):.0f}, the knee is {KNEE}")
        self.assertGreater(len(settled), len(limits) / 2)
        self.assertGreaterEqual(sorted(settled)[len(settled) // 2], KNEE / 2)
        self.assertLessEqual(sorted(settled)[len(settled) // 2], 3 * KNEE)
        _, seen = request_json(gateway.admin_port, "GET", "/admin/v1/deployments",
                               headers={"authorization": "Bearer test-admin-token"})
        view = seen["deployments"][0]
        self.assertAlmostEqual(view["normal_token_seconds"], 0.01, delta=0.006)
        self.assertGreater(view["normal_first_token_seconds"], 0)

    def test_shaping_lets_any_number_in(self):
        gateway, load = self.start("shaping")
        wait_until(lambda: gateway.metric_sum("weir_inflight") > 6 * KNEE, "many in flight", 35)
        self.assertEqual(gateway.metric_sum("weir_congestion_limit"), 0)
        load.kill()


if __name__ == "__main__":
    unittest.main()
