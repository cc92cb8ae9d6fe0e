# SPDX-License-Identifier: Apache-2.0
"""A test case with a gateway of its own before a scripted provider."""

import unittest

from tests.support import configs
from tests.support.processes import Folder, Gateway, wait_until
from tests.support.scripted_provider import ScriptedProvider


class GatewayCase(unittest.TestCase):
    """Each test has its own gateway, provider and folder."""

    def start(self, answer, environment=None, level="info", **config):
        self.provider = ScriptedProvider(answer)
        self.addCleanup(self.provider.stop)
        self.folder = Folder()
        self.addCleanup(self.folder.remove)
        self.gateway = Gateway(self.folder, configs.gateway(self.provider.port, **config),
                               environment=environment, level=level)
        self.addCleanup(self.gateway.kill)
        self.port = self.gateway.port

    def assert_nothing_held(self):
        def free():
            metrics = self.gateway.metrics()
            return all(value == 0 for series, value in metrics.items()
                       if series.startswith(("weir_inflight", "weir_reserved",
                                             "weir_queue_depth")))
        wait_until(free, "in flight, reserved and queue depth back to 0")
